//! Whether a lane's loops make progress: each promises when it comes round again, and keeps it.
//!
//! Owns the promises, nothing else. A loop that waits for something without a time to it promises
//! nothing, so that a quiet outbox, a closed gate and a dead seam are all well. It must not know what
//! the loops do.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Every call to seam or provider ends by the HTTP clients' deadlines, a quarter of a minute at most; what is not back
/// this long after it should be hangs.
const SLACK: Duration = Duration::from_secs(90);

/// Who promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// One of the loops that a lane cannot do without.
    Loop,
    /// One of the pull workers: the lane lives as long as one of them does.
    Worker,
}

/// The promises of one lane.
#[derive(Debug)]
pub(super) struct Pulse {
    workers: usize,
    promises: Mutex<Promises>,
}

#[derive(Debug, Default)]
struct Promises {
    next: u64,
    open: BTreeMap<u64, (Who, Instant)>,
}

impl Pulse {
    /// The pulse of a lane that has so many workers.
    pub(super) fn new(workers: usize) -> Pulse {
        Pulse { workers, promises: Mutex::default() }
    }

    /// `who` comes round at `due`, give or take; kept when the guard is dropped.
    pub(super) fn promise(&self, who: Who, due: Instant) -> Promise<'_> {
        let mut promises = self.promises();
        let number = promises.next;
        promises.next += 1;
        promises.open.insert(number, (who, due + SLACK));
        Promise { pulse: self, number }
    }

    /// Whether no loop is late, and not every worker.
    pub(super) fn beats(&self, now: Instant) -> bool {
        let promises = self.promises();
        let late = |who: Who| promises.open.values().filter(|(of, by)| *of == who && *by <= now).count();
        late(Who::Loop) == 0 && late(Who::Worker) < self.workers
    }

    fn promises(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A promise that is not kept yet.
#[derive(Debug)]
pub(super) struct Promise<'a> {
    pulse: &'a Pulse,
    number: u64,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.pulse.promises().open.remove(&self.number);
    }
}
