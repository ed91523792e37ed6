//! What this process has tried with one envelope: what the retry policy reads and writes.
//!
//! Owns the facts, not the policy. A restart forgets them; the outbox does not.

use std::sync::Arc;
use std::time::Instant;

use crate::render::Templates;
use crate::trace::Trace;

/// The attempts at one envelope so far.
#[derive(Debug, Default)]
pub struct History {
    /// Attempts made.
    pub tries: u32,
    /// Attempts that count against the limit.
    pub spent: u32,
    /// Attempts that ended in an answer nobody documents; they have a limit of their own.
    pub unexpected: u32,
    /// How many envelopes had passed the gate when this one first failed there.
    pub passed_at_first_failure: Option<u64>,
    /// How many envelopes had passed the gate when this one last failed there.
    pub passed_at_failure: Option<u64>,
    /// When an attempt first ended without saying whether it arrived.
    pub unclear_since: Option<Instant>,
    /// Whether an attempt was plainly refused by the provider.
    pub refused: bool,
    /// Whether the last attempt went wrong in this worker: the provider was not asked.
    pub stumbled: bool,
    /// When the one last try before `expires_at` begins, once it has been given.
    pub last_try: Option<Instant>,
    /// Whether the last attempt was a pause of its destination that only time can end.
    pub paused: bool,
    /// Whether its destination refused the last attempt: others go first.
    pub yields: bool,
    /// The template set of the first attempt.
    pub templates: Option<Arc<Templates>>,
    /// What the first attempt began.
    pub trace: Trace,
}
