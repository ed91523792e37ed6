//! Whether what happened is what is promised, read from the stand-ins' journal alone.
//!
//! Owns the invariants. It must not know the worker.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::journal::{AckAnswer, Endpoint, Event, Log, ReceivedMail, ReceivedPush};

use super::cast::{Cast, Fate, Part};

/// A page that is asked for after another has been taken in cannot be older than that: whoever is missing
/// on the first of them is not sent after the second. One more is for a send that was on its way.
const PAGES_UNTIL_GONE: usize = 3;

/// One kill: the entries between its signal and the start of the next process.
pub(super) struct Kill {
    /// As many entries there were before it.
    pub(super) begun: usize,
    /// As many there were when the next process was up.
    pub(super) over: usize,
}

/// An envelope that the seam has stopped listing.
pub(super) struct Withdrawal {
    pub(super) id: String,
    pub(super) channel: &'static str,
    /// As many entries there were by then.
    pub(super) since: usize,
}

/// Everything that a verdict needs.
pub(super) struct Verdict {
    pub(super) log: Log,
    pub(super) cast: Cast,
    pub(super) kills: Vec<Kill>,
    pub(super) withdrawals: Vec<Withdrawal>,
}

/// One message that a provider accepted.
struct Sent<'a> {
    number: usize,
    id: &'a str,
}

impl Verdict {
    /// # Panics
    /// A promise is broken.
    pub(super) fn pass(&self) {
        assert_eq!(self.kills.len(), 10);
        self.each_envelope_ends_once_with_its_status();
        self.no_mail_is_accepted_twice();
        self.a_push_is_repeated_only_where_its_outcome_was_unknown();
        self.each_record_is_in_order();
        self.nothing_withdrawn_is_sent();
        self.only_the_gone_lose_their_consent();
        self.no_request_was_wrong();
    }

    fn each_envelope_ends_once_with_its_status(&self) {
        let junk = self.cast.junk.iter().map(|id| (id.as_str(), AckStatus::Failed));
        let statuses: BTreeMap<&str, AckStatus> =
            self.cast.parts.iter().map(|part| (part.id.as_str(), part.fate.status())).chain(junk).collect();
        let mut ended = BTreeSet::new();
        for ack in self.log.acks() {
            assert_eq!(statuses.get(ack.id.as_str()), Some(&ack.posted), "the status of {}", ack.id);
            let first = ended.insert(ack.id.as_str());
            assert_eq!(ack.answer == AckAnswer::Stored, first, "{}: stored once", ack.id);
        }
        let must = |part: &&Part| part.fate != Fate::Bounces && self.withdrawn(&part.id).is_none();
        for part in self.cast.parts.iter().filter(must) {
            assert!(ended.contains(part.id.as_str()), "{} has no end", part.id);
        }
        let sent: BTreeSet<_> = self.mails().chain(self.pushes()).map(|sent| sent.id).collect();
        for part in &self.cast.parts {
            let arrived = ended.contains(part.id.as_str()) && part.fate == Fate::Arrives;
            let said = sent.contains(part.id.as_str());
            assert!(said || !arrived, "{} is acked delivered and was never accepted", part.id);
            assert!(!said || part.fate == Fate::Arrives, "{} was accepted", part.id);
        }
    }

    fn no_mail_is_accepted_twice(&self) {
        let mut seen = BTreeSet::new();
        for mail in self.log.mails() {
            let id = tagged(mail);
            assert_eq!(mail.idempotency_key.as_deref(), Some(id), "the key of {id}");
            assert!(seen.insert(id), "{id} was mailed twice");
        }
    }

    fn a_push_is_repeated_only_where_its_outcome_was_unknown(&self) {
        let mut last: BTreeMap<&str, (usize, &ReceivedPush)> = BTreeMap::new();
        let mut topics: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for (number, push) in self.received() {
            let id = clicked(push);
            let topic = push.topic.as_deref().expect("a Topic");
            let owner = topics.entry((&push.token, topic)).or_insert(id);
            assert_eq!(*owner, id, "two messages share a Topic");
            if let Some((earlier, copy)) = last.insert(id, (number, push)) {
                assert_eq!(
                    ReceivedPush { ttl: copy.ttl, ..push.clone() },
                    *copy,
                    "a copy replaces the first"
                );
                let why = self.was_unclear(earlier, &push.token) || self.killed_between(earlier, number);
                assert!(why, "{id} was pushed again for no reason ({earlier}, then {number})");
            }
        }
    }

    /// The answer to the push that was accepted in entry `number` was lost or said that it may have failed.
    fn was_unclear(&self, number: usize, token: &str) -> bool {
        let next = self.log.entries().get(number).map(|entry| &entry.event);
        matches!(next, Some(Event::Faulted { endpoint: Endpoint::Push, target, instead: false, .. }) if target == token)
    }

    fn killed_between(&self, earlier: usize, later: usize) -> bool {
        self.kills.iter().any(|kill| earlier <= kill.over && kill.begun < later)
    }

    fn each_record_is_in_order(&self) {
        let places: BTreeMap<&str, (&str, usize)> = self
            .cast
            .parts
            .iter()
            .enumerate()
            .map(|(place, part)| (part.id.as_str(), (part.record.as_str(), place)))
            .collect();
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        // A copy after a kill may come late: the first of each counts.
        for Sent { id, .. } in self.mails().chain(self.pushes()).filter(|sent| seen.insert(sent.id)) {
            let (record, place) = places[id];
            if let Some((before, earlier)) = last.insert(record, (place, id)) {
                assert!(before < place, "{earlier} was sent before {id}");
            }
        }
    }

    fn nothing_withdrawn_is_sent(&self) {
        let sent: Vec<_> = self.mails().chain(self.pushes()).collect();
        for Withdrawal { id, channel, since } in &self.withdrawals {
            let known = self.pages_after(*since, channel).nth(PAGES_UNTIL_GONE - 1).unwrap_or(usize::MAX);
            let late = sent.iter().find(|sent| sent.id == id && sent.number > known);
            assert!(late.is_none(), "{id} was withdrawn and sent");
        }
        assert!(self.kept_back() > 10, "some were withdrawn in time: {}", self.kept_back());
    }

    /// How many were withdrawn and never sent.
    fn kept_back(&self) -> usize {
        let sent: BTreeSet<_> = self.mails().chain(self.pushes()).map(|sent| sent.id).collect();
        self.withdrawals.iter().filter(|withdrawal| !sent.contains(withdrawal.id.as_str())).count()
    }

    /// The entries of pages that reached whoever asked for them.
    fn pages_after(&self, since: usize, of: &str) -> impl Iterator<Item = usize> {
        let is_lost = |number: usize| {
            let next = self.log.entries().get(number).map(|entry| &entry.event);
            matches!(next, Some(Event::Faulted { endpoint: Endpoint::Page, .. }))
        };
        let listed = move |event: &Event| matches!(event, Event::Listed { channel, .. } if channel == of);
        let numbers =
            self.log.entries().iter().filter(move |entry| listed(&entry.event)).map(|entry| entry.number);
        numbers.filter(move |number| *number > since && !is_lost(*number))
    }

    fn only_the_gone_lose_their_consent(&self) {
        let gone: BTreeSet<&str> = self.records(Fate::Bounces);
        let mut bounced = BTreeSet::new();
        for ack in self.log.acks() {
            let ends_consent = !matches!(ack.posted, AckStatus::Delivered | AckStatus::Failed);
            if ends_consent {
                let part = self.cast.parts.iter().find(|part| part.id == ack.id).expect("an envelope");
                assert!(gone.contains(part.record.as_str()), "{} ended a consent", ack.id);
                bounced.insert(part.record.as_str());
            }
        }
        assert_eq!(bounced, gone, "each browser that is gone is reported");
    }

    /// What the stand-ins' own checks refused: browsers that are gone, and a mail whose key was in use.
    fn no_request_was_wrong(&self) {
        let gone = self.records(Fate::Bounces);
        for refused in self.log.refusals() {
            let target = refused.target.as_deref().unwrap_or_default();
            let expected = match refused.status {
                410 => self.cast.browsers.get(target).is_some_and(|record| gone.contains(record.as_str())),
                409 => refused.why.starts_with("concurrent_idempotent_requests"),
                _ => false,
            };
            assert!(expected, "a wrong request: {refused:?}");
        }
    }

    fn records(&self, fate: Fate) -> BTreeSet<&str> {
        self.cast.parts.iter().filter(|part| part.fate == fate).map(|part| part.record.as_str()).collect()
    }

    fn withdrawn(&self, id: &str) -> Option<&Withdrawal> {
        self.withdrawals.iter().find(|withdrawal| withdrawal.id == id)
    }

    fn mails(&self) -> impl Iterator<Item = Sent<'_>> {
        self.log.entries().iter().filter_map(|entry| match &entry.event {
            Event::Mailed(mail) => Some(Sent { number: entry.number, id: tagged(mail) }),
            _ => None,
        })
    }

    fn received(&self) -> impl Iterator<Item = (usize, &ReceivedPush)> {
        self.log.entries().iter().filter_map(|entry| match &entry.event {
            Event::Pushed(push) => Some((entry.number, &**push)),
            _ => None,
        })
    }

    fn pushes(&self) -> impl Iterator<Item = Sent<'_>> {
        self.received().map(|(number, push)| Sent { number, id: clicked(push) })
    }
}

/// The envelopes that a provider has accepted so far.
pub(super) fn accepted(log: &Log) -> BTreeSet<String> {
    log.mails()
        .map(|mail| tagged(mail))
        .chain(log.pushes().map(|push| clicked(push)))
        .map(str::to_owned)
        .collect()
}

/// Which envelope a mail says that it is of.
fn tagged(mail: &ReceivedMail) -> &str {
    mail.tag("envelope").expect("a tag with the envelope's id")
}

/// Which envelope a notification is of, by where a click on it leads.
fn clicked(push: &ReceivedPush) -> &str {
    push.url.rsplit_once("/player/").expect("a link to a player").1
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeated = |event: &Event| matches!(event, Event::MailRepeated { .. });
        let repeated = self.log.entries().iter().filter(|entry| repeated(&entry.event)).count();
        let shown: BTreeSet<_> = self.pushes().map(|sent| sent.id).collect();
        let pushed = self.log.pushes().count();
        let faults =
            [Endpoint::Page, Endpoint::Ack, Endpoint::Mail, Endpoint::Push].map(|at| self.log.faults(at));
        let (kills, envelopes) = (self.kills.len(), self.cast.parts.len());
        let (mails, pushes, copies) = (self.log.mails().count(), shown.len(), pushed - shown.len());
        write!(f, "{kills} kills, {} faults, {envelopes} envelopes ", faults.iter().sum::<usize>())?;
        write!(f, "({} withdrawn, {} in time): ", self.withdrawals.len(), self.kept_back())?;
        write!(f, "{mails} mails, ")?;
        write!(
            f,
            "{repeated} asked for again and sent once; {pushes} pushes, {copies} copies that replaced them"
        )
    }
}
