//! What becomes of a mail after Resend has accepted it, and the list that tells of it.
//!
//! Owns the timelines. Which one a mail has, its address says, as with Resend's own test addresses
//! (<https://resend.com/docs/dashboard/emails/send-test-emails>): `bounced@…`, `complained+anything@…`. The clock is an
//! argument.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::clock::Now;

/// The mails that a list still tells of: more than a sandbox's worker waits for.
const LISTED: usize = 5000;

/// A course of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Delivered,
    Bounced,
    Complained,
    Delayed,
    Suppressed,
    Failed,
    Never,
}

impl Course {
    fn of(address: &str) -> Course {
        let local = address.split(['@', '+']).next().unwrap_or_default();
        match local {
            "bounced" => Course::Bounced,
            "complained" => Course::Complained,
            "delayed" => Course::Delayed,
            "suppressed" => Course::Suppressed,
            "failed" => Course::Failed,
            "silent" => Course::Never,
            _ => Course::Delivered,
        }
    }

    /// The events, each from so many seconds after acceptance on.
    fn events(self) -> &'static [(u64, &'static str)] {
        match self {
            Course::Delivered => &[(0, "sent"), (2, "delivered")],
            Course::Bounced => &[(0, "sent"), (2, "bounced")],
            Course::Complained => &[(0, "sent"), (2, "delivered"), (60, "complained")],
            Course::Delayed => &[(0, "sent"), (2, "delivery_delayed"), (8, "delivered")],
            Course::Suppressed => &[(0, "queued"), (1, "suppressed")],
            Course::Failed => &[(0, "sent"), (2, "failed")],
            Course::Never => &[(0, "sent")],
        }
    }
}

#[derive(Debug, Clone)]
struct Accepted {
    id: String,
    to: String,
    at: Now,
}

impl Accepted {
    fn json(&self, now: Now) -> Value {
        let age = now.mono.saturating_duration_since(self.at.mono);
        let course = Course::of(&self.to);
        let last = course.events().iter().rev().find(|(from, _)| *from <= age.as_secs());
        let created_at = self.at.wall.to_rfc3339_opts(SecondsFormat::Micros, false);
        json!({"object": "email", "id": self.id, "to": [self.to], "created_at": created_at,
               "last_event": last.map(|(_, event)| *event)})
    }
}

/// The accepted mails, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Fates(Mutex<VecDeque<Accepted>>);

impl Fates {
    pub(super) fn add(&self, id: &str, to: &str, at: Now) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(Accepted { id: id.to_owned(), to: to.to_owned(), at });
        if all.len() > LISTED {
            all.pop_front();
        }
    }

    /// So many of the newest, or of those older than `after`; `None` if that one is not known.
    pub(super) fn list(&self, limit: usize, after: Option<&str>, now: Now) -> Option<Value> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = match after {
            None => all.len(),
            Some(after) => all.iter().position(|mail| mail.id == after)?,
        };
        let begin = end.saturating_sub(limit);
        let data: Vec<Value> = all.range(begin..end).rev().map(|mail| mail.json(now)).collect();
        Some(json!({"object": "list", "has_more": begin > 0, "data": data}))
    }

    /// What has become of one so far, the oldest first.
    pub(super) fn history(&self, id: &str, now: Now) -> Vec<(DateTime<Utc>, &'static str)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mail) = all.iter().rev().find(|mail| mail.id == id) else { return Vec::new() };
        let age = now.mono.saturating_duration_since(mail.at.mono).as_secs();
        let events = Course::of(&mail.to).events().iter().filter(|(from, _)| *from <= age);
        events.map(|(from, event)| (mail.at.wall + Duration::from_secs(*from), *event)).collect()
    }

    pub(super) fn one(&self, id: &str, now: Now) -> Option<Value> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().find(|mail| mail.id == id).map(|mail| mail.json(now))
    }
}
