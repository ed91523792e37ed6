//! What can go wrong, how often it did, and the sky that every request's fate is drawn from.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::channel::Attempt;
use crate::channel::confirm::Said;
use crate::engine::tests::carrier::{Answer, Call};
use crate::engine::tests::outbox::{Asked, Fault};
use crate::engine::tests::world::secs;
use crate::outbox::SeamError;
use crate::outcome::{Cause, Detail, Outcome};

/// An enum of things that are counted.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($kind:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::engine::tests::storm) enum $name { $($kind),+ }

        impl $name {
            pub(in crate::engine::tests::storm) const ALL: &[$name] = &[$($name::$kind),+];
        }
    };
}
pub(super) use counted;

counted! {
    /// Every kind of fault.
    Kind {
        Timeout, TakenThenTimeout, Reset, TakenThenReset, ConnectionRefused, NameUnresolved, ServerError,
        TakenThenServerError, BadGateway, Unavailable, RetryAfter, GatewayTimeout, UnreadableAnswer, Dropped,
        ResourceLocked, ConcurrentRequest, UnexpectedAnswer, RateLimited, DestinationRateLimited,
        CredentialRefused, EndpointBlocked, Panic, TakenThenPanic, Refused, Gone, SlowAnswer,
        DownForHours, DownForADay, DownForOne, ApiKeyRefused, QuotaUsedUp, SettingsRefused,
        CredentialRefusedByAll, BlockedForAll,
        PageLost, PageRefused, PageLate, PageStale, PageDoubled, AckRefused, AckRefusedForGood, AckLost,
        AckUnknown, AckLate, SeamOutage, TokenRefused,
        Withdrawn, WithdrawnAndBack, Crash, CrashInASend, CrashInAnAck, ClockAhead, ClockBehind,
        ClockALittleOff, GatesProbed, QuestionFailed, QuestionRateLimited, QuestionRefused, Unnamed, Malformed, OtherVersion, UnknownChannel, Misplaced,
    }
}

/// How often each of `ALL` happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counts(Vec<u64>);

impl Counts {
    pub(super) fn of(kinds: usize) -> Counts {
        Counts(vec![0; kinds])
    }

    pub(super) fn add(&mut self, kind: usize) {
        self.0[kind] += 1;
    }

    pub(super) fn merge(&mut self, other: &Counts) {
        self.0.iter_mut().zip(&other.0).for_each(|(all, more)| *all += more);
    }

    pub(super) fn get(&self, kind: usize) -> u64 {
        self.0[kind]
    }
}

/// What an envelope comes to when nothing goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// It is accepted.
    Fine,
    /// The provider refuses what it holds.
    Unwanted,
    /// Its recipient is gone.
    Gone,
}

/// What is wrong with a provider for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Down,
    ApiKey,
    Quota,
    Settings,
    Credential,
    Blocked,
}

/// A while in which a provider does not work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spell {
    pub(super) gate: &'static str,
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) trouble: Trouble,
}

/// A provider that goes down takes with it what it took in this time.
const GOING_DOWN: Duration = Duration::from_secs(90);
/// What is on its way as a provider's trouble begins may be answered long after.
const STILL_ANSWERED: Duration = Duration::from_secs(8);
/// Every attempt ends by its deadline.
const DEADLINE: Duration = Duration::from_secs(15);
/// Scattered faults that cost an attempt come to an envelope no more often than this: with the beginnings
/// of outages they must not add up to eight.
const COSTLY_LIMIT: u32 = 3;
/// A page shows at most so old a state.
pub(super) const STALE_AT_MOST: Duration = Duration::from_secs(30);

/// What the requests of one history meet.
#[derive(Debug)]
pub(super) struct Sky {
    pub(super) rng: fastrand::Rng,
    pub(super) counts: Counts,
    /// From here on all is well.
    pub(super) clears: Duration,
    pub(super) spells: Vec<Spell>,
    pub(super) seam_spells: Vec<(Duration, Duration)>,
    /// While one lasts no ack gets through.
    pub(super) ack_spells: Vec<(Duration, Duration)>,
    /// How many more acks of an envelope fail.
    pub(super) acks_fail: HashMap<String, u32>,
    /// Whose next attempt takes until its deadline.
    pub(super) hanging: HashSet<String>,
    pub(super) natures: HashMap<String, Nature>,
    /// Whether its key may send alone.
    pub(super) only_sends: bool,
    /// Of a thousand requests outside of spells, so many meet a fault.
    pub(super) scatter: u32,
    /// When the process was started: no page shows what is older.
    pub(super) life: Duration,
    /// The longest wait that a provider has asked for.
    pub(super) longest_asked: Duration,
    costly: HashMap<String, u32>,
    once: HashMap<(String, Kind), ()>,
}

impl std::hash::Hash for Kind {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (*self as usize).hash(state);
    }
}

impl Sky {
    pub(super) fn new(rng: fastrand::Rng) -> Sky {
        Sky {
            rng,
            counts: Counts::of(Kind::ALL.len()),
            clears: Duration::ZERO,
            spells: Vec::new(),
            seam_spells: Vec::new(),
            ack_spells: Vec::new(),
            acks_fail: HashMap::new(),
            hanging: HashSet::new(),
            natures: HashMap::new(),
            only_sends: false,
            scatter: 0,
            life: Duration::ZERO,
            longest_asked: Duration::ZERO,
            costly: HashMap::new(),
            once: HashMap::new(),
        }
    }

    pub(super) fn count(&mut self, kind: Kind) {
        self.counts.add(kind as usize);
    }

    fn told(&mut self, kind: Kind, answer: Answer) -> Answer {
        self.count(kind);
        answer
    }

    /// Whether this comes to this id for the first time.
    fn first(&mut self, id: &str, kind: Kind) -> bool {
        self.once.insert((id.to_owned(), kind), ()).is_none()
    }

    fn asked(&mut self, most: u64) -> Duration {
        let wait = secs(self.rng.u64(1..most));
        self.longest_asked = self.longest_asked.max(wait);
        wait
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(5..most))
    }

    /// What an attempt comes to.
    pub(super) fn answer(&mut self, call: &Call<'_>) -> Answer {
        if self.hanging.remove(call.id) {
            return self.told(Kind::Timeout, Answer::timeout().after(DEADLINE));
        }
        let spell = self.spells.iter().find(|s| s.gate == call.gate && (s.from..s.to).contains(&call.at));
        let slow = call.at < self.clears && self.rng.u8(..20) == 0;
        if self.is_overtaken(call) {
            self.count(Kind::SlowAnswer);
            let after = secs(8) + self.millis(6_000);
            return self.by_nature(call.id).after(after);
        }
        let answer = match spell.copied() {
            Some(spell) => self.in_spell(spell, call),
            None if call.at < self.clears && self.rng.u32(..1000) < self.scatter => self.scattered(call),
            None => None,
        };
        let answer = answer.unwrap_or_else(|| self.by_nature(call.id));
        if slow {
            self.count(Kind::SlowAnswer);
        }
        let after = self.millis(if slow { 14_000 } else { 1_500 });
        answer.after(after)
    }

    /// What is said in the place of the truth about accepted mails.
    pub(super) fn said(&mut self, at: Duration) -> Option<Said> {
        let down =
            self.spells.iter().any(|spell| spell.gate == "resend" && (spell.from..spell.to).contains(&at));
        let scattered = at < self.clears && self.rng.u32(..1000) < self.scatter;
        if self.only_sends {
            self.count(Kind::QuestionRefused);
            return Some(Said::MayNot);
        }
        if down || (scattered && self.rng.bool()) {
            self.count(Kind::QuestionFailed);
            return Some(Said::Nothing(Cause::ServerError));
        }
        scattered.then(|| {
            self.count(Kind::QuestionRateLimited);
            Said::Later { after: Some(self.asked(60)) }
        })
    }

    /// Whether its provider refuses everybody before this is answered.
    fn is_overtaken(&self, call: &Call<'_>) -> bool {
        let begins = |s: &Spell| s.from.saturating_sub(STILL_ANSWERED)..s.from;
        let overtakes = |s: &Spell| s.trouble != Trouble::Down && begins(s).contains(&call.at);
        self.spells.iter().any(|spell| spell.gate == call.gate && overtakes(spell))
    }

    fn by_nature(&mut self, id: &str) -> Answer {
        match self.natures.get(id) {
            None | Some(Nature::Fine) => Answer::accepted(),
            Some(Nature::Gone) => self.told(Kind::Gone, Answer::gone()),
            Some(Nature::Unwanted) => {
                let detail = Detail::scrub(&format!("its {id} is not wanted"), &[]);
                let attempt = Attempt::answered(Outcome::Failed, Cause::Refused, detail);
                self.told(Kind::Refused, Answer::exactly(attempt))
            }
        }
    }

    fn in_spell(&mut self, spell: Spell, call: &Call<'_>) -> Option<Answer> {
        Some(match spell.trouble {
            Trouble::Down => {
                let taken = call.at < spell.from + GOING_DOWN && self.rng.bool();
                match self.rng.u8(..6) {
                    _ if taken => self.told(Kind::TakenThenTimeout, Answer::timeout().though_taken()),
                    0 => self.told(Kind::Timeout, Answer::timeout()),
                    1 => self.told(Kind::ConnectionRefused, Answer::connection_refused()),
                    2 => self.told(Kind::NameUnresolved, unresolved()),
                    3 => self.told(Kind::BadGateway, unclear(Cause::BadGateway)),
                    4 => self.told(Kind::GatewayTimeout, unclear(Cause::GatewayTimeout)),
                    _ => self.told(Kind::Unavailable, Answer::unavailable()),
                }
            }
            Trouble::ApiKey => self.told(Kind::ApiKeyRefused, Answer::pause(Cause::ApiKey)),
            Trouble::Quota => {
                self.longest_asked = self.longest_asked.max(secs(3600));
                let cause = if spell.from.as_secs().is_multiple_of(2) {
                    Cause::QuotaDaily
                } else {
                    Cause::QuotaMonthly
                };
                self.told(Kind::QuotaUsedUp, Answer::pause(cause))
            }
            Trouble::Settings => {
                self.told(Kind::SettingsRefused, Answer::refused("its reply_to is nonsense"))
            }
            Trouble::Credential => self
                .told(Kind::CredentialRefusedByAll, Answer::pause_destination(Cause::PushCredential, None)),
            Trouble::Blocked => {
                self.told(Kind::BlockedForAll, Answer::pause_destination(Cause::EndpointBlocked, None))
            }
        })
    }

    fn scattered(&mut self, call: &Call<'_>) -> Option<Answer> {
        let mail = call.gate == "resend";
        let costly = self.costly.entry(call.id.to_owned()).or_default();
        if *costly >= COSTLY_LIMIT || self.rng.u8(..4) == 0 {
            return self.free(mail);
        }
        *costly += 1;
        let taken = |answer: Answer| answer.though_taken();
        Some(match self.rng.u8(..18) {
            0 => self.told(Kind::Timeout, Answer::timeout()),
            1 => self.told(Kind::TakenThenTimeout, taken(Answer::timeout())),
            2 => self.told(Kind::Reset, cut()),
            3 => self.told(Kind::TakenThenReset, taken(cut())),
            4 => self.told(Kind::ConnectionRefused, Answer::connection_refused()),
            5 => self.told(Kind::NameUnresolved, unresolved()),
            6 => self.told(Kind::ServerError, Answer::server_error()),
            7 => self.told(Kind::TakenThenServerError, taken(Answer::server_error())),
            8 => self.told(Kind::BadGateway, unclear(Cause::BadGateway)),
            9 => self.told(Kind::GatewayTimeout, unclear(Cause::GatewayTimeout)),
            10 => {
                let wait = self.asked(600);
                self.told(Kind::RetryAfter, Answer::unavailable_for(wait))
            }
            11 => self.told(Kind::UnreadableAnswer, taken(unclear(Cause::UnreadableAnswer))),
            12 => self.told(Kind::Panic, Answer::panic()),
            13 => self.told(Kind::TakenThenPanic, taken(Answer::panic())),
            14 if self.first(call.id, Kind::UnexpectedAnswer) => {
                self.told(Kind::UnexpectedAnswer, retry(Cause::UnexpectedAnswer))
            }
            15 | 17 if mail => self.told(Kind::ResourceLocked, retry(Cause::ResourceLocked)),
            15 | 17 => self.told(Kind::Dropped, retry(Cause::Dropped)),
            16 if !mail => {
                self.told(Kind::CredentialRefused, Answer::pause_destination(Cause::PushCredential, None))
            }
            _ => self.told(Kind::Unavailable, Answer::unavailable()),
        })
    }

    /// What costs the envelope nothing.
    fn free(&mut self, mail: bool) -> Option<Answer> {
        Some(match (mail, self.rng.u8(..4)) {
            (true, 0) => {
                let wait = self.asked(30);
                self.told(Kind::RateLimited, Answer::slow_down(wait))
            }
            (true, 1) => self.told(Kind::ConcurrentRequest, Answer::busy_for(secs(2))),
            (false, 0) => {
                let wait = self.asked(600);
                let answer = Answer::pause_destination(Cause::RateLimited, Some(wait));
                self.told(Kind::DestinationRateLimited, answer)
            }
            (false, 1) => {
                self.told(Kind::EndpointBlocked, Answer::pause_destination(Cause::EndpointBlocked, None))
            }
            _ => return None,
        })
    }

    /// What becomes of a request to the seam.
    pub(super) fn seam(&mut self, asked: Asked<'_>, at: Duration) -> Fault {
        let spell = self.seam_spells.iter().find(|(from, to)| (*from..*to).contains(&at)).copied();
        if let Some((from, _)) = spell {
            let (kind, error) = match from.as_secs() % 3 {
                0 => (Kind::TokenRefused, SeamError::TokenRefused),
                1 => (Kind::SeamOutage, SeamError::NotReady),
                _ => (Kind::SeamOutage, SeamError::Unreachable(Cause::Connect)),
            };
            self.count(kind);
            return Fault::Error(error);
        }
        if let Asked::Ack(id) = asked
            && self.fails_in_any_case(id, at)
        {
            self.count(Kind::AckRefused);
            return Fault::Error(SeamError::Status(500));
        }
        let goes_wrong = at < self.clears && self.rng.u32(..1000) < self.scatter;
        match asked {
            Asked::Page if goes_wrong => self.page_fault(at),
            Asked::Page => Fault::None,
            Asked::Ack(id) if goes_wrong => self.ack_fault(id),
            Asked::Ack(_) => Fault::Late(self.millis(300)),
        }
    }

    fn fails_in_any_case(&mut self, id: &str, at: Duration) -> bool {
        if self.ack_spells.iter().any(|(from, to)| (*from..*to).contains(&at)) {
            return true;
        }
        let left = self.acks_fail.get_mut(id).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }

    fn page_fault(&mut self, at: Duration) -> Fault {
        let (kind, fault) = match self.rng.u8(..5) {
            0 => (Kind::PageRefused, Fault::Error(SeamError::Status(500))),
            1 => (Kind::PageLost, Fault::AnswerLost),
            2 => (Kind::PageLate, Fault::Late(self.millis(9_000))),
            3 => (Kind::PageDoubled, Fault::Doubled),
            _ => {
                let lag = Duration::from_millis(self.rng.u64(..STALE_AT_MOST.as_millis() as u64));
                (Kind::PageStale, Fault::Stale(lag.min(at.saturating_sub(self.life))))
            }
        };
        self.count(kind);
        fault
    }

    fn ack_fault(&mut self, id: &str) -> Fault {
        let (kind, fault) = match self.rng.u8(..5) {
            0 => (Kind::AckLost, Fault::AnswerLost),
            1 => (Kind::AckLate, Fault::Late(self.millis(9_000))),
            2 if self.first(id, Kind::AckRefusedForGood) => {
                (Kind::AckRefusedForGood, Fault::Error(SeamError::Refused(404)))
            }
            3 if self.first(id, Kind::AckUnknown) => (Kind::AckUnknown, Fault::Unknown),
            _ => (Kind::AckRefused, Fault::Error(SeamError::Status(500))),
        };
        self.count(kind);
        fault
    }
}

fn retry(cause: Cause) -> Answer {
    Answer::exactly(Attempt::answered(Outcome::Retry { after: None }, cause, Detail::default()))
}

fn unclear(cause: Cause) -> Answer {
    Answer::exactly(Attempt::answered(Outcome::Unclear { after: None }, cause, Detail::default()))
}

fn cut() -> Answer {
    let outcome = Outcome::Unclear { after: None };
    Answer::exactly(Attempt::unanswered(outcome, Cause::Reset, Detail::default()))
}

fn unresolved() -> Answer {
    let outcome = Outcome::Retry { after: None };
    Answer::exactly(Attempt::unanswered(outcome, Cause::Dns, Detail::default()))
}
