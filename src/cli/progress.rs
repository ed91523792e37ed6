//! The progress of a drain: one line that moves on a terminal, a log line now and then elsewhere.
//!
//! Owns the words and the rate. It reads what the worker tells of itself and must not know a lane.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::telemetry::recent::{Recent, Tally};
use crate::telemetry::screen::Screen;
use crate::telemetry::status::{GateState, LaneStatus, Status, StatusSource};

/// Between two looks, on a terminal.
const LOOK: Duration = Duration::from_millis(250);
/// Between two lines, elsewhere.
const LINE: Duration = Duration::from_secs(5);
/// What the rate is a mean of.
const SPAN: Duration = Duration::from_secs(10);

/// Tells how far `engine` is until dropped; the line is taken away then.
pub(super) async fn follow(engine: &Engine, recent: &Recent, screen: &Screen) -> Infallible {
    let _line = Line(screen);
    let mut rate = Rate::default();
    let mut told = Tally::default();
    loop {
        let (status, tally) = (engine.status(), recent.tally());
        rate.note(Instant::now(), tally.settled());
        if screen.shows() {
            screen.show(line(&status, &tally, rate.per_second()));
        } else if tally != told {
            let Tally { delivered, bounced, complaint, suppressed, failed, withdrawn } = tally;
            let held: usize = status.lanes.iter().flat_map(|lane| lane.leases.values()).sum();
            let per_second = rate.per_second();
            tracing::info!(
                delivered, bounced, complaint, suppressed, failed, withdrawn, held, per_second, "progress"
            );
            told = tally;
        }
        tokio::time::sleep(if screen.shows() { LOOK } else { LINE }).await;
    }
}

/// Gone with its guard.
struct Line<'a>(&'a Screen);

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// How many end in a second, lately.
#[derive(Debug, Default)]
struct Rate(VecDeque<(Instant, u64)>);

impl Rate {
    fn note(&mut self, now: Instant, settled: u64) {
        while self.0.len() > 1 && self.0.front().is_some_and(|(at, _)| now.duration_since(*at) > SPAN) {
            self.0.pop_front();
        }
        self.0.push_back((now, settled));
    }

    /// To a tenth.
    fn per_second(&self) -> f64 {
        let (Some((from, before)), Some((to, after))) = (self.0.front(), self.0.back()) else { return 0.0 };
        let seconds = to.duration_since(*from).as_secs_f64();
        if seconds == 0.0 { 0.0 } else { ((after - before) as f64 / seconds * 10.0).round() / 10.0 }
    }
}

fn line(status: &Status, tally: &Tally, per_second: f64) -> String {
    let mut parts = vec![tally.to_string()];
    if per_second > 0.0 {
        parts.push(format!("{per_second:.1}/s"));
    }
    parts.extend(status.lanes.iter().filter_map(lane));
    parts.join(" · ")
}

/// What a lane still holds, and what it waits for; nothing if it holds nothing.
fn lane(lane: &LaneStatus) -> Option<String> {
    let mut line = lane.held()?;
    for gate in &lane.gates {
        if let GateState::Closed { cause, probe_in } = gate.state {
            // Writing to a string cannot fail.
            write!(line, "; {} closed ({cause}), probe in {} s", gate.label, probe_in.as_secs()).ok();
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::envelope::ChannelName;
    use crate::outcome::Cause;
    use crate::telemetry::status::{GateStatus, LeaseState};

    fn mail(leases: &[(LeaseState, usize)], gates: Vec<GateStatus>) -> Status {
        let lane = LaneStatus {
            channel: ChannelName::new("email"),
            leases: leases.iter().copied().collect::<BTreeMap<_, _>>(),
            window_used: 0,
            window_size: 500,
            gates,
            backlog_age: Duration::ZERO,
            last_page: None,
        };
        Status { lanes: vec![lane], ..Status::default() }
    }

    #[test]
    fn the_line_tells_what_has_ended_and_what_waits_for_what() {
        let probe_in = Duration::from_secs(28);
        let closed =
            GateStatus { label: "resend", state: GateState::Closed { cause: Cause::ApiKey, probe_in } };
        let status = mail(&[(LeaseState::Sending, 4), (LeaseState::Waiting, 40)], vec![closed]);
        let tally = Tally { delivered: 214, bounced: 3, ..Tally::default() };
        assert_eq!(
            line(&status, &tally, 12.4),
            "214 delivered, 3 bounced · 12.4/s · email: 4 sending, 40 waiting; resend closed (api_key), probe in 28 s"
        );
    }

    #[test]
    fn a_drain_that_has_nothing_says_so() {
        let status = mail(&[(LeaseState::Ready, 0)], vec![]);
        assert_eq!(line(&status, &Tally::default(), 0.0), "nothing has ended yet");
    }

    #[test]
    fn the_rate_is_of_the_last_seconds() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        assert_eq!(rate.per_second().to_bits(), 0.0_f64.to_bits());
        for second in 0..=60 {
            rate.note(start + Duration::from_secs(second), if second < 30 { 100 * second } else { 3000 });
        }
        assert!(rate.per_second() < 0.1, "it has stood still: {}", rate.per_second());
        for second in 61..=75 {
            rate.note(start + Duration::from_secs(second), 3000 + 25 * (second - 60));
        }
        assert!((rate.per_second() - 25.0).abs() < 0.1, "{}", rate.per_second());
    }
}
