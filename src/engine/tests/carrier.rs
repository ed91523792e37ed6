//! A channel in memory: it carries nothing, answers as it is told, and keeps a journal.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use tokio::sync::Notify;

use super::clock::TestClock;
use crate::channel::confirm::{Confirmer, Confirming, Fate, LISTED, Question, Reply, Said, Told};
use crate::channel::{Attempt, Channel, Delivery, Destination, GateId, Gating, Pace, Route};
use crate::envelope::{ChannelName, Envelope};
use crate::outcome::{Cause, Detail, MessageId, Outcome, Refusal, Scope};

/// A provider knows a key again for so long after it first took a message with it.
const KEY_LIFE: Duration = Duration::from_secs(24 * 3600);

/// How an attempt goes.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    after: Duration,
    ending: Ending,
    takes: bool,
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
        let takes = matches!(attempt.outcome, Outcome::Delivered { .. });
        Answer { takes, ..Answer::ending(Ending::Attempt(Box::new(attempt))) }
    }

    fn ending(ending: Ending) -> Answer {
        Answer { after: Duration::ZERO, ending, takes: false }
    }

    /// The same, but the provider takes the message whatever it answers.
    pub(super) fn though_taken(self) -> Answer {
        Answer { takes: true, ..self }
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
        Answer::ending(Ending::Hang).though_taken()
    }

    /// Whether the provider has looked at the message itself to say so.
    fn is_about_the_message(&self) -> bool {
        matches!(&self.ending, Ending::Attempt(a) if a.outcome == Outcome::Failed)
    }

    pub(super) fn panic() -> Answer {
        Answer::ending(Ending::Panic)
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
    /// When the provider took a message that it did not have yet.
    pub(super) taken: Option<Duration>,
}

impl Try {
    pub(super) fn is_accepted(&self) -> bool {
        self.ended.as_ref().is_some_and(|(_, attempt)| attempt.outcome.is_acceptance())
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

/// One message that a provider with a list has taken.
#[derive(Debug, Clone)]
struct Message {
    id: String,
    envelope: String,
    taken: Duration,
}

/// One question, as the provider saw it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) at: Duration,
    pub(super) question: Question,
    /// Whether it was answered with what is true.
    pub(super) truly: bool,
}

/// What a provider with a list says in the place of the truth when it is asked, at a time.
type Says = Box<dyn FnMut(&Question, Duration) -> Option<Said> + Send>;

type Rule = Box<dyn FnMut(&Call<'_>) -> Answer + Send>;

struct State {
    rule: Rule,
    next: HashMap<String, VecDeque<Answer>>,
    always: HashMap<String, Answer>,
    released: HashSet<String>,
    tries: Vec<Try>,
    numbers: HashMap<String, usize>,
    /// When each message was first taken: the provider knows its key for a day from then.
    keys: HashMap<String, Duration>,
    sending: usize,
    messages: Vec<Message>,
    /// What becomes of an envelope's message, and how long after it was taken that is known.
    fates: HashMap<String, (Duration, Fate)>,
    /// What is said in the place of the truth.
    says: Says,
    questions: Vec<Asked>,
    /// How long an answer to a question takes.
    asks_take: Duration,
}

/// The channel of one lane.
pub(super) struct Carrier {
    name: &'static str,
    gating: Gating,
    clock: Arc<TestClock>,
    changed: Arc<Notify>,
    release: Notify,
    state: Arc<Mutex<State>>,
    /// How long the last word is waited for, where its provider's yes is not that.
    confirming: Option<Duration>,
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
        confirming: Option<Duration>,
        clock: Arc<TestClock>,
        changed: Arc<Notify>,
    ) -> Carrier {
        let state = State {
            rule: Box::new(|_| Answer::accepted()),
            next: HashMap::new(),
            always: HashMap::new(),
            released: HashSet::new(),
            tries: Vec::new(),
            numbers: HashMap::new(),
            keys: HashMap::new(),
            sending: 0,
            messages: Vec::new(),
            fates: HashMap::new(),
            says: Box::new(|_, _| None),
            questions: Vec::new(),
            asks_take: Duration::ZERO,
        };
        let state = Arc::new(Mutex::new(state));
        Carrier { name, gating, clock, changed, release: Notify::new(), state, confirming }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What becomes of the message of `id`, and how long after it was taken that is known.
    pub(super) fn fate(&self, id: &str, after: Duration, fate: Fate) {
        self.state().fates.insert(id.to_owned(), (after, fate));
    }

    /// What is said to a question in the place of the truth, from now on.
    pub(super) fn says(&self, says: impl FnMut(&Question, Duration) -> Option<Said> + Send + 'static) {
        self.state().says = Box::new(says);
    }

    /// How long an answer to a question takes from now on.
    pub(super) fn asks_take(&self, time: Duration) {
        self.state().asks_take = time;
    }

    /// Every question so far.
    pub(super) fn questions(&self) -> Vec<Asked> {
        self.state().questions.clone()
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

    /// Whether an attempt is on its way.
    pub(super) fn is_sending(&self) -> bool {
        self.state().sending > 0
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
        let number = *state.numbers.entry(id.to_owned()).and_modify(|n| *n += 1).or_insert(1);
        let template = envelope.template.as_str().to_owned();
        state.tries.push(Try { id: id.to_owned(), gate, template, began, ended: None, taken: None });
        state.sending += 1;
        let next = state.next.get_mut(id).and_then(VecDeque::pop_front);
        let answer = next.or_else(|| state.always.get(id).cloned());
        let mut answer = answer.unwrap_or_else(|| (state.rule)(&Call { id, gate, number, at: began }));
        if self.has_keys() && state.knows(id, began) && answer.is_about_the_message() {
            answer = Answer::accepted().after(answer.after);
        }
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

    /// A provider with keys answers a key that it knows as it did first, and has no second message.
    fn has_keys(&self) -> bool {
        matches!(self.gating, Gating::OneProvider(_))
    }
}

impl State {
    /// The id of the message of this attempt, which is taken as the exchange ends unless it was before.
    fn message_now(&self, index: usize, now: Duration) -> String {
        let envelope = &self.tries[index].id;
        let known = self.messages.iter().rev().find(|message| message.envelope == *envelope);
        match known.filter(|_| self.knows(envelope, now)) {
            Some(message) => message.id.clone(),
            None => format!("m-{}", self.messages.len()),
        }
    }

    fn told(&self, message: &Message, now: Duration, start: DateTime<Utc>) -> Told {
        let fate =
            self.fates.get(&message.envelope).copied().unwrap_or((Duration::from_secs(2), Fate::Delivered));
        let known = message.taken + fate.0 <= now;
        Told {
            message: MessageId::new(&message.id),
            accepted_at: Some(start + message.taken),
            fate: if known { fate.1 } else { Fate::Open },
        }
    }

    fn knows(&self, key: &str, now: Duration) -> bool {
        self.keys.get(key).is_some_and(|first| now < *first + KEY_LIFE)
    }
}

/// One exchange with the provider. What it takes it takes even where nobody waits for its answer any more.
struct Exchange<'a> {
    carrier: &'a Carrier,
    index: usize,
    takes: bool,
    ended: Option<Attempt>,
}

impl Exchange<'_> {
    /// Where the last word is still to come, a yes names the message that it is about: the one that was taken
    /// with this key.
    fn end(mut self, attempt: Attempt) -> Attempt {
        let confirming = self.carrier.confirming.is_some();
        let attempt = match attempt.outcome {
            Outcome::Delivered { .. } if confirming => {
                let message = self.carrier.state().message_now(self.index, self.carrier.clock.elapsed());
                Attempt { outcome: Outcome::Accepted { message: MessageId::new(&message) }, ..attempt }
            }
            _ => attempt,
        };
        self.ended = Some(attempt.clone());
        attempt
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let now = self.carrier.clock.elapsed();
        let mut guard = self.carrier.state();
        let state = &mut *guard;
        state.sending -= 1;
        let this = &mut state.tries[self.index];
        this.ended = self.ended.take().map(|attempt| (now, attempt));
        let id = this.id.clone();
        if self.takes && !(self.carrier.has_keys() && state.knows(&id, now)) {
            state.tries[self.index].taken = Some(now);
            let number = state.messages.len();
            state.messages.push(Message { id: format!("m-{number}"), envelope: id.clone(), taken: now });
            state.keys.insert(id, now);
        }
        self.carrier.changed.notify_waiters();
    }
}

fn label(gate: &str) -> &'static str {
    ["resend", "fcm", "mozilla", "apple"].into_iter().find(|known| *known == gate).unwrap_or("other")
}

/// A provider's list of what it has taken.
struct List {
    state: Arc<Mutex<State>>,
    clock: Arc<TestClock>,
    changed: Arc<Notify>,
    window: Duration,
}

#[async_trait]
impl Confirmer for List {
    fn window(&self) -> Duration {
        self.window
    }

    async fn ask(&self, question: &Question) -> Reply {
        let (said, takes) = self.answer(question);
        tokio::time::sleep(takes).await;
        Reply { said, pace: None }
    }
}

impl List {
    fn answer(&self, question: &Question) -> (Said, Duration) {
        let now = self.clock.elapsed();
        let mut guard = self.state.lock().unwrap();
        let state = &mut *guard;
        self.changed.notify_waiters();
        let other = (state.says)(question, now);
        state.questions.push(Asked { at: now, question: question.clone(), truly: other.is_none() });
        let (start, takes) = (self.clock.truth(Duration::ZERO), state.asks_take);
        let said = other.unwrap_or_else(|| match question {
            Question::One(message) => {
                let found = state.messages.iter().find(|it| it.id == message.as_str());
                Said::Messages {
                    listed: found.map(|it| state.told(it, now, start)).into_iter().collect(),
                    more: false,
                }
            }
            Question::Newest { after } => {
                let end = after
                    .as_ref()
                    .and_then(|after| state.messages.iter().position(|it| it.id == after.as_str()));
                let end = end.unwrap_or(state.messages.len());
                let begin = end.saturating_sub(LISTED);
                let listed =
                    state.messages[begin..end].iter().rev().map(|it| state.told(it, now, start)).collect();
                Said::Messages { listed, more: begin > 0 }
            }
        });
        (said, takes)
    }
}

#[async_trait]
impl Channel for Carrier {
    fn name(&self) -> ChannelName {
        ChannelName::new(self.name)
    }

    fn gating(&self) -> Gating {
        self.gating
    }

    fn confirming(&self) -> Confirming {
        let window = self.confirming?;
        let (state, clock, changed) = (self.state.clone(), self.clock.clone(), self.changed.clone());
        Some(Arc::new(List { state, clock, changed, window }))
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
        let exchange = Exchange { carrier: self, index, takes: answer.takes, ended: None };
        self.changed.notify_waiters();
        if !answer.after.is_zero() {
            tokio::time::sleep(answer.after).await;
        }
        match answer.ending {
            Ending::Attempt(attempt) => exchange.end(*attempt),
            // Not `panic!`: what is wanted needs no message.
            Ending::Panic => std::panic::resume_unwind(Box::new("wanted")),
            Ending::Hang => {
                self.released(envelope.id.as_str()).await;
                let accepted = Outcome::Delivered { provider_id: None };
                exchange.end(Attempt::answered(accepted, Cause::Accepted, Detail::default()))
            }
        }
    }
}
