//! What a stand-in is told to do wrong, and to which request.
//!
//! Owns [`Fault`] (what, when, whom, how often) and the list of one endpoint. It must not know what the
//! endpoint serves. A fault strikes requests that the endpoint's own checks have passed, so that it
//! cannot hide a wrong one.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use super::journal::{Endpoint, Event, Journal};
use super::server::HangUp;

/// One thing to do wrong. Strikes the next request, before it is accepted, unless told otherwise.
#[derive(Debug, Clone)]
pub struct Fault {
    what: What,
    stage: Stage,
    target: Option<String>,
    left: Left,
}

#[derive(Clone)]
enum What {
    Answer(Arc<dyn Fn() -> Response + Send + Sync>),
    Cut,
    Hang,
    Slow(Duration),
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Before,
    After,
}

#[derive(Debug, Clone, Copy)]
enum Left {
    Times(u32),
    Always,
}

impl Fault {
    /// Answers this, whatever the endpoint would have answered.
    pub fn answer(response: impl IntoResponse + Clone + Send + Sync + 'static) -> Fault {
        Fault::of(What::Answer(Arc::new(move || response.clone().into_response())))
    }

    /// Redirects with a 301.
    pub fn redirect(to: impl Into<String>) -> Fault {
        Fault::answer((StatusCode::MOVED_PERMANENTLY, [(LOCATION, to.into())]))
    }

    /// Ends the connection without an answer.
    pub fn cut() -> Fault {
        Fault::of(What::Cut)
    }

    /// Keeps the request until [`Faults::release`], then goes on with it.
    pub fn hang() -> Fault {
        Fault::of(What::Hang)
    }

    /// Keeps the request for this long, then goes on with it.
    pub fn slow(by: Duration) -> Fault {
        Fault::of(What::Slow(by))
    }

    fn of(what: What) -> Fault {
        Fault { what, stage: Stage::Before, target: None, left: Left::Times(1) }
    }

    /// Strikes once the request is accepted, stored and in the journal: only its answer is lost or late.
    pub fn after_accepting(self) -> Fault {
        Fault { stage: Stage::After, ..self }
    }

    /// Strikes only requests about this: an envelope id at the seam's status endpoint, a channel at its
    /// pages, an Idempotency-Key or an address at Resend, a token at the push service.
    pub fn on(self, target: impl Into<String>) -> Fault {
        Fault { target: Some(target.into()), ..self }
    }

    /// Strikes so many requests.
    pub fn times(self, times: u32) -> Fault {
        Fault { left: Left::Times(times), ..self }
    }

    /// Strikes until [`Faults::clear`].
    pub fn always(self) -> Fault {
        Fault { left: Left::Always, ..self }
    }

    /// What it strikes alone, if not everything.
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Whether it strikes until it is cleared.
    pub fn is_for_ever(&self) -> bool {
        matches!(self.left, Left::Always)
    }

    fn strikes(&self, names: &[&str]) -> bool {
        let left = !matches!(self.left, Left::Times(0));
        left && self.target.as_deref().is_none_or(|target| names.contains(&target))
    }

    fn is_instead(&self) -> bool {
        matches!((&self.what, self.stage), (What::Answer(_) | What::Cut, Stage::Before))
    }

    fn count_down(&mut self) {
        if let Left::Times(times) = &mut self.left {
            *times = times.saturating_sub(1);
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.what)?;
        match self.stage {
            Stage::Before => Ok(()),
            Stage::After => f.write_str(" after accepting"),
        }
    }
}

impl fmt::Debug for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Answer(make) => write!(f, "answer {}", make().status().as_u16()),
            What::Cut => f.write_str("cut"),
            What::Hang => f.write_str("hang"),
            What::Slow(by) => write!(f, "slow by {by:?}"),
        }
    }
}

/// The faults of one endpoint, the oldest that fits first. Clones share them.
#[derive(Debug, Clone)]
pub struct Faults {
    endpoint: Endpoint,
    journal: Journal,
    queue: Arc<Mutex<Vec<Fault>>>,
    releases: watch::Sender<()>,
}

impl Faults {
    pub(super) fn new(endpoint: Endpoint, journal: Journal) -> Faults {
        Faults { endpoint, journal, queue: Arc::default(), releases: watch::Sender::new(()) }
    }

    /// Adds one at the end.
    pub fn add(&self, fault: Fault) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
        self.journal.touch();
    }

    /// Takes back all that have not struck yet; what hangs goes on hanging.
    pub fn clear(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.journal.touch();
    }

    /// Those that are still to strike, in order.
    pub fn armed(&self) -> Vec<Fault> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many requests a fault holds now.
    pub fn held(&self) -> usize {
        self.releases.receiver_count()
    }

    /// Lets every request that hangs now go on.
    pub fn release(&self) {
        self.releases.send_replace(());
    }

    /// Waits until no fault holds a request any more: each has gone on, or its client is gone.
    pub async fn none_held(&self) {
        self.releases.closed().await;
    }

    /// Runs `accept` for a request about `names`, under the fault that strikes it, if any. A request
    /// whose client goes away is not accepted any more, if it had not been before.
    pub(super) async fn around(&self, names: &[&str], accept: impl FnOnce() -> Response) -> Response {
        let Some(fault) = self.strike(names) else {
            return accept();
        };
        // Subscribed before the entry is written: who reads the entry can release at once. It also
        // marks the request as held.
        let releases = self.releases.subscribe();
        match fault.stage {
            Stage::Before => {
                self.tell(names, &fault);
                match play(fault.what, releases).await {
                    Some(instead) => instead,
                    None => accept(),
                }
            }
            Stage::After => {
                let answer = accept();
                self.tell(names, &fault);
                play(fault.what, releases).await.unwrap_or(answer)
            }
        }
    }

    fn strike(&self, names: &[&str]) -> Option<Fault> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let at = queue.iter().position(|fault| fault.strikes(names))?;
        let fault = queue[at].clone();
        queue[at].count_down();
        queue.retain(|fault| !matches!(fault.left, Left::Times(0)));
        Some(fault)
    }

    fn tell(&self, names: &[&str], fault: &Fault) {
        let target = names.first().copied().unwrap_or_default().to_owned();
        let (endpoint, fault, instead) = (self.endpoint, fault.to_string(), fault.is_instead());
        self.journal.record(Event::Faulted { endpoint, target, fault, instead });
    }
}

/// The answer that takes the place of the endpoint's own; `None` when that one is to be given.
async fn play(what: What, mut releases: watch::Receiver<()>) -> Option<Response> {
    match what {
        What::Answer(make) => Some(make()),
        What::Cut => Some(HangUp.into_response()),
        What::Hang => {
            // An error means that the stand-in is gone, and with it the connection.
            releases.changed().await.ok();
            None
        }
        What::Slow(by) => {
            tokio::time::sleep(by).await;
            None
        }
    }
}
