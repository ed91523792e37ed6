//! The envelopes of the demo: for each way to end, one that ends so.
//!
//! Owns what each is, what is done to it at the stand-ins, and how it should end. It must not know the
//! worker.

use std::io;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::outcome::AckStatus;
use crate::sandbox::examples::{self, Example};
use crate::sandbox::{Fault, Sandbox, Subscription};

/// How long the envelope with a `not_before` waits for it.
const WAIT: TimeDelta = TimeDelta::seconds(3);

/// One envelope and its part in the show.
#[derive(Debug, Clone)]
pub(super) struct Role {
    /// Its id, also the name that the show calls it by.
    pub(super) id: &'static str,
    /// What is odd about it, or what happens to it on the way.
    pub(super) story: &'static str,
    /// How it should end.
    pub(super) expected: Expected,
    /// The envelope.
    pub(super) example: Example,
    /// What the provider knows it by: the Idempotency-Key of a mail, the token of a subscription.
    pub(super) target: String,
}

/// How an envelope should end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// With this status, after so many requests to its provider, and this in the ack's detail.
    Acked { status: AckStatus, attempts: usize, detail: &'static str },
    /// Accepted at the first attempt, and this is what became of it.
    Later { status: AckStatus, detail: &'static str },
    /// Neither sent nor acked, because it is not listed any more.
    Withdrawn,
    /// Neither sent nor acked, still listed, and reported.
    LeftAlone,
}

impl Role {
    /// The envelope as the app writes it.
    pub(super) fn envelope(&self) -> Value {
        self.example.clone().into()
    }

    fn with(self, change: impl FnOnce(Example) -> Example) -> Role {
        Role { example: change(self.example), ..self }
    }
}

const fn delivered(attempts: usize) -> Expected {
    Expected::Acked { status: AckStatus::Delivered, attempts, detail: "" }
}

const fn failed(attempts: usize, detail: &'static str) -> Expected {
    Expected::Acked { status: AckStatus::Failed, attempts, detail }
}

/// Makes the envelopes, and sets the stand-ins up for what is to happen to them. The one that is to be
/// withdrawn comes first, so that it is on every page.
///
/// # Errors
/// No keys can be made for the browsers.
pub(super) fn cast(sandbox: &Sandbox) -> io::Result<Vec<Role>> {
    let mut cast = vec![withdrawn()];
    cast.extend(smooth(sandbox)?);
    cast.extend(troubled_mails(sandbox));
    cast.extend(troubled_pushes(sandbox)?);
    cast.extend(unsendable(sandbox));
    Ok(cast)
}

fn withdrawn() -> Role {
    let in_a_day = Utc::now() + TimeDelta::days(1);
    mail("mail-withdrawn", "withdrawn while it waits", Expected::Withdrawn)
        .with(|example| example.set("/not_before", instant(in_a_day)))
}

fn smooth(sandbox: &Sandbox) -> io::Result<Vec<Role>> {
    let (phone, laptop) = (sandbox.push.subscribe()?, sandbox.push.subscribe()?);
    let nudge = |id: &str| examples::nudge(id, &phone).to_address("nils@example.com");
    let soon = Utc::now() + WAIT;
    Ok(vec![
        mail("mail-digest", "nothing", delivered(1)),
        mail("mail-nudge", "nothing", delivered(1)).with(|_| nudge("mail-nudge")),
        mail("mail-not-before", "comes three seconds before its not_before", delivered(1))
            .with(|example| example.set("/not_before", instant(soon))),
        push("push-digest", "nothing", delivered(1), &laptop)
            .with(|_| examples::digest("push-digest", "").to_browser(&laptop)),
        push("push-nudge", "nothing", delivered(1), &phone),
    ])
}

fn troubled_mails(sandbox: &Sandbox) -> Vec<Role> {
    let faults = sandbox.resend.faults();
    let outage = json!({"statusCode": 503, "name": "service_unavailable", "message": "try again"});
    faults.add(Fault::answer((StatusCode::SERVICE_UNAVAILABLE, Json(outage))).on("mail-503"));
    faults.add(Fault::cut().after_accepting().on("mail-answer-lost"));
    vec![
        mail("mail-503", "Resend answers 503 to the first attempt", delivered(2)),
        mail("mail-answer-lost", "accepted, but the answer is lost: the same key again", delivered(2)),
        mail(
            "mail-bounced",
            "accepted, and comes back two seconds later",
            Expected::Later { status: AckStatus::Bounced, detail: "mail bounced" },
        )
        .with(|example| example.to_address("bounced@example.com")),
        mail(
            "mail-suppressed",
            "accepted, but on Resend's suppression list",
            Expected::Later { status: AckStatus::Suppressed, detail: "suppression list" },
        )
        .with(|example| example.to_address("suppressed@example.com")),
    ]
}

fn troubled_pushes(sandbox: &Sandbox) -> io::Result<Vec<Role>> {
    let (gone, busy, hostile) =
        (sandbox.push.subscribe()?, sandbox.push.subscribe()?, sandbox.push.subscribe()?);
    sandbox.push.unsubscribe(&gone.token);
    let faults = sandbox.push.faults();
    faults.add(Fault::answer((StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")])).on(&busy.token));
    faults.add(Fault::redirect("http://169.254.169.254/latest/meta-data/").on(&hostile.token));
    let bounced = Expected::Acked { status: AckStatus::Bounced, attempts: 1, detail: "subscription gone" };
    Ok(vec![
        push("push-gone", "the browser's subscription has ended: 410", bounced, &gone),
        push("push-throttled", "429 with Retry-After: 1 to the first attempt", delivered(2), &busy),
        push(
            "push-hostile",
            "its endpoint redirects into the private network",
            failed(1, "endpoint forbidden"),
            &hostile,
        ),
    ])
}

fn unsendable(sandbox: &Sandbox) -> Vec<Role> {
    sandbox.seam.list_expired(true);
    let an_hour_ago = Utc::now() - TimeDelta::hours(1);
    vec![
        mail("mail-poison", "an item of its payload has no graph_refs", failed(0, "graph_refs"))
            .with(|example| example.set("/payload/sections/0/items/0/graph_refs", json!([]))),
        mail("mail-malformed", "has no created_at", failed(0, "created_at"))
            .with(|example| example.without("created_at")),
        mail("mail-expired", "is listed although it has expired", failed(0, "expired"))
            .with(|example| example.set("/expires_at", instant(an_hour_ago))),
        mail("mail-unverified", "its address is not verified", failed(0, "email_verified"))
            .with(|example| example.set("/recipient/email_verified", false)),
        mail("mail-version-2", "its schema_version is one of the future", Expected::LeftAlone)
            .with(|example| example.set("/schema_version", "2")),
    ]
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A digest by mail, each to a reader of its own.
fn mail(id: &'static str, story: &'static str, expected: Expected) -> Role {
    let example = examples::digest(id, &format!("{id}@example.com"));
    Role { id, story, expected, example, target: id.to_owned() }
}

/// A nudge by push.
fn push(id: &'static str, story: &'static str, expected: Expected, to: &Subscription) -> Role {
    Role { id, story, expected, example: examples::nudge(id, to), target: to.token.clone() }
}
