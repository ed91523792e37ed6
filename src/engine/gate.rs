//! One provider's gate: whether an attempt may begin now, and what answers do to that.
//!
//! Owns rate, holds, closing, probing and the slow reopening. Pure: clock and randomness are arguments.
//! It must not know a lease, a provider's words or how many gates there are.

use std::time::{Duration, Instant};

use self::probes::{Kind, Probes};
use super::retry::{Schedule, spread_asked};
use crate::channel::{Attempt, Destination, Gating, Pace, Rate};
use crate::clock::{Moment, Now};
use crate::envelope::EnvelopeId;
use crate::outcome::{Cause, Detail, Outcome, Scope, Streak};

mod probes;
#[cfg(test)]
mod tests;

/// Like troubles from this many different suspects, with no success between, are the provider's.
const STREAK_LIMIT: usize = 3;
/// A rate limit without a wait of its own.
const SHORTEST_HOLD: Duration = Duration::from_secs(1);
/// The share of a provider's stated rate that is used, so that clocks that differ a little do not matter.
const RATE_SHARE: f64 = 0.8;

/// Whether an attempt may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Now.
    Now,
    /// Not before this instant.
    At(Instant),
    /// Closed, and this is the instant of its next probe; `None` while one is on its way.
    Probe(Option<Instant>),
    /// When one of those on their way ends.
    Full,
}

/// Leave for one attempt, to be handed back with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Ticket {
    closings: u64,
    probe: bool,
}

/// Who an attempt was for: a run of troubles counts different ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// The envelope.
    pub id: EnvelopeId,
    /// Where it goes.
    pub destination: Destination,
}

/// What an answer did to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It closed, until a probe at the earliest after `probe_in`.
    Closed {
        /// Why.
        cause: Cause,
        /// Until its first probe.
        probe_in: Duration,
    },
    /// It opened again.
    Opened {
        /// How long it was closed.
        closed_for: Duration,
    },
}

#[derive(Debug)]
struct Closed {
    cause: Cause,
    since: Instant,
    probes: Probes,
    next_probe: Instant,
    probing: bool,
}

#[derive(Debug)]
struct Run {
    streak: Streak,
    reason: (Cause, Detail),
    suspects: Vec<Suspect>,
}

/// The state of one provider's gate.
#[derive(Debug)]
pub struct Gate {
    gating: Gating,
    workers: usize,
    outage: Schedule,
    spacing: Option<Duration>,
    next_slot: Option<Instant>,
    held_until: Option<Instant>,
    closed: Option<Closed>,
    closings: u64,
    ramp: Option<usize>,
    in_flight: usize,
    runs: Vec<Run>,
    passed: u64,
    accepted: bool,
}

impl Gate {
    /// An open gate of a lane with `workers` workers. `outage` is the schedule of probes while the
    /// provider is down.
    pub fn new(gating: Gating, workers: usize, outage: Schedule) -> Gate {
        let spacing = match gating {
            Gating::OneProvider(Rate::Fixed(rate) | Rate::Follow { start: rate }) => {
                Some(Duration::from_secs(1) / rate.get())
            }
            Gating::OneProvider(Rate::Unlimited) | Gating::ManyProviders => None,
        };
        Gate {
            gating,
            workers,
            outage,
            spacing,
            next_slot: None,
            held_until: None,
            closed: None,
            closings: 0,
            ramp: None,
            in_flight: 0,
            runs: Vec::new(),
            passed: 0,
            accepted: false,
        }
    }

    /// Whether an attempt may begin now.
    pub fn admits(&self, now: Now) -> Admission {
        if let Some(closed) = &self.closed {
            return Admission::Probe((!closed.probing).then_some(closed.next_probe));
        }
        let wait = self.held_until.into_iter().chain(self.next_slot).max().filter(|until| *until > now.mono);
        match wait {
            _ if self.in_flight >= self.capacity() => Admission::Full,
            Some(until) => Admission::At(until),
            None => Admission::Now,
        }
    }

    /// A lane of several providers keeps its last worker for the others. A closed gate need not ask: whoever
    /// closed it has left a place for the probe.
    fn capacity(&self) -> usize {
        let share = match self.gating {
            Gating::ManyProviders if self.workers > 1 => self.workers - 1,
            Gating::ManyProviders | Gating::OneProvider(_) => self.workers,
        };
        self.ramp.unwrap_or(share).min(share)
    }

    /// An attempt begins: a probe if the gate is closed.
    pub fn begin(&mut self, now: Now) -> Ticket {
        self.in_flight += 1;
        self.take_slot(now);
        if let Some(closed) = &mut self.closed {
            closed.probing = true;
        }
        Ticket { closings: self.closings, probe: self.closed.is_some() }
    }

    fn take_slot(&mut self, now: Now) {
        if let Some(spacing) = self.spacing {
            self.next_slot = Some(self.next_slot.map_or(now.mono, |slot| slot.max(now.mono)) + spacing);
        }
    }

    /// An attempt ended without being one: its place, and a probe's slot, are free again.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let (true, Some(closed)) = (self.is_current_probe(ticket), &mut self.closed) {
            closed.probing = false;
        }
    }

    /// A question begins, which is no attempt: it shares the rate, and takes nobody's place. One that hangs holds
    /// up no send.
    pub fn ask(&mut self, now: Now) {
        self.take_slot(now);
    }

    /// A question was answered. `hold`: not before it is over again, and nothing else either.
    pub fn answered(&mut self, pace: Option<Pace>, hold: Option<Duration>, at: Moment) {
        self.learn(pace);
        if let Some(wait) = hold {
            self.hold(wait, at);
        }
    }

    fn is_current_probe(&self, ticket: Ticket) -> bool {
        ticket.probe && ticket.closings == self.closings
    }

    /// The run of troubles that has closed the gate, if this attempt is its probe.
    pub fn probed_streak(&self, ticket: Ticket) -> Option<Streak> {
        let closed = self.closed.as_ref().filter(|_| self.is_current_probe(ticket))?;
        closed.cause.streak()
    }

    /// An attempt ended.
    ///
    /// Answers to attempts that began before the gate last closed change nothing but its counts.
    pub fn end(&mut self, ticket: Ticket, attempt: &Attempt, who: &Suspect, at: Moment) -> Option<Change> {
        self.in_flight = self.in_flight.saturating_sub(1);
        let delivered = attempt.outcome.is_acceptance();
        let terminal = attempt.answered && (delivered || attempt.outcome.ack_status().is_some());
        self.passed += u64::from(terminal);
        self.accepted |= delivered;
        self.learn(attempt.pace);
        if ticket.closings != self.closings {
            return None;
        }
        let trouble = self.trouble(attempt, who);
        if self.closed.is_some() {
            return self.probed(attempt, trouble, at);
        }
        match trouble {
            Trouble::None if delivered => {
                self.runs.clear();
                self.ramp = self.ramp.map(|n| n * 2).filter(|n| *n < self.workers);
                None
            }
            Trouble::None => None,
            Trouble::Hold => {
                self.hold(attempt.outcome.asked().unwrap_or_default(), at);
                None
            }
            Trouble::Close => Some(self.close(attempt, at)),
        }
    }

    /// Every closed gate may probe at once: the operator says that something was mended.
    pub fn probe_now(&mut self, now: Now) {
        if let Some(closed) = &mut self.closed {
            closed.next_probe = now.mono;
            closed.probes = Probes::default();
        }
    }

    /// Whether `end` with this attempt would close the gate although the attempt alone is its message's own
    /// affair: messages refused alike, one after the other, are the sender's settings, not each one's fault.
    pub fn is_refusal_run(&self, attempt: &Attempt, who: &Suspect) -> bool {
        let streak = attempt.cause.streak().filter(|streak| self.gating.counts(*streak));
        if !attempt.answered || !matches!(streak, Some(Streak::Refusal | Streak::Unexpected)) {
            return false;
        }
        // What the run has closed a further answer alike does not open, whoever it is for.
        let closed_by_it = self.closed.as_ref().is_some_and(|closed| closed.cause == Cause::SenderSettings);
        let is_full = |run: &Run| closed_by_it || run.with(who, self.gating) >= STREAK_LIMIT;
        self.runs.iter().any(|run| run.is_like(attempt) && is_full(run))
    }

    /// What the attempt says of the provider, counted into the runs.
    fn trouble(&mut self, attempt: &Attempt, who: &Suspect) -> Trouble {
        let streak = attempt.cause.streak().filter(|streak| self.gating.counts(*streak));
        if attempt.answered && streak != Some(Streak::Outage) {
            self.runs.retain(|run| run.streak != Streak::Outage);
        }
        let run_is_full = streak.is_some_and(|streak| self.count(streak, attempt, who) >= STREAK_LIMIT);
        match &attempt.outcome {
            Outcome::Delivered { .. }
            | Outcome::Accepted { .. }
            | Outcome::Bounced
            | Outcome::Complained
            | Outcome::Suppressed => Trouble::None,
            Outcome::Pause { scope: Scope::Provider, .. } if attempt.cause == Cause::RateLimited => {
                Trouble::Hold
            }
            Outcome::Pause { scope: Scope::Provider, .. } => Trouble::Close,
            _ if run_is_full && attempt.cause == Cause::RateLimited => Trouble::Hold,
            _ if run_is_full => Trouble::Close,
            Outcome::Failed | Outcome::Retry { .. } | Outcome::Unclear { .. } | Outcome::Pause { .. } => {
                Trouble::None
            }
        }
    }

    fn count(&mut self, streak: Streak, attempt: &Attempt, who: &Suspect) -> usize {
        let gating = self.gating;
        let alike = match self.runs.iter_mut().position(|run| run.is_like(attempt)) {
            Some(index) => self.runs.get_mut(index),
            None => {
                self.runs.retain(|run| run.streak != streak);
                let reason = (attempt.cause, attempt.detail.clone());
                self.runs.push(Run { streak, reason, suspects: Vec::new() });
                self.runs.last_mut()
            }
        };
        let Some(run) = alike else { return 0 };
        let count = run.with(who, gating);
        if count > run.suspects.len() && count <= STREAK_LIMIT {
            run.suspects.push(who.clone());
        }
        count
    }

    fn probed(&mut self, attempt: &Attempt, trouble: Trouble, at: Moment) -> Option<Change> {
        let outage = attempt.cause.streak() == Some(Streak::Outage);
        let paused = matches!(attempt.outcome, Outcome::Pause { .. }) || trouble == Trouble::Close;
        let closed = self.closed.as_mut()?;
        closed.probing = false;
        if outage || paused {
            // One destination's trouble and a rate limit are no answer to what the gate is closed for.
            let kind = match trouble == Trouble::Close || outage {
                true => Kind::of(attempt.cause),
                false => Kind::Aside,
            };
            if kind != Kind::Aside {
                closed.cause = attempt.cause;
            }
            let asked = match attempt.outcome {
                Outcome::Pause { scope: Scope::Destination, .. } if trouble == Trouble::None => {
                    Duration::ZERO
                }
                _ => attempt.outcome.asked().unwrap_or_default(),
            };
            let wait = closed.probes.next_in(kind, &self.outage, at);
            closed.next_probe = at.now.mono + wait.max(spread_asked(asked, at.random));
            return None;
        }
        if !attempt.answered {
            return None;
        }
        let closed_for = at.now.mono.saturating_duration_since(closed.since);
        self.closed = None;
        self.reopen_slowly();
        self.runs.clear();
        Some(Change::Opened { closed_for })
    }

    /// One on its way, then two, then four: those who waited must not all come at once.
    fn reopen_slowly(&mut self) {
        self.ramp = Some(1).filter(|n| *n < self.workers);
    }

    fn close(&mut self, attempt: &Attempt, at: Moment) -> Change {
        let cause = attempt.cause;
        let since = at.now.mono;
        let held = self.held_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(since));
        let asked = spread_asked(attempt.outcome.asked().unwrap_or_default(), at.random);
        let mut probes = Probes::default();
        let probe_in = probes.next_in(Kind::of(cause), &self.outage, at).max(asked).max(held);
        self.closings += 1;
        self.ramp = None;
        self.closed = Some(Closed { cause, since, probes, next_probe: since + probe_in, probing: false });
        Change::Closed { cause, probe_in }
    }

    fn hold(&mut self, asked: Duration, at: Moment) {
        let until = at.now.mono + spread_asked(asked.max(SHORTEST_HOLD), at.random);
        self.held_until = Some(self.held_until.map_or(until, |held| held.max(until)));
        self.reopen_slowly();
    }

    fn learn(&mut self, pace: Option<Pace>) {
        let (Gating::OneProvider(Rate::Follow { .. }), Some(pace)) = (self.gating, pace) else { return };
        if pace.limit > 0 && !pace.window.is_zero() {
            self.spacing = Some(pace.window.div_f64(f64::from(pace.limit) * RATE_SHARE));
        }
    }

    /// Envelopes that have passed: those that it gave a final answer to.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Whether it has accepted something since the start.
    pub fn has_accepted(&self) -> bool {
        self.accepted
    }

    /// Why it is closed and when it probes next.
    pub fn closed(&self) -> Option<(Cause, Instant)> {
        self.closed.as_ref().map(|closed| (closed.cause, closed.next_probe))
    }

    /// Until when it is held for the sake of a rate limit.
    pub fn held_until(&self) -> Option<Instant> {
        self.held_until
    }

    /// Whether attempts are on their way.
    pub fn is_busy(&self) -> bool {
        self.in_flight > 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Hold,
    Close,
}

impl Run {
    /// Refusals must be alike in their words; other troubles only of one kind.
    fn is_like(&self, attempt: &Attempt) -> bool {
        let (cause, detail) = &self.reason;
        let words_count = self.streak == Streak::Refusal;
        attempt.cause.streak() == Some(self.streak)
            && (!words_count || (*cause == attempt.cause && words(detail).eq(words(&attempt.detail))))
    }

    /// How many different suspects it has together with `who`. Where one destination could fake the
    /// trouble, its envelopes count as one.
    fn with(&self, who: &Suspect, gating: Gating) -> usize {
        let known = self.suspects.iter().any(|suspect| match gating {
            Gating::OneProvider(_) => suspect.id == who.id,
            Gating::ManyProviders => suspect.destination == who.destination,
        });
        self.suspects.len() + usize::from(!known)
    }
}

/// The words that refusals of one kind share: sizes and the ids of requests differ from mail to mail.
fn words(detail: &Detail) -> impl Iterator<Item = &str> {
    detail.as_str().split(' ').filter(|word| !word.contains(|c: char| c.is_ascii_digit()))
}
