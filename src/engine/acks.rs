//! The acks that are on their way, and the memory of those that got through.
//!
//! Owns what must still be posted, when it is tried again, and which envelopes are settled. Pure: the
//! caller passes the time. It must not know how an outcome came about or how a post is made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use lru::LruCache;
use sha2::{Digest, Sha256};

use super::retry::{Schedule, spread};
use crate::envelope::EnvelopeId;
use crate::outbox::Ack;
use crate::outcome::{AckStatus, Cause, Detail, Refusal};
use crate::trace::Trace;

#[cfg(test)]
mod tests;

/// Settled envelopes that are remembered. The app lists an envelope again only for as long as its ack
/// is not through, so this is days of traffic more than is needed.
const REMEMBERED: usize = 100_000;
/// An ack is the one thing that keeps a mail from being sent again after a restart: it is tried often.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// While the worker stops, each ack is tried this often.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// What is to be posted for an envelope.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The status and its detail.
    pub ack: Ack,
    /// Why.
    pub cause: Cause,
    /// When the envelope was first listed.
    pub first_listed: Instant,
    /// What its attempts belong to.
    pub trace: Trace,
}

#[derive(Debug)]
struct Pending {
    decision: Decision,
    failures: u32,
    due: Instant,
    state: State,
    blamed: Option<&'static str>,
    again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Due,
    Posting,
    Refused,
}

/// The acks of one lane.
#[derive(Debug)]
pub struct Acks {
    schedule: Schedule,
    refused_wait: Duration,
    pending: HashMap<EnvelopeId, Pending>,
    due: BTreeSet<(Instant, EnvelopeId)>,
    settled: LruCache<[u8; 16], Settled>,
    flushing: bool,
}

#[derive(Debug, Clone, Copy)]
struct Settled {
    status: AckStatus,
    cause: Cause,
    at: Instant,
    repeats: u32,
    repeat_from: Instant,
}

/// What is known of an envelope that a page lists although it is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Nothing: it is new.
    Unknown,
    /// It was settled; the page is older than that, or the ack was repeated a moment ago.
    Settled,
    /// It was settled, and a page that was requested later still lists it: the ack is due again.
    Relisted(AckStatus),
}

impl Acks {
    /// No acks yet. `schedule` is the lane's; an ack refused for good is tried every `refused_wait`.
    pub fn new(first: Duration, refused_wait: Duration) -> Acks {
        Acks {
            schedule: Schedule::new(first, LONGEST_WAIT.min(refused_wait)),
            refused_wait,
            pending: HashMap::new(),
            due: BTreeSet::new(),
            settled: LruCache::unbounded(),
            flushing: false,
        }
    }

    /// An outcome is known: its ack is due at once.
    pub fn push(&mut self, id: EnvelopeId, decision: Decision, now: Instant) {
        self.insert(id, decision, now, false);
    }

    fn insert(&mut self, id: EnvelopeId, decision: Decision, due: Instant, again: bool) {
        self.due.insert((due, id.clone()));
        let pending = Pending { decision, failures: 0, due, state: State::Due, blamed: None, again };
        if let Some(old) = self.pending.insert(id.clone(), pending)
            && old.due != due
        {
            self.due.remove(&(old.due, id));
        }
    }

    /// The next ack that is due, now being posted.
    pub fn take_due(&mut self, now: Instant) -> Option<(EnvelopeId, Ack, Trace)> {
        let (due, id) = self.due.first().filter(|(due, _)| *due <= now).cloned()?;
        self.due.remove(&(due, id.clone()));
        let pending = self.pending.get_mut(&id)?;
        pending.state = State::Posting;
        let Decision { ack, trace, .. } = &pending.decision;
        Some((id, ack.clone(), trace.clone()))
    }

    /// When the next ack is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The ack got through: the envelope is settled.
    pub fn settle(&mut self, id: &EnvelopeId, now: Instant) -> Option<Decision> {
        let pending = self.pending.remove(id)?;
        self.due.remove(&(pending.due, id.clone()));
        let key = digest(id);
        let repeats = self.settled.get(&key).filter(|_| pending.again).map_or(0, |known| known.repeats + 1);
        let wait = if repeats == 0 { Duration::ZERO } else { self.schedule.after(repeats) };
        let (status, cause) = (pending.decision.ack.status, pending.decision.cause);
        self.settled.put(key, Settled { status, cause, at: now, repeats, repeat_from: now + wait });
        if self.settled.len() > REMEMBERED {
            self.settled.pop_lru();
        }
        Some(pending.decision)
    }

    /// The ack did not get through. `for_good`: this very request is refused, so it is tried rarely.
    /// Returns the wait until it is tried again.
    pub fn fail(&mut self, id: &EnvelopeId, for_good: bool, now: Instant, random: f64) -> Duration {
        let (flushing, refused_wait) = (self.flushing, self.refused_wait);
        let Some(pending) = self.pending.get_mut(id) else { return Duration::ZERO };
        pending.failures += 1;
        pending.state = if for_good { State::Refused } else { State::Due };
        let wait = match (flushing, for_good) {
            (true, false) => FLUSH_INTERVAL,
            (_, true) => spread(refused_wait, random),
            (false, false) => spread(self.schedule.after(pending.failures), random),
        };
        pending.due = now + wait;
        self.due.insert((pending.due, id.clone()));
        wait
    }

    /// Something got through again: what failed for the seam's trouble need not wait any longer.
    pub fn hurry(&mut self, now: Instant) {
        self.make_due(now, |pending| pending.state == State::Due);
    }

    /// The status whose ack is on its way.
    pub fn pending_status(&self, id: &EnvelopeId) -> Option<AckStatus> {
        self.pending.get(id).map(|pending| pending.decision.ack.status)
    }

    /// The status that this process has settled it with.
    pub fn settled_status(&self, id: &EnvelopeId) -> Option<AckStatus> {
        self.settled.peek(&digest(id)).map(|settled| settled.status)
    }

    /// The worker stops: each is tried at once, then every second.
    pub fn flush(&mut self, now: Instant) {
        self.flushing = true;
        for pending in self.pending.values_mut().filter(|pending| pending.state == State::Refused) {
            pending.state = State::Due;
        }
        self.make_due(now, |pending| pending.state == State::Due);
    }

    fn make_due(&mut self, now: Instant, which: impl Fn(&Pending) -> bool) {
        for (id, pending) in &mut self.pending {
            if which(pending) && pending.due > now {
                self.due.remove(&(pending.due, id.clone()));
                pending.due = now;
                self.due.insert((now, id.clone()));
            }
        }
    }

    /// What is known of an envelope that a page lists which was requested at `requested`.
    pub fn recall(&mut self, id: &EnvelopeId, requested: Instant, now: Instant) -> Memory {
        match self.settled.get(&digest(id)) {
            None => Memory::Unknown,
            Some(known) if requested > known.at && now >= known.repeat_from => Memory::Relisted(known.status),
            Some(_) => Memory::Settled,
        }
    }

    /// Posts the status of a settled envelope again; of what was said with it the cause is remembered.
    pub fn repeat(&mut self, id: &EnvelopeId, now: Instant) {
        let Some(&Settled { status, cause, .. }) = self.settled.peek(&digest(id)) else { return };
        let ack = Ack { status, detail: Refusal::new(cause, Detail::default()).ack_detail() };
        self.insert(
            id.clone(),
            Decision { ack, cause, first_listed: now, trace: Trace::default() },
            now,
            true,
        );
    }

    /// Whether an ack of this envelope is on its way.
    pub fn contains(&self, id: &EnvelopeId) -> bool {
        self.pending.contains_key(id)
    }

    /// How many are on their way.
    pub fn count(&self) -> usize {
        self.pending.len()
    }

    /// Notes what the operator must mend before this ack can get through, by its name in metrics;
    /// `None`: nothing of theirs.
    pub fn blame(&mut self, id: &EnvelopeId, what: Option<&'static str>) {
        if let Some(pending) = self.pending.get_mut(id) {
            pending.blamed = what;
        }
    }

    /// What the operator must mend, each with the number of acks that wait for it.
    pub fn blamed(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for what in self.pending.values().filter_map(|pending| pending.blamed) {
            *counts.entry(what).or_default() += 1;
        }
        counts
    }

    /// Whether none is left that a flush can still bring through.
    pub fn is_flushed(&self) -> bool {
        self.refused() == self.pending.len()
    }

    /// How many the seam refuses for good.
    pub fn refused(&self) -> usize {
        self.pending.values().filter(|pending| pending.state == State::Refused).count()
    }
}

/// The whole id need not be kept to know it again.
fn digest(id: &EnvelopeId) -> [u8; 16] {
    let mut short = [0; 16];
    for (to, from) in short.iter_mut().zip(Sha256::digest(id.as_str())) {
        *to = from;
    }
    short
}

/// The seam's own gate, shared by all lanes: while acks do not get through, nothing new is sent.
#[derive(Debug, Default)]
pub struct SeamGate {
    failing: BTreeSet<EnvelopeId>,
    blocked: bool,
}

impl SeamGate {
    /// Acks of this many different envelopes failing, with no success between, close it.
    const LIMIT: usize = 3;

    /// An ack failed for the seam's trouble. `true`: the gate has just closed.
    pub fn failed(&mut self, id: &EnvelopeId) -> bool {
        if self.blocked {
            return false;
        }
        self.failing.insert(id.clone());
        self.blocked = self.failing.len() >= SeamGate::LIMIT;
        self.blocked
    }

    /// An ack got through. `true`: the gate has just opened.
    pub fn passed(&mut self) -> bool {
        self.failing.clear();
        std::mem::take(&mut self.blocked)
    }

    /// The seam refused this very ack for good: it answers, so this one is no sign of its trouble.
    /// `true`: the gate has just opened.
    pub fn refused(&mut self, id: &EnvelopeId) -> bool {
        self.failing.remove(id);
        self.failing.is_empty() && std::mem::take(&mut self.blocked)
    }

    /// Whether nothing new may be sent.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }
}
