//! The app's outbox as a value: what is in it, what is settled, who has unsubscribed.
//!
//! Owns the rules of the contract that are the app's: what a page lists, which status wins, which
//! statuses end consent. It must not know HTTP or a clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::outcome::AckStatus;
use crate::sandbox::journal::AckAnswer;

type UserAndChannel = (String, String);

#[derive(Debug, Default)]
pub(super) struct Outbox {
    rows: Vec<Row>,
    enqueued: usize,
    keep: Option<usize>,
    look_again_at: usize,
    owners: HashMap<String, Option<UserAndChannel>>,
    withdrawn: HashSet<String>,
    unsubscribed: BTreeSet<UserAndChannel>,
    statuses: BTreeMap<String, AckStatus>,
}

/// An element with what the app knows of it; each may be unreadable in a piece of junk.
#[derive(Debug)]
struct Row {
    number: usize,
    since: DateTime<Utc>,
    element: Arc<Value>,
    id: Option<String>,
    channel: Option<String>,
    owner: Option<UserAndChannel>,
    expires_at: Option<DateTime<Utc>>,
}

/// An element of the outbox as the app sees it.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Counts up from 1 in the order of enqueueing.
    pub number: usize,
    /// When it was enqueued.
    pub since: DateTime<Utc>,
    /// What was enqueued.
    pub element: Arc<Value>,
    /// What has become of it.
    pub standing: Standing,
}

/// What has become of an element of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Each page lists it.
    Listed,
    /// Not listed any more: its time is over.
    Expired,
    /// Not listed any more: taken back.
    Withdrawn,
    /// Not listed any more: its user has unsubscribed.
    Unsubscribed,
    /// A worker has posted this.
    Settled(AckStatus),
}

impl Row {
    fn new(number: usize, since: DateTime<Utc>, element: Value) -> Row {
        let text = |field: &str| element.get(field).and_then(Value::as_str).map(str::to_owned);
        let channel = text("channel");
        Row {
            id: text("id"),
            owner: text("user_id").zip(channel.clone()),
            channel,
            expires_at: text("expires_at").and_then(|at| at.parse().ok()),
            number,
            since,
            element: Arc::new(element),
        }
    }
}

impl Row {
    fn is_over(&self, living_at: Option<DateTime<Utc>>) -> bool {
        living_at.zip(self.expires_at).is_some_and(|(now, at)| at <= now)
    }
}

impl Outbox {
    /// An outbox that forgets the oldest of what is not listed any more, so that about `keep` of it stay.
    pub(super) fn keeping(keep: Option<usize>) -> Outbox {
        Outbox { keep, ..Outbox::default() }
    }

    pub(super) fn enqueue(&mut self, element: Value, now: DateTime<Utc>) {
        self.enqueued += 1;
        let row = Row::new(self.enqueued, now, element);
        if let Some(id) = &row.id {
            self.owners.insert(id.clone(), row.owner.clone());
        }
        self.rows.push(row);
        if let Some(keep) = self.keep.filter(|_| self.rows.len() >= self.look_again_at) {
            self.forget(keep);
            // Room above the limit, so that an element costs no walk over all.
            self.look_again_at = self.rows.len().max(keep) + keep / 4 + 1;
        }
    }

    fn forget(&mut self, keep: usize) {
        let closed = self.rows.iter().filter(|row| self.is_closed(row)).count();
        let mut surplus = closed.saturating_sub(keep);
        for row in std::mem::take(&mut self.rows) {
            if surplus > 0 && self.is_closed(&row) {
                surplus -= 1;
                if let Some(id) = &row.id {
                    self.owners.remove(id);
                    self.statuses.remove(id);
                    self.withdrawn.remove(id);
                }
            } else {
                self.rows.push(row);
            }
        }
    }

    /// Everything that is kept, oldest first. With `living_at`, what has expired by then is.
    pub(super) fn listings(
        &self,
        living_at: Option<DateTime<Utc>>,
    ) -> impl DoubleEndedIterator<Item = Listing> {
        self.rows.iter().map(move |row| Listing {
            number: row.number,
            since: row.since,
            element: Arc::clone(&row.element),
            standing: self.standing(row, living_at),
        })
    }

    fn standing(&self, row: &Row, living_at: Option<DateTime<Utc>>) -> Standing {
        let id = row.id.as_ref();
        if let Some(status) = id.and_then(|id| self.statuses.get(id)) {
            return Standing::Settled(*status);
        }
        match row {
            _ if id.is_some_and(|id| self.withdrawn.contains(id)) => Standing::Withdrawn,
            _ if self.is_closed(row) => Standing::Unsubscribed,
            _ if row.is_over(living_at) => Standing::Expired,
            _ => Standing::Listed,
        }
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
        self.rows
            .iter()
            .filter(move |row| of_channel(row) && !row.is_over(living_at) && !self.is_closed(row))
            .map(|row| &*row.element)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn element(id: usize) -> Value {
        json!({"id": id.to_string(), "user_id": "u", "channel": "email"})
    }

    #[test]
    fn what_is_settled_is_forgotten_in_time_and_what_is_pending_never() {
        let mut outbox = Outbox::keeping(Some(10));
        outbox.enqueue(element(0), Utc::now());
        for id in 1..=1000 {
            outbox.enqueue(element(id), Utc::now());
            outbox.settle(&id.to_string(), AckStatus::Delivered);
        }
        let numbers: Vec<_> = outbox.listings(None).map(|listing| listing.number).collect();
        assert!((12..=16).contains(&numbers.len()), "{numbers:?}");
        assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&1001)));
        assert_eq!(outbox.pending("email", None).count(), 1);
        assert_eq!(outbox.statuses().len(), numbers.len() - 1);
    }

    #[test]
    fn an_element_stands_where_the_pages_say() {
        let (mut outbox, now) = (Outbox::default(), Utc::now());
        (1..=5).for_each(|id| outbox.enqueue(element(id), now));
        outbox.enqueue(json!({"id": "6", "user_id": "v", "channel": "email", "expires_at": now}), now);
        outbox.withdraw("2");
        outbox.settle("3", AckStatus::Failed);
        let standings = |outbox: &Outbox| -> Vec<Standing> {
            outbox.listings(Some(now)).map(|listing| listing.standing).collect()
        };
        use Standing::{Expired, Listed, Settled, Unsubscribed, Withdrawn};
        let failed = Settled(AckStatus::Failed);
        assert_eq!(standings(&outbox), [Listed, Withdrawn, failed, Listed, Listed, Expired]);
        outbox.settle("4", AckStatus::Bounced);
        let bounced = Settled(AckStatus::Bounced);
        assert_eq!(standings(&outbox), [Unsubscribed, Withdrawn, failed, bounced, Unsubscribed, Expired]);
    }
}
