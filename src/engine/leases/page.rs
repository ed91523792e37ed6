//! What a page means for the lease table: who joins, who is fresh again, who is gone, and in what order.
//!
//! Owns the reading of a page as the head of the seam's order. It must not know how an element is read or
//! where a page comes from.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Key, Lease, Leases, RecordKey, State};
use crate::channel::Route;
use crate::clock::Now;
use crate::envelope::{Envelope, EnvelopeId};

/// One element of a page that this lane can send, in the page's order.
#[derive(Debug)]
pub enum Listing {
    /// Held already.
    Held(Key),
    /// Seen for the first time.
    New(Arc<Envelope>, Route),
}

/// Which of the held leases a page answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every lease: whoever is not on it is no longer pending.
    All,
    /// Only leases older than the last of its elements that was held before: it was too short for the
    /// rest, and an element that is seen for the first time does not tell what stands before it.
    OlderThanLast,
}

/// What a page changed.
#[derive(Debug, Default)]
pub struct Applied {
    /// Envelopes that it left out: no longer held, never acked.
    pub withdrawn: Vec<EnvelopeId>,
    /// New leases that are due.
    pub new_due: usize,
}

impl Leases {
    /// Takes in a page: new leases join, held ones are fresh again, and those that it answers for and
    /// leaves out are gone (a sending one is only marked: what is on its way cannot be called back).
    pub fn apply(&mut self, listings: Vec<Listing>, coverage: Coverage, now: Now) -> Applied {
        self.pages += 1;
        let mut applied = Applied::default();
        let mut listed = Vec::with_capacity(listings.len());
        let mut last_held = 0;
        for listing in listings {
            let key = match listing {
                Listing::Held(key) => {
                    last_held = self.get(key).map_or(last_held, |lease| lease.order);
                    key
                }
                Listing::New(envelope, route) => {
                    let key = self.insert(envelope, route, now);
                    applied.new_due += usize::from(self.get(key).is_some_and(Lease::is_due));
                    key
                }
            };
            if let Some(lease) = self.leases.get_mut(&key) {
                lease.listed = now.mono;
                lease.page = self.pages;
                if let State::Sending { withdrawn } = &mut lease.state {
                    *withdrawn = false;
                }
                listed.push(key);
            }
        }
        let horizon = match coverage {
            Coverage::All => u64::MAX,
            Coverage::OlderThanLast => last_held,
        };
        applied.withdrawn = self.withdraw_unlisted(horizon);
        self.follow_order(listed, horizon);
        applied
    }

    fn insert(&mut self, envelope: Arc<Envelope>, route: Route, now: Now) -> Key {
        self.created += 1;
        let key = Key(self.created);
        let record =
            RecordKey { destination: route.destination.clone(), family: envelope.template.family().into() };
        let due = envelope.not_before.is_none_or(|instant| instant <= now.wall);
        if let (false, Some(instant)) = (due, envelope.not_before) {
            self.not_due.insert((instant, key));
        }
        self.keys.insert(envelope.id.clone(), key);
        self.lines.entry(record.clone()).or_default().members.push(key);
        let history = self.left_out.pop(&envelope.id).unwrap_or_default();
        self.leases.insert(
            key,
            Lease {
                envelope,
                route,
                history,
                first_listed: now.mono,
                record: record.clone(),
                order: self.created,
                listed: now.mono,
                page: self.pages,
                due,
                state: State::Ready,
            },
        );
        self.offer_head(&record);
        key
    }

    fn withdraw_unlisted(&mut self, horizon: u64) -> Vec<EnvelopeId> {
        let mut gone = Vec::new();
        for (key, lease) in &mut self.leases {
            if lease.page == self.pages || lease.order >= horizon {
                continue;
            }
            match &mut lease.state {
                State::Ready | State::Waiting { .. } => gone.push(*key),
                State::Sending { withdrawn } => *withdrawn = true,
                State::Accepted | State::Decided => {}
            }
        }
        gone.sort_unstable();
        gone.into_iter().filter_map(|key| self.withdraw(key)).collect()
    }

    /// The page is the head of the seam's order: what it lists stands as it lists it, behind what it has
    /// left out and in front of what it does not answer for. Mostly that is so already; a transaction that
    /// the app commits late comes in front of envelopes that are held. The places stay and are dealt out
    /// anew.
    fn follow_order(&mut self, listed: Vec<Key>, horizon: u64) {
        let unlisted = self.iter().filter(|(_, lease)| lease.page != self.pages);
        let mut unlisted: Vec<(u64, Key)> = unlisted.map(|(key, lease)| (lease.order, key)).collect();
        unlisted.sort_unstable();
        let behind = unlisted.split_off(unlisted.partition_point(|(order, _)| *order < horizon));
        let keys = |leases: Vec<(u64, Key)>| leases.into_iter().map(|(_, key)| key);
        let order: Vec<Key> = keys(unlisted).chain(listed).chain(keys(behind)).collect();
        let mut places: Vec<u64> = order.iter().filter_map(|key| self.get(*key)).map(|l| l.order).collect();
        if places.is_sorted() {
            return;
        }
        places.sort_unstable();
        let moved: HashSet<RecordKey> =
            order.iter().filter_map(|key| self.get(*key)).map(|lease| lease.record.clone()).collect();
        moved.iter().for_each(|record| self.take_back(record));
        for (key, place) in order.iter().zip(places) {
            if let Some(lease) = self.leases.get_mut(key) {
                lease.order = place;
            }
        }
        for record in &moved {
            if let Some(line) = self.lines.get_mut(record) {
                line.members.sort_by_key(|key| self.leases.get(key).map(|lease| lease.order));
            }
            self.offer_head(record);
        }
    }
}
