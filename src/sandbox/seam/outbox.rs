//! The app's outbox as a value: what is in it, what is settled, who has unsubscribed.
//!
//! Owns the rules of the contract that are the app's: what a page lists, which status wins, which
//! statuses end consent. It must not know HTTP or a clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::outcome::AckStatus;
use crate::sandbox::journal::AckAnswer;

type UserAndChannel = (String, String);

#[derive(Debug, Default)]
pub(super) struct Outbox {
    rows: Vec<Row>,
    owners: HashMap<String, Option<UserAndChannel>>,
    withdrawn: HashSet<String>,
    unsubscribed: BTreeSet<UserAndChannel>,
    statuses: BTreeMap<String, AckStatus>,
}

/// An element with what the app knows of it; each may be unreadable in a piece of junk.
#[derive(Debug)]
struct Row {
    element: Value,
    id: Option<String>,
    channel: Option<String>,
    owner: Option<UserAndChannel>,
    expires_at: Option<DateTime<Utc>>,
}

impl Row {
    fn new(element: Value) -> Row {
        let text = |field: &str| element.get(field).and_then(Value::as_str).map(str::to_owned);
        let channel = text("channel");
        Row {
            id: text("id"),
            owner: text("user_id").zip(channel.clone()),
            channel,
            expires_at: text("expires_at").and_then(|at| at.parse().ok()),
            element,
        }
    }
}

impl Outbox {
    pub(super) fn enqueue(&mut self, element: Value) {
        let row = Row::new(element);
        if let Some(id) = &row.id {
            self.owners.insert(id.clone(), row.owner.clone());
        }
        self.rows.push(row);
    }

    pub(super) fn withdraw(&mut self, id: &str) {
        self.withdrawn.insert(id.to_owned());
    }

    pub(super) fn unsubscribe(&mut self, user: &str, channel: &str) {
        self.unsubscribed.insert((user.to_owned(), channel.to_owned()));
    }

    pub(super) fn unsubscribed(&self) -> &BTreeSet<UserAndChannel> {
        &self.unsubscribed
    }

    pub(super) fn statuses(&self) -> &BTreeMap<String, AckStatus> {
        &self.statuses
    }

    /// What is pending on `channel`, oldest first. With `living_at`, without what has expired by then.
    pub(super) fn pending(
        &self,
        channel: &str,
        living_at: Option<DateTime<Utc>>,
    ) -> impl Iterator<Item = &Value> {
        let of_channel = move |row: &Row| row.channel.as_deref().is_none_or(|of| of == channel);
        let expired =
            move |row: &Row| living_at.is_some_and(|now| row.expires_at.is_some_and(|at| at <= now));
        self.rows
            .iter()
            .filter(move |row| of_channel(row) && !expired(row) && !self.is_closed(row))
            .map(|row| &row.element)
    }

    fn is_closed(&self, row: &Row) -> bool {
        row.id.as_ref().is_some_and(|id| self.statuses.contains_key(id) || self.withdrawn.contains(id))
            || row.owner.as_ref().is_some_and(|owner| self.unsubscribed.contains(owner))
    }

    /// The first status wins. Those that say something about the recipient end their consent.
    pub(super) fn settle(&mut self, id: &str, status: AckStatus) -> AckAnswer {
        if let Some(earlier) = self.statuses.get(id) {
            return AckAnswer::Kept(*earlier);
        }
        let Some(owner) = self.owners.get(id) else {
            return AckAnswer::Unknown;
        };
        match status {
            AckStatus::Bounced | AckStatus::Complaint | AckStatus::Suppressed => {
                self.unsubscribed.extend(owner.clone());
            }
            AckStatus::Delivered | AckStatus::Failed => {}
        }
        self.statuses.insert(id.to_owned(), status);
        AckAnswer::Stored
    }
}
