//! Time as the tests tell it: the monotonic clock is the paused runtime's, the wall clock follows it and
//! can be set wrong.

use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use crate::clock::{Clock, Now};

/// Both clocks of one world.
#[derive(Debug)]
pub(super) struct TestClock {
    started: Instant,
    wall: DateTime<Utc>,
    wrong_by: Mutex<TimeDelta>,
}

impl TestClock {
    /// Runs from now on; the wall clock shows `wall`.
    pub(super) fn starting_at(wall: DateTime<Utc>) -> TestClock {
        TestClock { started: Instant::now(), wall, wrong_by: Mutex::default() }
    }

    /// Since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The true time, which the seam's clock shows, `later` than the start.
    pub(super) fn truth(&self, later: Duration) -> DateTime<Utc> {
        self.wall + TimeDelta::from_std(later).unwrap()
    }

    /// Sets the worker's wall clock wrong by this much.
    pub(super) fn set_wrong_by(&self, seconds: i64) {
        *self.wrong_by.lock().unwrap() = TimeDelta::seconds(seconds);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Now {
        let wall = self.truth(self.elapsed()) + *self.wrong_by.lock().unwrap();
        Now { mono: Instant::now().into_std(), wall }
    }
}
