//! What follows from an attempt, and from an ack.
//!
//! Owns how a claim ends: the envelope is acked, waits, or waits for the final word; its gate hears of it, and the
//! operator is told. What an outcome costs is `retry`'s and `gate`'s to say. It must not know who is sent next.

use super::desk::{Claim, Desk, SKEW_RECHECK};
use super::gate::{Change, Suspect};
use super::retry::{Circumstances, Verdict};
use crate::channel::{Attempt, GateId};
use crate::clock::{Moment, Now};
use crate::envelope::{Envelope, EnvelopeId};
use crate::outbox::{Acked, SeamError};
use crate::outcome::{Cause, Detail, Outcome, Refusal, Scope, Streak};
use crate::telemetry::events::{AckEvent, AttemptEvent};

impl Desk {
    /// An attempt came to its end: the envelope is acked, or waits, or a gate closes.
    pub(super) fn settle(&mut self, claim: &Claim, attempt: Attempt, now: Now) {
        let ahead = self.ahead(now);
        let Some(lease) = self.leases.get(claim.key) else { return };
        // A clock that cannot be believed ends nothing.
        let expires_at = lease.envelope.expires_at.filter(|_| ahead.is_none());
        let route = lease.route.clone();
        let who = Suspect { id: lease.envelope.id.clone(), destination: route.destination.clone() };
        let at = Moment { now, random: self.rng.f64() };
        let Some(history) = self.leases.history_mut(claim.key) else { return };
        history.stumbled = !attempt.answered && attempt.cause.streak() != Some(Streak::Outage);
        let gate = self.gates.get_mut(&route.gate, now);
        if attempt.cause == Cause::Expired && ahead.is_some() {
            gate.abandon(claim.ticket);
            self.leases.wait(claim.key, now.mono + SKEW_RECHECK);
            return;
        }
        let attempt = if gate.is_refusal_run(&attempt, &who) { as_our_settings(attempt) } else { attempt };
        let probed = gate.probed_streak(claim.ticket);
        let change = gate.end(claim.ticket, &attempt, &who, at);
        let (passed, accepted) = (gate.passed(), gate.has_accepted());
        let circumstances = Circumstances { at, passed, accepted, probed, expires_at };
        let Some(history) = self.leases.history_mut(claim.key) else { return };
        let verdict = self.policy.judge(history, &attempt, circumstances);
        let number = history.tries;
        self.tell(claim, &attempt, (number, &verdict), now);
        self.tell_change(&route.gate, change, &attempt.detail);
        match verdict {
            Verdict::Settle(status, reason) => self.decide(claim.key, status, &reason, now),
            Verdict::Await(message) => self.await_word(claim.key, message, now),
            Verdict::Again(wait) => {
                if let Some(asked) = attempt.outcome.asked() {
                    self.gates.ask(&route.destination, now.mono + asked.min(wait));
                }
                if matches!(attempt.outcome, Outcome::Pause { scope: Scope::Destination, .. }) {
                    self.gates.hold(&route.destination, now.mono + wait);
                }
                if let Some(id) = self.leases.wait(claim.key, now.mono + wait) {
                    self.events.withdrawn(&id, &self.channel);
                }
            }
        }
    }

    fn tell(&self, claim: &Claim, attempt: &Attempt, (number, verdict): (u32, &Verdict), now: Now) {
        let Envelope { id, template, .. } = &*claim.delivery.envelope;
        let Some(lease) = self.leases.get(claim.key) else { return };
        if attempt.is_refusal() {
            let refusal = Refusal::new(attempt.cause, attempt.detail.clone());
            return self.events.refused(id, &self.channel, template, &refusal);
        }
        if let Some(bytes) = attempt.nearly_too_large {
            self.events.nearly_too_large(id, &self.channel, template, bytes);
        }
        self.events.attempt(&AttemptEvent {
            id,
            channel: &self.channel,
            template,
            gate: &lease.route.gate,
            number,
            outcome: &attempt.outcome,
            cause: attempt.cause,
            detail: &attempt.detail,
            took: now.mono.saturating_duration_since(claim.began.mono),
            next_in: match verdict {
                Verdict::Again(wait) => Some(*wait),
                Verdict::Settle(..) | Verdict::Await(_) => None,
            },
        });
    }

    fn tell_change(&self, gate: &GateId, change: Option<Change>, detail: &Detail) {
        match change {
            Some(Change::Closed { cause, probe_in }) => {
                self.events.gate_closed(gate, cause, detail, probe_in)
            }
            Some(Change::Opened { closed_for }) => self.events.gate_opened(gate, closed_for),
            None => {}
        }
    }

    /// A claim comes back without an attempt's end: its worker was cut short. It may have arrived.
    pub(super) fn abandon(&mut self, claim: &Claim, now: Now) {
        let Some(gate) = self.leases.get(claim.key).map(|lease| lease.route.gate.clone()) else { return };
        self.gates.get_mut(&gate, now).abandon(claim.ticket);
        if let Some(history) = self.leases.history_mut(claim.key) {
            history.unclear_since.get_or_insert(now.mono);
        }
        self.leases.wait(claim.key, now.mono + self.policy.schedule.after(1));
    }

    /// The seam took an ack.
    pub(super) fn acked(&mut self, id: &EnvelopeId, answer: Acked, now: Now) {
        if self.seam_gate().passed() {
            self.events.acks_blocked(false);
            self.acks.hurry(now.mono);
        }
        self.leases.release(id);
        self.window.made_room();
        self.last_settled = Some(now.mono);
        self.acks_failing = None;
        if let Some(done) = self.acks.settle(id, now.mono) {
            self.events.acked(&AckEvent {
                id,
                channel: &self.channel,
                status: done.ack.status,
                cause: done.cause,
                answer,
                lag: now.mono.saturating_duration_since(done.first_listed),
            });
        }
    }

    /// An ack did not get through.
    pub(super) fn ack_failed(&mut self, id: &EnvelopeId, error: &SeamError, now: Now) {
        let for_good = error.is_final();
        let random = self.rng.f64();
        let wait = self.acks.fail(id, for_good, now.mono, random);
        self.acks.blame(id, error.is_setup().then(|| error.label()));
        self.events.ack_failed(id, &self.channel, error, wait);
        if for_good {
            self.leases.make_way(id);
            if self.seam_gate().refused(id) {
                self.events.acks_blocked(false);
            }
            return;
        }
        let since = self.acks_failing.take().map_or(now.mono, |(_, since)| since);
        self.acks_failing = Some((error.clone(), since));
        if self.seam_gate().failed(id) {
            self.events.acks_blocked(true);
        }
    }
}

/// Message after message refused alike: what is wrong is what they have in common.
fn as_our_settings(attempt: Attempt) -> Attempt {
    Attempt {
        outcome: Outcome::Pause { scope: Scope::Provider, after: None },
        cause: Cause::SenderSettings,
        ..attempt
    }
}
