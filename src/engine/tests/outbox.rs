//! The seam in memory: an app's outbox with its consent, its statuses and its bad days.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::clock::TestClock;
use crate::envelope::{ChannelName, EnvelopeId};
use crate::outbox::{Ack, Acked, Element, Page, Seam, SeamError};
use crate::outcome::{AckStatus, Cause};

/// An envelope to be. Times count from the world's start.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    id: String,
    channel: &'static str,
    to: String,
    gate: &'static str,
    template: String,
    not_before: Option<Duration>,
    expires: Option<Duration>,
}

/// A mail to a reader of its own.
pub(super) fn mail(id: impl Into<String>) -> Draft {
    let id = id.into();
    let (to, template) = (format!("{id}'s reader"), "your-week-digest.v1".to_owned());
    Draft { id, channel: "email", to, gate: "resend", template, not_before: None, expires: None }
}

/// A push to a reader of its own, by the push service `gate`.
pub(super) fn push(id: impl Into<String>, gate: &'static str) -> Draft {
    Draft { channel: "push", gate, ..mail(id) }
}

impl Draft {
    pub(super) fn to(self, to: &str) -> Draft {
        Draft { to: to.to_owned(), ..self }
    }

    pub(super) fn template(self, template: &str) -> Draft {
        Draft { template: template.to_owned(), ..self }
    }

    pub(super) fn not_before(self, since_start: Duration) -> Draft {
        Draft { not_before: Some(since_start), ..self }
    }

    pub(super) fn expires(self, since_start: Duration) -> Draft {
        Draft { expires: Some(since_start), ..self }
    }

    /// The element of a page.
    pub(super) fn json(&self, clock: &TestClock) -> Value {
        let instant = |at: Option<Duration>| at.map(|at| clock.truth(at).to_rfc3339());
        json!({
            "schema_version": "1", "id": self.id, "user_id": "u", "channel": self.channel,
            "template": self.template, "recipient": {"to": self.to, "gate": self.gate},
            "consent_snapshot": {"cadence": "weekly", "unsubscribe_ref": "r"}, "payload": {},
            "not_before": instant(self.not_before), "expires_at": instant(self.expires),
            "created_at": clock.truth(Duration::ZERO).to_rfc3339(),
        })
    }
}

/// What goes wrong with a request.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// It fails before the outbox has seen it.
    Error(SeamError),
    /// It is done, but its answer is lost.
    AnswerLost,
    /// It is done at once and answered so much later.
    Late(Duration),
    /// A page of more elements than this is too large to be read (pages alone).
    TooLargeOver(usize),
    /// No answer ever comes.
    Hang,
    /// The outbox says that it does not know the id (acks alone).
    Unknown,
}

/// A request for a page, as the seam saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Poll {
    pub(super) at: Duration,
    pub(super) channel: String,
    pub(super) limit: u16,
    pub(super) listed: usize,
}

/// An ack, as the seam saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) at: Duration,
    pub(super) id: String,
    pub(super) status: AckStatus,
    pub(super) detail: String,
}

#[derive(Debug)]
struct Entry {
    channel: String,
    element: Element,
    expires: Option<DateTime<Utc>>,
    status: Option<AckStatus>,
}

#[derive(Debug)]
struct State {
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
    withdrawn: HashSet<String>,
    sticky: HashSet<String>,
    polls: Vec<Poll>,
    posts: Vec<Post>,
    poll_faults: VecDeque<Fault>,
    poll_fault: Fault,
    ack_faults: HashMap<String, VecDeque<Fault>>,
    ack_fault_of: HashMap<String, Fault>,
    ack_fault: Fault,
    date: Option<TimeDelta>,
}

/// The outbox of one world.
#[derive(Debug)]
pub(super) struct Outbox {
    clock: Arc<TestClock>,
    changed: Arc<Notify>,
    state: Mutex<State>,
}

impl Outbox {
    pub(super) fn new(clock: Arc<TestClock>, changed: Arc<Notify>) -> Outbox {
        let state = State {
            entries: Vec::new(),
            places: HashMap::new(),
            withdrawn: HashSet::new(),
            sticky: HashSet::new(),
            polls: Vec::new(),
            posts: Vec::new(),
            poll_faults: VecDeque::new(),
            poll_fault: Fault::None,
            ack_faults: HashMap::new(),
            ack_fault_of: HashMap::new(),
            ack_fault: Fault::None,
            date: Some(TimeDelta::zero()),
        };
        Outbox { clock, changed, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The app writes an envelope, after all that are there.
    pub(super) fn add(&self, draft: Draft) {
        let json = draft.json(&self.clock);
        let expires = draft.expires.map(|at| self.clock.truth(at));
        self.insert(draft.channel, &json, expires);
    }

    /// The app writes many.
    pub(super) fn add_all(&self, drafts: impl IntoIterator<Item = Draft>) {
        drafts.into_iter().for_each(|draft| self.add(draft));
    }

    /// The app writes whatever this is.
    pub(super) fn add_raw(&self, channel: &str, json: &Value) {
        self.insert(channel, json, None);
    }

    fn insert(&self, channel: &str, json: &Value, expires: Option<DateTime<Utc>>) {
        let element = Element::new(json.to_string());
        let mut state = self.state();
        let place = state.entries.len();
        if let Some(id) = element.id() {
            state.places.entry(id.as_str().to_owned()).or_insert(place);
        }
        state.entries.push(Entry { channel: channel.to_owned(), element, expires, status: None });
    }

    /// The reader unsubscribes: the envelope is not listed any more.
    pub(super) fn withdraw(&self, id: &str) {
        self.state().withdrawn.insert(id.to_owned());
    }

    /// The reader subscribes again.
    pub(super) fn restore(&self, id: &str) {
        self.state().withdrawn.remove(id);
    }

    /// Lists the envelope whatever status it has.
    pub(super) fn keep_listing(&self, id: &str) {
        self.state().sticky.insert(id.to_owned());
    }

    /// Another worker has acked it.
    pub(super) fn store(&self, id: &str, status: AckStatus) {
        let mut state = self.state();
        let place = state.places[id];
        state.entries[place].status = Some(status);
    }

    /// What goes wrong with the next polls, one each.
    pub(super) fn next_polls(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().poll_faults.extend(faults);
    }

    /// What goes wrong with every poll from now on.
    pub(super) fn all_polls(&self, fault: Fault) {
        self.state().poll_fault = fault;
    }

    /// What goes wrong with the next acks of `id`, one each.
    pub(super) fn next_acks(&self, id: &str, faults: impl IntoIterator<Item = Fault>) {
        self.state().ack_faults.entry(id.to_owned()).or_default().extend(faults);
    }

    /// What goes wrong with every ack of `id` from now on.
    pub(super) fn acks_of(&self, id: &str, fault: Fault) {
        self.state().ack_fault_of.insert(id.to_owned(), fault);
    }

    /// What goes wrong with every ack from now on.
    pub(super) fn all_acks(&self, fault: Fault) {
        self.state().ack_fault = fault;
    }

    /// The Date header, by so many seconds off the true time; `None`: there is none.
    pub(super) fn date_off_by(&self, seconds: Option<i64>) {
        self.state().date = seconds.map(TimeDelta::seconds);
    }

    /// The status that is stored.
    pub(super) fn status(&self, id: &str) -> Option<AckStatus> {
        let state = self.state();
        state.places.get(id).and_then(|place| state.entries[*place].status)
    }

    /// Whether its end has come, so that it is listed no more.
    pub(super) fn has_expired(&self, id: &str) -> bool {
        let now = self.clock.truth(self.clock.elapsed());
        let state = self.state();
        state.places.get(id).is_some_and(|place| state.entries[*place].expires.is_some_and(|at| at <= now))
    }

    /// How many have this status.
    pub(super) fn count(&self, status: AckStatus) -> usize {
        self.state().entries.iter().filter(|entry| entry.status == Some(status)).count()
    }

    /// Every request for a page so far.
    pub(super) fn polls(&self) -> Vec<Poll> {
        self.state().polls.clone()
    }

    /// How many requests for a page began within `from..to`.
    pub(super) fn polls_within(&self, from: Duration, to: Duration) -> usize {
        self.state().polls.iter().filter(|poll| (from..to).contains(&poll.at)).count()
    }

    /// Every ack so far.
    pub(super) fn posts(&self) -> Vec<Post> {
        self.state().posts.clone()
    }

    /// Every ack of one envelope so far.
    pub(super) fn posts_of(&self, id: &str) -> Vec<Post> {
        self.state().posts.iter().filter(|post| post.id == id).cloned().collect()
    }

    fn page(&self, channel: &ChannelName, limit: u16) -> (Page, Fault) {
        let (at, now) = (self.clock.elapsed(), self.clock.truth(self.clock.elapsed()));
        let mut state = self.state();
        let elements: Vec<Element> =
            state.pending(channel.as_str(), now).take(usize::from(limit)).cloned().collect();
        let channel = channel.as_str().to_owned();
        state.polls.push(Poll { at, channel, limit, listed: elements.len() });
        let fault = state.poll_faults.pop_front().unwrap_or_else(|| state.poll_fault.clone());
        (Page { elements, date: state.date.map(|off| now + off) }, fault)
    }

    fn arriving_ack(&self, id: &str, ack: &Ack) -> Fault {
        let mut state = self.state();
        let (at, detail) = (self.clock.elapsed(), ack.detail.as_str().to_owned());
        state.posts.push(Post { at, id: id.to_owned(), status: ack.status, detail });
        let next = state.ack_faults.get_mut(id).and_then(VecDeque::pop_front);
        let standing = || state.ack_fault_of.get(id).unwrap_or(&state.ack_fault).clone();
        next.unwrap_or_else(standing)
    }

    /// The first terminal status wins.
    fn effective(&self, id: &str, status: AckStatus) -> Acked {
        let mut state = self.state();
        let Some(place) = state.places.get(id).copied() else { return Acked::Unknown };
        match *state.entries[place].status.get_or_insert(status) {
            stored if stored == status => Acked::Stored,
            stored => Acked::Differs(stored),
        }
    }
}

impl State {
    fn pending<'a>(&'a self, channel: &'a str, now: DateTime<Utc>) -> impl Iterator<Item = &'a Element> {
        let listed = move |entry: &&Entry| {
            let id = entry.element.id().map_or("", EnvelopeId::as_str);
            let alive = entry.expires.is_none_or(|at| at > now) && !self.withdrawn.contains(id);
            entry.channel == channel && alive && (entry.status.is_none() || self.sticky.contains(id))
        };
        self.entries.iter().filter(listed).map(|entry| &entry.element)
    }
}

#[async_trait]
impl Seam for Outbox {
    async fn pending(&self, channel: &ChannelName, limit: u16) -> Result<Page, SeamError> {
        let (page, fault) = self.page(channel, limit);
        self.changed.notify_waiters();
        match fault {
            Fault::None | Fault::Unknown => Ok(page),
            Fault::Error(error) => Err(error),
            Fault::AnswerLost => Err(SeamError::Unreachable(Cause::Connect)),
            Fault::TooLargeOver(most) if page.elements.len() > most => Err(SeamError::TooLarge(1)),
            Fault::TooLargeOver(_) => Ok(page),
            Fault::Late(wait) => {
                tokio::time::sleep(wait).await;
                self.changed.notify_waiters();
                Ok(page)
            }
            Fault::Hang => std::future::pending().await,
        }
    }

    async fn ack(&self, id: &EnvelopeId, ack: &Ack) -> Result<Acked, SeamError> {
        let fault = self.arriving_ack(id.as_str(), ack);
        let answer = match &fault {
            Fault::Error(error) => Err(error.clone()),
            Fault::Unknown => Ok(Acked::Unknown),
            Fault::Hang => std::future::pending().await,
            Fault::None | Fault::AnswerLost | Fault::Late(_) | Fault::TooLargeOver(_) => {
                Ok(self.effective(id.as_str(), ack.status))
            }
        };
        self.changed.notify_waiters();
        match fault {
            Fault::AnswerLost => Err(SeamError::Unreachable(Cause::Connect)),
            Fault::Late(wait) => {
                tokio::time::sleep(wait).await;
                self.changed.notify_waiters();
                answer
            }
            _ => answer,
        }
    }
}
