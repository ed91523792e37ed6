//! The lease table: our in-process hold on each envelope, from its first listing to its ack.
//!
//! Owns who may be sent next within each record and who waits; what a page means for what is held is in
//! `page`. A pure state machine: no I/O, no clock, no randomness; the caller passes [`Now`]. It must not
//! know why an attempt ended as it did, what a gate is doing, or how an ack gets through.
//!
//! ```text
//! Ready → Sending → (Accepted →) Decided → released        Sending → Waiting → Ready
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;

use super::history::History;
use crate::channel::{Destination, GateId, Route};
use crate::clock::Now;
use crate::envelope::{Envelope, EnvelopeId};

mod page;
#[cfg(test)]
mod tests;

pub use page::{Applied, Coverage, Listing};

/// Envelopes that were left out by a page and may come back, of which an attempt has told nothing: more than
/// a day without an answer can bring.
const LEFT_OUT: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// The table's own name of a lease; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u64);

#[cfg(test)]
impl Key {
    /// A name without a table.
    pub(in crate::engine) fn of(number: u64) -> Key {
        Key(number)
    }
}

/// What must stay in order, within a lane: destination and template family.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RecordKey {
    destination: Destination,
    family: Box<str>,
}

/// A ready head's place among the others: oldest first, but behind everyone where its destination refused
/// the last attempt. Three such in front of the others could else close their origin again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    refused: bool,
    order: u64,
}

/// One hold on one envelope.
#[derive(Debug)]
pub struct Lease {
    /// What is held.
    pub envelope: Arc<Envelope>,
    /// Where it goes.
    pub route: Route,
    /// What this process has tried with it.
    pub history: History,
    /// When a page first listed it.
    pub first_listed: Instant,
    record: RecordKey,
    order: u64,
    listed: Instant,
    page: u64,
    due: bool,
    state: State,
}

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Free to be sent once it heads its record's line.
    Ready,
    /// One worker has it. `withdrawn`: a page has left it out since.
    Sending {
        /// It must not be sent again.
        withdrawn: bool,
    },
    /// Not before `until`.
    Waiting {
        /// When it is ready again.
        until: Instant,
    },
    /// Its provider has it, and the final word is still to come; it holds nobody up.
    Accepted,
    /// Its outcome is known; kept until the ack is through.
    Decided,
}

/// A line holds the leases of one record that are neither accepted nor settled, oldest first.
#[derive(Debug, Default)]
struct Line {
    members: Vec<Key>,
    offered: Option<Key>,
}

/// The table.
#[derive(Debug)]
pub struct Leases {
    freshness: Duration,
    keys: HashMap<EnvelopeId, Key>,
    leases: HashMap<Key, Lease>,
    lines: HashMap<RecordKey, Line>,
    /// Ready heads of their lines, by gate, in the order of their places.
    offered: BTreeMap<GateId, BTreeSet<(Place, Key)>>,
    waiting: BTreeSet<(Instant, Key)>,
    not_due: BTreeSet<(DateTime<Utc>, Key)>,
    /// What was tried with envelopes that are gone and may have arrived: should one be listed again, its
    /// provider's key still protects it from when it did.
    left_out: LruCache<EnvelopeId, History>,
    pages: u64,
    created: u64,
}

impl Leases {
    /// An empty table. A lease whose listing is older than `freshness` is not sent.
    pub fn new(freshness: Duration) -> Leases {
        Leases {
            freshness,
            keys: HashMap::new(),
            leases: HashMap::new(),
            lines: HashMap::new(),
            offered: BTreeMap::new(),
            waiting: BTreeSet::new(),
            not_due: BTreeSet::new(),
            left_out: LruCache::new(LEFT_OUT),
            pages: 0,
            created: 0,
        }
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The lease on `id`, if it is held.
    pub fn key_of(&self, id: &EnvelopeId) -> Option<Key> {
        self.keys.get(id).copied()
    }

    /// The lease behind `key`, while it is held.
    pub fn get(&self, key: Key) -> Option<&Lease> {
        self.leases.get(&key)
    }

    /// The same, to note in its history. Its place follows from that: only while it is not on offer.
    pub fn history_mut(&mut self, key: Key) -> Option<&mut History> {
        self.leases.get_mut(&key).map(|lease| &mut lease.history)
    }

    /// Every lease.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Lease)> {
        self.leases.iter().map(|(key, lease)| (*key, lease))
    }

    /// Moves along what time alone moves: waits that are over, `not_before` instants that have come.
    pub fn advance(&mut self, now: Now) {
        while let Some(&(until, key)) = self.waiting.first().filter(|(until, _)| *until <= now.mono) {
            self.waiting.remove(&(until, key));
            self.set_state(key, State::Ready);
        }
        while let Some(&(instant, key)) = self.not_due.first().filter(|(instant, _)| *instant <= now.wall) {
            self.not_due.remove(&(instant, key));
            self.set_due(key, true);
        }
    }

    /// When [`Leases::advance`] next has something to do.
    pub fn next_change(&self, now: Now) -> Option<Instant> {
        let wait = self.waiting.first().map(|(until, _)| *until);
        let due = self.not_due.first().map(|(instant, _)| now.when(*instant));
        wait.into_iter().chain(due).min()
    }

    /// The gates that ready heads stand at.
    pub fn gates_with_ready(&self) -> impl Iterator<Item = &GateId> {
        self.offered.keys()
    }

    /// How many ready heads stand at `gate`.
    pub fn ready_at(&self, gate: &GateId) -> usize {
        self.offered.get(gate).map_or(0, BTreeSet::len)
    }

    /// The oldest ready head at `gate` whose listing is fresh, with its place; one whose destination refused
    /// the last attempt only where there is no other.
    pub fn oldest_ready(&self, gate: &GateId, now: Now) -> Option<(Place, Key)> {
        self.offered.get(gate)?.iter().find(|(_, key)| self.is_fresh(*key, now)).copied()
    }

    /// The fresh, due heads at `gate`, whatever they still wait for: those that may be its probe.
    pub fn probe_candidates<'a>(
        &'a self,
        gate: &'a GateId,
        now: Now,
    ) -> impl Iterator<Item = (Key, &'a Lease)> {
        self.heads_at(gate).filter(move |(key, _)| self.is_fresh(*key, now))
    }

    /// Whether a head at `gate` could be its probe, were its listing not stale.
    pub fn has_stale_head(&self, gate: &GateId, now: Now) -> bool {
        self.heads_at(gate).any(|(key, _)| !self.is_fresh(key, now))
    }

    fn heads_at<'a>(&'a self, gate: &'a GateId) -> impl Iterator<Item = (Key, &'a Lease)> {
        self.iter().filter(move |(key, lease)| {
            lease.route.gate == *gate
                && matches!(lease.state, State::Ready | State::Waiting { .. })
                && self.is_head(*key)
        })
    }

    /// Whether a page that lists it arrived within the freshness bound.
    pub fn is_fresh(&self, key: Key, now: Now) -> bool {
        self.get(key).is_some_and(|lease| now.mono.saturating_duration_since(lease.listed) < self.freshness)
    }

    /// Whether it is the first of its record that is due and neither accepted nor settled.
    pub fn is_head(&self, key: Key) -> bool {
        self.get(key).and_then(|lease| self.head_of(&lease.record)) == Some(key)
    }

    /// The head of the record that `key` belongs to.
    pub fn head_for(&self, key: Key) -> Option<Key> {
        self.head_of(&self.get(key)?.record)
    }

    fn head_of(&self, record: &RecordKey) -> Option<Key> {
        let line = self.lines.get(record)?;
        line.members.iter().copied().find(|key| self.get(*key).is_some_and(|lease| lease.due))
    }

    /// Hands a head to a worker. `false`: it is not there to be taken, so nobody may send it.
    #[must_use]
    pub fn claim(&mut self, key: Key) -> bool {
        let free = self.get(key).is_some_and(|l| matches!(l.state, State::Ready | State::Waiting { .. }));
        let claimed = free && self.is_head(key);
        if claimed {
            self.set_state(key, State::Sending { withdrawn: false });
        }
        claimed
    }

    /// Keeps a lease back until `until`. A lease that was withdrawn while it was sent is gone instead:
    /// its id is returned.
    pub fn wait(&mut self, key: Key, until: Instant) -> Option<EnvelopeId> {
        match self.get(key)?.state {
            State::Sending { withdrawn: true } => self.withdraw(key),
            State::Sending { withdrawn: false } | State::Ready | State::Waiting { .. } => {
                self.set_state(key, State::Waiting { until });
                None
            }
            State::Accepted | State::Decided => None,
        }
    }

    /// The wall clock says that its `not_before` has not come after all: it leaves its line again.
    pub fn not_yet_due(&mut self, key: Key) {
        if let Some(instant) = self.get(key).and_then(|lease| lease.envelope.not_before) {
            self.not_due.insert((instant, key));
            self.set_due(key, false);
        }
    }

    /// Its provider has it: it is never sent again, and the next of its record goes on.
    pub fn accept(&mut self, key: Key) {
        self.set_state(key, State::Accepted);
        self.leave_line(key);
    }

    /// Its outcome is known: it is never sent again. Only what a provider has accepted makes way for the
    /// next of its record at once; the rest does so when it is released.
    pub fn decide(&mut self, key: Key, accepted: bool) {
        self.set_state(key, State::Decided);
        if accepted {
            self.leave_line(key);
        }
    }

    /// The ack cannot get through: it no longer keeps the next of its record waiting.
    pub fn make_way(&mut self, id: &EnvelopeId) {
        if let Some(key) = self.key_of(id) {
            self.leave_line(key);
        }
    }

    /// The ack is through: the lease ends.
    pub fn release(&mut self, id: &EnvelopeId) {
        if let Some(key) = self.key_of(id) {
            self.remove(key);
        }
    }

    fn withdraw(&mut self, key: Key) -> Option<EnvelopeId> {
        let lease = self.remove(key)?;
        let id = lease.envelope.id.clone();
        if lease.history.unclear_since.is_some() {
            self.left_out.put(id.clone(), lease.history);
        }
        Some(id)
    }

    fn remove(&mut self, key: Key) -> Option<Lease> {
        self.leave_line(key);
        let lease = self.leases.remove(&key)?;
        self.keys.remove(&lease.envelope.id);
        if let State::Waiting { until } = lease.state {
            self.waiting.remove(&(until, key));
        }
        if let Some(instant) = lease.envelope.not_before {
            self.not_due.remove(&(instant, key));
        }
        Some(lease)
    }

    fn set_state(&mut self, key: Key, state: State) {
        let Some(lease) = self.leases.get_mut(&key) else { return };
        if let State::Waiting { until } = lease.state {
            self.waiting.remove(&(until, key));
        }
        if let State::Waiting { until } = state {
            self.waiting.insert((until, key));
        }
        lease.state = state;
        let record = lease.record.clone();
        self.offer_head(&record);
    }

    fn set_due(&mut self, key: Key, due: bool) {
        let Some(lease) = self.leases.get_mut(&key) else { return };
        lease.due = due;
        let record = lease.record.clone();
        self.offer_head(&record);
    }

    fn leave_line(&mut self, key: Key) {
        let Some(record) = self.get(key).map(|lease| lease.record.clone()) else { return };
        self.take_back(&record);
        if let Some(line) = self.lines.get_mut(&record) {
            line.members.retain(|member| *member != key);
            if line.members.is_empty() {
                self.lines.remove(&record);
            }
        }
        self.offer_head(&record);
    }

    /// Brings what is offered of a record in line with its head: the head if it is ready, else nobody.
    fn offer_head(&mut self, record: &RecordKey) {
        let head = self.head_of(record).filter(|key| self.get(*key).is_some_and(|l| l.state == State::Ready));
        if self.lines.get(record).is_some_and(|line| line.offered == head) {
            return;
        }
        self.take_back(record);
        let (Some(line), Some(key)) = (self.lines.get_mut(record), head) else { return };
        line.offered = head;
        if let Some(lease) = self.leases.get(&key) {
            self.offered.entry(lease.route.gate.clone()).or_default().insert((lease.place(), key));
        }
    }

    fn take_back(&mut self, record: &RecordKey) {
        let Some(key) = self.lines.get_mut(record).and_then(|line| line.offered.take()) else { return };
        let Some(lease) = self.leases.get(&key) else { return };
        if let Some(heads) = self.offered.get_mut(&lease.route.gate) {
            heads.remove(&(lease.place(), key));
            if heads.is_empty() {
                self.offered.remove(&lease.route.gate);
            }
        }
    }
}

impl Lease {
    fn place(&self) -> Place {
        Place { refused: self.history.yields, order: self.order }
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether its `not_before` has come.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Whether it may probe a closed gate: not while it cannot be sent for a skewed clock, nor while it
    /// waits after a trouble of this worker's own, of which no probe learns anything.
    pub fn may_probe(&self, now: Now, ahead: Option<TimeDelta>) -> bool {
        let recovers = self.history.stumbled && matches!(self.state, State::Waiting { .. });
        !recovers && !self.is_held_for_skew(now, ahead)
    }

    /// Whether it is kept back because this machine's clock, `ahead` of the seam's by too much, says what
    /// it cannot be believed: that it has expired, or that its `not_before` has come.
    pub fn is_held_for_skew(&self, now: Now, ahead: Option<TimeDelta>) -> bool {
        let Some(ahead) = ahead else { return false };
        let expired = self.envelope.expires_at.is_some_and(|instant| instant <= now.wall);
        expired || self.envelope.not_before.is_some_and(|instant| instant > now.wall - ahead)
    }
}
