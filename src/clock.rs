//! What time it is, as policy code sees it: a monotonic and a wall reading taken together.
//!
//! Pure modules take a [`Now`] as an argument; only the engine and the commands hold a [`Clock`].

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For waits and freshness: never jumps.
    pub mono: Instant,
    /// For `not_before` and `expires_at`: may jump when the machine's clock is set.
    pub wall: DateTime<Utc>,
}

impl Now {
    /// The monotonic instant at which the wall clock, running on from this reading, shows `wall`.
    /// An instant that has passed is now.
    pub fn when(&self, wall: DateTime<Utc>) -> Instant {
        self.mono + (wall - self.wall).to_std().unwrap_or_default()
    }

    /// The reading `later` from this one.
    pub fn after(&self, later: Duration) -> Now {
        let wall = TimeDelta::from_std(later).unwrap_or(TimeDelta::MAX);
        Now { mono: self.mono + later, wall: self.wall.checked_add_signed(wall).unwrap_or(self.wall) }
    }
}

/// A reading and a draw: all that a policy may take from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// The time.
    pub now: Now,
    /// From 0 up to 1.
    pub random: f64,
}

/// Where a running worker reads the time.
pub trait Clock: Send + Sync + 'static {
    /// Both clocks, read together.
    fn now(&self) -> Now;
}

/// The machine's clocks. The monotonic one is tokio's, so that a paused runtime is in charge of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        Now { mono: tokio::time::Instant::now().into_std(), wall: Utc::now() }
    }
}
