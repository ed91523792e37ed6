//! `docs/outcomes.md` says what the code does: its tables are built here, from the rows that the channels'
//! own tests hold against their code, and from what each cause costs.

use std::collections::BTreeSet;

use super::confirm::Fate;
use super::email::{self, EmailChannel};
use super::push::{self, PushChannel, VapidKey, VapidSubject};
use super::*;
use crate::http::Trouble;
use crate::outcome::{AckStatus, Cost, Scope};

const DOCUMENT: &str = include_str!("../../docs/outcomes.md");
const HEADER: [&str; 5] = ["what happened", "outcome", "cause", "costs", "run"];

/// What happened, what it means, and why.
type Told = (String, Outcome, Cause);

fn resend() -> Vec<Told> {
    use email::table::{NO_JSON, OTHER_BODY_AFTER_REFUSAL, SUCCESSES, TABLE, about};
    let mut told: Vec<(u16, Told)> = Vec::new();
    for (body, outcome, cause) in SUCCESSES {
        let body = serde_json::from_slice(body).unwrap_or(serde_json::Value::Null);
        let has_id = body["id"].as_str().is_some_and(|id| !id.is_empty());
        let said = if has_id { "2xx with the id of a mail" } else { "2xx without one" };
        told.push((200, (said.to_owned(), outcome.clone(), *cause)));
    }
    for row in TABLE {
        let (status, name, _, outcome, cause) = row;
        let name = match *name {
            "" => String::new(),
            "anything" if TABLE.iter().filter(|row| row.0 == *status).count() == 1 => String::new(),
            "anything" => " with any other name".to_owned(),
            name => format!(" `{name}`"),
        };
        told.push((*status, (format!("{status}{name}{}", about(row)), outcome.clone(), *cause)));
    }
    let (outcome, cause) = OTHER_BODY_AFTER_REFUSAL;
    let said = "409 `invalid_idempotent_request` after this process was refused";
    told.push((409, (said.to_owned(), outcome, cause)));
    for (status, outcome, cause) in NO_JSON {
        told.push((*status, (format!("{status} that is no JSON"), outcome.clone(), *cause)));
    }
    told.sort_by_key(|(status, _)| *status);
    told.into_iter().map(|(_, told)| told).collect()
}

fn push_services() -> Vec<Told> {
    use push::table::{EVERY_SERVICE, SOME_SERVICES, service};
    let every =
        EVERY_SERVICE.iter().map(|(status, outcome, cause)| (status.to_string(), outcome.clone(), *cause));
    let some = SOME_SERVICES.iter().map(|row| {
        let (_, status, headers, body, outcome, cause) = row;
        let fields = headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let said = fields.chain([(*body).to_owned()]).filter(|said| !said.is_empty());
        let said: String = said.map(|said| format!(" `{said}`")).collect();
        (format!("{}: {status}{said}", service(row)), outcome.clone(), *cause)
    });
    every.chain(some).collect()
}

fn of_attempt((said, attempt): (&str, Attempt)) -> Told {
    (said.to_owned(), attempt.outcome, attempt.cause)
}

fn push_without_answer() -> Vec<Told> {
    push::without_answer().into_iter().map(of_attempt).collect()
}

fn no_answer() -> Vec<Told> {
    let refused =
        |said: &str, cause| of_attempt((said, Attempt::refusal(Refusal::new(cause, Detail::default()))));
    let trouble = |said: &str, cause, may_have_arrived| {
        of_attempt((said, email::no_answer(Trouble { cause, may_have_arrived })))
    };
    vec![
        refused("a field of the envelope is missing or wrong", Cause::Malformed),
        refused("this build has no such channel", Cause::UnknownChannel),
        refused("no template of that name serves the channel", Cause::NoTemplate),
        refused(
            "the payload does not fit the template, or holds a link that is not allowed",
            Cause::PayloadInvalid,
        ),
        refused("the template could not be rendered", Cause::RenderFailed),
        refused("what was rendered is too large", Cause::TooLarge),
        refused("the address, or the subscription or its keys, cannot be used", Cause::RecipientInvalid),
        refused("past `expires_at`, or a push without one that is a week old", Cause::Expired),
        refused("unclear for longer than the provider's key protects", Cause::OutcomeUnknown),
        refused("reading the envelope panicked: a defect", Cause::Panic),
        trouble("the connection was refused, or nothing is there", Cause::Connect, false),
        trouble("the name did not resolve", Cause::Dns, false),
        trouble("the TLS handshake failed", Cause::Tls, false),
        trouble("no connection in time", Cause::Timeout, false),
        trouble("no whole answer in time", Cause::Timeout, true),
        trouble("the connection was cut after the request", Cause::Reset, true),
        of_attempt(("the delivery panicked: a defect", Attempt::panicked())),
    ]
}

fn outcome(outcome: &Outcome) -> String {
    let (scope, after) = match outcome {
        Outcome::Pause { scope: Scope::Destination, after } => (" of the destination", *after),
        Outcome::Pause { scope: Scope::Provider, after } => (" of the provider", *after),
        Outcome::Retry { after } | Outcome::Unclear { after } => ("", *after),
        Outcome::Delivered { .. }
        | Outcome::Accepted { .. }
        | Outcome::Bounced
        | Outcome::Complained
        | Outcome::Suppressed
        | Outcome::Failed => ("", None),
    };
    let after = after.map(|after| format!(", {} s", after.as_secs())).unwrap_or_default();
    format!("{}{scope}{after}", outcome.label())
}

fn cost(outcome: &Outcome, cause: Cause) -> &'static str {
    match (outcome.ack_status(), cause.cost()) {
        (Some(_), _) => "ends it",
        (None, Cost::Always) => "an attempt",
        (None, Cost::IfOthersPass) => "an attempt if others pass",
        (None, Cost::OnceAccepted) => "an attempt once the gate has accepted",
        (None, Cost::Never) => "nothing",
    }
}

fn run(gating: Gating, cause: Cause) -> &'static str {
    match cause.streak().filter(|streak| gating.counts(*streak)) {
        None => "",
        Some(Streak::Outage) => "outage",
        Some(Streak::Credential) => "credential",
        Some(Streak::Blocked) => "blocked",
        Some(Streak::Throttled) => "throttled",
        Some(Streak::Refusal) => "refusal",
        Some(Streak::Unexpected) => "unexpected",
    }
}

fn line<S: AsRef<str>>(cells: impl IntoIterator<Item = S>) -> String {
    let cells = cells.into_iter().map(|cell| format!(" {} ", cell.as_ref().replace('|', "\\|")));
    format!("|{}|", cells.collect::<Vec<_>>().join("|"))
}

/// The table in Markdown; rows that read alike stand once.
///
/// # Panics
/// Two rows tell the same happening in two ways: who looks it up would find the wrong one.
fn table(gating: Gating, told: &[Told]) -> String {
    let mut lines = vec![line(HEADER), line(HEADER.map(|_| "---"))];
    lines.extend(rows(gating, told));
    lines.join("\n")
}

fn rows(gating: Gating, told: &[Told]) -> Vec<String> {
    let mut rows: Vec<[&str; 5]> = Vec::new();
    let outcomes: Vec<String> = told.iter().map(|(_, means, _)| outcome(means)).collect();
    for ((said, means, cause), outcome) in told.iter().zip(&outcomes) {
        let row = [said, outcome.as_str(), cause.label(), cost(means, *cause), run(gating, *cause)];
        match rows.iter().find(|other| other[0] == row[0]) {
            Some(other) => assert_eq!(*other, row, "one happening in two ways"),
            None => rows.push(row),
        }
    }
    rows.into_iter().map(line).collect()
}

/// The table that stands in the document under `heading`.
fn documented(heading: &str) -> String {
    let sections = DOCUMENT.split("\n## ");
    let section = sections.into_iter().find(|section| section.lines().next() == Some(heading));
    let lines = section.unwrap_or_default().lines();
    lines.filter(|line| line.starts_with('|')).collect::<Vec<_>>().join("\n")
}

fn assert_documented(heading: &str, expected: &str) {
    assert!(
        documented(heading) == expected,
        "the table under `## {heading}` of docs/outcomes.md is not what the code says, which is:\n\n{expected}\n"
    );
}

fn channels() -> [Box<dyn Channel>; 2] {
    let mail = email::Settings {
        api_key: "re_s3cret".into(),
        from: "digest@news.test".to_owned(),
        reply_to: None,
        base_url: "https://api.resend.com".parse().unwrap(),
        rate: Rate::Unlimited,
        ack: email::AckAt::Acceptance,
    };
    let push = push::Settings {
        key: VapidKey::generate().unwrap(),
        subject: VapidSubject::parse("mailto:ops@news.example.org").unwrap(),
        allow_private_endpoints: false,
    };
    [Box::new(EmailChannel::new(mail).unwrap()), Box::new(PushChannel::new(push).unwrap())]
}

#[test]
fn the_document_tells_each_answer_of_resend() {
    let [email, _] = channels();
    assert_documented("Resend", &table(email.gating(), &resend()));
}

#[test]
fn the_document_tells_each_answer_of_push_services() {
    let [_, push] = channels();
    assert_documented("Push services", &table(push.gating(), &push_services()));
}

#[test]
fn the_document_tells_what_happens_without_an_answer() {
    let [email, push] = channels();
    let of_either = table(email.gating(), &no_answer());
    let of_push = rows(push.gating(), &push_without_answer());
    assert_documented("Without an answer", &[vec![of_either], of_push].concat().join("\n"));
}

#[test]
fn the_document_tells_how_long_sending_again_is_harmless() {
    let mut lines = vec![line(["channel", "sent again for at most"]), line(["---", "---"])];
    for channel in channels() {
        let window = channel.redelivery_window();
        let window = window.map_or("no limit of its own".to_owned(), |w| format!("{} h", w.as_secs() / 3600));
        lines.push(line([channel.name().as_str(), &window]));
    }
    assert_documented("Why sending again is harmless", &lines.join("\n"));
}

#[test]
fn every_table_of_the_document_is_held_to_the_code() {
    let tables = DOCUMENT.split("\n## ").filter(|section| section.lines().any(|line| line.starts_with('|')));
    let headings: Vec<_> = tables.filter_map(|section| section.lines().next()).collect();
    let held =
        ["Resend", "After acceptance", "Push services", "Without an answer", "Why sending again is harmless"];
    assert_eq!(headings, held, "a table that no test builds would grow stale");
}

/// What a mail's later events mean: event, ack, cause.
fn later() -> Vec<[String; 3]> {
    let word = |event: &str, fate: Fate| match fate.end() {
        Some((status, cause)) => [format!("`{event}`"), status.to_string(), cause.label().to_owned()],
        None => [format!("`{event}`"), "none yet: it goes on waiting".to_owned(), String::new()],
    };
    let mut rows: Vec<_> = email::EVENTS.iter().map(|(event, fate)| word(event, *fate)).collect();
    rows.push(word("any other word", Fate::Open));
    let unconfirmed = [AckStatus::Delivered.to_string(), Cause::Unconfirmed.label().to_owned()];
    for said in [
        "none that ends it within `DELIVERY_CONFIRM_WINDOW`",
        "more than half of the window wait: the oldest",
    ] {
        let [status, cause] = unconfirmed.clone();
        rows.push([said.to_owned(), status, cause]);
    }
    rows
}

#[test]
fn the_document_tells_what_a_mails_later_events_mean() {
    let mut lines = vec![line(["`last_event`", "ack", "cause"]), line(["---"; 3])];
    lines.extend(later().iter().map(line));
    assert_documented("After acceptance", &lines.join("\n"));
}

#[test]
fn no_cause_is_left_out_of_the_document() {
    let followed = Cause::ALL.into_iter().filter(|cause| later().iter().any(|row| row[2] == cause.label()));
    let all = [resend(), push_services(), no_answer(), push_without_answer()].concat();
    let told: BTreeSet<Cause> = all.into_iter().map(|(_, _, cause)| cause).chain(followed).collect();
    assert_eq!(told, Cause::ALL.into_iter().collect());
}
