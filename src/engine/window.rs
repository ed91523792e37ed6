//! How much is asked of the seam, and when.
//!
//! Owns the page limit, the pace of polling and the backoff while the seam is out of reach. Pure. It
//! must not know what a page holds beyond its counts.

use std::time::{Duration, Instant};

use super::retry::Schedule;
use crate::outbox::SeamError;

#[cfg(test)]
mod tests;

/// A stale lease wakes the poller, but never more often than this.
const STALE_INTERVAL: Duration = Duration::from_secs(1);
/// While the seam is out of reach it is asked at least this often, so that mail flows soon after.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// The poll interval varies by this share to either side, so that lanes and workers drift apart.
const JITTER: f64 = 0.1;
/// Work is fetched ahead of the workers by this factor: what is held is listed again by every page, so that small bites
/// cost more than they feed.
const AHEAD: usize = 8;
/// Workers that have enough to do look for work of other providers no more often than this.
const ELSEWHERE_INTERVAL: Duration = Duration::from_millis(250);

/// Whether the workers run short of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// There is enough.
    No,
    /// There is enough at providers that are busy, and a worker is free for any other.
    OfOthers,
    /// There is too little.
    OfAll,
}

/// One request for a page.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The page limit.
    pub limit: u16,
    /// Places that were taken when it began.
    pub held: usize,
    /// When it began.
    pub began: Instant,
}

/// What a page held, in counts.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// Elements.
    pub listed: usize,
    /// New envelopes that are due, where the workers can turn to any.
    pub new_due: usize,
    /// Elements that are nobody's: settled, unreadable, without an id.
    pub dead: usize,
}

/// The polling of one lane.
#[derive(Debug)]
pub struct Window {
    size: u16,
    asked: u16,
    interval: Duration,
    backoff: Schedule,
    boosted: Option<u16>,
    dead: usize,
    began: Option<Instant>,
    arrived: Option<Instant>,
    next: Option<Instant>,
    failures: u32,
    error: Option<SeamError>,
    failing_since: Option<Instant>,
    hungry: bool,
    full: bool,
}

impl Window {
    /// A window of at most `size` places, looked at every `interval`.
    pub fn new(size: u16, interval: Duration) -> Window {
        Window {
            size,
            asked: size,
            interval,
            backoff: Schedule::new(interval.min(LONGEST_BACKOFF), LONGEST_BACKOFF.max(interval)),
            boosted: None,
            dead: 0,
            began: None,
            arrived: None,
            next: None,
            failures: 0,
            error: None,
            failing_since: None,
            hungry: false,
            full: false,
        }
    }

    /// Begins a poll. `held` leases and acks take places; the workers can use `want` more soon.
    pub fn begin(&mut self, held: usize, want: usize, now: Instant) -> Request {
        let held = held + self.dead;
        let asked = u16::try_from(held + want).unwrap_or(u16::MAX);
        let limit = asked.max(self.boosted.unwrap_or(1)).clamp(1, self.size);
        self.asked = limit;
        self.began = Some(now);
        self.hungry = false;
        Request { limit, held, began: now }
    }

    /// How many places the workers can use soon, of which `usable` are filled already.
    pub fn want(workers: usize, usable: usize) -> usize {
        (workers * AHEAD).saturating_sub(usable).max(1)
    }

    /// A page arrived. `random` is from 0 up to 1.
    pub fn arrived(&mut self, request: Request, tally: Tally, now: Instant, random: f64) {
        self.full = tally.listed >= usize::from(request.limit);
        let doubled = request.limit.saturating_mul(2).min(self.size);
        self.boosted = (self.full && tally.new_due == 0).then_some(doubled);
        self.hungry = self.full && (self.hungry || tally.new_due > 0);
        self.dead = tally.dead;
        self.arrived = Some(now);
        self.failures = 0;
        self.error = None;
        self.failing_since = None;
        self.next = Some(now + self.interval.mul_f64(1.0 + JITTER * (2.0 * random - 1.0)));
    }

    /// A place is free again: behind a full page something may have waited for it.
    pub fn made_room(&mut self) {
        self.hungry |= self.full;
    }

    /// A poll failed. Returns the wait until the next. A page that is too large to be read would be so
    /// again: from then on at most half of what was asked for is.
    pub fn failed(&mut self, error: SeamError, now: Instant, random: f64) -> Duration {
        if matches!(error, SeamError::TooLarge(_)) {
            self.size = (self.asked / 2).max(1);
        }
        self.failures += 1;
        self.error = Some(error);
        self.failing_since.get_or_insert(now);
        let wait = self.backoff.after(self.failures).mul_f64(1.0 - JITTER * random);
        self.next = Some(now + wait);
        wait
    }

    /// When the next poll is due; `None`: at once, there has been none. `stale`: something waits for a fresh
    /// listing alone.
    pub fn next_poll(&self, short: Short, stale: bool) -> Option<Instant> {
        let next = self.next?;
        let began = self.began?;
        match (&self.error, short) {
            (Some(_), _) => Some(next),
            (None, Short::OfAll) if self.hungry => Some(began),
            (None, Short::OfOthers) if self.hungry => Some(next.min(began + ELSEWHERE_INTERVAL)),
            (None, _) if stale => Some(next.min(began + STALE_INTERVAL)),
            (None, _) => Some(next),
        }
    }

    /// Whether the last page was full: there may be more than it shows.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Whether the last request asked for all that may be asked for.
    pub fn is_widest(&self, request: Request) -> bool {
        request.limit == self.size
    }

    /// Its size; smaller than it was set where pages have been too large to be read.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Elements of the last page that are nobody's.
    pub fn dead(&self) -> usize {
        self.dead
    }

    /// When the last page arrived.
    pub fn last_page(&self) -> Option<Instant> {
        self.arrived
    }

    /// The last poll's error, and since when polls fail.
    pub fn trouble(&self) -> Option<(&SeamError, Instant)> {
        self.error.as_ref().zip(self.failing_since)
    }
}
