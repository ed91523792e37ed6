//! The five hundred envelopes, what is to become of each, and the troubles that are laid for them.
//!
//! Owns every expectation: the verdict only compares. Fifty readers have a record of five digests and one
//! of five nudges each; what befalls a reader goes by the last digit of their number.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::examples::{Example, digest, nudge};
use delivery_worker::sandbox::{Fault, Faults, Subscription};
use serde_json::{Value, json};

use crate::harness::Stage;

const READERS: usize = 50;
/// What each reader gets on each channel.
const WEEKS: usize = 5;
/// The outbox fills in so many steps.
pub(super) const HALF_WEEKS: usize = 2 * WEEKS;
/// In the week of this number some readers' envelopes have a payload that no template takes.
const BROKEN_WEEK: usize = 2;

/// One envelope of the five hundred.
pub(super) struct Part {
    /// Its id.
    pub(super) id: String,
    /// Its record: what must stay in order.
    pub(super) record: String,
    /// What must become of it.
    pub(super) fate: Fate,
}

/// What must become of an envelope that nobody withdraws.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It arrives.
    Arrives,
    /// It cannot be sent, or is refused for good.
    Fails,
    /// Its browser is gone: the first one bounces, which ends the consent for the rest.
    Bounces,
}

impl Fate {
    /// The one status that it may be acked with.
    pub(super) fn status(self) -> AckStatus {
        match self {
            Fate::Arrives => AckStatus::Delivered,
            Fate::Fails => AckStatus::Failed,
            Fate::Bounces => AckStatus::Bounced,
        }
    }
}

/// Everybody, in the outbox's order.
pub(super) struct Cast {
    /// The envelopes.
    pub(super) parts: Vec<Part>,
    /// Junk that has an id: it fails.
    pub(super) junk: Vec<String>,
    /// The token of each browser, with its record.
    pub(super) browsers: BTreeMap<String, String>,
    readers: Vec<Subscription>,
}

impl Cast {
    /// The readers, with the troubles that they have for good. Nothing is enqueued yet.
    pub(super) fn new(stage: &Stage) -> Cast {
        let readers: Vec<Subscription> = (0..READERS).map(|_| stage.push.subscribe().unwrap()).collect();
        for (reader, browser) in readers.iter().enumerate() {
            match reader % 10 {
                3 => stage.push.unsubscribe(&browser.token),
                5 => {
                    let refused = refused(StatusCode::BAD_REQUEST, "no such key");
                    stage.push.faults().add(refused.on(&browser.token));
                }
                _ => {}
            }
        }
        let browsers = readers.iter().enumerate().map(|(n, b)| (b.token.clone(), record("push", n)));
        Cast { parts: Vec::new(), junk: Vec::new(), browsers: browsers.collect(), readers }
    }

    /// The app writes the next fifty, and junk among them: half of the readers' week, by mail and push.
    pub(super) fn enqueue(&mut self, stage: &Stage, half_week: usize) {
        let (week, half) = (half_week / 2, half_week % 2);
        let readers = self.readers.clone().into_iter().enumerate();
        for (reader, browser) in readers.skip(half * READERS / 2).take(READERS / 2) {
            self.mail(stage, reader, week);
            self.push(stage, (reader, &browser), week);
            if reader % 10 == 9 {
                self.junk(stage, week * READERS + reader);
            }
        }
    }

    fn mail(&mut self, stage: &Stage, reader: usize, week: usize) {
        let id = format!("mail-{reader}-{week}");
        let mut example = digest(&id, &format!("reader-{reader}@example.com"));
        let fate = match reader % 10 {
            5 => {
                // Each in other words: the same said of three mails in a row would be about the sender.
                let message = format!("The `to` address of week {week} for {reader} is not one.");
                let refused = refused(StatusCode::UNPROCESSABLE_ENTITY, &message);
                stage.resend.faults().add(refused.on(&id));
                Fate::Fails
            }
            7 if week == BROKEN_WEEK => {
                example = example.set("/payload/sections/0/items/0/deep_link", "//elsewhere.test/");
                Fate::Fails
            }
            _ => {
                lay(stage.resend.faults(), &id, reader * WEEKS + week);
                Fate::Arrives
            }
        };
        lay_ack(stage.seam.ack_faults(), &id, reader * WEEKS + week + 3);
        self.cue(stage, reader, "email", (id, example, fate));
    }

    fn push(&mut self, stage: &Stage, (reader, browser): (usize, &Subscription), week: usize) {
        let id = format!("push-{reader}-{week}");
        // What a click opens tells one nudge from another, however it was sent.
        let mut example = nudge(&id, browser).set("/payload/lead/deep_link", format!("/player/{id}"));
        let fate = match reader % 10 {
            3 => Fate::Bounces,
            5 => Fate::Fails,
            7 if week == BROKEN_WEEK => {
                example = example.set("/payload/lead", json!({"quote": "no references"}));
                Fate::Fails
            }
            _ => {
                // Faults go by the browser, whichever nudge comes first: two for each are enough.
                if week < 2 {
                    lay(stage.push.faults(), &browser.token, reader + week * WEEKS);
                }
                Fate::Arrives
            }
        };
        lay_ack(stage.seam.ack_faults(), &id, reader * WEEKS + week + 6);
        self.cue(stage, reader, "push", (id, example, fate));
    }

    fn cue(
        &mut self,
        stage: &Stage,
        reader: usize,
        channel: &'static str,
        (id, example, fate): (String, Example, Fate),
    ) {
        stage.seam.enqueue(example.set("/user_id", format!("reader-{reader}")));
        self.parts.push(Part { id, record: record(channel, reader), fate });
    }

    /// Elements that are no envelopes, or none that this build can read.
    fn junk(&mut self, stage: &Stage, n: usize) {
        let id = format!("junk-{n}");
        stage.seam.enqueue(json!({"id": id, "kind": 42}));
        stage.seam.enqueue([Value::Null, json!(7), json!("text"), json!({"id": 5})][n % 4].clone());
        let later = digest(&format!("later-{n}"), "later@example.com").set("/schema_version", "2");
        stage.seam.enqueue(later);
        self.junk.push(id);
    }
}

fn record(channel: &str, reader: usize) -> String {
    format!("{channel} of reader {reader}")
}

fn refused(status: StatusCode, message: &str) -> Fault {
    let body = json!({"name": "validation_error", "message": message});
    Fault::answer((status, Json(body))).always()
}

/// Strikes one request about `name` at a provider, or two, or none, as `n` has it.
fn lay(faults: &Faults, name: &str, n: usize) {
    let fault = match n % 16 {
        0 => Fault::cut(),
        2 => Fault::cut().after_accepting(),
        4 => Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).times(2),
        6 => Fault::answer(StatusCode::BAD_GATEWAY).after_accepting(),
        8 => Fault::answer((StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")])),
        10 => Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).after_accepting(),
        // A rate limit stops all mail for its second: a few are enough.
        12 if n.is_multiple_of(3) => Fault::answer((StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")])),
        _ => return,
    };
    faults.add(fault.on(name));
}

/// The same for acks.
fn lay_ack(faults: &Faults, id: &str, n: usize) {
    let fault = match n % 12 {
        0 => Fault::cut(),
        2 => Fault::cut().after_accepting(),
        4 => Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).times(2),
        6 => Fault::answer(StatusCode::BAD_GATEWAY).after_accepting(),
        8 => Fault::answer(StatusCode::SERVICE_UNAVAILABLE),
        10 => Fault::redirect("http://127.0.0.1:9/login"),
        _ => return,
    };
    faults.add(fault.on(id));
}
