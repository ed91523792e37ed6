//! The retry policy: whether an envelope is tried again, and when.
//!
//! Owns the schedule, what an attempt costs, and when trying ends. Pure: clock and randomness are
//! arguments. It must not know a lease table, a gate or a provider. The schedule comes from the
//! `backoff` crate, which is used here and nowhere else.

use std::time::Duration;

use backoff::backoff::Backoff;
use backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use chrono::{DateTime, Utc};

use super::history::History;
use crate::channel::Attempt;
use crate::clock::{Moment, Now};
use crate::http::RETRY_AFTER_CAP;
use crate::outcome::{AckStatus, Cause, Cost, Detail, MessageId, Outcome, Refusal, Scope, Streak};

#[cfg(test)]
mod tests;

/// Each wait is four times the one before: eight attempts then span about an hour.
const FACTOR: f64 = 4.0;
/// Up to this share of a wait is added to it, so that what failed together does not come back together.
const JITTER: f64 = 0.25;
/// No more than this is added to a wait that a whole gate was asked for.
const ASKED_SPREAD: Duration = Duration::from_secs(30);
/// An answer that nobody documents is asked for again this often, and no more.
const UNEXPECTED_LIMIT: u32 = 3;
/// The last try before `expires_at` begins this long before it: enough for an exchange in good health.
const LAST_TRY_AHEAD: Duration = Duration::from_secs(2);

/// Growing waits, from a first one to a longest.
#[derive(Debug, Clone)]
pub struct Schedule {
    steps: Vec<Duration>,
}

impl Schedule {
    /// Waits of `first`, growing by four, never longer than `longest`.
    pub fn new(first: Duration, longest: Duration) -> Schedule {
        let longest = longest.max(first);
        let mut backoff: ExponentialBackoff = ExponentialBackoffBuilder::new()
            .with_initial_interval(first)
            .with_multiplier(FACTOR)
            .with_max_interval(longest)
            .with_randomization_factor(0.0)
            .with_max_elapsed_time(None)
            .build();
        let mut steps = Vec::new();
        while let Some(step) = backoff.next_backoff() {
            let last = step >= longest || steps.last() == Some(&step);
            steps.push(step.min(longest));
            if last {
                break;
            }
        }
        Schedule { steps }
    }

    /// The wait after `failures` failures in a row (1 is the first).
    pub fn after(&self, failures: u32) -> Duration {
        let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
        self.steps.get(index).or(self.steps.last()).copied().unwrap_or_default()
    }
}

/// A wait, spread: `random` is from 0 up to 1.
pub fn spread(wait: Duration, random: f64) -> Duration {
    wait + wait.mul_f64(JITTER * random.clamp(0.0, 1.0))
}

/// A wait that a provider asks for, spread by less: it is exact, so only those who were asked the same must
/// not come back at the same instant.
pub fn spread_asked(wait: Duration, random: f64) -> Duration {
    spread(wait, random).min(wait + ASKED_SPREAD)
}

/// What the policy is asked about, beside the attempt itself.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// As the attempt ended.
    pub at: Moment,
    /// Envelopes that have passed the gate so far.
    pub passed: u64,
    /// Whether the gate has let something through to acceptance since the start.
    pub accepted: bool,
    /// The run of troubles that has closed the gate, if the attempt was its probe.
    pub probed: Option<Streak>,
    /// The envelope's end.
    pub expires_at: Option<DateTime<Utc>>,
}

/// What becomes of the envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It has its final status.
    Settle(AckStatus, Refusal),
    /// It is accepted: the final word about this message is waited for.
    Await(MessageId),
    /// It is tried again, not before this long from now.
    Again(Duration),
}

/// The policy of one lane.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The waits between attempts.
    pub schedule: Schedule,
    /// Attempts before an envelope is given up.
    pub max_attempts: u32,
    /// How long after an unclear attempt another is harmless; `None`: for ever.
    pub redelivery_window: Option<Duration>,
}

impl Policy {
    /// Writes the attempt into the history and says what follows from it.
    pub fn judge(&self, history: &mut History, attempt: &Attempt, facts: Circumstances) -> Verdict {
        let reason = Refusal::new(attempt.cause, attempt.detail.clone());
        if let Some(status) = attempt.outcome.ack_status() {
            return Verdict::Settle(status, reason);
        }
        if let Outcome::Accepted { message } = &attempt.outcome {
            return Verdict::Await(message.clone());
        }
        self.note(history, attempt, facts);
        let Moment { now, random } = facts.at;
        if self.is_unprotected(history, now) {
            return Verdict::Settle(AckStatus::Failed, outcome_unknown());
        }
        if history.spent >= self.max_attempts || history.unexpected >= UNEXPECTED_LIMIT {
            return Verdict::Settle(AckStatus::Failed, given_up(history.tries, &reason));
        }
        let (asked, step) = match attempt.outcome {
            Outcome::Pause { scope: Scope::Provider, .. } => {
                let step = if comes_with_it(history, attempt, facts) { history.tries } else { 1 };
                return Verdict::Again(spread(self.schedule.after(step), random));
            }
            Outcome::Pause { scope: Scope::Destination, after } => {
                let wait = self.schedule.after(history.tries).max(capped(after));
                return Verdict::Again(spread(wait, random));
            }
            Outcome::Retry { after } | Outcome::Unclear { after } => (capped(after), history.tries),
            Outcome::Delivered { .. }
            | Outcome::Accepted { .. }
            | Outcome::Bounced
            | Outcome::Complained
            | Outcome::Suppressed
            | Outcome::Failed => (Duration::ZERO, history.tries),
        };
        let wait = spread(self.schedule.after(step).max(asked), random);
        match within_life(history, wait, asked, facts) {
            Some(wait) => Verdict::Again(wait),
            None => Verdict::Settle(AckStatus::Failed, given_up(history.tries, &reason)),
        }
    }

    /// Whether another attempt could become a second message: an attempt whose outcome is unknown is so
    /// long ago that the provider has forgotten its key.
    pub fn is_unprotected(&self, history: &History, now: Now) -> bool {
        match (history.unclear_since, self.redelivery_window) {
            (Some(since), Some(window)) => now.mono.saturating_duration_since(since) >= window,
            _ => false,
        }
    }

    fn note(&self, history: &mut History, attempt: &Attempt, facts: Circumstances) {
        history.passed_at_first_failure.get_or_insert(facts.passed);
        let before = history.passed_at_failure.replace(facts.passed);
        let others_passed = before.is_some_and(|before| facts.passed > before);
        // What a gate is closed for is known already: a probe that meets it again is no failure of its own.
        let goes_on = facts.probed.is_some() && facts.probed == attempt.cause.streak();
        let costs = match attempt.cause.cost() {
            _ if goes_on => false,
            Cost::Always => true,
            Cost::IfOthersPass => others_passed,
            Cost::OnceAccepted => facts.accepted,
            Cost::Never => false,
        };
        history.spent += u32::from(costs);
        history.unexpected += u32::from(attempt.cause == Cause::UnexpectedAnswer);
        match attempt.outcome {
            Outcome::Unclear { .. } => {
                history.unclear_since.get_or_insert(facts.at.now.mono);
            }
            Outcome::Retry { .. } | Outcome::Pause { .. } => {
                history.refused |= is_plain_refusal(attempt.cause)
            }
            Outcome::Delivered { .. }
            | Outcome::Accepted { .. }
            | Outcome::Bounced
            | Outcome::Complained
            | Outcome::Suppressed
            | Outcome::Failed => {}
        }
        let refused = matches!(attempt.outcome, Outcome::Pause { scope: Scope::Destination, .. });
        history.yields = refused && attempt.cause != Cause::RateLimited;
        history.paused = history.yields && !costs;
    }
}

/// Whether a closed gate comes with this one envelope: others pass, and it is refused again. It must not close
/// the gate on them every few seconds. A rate limit comes with whoever is just sent.
fn comes_with_it(history: &History, attempt: &Attempt, facts: Circumstances) -> bool {
    attempt.cause != Cause::RateLimited
        && history.passed_at_first_failure.is_some_and(|passed| facts.passed > passed)
}

/// Whether the provider has read the message and said no to it. A rate limit or an outage says nothing of
/// what an earlier process may have sent with the same key.
fn is_plain_refusal(cause: Cause) -> bool {
    matches!(cause, Cause::SenderSettings | Cause::UnexpectedAnswer)
}

/// The reason of an envelope whose unclear attempt can no longer be repeated without harm.
pub fn outcome_unknown() -> Refusal {
    Refusal::new(
        Cause::OutcomeUnknown,
        Detail::fixed("it may have been delivered, and the provider no longer keeps its key"),
    )
}

fn capped(after: Option<Duration>) -> Duration {
    after.unwrap_or_default().min(RETRY_AFTER_CAP)
}

fn given_up(tries: u32, last: &Refusal) -> Refusal {
    let text = format!("given up after {tries} attempts: {}", last.detail);
    Refusal::new(last.cause, Detail::scrub(&text, &[]))
}

/// Fits a wait into the envelope's life: what would pass its end becomes one last try just before it.
/// `None`: there is no use in waiting any more.
fn within_life(
    history: &mut History,
    wait: Duration,
    asked: Duration,
    facts: Circumstances,
) -> Option<Duration> {
    let Some(expires_at) = facts.expires_at else { return Some(wait) };
    let left = (expires_at - facts.at.now.wall).to_std().unwrap_or_default();
    if wait < left {
        return Some(wait);
    }
    let latest = left.checked_sub(LAST_TRY_AHEAD)?;
    // A probe may have come in before the last try, and does not stand for it.
    let over = history.last_try.is_some_and(|last| last <= facts.at.now.mono);
    if over || asked > latest {
        return None;
    }
    history.last_try = Some(facts.at.now.mono + latest);
    Some(latest)
}
