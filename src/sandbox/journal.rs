//! What the stand-ins took, refused and were made to fail, in one order.
//!
//! Owns the log that the three share: each entry has a number and a time, so that "sent before acked"
//! can be read, and [`Journal::wait_until`] wakes with each entry, so that nobody needs to sleep. It
//! must not know HTTP. What it holds is shown in full: a stand-in is never given real people's mail.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::clock::{Clock, Now};
use crate::outcome::AckStatus;

/// The shared log; clones write to the same one.
#[derive(Clone)]
pub struct Journal {
    clock: Arc<dyn Clock>,
    keep: Option<usize>,
    log: watch::Sender<Log>,
}

impl Journal {
    /// An empty journal. All stand-ins that write to it read the time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Journal {
        Journal { clock, keep: None, log: watch::Sender::new(Log::default()) }
    }

    /// Forgets the oldest entries: what stays is at least the last `entries` pages, which a worker asks for all
    /// day, and the last `entries` of all others, and never much more.
    #[must_use]
    pub fn keeping(self, entries: usize) -> Journal {
        Journal { keep: Some(entries), ..self }
    }

    /// How many entries of a kind it keeps; `None`: all.
    pub(super) fn keep(&self) -> Option<usize> {
        self.keep
    }

    /// The time as the stand-ins see it.
    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    pub(super) fn record(&self, event: Event) {
        let at = self.now();
        self.log.send_modify(|log| log.add(at, event, self.keep));
    }

    /// Wakes who waits for entries although there is none: a stand-in's state has changed.
    pub(super) fn touch(&self) {
        self.log.send_modify(|_| {});
    }

    /// The log as it changes.
    pub(super) fn changes(&self) -> watch::Receiver<Log> {
        self.log.subscribe()
    }

    /// Everything so far.
    pub fn log(&self) -> Log {
        self.log.borrow().clone()
    }

    /// Waits until `holds` is true of the log, and returns the log of that moment. `holds` is asked at
    /// once and then when entries have been added. It sees a copy, taken without a lock held, so that it
    /// may ask the stand-ins too.
    pub async fn wait_until(&self, mut holds: impl FnMut(&Log) -> bool) -> Log {
        let mut changes = self.log.subscribe();
        loop {
            let log = changes.borrow_and_update().clone();
            // An error would mean a closed channel: its sender is a field of `self`.
            if holds(&log) || changes.changed().await.is_err() {
                return log;
            }
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Journal").field(&*self.log.borrow()).finish()
    }
}

/// How much there has been so far, whatever of it is still kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries of every kind; also the number of the last one.
    pub entries: usize,
    /// Pages that the seam has served.
    pub pages: usize,
    /// Status posts that it has answered with 200.
    pub acks: usize,
    /// Mails that Resend accepted, without repeats.
    pub mails: usize,
    /// Push messages that the push service accepted.
    pub pushes: usize,
}

/// The entries of a journal, oldest first. A copy is cheap.
#[derive(Debug, Clone, Default)]
pub struct Log {
    entries: Vec<Arc<Entry>>,
    totals: Totals,
}

impl Log {
    fn add(&mut self, at: Now, event: Event, keep: Option<usize>) {
        self.totals.entries += 1;
        match &event {
            Event::Listed { .. } => self.totals.pages += 1,
            Event::Acked(_) => self.totals.acks += 1,
            Event::Mailed(_) => self.totals.mails += 1,
            Event::Pushed(_) => self.totals.pushes += 1,
            Event::MailRepeated { .. } | Event::Refused(_) | Event::Faulted { .. } => {}
        }
        self.entries.push(Arc::new(Entry { number: self.totals.entries, at, event }));
        // Room above the limit, so that an entry costs no walk over all.
        if let Some(keep) = keep.filter(|keep| self.entries.len() > keep * 2 + keep / 4) {
            self.forget(keep);
        }
    }

    /// Keeps the last `keep` pages and the last `keep` of all others.
    fn forget(&mut self, keep: usize) {
        let (mut pages, mut others) = (0, 0);
        let kept = self.entries.drain(..).rev().filter(|entry| {
            let kind = if matches!(entry.event, Event::Listed { .. }) { &mut pages } else { &mut others };
            *kind += 1;
            *kind <= keep
        });
        let mut kept: Vec<_> = kept.collect();
        kept.reverse();
        self.entries = kept;
    }

    /// All entries that are kept.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// How much there has been, kept or not.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The mails that Resend accepted; a repeat under the same key is not among them.
    pub fn mails(&self) -> impl Iterator<Item = &Arc<ReceivedMail>> {
        self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Mailed(mail) => Some(mail),
            _ => None,
        })
    }

    /// The push messages that the push service accepted.
    pub fn pushes(&self) -> impl Iterator<Item = &Arc<ReceivedPush>> {
        self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Pushed(push) => Some(push),
            _ => None,
        })
    }

    /// The status posts that the seam answered with 200, repeats included.
    pub fn acks(&self) -> impl Iterator<Item = &ReceivedAck> {
        self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Acked(ack) => Some(ack),
            _ => None,
        })
    }

    /// How many pages the seam has served.
    pub fn pages(&self) -> usize {
        self.totals.pages
    }

    /// The requests that a stand-in's own checks refused: each is a wrong request of the client, or
    /// one that the stand-in was configured to refuse.
    pub fn refusals(&self) -> impl Iterator<Item = &Refused> {
        self.entries.iter().filter_map(|entry| match &entry.event {
            Event::Refused(refused) => Some(refused),
            _ => None,
        })
    }

    /// How often a provider was asked to take the message of `target`: the Idempotency-Key of a mail, the
    /// token of a subscription.
    pub fn attempts(&self, target: &str) -> usize {
        let is_about = |event: &Event| match event {
            Event::Mailed(mail) => mail.idempotency_key.as_deref() == Some(target),
            Event::MailRepeated { key } => key == target,
            Event::Pushed(push) => push.token == target,
            Event::Refused(Refused { endpoint, target: of, .. }) => {
                endpoint.is_provider() && of.as_deref() == Some(target)
            }
            Event::Faulted { endpoint, target: of, instead, .. } => {
                endpoint.is_provider() && *instead && of == target
            }
            Event::Listed { .. } | Event::Acked(_) => false,
        };
        self.entries.iter().filter(|entry| is_about(&entry.event)).count()
    }

    /// How many faults have struck at `endpoint`.
    pub fn faults(&self, endpoint: Endpoint) -> usize {
        self.entries
            .iter()
            .filter(|entry| matches!(&entry.event, Event::Faulted { endpoint: e, .. } if *e == endpoint))
            .count()
    }

    /// The number of the first entry of which `is` holds.
    pub fn number_of(&self, is: impl Fn(&Event) -> bool) -> Option<usize> {
        self.entries.iter().find(|entry| is(&entry.event)).map(|entry| entry.number)
    }
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Counts up from 1 over all stand-ins of the journal.
    pub number: usize,
    /// When.
    pub at: Now,
    /// What.
    pub event: Event,
}

/// The requests that the stand-ins take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `GET /internal/outbox/pending` of the seam.
    Page,
    /// `POST /internal/outbox/{id}/status` of the seam.
    Ack,
    /// `POST /emails` of Resend.
    Mail,
    /// `POST /push/{token}` of the push service.
    Push,
}

impl Endpoint {
    fn is_provider(self) -> bool {
        match self {
            Endpoint::Mail | Endpoint::Push => true,
            Endpoint::Page | Endpoint::Ack => false,
        }
    }
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// The seam served a page.
    Listed {
        /// Of this channel.
        channel: String,
        /// What was asked for.
        limit: u16,
        /// How many elements it holds.
        elements: usize,
    },
    /// The seam took a status.
    Acked(ReceivedAck),
    /// Resend accepted a mail.
    Mailed(Arc<ReceivedMail>),
    /// Resend was asked the same again, and sent nothing new.
    MailRepeated {
        /// The Idempotency-Key.
        key: String,
    },
    /// The push service accepted a message.
    Pushed(Arc<ReceivedPush>),
    /// A stand-in's checks refused a request.
    Refused(Refused),
    /// A fault that was asked for struck a request.
    Faulted {
        /// At which endpoint.
        endpoint: Endpoint,
        /// What the request was about: an id, a key, a token, a channel.
        target: String,
        /// Which fault.
        fault: String,
        /// Whether it took the place of the endpoint's own answer, so that nothing was accepted.
        instead: bool,
    },
}

/// One status post and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedAck {
    /// The envelope.
    pub id: String,
    /// What was posted.
    pub posted: AckStatus,
    /// With which detail.
    pub detail: Option<String>,
    /// What the seam made of it.
    pub answer: AckAnswer,
}

/// What the seam answers to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckAnswer {
    /// The first for its envelope: stored.
    Stored,
    /// The envelope had this status already, and keeps it.
    Kept(AckStatus),
    /// No such envelope.
    Unknown,
}

/// A request that a stand-in's own checks refused.
#[derive(Debug, Clone)]
pub struct Refused {
    /// At which endpoint.
    pub endpoint: Endpoint,
    /// What the request was about, where that could be told.
    pub target: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// What was wrong.
    pub why: String,
}

/// A mail that Resend accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMail {
    /// Resend's id of it.
    pub id: String,
    /// The sender, as given.
    pub from: String,
    /// The one recipient.
    pub to: String,
    /// The subject.
    pub subject: String,
    /// The HTML part, or nothing.
    pub html: String,
    /// The text part, or nothing.
    pub text: String,
    /// Where answers go.
    pub reply_to: Vec<String>,
    /// Custom headers, by name as given.
    pub headers: Vec<(String, String)>,
    /// Tags.
    pub tags: Vec<(String, String)>,
    /// The Idempotency-Key, where there was one.
    pub idempotency_key: Option<String>,
}

impl ReceivedMail {
    /// The value of a custom header, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A push message that the push service accepted, as the app's service worker would get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedPush {
    /// The subscription.
    pub token: String,
    /// The notification's title.
    pub title: String,
    /// Its body.
    pub body: String,
    /// What a click opens.
    pub url: String,
    /// Its tag: a device shows one notification of each.
    pub tag: String,
    /// The Topic header: the service keeps one undelivered message of each.
    pub topic: Option<String>,
    /// The TTL header, in seconds.
    pub ttl: u32,
    /// The Urgency header.
    pub urgency: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn page() -> Event {
        Event::Listed { channel: "email".to_owned(), limit: 1, elements: 0 }
    }

    fn repeat(number: usize) -> Event {
        Event::MailRepeated { key: number.to_string() }
    }

    #[test]
    fn a_journal_that_forgets_keeps_the_last_of_each_kind_and_every_count() {
        let journal = Journal::new(Arc::new(SystemClock)).keeping(8);
        for number in 1..=1000 {
            (0..3).for_each(|_| journal.record(page()));
            journal.record(repeat(number));
        }
        let log = journal.log();
        assert!((16..=18).contains(&log.entries().len()), "{}", log.entries().len());
        assert_eq!((log.totals().entries, log.pages()), (4000, 3000));
        let last: Vec<_> = (993..=1000).map(|number| log.attempts(&number.to_string())).collect();
        assert_eq!(last, [1; 8]);
        assert!(log.entries().is_sorted_by_key(|entry| entry.number));
    }

    #[test]
    fn a_journal_keeps_everything_unless_told() {
        let journal = Journal::new(Arc::new(SystemClock));
        (0..10_000).for_each(|number| journal.record(repeat(number)));
        assert_eq!(journal.log().entries().len(), 10_000);
    }
}
