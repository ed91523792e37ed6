//! One method per decision, each of which writes its log line and moves its metric together.
//!
//! Owns the wording, the level and the fields. The level says what an operator must do (error: act
//! now; warn: look today; info: what happened; debug: for us). It must not see an address, an endpoint
//! or a payload: its arguments cannot carry one.

use std::time::Duration;

use crate::channel::GateId;
use crate::channel::confirm::Said;
use crate::envelope::{ChannelName, EnvelopeId, FieldError, TemplateName};
use crate::outbox::{Acked, SeamError};
use crate::outcome::{AckStatus, Cause, Detail, Outcome, Refusal};

use super::logs::Word;
use super::metrics::{
    AttemptLabels, CauseLabels, GateLabel, GateLabels, Metrics, ProblemLabels, ResultLabels, StatusLabels,
};
use super::recent::{Decision, Recent};

/// Tells what happens.
#[derive(Debug, Clone, Default)]
pub struct Events {
    metrics: Metrics,
    recent: Recent,
}

/// The seam's gate in the metrics of gates.
const SEAM: &str = "seam";

/// How the wait for an accepted message's final word ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalWord {
    /// It came, and this is acked.
    Known(AckStatus),
    /// It did not come in time.
    Unconfirmed,
    /// It was not waited for any longer: too many were.
    CrowdedOut,
}

impl FinalWord {
    /// Every one of them.
    pub fn all() -> impl Iterator<Item = FinalWord> {
        let known = AckStatus::ALL.into_iter().map(FinalWord::Known);
        known.chain([FinalWord::Unconfirmed, FinalWord::CrowdedOut])
    }

    /// What is acked.
    pub fn status(self) -> AckStatus {
        match self {
            FinalWord::Known(status) => status,
            FinalWord::Unconfirmed | FinalWord::CrowdedOut => AckStatus::Delivered,
        }
    }

    /// The name in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            FinalWord::Known(status) => status.as_str(),
            FinalWord::Unconfirmed => "unconfirmed",
            FinalWord::CrowdedOut => "crowded_out",
        }
    }
}

/// What came of an event that a provider told unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    /// The seam knows.
    PassedOn,
    /// It was told before.
    Repeated,
    /// It ends nothing.
    Open,
    /// It is about no mail of this worker's.
    Stranger,
    /// It is not in the provider's form.
    Unreadable,
    /// The seam could not be told now: the provider is to tell again.
    NotYet,
    /// It is not the provider's.
    Refused,
}

impl Unasked {
    /// Every one of them.
    pub const ALL: [Unasked; 7] = [
        Unasked::PassedOn,
        Unasked::Repeated,
        Unasked::Open,
        Unasked::Stranger,
        Unasked::Unreadable,
        Unasked::NotYet,
        Unasked::Refused,
    ];

    /// The name in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Unasked::PassedOn => "passed_on",
            Unasked::Repeated => "repeated",
            Unasked::Open => "open",
            Unasked::Stranger => "stranger",
            Unasked::Unreadable => "unreadable",
            Unasked::NotYet => "not_yet",
            Unasked::Refused => "refused",
        }
    }
}

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
    /// Tells it in the log and in `metrics`.
    pub fn new(metrics: Metrics) -> Events {
        Events { metrics, recent: Recent::default() }
    }

    /// The last of what is told.
    pub fn recent(&self) -> Recent {
        self.recent.clone()
    }

    /// A page arrived.
    pub fn page(&self, channel: &ChannelName, event: &PageEvent) {
        let PageEvent { listed, new, limit, took } = *event;
        self.polled(channel, "ok");
        self.metrics.listed.get_or_create(&self.metrics.channel(channel)).inc_by(new as u64);
        tracing::debug!(channel = %word(channel), listed, new, limit, took_ms = millis(took), "page");
    }

    /// A poll failed.
    pub fn poll_failed(&self, channel: &ChannelName, error: &SeamError, again_in: Duration) {
        self.polled(channel, error.label());
        let (channel, label, again_in_ms) = (word(channel), error.label(), millis(again_in));
        if error.is_turned_away() {
            tracing::error!(%channel, error = label, again_in_ms, "poll failed: {error}");
        } else {
            tracing::warn!(%channel, error = label, again_in_ms, "poll failed: {error}");
        }
    }

    /// The worker was told to stop, and hands out nothing any more.
    pub fn stopping(&self) {
        tracing::info!("stopping: nothing new is begun, what is on its way is finished");
    }

    /// An attempt came to its outcome.
    pub fn attempt(&self, event: &AttemptEvent<'_>) {
        let labels = AttemptLabels {
            channel: self.metrics.channel_word(event.channel),
            gate: event.gate.label(),
            outcome: event.outcome.label(),
            cause: event.cause.label(),
        };
        self.metrics.attempts.get_or_create(&labels).inc();
        let channel = self.metrics.channel(event.channel);
        self.metrics.attempt_seconds.get_or_create(&channel).observe(event.took.as_secs_f64());
        self.recent.add(Decision {
            attempt: Some(event.number),
            template: Some(Word(event.template.as_str()).to_string()),
            detail: event.detail.as_str().to_owned(),
            ..decision(event.id, event.channel, event.outcome.label(), event.cause.label())
        });
        tracing::info!(
            envelope = %id(event.id), channel = %word(event.channel), template = %Word(event.template.as_str()),
            gate = event.gate.label(), attempt = event.number, outcome = event.outcome.label(),
            cause = event.cause.label(), took_ms = millis(event.took),
            next_in_ms = event.next_in.map(millis), provider_id = event.outcome.provider_id(),
            detail = (!event.detail.is_empty()).then_some(event.detail.as_str()), "attempt"
        );
    }

    /// An envelope can never be sent, and no call to a provider was needed to know it: it has no usable
    /// recipient or no message, or has expired.
    pub fn refused(
        &self,
        envelope: &EnvelopeId,
        channel: &ChannelName,
        template: &TemplateName,
        refusal: &Refusal,
    ) {
        let Refusal { cause, detail } = refusal;
        let labels = CauseLabels { channel: self.metrics.channel_word(channel), cause: cause.label() };
        self.metrics.refusals.get_or_create(&labels).inc();
        self.recent.add(Decision {
            detail: detail.as_str().to_owned(),
            template: Some(Word(template.as_str()).to_string()),
            ..decision(envelope, channel, Outcome::Failed.label(), cause.label())
        });
        tracing::warn!(
            envelope = %id(envelope), channel = %word(channel), template = %Word(template.as_str()),
            outcome = Outcome::Failed.label(), cause = cause.label(), %detail, "failed without an attempt"
        );
    }

    /// The seam took an ack. One that it answers with another word than was posted is worth a warning:
    /// somebody else has acked this envelope, or the app has lost it.
    pub fn acked(&self, event: &AckEvent<'_>) {
        let channel = self.metrics.channel_word(event.channel);
        let status = StatusLabels { channel, status: event.status.as_str() };
        self.metrics.envelopes.get_or_create(&status).inc();
        let channel = self.metrics.channel(event.channel);
        self.metrics.lag_seconds.get_or_create(&channel).observe(event.lag.as_secs_f64());
        let (result, stored) = match event.answer {
            Acked::Stored => ("stored", event.status.as_str()),
            Acked::Differs(stored) => ("differs", stored.as_str()),
            Acked::Unknown => ("unknown", "unknown"),
        };
        self.ack_came_to(event.channel, result);
        self.recent.count(event.status);
        self.recent.add(decision(event.id, event.channel, "acked", event.status.as_str()));
        let (envelope, channel) = (id(event.id), word(event.channel));
        let (status, cause, lag_ms) = (event.status, event.cause.label(), millis(event.lag));
        if event.answer == Acked::Stored {
            tracing::info!(%envelope, %channel, %status, cause, lag_ms, "acked");
        } else {
            tracing::warn!(%envelope, %channel, %status, stored, cause, lag_ms, "acked, but the app holds otherwise");
        }
    }

    /// An ack did not get through.
    pub fn ack_failed(
        &self,
        envelope: &EnvelopeId,
        channel: &ChannelName,
        error: &SeamError,
        again_in: Duration,
    ) {
        self.ack_came_to(channel, error.label());
        tracing::warn!(
            envelope = %id(envelope), channel = %word(channel), error = error.label(),
            again_in_ms = millis(again_in), "ack failed: {error}"
        );
    }

    /// An envelope is no longer listed: nothing is sent, nothing acked.
    pub fn withdrawn(&self, envelope: &EnvelopeId, channel: &ChannelName) {
        self.metrics.withdrawn.get_or_create(&self.metrics.channel(channel)).inc();
        self.recent.count_withdrawn();
        self.recent.add(decision(envelope, channel, "withdrawn", "no longer listed"));
        tracing::info!(envelope = %id(envelope), channel = %word(channel), "withdrawn: no longer listed");
    }

    /// An element has no usable id.
    pub fn unnamed(&self, channel: &ChannelName, problem: &'static str) {
        self.unusable(channel, "unnamed");
        tracing::error!(channel = %word(channel), problem, "an element of a page has no usable id and is passed over");
    }

    /// An envelope cannot be read, and its app is told so.
    pub fn malformed(&self, envelope: &EnvelopeId, channel: &ChannelName, error: &FieldError) {
        self.unusable(channel, "malformed");
        tracing::error!(
            envelope = %id(envelope), channel = %word(channel), field = %error.field,
            "malformed envelope: {error}"
        );
    }

    /// An envelope of a version that this build does not read is left alone.
    pub fn unreadable(&self, envelope: &EnvelopeId, channel: &ChannelName, version: &Detail) {
        self.unusable(channel, "unreadable");
        tracing::error!(
            envelope = %id(envelope), channel = %word(channel), %version,
            "schema version of another build: left alone"
        );
    }

    /// An envelope of another channel stands in this lane's page and is left to its own lane.
    pub fn misplaced(&self, envelope: &EnvelopeId, channel: &ChannelName, lane: &ChannelName) {
        self.unusable(lane, "misplaced");
        tracing::error!(
            envelope = %id(envelope), channel = %word(channel), lane = %word(lane),
            "listed in another channel's page: left to its own"
        );
    }

    /// A settled envelope is listed by a page that was requested after its ack.
    pub fn relisted(&self, envelope: &EnvelopeId, channel: &ChannelName, status: AckStatus) {
        self.metrics.relisted.get_or_create(&self.metrics.channel(channel)).inc();
        tracing::error!(
            envelope = %id(envelope), channel = %word(channel), %status,
            "still listed after its ack: acked again, not sent"
        );
    }

    /// A gate closed.
    pub fn gate_closed(&self, gate: &GateId, cause: Cause, detail: &Detail, probe_in: Duration) {
        self.closed(gate.label(), cause.label());
        tracing::error!(
            gate = gate.label(), cause = cause.label(), %detail, probe_in_ms = millis(probe_in),
            "gate closed"
        );
    }

    /// A gate opened again.
    pub fn gate_opened(&self, gate: &GateId, closed_for: Duration) {
        self.metrics.gate_opened.get_or_create(&GateLabel { gate: gate.label() }).inc();
        tracing::info!(gate = gate.label(), closed_for_ms = millis(closed_for), "gate open again");
    }

    /// The seam's gate closed or opened: acks do not get through, or do again.
    pub fn acks_blocked(&self, blocked: bool) {
        if blocked {
            self.closed(SEAM, "acks_blocked");
            tracing::error!("acks do not get through: no new sends until one does");
        } else {
            self.metrics.gate_opened.get_or_create(&GateLabel { gate: SEAM }).inc();
            tracing::info!("acks get through again");
        }
    }

    /// A delivery panicked.
    pub fn panicked(&self, envelope: &EnvelopeId, channel: &ChannelName) {
        self.metrics.panics.get_or_create(&self.metrics.channel(channel)).inc();
        tracing::error!(
            envelope = %id(envelope), channel = %word(channel),
            "a delivery panicked: the envelope is tried again"
        );
    }

    /// A provider told unasked what became of a message.
    pub fn unasked(&self, channel: &ChannelName, what: Unasked) {
        let labels = ResultLabels { channel: self.metrics.channel_word(channel), result: what.label() };
        self.metrics.unasked.get_or_create(&labels).inc();
        let (channel, result) = (word(channel), what.label());
        match what {
            Unasked::PassedOn | Unasked::Repeated | Unasked::Open => {
                tracing::debug!(%channel, result, "event")
            }
            Unasked::Stranger => tracing::info!(%channel, result, "event about a mail of nobody here"),
            Unasked::Unreadable => tracing::warn!(%channel, result, "event that cannot be read"),
            Unasked::NotYet => {
                tracing::warn!(%channel, result, "event that the seam could not be told of yet")
            }
            Unasked::Refused => {
                tracing::warn!(%channel, result, "event without a good signature: is RESEND_WEBHOOK_SECRET right?");
            }
        }
    }

    /// A provider was asked what became of accepted messages.
    pub fn asked(&self, channel: &ChannelName, said: &Said) {
        let result = match said {
            Said::Messages { .. } => "answered",
            Said::MayNot => "may_not",
            Said::Later { .. } => "rate_limited",
            Said::Nothing(_) => "failed",
        };
        let channel_label = self.metrics.channel_word(channel);
        self.metrics.asked.get_or_create(&ResultLabels { channel: channel_label, result }).inc();
        match said {
            Said::Messages { listed, .. } => {
                tracing::debug!(channel = %word(channel), listed = listed.len(), "asked what became of mails");
            }
            Said::Nothing(cause) => {
                tracing::warn!(channel = %word(channel), cause = cause.label(), "asking what became of mails failed");
            }
            Said::MayNot | Said::Later { .. } => {
                tracing::debug!(channel = %word(channel), result, "asking what became of mails was refused");
            }
        }
    }

    /// An accepted message waits for its final word no longer: how that ended, and why.
    pub fn concluded(
        &self,
        envelope: &EnvelopeId,
        channel: &ChannelName,
        template: &TemplateName,
        (word_of_it, cause): (FinalWord, Cause),
    ) {
        let result = word_of_it.label();
        let labels = ResultLabels { channel: self.metrics.channel_word(channel), result };
        self.metrics.confirmations.get_or_create(&labels).inc();
        self.recent.add(Decision {
            template: Some(Word(template.as_str()).to_string()),
            ..decision(envelope, channel, result, cause.label())
        });
        tracing::info!(
            envelope = %id(envelope), channel = %word(channel), template = %Word(template.as_str()), result,
            cause = cause.label(), "final word"
        );
    }

    /// The provider lets our key send and not read: acceptance is the last word from now on.
    pub fn confirmations_off(&self, channel: &ChannelName, waiting: usize) {
        tracing::warn!(
            channel = %word(channel), waiting,
            "the API key may send and not read: mails are acked as they are accepted, and bounces are not seen. \
             Give it full access, or set DELIVERY_EMAIL_ACK=accepted"
        );
    }

    /// A message comes close to the size at which it would fail.
    pub fn nearly_too_large(
        &self,
        envelope: &EnvelopeId,
        channel: &ChannelName,
        template: &TemplateName,
        bytes: usize,
    ) {
        self.metrics.nearly_too_large.get_or_create(&self.metrics.channel(channel)).inc();
        tracing::warn!(
            envelope = %id(envelope), channel = %word(channel), template = %Word(template.as_str()), bytes,
            "message close to the size at which it would be cut by its reader's client, and fail here"
        );
    }

    /// The window is full of leases that wait.
    pub fn window_full(&self, channel: &ChannelName, held: usize) {
        self.metrics.window_full.get_or_create(&self.metrics.channel(channel)).inc();
        tracing::warn!(
            channel = %word(channel), held,
            "the window is full of waiting envelopes: newer ones are not seen"
        );
    }

    /// Expired envelopes are held back because the clocks disagree.
    pub fn clock_skew(&self, channel: &ChannelName, seconds: i64) {
        self.metrics.clock_skew.get_or_create(&self.metrics.channel(channel)).inc();
        tracing::error!(
            channel = %word(channel), ahead_s = seconds,
            "this machine's clock and the seam's disagree: nothing is failed as expired"
        );
    }

    fn polled(&self, channel: &ChannelName, result: &'static str) {
        let labels = ResultLabels { channel: self.metrics.channel_word(channel), result };
        self.metrics.polls.get_or_create(&labels).inc();
    }

    fn ack_came_to(&self, channel: &ChannelName, result: &'static str) {
        let labels = ResultLabels { channel: self.metrics.channel_word(channel), result };
        self.metrics.acks.get_or_create(&labels).inc();
    }

    fn unusable(&self, channel: &ChannelName, problem: &'static str) {
        let labels = ProblemLabels { channel: self.metrics.channel_word(channel), problem };
        self.metrics.unusable.get_or_create(&labels).inc();
    }

    fn closed(&self, gate: &'static str, cause: &'static str) {
        self.metrics.gate_closed.get_or_create(&GateLabels { gate, cause }).inc();
    }
}

fn decision(of: &EnvelopeId, channel: &ChannelName, what: &'static str, why: &'static str) -> Decision {
    Decision::new(id(of).to_string(), word(channel).to_string(), what, why)
}

fn id(id: &EnvelopeId) -> Word<'_> {
    Word(id.as_str())
}

fn word(channel: &ChannelName) -> Word<'_> {
    Word(channel.as_str())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
