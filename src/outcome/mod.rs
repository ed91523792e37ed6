//! The one vocabulary between channels and engine: what an attempt means, and why.
//!
//! Owns the closed enums [`Outcome`] and [`Cause`], and [`Detail`], the text that may go with them. It must
//! not know HTTP, a provider, a lease or a clock: channels translate answers into these
//! words, the engine acts on them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod cause;
mod detail;

pub use cause::{Cause, Cost, Streak};
pub use detail::Detail;

/// A provider's own id of a message that it accepted.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Arc<str>);

impl MessageId {
    /// An id as the provider gave it.
    pub fn new(id: &str) -> MessageId {
        MessageId(id.into())
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({})", self.0)
    }
}

/// What one attempt means for its envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The provider accepted the message. Terminal: acked `delivered`.
    Delivered {
        /// The provider's own id of the message, where it gives one.
        provider_id: Option<String>,
    },
    /// The provider accepted the message, and its final word is still to come: nothing is sent any more.
    Accepted {
        /// Whose final word it is.
        message: MessageId,
    },
    /// The recipient's address or subscription is dead. Terminal: acked `bounced`, which ends consent.
    Bounced,
    /// The recipient marked the message as spam. Terminal: acked `complaint`, which ends consent.
    Complained,
    /// The provider keeps the recipient on its suppression list. Terminal: acked `suppressed`, which
    /// ends consent.
    Suppressed,
    /// This envelope can never be sent. Terminal: acked `failed`; consent stays as it is.
    Failed,
    /// Not accepted; this envelope is tried again later.
    Retry {
        /// At least this long from now, where the provider asked for a wait.
        after: Option<Duration>,
    },
    /// It may have arrived: tried again later with the same key and the same bytes.
    Unclear {
        /// At least this long from now, where the provider asked for a wait.
        after: Option<Duration>,
    },
    /// The trouble is not this envelope's: it stays pending, and what `scope` names is left in peace.
    Pause {
        /// What is held back.
        scope: Scope,
        /// At least this long from now, where the provider asked for a wait.
        after: Option<Duration>,
    },
}

impl Outcome {
    /// The status that this outcome is acked with; `None` while the envelope stays pending.
    pub fn ack_status(&self) -> Option<AckStatus> {
        match self {
            Outcome::Delivered { .. } => Some(AckStatus::Delivered),
            Outcome::Bounced => Some(AckStatus::Bounced),
            Outcome::Complained => Some(AckStatus::Complaint),
            Outcome::Suppressed => Some(AckStatus::Suppressed),
            Outcome::Failed => Some(AckStatus::Failed),
            Outcome::Accepted { .. }
            | Outcome::Retry { .. }
            | Outcome::Unclear { .. }
            | Outcome::Pause { .. } => None,
        }
    }

    /// Whether the provider has taken the message.
    pub fn is_acceptance(&self) -> bool {
        matches!(self, Outcome::Delivered { .. } | Outcome::Accepted { .. })
    }

    /// The provider's own id of a message that it accepted, to find it there.
    pub fn provider_id(&self) -> Option<&str> {
        match self {
            Outcome::Delivered { provider_id } => provider_id.as_deref(),
            Outcome::Accepted { message } => Some(message.as_str()),
            Outcome::Bounced
            | Outcome::Complained
            | Outcome::Suppressed
            | Outcome::Failed
            | Outcome::Retry { .. }
            | Outcome::Unclear { .. }
            | Outcome::Pause { .. } => None,
        }
    }

    /// The wait that the provider asked for, where it did.
    pub fn asked(&self) -> Option<Duration> {
        match self {
            Outcome::Retry { after } | Outcome::Unclear { after } | Outcome::Pause { after, .. } => *after,
            Outcome::Delivered { .. }
            | Outcome::Accepted { .. }
            | Outcome::Bounced
            | Outcome::Complained
            | Outcome::Suppressed
            | Outcome::Failed => None,
        }
    }

    /// The outcome's name in logs and metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Outcome::Delivered { .. } => "delivered",
            Outcome::Accepted { .. } => "accepted",
            Outcome::Bounced => "bounced",
            Outcome::Complained => "complaint",
            Outcome::Suppressed => "suppressed",
            Outcome::Failed => "failed",
            Outcome::Retry { .. } => "retry",
            Outcome::Unclear { .. } => "unclear",
            Outcome::Pause { .. } => "pause",
        }
    }
}

/// What a [`Outcome::Pause`] holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One address or push endpoint.
    Destination,
    /// Everything behind the gate.
    Provider,
}

/// A terminal status of the seam (`POST …/status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AckStatus {
    /// The provider accepted the message.
    Delivered,
    /// The recipient is dead; ends consent.
    Bounced,
    /// The recipient complained; ends consent.
    Complaint,
    /// The provider suppresses the recipient; ends consent.
    Suppressed,
    /// This envelope can never be sent.
    Failed,
}

impl AckStatus {
    /// Every status, for tables and metrics.
    pub const ALL: [AckStatus; 5] = [
        AckStatus::Delivered,
        AckStatus::Bounced,
        AckStatus::Complaint,
        AckStatus::Suppressed,
        AckStatus::Failed,
    ];

    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            AckStatus::Delivered => "delivered",
            AckStatus::Bounced => "bounced",
            AckStatus::Complaint => "complaint",
            AckStatus::Suppressed => "suppressed",
            AckStatus::Failed => "failed",
        }
    }

    /// Reads the word of the contract; `None` for any other.
    pub fn parse(word: &str) -> Option<AckStatus> {
        AckStatus::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

impl fmt::Display for AckStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an envelope can never be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The class.
    pub cause: Cause,
    /// The sentence for log and ack.
    pub detail: Detail,
}

impl Refusal {
    /// A refusal with its sentence.
    pub fn new(cause: Cause, detail: Detail) -> Refusal {
        Refusal { cause, detail }
    }

    /// The sentence for the ack: the cause in words, then the detail.
    pub fn ack_detail(&self) -> Detail {
        let cause = self.cause.label().replace('_', " ");
        match (self.cause, self.detail.is_empty()) {
            (Cause::Accepted | Cause::Confirmed | Cause::Unconfirmed, _) => self.detail.clone(),
            (_, true) => Detail(cause),
            (_, false) => {
                Detail(format!("{cause}: {}", self.detail).chars().take(Detail::MAX_CHARS).collect())
            }
        }
    }
}
