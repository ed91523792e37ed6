//! The accepted messages whose final word is waited for: what is asked next, and who has waited long enough.
//!
//! Owns the order of the questions. One question reads a hundred messages, newest first, and the next only as far
//! back as the oldest that is waited for; a single one is asked for only when the list no longer shows it. Pure: the
//! caller passes the time. It must not know a lease's envelope, a gate or how a question is put.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use super::leases::Key;
use super::retry::Schedule;
use crate::channel::confirm::{Fate, Question, Said, Told};
use crate::clock::Now;
use crate::outcome::MessageId;

#[cfg(test)]
mod tests;

/// Most mails have reached their server by then.
const FIRST: Duration = Duration::from_secs(3);
/// However many wait, no more is asked than one question in this time on average.
const A_QUESTION: Duration = Duration::from_secs(5);
/// While the youngest grows old, the rounds grow apart, up to this.
const FURTHEST: Duration = Duration::from_secs(60);
/// After this many failures in a row the rounds are this far apart.
const AFTER_FAILURES: Duration = Duration::from_secs(300);
/// A list of others' messages too, on a busy account, is read no further back in one round.
const LISTS: u32 = 10;
/// So many messages that no list shows are asked for singly in one round.
const SINGLES: usize = 3;
/// Our clock and the provider's may differ by this much before a message counts as not listed.
const CLOCKS: TimeDelta = TimeDelta::seconds(60);

/// The messages that are waited for.
#[derive(Debug)]
pub struct Confirmations {
    window: Option<Duration>,
    awaited: HashMap<Key, Awaited>,
    keys: HashMap<MessageId, Key>,
    by_age: BTreeSet<(Instant, Key)>,
    round: Option<Round>,
    due: Option<Instant>,
    /// The next round may begin then.
    rested: Option<Instant>,
    failures: u32,
    backoff: Schedule,
}

#[derive(Debug)]
struct Awaited {
    message: MessageId,
    since: Instant,
    /// When the provider took it, as far as is known: an earlier process may have sent it.
    accepted_at: DateTime<Utc>,
}

/// One round of questions, about those who waited as it began.
#[derive(Debug)]
struct Round {
    missing: BTreeSet<Key>,
    after: Option<MessageId>,
    asked: u32,
    singles: Option<VecDeque<Key>>,
}

/// Why one waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enough {
    /// Its time is over.
    Window,
    /// The window of the seam's page is needed for others.
    Room,
}

impl Confirmations {
    /// Nobody waits. `window`: how long each does; `None`: nobody ever does.
    pub fn new(window: Option<Duration>) -> Confirmations {
        Confirmations {
            window,
            awaited: HashMap::new(),
            keys: HashMap::new(),
            by_age: BTreeSet::new(),
            round: None,
            due: None,
            rested: None,
            failures: 0,
            backoff: Schedule::new(A_QUESTION, AFTER_FAILURES),
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.awaited.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Everybody who waits.
    pub fn keys(&self) -> Vec<Key> {
        self.by_age.iter().map(|(_, key)| *key).collect()
    }

    /// Waits for the final word about `message` of `key`.
    pub fn wait_for(&mut self, key: Key, message: MessageId, now: Now) {
        let first = self.rested.map_or(now.mono + FIRST, |rested| rested.max(now.mono + FIRST));
        self.due = Some(self.due.map_or(first, |due| if self.failures == 0 { due.min(first) } else { due }));
        self.keys.insert(message.clone(), key);
        self.by_age.insert((now.mono, key));
        self.awaited.insert(key, Awaited { message, since: now.mono, accepted_at: now.wall });
    }

    /// It waits no longer, whatever the reason.
    pub fn forget(&mut self, key: Key) {
        let Some(awaited) = self.awaited.remove(&key) else { return };
        self.keys.remove(&awaited.message);
        self.by_age.remove(&(awaited.since, key));
        if let Some(round) = &mut self.round {
            round.missing.remove(&key);
        }
        if self.is_empty() {
            (self.due, self.round) = (None, None);
        }
    }

    /// Who has waited long enough: for the whole window, or the oldest of more than `most`. What an earlier process
    /// sent counts from when its provider took it, where this machine's clock can be believed (`trusted`).
    pub fn enough(&self, most: usize, trusted: bool, now: Now) -> Vec<(Key, Enough)> {
        let Some(window) = self.window else { return Vec::new() };
        let too_many = self.len().saturating_sub(most);
        let ended = |key: &Key| {
            self.awaited.get(key).is_some_and(|it| {
                let known = (now.wall - it.accepted_at).to_std().ok().filter(|_| trusted).unwrap_or_default();
                now.mono.saturating_duration_since(it.since).max(known) >= window
            })
        };
        let why = |(place, key): (usize, Key)| match ended(&key) {
            true => Some((key, Enough::Window)),
            false => (place < too_many).then_some((key, Enough::Room)),
        };
        self.by_age.iter().map(|(_, key)| *key).enumerate().filter_map(why).collect()
    }

    /// When there is next something to ask, or somebody has waited long enough.
    pub fn next_change(&self) -> Option<Instant> {
        let end = self.window.zip(self.by_age.first()).map(|(window, (since, _))| *since + window);
        self.due.into_iter().chain(end).min()
    }

    /// Since when there has been something to ask.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What is to be asked now, if anything is.
    pub fn question(&mut self, now: Now) -> Option<Question> {
        if self.is_empty() || self.due.is_none_or(|due| due > now.mono) {
            return None;
        }
        let round = self.round.get_or_insert_with(|| Round {
            missing: self.awaited.keys().copied().collect(),
            after: None,
            asked: 0,
            singles: None,
        });
        loop {
            match &mut round.singles {
                None => return Some(Question::Newest { after: round.after.clone() }),
                Some(singles) => match singles.front().copied() {
                    Some(key) => match self.awaited.get(&key) {
                        Some(awaited) => return Some(Question::One(awaited.message.clone())),
                        None => drop(singles.pop_front()),
                    },
                    None => break,
                },
            }
        }
        self.end_round(now);
        None
    }

    /// Takes in what was said to the last question: what became of those who wait.
    pub fn heard(&mut self, said: &Said, now: Now) -> Vec<(Key, Fate)> {
        match said {
            Said::Messages { listed, more } => {
                self.failures = 0;
                let known = self.learn(listed);
                self.go_on(listed, *more, now);
                known
            }
            Said::Later { after } => {
                self.round = None;
                self.due = Some(now.mono + after.unwrap_or_default().max(A_QUESTION));
                Vec::new()
            }
            Said::MayNot | Said::Nothing(_) => {
                self.failures += 1;
                self.round = None;
                self.due = Some(now.mono + self.backoff.after(self.failures));
                Vec::new()
            }
        }
    }

    fn learn(&mut self, listed: &[Told]) -> Vec<(Key, Fate)> {
        let mut known = Vec::new();
        for told in listed {
            let Some(key) = self.keys.get(&told.message).copied() else { continue };
            if let Some(round) = &mut self.round {
                round.missing.remove(&key);
            }
            if let (Some(at), Some(awaited)) = (told.accepted_at, self.awaited.get_mut(&key)) {
                awaited.accepted_at = awaited.accepted_at.min(at);
            }
            if told.fate != Fate::Open {
                known.push((key, told.fate));
            }
        }
        known
    }

    /// The next question of the round: further back in the list, then the few that no list shows.
    fn go_on(&mut self, listed: &[Told], more: bool, now: Now) {
        let Some(round) = &mut self.round else { return };
        round.asked += 1;
        match &mut round.singles {
            Some(singles) => drop(singles.pop_front()),
            None => {
                round.after = listed.last().map(|told| told.message.clone());
                let reached = listed.iter().filter_map(|told| told.accepted_at).min();
                let further_back = |key: &Key| {
                    let accepted_at = self.awaited.get(key).map(|awaited| awaited.accepted_at);
                    reached.zip(accepted_at).is_some_and(|(reached, at)| at - CLOCKS <= reached)
                };
                let goes_on = more && round.asked < LISTS && round.missing.iter().any(further_back);
                if !goes_on {
                    // On an account that is too busy to be read to its end, those may be further back still.
                    let unlisted = round.missing.iter().filter(|key| !more || !further_back(key));
                    let mut unlisted: Vec<Key> = unlisted.copied().collect();
                    unlisted.sort_by_key(|key| self.awaited.get(key).map(|awaited| awaited.since));
                    round.singles = Some(unlisted.into_iter().take(SINGLES).collect());
                }
            }
        }
        if self.round.as_ref().is_some_and(|round| round.singles.as_ref().is_some_and(VecDeque::is_empty)) {
            self.end_round(now);
        }
    }

    fn end_round(&mut self, now: Now) {
        let asked = self.round.take().map_or(1, |round| round.asked.max(1));
        let rest = A_QUESTION * asked;
        self.rested = Some(now.mono + rest);
        let youngest = self.by_age.last().map(|(since, _)| now.mono.saturating_duration_since(*since));
        self.due = youngest.map(|age| now.mono + (age / 2).min(FURTHEST).max(rest));
    }
}
