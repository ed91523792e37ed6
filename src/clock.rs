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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Now {
        Now { mono: Instant::now(), wall: "2026-08-03T06:00:00Z".parse().unwrap() }
    }

    #[test]
    fn an_instant_that_has_passed_is_now() {
        let now = now();
        assert_eq!(now.when(now.wall), now.mono);
        assert_eq!(now.when(now.wall - TimeDelta::days(1)), now.mono);
        assert_eq!(now.when(DateTime::<Utc>::MIN_UTC), now.mono);
    }

    #[test]
    fn the_end_of_time_is_an_instant_too() {
        let now = now();
        assert!(now.when(DateTime::<Utc>::MAX_UTC) > now.mono);
    }

    proptest! {
        #[test]
        fn both_clocks_run_alike(millis in 0_u64..10_000_000_000) {
            let now = now();
            let later = now.after(Duration::from_millis(millis));
            prop_assert_eq!(now.when(later.wall), later.mono);
            prop_assert_eq!(later.mono - now.mono, Duration::from_millis(millis));
        }
    }
}
