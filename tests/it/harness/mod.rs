//! What the tests stand on: the stand-ins, the worker's binary as a child, and servers on wiremock.
//!
//! Owns the deadline of every wait. A wait ends with the event that it is for; one that does not come
//! fails the test with what was missing and what came instead.

pub(crate) mod dns;
mod program;
mod stage;
mod wire;

use std::time::Duration;

pub(crate) use program::{Program, binary, number, says, text};
pub(crate) use stage::{Stage, mailed};
pub(crate) use wire::{Wire, WireSeam};

/// No event takes that long on any machine: whoever waits longer waits in vain. Shorter than the 30
/// seconds after which a gate that an account's trouble has closed looks by itself.
const LIMIT: Duration = Duration::from_secs(25);

/// What a worker does at once it does well within this; each wait that it might do instead is far longer.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(8);

/// Waits for `event`.
///
/// # Panics
/// It does not come: with what `seen` tells of what came instead.
pub(crate) async fn within<T>(event: impl Future<Output = T>, seen: impl FnOnce() -> String) -> T {
    match tokio::time::timeout(LIMIT, event).await {
        Ok(came) => came,
        Err(_) => panic!("{}", seen()),
    }
}
