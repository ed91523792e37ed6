//! What Resend remembers from request to request: idempotency keys for a day, the rate for a second.
//!
//! Owns both memories, and the clock is an argument. It must not know a mail or HTTP.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

/// How long a key is remembered (resend.com/docs/dashboard/emails/idempotency-keys).
const KEY_MEMORY: Duration = Duration::from_secs(24 * 3600);
/// What the rate counts in.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// The idempotency keys of the last day.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys(Arc<Mutex<HashMap<String, Known>>>);

#[derive(Debug)]
struct Known {
    /// A hash of it: the mails of a day are more than a sandbox should hold.
    body: [u8; 32],
    since: Instant,
    id: String,
    in_progress: bool,
}

/// What a key turns out to be.
#[derive(Debug)]
pub(super) enum Claim {
    /// Not seen in the last day: now bound to this body, and in use until the guard is dropped.
    New { id: String, guard: InProgress },
    /// Answered before, for the same body.
    Repeat { id: String },
    /// Bound to another body.
    OtherBody,
    /// Its first request has not been answered yet.
    Concurrent,
}

impl Keys {
    pub(super) fn claim(&self, key: &str, body: &[u8], now: Instant) -> Claim {
        let mut keys = self.lock();
        let body: [u8; 32] = Sha256::digest(body).into();
        if keys.len() == keys.capacity() {
            keys.retain(|_, known| known.in_progress || now.duration_since(known.since) < KEY_MEMORY);
        }
        match keys.get(key).filter(|known| now.duration_since(known.since) < KEY_MEMORY) {
            Some(known) if known.body != body => Claim::OtherBody,
            Some(known) if known.in_progress => Claim::Concurrent,
            Some(known) => Claim::Repeat { id: known.id.clone() },
            None => {
                let id = new_id();
                let known = Known { body, since: now, id: id.clone(), in_progress: true };
                keys.insert(key.to_owned(), known);
                Claim::New { id, guard: InProgress { keys: self.clone(), key: key.to_owned() } }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key whose first request is not answered yet; dropping it ends that.
#[derive(Debug)]
pub(super) struct InProgress {
    keys: Keys,
    key: String,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        if let Some(known) = self.keys.lock().get_mut(&self.key) {
            known.in_progress = false;
        }
    }
}

/// An id of the form that Resend gives, a random UUID.
pub(super) fn new_id() -> String {
    let (a, b, c, d, e) =
        (fastrand::u32(..), fastrand::u16(..), fastrand::u16(..), fastrand::u16(..), fastrand::u64(..));
    format!("{a:08x}-{b:04x}-4{:03x}-{:04x}-{:012x}", c & 0xfff, (d & 0x3fff) | 0x8000, e & 0xffff_ffff_ffff)
}

/// The strict window: never more than `limit` requests let through in any one second.
#[derive(Debug)]
pub(super) struct Window {
    limit: u32,
    taken: VecDeque<Instant>,
}

/// What the rate headers say; the wait in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) limit: u32,
    pub(super) remaining: u32,
    pub(super) reset: u32,
}

impl Window {
    pub(super) fn new(limit: u32) -> Window {
        Window { limit, taken: VecDeque::new() }
    }

    /// Takes a place in the second that ends now; refused, with the same headers, when none is left.
    pub(super) fn take(&mut self, now: Instant) -> Result<Pace, Pace> {
        self.taken.retain(|at| now.duration_since(*at) < RATE_WINDOW);
        let used = u32::try_from(self.taken.len()).unwrap_or(u32::MAX);
        let pace = |remaining| Pace { limit: self.limit, remaining, reset: 1 };
        match self.limit.saturating_sub(used) {
            0 => Err(pace(0)),
            left => {
                self.taken.push_back(now);
                Ok(pace(left - 1))
            }
        }
    }
}
