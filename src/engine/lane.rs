//! One lane at work: the poller, the pull workers, the acker and the timekeeper around one desk.
//!
//! Owns the waiting and the calls to channel and seam; every decision is the desk's. Nothing here holds
//! the desk's lock across an await, and none of the loops waits for another. Every choice between events
//! is `biased`, so that a history in virtual time can be played again.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, watch};
use tracing::Instrument;

use super::confirming::{Ask, Hearing};
use super::desk::{Claim, Desk, Next};
use super::pulse::{Pulse, Who};
use crate::channel::confirm::{Confirmer, Confirming, Fate, Reply, Said};
use crate::channel::{Attempt, Channel};
use crate::clock::{Clock, Now};
use crate::envelope::EnvelopeId;
use crate::outbox::{Ack, Seam};
use crate::outcome::Cause;
use crate::render::Library;
use crate::trace::{self, Trace};

/// Acks on their way at once, for each worker. While an ack waits its envelope takes a place of the window and is
/// listed by every page: as many acks as sends would let them pile up whenever the seam is the slower of the two.
const ACKS_A_WORKER: usize = 2;

/// How far a stop has come. Each phase ends more of the loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Everything runs.
    Running,
    /// No polls, no new sends; sends and acks finish.
    Finishing,
    /// Nothing is left to do.
    Over,
}

/// What every lane shares.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) seam: Arc<dyn Seam>,
    pub(super) library: Arc<Library>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) phase: watch::Receiver<Phase>,
    /// Told whenever a lane may have come to rest.
    pub(super) rest: Arc<Notify>,
}

/// One channel's lane.
pub(super) struct Lane {
    channel: Arc<dyn Channel>,
    shared: Shared,
    desk: Mutex<Desk>,
    pulse: Pulse,
    work: Notify,
    poll: Notify,
    ack: Notify,
    ask: Notify,
    timer: Notify,
    /// Told whenever an ack has got through.
    settled: Notify,
}

impl Lane {
    pub(super) fn new(channel: Arc<dyn Channel>, shared: Shared, desk: Desk) -> Lane {
        let pulse = Pulse::new(desk.workers);
        let notify = Notify::new;
        Lane {
            channel,
            shared,
            desk: Mutex::new(desk),
            pulse,
            work: notify(),
            poll: notify(),
            ack: notify(),
            ask: notify(),
            timer: notify(),
            settled: notify(),
        }
    }

    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Now {
        self.shared.clock.now()
    }

    /// Whether its loops make progress.
    pub(super) fn is_alive(&self) -> bool {
        self.pulse.beats(self.now().mono)
    }

    /// Wakes whoever may have something to do after the desk has changed.
    pub(super) fn nudge(&self) {
        self.work.notify_one();
        self.poll.notify_one();
        self.ack.notify_one();
        self.ask.notify_one();
        self.timer.notify_one();
        self.shared.rest.notify_one();
    }

    async fn reached(&self, phase: Phase) {
        let mut receiver = self.shared.phase.clone();
        // An engine that is gone has no more work for its loops.
        let _gone = receiver.wait_for(|current| *current >= phase).await.is_err();
    }

    /// A pull worker: takes the next eligible lease, delivers it, settles it.
    pub(super) async fn work(self: Arc<Self>) {
        while let Some(claim) = self.next_claim().await {
            // Whoever takes one wakes the next: there may be more, and one wake-up must not be lost on a
            // worker that is about to be busy.
            self.work.notify_one();
            self.deliver(claim).await;
        }
        self.work.notify_one();
    }

    async fn next_claim(self: &Arc<Self>) -> Option<Held> {
        loop {
            let templates = self.shared.library.current();
            let (next, moved) = {
                let mut desk = self.desk();
                (desk.next(self.now(), &templates), desk.moved)
            };
            if moved {
                // There are acks to post, or waits that the timekeeper does not know.
                self.nudge();
            }
            match next {
                Next::Deliver(claim) => {
                    // A spaced gate has a new next slot, which somebody must wait for.
                    self.timer.notify_one();
                    return Some(Held { lane: self.clone(), claim: Some(claim) });
                }
                Next::Idle => self.poll.notify_one(),
            }
            tokio::select! {
                biased;
                () = self.reached(Phase::Finishing) => return None,
                () = self.work.notified() => {}
            }
        }
    }

    async fn deliver(&self, mut held: Held) {
        let Some(claim) = held.claim.as_ref() else { return };
        let (delivery, span) = (claim.delivery.clone(), claim.span.clone());
        let _promise = self.pulse.promise(Who::Worker, self.now().mono);
        let attempt = AssertUnwindSafe(self.channel.deliver(&delivery)).catch_unwind();
        let attempt = attempt.instrument(span.clone()).await;
        let now = self.now();
        let mut desk = self.desk();
        let attempt = attempt.unwrap_or_else(|_panic| {
            desk.events.panicked(&delivery.envelope.id, &desk.channel);
            Attempt::panicked()
        });
        trace::ended(&span, attempt.outcome.label(), attempt.cause.label());
        if let Some(claim) = held.claim.take() {
            desk.settle(&claim, attempt, now);
        }
        drop(desk);
        self.nudge();
    }

    /// The poller: one request at a time, when the desk says so.
    pub(super) async fn poll(self: Arc<Self>) {
        loop {
            let now = self.now();
            let due = self.desk().next_poll(now).filter(|due| *due > now.mono);
            let _promise = self.pulse.promise(Who::Loop, due.unwrap_or(now.mono));
            if let Some(due) = due {
                tokio::select! {
                    biased;
                    () = self.reached(Phase::Finishing) => return,
                    () = self.poll.notified() => continue,
                    () = tokio::time::sleep_until(due.into()) => {}
                }
            }
            tokio::select! {
                biased;
                () = self.reached(Phase::Finishing) => return,
                () = self.poll_once() => {}
            }
        }
    }

    async fn poll_once(&self) {
        let request = self.desk().begin_poll(self.now());
        let channel = self.channel.name();
        let pending = self.shared.seam.pending(&channel, request.limit);
        let answer = pending.instrument(trace::poll(channel.as_str())).await;
        let now = self.now();
        match answer {
            Ok(page) => self.desk().page(request, &page, &*self.channel, now),
            Err(error) => {
                self.desk().poll_failed(&error, now);
            }
        }
        self.nudge();
    }

    /// The acker: posts what is due, several at once, so that a slow or failing ack holds no worker.
    pub(super) async fn ack(self: Arc<Self>) {
        let at_once = self.desk().workers.max(4) * ACKS_A_WORKER;
        let mut posts = FuturesUnordered::new();
        loop {
            while posts.len() < at_once {
                let Some((id, ack, trace)) = self.desk().acks.take_due(self.now().mono) else { break };
                posts.push(self.post(id, ack, trace));
            }
            let due = self.desk().acks.next_due().filter(|_| posts.len() < at_once);
            let _promise = due.map(|due| self.pulse.promise(Who::Loop, due));
            tokio::select! {
                biased;
                () = self.reached(Phase::Over) => return,
                Some(()) = posts.next(), if !posts.is_empty() => {}
                () = self.ack.notified() => {}
                () = sleep_until(due) => {}
            }
        }
    }

    async fn post(&self, id: EnvelopeId, ack: Ack, trace: Trace) {
        let _promise = self.pulse.promise(Who::Loop, self.now().mono);
        let span = trace::ack(id.as_str(), self.channel.name().as_str(), ack.status.as_str(), &trace);
        let answer = self.shared.seam.ack(&id, &ack).instrument(span).await;
        let now = self.now();
        match answer {
            Ok(answer) => {
                self.desk().acked(&id, answer, now);
                self.settled.notify_waiters();
            }
            Err(error) => self.desk().ack_failed(&id, &error, now),
        }
        self.nudge();
    }

    /// Who asks for the final word about what this lane's provider has accepted.
    pub(super) fn confirming(&self) -> Confirming {
        self.channel.confirming()
    }

    /// The asker: one question at a time about the messages that were accepted, when the desk says so.
    pub(super) async fn ask(self: Arc<Self>, confirmer: Arc<dyn Confirmer>) {
        loop {
            let (ask, concluded) = {
                let (mut desk, now) = (self.desk(), self.now());
                let concluded = desk.conclude(now);
                (desk.ask(now), concluded)
            };
            if concluded {
                self.ack.notify_one();
                self.shared.rest.notify_one();
            }
            match ask {
                Ask::Now(question, gate) => {
                    let _promise = self.pulse.promise(Who::Loop, self.now().mono);
                    let asked = AssertUnwindSafe(confirmer.ask(&question)).catch_unwind();
                    let answer = tokio::select! {
                        biased;
                        () = self.reached(Phase::Over) => return,
                        answer = asked => answer,
                    };
                    let reply = answer.unwrap_or(Reply { said: Said::Nothing(Cause::Panic), pace: None });
                    self.desk().heard(&gate, &reply, self.now());
                    self.nudge();
                }
                Ask::Later(at) => tokio::select! {
                    biased;
                    () = self.reached(Phase::Finishing) => return,
                    () = self.ask.notified() => {}
                    () = sleep_until(at) => {}
                },
            }
        }
    }

    /// Tells the seam what became of a mail, and waits until it knows. `false`: it does not yet.
    pub(super) async fn hear_of(&self, id: &EnvelopeId, fate: Fate) -> bool {
        let hearing = self.desk().hear_of(id, fate, self.now());
        self.nudge();
        if hearing != Hearing::BeingTold {
            return hearing == Hearing::Known;
        }
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if self.desk().acks.pending_status(id).is_none() {
                return true;
            }
            settled.await;
        }
    }

    /// The timekeeper: wakes one worker when time alone has made something eligible. The workers
    /// themselves watch no clock.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            let next = {
                let now = self.now();
                let mut desk = self.desk();
                desk.leases.advance(now);
                desk.next_change(now)
            };
            // What is due by now the woken worker sees, what comes later is waited for here: told in this
            // order, nothing falls between the two.
            self.work.notify_one();
            let _promise = next.map(|next| self.pulse.promise(Who::Loop, next));
            tokio::select! {
                biased;
                () = self.reached(Phase::Finishing) => return,
                () = self.timer.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }
}

/// Ready at the instant; never without one.
pub(super) async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

/// A claim in a worker's hands. Dropped unsettled (the worker was cut short), it goes back.
struct Held {
    lane: Arc<Lane>,
    claim: Option<Box<Claim>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            let now = self.lane.now();
            self.lane.desk().abandon(&claim, now);
            self.lane.nudge();
        }
    }
}
