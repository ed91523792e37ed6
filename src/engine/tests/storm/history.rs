//! How a script is played: the processes that live through it, until all has come to its end.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::faults::{Counts, Kind, Sky, Trouble};
use super::script::{Act, Script, Sheet};
use super::watch::{Step, watch};
use crate::engine::tests::world::{Setup, World, hours, secs};
use crate::outcome::AckStatus;
use crate::telemetry::status::StatusSource;

/// A history lasts at least this long.
const AT_LEAST: Duration = Duration::from_secs(6 * 3600);
/// After the last fault everything must have come to its end within this time.
const AFTERMATH: Duration = Duration::from_secs(4 * 3600);
/// One process.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) span: Range<Duration>,
    pub(super) freshness: Duration,
}

/// A history that has been played.
pub(super) struct Played {
    pub(super) world: World,
    pub(super) sheets: Vec<Sheet>,
    pub(super) lives: Vec<Life>,
    /// Whether the provider's yes is not its last word.
    pub(super) confirms: bool,
    pub(super) clears: Duration,
    pub(super) ended: Duration,
    pub(super) longest_asked: Duration,
    pub(super) probed: Vec<Duration>,
    pub(super) faults: Counts,
    pub(super) steps: Counts,
    /// What had not come to its end in time.
    pub(super) unfinished: Option<String>,
}

/// A play that is going on.
struct Stage {
    world: World,
    setup: Setup,
    sky: Arc<Mutex<Sky>>,
    steps: Arc<Mutex<Counts>>,
    lives: Vec<Life>,
    probed: Vec<Duration>,
    watcher: tokio::task::JoinHandle<()>,
    rng: fastrand::Rng,
}

/// Plays the history of one seed to its end.
pub(super) async fn play(seed: u64) -> Played {
    let mut script = Script::of(seed);
    let (setup, sky) = (script.setup(seed), Arc::new(Mutex::new(script.sky())));
    let clears = sky.lock().unwrap().clears;
    let (world, steps) = (setup.clone().build(), Arc::new(Mutex::new(Counts::of(Step::ALL.len()))));
    for carrier in &world.carriers {
        let sky = sky.clone();
        carrier.rule(move |call| sky.lock().unwrap().answer(call));
        script.sheets.iter().for_each(|sheet| carrier.fate(&sheet.id, sheet.fate.0, sheet.fate.1));
    }
    let says = sky.clone();
    world.carrier().says(move |_, at| says.lock().unwrap().said(at));
    let weather = sky.clone();
    world.outbox.weather(move |asked, at| weather.lock().unwrap().seam(asked, at));
    let watcher = tokio::spawn(async {});
    let rng = script.rng.fork();
    let mut stage = Stage { world, setup, sky, steps, lives: Vec::new(), probed: Vec::new(), watcher, rng };
    stage.world.start();
    stage.begin_life();
    for (at, act) in std::mem::take(&mut script.acts) {
        stage.world.pass(at.saturating_sub(stage.world.at())).await;
        stage.perform(act, &mut script).await;
    }
    let unfinished = stage.finish(&mut script.sheets, clears).await;
    stage.count_spells();
    let Stage { world, setup, sky, steps, lives, probed, .. } = stage;
    let confirms = setup.confirms();
    let sky = sky.lock().unwrap();
    let (faults, longest_asked) = (sky.counts.clone(), sky.longest_asked);
    let steps = steps.lock().unwrap().clone();
    let (sheets, ended) = (script.sheets, world.at());
    Played { world, sheets, lives, confirms, clears, ended, longest_asked, probed, faults, steps, unfinished }
}

impl Stage {
    fn begin_life(&mut self) {
        let at = self.world.at();
        let freshness = (self.setup.settings.poll_interval * 2).clamp(secs(10), secs(60));
        self.lives.push(Life { span: at..Duration::MAX, freshness });
        self.sky.lock().unwrap().life = at;
        let (engine, changed) = (self.world.engine.clone(), self.world.changed.clone());
        self.watcher = tokio::spawn(watch(engine, changed, self.steps.clone()));
    }

    fn count(&self, kind: Kind) {
        self.sky.lock().unwrap().count(kind);
    }

    async fn perform(&mut self, act: Act, script: &mut Script) {
        let outbox = &self.world.outbox;
        match act {
            Act::Add(n) => {
                script.sheets[n].added = self.world.at();
                outbox.add(script.sheets[n].draft());
            }
            Act::Withdraw(n) => {
                outbox.withdraw(&script.sheets[n].id);
                let back = script.sheets[n].withdrawn.and_then(|(_, back)| back);
                script.sheets[n].withdrawn = Some((self.world.at(), back));
                self.count(if back.is_some() { Kind::WithdrawnAndBack } else { Kind::Withdrawn });
            }
            Act::Restore(n) => {
                outbox.restore(&script.sheets[n].id);
                let gone = script.sheets[n].withdrawn.map_or(Duration::ZERO, |(gone, _)| gone);
                script.sheets[n].withdrawn = Some((gone, Some(self.world.at())));
            }
            Act::Crash => self.crash(Kind::Crash).await,
            Act::CrashInASend => {
                self.wait_for(|w| w.carriers.iter().any(|carrier| carrier.is_sending())).await;
                self.crash(Kind::CrashInASend).await;
            }
            Act::CrashInAnAck => {
                self.wait_for(|w| w.outbox.is_acking()).await;
                self.crash(Kind::CrashInAnAck).await;
            }
            Act::WrongBy(seconds) => {
                self.world.clock.set_wrong_by(seconds);
                match seconds {
                    0 => {}
                    61.. => self.count(Kind::ClockAhead),
                    ..-60 => self.count(Kind::ClockBehind),
                    _ => self.count(Kind::ClockALittleOff),
                }
            }
            Act::ProbeGates => {
                self.world.engine.probe_gates();
                self.probed.push(self.world.at());
                self.count(Kind::GatesProbed);
            }
            Act::Junk(kind) => self.write_junk(kind),
        }
    }

    /// Waits for a moment, but not for ever.
    async fn wait_for(&self, moment: impl Fn(&World) -> bool) {
        let come = async {
            while !moment(&self.world) {
                self.world.changed.notified().await;
            }
        };
        let _late = tokio::time::timeout(secs(900), come).await;
    }

    async fn crash(&mut self, wanted: Kind) {
        let sending = self.world.carriers.iter().any(|carrier| carrier.is_sending());
        self.count(match wanted {
            Kind::CrashInASend if !sending => Kind::Crash,
            Kind::CrashInAnAck if !self.world.outbox.is_acking() => Kind::Crash,
            as_wanted => as_wanted,
        });
        let at = self.world.at();
        self.watcher.abort();
        self.world.crash().await;
        if let Some(life) = self.lives.last_mut() {
            life.span.end = at;
        }
        let down = Duration::from_millis(self.rng.u64(100..90_000));
        self.world.pass(down).await;
        // Later lives are longer and have less to do.
        let polls = if self.lives.len() > 1 { [120, 120] } else { [30, 60] };
        self.setup.settings.poll_interval = secs(polls[self.rng.usize(..2)]);
        self.world.restart(self.setup.settings);
        self.begin_life();
    }

    fn write_junk(&mut self, kind: usize) {
        let junk = match kind {
            0 => (Kind::Unnamed, json!({"kind": 42})),
            1 => (Kind::Malformed, json!({"id": "malformed", "schema_version": "1", "channel": 42})),
            2 => (
                Kind::OtherVersion,
                json!({"id": "other version", "schema_version": "2", "channel": "email"}),
            ),
            3 => (Kind::UnknownChannel, whole("unknown channel", "sms")),
            _ => (Kind::Misplaced, whole("misplaced", "push")),
        };
        self.count(junk.0);
        self.world.outbox.add_raw("email", &junk.1);
    }

    /// Waits until all has come to its end and every lease is released; tells what has not.
    async fn finish(&mut self, sheets: &mut Vec<Sheet>, clears: Duration) -> Option<String> {
        let limit = clears + AFTERMATH;
        let mut is_alone = true;
        loop {
            let left = self.left(sheets);
            match left {
                None if self.world.at() >= AT_LEAST.max(clears) => break,
                Some(left) if self.world.at() > limit => return Some(left),
                // The third mail that is refused alike, and alone since, waits for a yes to another: the app writes on.
                Some(_) if is_alone && self.world.at() > clears + AFTERMATH / 2 => {
                    is_alone = false;
                    sheets.push(Sheet::late(sheets.len(), self.world.at()));
                    self.world.outbox.add(sheets[sheets.len() - 1].draft());
                }
                _ => self.world.pass(secs(60)).await,
            }
        }
        self.watcher.abort();
        let report = self.world.stop().await;
        let at = self.world.at();
        if let Some(life) = self.lives.last_mut() {
            life.span.end = at;
        }
        (report.exit_code() != 0).then(|| format!("{report:?}"))
    }

    fn left(&self, sheets: &[Sheet]) -> Option<String> {
        let outbox = &self.world.outbox;
        let pending = |sheet: &&Sheet| {
            let gone = sheet.withdrawn.is_some_and(|(_, back)| back.is_none());
            !gone && outbox.status(&sheet.id).is_none() && !outbox.has_expired(&sheet.id)
        };
        if let Some(sheet) = sheets.iter().find(pending) {
            return Some(format!("{} is pending", sheet.id));
        }
        let lanes = self.world.engine.status().lanes;
        let leased = lanes.iter().any(|lane| lane.leases.values().any(|count| *count > 0));
        leased.then(|| format!("leases are held: {lanes:?}"))
    }

    /// Tells outages by how many envelopes met them.
    fn count_spells(&self) {
        let tries: Vec<_> = self.world.carriers.iter().flat_map(|carrier| carrier.tries()).collect();
        let spells = self.sky.lock().unwrap().spells.clone();
        for spell in spells.iter().filter(|spell| spell.trouble == Trouble::Down) {
            let met =
                tries.iter().filter(|t| t.gate == spell.gate && (spell.from..spell.to).contains(&t.began));
            let ids: std::collections::HashSet<&str> = met.map(|t| t.id.as_str()).collect();
            match ids.len() {
                0 => {}
                1 => self.count(Kind::DownForOne),
                _ if spell.to - spell.from > hours(24) => self.count(Kind::DownForADay),
                _ => self.count(Kind::DownForHours),
            }
        }
    }
}

fn whole(id: &str, channel: &str) -> serde_json::Value {
    json!({
        "schema_version": "1", "id": id, "user_id": "u", "channel": channel, "template": "digest.v1",
        "recipient": {}, "consent_snapshot": {"cadence": "weekly", "unsubscribe_ref": "r"}, "payload": {}, "created_at": "2026-08-03T06:00:00Z",
    })
}

/// What becomes of what nobody can send.
pub(super) const JUNK: [(&str, Option<AckStatus>); 4] = [
    ("malformed", Some(AckStatus::Failed)),
    ("unknown channel", Some(AckStatus::Failed)),
    ("other version", None),
    ("misplaced", None),
];
