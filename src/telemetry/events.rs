//! One method per decision, each of which writes its log line and moves its metric together.
//!
//! Owns the wording, the level and the fields. The level says what an operator must do (error: act
//! now; warn: look today; info: what happened; debug: for us). It must not see an address, an endpoint
//! or a payload: its arguments cannot carry one.

use std::time::Duration;

use crate::channel::GateId;
use crate::envelope::{ChannelName, EnvelopeId, FieldError, TemplateName};
use crate::outbox::{Acked, SeamError};
use crate::outcome::{AckStatus, Cause, Detail, Outcome, Refusal};

/// Tells what happens.
#[derive(Debug, Clone, Default)]
pub struct Events {}

/// One page.
#[derive(Debug, Clone, Copy)]
pub struct PageEvent {
    /// Elements in it.
    pub listed: usize,
    /// Of them, envelopes seen for the first time.
    pub new: usize,
    /// What was asked for.
    pub limit: u16,
    /// How long the seam took.
    pub took: Duration,
}

/// One attempt.
#[derive(Debug)]
pub struct AttemptEvent<'a> {
    /// Whose.
    pub id: &'a EnvelopeId,
    /// Its channel.
    pub channel: &'a ChannelName,
    /// Its template.
    pub template: &'a TemplateName,
    /// The provider.
    pub gate: &'a GateId,
    /// The how-manieth of this process, from 1.
    pub number: u32,
    /// What it means.
    pub outcome: &'a Outcome,
    /// Why.
    pub cause: Cause,
    /// More.
    pub detail: &'a Detail,
    /// How long it took.
    pub took: Duration,
    /// Until the next, where there is one.
    pub next_in: Option<Duration>,
}

/// One ack that the seam took.
#[derive(Debug)]
pub struct AckEvent<'a> {
    /// Whose.
    pub id: &'a EnvelopeId,
    /// Its channel.
    pub channel: &'a ChannelName,
    /// What was posted.
    pub status: AckStatus,
    /// Why.
    pub cause: Cause,
    /// What the seam made of it.
    pub answer: Acked,
    /// From the first listing to this ack.
    pub lag: Duration,
}

impl Events {
    /// A page arrived.
    pub fn page(&self, channel: &ChannelName, event: &PageEvent) {
        let PageEvent { listed, new, limit, took } = *event;
        tracing::debug!(%channel, listed, new, limit, took_ms = millis(took), "page");
    }

    /// A poll failed.
    pub fn poll_failed(&self, channel: &ChannelName, error: &SeamError, again_in: Duration) {
        tracing::warn!(%channel, error = error.label(), again_in_ms = millis(again_in), "poll failed: {error}");
    }

    /// An attempt came to its outcome.
    pub fn attempt(&self, event: &AttemptEvent<'_>) {
        tracing::info!(
            envelope = %event.id, channel = %event.channel, template = %event.template,
            gate = event.gate.label(), attempt = event.number, outcome = event.outcome.label(),
            cause = event.cause.label(), took_ms = millis(event.took),
            next_in_ms = event.next_in.map(millis), detail = %event.detail, "attempt"
        );
    }

    /// An envelope can never be sent, and no attempt was needed to know it: unroutable, expired, used up.
    pub fn refused(&self, id: &EnvelopeId, channel: &ChannelName, refusal: &Refusal) {
        let Refusal { cause, detail } = refusal;
        tracing::warn!(envelope = %id, %channel, cause = cause.label(), %detail, "failed without an attempt");
    }

    /// The seam took an ack.
    pub fn acked(&self, event: &AckEvent<'_>) {
        tracing::info!(
            envelope = %event.id, channel = %event.channel, status = %event.status,
            cause = event.cause.label(), lag_ms = millis(event.lag), "acked"
        );
    }

    /// An ack did not get through.
    pub fn ack_failed(&self, id: &EnvelopeId, channel: &ChannelName, error: &SeamError, again_in: Duration) {
        tracing::warn!(envelope = %id, %channel, error = error.label(), again_in_ms = millis(again_in), "ack failed: {error}");
    }

    /// An envelope is no longer listed: nothing is sent, nothing acked.
    pub fn withdrawn(&self, id: &EnvelopeId, channel: &ChannelName) {
        tracing::info!(envelope = %id, %channel, "withdrawn: no longer listed");
    }

    /// An element has no usable id.
    pub fn unnamed(&self, channel: &ChannelName, problem: &'static str) {
        tracing::error!(%channel, problem, "an element of a page has no usable id and is passed over");
    }

    /// An envelope cannot be read, and its app is told so.
    pub fn malformed(&self, id: &EnvelopeId, channel: &ChannelName, error: &FieldError) {
        tracing::error!(envelope = %id, %channel, field = %error.field, "malformed envelope: {error}");
    }

    /// An envelope of a version that this build does not read is left alone.
    pub fn unreadable(&self, id: &EnvelopeId, channel: &ChannelName, version: &Detail) {
        tracing::error!(envelope = %id, %channel, version = %version, "schema version of another build: left alone");
    }

    /// An envelope of another channel stands in this lane's page and is left to its own lane.
    pub fn misplaced(&self, id: &EnvelopeId, channel: &ChannelName, lane: &ChannelName) {
        tracing::error!(envelope = %id, %channel, %lane, "listed in another channel's page: left to its own");
    }

    /// A settled envelope is listed by a page that was requested after its ack.
    pub fn relisted(&self, id: &EnvelopeId, channel: &ChannelName, status: AckStatus) {
        tracing::error!(envelope = %id, %channel, status = %status, "still listed after its ack: acked again, not sent");
    }

    /// A gate closed.
    pub fn gate_closed(&self, gate: &GateId, cause: Cause, detail: &Detail, probe_in: Duration) {
        tracing::error!(gate = gate.label(), cause = cause.label(), detail = %detail, probe_in_ms = millis(probe_in), "gate closed");
    }

    /// A gate opened again.
    pub fn gate_opened(&self, gate: &GateId, closed_for: Duration) {
        tracing::info!(gate = gate.label(), closed_for_ms = millis(closed_for), "gate open again");
    }

    /// The seam's gate closed or opened: acks do not get through, or do again.
    pub fn acks_blocked(&self, blocked: bool) {
        if blocked {
            tracing::error!("acks do not get through: no new sends until one does");
        } else {
            tracing::info!("acks get through again");
        }
    }

    /// A delivery panicked.
    pub fn panicked(&self, id: &EnvelopeId, channel: &ChannelName) {
        tracing::error!(envelope = %id, %channel, "a delivery panicked: the envelope is tried again");
    }

    /// The window is full of leases that wait.
    pub fn window_full(&self, channel: &ChannelName, held: usize) {
        tracing::warn!(%channel, held, "the window is full of waiting envelopes: newer ones are not seen");
    }

    /// Expired envelopes are held back because the clocks disagree.
    pub fn clock_skew(&self, channel: &ChannelName, seconds: i64) {
        tracing::error!(%channel, ahead_s = seconds, "this machine's clock and the seam's disagree: nothing is failed as expired");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
