//! When a closed gate is probed next.
//!
//! Owns the waits between probes. Each kind of trouble has a doubling of its own: a key that was refused
//! for a day says nothing of how long the outage lasts that the first probe after it meets. Pure: clock
//! and randomness are arguments. It must not know what else a gate does.

use std::time::Duration;

use chrono::{DateTime, Days, NaiveTime, Utc};

use crate::clock::Moment;
use crate::engine::retry::{Schedule, spread};
use crate::outcome::{Cause, Streak};

/// Account and credential trouble is mended by people: the first look is soon, later ones are rare.
const ACCOUNT_FIRST: Duration = Duration::from_secs(30);
const ACCOUNT_LONGEST: Duration = Duration::from_secs(600);
/// A used-up quota comes back at a time of its own.
const QUOTA_PROBE: Duration = Duration::from_secs(3600);
/// The daily quota comes back at midnight UTC; the probe follows within this time.
const AFTER_MIDNIGHT: Duration = Duration::from_secs(30);
/// The provider's midnight and this machine's may be this far apart: a quota that is still used up so soon
/// after midnight is looked at once more when both have had theirs.
const MIDNIGHT_SKEW: Duration = Duration::from_secs(60);

/// What a probe is put off for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Account, credential, settings: people must mend it.
    Account,
    /// The day's quota.
    DailyQuota,
    /// The month's quota.
    MonthlyQuota,
    /// The provider is down.
    Outage,
    /// Something that says nothing of what the gate is closed for: a rate limit, one destination's trouble.
    Aside,
}

impl Kind {
    /// The kind of a trouble that closes a gate or keeps it closed.
    pub(super) fn of(cause: Cause) -> Kind {
        match (cause, cause.streak()) {
            (Cause::QuotaDaily, _) => Kind::DailyQuota,
            (Cause::QuotaMonthly, _) => Kind::MonthlyQuota,
            (_, Some(Streak::Outage)) => Kind::Outage,
            _ => Kind::Account,
        }
    }
}

/// How often each kind of trouble was met since the gate closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Probes {
    account: u32,
    outage: u32,
    aside: u32,
}

impl Probes {
    /// Counts a trouble that was met at `at`. Returns the wait until the next probe; `schedule` is the
    /// one of outages.
    pub(super) fn next_in(&mut self, kind: Kind, schedule: &Schedule, at: Moment) -> Duration {
        match kind {
            Kind::Account => {
                let doubled = ACCOUNT_FIRST.saturating_mul(1 << self.account.min(16));
                self.account += 1;
                spread(doubled.min(ACCOUNT_LONGEST), at.random)
            }
            Kind::Outage => {
                self.outage += 1;
                spread(schedule.after(self.outage), at.random)
            }
            Kind::Aside => {
                self.aside += 1;
                spread(schedule.after(self.aside), at.random)
            }
            Kind::MonthlyQuota => spread(QUOTA_PROBE, at.random),
            Kind::DailyQuota => spread(QUOTA_PROBE, at.random).min(after_midnight(at)),
        }
    }
}

fn after_midnight(at: Moment) -> Duration {
    let late = AFTER_MIDNIGHT.mul_f64(at.random);
    match since_midnight(at.now.wall) < MIDNIGHT_SKEW {
        true => MIDNIGHT_SKEW + late,
        false => until_midnight(at.now.wall) + late,
    }
}

fn since_midnight(wall: DateTime<Utc>) -> Duration {
    (wall - wall.date_naive().and_time(NaiveTime::MIN).and_utc()).to_std().unwrap_or_default()
}

fn until_midnight(wall: DateTime<Utc>) -> Duration {
    let next =
        wall.date_naive().checked_add_days(Days::new(1)).map(|day| day.and_time(NaiveTime::MIN).and_utc());
    next.and_then(|midnight| (midnight - wall).to_std().ok()).unwrap_or(QUOTA_PROBE)
}
