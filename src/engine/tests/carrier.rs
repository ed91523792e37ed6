//! A channel in memory: it carries nothing, answers as it is told, and keeps a journal.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use tokio::sync::Notify;

use super::clock::TestClock;
use crate::channel::{Attempt, Channel, Delivery, Destination, GateId, Gating, Pace, Route};
use crate::envelope::{ChannelName, Envelope};
use crate::outcome::{Cause, Detail, Outcome, Refusal, Scope};

/// How an attempt goes.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    after: Duration,
    ending: Ending,
}

#[derive(Debug, Clone)]
enum Ending {
    Attempt(Box<Attempt>),
    Hang,
    Panic,
}

impl Answer {
    fn of(outcome: Outcome, cause: Cause, detail: &'static str) -> Answer {
        Answer::exactly(Attempt::answered(outcome, cause, Detail::fixed(detail)))
    }

    pub(super) fn exactly(attempt: Attempt) -> Answer {
        Answer { after: Duration::ZERO, ending: Ending::Attempt(Box::new(attempt)) }
    }

    /// The same, but so much later.
    pub(super) fn after(self, after: Duration) -> Answer {
        Answer { after, ..self }
    }

    /// The same, telling a rate of so many a second.
    pub(super) fn at_pace(self, limit: u32) -> Answer {
        let Ending::Attempt(attempt) = self.ending else { panic!("only an answer tells a rate") };
        Answer::exactly(attempt.at_pace(Some(Pace { limit, window: Duration::from_secs(1) })))
            .after(self.after)
    }

    pub(super) fn accepted() -> Answer {
        Answer::of(Outcome::Delivered { provider_id: None }, Cause::Accepted, "")
    }

    pub(super) fn refused(detail: &'static str) -> Answer {
        Answer::of(Outcome::Failed, Cause::Refused, detail)
    }

    pub(super) fn gone() -> Answer {
        Answer::of(Outcome::Bounced, Cause::SubscriptionGone, "")
    }

    /// 500.
    pub(super) fn server_error() -> Answer {
        Answer::of(Outcome::Unclear { after: None }, Cause::ServerError, "it answered 500")
    }

    /// 503.
    pub(super) fn unavailable() -> Answer {
        Answer::of(Outcome::Retry { after: None }, Cause::Unavailable, "it answered 503")
    }

    /// 503 with Retry-After.
    pub(super) fn unavailable_for(after: Duration) -> Answer {
        Answer::of(Outcome::Retry { after: Some(after) }, Cause::Unavailable, "it answered 503")
    }

    /// Another request of the same key is on its way.
    pub(super) fn busy_for(after: Duration) -> Answer {
        Answer::of(Outcome::Retry { after: Some(after) }, Cause::ConcurrentRequest, "")
    }

    /// No answer within the deadline.
    pub(super) fn timeout() -> Answer {
        let outcome = Outcome::Unclear { after: None };
        Answer::exactly(Attempt::unanswered(outcome, Cause::Timeout, Detail::fixed("no answer")))
    }

    /// Nobody listens.
    pub(super) fn connection_refused() -> Answer {
        let outcome = Outcome::Retry { after: None };
        Answer::exactly(Attempt::unanswered(outcome, Cause::Connect, Detail::fixed("refused")))
    }

    /// Its name does not resolve.
    pub(super) fn unresolved() -> Answer {
        let outcome = Outcome::Retry { after: None };
        Answer::exactly(Attempt::unanswered(outcome, Cause::Dns, Detail::fixed("no such name")))
    }

    /// The provider itself is the trouble.
    pub(super) fn pause(cause: Cause) -> Answer {
        Answer::of(Outcome::Pause { scope: Scope::Provider, after: None }, cause, "")
    }

    /// The provider asks for a rest of so long.
    pub(super) fn slow_down(after: Duration) -> Answer {
        Answer::of(Outcome::Pause { scope: Scope::Provider, after: Some(after) }, Cause::RateLimited, "")
    }

    /// One destination is the trouble.
    pub(super) fn pause_destination(cause: Cause, after: Option<Duration>) -> Answer {
        Answer::of(Outcome::Pause { scope: Scope::Destination, after }, cause, "")
    }

    /// Nothing until it is released, then accepted.
    pub(super) fn hang() -> Answer {
        Answer { after: Duration::ZERO, ending: Ending::Hang }
    }

    pub(super) fn panic() -> Answer {
        Answer { after: Duration::ZERO, ending: Ending::Panic }
    }
}

/// One attempt, as the carrier saw it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Try {
    pub(super) id: String,
    pub(super) gate: &'static str,
    pub(super) template: String,
    pub(super) began: Duration,
    /// When and how it ended; `None` while it is on its way, or for ever if it panicked or was cut.
    pub(super) ended: Option<(Duration, Attempt)>,
}

impl Try {
    pub(super) fn is_accepted(&self) -> bool {
        matches!(&self.ended, Some((_, Attempt { outcome: Outcome::Delivered { .. }, .. })))
    }
}

/// What a rule decides an answer by.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) id: &'a str,
    pub(super) gate: &'static str,
    /// The how-manieth attempt for this envelope, from 1.
    pub(super) number: usize,
    pub(super) at: Duration,
}

type Rule = Box<dyn FnMut(&Call<'_>) -> Answer + Send>;

struct State {
    rule: Rule,
    next: HashMap<String, VecDeque<Answer>>,
    always: HashMap<String, Answer>,
    released: HashSet<String>,
    tries: Vec<Try>,
}

/// The channel of one lane.
pub(super) struct Carrier {
    name: &'static str,
    gating: Gating,
    clock: Arc<TestClock>,
    changed: Arc<Notify>,
    release: Notify,
    state: Mutex<State>,
}

/// What `recipient` holds for this channel.
#[derive(Debug, Deserialize)]
struct Recipient {
    to: String,
    gate: String,
}

impl Carrier {
    pub(super) fn new(
        name: &'static str,
        gating: Gating,
        clock: Arc<TestClock>,
        changed: Arc<Notify>,
    ) -> Carrier {
        let state = State {
            rule: Box::new(|_| Answer::accepted()),
            next: HashMap::new(),
            always: HashMap::new(),
            released: HashSet::new(),
            tries: Vec::new(),
        };
        Carrier { name, gating, clock, changed, release: Notify::new(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How attempts go from now on that nothing else is said about.
    pub(super) fn rule(&self, rule: impl FnMut(&Call<'_>) -> Answer + Send + 'static) {
        self.state().rule = Box::new(rule);
    }

    /// Every attempt goes like this from now on.
    pub(super) fn all(&self, answer: Answer) {
        self.rule(move |_| answer.clone());
    }

    /// How the next attempts for `id` go, one each.
    pub(super) fn next(&self, id: &str, answers: impl IntoIterator<Item = Answer>) {
        self.state().next.entry(id.to_owned()).or_default().extend(answers);
    }

    /// How every attempt for `id` goes.
    pub(super) fn always(&self, id: &str, answer: Answer) {
        self.state().always.insert(id.to_owned(), answer);
    }

    /// Lets a hanging attempt go on.
    pub(super) fn release(&self, id: &str) {
        self.state().released.insert(id.to_owned());
        self.release.notify_waiters();
    }

    /// Every attempt so far, in the order of their beginnings.
    pub(super) fn tries(&self) -> Vec<Try> {
        self.state().tries.clone()
    }

    /// Every attempt for one envelope so far.
    pub(super) fn tries_of(&self, id: &str) -> Vec<Try> {
        self.state().tries.iter().filter(|t| t.id == id).cloned().collect()
    }

    /// How many attempts began within `from..to`.
    pub(super) fn tries_within(&self, from: Duration, to: Duration) -> usize {
        self.state().tries.iter().filter(|t| (from..to).contains(&t.began)).count()
    }

    /// The ids that were accepted, in the order in which their attempts began.
    pub(super) fn accepted(&self) -> Vec<String> {
        self.state().tries.iter().filter(|t| t.is_accepted()).map(|t| t.id.clone()).collect()
    }

    fn begin(&self, envelope: &Envelope, gate: &'static str) -> (usize, Answer) {
        let mut guard = self.state();
        let state = &mut *guard;
        let id = envelope.id.as_str();
        let began = self.clock.elapsed();
        let number = state.tries.iter().filter(|t| t.id == id).count() + 1;
        let template = envelope.template.as_str().to_owned();
        state.tries.push(Try { id: id.to_owned(), gate, template, began, ended: None });
        let next = state.next.get_mut(id).and_then(VecDeque::pop_front);
        let answer = next.or_else(|| state.always.get(id).cloned());
        let answer = answer.unwrap_or_else(|| (state.rule)(&Call { id, gate, number, at: began }));
        (state.tries.len() - 1, answer)
    }

    async fn released(&self, id: &str) {
        loop {
            let released = self.release.notified();
            if self.state().released.contains(id) {
                return;
            }
            released.await;
        }
    }

    fn end(&self, index: usize, attempt: Attempt) -> Attempt {
        self.state().tries[index].ended = Some((self.clock.elapsed(), attempt.clone()));
        self.changed.notify_waiters();
        attempt
    }
}

fn label(gate: &str) -> &'static str {
    ["resend", "fcm", "mozilla", "apple"].into_iter().find(|known| *known == gate).unwrap_or("other")
}

#[async_trait]
impl Channel for Carrier {
    fn name(&self) -> ChannelName {
        ChannelName::new(self.name)
    }

    fn gating(&self) -> Gating {
        self.gating
    }

    fn redelivery_window(&self) -> Option<Duration> {
        matches!(self.gating, Gating::OneProvider(_)).then_some(Duration::from_secs(23 * 3600))
    }

    fn route(&self, envelope: &Envelope) -> Result<Route, Refusal> {
        let recipient: Recipient =
            envelope.recipient.decode().map_err(|error| error.refusal(Cause::RecipientInvalid))?;
        if recipient.to == "panic" {
            std::panic::resume_unwind(Box::new("wanted"));
        }
        Ok(Route {
            gate: GateId::new(&recipient.gate, label(&recipient.gate)),
            destination: Destination::new(&recipient.to),
        })
    }

    async fn deliver(&self, delivery: &Delivery) -> Attempt {
        let envelope = &delivery.envelope;
        let gate = self.route(envelope).unwrap().gate.label();
        let (index, answer) = self.begin(envelope, gate);
        self.changed.notify_waiters();
        if !answer.after.is_zero() {
            tokio::time::sleep(answer.after).await;
        }
        match answer.ending {
            Ending::Attempt(attempt) => self.end(index, *attempt),
            // Not `panic!`: what is wanted needs no message.
            Ending::Panic => std::panic::resume_unwind(Box::new("wanted")),
            Ending::Hang => {
                self.released(envelope.id.as_str()).await;
                let accepted = Outcome::Delivered { provider_id: None };
                self.end(index, Attempt::answered(accepted, Cause::Accepted, Detail::default()))
            }
        }
    }
}
