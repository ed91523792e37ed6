//! What a lane decides, under its one lock: who is sent next.
//!
//! Brings the pure parts together (lease table, gates, retry policy, acks, window) and tells each
//! decision to the operator. No I/O beyond that, no waiting; the caller passes the time. What a page
//! means is in `intake`, what follows from an attempt in `settling`; what the operator and `drain` ask is in `view`.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tracing::Span;

use super::acks::{Acks, Decision, SeamGate};
use super::confirm::Confirmations;
use super::gate::{Admission, Ticket};
use super::gates::Gates;
use super::leases::{Key, Leases, Place, State};
use super::retry::{Policy, Schedule, outcome_unknown};
use super::window::{Request, Short, Window};
use super::{LaneSettings, Settings};
use crate::channel::{Channel, Delivery, Gating};
use crate::clock::Now;
use crate::envelope::{ChannelName, Envelope};
use crate::outbox::{Ack, SeamError};
use crate::outcome::{AckStatus, Cause, Detail, Refusal};
use crate::render::Templates;
use crate::telemetry::events::Events;
use crate::trace;

/// The two clocks may differ by this much before nothing is failed as expired.
const SKEW_BOUND: TimeDelta = TimeDelta::seconds(60);
/// An envelope that is held for a skewed clock is looked at again after this.
pub(super) const SKEW_RECHECK: Duration = Duration::from_secs(5);
/// Another lane may open the seam's gate: a lane that it stops looks again after this.
const BLOCKED_RECHECK: Duration = Duration::from_secs(1);
/// A listing is fresh for twice the poll interval, but for no less than this.
const FRESH_AT_LEAST: Duration = Duration::from_secs(10);
/// A listing is fresh for no longer than this, whatever the poll interval is.
pub const FRESH_AT_MOST: Duration = Duration::from_secs(60);

/// One lane's state.
pub(super) struct Desk {
    pub(super) channel: ChannelName,
    pub(super) siblings: BTreeSet<ChannelName>,
    pub(super) gating: Gating,
    pub(super) workers: usize,
    pub(super) leases: Leases,
    pub(super) gates: Gates,
    pub(super) acks: Acks,
    pub(super) window: Window,
    pub(super) events: Events,
    pub(super) rng: fastrand::Rng,
    pub(super) seam: Arc<Mutex<SeamGate>>,
    pub(super) seam_clock: Option<(DateTime<Utc>, Instant)>,
    pub(super) skewed: bool,
    pub(super) reported: HashSet<u64>,
    pub(super) unreadable: usize,
    pub(super) last_request: Option<Request>,
    pub(super) last_settled: Option<Instant>,
    /// The last ack's error, and since when none gets through.
    pub(super) acks_failing: Option<(SeamError, Instant)>,
    pub(super) crowded: bool,
    pub(super) confirmations: Confirmations,
    pub(super) policy: Policy,
    leasing: bool,
    stale: bool,
    /// The last look for a lease has put others out of the way: they are decided, or wait.
    pub(super) moved: bool,
}

/// One claimed lease, on its way through a worker.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: Key,
    pub(super) delivery: Delivery,
    pub(super) began: Now,
    pub(super) ticket: Ticket,
    /// The attempt, in the envelope's trace.
    pub(super) span: Span,
}

/// What a worker is told.
#[derive(Debug)]
pub(super) enum Next {
    /// Deliver this.
    Deliver(Box<Claim>),
    /// Nothing is eligible.
    Idle,
}

impl Desk {
    pub(super) fn new(
        channel: &dyn Channel,
        siblings: BTreeSet<ChannelName>,
        settings: &Settings,
        lane: LaneSettings,
        shared: (Events, Arc<Mutex<SeamGate>>),
    ) -> Desk {
        let schedule = Schedule::new(settings.retry_base, settings.retry_max);
        let freshness = (settings.poll_interval * 2).clamp(FRESH_AT_LEAST, FRESH_AT_MOST);
        Desk {
            channel: channel.name(),
            siblings,
            gating: channel.gating(),
            workers: lane.workers,
            leases: Leases::new(freshness),
            gates: Gates::new(channel.gating(), lane.workers, schedule.clone()),
            acks: Acks::new(settings.retry_base, settings.retry_max),
            window: Window::new(settings.page_limit, settings.poll_interval),
            events: shared.0,
            rng: fastrand::Rng::with_seed(lane.seed),
            seam: shared.1,
            seam_clock: None,
            skewed: false,
            reported: HashSet::new(),
            unreadable: 0,
            last_request: None,
            last_settled: None,
            acks_failing: None,
            crowded: false,
            confirmations: Confirmations::new(channel.confirming().map(|confirmer| confirmer.window())),
            policy: Policy {
                schedule,
                max_attempts: settings.max_attempts,
                redelivery_window: channel.redelivery_window(),
            },
            leasing: true,
            stale: false,
            moved: false,
        }
    }

    pub(super) fn seam_gate(&self) -> MutexGuard<'_, SeamGate> {
        self.seam.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No lease is handed out any more.
    pub(super) fn stop_leasing(&mut self) {
        self.leasing = false;
    }

    /// Each closed gate may probe at once.
    pub(super) fn probe_gates(&mut self, now: Now) {
        self.gates.probe_all(now);
    }

    /// The next eligible lease, claimed, with the template set it is to be rendered with.
    pub(super) fn next(&mut self, now: Now, templates: &Arc<Templates>) -> Next {
        self.leases.advance(now);
        self.stale = false;
        self.moved = false;
        if !self.leasing || self.seam_gate().is_blocked() {
            return Next::Idle;
        }
        while let Some((key, probe)) = self.choose(now) {
            if let Some(claim) = self.claim(key, probe, now, templates) {
                return Next::Deliver(Box::new(claim));
            }
            self.moved = true;
        }
        Next::Idle
    }

    /// A due probe first; else the oldest fresh head at a gate that lets it through.
    fn choose(&mut self, now: Now) -> Option<(Key, bool)> {
        let ahead = self.ahead(now);
        for gate in self.gates.to_probe(now) {
            let candidates = self.leases.probe_candidates(&gate, now).filter(|(_, lease)| {
                lease.may_probe(now, ahead) && self.gates.may_probe(&lease.route.destination, now)
            });
            let longest_ago = candidates
                .min_by_key(|(key, l)| (self.gates.last_tried(&l.route.destination), l.first_listed, *key));
            if let Some((key, _)) = longest_ago {
                return Some((key, true));
            }
            self.stale |= self.leases.has_stale_head(&gate, now);
        }
        let mut stale = false;
        let mut oldest: Option<(Place, Key)> = None;
        for gate in self.leases.gates_with_ready() {
            if self.gates.admits(gate, now) == Admission::Now {
                let head = self.leases.oldest_ready(gate, now);
                stale |= head.is_none() && self.leases.ready_at(gate) > 0;
                oldest = oldest.into_iter().chain(head).min();
            }
        }
        self.stale |= stale;
        oldest.map(|(_, key)| (key, false))
    }

    /// Looks at a chosen lease as its turn comes. `None`: it is not to be sent now, and has been moved
    /// out of the way.
    fn claim(&mut self, key: Key, probe: bool, now: Now, templates: &Arc<Templates>) -> Option<Claim> {
        let lease = self.leases.get(key)?;
        let (envelope, route) = (lease.envelope.clone(), lease.route.clone());
        if envelope.not_before.is_some_and(|instant| instant > now.wall) {
            self.leases.not_yet_due(key);
            return None;
        }
        let ahead = self.ahead(now);
        if self.leases.get(key)?.is_held_for_skew(now, ahead) {
            self.leases.wait(key, now.mono + SKEW_RECHECK);
            return None;
        }
        if let Some(expires_at) = envelope.expires_at.filter(|instant| *instant <= now.wall) {
            let detail = Detail::scrub(&format!("its last moment was {}", expires_at.to_rfc3339()), &[]);
            self.fail(key, &envelope, &Refusal::new(Cause::Expired, detail), now);
            return None;
        }
        let lease = self.leases.get(key)?;
        if self.policy.is_unprotected(&lease.history, now) {
            self.fail(key, &envelope, &outcome_unknown(), now);
            return None;
        }
        if let Some(until) = self.gates.held_until(&route.destination, now).filter(|_| !probe) {
            self.leases.wait(key, until);
            return None;
        }
        if !self.leases.claim(key) {
            return None;
        }
        self.gates.tried(&route.destination, now);
        let ticket = self.gates.get_mut(&route.gate, now).begin(now);
        let history = self.leases.history_mut(key)?;
        history.tries += 1;
        let templates = history.templates.get_or_insert_with(|| templates.clone()).clone();
        let refused_before = history.refused;
        let Envelope { id, channel, template, .. } = &*envelope;
        let span = trace::delivery(id.as_str(), channel.as_str(), template.as_str(), &mut history.trace);
        Some(Claim {
            key,
            delivery: Delivery { envelope, templates, now: now.wall, refused_before },
            began: now,
            ticket,
            span,
        })
    }

    /// Decides `failed` without an attempt.
    fn fail(&mut self, key: Key, envelope: &Envelope, refusal: &Refusal, now: Now) {
        self.events.refused(&envelope.id, &self.channel, &envelope.template, refusal);
        self.decide(key, AckStatus::Failed, refusal, now);
    }

    pub(super) fn decide(&mut self, key: Key, status: AckStatus, reason: &Refusal, now: Now) {
        let Some(lease) = self.leases.get(key) else { return };
        let (id, first_listed, trace) =
            (lease.envelope.id.clone(), lease.first_listed, lease.history.trace.clone());
        let ack = Ack { status, detail: reason.ack_detail() };
        let decision = Decision { ack, cause: reason.cause, first_listed, trace };
        self.leases.decide(key, status == AckStatus::Delivered);
        self.acks.push(id, decision, now.mono);
    }

    /// By how much this machine's clock is ahead of the seam's, where that is too much. The seam's clock
    /// is carried on from the last page, so that a jump shows before the next one.
    pub(super) fn ahead(&mut self, now: Now) -> Option<TimeDelta> {
        let ahead = self.clock_ahead(now).filter(|ahead| ahead.abs() > SKEW_BOUND);
        if let (Some(ahead), false) = (ahead, self.skewed) {
            self.events.clock_skew(&self.channel, ahead.num_seconds());
        }
        self.skewed = ahead.is_some();
        ahead
    }

    fn clock_ahead(&self, now: Now) -> Option<TimeDelta> {
        let (date, arrived) = self.seam_clock?;
        let since = TimeDelta::from_std(now.mono.saturating_duration_since(arrived)).ok()?;
        Some(now.wall - date.checked_add_signed(since)?)
    }

    /// When time alone next changes what is eligible.
    pub(super) fn next_change(&self, now: Now) -> Option<Instant> {
        let gates = self.gates.iter().filter_map(|(id, gate)| match gate.admits(now) {
            Admission::At(at) => (self.leases.ready_at(id) > 0).then_some(at),
            Admission::Probe(at) => at.filter(|at| *at > now.mono),
            Admission::Now | Admission::Full => None,
        });
        let blocked = self.seam_gate().is_blocked().then_some(now.mono + BLOCKED_RECHECK);
        gates.chain(self.leases.next_change(now)).chain(blocked).min()
    }

    /// When the next poll is due; `None`: at once.
    pub(super) fn next_poll(&self, now: Now) -> Option<Instant> {
        self.window.next_poll(self.short(now), self.stale)
    }

    fn short(&self, now: Now) -> Short {
        let ready: usize = self.leases.gates_with_ready().map(|gate| self.leases.ready_at(gate)).sum();
        match self.usable(now) >= self.workers {
            true => Short::No,
            false if ready >= self.workers => Short::OfOthers,
            false => Short::OfAll,
        }
    }

    /// Ready heads that the workers can turn to: not those at a closed gate, and where there are other
    /// providers to serve, not those at one that is busy or held either.
    pub(super) fn usable(&self, now: Now) -> usize {
        let open = |gate: &_| match (self.gates.admits(gate, now), self.gating) {
            (Admission::Now, _) => true,
            (Admission::Probe(_), _) => false,
            (Admission::At(_) | Admission::Full, Gating::OneProvider(_)) => true,
            (Admission::At(_) | Admission::Full, Gating::ManyProviders) => false,
        };
        self.leases.gates_with_ready().filter(|gate| open(gate)).map(|gate| self.leases.ready_at(gate)).sum()
    }

    /// Leases and acks that take places of the seam's page.
    pub(super) fn held(&self) -> usize {
        let decided = self.leases.iter().filter(|(_, lease)| lease.state() == State::Decided).count();
        self.leases.len() + self.acks.count().saturating_sub(decided)
    }
}
