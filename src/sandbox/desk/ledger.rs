//! What happened to each envelope, kept entry by entry, so that its numbers stay right when the journal forgets.
//!
//! Owns the accounts and the question whose an entry is. It does no I/O, and it must not know how it is shown.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::sandbox::journal::{
    AckAnswer, Endpoint, Entry, Event, Log, ReceivedAck, ReceivedMail, ReceivedPush, Refused,
};
use crate::sandbox::seam::Listing;

/// The most lines of what happened to one envelope.
const LINES: usize = 40;
/// The most mails of other outboxes, and the most refusals that are nobody's.
const STRANGERS: usize = 200;

/// Whose an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The envelope of this number in the outbox.
    Envelope(usize),
    /// A mail that no envelope of the outbox led to, by the number of its entry.
    Stranger(usize),
}

/// A message as its provider took it.
#[derive(Debug, Clone)]
pub(super) enum Message {
    /// By Resend.
    Mail(Arc<ReceivedMail>),
    /// By the push service.
    Push(Arc<ReceivedPush>),
}

/// What happened to one envelope.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Requests to its provider.
    pub(super) attempts: usize,
    /// The last that was accepted.
    pub(super) message: Option<Message>,
    /// What last went wrong, or the detail of its ack.
    pub(super) detail: Option<String>,
    /// What happened, oldest first.
    pub(super) lines: VecDeque<Line>,
    token: Option<String>,
    acked: bool,
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) at: DateTime<Utc>,
    pub(super) what: String,
}

/// The accounts of all envelopes that the outbox keeps.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: usize,
    envelopes: usize,
    accounts: BTreeMap<Key, Account>,
    by_id: HashMap<String, Key>,
    by_token: HashMap<String, Vec<Key>>,
    /// Refusals that belong to no envelope, such as those of a wrong key.
    pub(super) notices: VecDeque<Line>,
}

impl Ledger {
    /// Takes in everything since the last time.
    pub(super) fn follow(&mut self, log: &Log, listings: &[Listing]) {
        for listing in listings {
            if listing.number > self.envelopes {
                self.open(listing);
            }
        }
        self.envelopes = listings.last().map_or(self.envelopes, |last| self.envelopes.max(last.number));
        let new = log.entries().partition_point(|entry| entry.number <= self.entries);
        for entry in log.entries().get(new..).unwrap_or_default() {
            self.take(entry);
        }
        self.entries = log.totals().entries;
        self.forget(listings);
    }

    pub(super) fn account(&self, key: Key) -> Option<&Account> {
        self.accounts.get(&key)
    }

    /// The mails of no envelope here, newest first.
    pub(super) fn strangers(&self) -> impl Iterator<Item = (Key, &Account)> {
        self.accounts.range(Key::Stranger(0)..).rev().map(|(key, account)| (*key, account))
    }

    fn open(&mut self, listing: &Listing) {
        let key = Key::Envelope(listing.number);
        let token = token(&listing.element);
        if let Some(id) = listing.element.get("id").and_then(Value::as_str) {
            self.by_id.entry(id.to_owned()).or_insert(key);
        }
        if let Some(token) = &token {
            self.by_token.entry(token.clone()).or_default().push(key);
        }
        let account = Account { token, ..Account::default() };
        self.accounts.insert(key, account);
    }

    fn take(&mut self, entry: &Entry) {
        let at = entry.at.wall;
        match &entry.event {
            Event::Listed { .. } => {}
            Event::Mailed(mail) => {
                let known = mail.idempotency_key.as_ref().and_then(|key| self.by_id.get(key));
                let account = self.accounts.entry(known.copied().unwrap_or(Key::Stranger(entry.number)));
                let account = account.or_default();
                account.attempt(at, "accepted by Resend".to_owned());
                account.message = Some(Message::Mail(Arc::clone(mail)));
            }
            Event::MailRepeated { key } => {
                if let Some(account) = self.of(Endpoint::Mail, key) {
                    account.attempt(at, "asked again: the same key, nothing new is sent".to_owned());
                }
            }
            Event::Pushed(push) => {
                if let Some(account) = self.of(Endpoint::Push, &push.token) {
                    account.attempt(at, "accepted by the push service".to_owned());
                    account.message = Some(Message::Push(Arc::clone(push)));
                }
            }
            Event::Acked(ack) => {
                if let Some(account) = self.of(Endpoint::Ack, &ack.id) {
                    account.ack(at, ack);
                }
            }
            Event::Refused(refused) => self.refuse(at, refused),
            Event::Faulted { endpoint, target, fault, instead } => {
                if let Some(account) = self.of(*endpoint, target) {
                    account.fault(at, *endpoint, fault, *instead);
                }
            }
        }
    }

    /// The account of a request at `endpoint` about `target`.
    fn of(&mut self, endpoint: Endpoint, target: &str) -> Option<&mut Account> {
        let key = match endpoint {
            Endpoint::Page => return None,
            Endpoint::Mail | Endpoint::Ack => *self.by_id.get(target)?,
            Endpoint::Push => self.of_token(target)?,
        };
        self.accounts.get_mut(&key)
    }

    /// A push service is not told the envelope's id. Of those to one subscription the oldest comes first, and
    /// what has been accepted is only sent again if there is no other.
    fn of_token(&self, token: &str) -> Option<Key> {
        let keys = self.by_token.get(token)?;
        let is = |key: &Key, rule: fn(&Account) -> bool| self.accounts.get(key).is_some_and(rule);
        let next = keys.iter().find(|key| is(key, |account| !account.acked && account.message.is_none()));
        let again = || keys.iter().rfind(|key| is(key, |account| account.message.is_some()));
        next.or_else(again).or(keys.last()).copied()
    }

    fn refuse(&mut self, at: DateTime<Utc>, refused: &Refused) {
        let Refused { endpoint, target, status, why } = refused;
        let what = format!("refused with {status}: {why}");
        let account = target.as_ref().and_then(|target| self.of(*endpoint, target));
        if let Some(account) = account {
            account.detail = Some(what.clone());
            return account.attempt(at, what);
        }
        let who = match endpoint {
            Endpoint::Page | Endpoint::Ack => "The outbox",
            Endpoint::Mail => "Resend",
            Endpoint::Push => "The push service",
        };
        push_capped(&mut self.notices, Line { at, what: format!("{who} {what}") }, LINES);
    }

    /// Closes the accounts of envelopes that the outbox has forgotten.
    fn forget(&mut self, listings: &[Listing]) {
        let (strangers, all) = (self.strangers().count(), self.accounts.len());
        if all - strangers > listings.len() {
            let kept = |key: &Key| match key {
                Key::Envelope(number) => listings.binary_search_by_key(number, |l| l.number).is_ok(),
                Key::Stranger(_) => true,
            };
            self.accounts.retain(|key, _| kept(key));
            self.by_id.retain(|_, key| kept(key));
            self.by_token.retain(|_, keys| {
                keys.retain(&kept);
                !keys.is_empty()
            });
        }
        for _ in STRANGERS..strangers {
            if let Some((key, _)) = self.accounts.range(Key::Stranger(0)..).next() {
                let key = *key;
                self.accounts.remove(&key);
            }
        }
    }
}

impl Account {
    fn attempt(&mut self, at: DateTime<Utc>, what: String) {
        self.attempts += 1;
        self.tell(at, format!("attempt {}: {what}", self.attempts));
    }

    fn ack(&mut self, at: DateTime<Utc>, ack: &ReceivedAck) {
        let detail = ack.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
        match ack.answer {
            AckAnswer::Stored => {
                self.acked = true;
                self.detail.clone_from(&ack.detail);
                self.tell(at, format!("acked {}{detail}", ack.posted));
            }
            AckAnswer::Kept(earlier) => {
                self.tell(at, format!("acked {} again: {earlier} stays{detail}", ack.posted));
            }
            AckAnswer::Unknown => {}
        }
    }

    fn fault(&mut self, at: DateTime<Utc>, endpoint: Endpoint, fault: &str, instead: bool) {
        match endpoint {
            Endpoint::Mail | Endpoint::Push if instead => {
                self.detail = Some(fault.to_owned());
                self.attempt(at, format!("made to fail: {fault}"));
            }
            Endpoint::Mail | Endpoint::Push => self.tell(at, format!("made to fail: {fault}")),
            Endpoint::Page | Endpoint::Ack => self.tell(at, format!("its ack was made to fail: {fault}")),
        }
    }

    fn tell(&mut self, at: DateTime<Utc>, what: String) {
        push_capped(&mut self.lines, Line { at, what }, LINES);
    }

    /// What a subscription's endpoint ends in, for a push.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}

fn push_capped(lines: &mut VecDeque<Line>, line: Line, cap: usize) {
    if lines.len() >= cap {
        lines.pop_front();
    }
    lines.push_back(line);
}

fn token(element: &Value) -> Option<String> {
    let endpoint = element.pointer("/recipient/push_subscription/endpoint")?.as_str()?;
    endpoint.rsplit('/').next().map(str::to_owned)
}

impl Key {
    /// As a URL of the page names it.
    pub(super) fn parse(text: &str) -> Option<Key> {
        let (kind, number) = text.split_at_checked(1)?;
        let number = number.parse().ok()?;
        match kind {
            "e" => Some(Key::Envelope(number)),
            "m" => Some(Key::Stranger(number)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Envelope(number) => write!(f, "e{number}"),
            Key::Stranger(number) => write!(f, "m{number}"),
        }
    }
}
