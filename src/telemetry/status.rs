//! The state of a running worker, as a value: what health, readiness and the gauges are made of.
//!
//! Owns the types; the engine fills them in. They must not be able to hold personal data.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::envelope::ChannelName;
use crate::outbox::SeamError;
use crate::outcome::Cause;

/// Whoever can tell the state of the worker.
pub trait StatusSource: Send + Sync + 'static {
    /// The state now.
    fn status(&self) -> Status;
}

/// The whole worker.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// One per channel that this worker drains.
    pub lanes: Vec<LaneStatus>,
    /// Whether the loops make progress.
    pub alive: bool,
    /// Why the worker is not ready; empty when it is.
    pub unready: Vec<Unready>,
}

/// One lane.
#[derive(Debug, Clone)]
pub struct LaneStatus {
    /// Its channel.
    pub channel: ChannelName,
    /// Leases by state; every state is present.
    pub leases: BTreeMap<LeaseState, usize>,
    /// Places that held leases and dead elements take of the window.
    pub window_used: usize,
    /// The window's size (OUTBOX_PAGE_LIMIT).
    pub window_size: usize,
    /// Its gates, one per provider; several origins may share a label.
    pub gates: Vec<GateStatus>,
    /// How long the longest due envelope has waited to be sent, in this process; zero where none does.
    pub backlog_age: Duration,
    /// Since the last page arrived; `None` before the first.
    pub last_page: Option<Duration>,
}

impl LaneStatus {
    /// What the lane holds, in words; nothing if it holds nothing.
    pub fn held(&self) -> Option<String> {
        let held: Vec<String> = LeaseState::ALL
            .into_iter()
            .filter_map(|state| Some((state, *self.leases.get(&state).filter(|count| **count > 0)?)))
            .map(|(state, count)| format!("{count} {}", state.label()))
            .collect();
        (!held.is_empty()).then(|| format!("{}: {}", self.channel, held.join(", ")))
    }
}

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseState {
    /// Free to be sent.
    Ready,
    /// Held by a worker.
    Sending,
    /// Waits for its retry.
    Waiting,
    /// Its provider has it, and its final word is waited for.
    Accepted,
    /// Its outcome is known, its ack is not through.
    Acking,
}

impl LeaseState {
    /// Every state.
    pub const ALL: [LeaseState; 5] = [
        LeaseState::Ready,
        LeaseState::Sending,
        LeaseState::Waiting,
        LeaseState::Accepted,
        LeaseState::Acking,
    ];

    /// The name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            LeaseState::Ready => "ready",
            LeaseState::Sending => "sending",
            LeaseState::Waiting => "waiting",
            LeaseState::Accepted => "accepted",
            LeaseState::Acking => "acking",
        }
    }
}

/// One gate.
#[derive(Debug, Clone)]
pub struct GateStatus {
    /// The provider's label.
    pub label: &'static str,
    /// Open, spaced or closed.
    pub state: GateState,
}

/// What a gate lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateState {
    /// Everything.
    Open,
    /// Nothing for `wait`, for the sake of the provider's rate.
    Spaced {
        /// Until it lets something through again.
        wait: Duration,
    },
    /// Probes alone.
    Closed {
        /// Why.
        cause: Cause,
        /// Until the next probe.
        probe_in: Duration,
    },
}

/// Why a worker is not ready. The label goes to metrics, the sentence to `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unready {
    /// A provider's gate is closed.
    GateClosed {
        /// The provider's label.
        label: &'static str,
        /// Why.
        cause: Cause,
    },
    /// No page has come yet, or the last poll failed.
    Seam {
        /// What the last poll ended in; `None` before the first has ended.
        error: Option<SeamError>,
    },
    /// Acks do not get through, so no new sends begin.
    AcksBlocked,
    /// The seam answers acks in a way that only the operator can mend.
    AcksFail {
        /// How many.
        count: usize,
        /// What the seam client said last, from its closed set.
        error: &'static str,
    },
    /// The seam refuses some acks for good.
    AcksRefused {
        /// How many.
        count: usize,
    },
    /// The outbox holds envelopes of a schema version that this build does not read.
    UnreadableVersion {
        /// How many.
        count: usize,
    },
    /// The worker's clock and the seam's disagree.
    ClockSkew {
        /// By how many seconds the worker's clock is ahead (negative: behind).
        seconds: i64,
    },
    /// The worker is stopping.
    Stopping,
}

impl GateState {
    /// The name in metrics.
    pub fn label(self) -> &'static str {
        match self {
            GateState::Open => "open",
            GateState::Spaced { .. } => "spaced",
            GateState::Closed { .. } => "closed",
        }
    }

    /// The names of every state.
    pub const LABELS: [&'static str; 3] = ["open", "spaced", "closed"];
}

impl Unready {
    /// The name in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Unready::GateClosed { .. } => "gate_closed",
            Unready::Seam { .. } => "seam",
            Unready::AcksBlocked => "acks_blocked",
            Unready::AcksFail { .. } => "acks_fail",
            Unready::AcksRefused { .. } => "acks_refused",
            Unready::UnreadableVersion { .. } => "unreadable_version",
            Unready::ClockSkew { .. } => "clock_skew",
            Unready::Stopping => "stopping",
        }
    }

    /// Whether it keeps envelopes from being sent that are well and due.
    pub fn blocks(&self) -> bool {
        match self {
            Unready::GateClosed { .. } | Unready::Seam { .. } | Unready::AcksBlocked | Unready::Stopping => {
                true
            }
            Unready::AcksFail { .. }
            | Unready::AcksRefused { .. }
            | Unready::UnreadableVersion { .. }
            | Unready::ClockSkew { .. } => false,
        }
    }

    /// The names of every reason.
    pub const LABELS: [&'static str; 8] = [
        "gate_closed",
        "seam",
        "acks_blocked",
        "acks_fail",
        "acks_refused",
        "unreadable_version",
        "clock_skew",
        "stopping",
    ];
}

/// What the operator reads.
impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unready::GateClosed { label, cause } => write!(f, "the gate of {label} is closed: {cause}"),
            Unready::Seam { error: Some(error) } => write!(f, "no page comes: {error}"),
            Unready::Seam { error: None } => f.write_str("no page has come yet"),
            Unready::AcksBlocked => f.write_str("acks do not get through: no new sends until one does"),
            Unready::AcksFail { count, error } => write!(f, "{count} ack(s) do not get through: {error}"),
            Unready::AcksRefused { count } => write!(f, "the seam refuses {count} ack(s) for good"),
            Unready::UnreadableVersion { count } => {
                write!(f, "{count} envelope(s) of a schema version that this build does not read")
            }
            Unready::ClockSkew { seconds } if *seconds < 0 => {
                write!(f, "this machine's clock is {} s behind the seam's", seconds.unsigned_abs())
            }
            Unready::ClockSkew { seconds } => {
                write!(f, "this machine's clock is {seconds} s ahead of the seam's")
            }
            Unready::Stopping => f.write_str("the worker is stopping"),
        }
    }
}
