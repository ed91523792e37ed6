//! The counters and histograms of what happens.
//!
//! Owns their names, help and labels; the registry is whoever's passes it. A label's value is a word of a
//! closed enum, or the name of a channel that this worker has: nothing from outside can grow the number
//! of series. It must not decide anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::events::{FinalWord, Unasked};
use crate::envelope::ChannelName;
use crate::outcome::AckStatus;

/// The beginning of every metric's name.
pub const PREFIX: &str = "delivery";

/// A channel's name, or [`ChannelLabel::OTHER`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ChannelLabel {
    channel: String,
}

impl ChannelLabel {
    /// Stands for every channel that this worker does not have.
    pub const OTHER: &'static str = "other";
}

/// A channel and one word of a closed set.
macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($field:ident),+ })+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name {
            pub(super) channel: String,
            $(pub(super) $field: &'static str,)+
        }
    )+ };
}

labels! {
    /// Of an attempt.
    AttemptLabels { gate, outcome, cause }
    /// Of an envelope that ended.
    StatusLabels { status }
    /// Of a poll or an ack.
    ResultLabels { result }
    /// Of a refusal.
    CauseLabels { cause }
    /// Of an element that is of no use.
    ProblemLabels { problem }
}

/// Of a gate that closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct GateLabels {
    pub(super) gate: &'static str,
    pub(super) cause: &'static str,
}

/// From one round trip in a machine room to the deadline of a whole exchange, in seconds.
const ATTEMPT_BUCKETS: [f64; 9] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0];

/// From the next poll to the day after, in seconds.
const LAG_BUCKETS: [f64; 10] = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0];

type Seconds = Family<ChannelLabel, Histogram, fn() -> Histogram>;

fn seconds(constructor: fn() -> Histogram) -> Seconds {
    Family::new_with_constructor(constructor)
}

/// Everything that is counted. A clone counts in the same place.
#[derive(Debug, Clone)]
pub struct Metrics {
    channels: Arc<BTreeSet<ChannelName>>,
    pub(super) polls: Family<ResultLabels, Counter>,
    pub(super) listed: Family<ChannelLabel, Counter>,
    pub(super) attempts: Family<AttemptLabels, Counter>,
    pub(super) attempt_seconds: Seconds,
    pub(super) refusals: Family<CauseLabels, Counter>,
    pub(super) envelopes: Family<StatusLabels, Counter>,
    pub(super) lag_seconds: Seconds,
    pub(super) acks: Family<ResultLabels, Counter>,
    pub(super) withdrawn: Family<ChannelLabel, Counter>,
    pub(super) unusable: Family<ProblemLabels, Counter>,
    pub(super) relisted: Family<ChannelLabel, Counter>,
    pub(super) gate_closed: Family<GateLabels, Counter>,
    pub(super) gate_opened: Family<GateLabel, Counter>,
    pub(super) panics: Family<ChannelLabel, Counter>,
    pub(super) asked: Family<ResultLabels, Counter>,
    pub(super) confirmations: Family<ResultLabels, Counter>,
    pub(super) unasked: Family<ResultLabels, Counter>,
    pub(super) nearly_too_large: Family<ChannelLabel, Counter>,
    pub(super) window_full: Family<ChannelLabel, Counter>,
    pub(super) clock_skew: Family<ChannelLabel, Counter>,
}

/// Of a gate that opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct GateLabel {
    pub(super) gate: &'static str,
}

/// Counts in the air, under the channel `other` alone.
impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new([])
    }
}

impl Metrics {
    /// Counters for the channels that this worker has.
    pub fn new(channels: impl IntoIterator<Item = ChannelName>) -> Metrics {
        let metrics = Metrics {
            channels: Arc::new(channels.into_iter().collect()),
            polls: Family::default(),
            listed: Family::default(),
            attempts: Family::default(),
            attempt_seconds: seconds(|| Histogram::new(ATTEMPT_BUCKETS)),
            refusals: Family::default(),
            envelopes: Family::default(),
            lag_seconds: seconds(|| Histogram::new(LAG_BUCKETS)),
            acks: Family::default(),
            withdrawn: Family::default(),
            unusable: Family::default(),
            relisted: Family::default(),
            gate_closed: Family::default(),
            gate_opened: Family::default(),
            panics: Family::default(),
            asked: Family::default(),
            confirmations: Family::default(),
            unasked: Family::default(),
            nearly_too_large: Family::default(),
            window_full: Family::default(),
            clock_skew: Family::default(),
        };
        metrics.channels.iter().for_each(|channel| metrics.begin(channel));
        metrics
    }

    /// Series begin at 0 where it is known which there will be: the first event of a kind is a rise from
    /// there, which a series that begins at 1 would hide.
    fn begin(&self, channel: &ChannelName) {
        let label = self.channel(channel);
        for counter in [
            &self.listed,
            &self.withdrawn,
            &self.relisted,
            &self.panics,
            &self.nearly_too_large,
            &self.window_full,
            &self.clock_skew,
        ] {
            drop(counter.get_or_create(&label));
        }
        for histogram in [&self.attempt_seconds, &self.lag_seconds] {
            drop(histogram.get_or_create(&label));
        }
        for result in FinalWord::all().map(FinalWord::label) {
            let channel = label.channel.clone();
            drop(self.confirmations.get_or_create(&ResultLabels { channel, result }));
        }
        for result in Unasked::ALL.map(Unasked::label) {
            let channel = label.channel.clone();
            drop(self.unasked.get_or_create(&ResultLabels { channel, result }));
        }
        drop(self.asked.get_or_create(&ResultLabels { channel: label.channel.clone(), result: "answered" }));
        for status in AckStatus::ALL.map(AckStatus::as_str) {
            let channel = label.channel.clone();
            drop(self.envelopes.get_or_create(&StatusLabels { channel, status }));
        }
    }

    /// Puts everything into `registry`, with the build's version.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix(PREFIX);
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The build that runs", version);
        registry.register("polls", "Requests for a page, by what came of them", self.polls.clone());
        registry.register("envelopes_listed", "Envelopes seen for the first time", self.listed.clone());
        registry.register("attempts", "Calls to a provider, by what they mean", self.attempts.clone());
        registry.register(
            "attempt_seconds",
            "How long one attempt took, rendering included",
            self.attempt_seconds.clone(),
        );
        registry.register("refusals", "Envelopes failed without an attempt", self.refusals.clone());
        registry.register(
            "envelopes",
            "Envelopes that ended, by their terminal status",
            self.envelopes.clone(),
        );
        registry.register("lag_seconds", "From the first listing to the ack", self.lag_seconds.clone());
        registry.register("acks", "Status posts, by what the seam made of them", self.acks.clone());
        registry.register(
            "withdrawn",
            "Envelopes dropped because they are no longer listed",
            self.withdrawn.clone(),
        );
        registry.register(
            "unusable_elements",
            "Elements of pages that this worker cannot send",
            self.unusable.clone(),
        );
        registry.register(
            "relisted",
            "Envelopes listed again after their ack was taken",
            self.relisted.clone(),
        );
        self.register_troubles(registry);
    }

    fn register_troubles(&self, registry: &mut Registry) {
        registry.register("gate_closed", "Times that a gate closed", self.gate_closed.clone());
        registry.register("gate_opened", "Times that a gate opened again", self.gate_opened.clone());
        registry.register("panics", "Deliveries that panicked", self.panics.clone());
        registry.register(
            "confirmation_requests",
            "Requests that ask what became of accepted messages",
            self.asked.clone(),
        );
        registry.register(
            "confirmations",
            "Accepted messages whose final word is known, or no longer waited for",
            self.confirmations.clone(),
        );
        registry.register("webhook_events", "Events that a provider told unasked", self.unasked.clone());
        registry.register(
            "nearly_too_large",
            "Attempts with a message close to its size limit",
            self.nearly_too_large.clone(),
        );
        registry.register(
            "window_full",
            "Times that waiting envelopes filled the window",
            self.window_full.clone(),
        );
        registry.register(
            "clock_skew",
            "Times that expired envelopes were held because clocks disagree",
            self.clock_skew.clone(),
        );
    }

    /// The label of `channel`.
    pub(super) fn channel(&self, channel: &ChannelName) -> ChannelLabel {
        let known = if self.channels.contains(channel) { channel.as_str() } else { ChannelLabel::OTHER };
        ChannelLabel { channel: known.to_owned() }
    }

    /// The same, as a part of other labels.
    pub(super) fn channel_word(&self, channel: &ChannelName) -> String {
        self.channel(channel).channel
    }
}
