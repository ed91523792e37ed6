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
    /// The page is as it was so much earlier (pages alone).
    Stale(Duration),
    /// The page lists each element twice (pages alone).
    Doubled,
}

/// What the seam is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked<'a> {
    /// A page.
    Page,
    /// To store a status of this envelope.
    Ack(&'a str),
}

type Weather = Box<dyn FnMut(Asked<'_>, Duration) -> Fault + Send>;

/// A request for a page, as the seam saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Poll {
    pub(super) at: Duration,
    pub(super) channel: String,
    pub(super) limit: u16,
    pub(super) listed: usize,
    /// Where what it lists stands in the outbox.
    pub(super) places: Vec<usize>,
    /// When the page got through, if it did.
    pub(super) answered: Option<Duration>,
}

/// An ack, as the seam saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) at: Duration,
    pub(super) id: String,
    pub(super) status: AckStatus,
    pub(super) detail: String,
    /// When and what the worker was answered, if it was.
    pub(super) answered: Option<(Duration, Result<Acked, SeamError>)>,
}

#[derive(Debug)]
struct Entry {
    channel: String,
    element: Element,
    expires: Option<DateTime<Utc>>,
    added: Duration,
    status: Option<(Duration, AckStatus)>,
}

struct State {
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
    withdrawn: HashMap<String, Duration>,
    sticky: HashSet<String>,
    polls: Vec<Poll>,
    posts: Vec<Post>,
    poll_faults: VecDeque<Fault>,
    poll_fault: Fault,
    ack_faults: HashMap<String, VecDeque<Fault>>,
    ack_fault_of: HashMap<String, Fault>,
    ack_fault: Fault,
    weather: Option<Weather>,
    acking: usize,
    date: Option<TimeDelta>,
}

/// The outbox of one world.
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
            withdrawn: HashMap::new(),
            sticky: HashSet::new(),
            polls: Vec::new(),
            posts: Vec::new(),
            poll_faults: VecDeque::new(),
            poll_fault: Fault::None,
            ack_faults: HashMap::new(),
            ack_fault_of: HashMap::new(),
            ack_fault: Fault::None,
            weather: None,
            acking: 0,
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
        let added = self.clock.elapsed();
        let mut state = self.state();
        let place = state.entries.len();
        if let Some(id) = element.id() {
            state.places.entry(id.as_str().to_owned()).or_insert(place);
        }
        state.entries.push(Entry { channel: channel.to_owned(), element, expires, added, status: None });
    }

    /// The reader unsubscribes: the envelope is not listed any more.
    pub(super) fn withdraw(&self, id: &str) {
        let at = self.clock.elapsed();
        self.state().withdrawn.entry(id.to_owned()).or_insert(at);
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
        let at = self.clock.elapsed();
        let mut state = self.state();
        let place = state.places[id];
        state.entries[place].status = Some((at, status));
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

    /// What goes wrong with every request that nothing else is said about.
    pub(super) fn weather(&self, weather: impl FnMut(Asked<'_>, Duration) -> Fault + Send + 'static) {
        self.state().weather = Some(Box::new(weather));
    }

    /// The Date header, by so many seconds off the true time; `None`: there is none.
    pub(super) fn date_off_by(&self, seconds: Option<i64>) {
        self.state().date = seconds.map(TimeDelta::seconds);
    }

    /// The status that is stored.
    pub(super) fn status(&self, id: &str) -> Option<AckStatus> {
        let state = self.state();
        state.places.get(id).and_then(|place| state.entries[*place].status).map(|(_, status)| status)
    }

    /// When a status was stored.
    pub(super) fn stored_at(&self, id: &str) -> Option<Duration> {
        let state = self.state();
        state.places.get(id).and_then(|place| state.entries[*place].status).map(|(at, _)| at)
    }

    /// Whether anything of this id was ever written.
    pub(super) fn has(&self, id: &str) -> bool {
        self.state().places.contains_key(id)
    }

    /// Where the envelope stands in the seam's order.
    pub(super) fn place(&self, id: &str) -> usize {
        self.state().places[id]
    }

    /// Whether an ack is on its way.
    pub(super) fn is_acking(&self) -> bool {
        self.state().acking > 0
    }

    /// Whether its end has come, so that it is listed no more.
    pub(super) fn has_expired(&self, id: &str) -> bool {
        let now = self.clock.truth(self.clock.elapsed());
        let state = self.state();
        state.places.get(id).is_some_and(|place| state.entries[*place].expires.is_some_and(|at| at <= now))
    }

    /// How many have this status.
    pub(super) fn count(&self, status: AckStatus) -> usize {
        self.state().entries.iter().filter(|entry| entry.status.is_some_and(|(_, s)| s == status)).count()
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

    fn page(&self, channel: &ChannelName, limit: u16) -> (Page, Fault, usize) {
        let at = self.clock.elapsed();
        let mut state = self.state();
        let standing = state.poll_fault.clone();
        let fault = state.poll_faults.pop_front().unwrap_or_else(|| state.drawn(Asked::Page, at, standing));
        let shown = if let Fault::Stale(lag) = fault { at.saturating_sub(lag) } else { at };
        let times = if matches!(fault, Fault::Doubled) { 2 } else { 1 };
        let pending = state.pending(channel.as_str(), shown, self.clock.truth(shown));
        let places: Vec<usize> =
            pending.flat_map(|place| std::iter::repeat_n(place, times)).take(usize::from(limit)).collect();
        let elements = places.iter().map(|place| state.entries[*place].element.clone()).collect();
        let (channel, listed) = (channel.as_str().to_owned(), places.len());
        state.polls.push(Poll { at, channel, limit, listed, places, answered: None });
        let date = state.date.map(|off| self.clock.truth(at) + off);
        (Page { elements, date }, fault, state.polls.len() - 1)
    }

    fn arriving_ack(&self, id: &str, ack: &Ack) -> (Fault, usize) {
        let mut state = self.state();
        let (at, detail) = (self.clock.elapsed(), ack.detail.as_str().to_owned());
        state.posts.push(Post { at, id: id.to_owned(), status: ack.status, detail, answered: None });
        let next = state.ack_faults.get_mut(id).and_then(VecDeque::pop_front);
        let standing = state.ack_fault_of.get(id).unwrap_or(&state.ack_fault).clone();
        let fault = next.unwrap_or_else(|| state.drawn(Asked::Ack(id), at, standing));
        state.acking += 1;
        (fault, state.posts.len() - 1)
    }

    /// The first terminal status wins.
    fn effective(&self, id: &str, status: AckStatus) -> Acked {
        let at = self.clock.elapsed();
        let mut state = self.state();
        let Some(place) = state.places.get(id).copied() else { return Acked::Unknown };
        match state.entries[place].status.get_or_insert((at, status)).1 {
            stored if stored == status => Acked::Stored,
            stored => Acked::Differs(stored),
        }
    }
}

impl State {
    fn drawn(&mut self, asked: Asked<'_>, at: Duration, standing: Fault) -> Fault {
        self.weather.as_mut().map_or(standing, |weather| weather(asked, at))
    }

    /// What was pending on a channel then, by its place.
    fn pending(&self, channel: &str, then: Duration, truth: DateTime<Utc>) -> impl Iterator<Item = usize> {
        let listed = move |entry: &Entry| {
            let id = entry.element.id().map_or("", EnvelopeId::as_str);
            let withdrawn = self.withdrawn.get(id).is_some_and(|at| *at <= then);
            let alive = entry.added <= then && entry.expires.is_none_or(|at| at > truth) && !withdrawn;
            let open = entry.status.is_none_or(|(at, _)| at > then) || self.sticky.contains(id);
            entry.channel == channel && alive && open
        };
        self.entries.iter().enumerate().filter(move |(_, entry)| listed(entry)).map(|(place, _)| place)
    }
}

/// An ack on its way: cut short, it is not answered.
struct Answering<'a> {
    outbox: &'a Outbox,
    post: usize,
}

impl Answering<'_> {
    fn with(self, answer: Result<Acked, SeamError>) -> Result<Acked, SeamError> {
        let at = self.outbox.clock.elapsed();
        self.outbox.state().posts[self.post].answered = Some((at, answer.clone()));
        answer
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.outbox.state().acking -= 1;
        self.outbox.changed.notify_waiters();
    }
}

#[async_trait]
impl Seam for Outbox {
    async fn pending(&self, channel: &ChannelName, limit: u16) -> Result<Page, SeamError> {
        let (page, fault, poll) = self.page(channel, limit);
        self.changed.notify_waiters();
        match fault {
            Fault::Error(error) => return Err(error),
            Fault::AnswerLost => return Err(SeamError::Unreachable(Cause::Connect)),
            Fault::TooLargeOver(most) if page.elements.len() > most => return Err(SeamError::TooLarge(1)),
            Fault::Hang => std::future::pending().await,
            Fault::Late(wait) => {
                tokio::time::sleep(wait).await;
                self.changed.notify_waiters();
            }
            Fault::None | Fault::Unknown | Fault::TooLargeOver(_) | Fault::Stale(_) | Fault::Doubled => {}
        }
        self.state().polls[poll].answered = Some(self.clock.elapsed());
        Ok(page)
    }

    async fn ack(&self, id: &EnvelopeId, ack: &Ack) -> Result<Acked, SeamError> {
        let (fault, post) = self.arriving_ack(id.as_str(), ack);
        let answering = Answering { outbox: self, post };
        let answer = match &fault {
            Fault::Error(error) => Err(error.clone()),
            Fault::Unknown => Ok(Acked::Unknown),
            Fault::Hang => std::future::pending().await,
            _ => Ok(self.effective(id.as_str(), ack.status)),
        };
        self.changed.notify_waiters();
        match fault {
            Fault::AnswerLost => answering.with(Err(SeamError::Unreachable(Cause::Connect))),
            Fault::Late(wait) => {
                tokio::time::sleep(wait).await;
                answering.with(answer)
            }
            _ => answering.with(answer),
        }
    }
}
