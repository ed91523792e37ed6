//! The last decisions, for whoever looks at the status page.
//!
//! Owns a short memory of what `events` has told: a line of it holds what the log line holds, and no personal
//! data either. It is forgotten with the process; what must last is in the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SubsecRound, Utc};
use serde::Serialize;

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

/// The last [`Decision`]s; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recent(Arc<Mutex<VecDeque<Decision>>>);

impl Recent {
    pub(super) fn add(&self, decision: Decision) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(KEPT - 1);
        kept.push_front(decision);
    }

    /// The newest first.
    pub fn all(&self) -> Vec<Decision> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
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
}
