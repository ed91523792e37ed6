//! What becomes of a message after its provider has accepted it, and how a channel asks.
//!
//! Owns [`Confirmer`] and the words it is spoken to in: one question is one request. It must not know who waits
//! for an answer, for how long, or what is done with it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::Pace;
use crate::outcome::{AckStatus, Cause, MessageId};

/// How many messages one answer lists.
pub const LISTED: usize = 100;

/// A channel's way to ask its provider what became of accepted messages.
#[async_trait]
pub trait Confirmer: Send + Sync {
    /// How long the final word is waited for.
    fn window(&self) -> Duration;

    /// Asks once.
    async fn ask(&self, question: &Question) -> Reply;
}

/// Whoever asks for a channel; `None`: its provider's yes is the last word.
pub type Confirming = Option<Arc<dyn Confirmer>>;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The newest messages, or the next older than one that was listed last.
    Newest {
        /// The last of the answer before.
        after: Option<MessageId>,
    },
    /// One message.
    One(MessageId),
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What was said.
    pub said: Said,
    /// What the answer said of the provider's rate.
    pub pace: Option<Pace>,
}

/// What a provider says to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Messages, the newest first.
    Messages {
        /// Each with what became of it; none where the one that was asked for is not known.
        listed: Vec<Told>,
        /// Whether there are older ones.
        more: bool,
    },
    /// Our key may not read: it is of no use to ask again.
    MayNot,
    /// Not now.
    Later {
        /// At least this long from now, where it said so.
        after: Option<Duration>,
    },
    /// Nothing that can be used.
    Nothing(Cause),
}

/// One message as its provider tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which.
    pub message: MessageId,
    /// When the provider took it, where it says so.
    pub accepted_at: Option<DateTime<Utc>>,
    /// What became of it.
    pub fate: Fate,
}

/// What became of an accepted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Not known yet: queued, on its way, delayed, or a word that this build does not know.
    Open,
    /// It reached its reader's server, or its reader.
    Delivered,
    /// It came back for good.
    Bounced,
    /// Its reader called it spam.
    Complained,
    /// The provider did not send it: the address is on its suppression list.
    Suppressed,
    /// The provider gave it up, or somebody called it off.
    Failed,
}

impl Fate {
    /// What is acked, and why; `None` while it is open.
    pub fn end(self) -> Option<(AckStatus, Cause)> {
        match self {
            Fate::Open => None,
            Fate::Delivered => Some((AckStatus::Delivered, Cause::Confirmed)),
            Fate::Bounced => Some((AckStatus::Bounced, Cause::MailBounced)),
            Fate::Complained => Some((AckStatus::Complaint, Cause::SpamComplaint)),
            Fate::Suppressed => Some((AckStatus::Suppressed, Cause::SuppressionList)),
            Fate::Failed => Some((AckStatus::Failed, Cause::MailFailed)),
        }
    }
}
