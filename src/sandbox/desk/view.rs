//! What the page is told, as JSON.
//!
//! Owns the shape of it. It does no I/O and decides nothing.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::ledger::{Account, Key, Ledger, Line, Message};
use crate::sandbox::Sandbox;
use crate::sandbox::faults::{Fault, Faults};
use crate::sandbox::journal::{ReceivedMail, ReceivedPush, Totals};
use crate::sandbox::seam::{Listing, Standing};

/// The most rows that the page shows: a browser takes no thousands of them, several times a second.
const ROWS: usize = 300;

/// What is made to fail, place by place.
pub(super) fn faults(sandbox: &Sandbox) -> [(&'static str, &Faults); 4] {
    [
        ("mail", sandbox.resend.faults()),
        ("push", sandbox.push.faults()),
        ("ack", sandbox.seam.ack_faults()),
        ("page", sandbox.seam.page_faults()),
    ]
}

/// Everything that changes, newest first.
pub(super) fn state(
    ledger: &Ledger,
    listings: &[Listing],
    totals: Totals,
    faults: &[(&str, &Faults)],
) -> Value {
    let strangers = ledger.strangers().filter_map(|(key, account)| stranger(key, account));
    let envelopes = listings.iter().rev().map(|listing| envelope(ledger, listing));
    let rows: Vec<Value> = envelopes.chain(strangers).take(ROWS).collect();
    let all = listings.len() + ledger.strangers().count();
    json!({
        "hidden": all - rows.len(),
        "rows": rows,
        "totals": {
            "pages": totals.pages, "acks": totals.acks, "mails": totals.mails, "pushes": totals.pushes,
        },
        "faults": faults.iter().map(|(at, faults)| json!({
            "at": at,
            "armed": faults.armed().iter().map(armed).collect::<Vec<_>>(),
            "held": faults.held(),
        })).collect::<Vec<_>>(),
        "notices": ledger.notices.iter().rev().take(5).map(line).collect::<Vec<_>>(),
    })
}

fn armed(fault: &Fault) -> Value {
    json!({"what": fault.to_string(), "always": fault.is_for_ever(), "on": fault.target()})
}

fn envelope(ledger: &Ledger, listing: &Listing) -> Value {
    let key = Key::Envelope(listing.number);
    let text = |pointer: &str| listing.element.pointer(pointer).and_then(Value::as_str);
    let account = ledger.account(key);
    json!({
        "key": key.to_string(),
        "id": text("/id"),
        "template": text("/template"),
        "channel": text("/channel"),
        "to": text("/recipient/email").or(account.and_then(Account::token)),
        "status": status(listing, Utc::now()),
        "attempts": account.map_or(0, |account| account.attempts),
        "detail": account.and_then(|account| account.detail.clone()),
        "since": listing.since.timestamp_millis(),
        "sent": account.is_some_and(|account| account.message.is_some()),
    })
}

/// A mail whose envelope is in another outbox.
fn stranger(key: Key, account: &Account) -> Option<Value> {
    let Some(Message::Mail(mail)) = &account.message else { return None };
    Some(json!({
        "key": key.to_string(),
        "id": mail.idempotency_key.as_ref().unwrap_or(&mail.id),
        "template": null,
        "channel": "email",
        "to": mail.to,
        "status": "received",
        "attempts": account.attempts,
        "detail": "not of this outbox",
        "since": account.lines.front().map(|line| line.at.timestamp_millis()),
        "sent": true,
    }))
}

fn status(listing: &Listing, now: DateTime<Utc>) -> &'static str {
    let not_before = listing.element.get("not_before").and_then(Value::as_str);
    let not_before: Option<DateTime<Utc>> = not_before.and_then(|at| at.parse().ok());
    match listing.standing {
        Standing::Listed if not_before.is_some_and(|due| due > now) => "not due",
        Standing::Listed => "pending",
        Standing::Expired => "expired",
        Standing::Withdrawn => "withdrawn",
        Standing::Unsubscribed => "unsubscribed",
        Standing::Settled(status) => status.as_str(),
    }
}

fn line(line: &Line) -> Value {
    json!({"at": line.at.timestamp_millis(), "what": line.what})
}

/// One row with all that there is of it; `later` tells what became of a mail by its id.
pub(super) fn message(
    ledger: &Ledger,
    listings: &[Listing],
    key: &str,
    later: impl FnOnce(&str) -> Vec<(DateTime<Utc>, &'static str)>,
) -> Option<Value> {
    let key = Key::parse(key)?;
    let account = ledger.account(key)?;
    let listing = match key {
        Key::Envelope(number) => {
            let at = listings.binary_search_by_key(&number, |listing| listing.number).ok()?;
            listings.get(at)
        }
        Key::Stranger(_) => None,
    };
    let row = match listing {
        Some(listing) => envelope(ledger, listing),
        None => stranger(key, account)?,
    };
    let mut lines: Vec<Line> = account.lines.iter().cloned().collect();
    if let Some(Message::Mail(mail)) = &account.message {
        lines.extend(
            later(&mail.id).into_iter().map(|(at, event)| Line { at, what: format!("Resend: {event}") }),
        );
        lines.sort_by_key(|line| line.at);
    }
    Some(json!({
        "row": row,
        "message": account.message.as_ref().map(shown),
        "envelope": listing.map(|listing| &*listing.element),
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
    }))
}

/// The shape that `message.js` documents.
fn shown(message: &Message) -> Value {
    match message {
        Message::Mail(mail) => json!({
            "kind": "mail",
            "id": mail.id,
            "from": mail.from,
            "to": mail.to,
            "subject": mail.subject,
            "html": mail.html,
            "text": mail.text,
            "size": mail.html.len(),
            "headers": headers(mail),
        }),
        Message::Push(push) => {
            let ReceivedPush { title, body, url, tag, topic, ttl, urgency, token: _ } = &**push;
            json!({
                "kind": "push", "title": title, "body": body, "url": url, "tag": tag, "topic": topic,
                "ttl": ttl, "urgency": urgency,
            })
        }
    }
}

fn headers(mail: &ReceivedMail) -> Vec<(String, String)> {
    let own = [("From", &mail.from), ("To", &mail.to), ("Subject", &mail.subject)];
    let mut headers: Vec<_> = own.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    headers.extend(mail.reply_to.iter().map(|to| ("Reply-To".to_owned(), to.clone())));
    headers.extend(mail.headers.iter().cloned());
    headers.extend(mail.idempotency_key.iter().map(|key| ("Idempotency-Key".to_owned(), key.clone())));
    headers.extend(mail.tags.iter().map(|(name, value)| (format!("Tag {name}"), value.clone())));
    headers
}
