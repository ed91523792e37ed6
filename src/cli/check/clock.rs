//! How far this machine's clock is off, judged by the Date header of whoever answered.

use chrono::{DateTime, Utc};

use super::report::Line;

const TOPIC: &str = "clock";
/// What the engine bears before it holds back whatever seems to be expired.
const LIMIT: i64 = 60;
/// What no synchronised clock shows.
const ODD: i64 = 5;

/// Compares the clocks: `theirs` is whose `there` is, such as `the seam's`.
pub(super) fn compare(theirs: &str, there: DateTime<Utc>, here: DateTime<Utc>) -> Line {
    let ahead = (here - there).num_seconds();
    let side = if ahead < 0 { "behind" } else { "ahead of" };
    let what = format!("this machine's clock is {} s {side} {theirs}", ahead.abs());
    match ahead.abs() {
        0..=ODD => Line::ok(TOPIC, format!("this machine's clock and {theirs} agree")),
        odd if odd <= LIMIT => Line::warn(TOPIC, what, "see that both synchronise: timedatectl"),
        _ => Line::fail(
            TOPIC,
            what,
            "synchronise the one that is wrong: what expires is held back, and push services refuse the tokens",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;

    #[test]
    fn a_clock_is_judged_by_how_far_it_is_off() {
        let here: DateTime<Utc> = "2026-08-03T06:00:00Z".parse().unwrap();
        for (off, level) in
            [(0, Level::Ok), (-5, Level::Ok), (6, Level::Warn), (-60, Level::Warn), (61, Level::Fail)]
        {
            let line = compare("the seam's", here + chrono::TimeDelta::seconds(off), here);
            assert_eq!(line.level, level, "{off}");
        }
        let line = compare("the seam's", here + chrono::TimeDelta::days(1), here);
        assert_eq!(line.what, "this machine's clock is 86400 s behind the seam's");
    }
}
