//! What a lane tells about itself: status for the operator, and whether a drain is done.
//!
//! Reads the desk and changes nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::desk::Desk;
use super::leases::{Key, Lease, State};
use crate::clock::Now;
use crate::outbox::SeamError;
use crate::telemetry::status::{GateState, GateStatus, LaneStatus, LeaseState, Unready};

impl Desk {
    /// Whether nothing more will happen by itself soon: a page that was requested after the last ack
    /// shows only envelopes that are not due, paused or unreadable. Acks that the seam refuses for good
    /// are not waited for.
    pub(super) fn is_at_rest(&mut self, now: Now) -> bool {
        let Some(request) = self.last_request else { return false };
        let seen = self.last_settled.is_none_or(|settled| request.began > settled);
        let whole = !self.window.is_full() || self.window.is_widest(request);
        let quiet = self.acks.is_flushed() && self.window.trouble().is_none();
        if !seen || !whole || !quiet {
            return false;
        }
        let ahead = self.ahead(now);
        let held = |lease: &Lease| lease.is_held_for_skew(now, ahead);
        self.leases.iter().all(|(key, lease)| self.is_resting(key, lease) || held(lease))
    }

    fn is_resting(&self, key: Key, lease: &Lease) -> bool {
        match lease.state() {
            State::Decided => true,
            State::Sending { .. } | State::Accepted => false,
            State::Ready | State::Waiting { .. } => !lease.is_due() || self.is_paused(key, lease),
        }
    }

    /// Whether a due lease waits for people rather than for time: its gate is closed, or the head of
    /// its record has a destination that refuses us.
    fn is_paused(&self, key: Key, lease: &Lease) -> bool {
        let gate_closed = self.gates.get(&lease.route.gate).is_some_and(|gate| gate.closed().is_some());
        let head = self.leases.head_for(key).and_then(|head| self.leases.get(head));
        gate_closed || head.is_some_and(|head| head.history.paused && head.state() != State::Ready)
    }

    /// Envelopes in workers' hands.
    pub(super) fn sending(&self) -> usize {
        self.leases.iter().filter(|(_, lease)| matches!(lease.state(), State::Sending { .. })).count()
    }

    /// What keeps polls or acks from getting through, and since when; the older of the two.
    pub(super) fn seam_trouble(&self) -> Option<(SeamError, Instant)> {
        let polls = self.window.trouble().map(|(error, since)| (error.clone(), since));
        polls.into_iter().chain(self.acks_failing.clone()).min_by_key(|(_, since)| *since)
    }

    /// Envelopes that are due and not yet decided.
    pub(super) fn due_left(&self) -> usize {
        let left = |lease: &Lease| !matches!(lease.state(), State::Accepted | State::Decided);
        self.leases.iter().filter(|(_, lease)| lease.is_due() && left(lease)).count()
    }

    pub(super) fn status(&self, now: Now) -> LaneStatus {
        let mut leases: BTreeMap<LeaseState, usize> =
            LeaseState::ALL.into_iter().map(|state| (state, 0)).collect();
        for (_, lease) in self.leases.iter() {
            let state = match lease.state() {
                State::Ready => LeaseState::Ready,
                State::Sending { .. } => LeaseState::Sending,
                State::Waiting { .. } => LeaseState::Waiting,
                State::Accepted => LeaseState::Accepted,
                State::Decided => continue,
            };
            *leases.entry(state).or_default() += 1;
        }
        leases.insert(LeaseState::Acking, self.acks.count());
        LaneStatus {
            channel: self.channel.clone(),
            leases,
            window_used: self.held() + self.window.dead(),
            window_size: usize::from(self.window.size()),
            gates: self.gate_statuses(now),
            backlog_age: self.backlog_age(now),
            last_page: self.window.last_page().map(|at| now.mono.saturating_duration_since(at)),
        }
    }

    /// How long the longest due and unsent envelope has been held, or has been due if that is less.
    fn backlog_age(&self, now: Now) -> Duration {
        let waits = |lease: &Lease| {
            let held = now.mono.saturating_duration_since(lease.first_listed);
            let due = lease.envelope.not_before.map(|from| (now.wall - from).to_std().unwrap_or_default());
            due.map_or(held, |due| due.min(held))
        };
        let left = |lease: &Lease| !matches!(lease.state(), State::Accepted | State::Decided);
        let due = self.leases.iter().map(|(_, lease)| lease).filter(|lease| lease.is_due() && left(lease));
        due.map(waits).max().unwrap_or_default()
    }

    fn gate_statuses(&self, now: Now) -> Vec<GateStatus> {
        let state = |gate: &super::gate::Gate| match (gate.closed(), gate.held_until()) {
            (Some((cause, probe)), _) => {
                GateState::Closed { cause, probe_in: probe.saturating_duration_since(now.mono) }
            }
            (None, Some(until)) if until > now.mono => {
                GateState::Spaced { wait: until.saturating_duration_since(now.mono) }
            }
            (None, _) => GateState::Open,
        };
        self.gates.iter().map(|(id, gate)| GateStatus { label: id.label(), state: state(gate) }).collect()
    }

    /// Why this lane is not ready.
    pub(super) fn unready(&mut self, now: Now) -> Vec<Unready> {
        let mut reasons = Vec::new();
        match (self.window.trouble(), self.window.last_page()) {
            (Some((error, _)), _) => reasons.push(Unready::Seam { error: Some(error.clone()) }),
            (None, None) => reasons.push(Unready::Seam { error: None }),
            (None, Some(_)) => {}
        }
        for (id, gate) in self.gates.iter() {
            if let Some((cause, _)) = gate.closed() {
                reasons.push(Unready::GateClosed { label: id.label(), cause });
            }
        }
        let blamed = self.acks.blamed().into_iter();
        reasons.extend(blamed.map(|(error, count)| Unready::AcksFail { count, error }));
        if self.acks.refused() > 0 {
            reasons.push(Unready::AcksRefused { count: self.acks.refused() });
        }
        if self.unreadable > 0 {
            reasons.push(Unready::UnreadableVersion { count: self.unreadable });
        }
        if let Some(seconds) = self.ahead(now).map(|ahead| ahead.num_seconds()) {
            reasons.push(Unready::ClockSkew { seconds });
        }
        reasons
    }
}
