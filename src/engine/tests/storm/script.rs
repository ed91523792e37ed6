//! What a seed draws: who is written to when, what breaks when. It must not know how it is played.

use std::ops::Range;
use std::time::Duration;

use super::faults::{Nature, Sky, Spell, Trouble};
use crate::channel::Gating;
use crate::channel::confirm::Fate;
use crate::engine::tests::outbox::{Draft, mail, push};
use crate::engine::tests::world::{Setup, fixed, secs};

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
    /// So many of its first acks fail.
    pub(super) acks_fail: u32,
    /// What becomes of it once it is accepted, and how long after that is known.
    pub(super) fate: (Duration, Fate),
    /// Its first attempt takes so long that the deadline ends it.
    pub(super) hangs: bool,
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
            acks_fail: 0,
            fate: (Duration::ZERO, Fate::Delivered),
            hangs: false,
            withdrawn: None,
        }
    }

    /// A mail that is written after everything else.
    pub(super) fn late(number: usize, at: Duration) -> Sheet {
        Sheet { id: format!("e{number}"), added: at, ..Sheet::new("resend", "late".to_owned()) }
    }

    pub(super) fn is_mail(&self) -> bool {
        self.gate == "resend"
    }

    pub(super) fn draft(&self) -> Draft {
        let draft = if self.is_mail() { mail(&*self.id) } else { push(&*self.id, self.gate) };
        let draft = draft.to(&self.to).template(self.template);
        let draft = self.not_before.map_or(draft.clone(), |at| draft.not_before(at));
        self.expires.map_or(draft.clone(), |at| draft.expires(at))
    }
}

/// What happens besides what requests meet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
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

/// A history to be.
pub(super) struct Script {
    pub(super) rng: fastrand::Rng,
    pub(super) sheets: Vec<Sheet>,
    pub(super) acts: Vec<(Duration, Act)>,
    spells: Vec<Spell>,
    seam_spells: Vec<(Duration, Duration)>,
    ack_spells: Vec<(Duration, Duration)>,
    is_long: bool,
    is_quiet: bool,
}

impl Script {
    pub(super) fn of(seed: u64) -> Script {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (is_long, is_quiet) = (rng.u8(..8) == 0, rng.u8(..3) == 0);
        let (sheets, acts) = (Vec::new(), Vec::new());
        let (spells, seam_spells, ack_spells) = (Vec::new(), Vec::new(), Vec::new());
        let mut script = Script { rng, sheets, acts, spells, seam_spells, ack_spells, is_long, is_quiet };
        script.breakages();
        script.records();
        script.singles();
        script.lonely();
        script.unlisted_in_a_send();
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
            // The provider takes some of these as it goes down, and has forgotten them when it is back.
            for n in 0..3 {
                let due = from + self.within(0..60);
                self.add_due("resend", format!("patient {n}"), due);
            }
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
        if self.rng.u8(..3) == 0 {
            self.ack_spell();
        }
        if self.rng.u8(..4) > 0 {
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
        // Some are on their way already as it begins, and others wait.
        for n in 0..self.rng.usize(2..7) {
            let due = if n % 2 == 0 { from - self.within(1..6) } else { from + self.within(0..3) };
            self.add_due("resend", format!("early {n}"), due);
        }
    }

    /// Pages come, acks do not get through, and there is more to be sent.
    fn ack_spell(&mut self) {
        let (from, length) = (self.within(300..12_000), self.within(120..1_200));
        self.ack_spells.push((from, from + length));
        for n in 0..8 {
            let gate = ["resend", SERVICES[n % 3]][n % 2];
            let due = from + self.within(1..100);
            self.add_due(gate, format!("unheard {n}"), due);
        }
    }

    /// One that is listed well before it is due, so that it is sent at that very moment.
    fn add_due(&mut self, gate: &'static str, to: String, due: Duration) -> usize {
        let sheet = Sheet { not_before: Some(due), ..Sheet::new(gate, to) };
        self.add(due.saturating_sub(secs(180)), sheet);
        self.sheets.len() - 1
    }

    /// One whose reader unsubscribes just as a long attempt at it has begun.
    fn unlisted_in_a_send(&mut self) {
        if self.rng.bool() {
            let due = self.within(200..5_000);
            let gate = ["resend", "fcm"][self.rng.usize(..2)];
            let n = self.add_due(gate, "hesitant".to_owned(), due);
            self.sheets[n].hangs = true;
            self.sheets[n].withdrawn = Some((due + secs(1), None));
            self.acts.push((due + secs(1), Act::Withdraw(n)));
        }
    }

    /// An origin that refuses everybody is told from one bad subscription by several refusals.
    fn burst(&mut self, gate: &'static str, from: Duration) {
        for n in 0..3 {
            let at = from + self.within(0..20);
            self.add(at, Sheet::new(gate, format!("{gate} reader {n}")));
        }
    }

    /// Three records of three or four, each close together, one with a member that is not yet due. Where the
    /// oldest comes to nothing, the others wait until the seam knows.
    fn records(&mut self) {
        for record in 0..3 {
            let gate =
                [["resend", "fcm", "mozilla"][record], SERVICES[self.rng.usize(..3)]][self.rng.usize(..2)];
            let mut at = self.within(0..9_000);
            for n in 0..self.rng.usize(3..5) {
                at += self.within(0..60);
                let not_before = (n == 1 && self.rng.bool()).then(|| at + self.within(30..2_000));
                let mut sheet = Sheet { not_before, ..Sheet::new(gate, format!("record {record}")) };
                if n == 0 && self.rng.bool() {
                    let unwanted = gate == "resend" && self.rng.u8(..4) == 0;
                    sheet.nature = if unwanted { Nature::Unwanted } else { Nature::Gone };
                    sheet.acks_fail = self.rng.u32(2..8);
                }
                self.add(at, sheet);
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
            if self.rng.u8(..10) > 0 || self.sheets[n].withdrawn.is_some() {
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
            let fates = [Fate::Bounced, Fate::Complained, Fate::Suppressed, Fate::Failed, Fate::Open];
            let fate = fates.get(self.rng.usize(..12)).copied().unwrap_or(Fate::Delivered);
            let soon = self.rng.bool();
            sheet.fate = (secs(self.rng.u64(..if soon { 20 } else { 1_200 })), fate);
        }
    }

    fn clears(&self) -> Duration {
        let spells = self.spells.iter().map(|spell| spell.to);
        let seam = self.seam_spells.iter().chain(&self.ack_spells).map(|(_, to)| *to);
        let acts = self.acts.iter().map(|(at, _)| *at + secs(600));
        spells.chain(seam).chain(acts).max().unwrap_or_default()
    }

    /// Everything is drawn before the first moment, so that no timing changes what is to come.
    pub(super) fn sky(&mut self) -> Sky {
        let mut sky = Sky::new(self.rng.fork());
        sky.clears = self.clears();
        sky.scatter = if self.is_quiet { 20 } else { self.rng.u32(50..400) };
        sky.spells = std::mem::take(&mut self.spells);
        sky.seam_spells = std::mem::take(&mut self.seam_spells);
        sky.ack_spells = std::mem::take(&mut self.ack_spells);
        let failing = self.sheets.iter().filter(|sheet| sheet.acks_fail > 0);
        sky.acks_fail = failing.map(|sheet| (sheet.id.clone(), sheet.acks_fail)).collect();
        let hanging = self.sheets.iter().filter(|sheet| sheet.hangs);
        sky.hanging = hanging.map(|sheet| sheet.id.clone()).collect();
        sky.only_sends = self.rng.u8(..8) == 0;
        sky.natures = self.sheets.iter().map(|sheet| (sheet.id.clone(), sheet.nature)).collect();
        sky
    }

    pub(super) fn setup(&mut self, seed: u64) -> Setup {
        let workers = self.rng.usize(1..6);
        let mail =
            if self.rng.u8(..3) == 0 { Setup::email_at(fixed(2), workers) } else { Setup::email(workers) };
        let push_workers = self.rng.usize(2..8);
        let mut setup = mail.and("push", Gating::ManyProviders, push_workers).seed(seed);
        setup.settings.page_limit = [20, 50, 500][self.rng.usize(..3)];
        setup.settings.poll_interval = secs([10, 30, 60][self.rng.usize(..3)]);
        // Half of the histories take the provider's yes for its last word.
        match self.rng.bool() {
            true => setup.confirming(secs([60, 600, 1_200][self.rng.usize(..3)])),
            false => setup,
        }
    }
}
