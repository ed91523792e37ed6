//! What a channel is: the one trait between the engine and everything that can carry a message.
//!
//! Owns [`Channel`] and the words it is spoken to in. A channel makes one attempt and says what the
//! answer means; it must not know leases, retries, other envelopes or the seam.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use self::confirm::Confirming;
use crate::envelope::{ChannelName, Envelope};
use crate::outcome::{Cause, Detail, Outcome, Refusal, Streak};
use crate::render::Templates;

pub mod confirm;
pub mod email;
pub mod push;

#[cfg(test)]
mod tests;

/// The channels of this build, whether they are configured or not.
pub fn known() -> [ChannelName; 2] {
    [email::NAME, push::NAME].map(ChannelName::new)
}

/// One way to reach people. Adding one is a module beside this file and its templates.
#[async_trait]
pub trait Channel: Send + Sync + 'static {
    /// Its word in the contract.
    fn name(&self) -> ChannelName;

    /// How its gates relate to its workers.
    fn gating(&self) -> Gating;

    /// How long after an attempt of unknown outcome another attempt cannot become a second message;
    /// `None`: for ever.
    fn redelivery_window(&self) -> Option<Duration>;

    /// Who asks for the final word about what its provider has accepted; `None`: its yes is the last word.
    fn confirming(&self) -> Confirming {
        None
    }

    /// Where this envelope would go. Reads the envelope alone: no I/O, no template.
    ///
    /// # Errors
    /// The envelope can never be sent; it is acked `failed` with this refusal.
    fn route(&self, envelope: &Envelope) -> Result<Route, Refusal>;

    /// Makes one attempt: renders, sends once, reads the answer. Never retries by itself.
    async fn deliver(&self, delivery: &Delivery) -> Attempt;
}

/// How many providers stand behind a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// One provider for all of it: it may have every worker, at this rate.
    OneProvider(Rate),
    /// Many, named by the envelopes themselves: none may take the last worker, and a trouble that one
    /// destination alone could fake never closes a gate.
    ManyProviders,
}

impl Gating {
    /// Whether a gate counts such a run of troubles. A refused message is the message's own fault where
    /// each destination is a world of its own.
    pub fn counts(self, streak: Streak) -> bool {
        match (self, streak) {
            (Gating::ManyProviders, Streak::Refusal) => false,
            (Gating::ManyProviders | Gating::OneProvider(_), _) => true,
        }
    }
}

/// How fast a gate lets attempts begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the workers can.
    Unlimited,
    /// At most this many a second, whatever the provider's headers say.
    Fixed(NonZeroU32),
    /// This many a second until an answer's [`Pace`] is seen, then a little under that.
    Follow {
        /// Before the first answer.
        start: NonZeroU32,
    },
}

/// Where an envelope goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The provider.
    pub gate: GateId,
    /// The address or endpoint.
    pub destination: Destination,
}

/// The name of one provider's gate.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateId {
    key: Arc<str>,
    label: &'static str,
}

impl GateId {
    /// A gate for `key` (a provider, or an endpoint's origin); `label` is from a closed set and is all
    /// of it that logs and metrics show.
    pub fn new(key: &str, label: &'static str) -> GateId {
        GateId { key: key.into(), label }
    }

    /// The name in logs and metrics.
    pub fn label(&self) -> &'static str {
        self.label
    }
}

/// An origin can be a private host's name, so the key stays hidden.
impl fmt::Debug for GateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GateId({})", self.label)
    }
}

/// An address or push endpoint, for comparing alone. Personal data: `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination(Arc<str>);

impl Destination {
    /// The destination in its canonical form, so that two spellings of one address are equal.
    pub fn new(canonical: &str) -> Destination {
        Destination(canonical.into())
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Destination(…)")
    }
}

/// What a channel is handed for one attempt.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What to deliver.
    pub envelope: Arc<Envelope>,
    /// The template set of this envelope's first attempt.
    pub templates: Arc<Templates>,
    /// The wall clock as this attempt begins.
    pub now: DateTime<Utc>,
    /// Whether an earlier attempt of this process was plainly refused by the provider.
    pub refused_before: bool,
}

/// What one attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What it means.
    pub outcome: Outcome,
    /// Why.
    pub cause: Cause,
    /// More, for log and ack.
    pub detail: Detail,
    /// What the answer said of the provider's rate.
    pub pace: Option<Pace>,
    /// Whether the provider itself answered; a request that got nowhere moves no closed gate open.
    pub answered: bool,
    /// The message's bytes, where they come close to what such a message may have.
    pub nearly_too_large: Option<usize>,
}

impl Attempt {
    /// The provider's answer means `outcome`.
    pub fn answered(outcome: Outcome, cause: Cause, detail: Detail) -> Attempt {
        Attempt { outcome, cause, detail, pace: None, answered: true, nearly_too_large: None }
    }

    /// No answer came: nothing was sent, or nothing came back.
    pub fn unanswered(outcome: Outcome, cause: Cause, detail: Detail) -> Attempt {
        Attempt { answered: false, ..Attempt::answered(outcome, cause, detail) }
    }

    /// The envelope failed before anything was sent.
    pub fn refusal(refusal: Refusal) -> Attempt {
        Attempt::unanswered(Outcome::Failed, refusal.cause, refusal.detail)
    }

    /// The channel panicked: nobody knows how far it came.
    pub fn panicked() -> Attempt {
        let detail = Detail::fixed("the delivery panicked: a defect of the worker");
        Attempt::unanswered(Outcome::Unclear { after: None }, Cause::Panic, detail)
    }

    /// Whether the envelope failed before anything was sent.
    pub fn is_refusal(&self) -> bool {
        self.outcome == Outcome::Failed && !self.answered
    }

    /// The same with what the answer said of the rate.
    pub fn at_pace(mut self, pace: Option<Pace>) -> Attempt {
        self.pace = pace;
        self
    }
}

/// A provider's rate as its headers tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Requests that it takes in `window`.
    pub limit: u32,
    /// The window that `limit` counts in.
    pub window: Duration,
}
