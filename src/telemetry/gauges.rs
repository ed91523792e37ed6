//! The gauges: the worker's state, read anew at each scrape.
//!
//! Owns their names and help. Every state and reason is always there, with 0 where it does not hold, so
//! that an alert never waits for a series to appear. It must not keep any state of its own.

use std::fmt;
use std::sync::Arc;

use chrono::Utc;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::metrics::PREFIX;
use super::status::{GateState, LaneStatus, LeaseState, Status, StatusSource, Unready};

/// Puts the state that `source` tells into `registry`, and that the process starts now.
pub fn register(registry: &mut Registry, source: Arc<dyn StatusSource>) {
    let registry = registry.sub_registry_with_prefix(PREFIX);
    let started = ConstGauge::new(Utc::now().timestamp());
    registry.register("start_time_seconds", "When the process started, as a Unix time", started);
    registry.register_collector(Box::new(StatusGauges(source)));
}

struct StatusGauges(Arc<dyn StatusSource>);

impl fmt::Debug for StatusGauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusGauges")
    }
}

/// One gauge with its series.
struct Gauge {
    name: &'static str,
    help: &'static str,
    series: Vec<(Labels, f64)>,
}

type Labels = Vec<(&'static str, String)>;

impl Collector for StatusGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.0.status();
        for Gauge { name, help, series } in of_worker(&status).into_iter().chain(of_lanes(&status.lanes)) {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in &series {
                match labels.is_empty() {
                    true => gauge.encode_gauge(value)?,
                    false => gauge.encode_family(labels)?.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}

fn of_worker(status: &Status) -> [Gauge; 4] {
    let alone = |holds: bool| vec![(Labels::new(), f64::from(holds))];
    let reasons = Unready::LABELS.map(|reason| {
        let count = status.unready.iter().filter(|unready| unready.label() == reason).count();
        (vec![("reason", reason.to_owned())], number(count))
    });
    let skew = status.unready.iter().find_map(|unready| match unready {
        Unready::ClockSkew { seconds } => Some(*seconds as f64),
        _ => None,
    });
    [
        Gauge { name: "alive", help: "1 while the loops make progress", series: alone(status.alive) },
        Gauge {
            name: "ready",
            help: "1 while nothing keeps the worker from delivering",
            series: alone(status.unready.is_empty()),
        },
        Gauge { name: "unready", help: "Why the worker is not ready, by reason", series: reasons.into() },
        Gauge {
            name: "clock_skew_seconds",
            help: "How far this machine's clock is ahead of the seam's, where they disagree",
            series: vec![(Labels::new(), skew.unwrap_or_default())],
        },
    ]
}

fn of_lanes(lanes: &[LaneStatus]) -> [Gauge; 6] {
    let per_lane = |value: fn(&LaneStatus) -> Option<f64>| {
        let series = |lane: &LaneStatus| Some((vec![channel(lane)], value(lane)?));
        lanes.iter().filter_map(series).collect()
    };
    [
        Gauge {
            name: "leases",
            help: "Envelopes held, by where they stand",
            series: lanes.iter().flat_map(leases).collect(),
        },
        Gauge {
            name: "gates",
            help: "Providers' gates, by state; several origins may share a label",
            series: lanes.iter().flat_map(gates).collect(),
        },
        Gauge {
            name: "window_used",
            help: "Places of the window that are taken",
            series: per_lane(|lane| Some(number(lane.window_used))),
        },
        Gauge {
            name: "window_size",
            help: "Places of the window",
            series: per_lane(|lane| Some(number(lane.window_size))),
        },
        Gauge {
            name: "backlog_age_seconds",
            help: "How long the longest due envelope has waited to be sent",
            series: per_lane(|lane| Some(lane.backlog_age.as_secs_f64())),
        },
        Gauge {
            name: "last_page_age_seconds",
            help: "Since the last page arrived; absent before the first",
            series: per_lane(|lane| lane.last_page.map(|age| age.as_secs_f64())),
        },
    ]
}

fn leases(lane: &LaneStatus) -> [(Labels, f64); 5] {
    LeaseState::ALL.map(|state| {
        let held = lane.leases.get(&state).copied().unwrap_or_default();
        (vec![channel(lane), ("state", state.label().to_owned())], number(held))
    })
}

fn gates(lane: &LaneStatus) -> Vec<(Labels, f64)> {
    let names: std::collections::BTreeSet<_> = lane.gates.iter().map(|gate| gate.label).collect();
    let of = |name: &'static str, state: &'static str| {
        let count =
            lane.gates.iter().filter(|gate| gate.label == name && gate.state.label() == state).count();
        let labels = vec![channel(lane), ("gate", name.to_owned()), ("state", state.to_owned())];
        (labels, number(count))
    };
    names.iter().flat_map(|name| GateState::LABELS.map(|state| of(name, state))).collect()
}

/// A lane is of a channel that this worker has, so its name is of a closed set.
fn channel(lane: &LaneStatus) -> (&'static str, String) {
    ("channel", lane.channel.as_str().to_owned())
}

/// Counts of things held in memory are far below the 2^53 up to which this is exact.
fn number(count: usize) -> f64 {
    count as f64
}
