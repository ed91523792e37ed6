//! What a lane makes of accepted messages: when it asks about them, and what it acks in the end.
//!
//! Owns where questions stand beside sends: they share the gate, and sends go first. Which question it is, is
//! `confirm`'s.

use std::time::{Duration, Instant};

use super::acks::Decision;
use super::confirm::Enough;
use super::desk::Desk;
use super::gate::Admission;
use super::leases::{Key, State};
use crate::channel::GateId;
use crate::channel::confirm::{Fate, Question, Reply, Said};
use crate::clock::{Moment, Now};
use crate::envelope::{Envelope, EnvelopeId};
use crate::outbox::Ack;
use crate::outcome::{Cause, Detail, MessageId, Refusal};
use crate::telemetry::events::FinalWord;
use crate::trace::Trace;

/// Sends go first, but for no longer than this: else a busy outbox would never hear of its bounces.
const SENDS_FIRST: Duration = Duration::from_secs(60);
/// While sends keep a question back, it looks again this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// While so many acks are on their way, no more are made of what is told from outside.
const UNASKED: usize = 1000;

/// What comes of a final word that is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// There is nothing to tell the seam.
    Known,
    /// Its ack is on its way.
    BeingTold,
    /// It must be told again later.
    NotNow,
}

/// What the asker is told.
#[derive(Debug)]
pub(super) enum Ask {
    /// Ask this of the provider behind this gate.
    Now(Question, GateId),
    /// Look again then, or when something has changed.
    Later(Option<Instant>),
}

impl Desk {
    /// An attempt was accepted: its lease waits for the final word.
    pub(super) fn await_word(&mut self, key: Key, message: MessageId, now: Now) {
        self.leases.accept(key);
        self.confirmations.wait_for(key, message, now);
        self.conclude(now);
    }

    /// Acks whoever has waited long enough. `true`: somebody had.
    pub(super) fn conclude(&mut self, now: Now) -> bool {
        // Half of the places stay free for what is still to be sent.
        let most = usize::from(self.window.size() / 2);
        let trusted = self.ahead(now).is_none();
        let enough = self.confirmations.enough(most, trusted, now);
        for (key, why) in &enough {
            let (detail, word) = match why {
                Enough::Window => ("accepted, not confirmed", FinalWord::Unconfirmed),
                Enough::Room => ("accepted, not confirmed: too many wait to be", FinalWord::CrowdedOut),
            };
            let reason = Refusal::new(Cause::Unconfirmed, Detail::fixed(detail));
            self.end_wait(*key, word, &reason, now);
        }
        !enough.is_empty()
    }

    /// The next question, if it may be asked now.
    pub(super) fn ask(&mut self, now: Now) -> Ask {
        let Some(question) = self.confirmations.question(now) else {
            return Ask::Later(self.confirmations.next_change());
        };
        let Some(gate) = self.any_gate() else { return Ask::Later(None) };
        let due = self.confirmations.due();
        let waits = due.map_or(Duration::ZERO, |due| now.mono.saturating_duration_since(due));
        let sends_wait = self.usable(now) > 0 && waits < SENDS_FIRST;
        let state = self.gates.get_mut(&gate, now);
        match state.admits(now) {
            Admission::At(at) => Ask::Later(Some(at)),
            // A closed gate opens for a message, not for a question.
            Admission::Probe(_) => Ask::Later(Some(now.mono + LOOK_AGAIN)),
            Admission::Now | Admission::Full if sends_wait => Ask::Later(Some(now.mono + LOOK_AGAIN)),
            Admission::Now | Admission::Full => {
                state.ask(now);
                Ask::Now(question, gate)
            }
        }
    }

    /// A lane that confirms has one provider, so that any of its messages names the gate.
    fn any_gate(&self) -> Option<GateId> {
        let lease = self.confirmations.keys().first().and_then(|key| self.leases.get(*key))?;
        Some(lease.route.gate.clone())
    }

    /// A question was answered.
    pub(super) fn heard(&mut self, gate: &GateId, reply: &Reply, now: Now) {
        let at = Moment { now, random: self.rng.f64() };
        let hold = match &reply.said {
            Said::Later { after } => Some(after.unwrap_or_default()),
            Said::Messages { .. } | Said::MayNot | Said::Nothing(_) => None,
        };
        self.gates.get_mut(gate, now).answered(reply.pace, hold, at);
        self.events.asked(&self.channel, &reply.said);
        for (key, fate) in self.confirmations.heard(&reply.said, now) {
            self.learn(key, fate, now);
        }
        if reply.said == Said::MayNot {
            self.stop_waiting(now);
        }
    }

    fn learn(&mut self, key: Key, fate: Fate, now: Now) {
        if let Some((status, cause)) = fate.end() {
            self.end_wait(key, FinalWord::Known(status), &Refusal::new(cause, Detail::default()), now);
        }
    }

    /// What became of a mail is told from outside, perhaps of one that an earlier process sent. Whether the seam is
    /// told, will be, or cannot be now.
    pub(super) fn hear_of(&mut self, id: &EnvelopeId, fate: Fate, now: Now) -> Hearing {
        let Some((status, cause)) = fate.end() else { return Hearing::Known };
        let reason = Refusal::new(cause, Detail::default());
        if let Some(key) = self.leases.key_of(id) {
            match self.leases.get(key).map(|lease| lease.state()) {
                Some(State::Accepted) => self.end_wait(key, FinalWord::Known(status), &reason, now),
                // It was sent before this process began.
                Some(State::Ready | State::Waiting { .. }) => self.decide(key, status, &reason, now),
                Some(State::Decided) if self.acks.pending_status(id) == Some(status) => {}
                // What it comes to is not known yet, or something else is being told.
                Some(State::Sending { .. } | State::Decided) | None => return Hearing::NotNow,
            }
            return Hearing::BeingTold;
        }
        match self.acks.pending_status(id) {
            Some(pending) if pending == status => return Hearing::BeingTold,
            Some(_) => return Hearing::NotNow,
            None if self.acks.settled_status(id) == Some(status) => return Hearing::Known,
            None if self.acks.count() >= UNASKED => return Hearing::NotNow,
            None => {}
        }
        let ack = Ack { status, detail: reason.ack_detail() };
        let decision = Decision { ack, cause, first_listed: now.mono, trace: Trace::default() };
        self.acks.push(id.clone(), decision, now.mono);
        Hearing::BeingTold
    }

    /// Our key may not ask: acceptance is the last word from now on, also for those who wait.
    fn stop_waiting(&mut self, now: Now) {
        self.events.confirmations_off(&self.channel, self.confirmations.len());
        let reason = Refusal::new(Cause::Accepted, Detail::default());
        for key in self.confirmations.keys() {
            self.end_wait(key, FinalWord::Unconfirmed, &reason, now);
        }
    }

    fn end_wait(&mut self, key: Key, word: FinalWord, reason: &Refusal, now: Now) {
        self.confirmations.forget(key);
        let Some(lease) = self.leases.get(key) else { return };
        let Envelope { id, template, .. } = &*lease.envelope;
        self.events.concluded(id, &self.channel, template, (word, reason.cause));
        self.decide(key, word.status(), reason, now);
    }
}
