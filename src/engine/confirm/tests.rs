//! The order and the number of the questions, against a provider that lists newest first.

use proptest::prelude::*;

use super::*;
use crate::channel::confirm::LISTED;

const WINDOW: Duration = Duration::from_secs(600);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Id, when it was accepted, and when its fate is known.
type Mail = (String, Duration, Option<(Duration, Fate)>);

/// A provider in memory: what it accepted, and from when on it knows what became of it.
struct Provider {
    start: Now,
    /// In the order of acceptance.
    mails: Vec<Mail>,
    requests: Vec<(Duration, Question)>,
}

impl Provider {
    fn new() -> Provider {
        let start = Now { mono: Instant::now(), wall: "2026-08-03T06:00:00Z".parse().unwrap() };
        Provider { start, mails: Vec::new(), requests: Vec::new() }
    }

    fn at(&self, at: Duration) -> Now {
        Now { mono: self.start.mono + at, wall: self.start.wall + at }
    }

    fn accept(&mut self, id: &str, at: Duration, fate: Option<(Duration, Fate)>) -> MessageId {
        self.mails.push((id.to_owned(), at, fate));
        MessageId::new(id)
    }

    fn told(&self, index: usize, at: Duration) -> Told {
        let (id, accepted, fate) = &self.mails[index];
        let fate = fate.filter(|(known, _)| *known <= at).map_or(Fate::Open, |(_, fate)| fate);
        Told { message: MessageId::new(id), accepted_at: Some(self.start.wall + *accepted), fate }
    }

    fn answer(&mut self, question: &Question, at: Duration) -> Said {
        self.requests.push((at, question.clone()));
        match question {
            Question::One(message) => {
                let index = self.mails.iter().position(|(id, ..)| id == message.as_str());
                Said::Messages {
                    listed: index.map(|index| self.told(index, at)).into_iter().collect(),
                    more: false,
                }
            }
            Question::Newest { after } => {
                let end = match after {
                    None => self.mails.len(),
                    Some(after) => self.mails.iter().position(|(id, ..)| id == after.as_str()).unwrap(),
                };
                let begin = end.saturating_sub(LISTED);
                let listed = (begin..end).rev().map(|index| self.told(index, at)).collect();
                Said::Messages { listed, more: begin > 0 }
            }
        }
    }

    /// Asks and answers until `until`, second by second; who got a final word, and when.
    fn run(
        &mut self,
        asked: &mut Confirmations,
        from: Duration,
        until: Duration,
    ) -> Vec<(Key, Fate, Duration)> {
        let mut known = Vec::new();
        let mut at = from;
        while at <= until {
            while let Some(question) = asked.question(self.at(at)) {
                let said = self.answer(&question, at);
                for (key, fate) in asked.heard(&said, self.at(at)) {
                    asked.forget(key);
                    known.push((key, fate, at));
                }
            }
            at += secs(1);
        }
        known
    }
}

/// `count` mails accepted at once, of which nothing is known before `known`.
fn waiting(count: u64, known: Option<(Duration, Fate)>) -> (Provider, Confirmations) {
    let mut provider = Provider::new();
    let mut asked = Confirmations::new(Some(WINDOW));
    for n in 0..count {
        let message = provider.accept(&format!("m-{n}"), Duration::ZERO, known);
        asked.wait_for(Key::of(n), message, provider.at(Duration::ZERO));
    }
    (provider, asked)
}

#[test]
fn a_mail_that_arrives_at_once_costs_one_request() {
    let (mut provider, mut asked) = waiting(1, Some((secs(2), Fate::Delivered)));
    let known = provider.run(&mut asked, Duration::ZERO, WINDOW);
    assert_eq!(known, [(Key::of(0), Fate::Delivered, secs(3))]);
    assert_eq!(provider.requests.len(), 1);
    assert_eq!((asked.len(), asked.next_change()), (0, None));
}

/// What the questions cost, as the README states it: the requests of ten minutes in which nothing becomes known, and
/// of the first of them.
#[test]
fn requests_grow_with_the_hundreds_and_not_with_the_mails() {
    for (count, first_minute, all) in [(1, 6, 16), (100, 6, 16), (250, 12, 42)] {
        let (mut provider, mut asked) = waiting(count, None);
        provider.run(&mut asked, Duration::ZERO, WINDOW);
        let within = |end| provider.requests.iter().filter(|(at, _)| *at < end).count();
        assert_eq!((within(secs(60)), within(WINDOW)), (first_minute, all), "{count} waiting");
        assert!(provider.requests.iter().all(|(_, question)| matches!(question, Question::Newest { .. })));
    }
}

#[test]
fn a_steady_stream_is_asked_about_every_five_seconds_and_no_oftener() {
    let mut provider = Provider::new();
    let mut asked = Confirmations::new(Some(WINDOW));
    for second in 0..600 {
        let at = secs(second);
        let message = provider.accept(&format!("m-{second}"), at, Some((at + secs(2), Fate::Delivered)));
        asked.wait_for(Key::of(second), message, provider.at(at));
        provider.run(&mut asked, at, at);
    }
    assert!((118..=122).contains(&provider.requests.len()), "{}", provider.requests.len());
    assert!(asked.len() <= 7, "{} wait", asked.len());
}

#[test]
fn the_list_is_read_only_as_far_back_as_the_oldest_that_is_waited_for() {
    let mut provider = Provider::new();
    for n in 0..5000 {
        provider.accept(&format!("old-{n}"), Duration::ZERO, None);
    }
    let mut asked = Confirmations::new(Some(WINDOW));
    let message = provider.accept("m", secs(1000), None);
    asked.wait_for(Key::of(1), message, provider.at(secs(1000)));
    for n in 0..150 {
        provider.accept(&format!("new-{n}"), secs(1001), None);
    }
    provider.run(&mut asked, secs(1003), secs(1003));
    assert_eq!(provider.requests.len(), 2, "{:?}", provider.requests);
}

#[test]
fn a_mail_that_no_list_shows_is_asked_for_alone_and_never_more_than_a_few_of_them() {
    let (mut provider, mut asked) = waiting(8, None);
    let hidden: Vec<_> = provider.mails.drain(..).collect();
    provider.accept("another", secs(1), None);
    let (list, singles) = {
        provider.run(&mut asked, Duration::ZERO, secs(3));
        provider
            .requests
            .iter()
            .partition::<Vec<_>, _>(|(_, question)| matches!(question, Question::Newest { .. }))
    };
    assert_eq!((list.len(), singles.len()), (1, SINGLES));
    assert_eq!(asked.len(), 8, "one that is not known is waited for all the same");
    provider.mails = hidden;
    provider.mails[0].2 = Some((secs(1), Fate::Bounced));
    let known = provider.run(&mut asked, secs(4), secs(60));
    assert_eq!(known, [(Key::of(0), Fate::Bounced, secs(23))]);
}

#[test]
fn the_window_ends_the_wait_and_so_does_a_lack_of_room_for_the_oldest() {
    let (provider, mut asked) = waiting(3, None);
    assert_eq!(asked.enough(3, true, provider.at(secs(599))), []);
    assert_eq!(
        asked.enough(1, true, provider.at(secs(1))),
        [(Key::of(0), Enough::Room), (Key::of(1), Enough::Room)]
    );
    let all: Vec<_> = (0..3).map(|n| (Key::of(n), Enough::Window)).collect();
    assert_eq!(asked.enough(3, true, provider.at(WINDOW)), all);
    asked.forget(Key::of(0));
    assert_eq!(asked.enough(3, true, provider.at(WINDOW)).len(), 2);
}

/// After a restart the same mail is accepted anew; when it was really accepted the provider tells.
#[test]
fn a_mail_that_an_earlier_process_sent_does_not_wait_its_whole_window_again() {
    let mut provider = Provider::new();
    let message = provider.accept("m", Duration::ZERO, None);
    let mut asked = Confirmations::new(Some(WINDOW));
    asked.wait_for(Key::of(1), message, provider.at(secs(590)));
    provider.run(&mut asked, secs(590), secs(595));
    assert_eq!(asked.enough(9, true, provider.at(secs(599))), []);
    assert_eq!(asked.enough(9, true, provider.at(secs(600))), [(Key::of(1), Enough::Window)]);
}

#[test]
fn failures_put_the_rounds_further_apart_and_a_wait_that_is_asked_for_is_kept() {
    let (provider, mut asked) = waiting(1, None);
    let mut at = secs(3);
    let mut waits = Vec::new();
    for _ in 0..4 {
        assert!(asked.question(provider.at(at)).is_some());
        asked.heard(&Said::Nothing(crate::outcome::Cause::ServerError), provider.at(at));
        let next = asked.due().unwrap() - provider.start.mono;
        waits.push((next - at).as_secs());
        at = next;
    }
    assert_eq!(waits, [5, 20, 80, 300]);
    assert!(asked.question(provider.at(at)).is_some());
    asked.heard(&Said::Later { after: Some(secs(77)) }, provider.at(at));
    assert_eq!(asked.due(), Some(provider.at(at + secs(77)).mono));
}

proptest! {
    /// Whatever becomes of them and when: whoever has a final word within the window is told of it before its end,
    /// once, as it is, and the rounds keep their distance.
    #[test]
    fn every_final_word_is_heard_in_time(mails in proptest::collection::vec((0u64..300, 0u64..120, 0usize..6), 1..150)) {
        let fates = [Fate::Delivered, Fate::Bounced, Fate::Complained, Fate::Suppressed, Fate::Failed, Fate::Open];
        let mut mails = mails;
        mails.sort_unstable();
        let mut provider = Provider::new();
        let mut asked = Confirmations::new(Some(WINDOW));
        let mut known = Vec::new();
        let mut next = 0;
        for second in 0..900 {
            while let Some((at, later, fate)) = mails.get(next).copied().filter(|(at, ..)| *at == second) {
                let fate = Some((secs(at + later), fates[fate])).filter(|(_, fate)| *fate != Fate::Open);
                let message = provider.accept(&format!("m-{next}"), secs(at), fate);
                asked.wait_for(Key::of(next as u64), message, provider.at(secs(at)));
                next += 1;
            }
            known.extend(provider.run(&mut asked, secs(second), secs(second)));
        }
        for (index, (_, at, fate)) in provider.mails.iter().enumerate() {
            let heard: Vec<_> = known.iter().filter(|(key, ..)| *key == Key::of(index as u64)).collect();
            match fate {
                None => prop_assert!(heard.is_empty()),
                Some((_, fate)) => {
                    prop_assert_eq!(heard.len(), 1);
                    prop_assert_eq!(heard[0].1, *fate);
                    prop_assert!(heard[0].2 < *at + WINDOW);
                }
            }
        }
        let rounds: Vec<_> = provider.requests.iter().filter(|(_, q)| *q == Question::Newest { after: None }).collect();
        prop_assert!(rounds.windows(2).all(|pair| pair[1].0 - pair[0].0 >= A_QUESTION));
    }
}
