//! The last decisions, for whoever looks at the status page.
//!
//! Owns a short memory of what `events` has told, and its sums: a line of it holds what the log line holds, and no personal
//! data either. It is forgotten with the process; what must last is in the log.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, SubsecRound, Utc};
use serde::Serialize;

use crate::outcome::AckStatus;

/// As many as fit on a page that one reads.
const KEPT: usize = 50;

/// One decision about one envelope.
#[derive(Debug, Clone, Serialize)]
pub struct Decision {
    /// When, to the second.
    pub at: DateTime<Utc>,
    /// Which envelope, as it is named in the log.
    pub envelope: String,
    /// Its channel.
    pub channel: String,
    /// Its template, where it is known.
    pub template: Option<String>,
    /// What was decided: an outcome, `acked` or `withdrawn`.
    pub what: &'static str,
    /// Why: a cause's label, or the status that was acked.
    pub why: &'static str,
    /// The how-manieth attempt, where it was one.
    pub attempt: Option<u32>,
    /// More, scrubbed.
    pub detail: String,
}

impl Decision {
    /// One of now.
    pub(super) fn new(envelope: String, channel: String, what: &'static str, why: &'static str) -> Decision {
        let at = Utc::now().trunc_subsecs(0);
        Decision { at, envelope, channel, template: None, what, why, attempt: None, detail: String::new() }
    }
}

/// How many envelopes have ended so far, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Acked as delivered.
    pub delivered: u64,
    /// Acked as bounced.
    pub bounced: u64,
    /// Acked as a complaint.
    pub complaint: u64,
    /// Acked as suppressed.
    pub suppressed: u64,
    /// Acked as failed.
    pub failed: u64,
    /// No longer listed, and so neither sent nor acked.
    pub withdrawn: u64,
}

impl Tally {
    fn of(&mut self, status: AckStatus) -> &mut u64 {
        match status {
            AckStatus::Delivered => &mut self.delivered,
            AckStatus::Bounced => &mut self.bounced,
            AckStatus::Complaint => &mut self.complaint,
            AckStatus::Suppressed => &mut self.suppressed,
            AckStatus::Failed => &mut self.failed,
        }
    }

    fn parts(&self) -> [(u64, &'static str); 6] {
        [
            (self.delivered, "delivered"),
            (self.bounced, "bounced"),
            (self.complaint, "complaints"),
            (self.suppressed, "suppressed"),
            (self.failed, "failed"),
            (self.withdrawn, "withdrawn"),
        ]
    }

    /// All of them.
    pub fn settled(&self) -> u64 {
        self.parts().iter().map(|(count, _)| count).sum()
    }
}

/// What there is, in words.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
        f.write_str(if parts.is_empty() { "nothing has ended yet" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// The last [`Decision`]s and the [`Tally`] of all; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    decisions: VecDeque<Decision>,
    tally: Tally,
}

impl Recent {
    pub(super) fn add(&self, decision: Decision) {
        let kept = &mut self.kept().decisions;
        kept.truncate(KEPT - 1);
        kept.push_front(decision);
    }

    pub(super) fn count(&self, status: AckStatus) {
        *self.kept().tally.of(status) += 1;
    }

    pub(super) fn count_withdrawn(&self) {
        self.kept().tally.withdrawn += 1;
    }

    /// The newest first.
    pub fn all(&self) -> Vec<Decision> {
        self.kept().decisions.iter().cloned().collect()
    }

    /// How all have ended, since the start.
    pub fn tally(&self) -> Tally {
        self.kept().tally
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_are_kept_the_newest_first() {
        let recent = Recent::default();
        for n in 0..3 * KEPT {
            recent.add(Decision::new(n.to_string(), "email".to_owned(), "delivered", "accepted"));
        }
        let ids: Vec<String> = recent.all().into_iter().map(|decision| decision.envelope).collect();
        let expected: Vec<String> = (2 * KEPT..3 * KEPT).rev().map(|n| n.to_string()).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn every_end_is_counted_once_and_told_in_words() {
        let recent = Recent::default();
        assert_eq!(recent.tally().to_string(), "nothing has ended yet");
        AckStatus::ALL.into_iter().for_each(|status| recent.count(status));
        recent.count(AckStatus::Delivered);
        recent.count_withdrawn();
        let words = "2 delivered, 1 bounced, 1 complaints, 1 suppressed, 1 failed, 1 withdrawn";
        assert_eq!((recent.tally().to_string().as_str(), recent.tally().settled()), (words, 7));
    }
}
