//! One worker with its surroundings, in virtual time.
//!
//! A history is the same each time: the runtime has one thread, clocks are virtual, jitter is seeded.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::carrier::Carrier;
use super::clock::TestClock;
use super::outbox::Outbox;
use crate::channel::{Channel, Gating, Rate};
use crate::engine::{Engine, LaneSettings, Mode, Parts, Report, Settings};
use crate::outcome::AckStatus;
use crate::render::{Library, Links};
use crate::telemetry::events::Events;
use crate::telemetry::status::{LaneStatus, LeaseState, StatusSource, Unready};

/// By when the worker has done what follows from an answer.
const SETTLED: Duration = Duration::from_millis(10);
/// What time alone changes is looked at this often.
const GLANCE: Duration = Duration::from_secs(10);
/// A condition that has not come true after this much virtual time never will.
const PATIENCE: Duration = Duration::from_secs(26 * 3600);

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

/// Loaded once: the templates are not what these tests are about.
fn library() -> Arc<Library> {
    static LIBRARY: LazyLock<Arc<Library>> = LazyLock::new(|| {
        let links = Links::new(&"https://app.test".parse().unwrap(), "/unsubscribe").unwrap();
        Arc::new(Library::load(None, links).unwrap())
    });
    LIBRARY.clone()
}

/// A rate of so many a second.
pub(super) fn fixed(rate: u32) -> Gating {
    Gating::OneProvider(Rate::Fixed(NonZeroU32::new(rate).unwrap()))
}

/// A world to be. The settings begin as the design's defaults.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) settings: Settings,
    pub(super) mode: Mode,
    wall: DateTime<Utc>,
    confirm: Option<Duration>,
    lanes: Vec<(&'static str, Gating, LaneSettings)>,
}

impl Setup {
    fn of(name: &'static str, gating: Gating, workers: usize) -> Setup {
        let settings = Settings {
            page_limit: 500,
            poll_interval: secs(5),
            max_attempts: 8,
            retry_base: secs(2),
            retry_max: secs(900),
            shutdown_grace: secs(25),
        };
        let wall = instant("2026-08-03T06:00:00Z");
        Setup { settings, mode: Mode::Daemon, wall, confirm: None, lanes: Vec::new() }
            .and(name, gating, workers)
    }

    /// One lane with one provider that sets no rate.
    pub(super) fn email(workers: usize) -> Setup {
        Setup::of("email", Gating::OneProvider(Rate::Unlimited), workers)
    }

    /// One lane with one provider under this gating.
    pub(super) fn email_at(gating: Gating, workers: usize) -> Setup {
        Setup::of("email", gating, workers)
    }

    /// One lane with many providers.
    pub(super) fn push(workers: usize) -> Setup {
        Setup::of("push", Gating::ManyProviders, workers)
    }

    /// One more lane.
    pub(super) fn and(mut self, name: &'static str, gating: Gating, workers: usize) -> Setup {
        let seed = u64::try_from(self.lanes.len()).unwrap() + 1;
        self.lanes.push((name, gating, LaneSettings { workers, seed }));
        self
    }

    pub(super) fn page_limit(mut self, limit: u16) -> Setup {
        self.settings.page_limit = limit;
        self
    }

    /// Where the jitter of all lanes starts from.
    pub(super) fn seed(mut self, seed: u64) -> Setup {
        self.lanes.iter_mut().zip(seed..).for_each(|((_, _, lane), seed)| lane.seed = seed);
        self
    }

    /// A slower poll, for long histories: little happens in them between the polls.
    pub(super) fn slow_polls(mut self) -> Setup {
        self.settings.poll_interval = secs(30);
        self
    }

    /// Where there is one provider for all, its yes is not the last word: that is waited for so long.
    pub(super) fn confirming(self, window: Duration) -> Setup {
        Setup { confirm: Some(window), ..self }
    }

    /// Whether a yes is not the last word.
    pub(super) fn confirms(&self) -> bool {
        self.confirm.is_some()
    }

    /// The wall clock at the start.
    pub(super) fn wall(self, wall: &str) -> Setup {
        Setup { wall: instant(wall), ..self }
    }

    /// A run that ends when nothing is left to do.
    pub(super) fn drain(self) -> Setup {
        Setup { mode: Mode::Drain, ..self }
    }

    /// Puts the world together; nothing moves before [`World::start`].
    pub(super) fn build(self) -> World {
        let clock = Arc::new(TestClock::starting_at(self.wall));
        let changed = Arc::new(Notify::new());
        let outbox = Arc::new(Outbox::new(clock.clone(), changed.clone()));
        let carrier = |(name, gating, lane): (&'static str, Gating, LaneSettings)| {
            let window = self.confirm.filter(|_| matches!(gating, Gating::OneProvider(_)));
            (Arc::new(Carrier::new(name, gating, window, clock.clone(), changed.clone())), lane)
        };
        let lanes: Vec<_> = self.lanes.into_iter().map(carrier).collect();
        let engine = engine(&outbox, &lanes, &clock, self.settings);
        let (carriers, lanes) = lanes.into_iter().unzip();
        World { outbox, carriers, clock, engine, changed, mode: self.mode, lanes, run: None }
    }

    /// Puts the world together and starts it with `prepare`'s doings in place.
    pub(super) fn start(self, prepare: impl FnOnce(&World)) -> World {
        let mut world = self.build();
        prepare(&world);
        world.start();
        world
    }
}

fn engine(
    outbox: &Arc<Outbox>,
    lanes: &[(Arc<Carrier>, LaneSettings)],
    clock: &Arc<TestClock>,
    settings: Settings,
) -> Arc<Engine> {
    let channels = lanes.iter().map(|(carrier, lane)| (carrier.clone() as Arc<dyn Channel>, *lane));
    Engine::new(Parts {
        seam: outbox.clone(),
        channels: channels.collect(),
        known: BTreeSet::new(),
        library: library(),
        clock: clock.clone(),
        events: Events::default(),
        settings,
    })
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

struct Run {
    stop: Option<oneshot::Sender<()>>,
    abort: Option<oneshot::Sender<()>>,
    report: JoinHandle<Report>,
}

/// One worker, its outbox, its providers and its clock.
pub(super) struct World {
    pub(super) outbox: Arc<Outbox>,
    pub(super) carriers: Vec<Arc<Carrier>>,
    pub(super) clock: Arc<TestClock>,
    pub(super) engine: Arc<Engine>,
    pub(super) changed: Arc<Notify>,
    mode: Mode,
    lanes: Vec<LaneSettings>,
    run: Option<Run>,
}

impl World {
    /// Starts the worker.
    pub(super) fn start(&mut self) {
        let (stop, stopped) = oneshot::channel::<()>();
        let (abort, aborted) = oneshot::channel::<()>();
        let (engine, mode) = (self.engine.clone(), self.mode);
        let report = tokio::spawn(async move {
            let stop = async { stopped.await.unwrap_or_default() };
            let abort = async { aborted.await.unwrap_or_default() };
            engine.run(mode, stop, abort).await
        });
        self.run = Some(Run { stop: Some(stop), abort: Some(abort), report });
    }

    /// The process dies: whatever it was doing is cut, and all that it knew is gone.
    pub(super) async fn crash(&mut self) {
        let run = self.run.take().unwrap();
        run.report.abort();
        assert!(run.report.await.is_err_and(|error| error.is_cancelled()), "the run was not over");
        // What was cut is dropped when the runtime comes round to it.
        self.pass(Duration::from_millis(1)).await;
    }

    /// A new process, with the same outbox and the same providers.
    pub(super) fn restart(&mut self, settings: Settings) {
        self.lanes.iter_mut().for_each(|lane| lane.seed = lane.seed.wrapping_add(0x9E37_79B9));
        let lanes: Vec<_> = self.carriers.iter().cloned().zip(self.lanes.iter().copied()).collect();
        self.engine = engine(&self.outbox, &lanes, &self.clock, settings);
        self.start();
    }

    /// The first lane's channel.
    pub(super) fn carrier(&self) -> &Carrier {
        &self.carriers[0]
    }

    /// Since the start.
    pub(super) fn at(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Lets virtual time pass.
    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits for a condition, which is looked at whenever seam or channel are called or answer, a little
    /// after that, and now and then.
    pub(super) async fn until(&self, what: &str, condition: impl Fn(&World) -> bool) {
        let limit = self.at() + PATIENCE;
        let mut glance = SETTLED;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            assert!(self.at() < limit, "never came true: {what}\n{}", self.tell());
            tokio::select! {
                biased;
                () = changed => glance = SETTLED,
                () = tokio::time::sleep(glance) => glance = GLANCE,
            }
        }
    }

    /// Waits until so many have been stored as delivered.
    pub(super) async fn until_delivered(&self, count: usize) {
        self.until(&format!("{count} delivered"), |w| w.outbox.count(AckStatus::Delivered) >= count).await;
    }

    /// Waits until the envelope has its status in the outbox, and tells it.
    pub(super) async fn until_acked(&self, id: &str) -> AckStatus {
        self.until(&format!("{id} acked"), |w| w.outbox.status(id).is_some()).await;
        self.outbox.status(id).unwrap()
    }

    /// Stops the worker and waits for its report.
    pub(super) async fn stop(&mut self) -> Report {
        self.tell_to_stop();
        self.ended().await
    }

    /// Tells the worker to stop, without waiting.
    pub(super) fn tell_to_stop(&mut self) {
        self.run.as_mut().and_then(|run| run.stop.take()).unwrap().send(()).unwrap();
    }

    /// Tells the worker to end at once.
    pub(super) fn tell_to_abort(&mut self) {
        self.run.as_mut().and_then(|run| run.abort.take()).unwrap().send(()).unwrap();
    }

    /// Waits for the end of the run.
    pub(super) async fn ended(&mut self) -> Report {
        let run = self.run.as_mut().unwrap();
        tokio::time::timeout(PATIENCE, &mut run.report).await.expect("the run ends").unwrap()
    }

    /// The first lane as the operator sees it.
    pub(super) fn lane(&self) -> LaneStatus {
        self.engine.status().lanes.swap_remove(0)
    }

    /// How many leases of the first lane stand there.
    pub(super) fn leases(&self, state: LeaseState) -> usize {
        self.lane().leases[&state]
    }

    /// Why the worker is not ready.
    pub(super) fn unready(&self) -> Vec<Unready> {
        self.engine.status().unready
    }

    /// Whether a gate of the first lane is closed.
    pub(super) fn is_gate_closed(&self) -> bool {
        self.unready().iter().any(|reason| matches!(reason, Unready::GateClosed { .. }))
    }

    fn tell(&self) -> String {
        let tries: Vec<_> = self.carriers.iter().flat_map(|carrier| carrier.tries()).collect();
        let tail = |text: String| {
            text.chars().rev().take(3000).collect::<String>().chars().rev().collect::<String>()
        };
        format!(
            "{:#?}\nposts {}\ntries {}",
            self.engine.status(),
            tail(format!("{:?}", self.outbox.posts())),
            tail(format!("{tries:?}"))
        )
    }
}
