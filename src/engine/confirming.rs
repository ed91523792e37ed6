//! What a lane makes of accepted messages: when it asks about them, and what it acks in the end.
//!
//! Owns where questions stand beside sends: they share the gate, and sends go first. Which question it is, is
//! `confirm`'s.

use std::time::{Duration, Instant};

use super::acks::Decision;
use super::confirm::Enough;
use super::desk::Desk;
use super::gate::{Admission, Suspect, Ticket};
use super::leases::{Key, State};
use crate::channel::confirm::{Fate, Question, Reply, Said};
use crate::channel::{Attempt, GateId};
use crate::clock::{Moment, Now};
use crate::envelope::{Envelope, EnvelopeId};
use crate::outbox::Ack;
use crate::outcome::{Cause, Detail, MessageId, Outcome, Refusal, Scope};
use crate::telemetry::events::FinalWord;

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
    /// Ask this, and hand the ticket back with the reply.
    Now(Question, Inquiry),
    /// Look again then, or when something has changed.
    Later(Option<Instant>),
}

/// A question on its way.
#[derive(Debug)]
pub(super) struct Inquiry {
    gate: GateId,
    who: Suspect,
    ticket: Ticket,
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
        let Some((gate, who)) = self.any_awaited() else { return Ask::Later(None) };
        let waits =
            self.confirmations.due().map_or(Duration::ZERO, |due| now.mono.saturating_duration_since(due));
        let again = Some(now.mono + LOOK_AGAIN);
        match self.gates.get_mut(&gate, now).admits(now) {
            Admission::Now if self.usable(now) > 0 && waits < SENDS_FIRST => Ask::Later(again),
            Admission::Now => {
                let ticket = self.gates.get_mut(&gate, now).begin(now);
                Ask::Now(question, Inquiry { gate, who, ticket })
            }
            Admission::At(at) => Ask::Later(Some(at)),
            // A closed gate opens for a message, not for a question.
            Admission::Full | Admission::Probe(_) => Ask::Later(again),
        }
    }

    /// A lane that confirms has one provider, so that any of its messages names the gate.
    fn any_awaited(&self) -> Option<(GateId, Suspect)> {
        let lease = self.confirmations.keys().first().and_then(|key| self.leases.get(*key))?;
        let who = Suspect { id: lease.envelope.id.clone(), destination: lease.route.destination.clone() };
        Some((lease.route.gate.clone(), who))
    }

    /// A question was answered.
    pub(super) fn heard(&mut self, inquiry: Inquiry, reply: &Reply, now: Now) {
        let Inquiry { gate, who, ticket } = inquiry;
        let at = Moment { now, random: self.rng.f64() };
        let gate_state = self.gates.get_mut(&gate, now);
        match &reply.said {
            Said::Later { after } => {
                let outcome = Outcome::Pause { scope: Scope::Provider, after: *after };
                let attempt = Attempt::answered(outcome, Cause::RateLimited, Detail::default());
                let change = gate_state.end(ticket, &attempt.at_pace(reply.pace), &who, at);
                self.tell_change(&gate, change, &Detail::default());
            }
            Said::Messages { .. } | Said::MayNot | Said::Nothing(_) => {
                gate_state.answered(ticket, reply.pace)
            }
        }
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
        self.acks.push(id.clone(), Decision { ack, cause, first_listed: now.mono }, now.mono);
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
