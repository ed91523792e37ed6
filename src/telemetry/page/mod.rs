//! The status page: what the worker is doing now, for a person, and the same as JSON for a script.
//!
//! Owns the view of a [`Status`] and its one template. It reads and never changes anything, holds no personal
//! data, and loads nothing from elsewhere. Without scripts it shows the moment of its loading.

pub(super) mod host;

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use handlebars::{Handlebars, handlebars_helper};
use serde::Serialize;

use super::recent::{Decision, Recent, Tally};
use super::status::{GateState, LaneStatus, LeaseState, Status, Unready};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Which files belong to the page, and what they are.
pub(super) const SCRIPT: &str = include_str!("status.js");
pub(super) const STYLE: &str = include_str!("status.css");

handlebars_helper!(span: |seconds: u64| humantime::format_duration(Duration::from_secs(seconds)).to_string());
handlebars_helper!(clock: |at: str| at.get(11..19).unwrap_or(at).to_owned());

#[expect(clippy::expect_used, reason = "the template is compiled in, and every test of the page renders it")]
static TEMPLATE: LazyLock<Handlebars<'static>> = LazyLock::new(|| {
    let mut registry = Handlebars::new();
    registry.set_strict_mode(true);
    registry.register_helper("span", Box::new(span));
    registry.register_helper("clock", Box::new(clock));
    registry.register_template_string("page", include_str!("status.hbs")).expect("it is well formed");
    registry
});

/// Everything that the page shows.
#[derive(Debug, Serialize)]
pub(super) struct View {
    version: &'static str,
    uptime_seconds: u64,
    alive: bool,
    ready: bool,
    /// Whether what is wrong keeps envelopes that could be sent from being sent.
    blocked: bool,
    reasons: Vec<String>,
    tally: Tally,
    tally_line: String,
    lanes: Vec<Lane>,
    recent: Vec<Decision>,
}

#[derive(Debug, Serialize)]
struct Lane {
    channel: String,
    leases: Leases,
    window_used: usize,
    window_size: usize,
    last_page_seconds: Option<u64>,
    gates: Vec<Gate>,
}

/// In the order of an envelope's way.
#[derive(Debug, Serialize)]
struct Leases {
    ready: usize,
    sending: usize,
    waiting: usize,
    accepted: usize,
    acking: usize,
}

/// Gates of one label that stand alike.
#[derive(Debug, Serialize)]
struct Gate {
    label: &'static str,
    state: &'static str,
    cause: Option<&'static str>,
    /// Until the first of them lets something through: a probe where it is closed.
    next_seconds: Option<u64>,
    count: usize,
}

impl View {
    /// The view of `status`, by a process that started at `started`.
    pub(super) fn new(status: Status, recent: &Recent, started: Instant) -> View {
        View {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: started.elapsed().as_secs(),
            alive: status.alive,
            ready: status.unready.is_empty(),
            blocked: !status.alive || status.unready.iter().any(Unready::blocks),
            reasons: status.unready.iter().map(ToString::to_string).collect(),
            lanes: status.lanes.iter().map(Lane::new).collect(),
            tally: recent.tally(),
            tally_line: recent.tally().to_string(),
            recent: recent.all(),
        }
    }

    /// The page.
    ///
    /// # Errors
    /// The template and the view do not fit each other, which would be a defect.
    pub(super) fn html(&self) -> Result<String, handlebars::RenderError> {
        TEMPLATE.render("page", self)
    }
}

impl Lane {
    fn new(lane: &LaneStatus) -> Lane {
        let count = |state: LeaseState| lane.leases.get(&state).copied().unwrap_or_default();
        Lane {
            channel: lane.channel.to_string(),
            leases: Leases {
                ready: count(LeaseState::Ready),
                sending: count(LeaseState::Sending),
                waiting: count(LeaseState::Waiting),
                accepted: count(LeaseState::Accepted),
                acking: count(LeaseState::Acking),
            },
            window_used: lane.window_used,
            window_size: lane.window_size,
            last_page_seconds: lane.last_page.map(|since| since.as_secs()),
            gates: gates(lane),
        }
    }
}

/// Hundreds of origins may share a label: those that stand alike are one line.
fn gates(lane: &LaneStatus) -> Vec<Gate> {
    let mut lines: BTreeMap<_, Gate> = BTreeMap::new();
    for gate in &lane.gates {
        let (cause, next) = match gate.state {
            GateState::Open => (None, None),
            GateState::Spaced { wait } => (None, Some(wait)),
            GateState::Closed { cause, probe_in } => (Some(cause.label()), Some(probe_in)),
        };
        let next = next.map(|wait| wait.as_secs_f64().ceil() as u64);
        let (label, state) = (gate.label, gate.state.label());
        let line = lines.entry((label, state, cause)).or_insert(Gate {
            label,
            state,
            cause,
            next_seconds: next,
            count: 0,
        });
        line.count += 1;
        line.next_seconds = line.next_seconds.min(next);
    }
    lines.into_values().collect()
}

/// A file of the page.
pub(super) fn file(kind: &'static str, content: impl IntoResponse) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-store")], content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::ChannelName;
    use crate::outcome::Cause;
    use crate::telemetry::status::GateStatus;

    fn closed(label: &'static str, seconds: u64) -> GateStatus {
        let probe_in = Duration::from_millis(seconds * 1000 - 500);
        GateStatus { label, state: GateState::Closed { cause: Cause::Timeout, probe_in } }
    }

    fn status() -> Status {
        let lane = LaneStatus {
            channel: ChannelName::new("push"),
            leases: BTreeMap::from([(LeaseState::Waiting, 3), (LeaseState::Acking, 2)]),
            window_used: 7,
            window_size: 500,
            gates: vec![
                closed("other", 40),
                closed("other", 9),
                GateStatus { label: "fcm", state: GateState::Open },
            ],
            backlog_age: Duration::ZERO,
            last_page: Some(Duration::from_secs(75)),
        };
        let unready = vec![Unready::GateClosed { label: "other", cause: Cause::Timeout }];
        Status { lanes: vec![lane], alive: true, unready }
    }

    fn view(recent: &Recent) -> View {
        View::new(status(), recent, Instant::now())
    }

    #[test]
    fn gates_that_stand_alike_are_one_line_with_the_next_probe() {
        let json = serde_json::to_value(view(&Recent::default())).unwrap();
        let gates = &json["lanes"][0]["gates"];
        assert_eq!(gates.as_array().unwrap().len(), 2, "{gates}");
        assert_eq!(gates[1]["count"], 2);
        assert_eq!(gates[1]["next_seconds"], 9);
        assert_eq!(json["lanes"][0]["leases"]["acking"], 2);
        assert_eq!(json["lanes"][0]["leases"]["ready"], 0);
    }

    #[test]
    fn the_page_tells_reasons_gates_leases_and_the_last_decisions() {
        let recent = Recent::default();
        recent.add(Decision::new("week-31".to_owned(), "email".to_owned(), "delivered", "accepted"));
        let html = view(&recent).html().unwrap();
        let all = [
            "the gate of other is closed: timeout",
            "2 × other",
            "next probe in 9s",
            "7 of 500",
            "1m 15s ago",
            "week-31",
            "accepted",
        ];
        for told in all {
            assert!(html.contains(told), "{told} is not in\n{html}");
        }
        let at = |state: &str| html.find(&format!("<dt>{state}</dt>")).unwrap();
        let way = ["ready", "sending", "waiting", "acking"].map(at);
        assert!(way.is_sorted(), "in the order of an envelope's way");
    }

    #[test]
    fn the_headline_says_no_more_than_the_reasons_do() {
        let headline = |unready: Vec<Unready>, alive| {
            let html =
                View::new(Status { unready, alive, ..status() }, &Recent::default(), Instant::now()).html();
            let html = html.unwrap();
            html.split_once("<h2>").unwrap().1.split_once("</h2>").unwrap().0.to_owned()
        };
        let version = Unready::UnreadableVersion { count: 1 };
        assert_eq!(headline(vec![], true), "It delivers");
        assert_eq!(headline(vec![version.clone()], true), "It delivers, but something needs you");
        let seam = Unready::Seam { error: None };
        assert_eq!(headline(vec![version, seam], true), "Something keeps it from delivering");
        assert_eq!(headline(vec![], false), "Something keeps it from delivering");
    }

    #[test]
    fn an_id_is_text_whatever_it_holds() {
        let recent = Recent::default();
        let id = "<script>alert(1)</script>\"'&";
        recent.add(Decision::new(id.to_owned(), "email".to_owned(), "failed", "refused"));
        let html = view(&recent).html().unwrap();
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
    }

    #[test]
    fn a_worker_that_has_nothing_yet_has_a_page_too() {
        let html = View::new(Status::default(), &Recent::default(), Instant::now()).html().unwrap();
        assert!(html.contains("Nothing has been decided yet"), "{html}");
    }
}
