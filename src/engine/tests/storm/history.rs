//! What a seed plays: who is written to when, what breaks when, and the processes that live through it.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::faults::{Counts, Kind, Nature, Sky, Spell, Trouble};
use super::watch::{Step, watch};
use crate::channel::Gating;
use crate::engine::tests::outbox::{Draft, mail, push};
use crate::engine::tests::world::{Setup, World, fixed, hours, secs};
use crate::outcome::AckStatus;
use crate::telemetry::status::StatusSource;

/// A history lasts at least this long.
const AT_LEAST: Duration = Duration::from_secs(6 * 3600);
/// After the last fault everything must have come to its end within this time.
const AFTERMATH: Duration = Duration::from_secs(4 * 3600);
/// The push services.
const SERVICES: [&str; 4] = ["fcm", "mozilla", "apple", "other"];

/// One envelope of a history, as the app knows it.
#[derive(Debug, Clone)]
pub(super) struct Sheet {
    pub(super) id: String,
    pub(super) gate: &'static str,
    pub(super) to: String,
    pub(super) template: &'static str,
    pub(super) added: Duration,
    pub(super) not_before: Option<Duration>,
    pub(super) expires: Option<Duration>,
    pub(super) nature: Nature,
    /// From when on it was withdrawn, and when it came back if it did.
    pub(super) withdrawn: Option<(Duration, Option<Duration>)>,
}

impl Sheet {
    fn new(gate: &'static str, to: String) -> Sheet {
        Sheet {
            id: String::new(),
            gate,
            to,
            template: "digest.v1",
            added: Duration::ZERO,
            not_before: None,
            expires: None,
            nature: Nature::Fine,
            withdrawn: None,
        }
    }

    pub(super) fn is_mail(&self) -> bool {
        self.gate == "resend"
    }

    fn draft(&self) -> Draft {
        let draft = if self.is_mail() { mail(&*self.id) } else { push(&*self.id, self.gate) };
        let draft = draft.to(&self.to).template(self.template);
        let draft = self.not_before.map_or(draft.clone(), |at| draft.not_before(at));
        self.expires.map_or(draft.clone(), |at| draft.expires(at))
    }
}

/// One process.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) span: Range<Duration>,
    pub(super) freshness: Duration,
}

/// What happens besides what requests meet.
#[derive(Debug, Clone, Copy)]
enum Act {
    Add(usize),
    Withdraw(usize),
    Restore(usize),
    Crash,
    CrashInASend,
    CrashInAnAck,
    WrongBy(i64),
    ProbeGates,
    Junk(usize),
}

/// A history that has been played.
pub(super) struct Played {
    pub(super) world: World,
    pub(super) sheets: Vec<Sheet>,
    pub(super) lives: Vec<Life>,
    pub(super) clears: Duration,
    pub(super) ended: Duration,
    pub(super) longest_asked: Duration,
    pub(super) probed: Vec<Duration>,
    pub(super) faults: Counts,
    pub(super) steps: Counts,
    /// What had not come to its end in time.
    pub(super) unfinished: Option<String>,
}

/// A history to be.
struct Script {
    rng: fastrand::Rng,
    sheets: Vec<Sheet>,
    acts: Vec<(Duration, Act)>,
    spells: Vec<Spell>,
    seam_spells: Vec<(Duration, Duration)>,
    is_long: bool,
    is_quiet: bool,
}

impl Script {
    fn of(seed: u64) -> Script {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (is_long, is_quiet) = (rng.u8(..8) == 0, rng.u8(..3) == 0);
        let (sheets, acts) = (Vec::new(), Vec::new());
        let mut script =
            Script { rng, sheets, acts, spells: Vec::new(), seam_spells: Vec::new(), is_long, is_quiet };
        script.breakages();
        script.records();
        script.singles();
        script.lonely();
        script.life_of_the_app();
        script.acts.sort_by_key(|(at, _)| *at);
        script.number();
        script
    }

    fn within(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.rng.u64(range.start * 1000..range.end * 1000))
    }

    fn add(&mut self, at: Duration, sheet: Sheet) {
        self.acts.push((at, Act::Add(self.sheets.len())));
        self.sheets.push(Sheet { added: at, ..sheet });
    }

    /// Crashes, clocks, and providers that do not work for a while.
    fn breakages(&mut self) {
        let last_crash = if self.is_long { 7_000 } else { 13_000 };
        for _ in 0..self.rng.usize(2..4) {
            let at = self.within(60..last_crash);
            let crash = [Act::Crash, Act::CrashInASend, Act::CrashInAnAck][self.rng.usize(..3)];
            self.acts.push((at, crash));
        }
        if self.is_long {
            let from = self.within(7_300..8_000);
            let to = from + secs(self.rng.u64(25 * 3600..27 * 3600));
            self.spells.push(Spell { gate: "resend", from, to, trouble: Trouble::Down });
        } else {
            self.mail_spell();
        }
        for gate in [SERVICES[self.rng.usize(..3)], "other"] {
            let trouble =
                [Trouble::Down, Trouble::Down, Trouble::Credential, Trouble::Blocked][self.rng.usize(..4)];
            let (from, length) = (self.within(300..7_000), self.within(3_600..10_000));
            self.spells.push(Spell { gate, from, to: from + length, trouble });
            if trouble != Trouble::Down {
                self.burst(gate, from);
            }
        }
        let from = self.within(300..12_000);
        let length = if self.rng.bool() { self.within(30..300) } else { self.within(300..3_000) };
        self.seam_spells.push((from, from + length));
        if self.rng.bool() {
            let (from, length) = (self.within(300..12_000), self.within(60..3_600));
            let wrong = [self.rng.i64(120..200_000), self.rng.i64(-200_000..-120), self.rng.i64(-50..50)];
            self.acts.push((from, Act::WrongBy(wrong[self.rng.usize(..3)])));
            self.acts.push((from + length, Act::WrongBy(0)));
        }
        for _ in 0..self.rng.usize(..3) {
            let at = self.within(300..14_000);
            self.acts.push((at, Act::ProbeGates));
        }
    }

    fn mail_spell(&mut self) {
        let kinds = [Trouble::Down, Trouble::Down, Trouble::ApiKey, Trouble::Quota, Trouble::Settings];
        let trouble = kinds[self.rng.usize(..kinds.len())];
        let (from, length) = (self.within(300..8_000), self.within(3_600..10_000));
        self.spells.push(Spell { gate: "resend", from, to: from + length, trouble });
        // Some are on their way already as it begins.
        for n in 0..self.rng.usize(..4) {
            let at = from.saturating_sub(self.within(1..8));
            self.add(at, Sheet::new("resend", format!("early {n}")));
        }
    }

    /// An origin that refuses everybody is told from one bad subscription by several refusals.
    fn burst(&mut self, gate: &'static str, from: Duration) {
        for n in 0..4 {
            let at = from + self.within(0..20);
            self.add(at, Sheet::new(gate, format!("{gate} reader {n}")));
        }
    }

    /// Three records of three or four, each close together, one with a member that is not yet due.
    fn records(&mut self) {
        for record in 0..3 {
            let gate =
                [["resend", "fcm", "mozilla"][record], SERVICES[self.rng.usize(..3)]][self.rng.usize(..2)];
            let mut at = self.within(0..9_000);
            for n in 0..self.rng.usize(3..5) {
                at += self.within(0..60);
                let not_before = (n == 1 && self.rng.bool()).then(|| at + self.within(30..2_000));
                self.add(at, Sheet { not_before, ..Sheet::new(gate, format!("record {record}")) });
            }
        }
    }

    fn singles(&mut self) {
        let count = if self.is_quiet { 12 } else { self.rng.usize(12..20) };
        for n in 0..count {
            let gate = if self.rng.bool() { "resend" } else { SERVICES[self.rng.usize(..3)] };
            let at = if self.rng.bool() { self.within(0..600) } else { self.within(0..12_000) };
            let mut sheet = Sheet::new(gate, format!("reader {n}"));
            sheet.template = ["digest.v1", "nudge.v2"][self.rng.usize(..2)];
            match self.rng.u8(..12) {
                0 => sheet.not_before = Some(at + self.within(30..4_000)),
                1 | 2 => sheet.expires = Some(at + self.within(10..6_000)),
                3 if gate != "resend" => sheet.nature = Nature::Gone,
                3 => sheet.nature = Nature::Unwanted,
                _ => {}
            }
            self.add(at, sheet);
        }
    }

    /// One that waits alone while its provider is down for hours.
    fn lonely(&mut self) {
        let downs: Vec<Spell> = self.spells.iter().filter(|s| s.trouble == Trouble::Down).copied().collect();
        for spell in downs {
            if spell.gate == "other" || self.rng.bool() {
                let at = spell.from + self.within(1..1_200);
                self.add(at, Sheet::new(spell.gate, "lonely".to_owned()));
            }
        }
    }

    /// Readers unsubscribe and come back, and the app writes what nobody can read.
    fn life_of_the_app(&mut self) {
        for n in 0..self.sheets.len() {
            if self.rng.u8(..10) > 0 {
                continue;
            }
            let gone = self.sheets[n].added + self.within(0..1_500);
            let back = self.rng.bool().then(|| gone + self.within(5..600));
            self.sheets[n].withdrawn = Some((gone, back));
            self.acts.push((gone, Act::Withdraw(n)));
            self.acts.extend(back.map(|back| (back, Act::Restore(n))));
        }
        for kind in 0..5 {
            if self.rng.bool() {
                let at = self.within(0..12_000);
                self.acts.push((at, Act::Junk(kind)));
            }
        }
    }

    fn number(&mut self) {
        for (n, sheet) in self.sheets.iter_mut().enumerate() {
            sheet.id = format!("e{n}");
        }
    }

    fn clears(&self) -> Duration {
        let spells = self.spells.iter().map(|spell| spell.to);
        let seam = self.seam_spells.iter().map(|(_, to)| *to);
        let acts = self.acts.iter().map(|(at, _)| *at + secs(600));
        spells.chain(seam).chain(acts).max().unwrap_or_default()
    }

    /// Everything is drawn before the first moment, so that no timing changes what is to come.
    fn sky(&mut self) -> Sky {
        let mut sky = Sky::new(self.rng.fork());
        sky.clears = self.clears();
        sky.scatter = if self.is_quiet { 20 } else { self.rng.u32(50..400) };
        sky.spells = std::mem::take(&mut self.spells);
        sky.seam_spells = std::mem::take(&mut self.seam_spells);
        sky.natures = self.sheets.iter().map(|sheet| (sheet.id.clone(), sheet.nature)).collect();
        sky
    }

    fn setup(&mut self, seed: u64) -> Setup {
        let workers = self.rng.usize(1..6);
        let mail =
            if self.rng.u8(..3) == 0 { Setup::email_at(fixed(2), workers) } else { Setup::email(workers) };
        let push_workers = self.rng.usize(2..8);
        let mut setup = mail.and("push", Gating::ManyProviders, push_workers).seed(seed);
        setup.settings.page_limit = [20, 50, 500][self.rng.usize(..3)];
        setup.settings.poll_interval = secs([10, 30, 60][self.rng.usize(..3)]);
        setup
    }
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
    }
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
    let unfinished = stage.finish(&script.sheets, clears).await;
    stage.count_spells();
    let Stage { world, sky, steps, lives, probed, .. } = stage;
    let sky = sky.lock().unwrap();
    let (faults, longest_asked) = (sky.counts.clone(), sky.longest_asked);
    let steps = steps.lock().unwrap().clone();
    let (sheets, ended) = (script.sheets, world.at());
    Played { world, sheets, lives, clears, ended, longest_asked, probed, faults, steps, unfinished }
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
    async fn finish(&mut self, sheets: &[Sheet], clears: Duration) -> Option<String> {
        let limit = clears + AFTERMATH;
        loop {
            let left = self.left(sheets);
            match left {
                None if self.world.at() >= AT_LEAST.max(clears) => break,
                Some(left) if self.world.at() > limit => return Some(left),
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
