//! The engine: drains every lane until it is told to stop or has nothing left to do.
//!
//! Owns starting, supervising and stopping the lanes' loops, and the report at the end. It knows no
//! channel by name, no provider and no HTTP.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

pub mod acks;
pub mod confirm;
mod confirming;
mod desk;
pub mod gate;
pub mod gates;
pub mod history;
mod intake;
mod lane;
pub mod leases;
mod pulse;
pub mod retry;
mod settling;
#[cfg(test)]
mod tests;
mod view;
pub mod window;

pub use desk::FRESH_AT_MOST;

use acks::SeamGate;
use desk::Desk;
use lane::{Lane, Phase, Shared};

use crate::channel::Channel;
use crate::channel::confirm::Fate;
use crate::clock::Clock;
use crate::envelope::{ChannelName, EnvelopeId};
use crate::outbox::{Seam, SeamError};
use crate::render::Library;
use crate::telemetry::events::Events;
use crate::telemetry::status::{Status, StatusSource, Unready};

/// A drain gives up on a seam that has been out of reach for this long.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

/// How the engine drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The most places that are asked for in a page (1 to 500).
    pub page_limit: u16,
    /// How often the seam is asked while there is nothing new.
    pub poll_interval: Duration,
    /// Attempts before an envelope is given up.
    pub max_attempts: u32,
    /// The first wait before a retry.
    pub retry_base: Duration,
    /// The longest wait before a retry.
    pub retry_max: Duration,
    /// How long a stop may take.
    pub shutdown_grace: Duration,
}

/// How one lane drains.
#[derive(Debug, Clone, Copy)]
pub struct LaneSettings {
    /// Deliveries at once.
    pub workers: usize,
    /// Where the lane's jitter starts from.
    pub seed: u64,
}

/// Everything that an engine is made of.
pub struct Parts {
    /// The app's outbox.
    pub seam: Arc<dyn Seam>,
    /// Each channel with its lane's settings.
    pub channels: Vec<(Arc<dyn Channel>, LaneSettings)>,
    /// The channels of this build. One that is not drained here may be another worker's: only an
    /// envelope of a channel that nobody has is failed.
    pub known: BTreeSet<ChannelName>,
    /// Where templates come from.
    pub library: Arc<Library>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where decisions are told.
    pub events: Events,
    /// How to drain.
    pub settings: Settings,
}

/// When a run ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Never.
    Daemon,
    /// When every lane has come to rest.
    Drain,
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Stopped,
    /// Every lane has come to rest.
    Drained,
    /// A drain found the seam out of reach for too long, or was turned away.
    Seam(SeamError),
    /// One of the engine's own loops died.
    Died,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Why it ended.
    pub end: End,
    /// Sends that were cut short.
    pub cut: usize,
    /// Known outcomes whose acks are not through.
    pub unacked: usize,
    /// Envelopes that are due and still pending.
    pub due_left: usize,
}

impl Report {
    /// The process's exit code: 0 clean, 1 failed, 75 (EX_TEMPFAIL of sysexits) when something is left
    /// that another run will do.
    pub fn exit_code(&self) -> u8 {
        match &self.end {
            End::Died => 1,
            End::Seam(error) if error.is_turned_away() => 1,
            End::Seam(_) => 75,
            End::Stopped | End::Drained if self.cut > 0 || self.unacked > 0 => 75,
            End::Drained if self.due_left > 0 => 75,
            End::Stopped | End::Drained => 0,
        }
    }
}

/// A worker's engine.
pub struct Engine {
    lanes: Vec<Arc<Lane>>,
    settings: Settings,
    events: Events,
    clock: Arc<dyn Clock>,
    seam_gate: Arc<Mutex<SeamGate>>,
    phase: watch::Sender<Phase>,
    rest: Arc<Notify>,
}

impl Engine {
    /// Puts the parts together. Nothing runs yet.
    pub fn new(parts: Parts) -> Arc<Engine> {
        let (phase, _) = watch::channel(Phase::Running);
        let seam_gate = Arc::new(Mutex::new(SeamGate::default()));
        let shared = Shared {
            seam: parts.seam,
            library: parts.library,
            clock: parts.clock.clone(),
            phase: phase.subscribe(),
            rest: Arc::new(Notify::new()),
        };
        let mut names = parts.known;
        names.extend(parts.channels.iter().map(|(channel, _)| channel.name()));
        let lane = |(channel, lane): (Arc<dyn Channel>, LaneSettings)| {
            let shared_state = (parts.events.clone(), seam_gate.clone());
            let desk = Desk::new(&*channel, names.clone(), &parts.settings, lane, shared_state);
            Arc::new(Lane::new(channel, shared.clone(), desk))
        };
        Arc::new(Engine {
            lanes: parts.channels.into_iter().map(lane).collect(),
            settings: parts.settings,
            events: parts.events,
            clock: parts.clock,
            rest: shared.rest.clone(),
            seam_gate,
            phase,
        })
    }

    /// Drains until `stop` is ready, or in [`Mode::Drain`] until there is nothing left to do; then
    /// finishes what is on its way, within the grace. `abort` ends that too.
    pub async fn run(
        &self,
        mode: Mode,
        stop: impl Future<Output = ()>,
        abort: impl Future<Output = ()>,
    ) -> Report {
        let mut loops = JoinSet::new();
        let (mut workers, mut asking) = (JoinSet::new(), JoinSet::new());
        for lane in &self.lanes {
            loops.spawn(lane.clone().poll());
            loops.spawn(lane.clone().keep_time());
            loops.spawn(lane.clone().ack());
            if let Some(confirmer) = lane.confirming() {
                asking.spawn(lane.clone().ask(confirmer));
            }
            for _ in 0..lane.desk().workers {
                workers.spawn(lane.clone().work());
            }
        }
        let end = tokio::select! {
            biased;
            () = stop => End::Stopped,
            end = self.drained(), if mode == Mode::Drain => end,
            Some(_) = loops.join_next() => End::Died,
            Some(_) = workers.join_next() => End::Died,
            Some(_) = asking.join_next() => End::Died,
        };
        self.stop_leasing();
        if end == End::Stopped {
            self.events.stopping();
        }
        self.finish(&mut workers, abort).await;
        self.report(end)
    }

    /// No lane hands out a lease or asks for a page any more, and every ack is due.
    fn stop_leasing(&self) {
        self.phase.send_replace(Phase::Finishing);
        for lane in &self.lanes {
            let now = lane.now().mono;
            let mut desk = lane.desk();
            desk.stop_leasing();
            desk.acks.flush(now);
            drop(desk);
            lane.nudge();
        }
    }

    /// Finishes sends and flushes acks within the grace.
    async fn finish(&self, workers: &mut JoinSet<()>, abort: impl Future<Output = ()>) {
        let finished = async {
            while workers.join_next().await.is_some() {}
            while !self.lanes.iter().all(|lane| lane.desk().acks.is_flushed()) {
                self.rest.notified().await;
            }
        };
        tokio::select! {
            biased;
            () = finished => {}
            () = abort => {}
            () = tokio::time::sleep(self.settings.shutdown_grace) => {}
        }
        self.phase.send_replace(Phase::Over);
    }

    fn report(&self, end: End) -> Report {
        let mut report = Report { end, cut: 0, unacked: 0, due_left: 0 };
        for lane in &self.lanes {
            let desk = lane.desk();
            report.cut += desk.sending();
            report.unacked += desk.acks.count();
            report.due_left += desk.due_left();
        }
        report
    }

    /// Ready when every lane has come to rest, or a drain is hopeless.
    async fn drained(&self) -> End {
        loop {
            if let Some(end) = self.drain_end() {
                return end;
            }
            let patience =
                self.lanes.iter().filter_map(|lane| lane.desk().seam_trouble()).map(|(_, since)| since).min();
            let hopeless = patience.map(|since| since + DRAIN_PATIENCE);
            tokio::select! {
                biased;
                () = self.rest.notified() => {}
                () = lane::sleep_until(hopeless) => {}
            }
        }
    }

    fn drain_end(&self) -> Option<End> {
        let now = self.clock.now();
        for lane in &self.lanes {
            match lane.desk().seam_trouble() {
                Some((error, _)) if error.is_turned_away() => return Some(End::Seam(error)),
                Some((error, since)) if now.mono.saturating_duration_since(since) >= DRAIN_PATIENCE => {
                    return Some(End::Seam(error));
                }
                _ => {}
            }
        }
        self.lanes.iter().all(|lane| lane.desk().is_at_rest(now)).then_some(End::Drained)
    }

    /// Takes in what became of a mail of `channel`, as its provider tells it unasked, and waits until the seam has
    /// taken the ack. `false`: it has not by `patience`, or cannot be told now; it should be told again.
    pub async fn learn(
        &self,
        channel: &ChannelName,
        id: &EnvelopeId,
        fate: Fate,
        patience: Duration,
    ) -> bool {
        let Some(lane) = self.lanes.iter().find(|lane| lane.desk().channel == *channel) else { return false };
        let told = tokio::time::timeout(patience, lane.hear_of(id, fate)).await;
        told.unwrap_or(false)
    }

    /// Each closed gate may probe at once: the operator says that something was mended.
    pub fn probe_gates(&self) {
        for lane in &self.lanes {
            let now = lane.now();
            lane.desk().probe_gates(now);
            lane.nudge();
        }
    }
}

impl StatusSource for Engine {
    fn status(&self) -> Status {
        let now = self.clock.now();
        let mut status = Status { alive: true, ..Status::default() };
        for lane in &self.lanes {
            status.alive &= lane.is_alive();
            let mut desk = lane.desk();
            status.lanes.push(desk.status(now));
            status.unready.extend(desk.unready(now));
        }
        if self.seam_gate.lock().unwrap_or_else(PoisonError::into_inner).is_blocked() {
            status.unready.push(Unready::AcksBlocked);
        }
        if *self.phase.borrow() != Phase::Running {
            status.unready.push(Unready::Stopping);
        }
        status
    }
}
