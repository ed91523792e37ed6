//! When acks are posted, what is remembered of them, and when the seam's gate is shut.

use proptest::prelude::*;

use super::*;
use crate::outcome::Detail;

const BASE: Duration = Duration::from_secs(2);
const REFUSED: Duration = Duration::from_secs(900);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn id(name: &str) -> EnvelopeId {
    EnvelopeId::new(name).unwrap()
}

fn acks() -> Acks {
    Acks::new(BASE, REFUSED)
}

fn ack() -> Ack {
    Ack { status: AckStatus::Delivered, detail: Detail::default() }
}

fn decision(at: Instant) -> Decision {
    Decision { ack: ack(), cause: Cause::Accepted, first_listed: at, trace: Trace::default() }
}

fn with(names: &[&str], now: Instant) -> Acks {
    let mut acks = acks();
    names.iter().for_each(|name| acks.push(id(name), decision(now), now));
    acks
}

/// Takes all that is due, as posts that have begun.
fn due(acks: &mut Acks, now: Instant) -> Vec<String> {
    std::iter::from_fn(|| acks.take_due(now)).map(|(id, ..)| id.to_string()).collect()
}

/// Settles `name` at `now`, through an ack of its own.
fn settled(acks: &mut Acks, name: &str, now: Instant) {
    acks.push(id(name), decision(now), now);
    due(acks, now);
    assert!(acks.settle(&id(name), now).is_some());
}

#[test]
fn an_ack_is_due_at_once_and_posted_by_one_alone() {
    let now = Instant::now();
    let mut acks = with(&["a", "b"], now);
    assert_eq!(acks.next_due(), Some(now));
    assert_eq!(due(&mut acks, now), ["a", "b"]);
    assert!(due(&mut acks, now + REFUSED).is_empty(), "both are being posted");
    assert_eq!((acks.next_due(), acks.count()), (None, 2));
}

#[test]
fn acks_are_posted_in_the_order_they_are_due() {
    let now = Instant::now();
    let mut acks = acks();
    for (name, wait) in [("third", 3), ("first", 1), ("second", 2)] {
        acks.push(id(name), decision(now), now + seconds(wait));
    }
    assert_eq!(due(&mut acks, now + seconds(2)), ["first", "second"]);
    assert_eq!(acks.next_due(), Some(now + seconds(3)));
}

#[test]
fn a_failing_ack_is_tried_at_least_every_30_seconds_but_for_jitter() {
    let mut now = Instant::now();
    let mut acks = with(&["a"], now);
    let mut waits = Vec::new();
    for _ in 0..6 {
        assert_eq!(due(&mut acks, now), ["a"]);
        let wait = acks.fail(&id("a"), false, now, 0.0);
        assert!(due(&mut acks, now + wait - Duration::from_millis(1)).is_empty(), "not before its time");
        waits.push(wait.as_secs());
        now += wait;
    }
    assert_eq!(waits, [2, 8, 30, 30, 30, 30]);
}

#[test]
fn an_ack_refused_for_good_is_tried_rarely_and_counted() {
    let now = Instant::now();
    let mut acks = with(&["a"], now);
    due(&mut acks, now);
    assert_eq!(acks.fail(&id("a"), true, now, 0.0), REFUSED);
    assert_eq!((acks.refused(), acks.count()), (1, 1));
    assert!(acks.is_flushed(), "a stop does not wait for it");
    assert_eq!(due(&mut acks, now + REFUSED), ["a"], "it is tried all the same");
    assert_eq!(acks.refused(), 0, "while it is posted it may get through");
}

#[test]
fn hurry_brings_forward_what_failed_but_not_what_was_refused() {
    let now = Instant::now();
    let mut acks = with(&["failed", "refused", "posting"], now);
    due(&mut acks, now);
    acks.fail(&id("failed"), false, now, 0.0);
    acks.fail(&id("refused"), true, now, 0.0);
    acks.hurry(now);
    assert_eq!(due(&mut acks, now), ["failed"]);
}

#[test]
fn a_flush_tries_each_at_once_and_then_every_second() {
    let now = Instant::now();
    let mut acks = with(&["failed", "refused", "posting"], now);
    due(&mut acks, now);
    acks.fail(&id("failed"), false, now, 0.0);
    acks.fail(&id("refused"), true, now, 0.0);
    acks.flush(now);
    assert!(!acks.is_flushed());
    assert_eq!(due(&mut acks, now), ["failed", "refused"]);
    for _ in 0..5 {
        assert_eq!(acks.fail(&id("failed"), false, now, 1.0), seconds(1));
    }
    acks.fail(&id("refused"), true, now, 0.0);
    assert!(!acks.is_flushed());
    acks.settle(&id("failed"), now);
    acks.settle(&id("posting"), now);
    assert!(acks.is_flushed(), "only what the seam refuses is left");
}

#[test]
fn what_got_through_is_told_once_with_its_decision() {
    let now = Instant::now();
    let mut acks = with(&["a"], now);
    due(&mut acks, now);
    let done = acks.settle(&id("a"), now + BASE).unwrap();
    assert_eq!((done.ack, done.first_listed), (ack(), now));
    assert!(acks.settle(&id("a"), now).is_none());
    assert!(!acks.contains(&id("a")));
    assert_eq!(acks.fail(&id("a"), false, now, 0.0), Duration::ZERO);
    assert_eq!((acks.count(), acks.next_due()), (0, None), "an answer that comes twice revives nothing");
}

#[test]
fn a_page_requested_before_the_ack_was_answered_is_no_news() {
    let now = Instant::now();
    let mut acks = acks();
    assert_eq!(acks.recall(&id("a"), now, now), Memory::Unknown);
    settled(&mut acks, "a", now);
    for requested in [now - BASE, now] {
        assert_eq!(acks.recall(&id("a"), requested, now + seconds(60)), Memory::Settled);
    }
}

#[test]
fn a_page_requested_later_brings_the_ack_again_with_growing_backoff() {
    let mut now = Instant::now();
    let mut acks = acks();
    settled(&mut acks, "a", now);
    for wait in [0, 2, 8, 30, 30] {
        let early = now + seconds(wait);
        assert_eq!(acks.recall(&id("a"), early, early - Duration::from_millis(1)), Memory::Settled);
        now = early + Duration::from_millis(1);
        assert_eq!(acks.recall(&id("a"), now, now), Memory::Relisted(AckStatus::Delivered));
        acks.repeat(&id("a"), now);
        assert!(acks.contains(&id("a")));
        assert_eq!(due(&mut acks, now), ["a"]);
        let done = acks.settle(&id("a"), now).unwrap();
        assert_eq!(done.cause, Cause::Accepted, "the cause is remembered");
    }
}

#[test]
fn the_memory_holds_a_hundred_thousand_and_forgets_the_oldest() {
    let now = Instant::now();
    let mut acks = acks();
    for n in 0..=REMEMBERED {
        let id = id(&n.to_string());
        acks.push(id.clone(), decision(now), now);
        acks.settle(&id, now);
    }
    assert_eq!(acks.settled.len(), REMEMBERED);
    assert_eq!(acks.recall(&id("0"), now, now), Memory::Unknown);
    assert_eq!(acks.recall(&id("1"), now, now), Memory::Settled);
}

#[derive(Debug, Clone)]
enum Step {
    Push(u8),
    Take,
    Settle(u8),
    Fail(u8, bool),
    Hurry,
    Flush,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..6).prop_map(Step::Push),
        6 => Just(Step::Take),
        2 => (0_u8..6).prop_map(Step::Settle),
        4 => (0_u8..6, any::<bool>()).prop_map(|(which, for_good)| Step::Fail(which, for_good)),
        1 => Just(Step::Hurry),
        1 => Just(Step::Flush),
        3 => (0_u64..60).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_ack_is_lost_nor_posted_twice_at_once(steps in proptest::collection::vec(step(), 1..80)) {
        let mut now = Instant::now();
        let mut acks = acks();
        let (mut open, mut posting) = (BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Push(n) if !open.contains(&n) => {
                    acks.push(id(&n.to_string()), decision(now), now);
                    open.insert(n);
                }
                Step::Take => {
                    if let Some((id, ..)) = acks.take_due(now) {
                        let fresh = posting.insert(id.as_str().parse::<u8>().unwrap());
                        prop_assert!(fresh, "{id} is being posted already");
                    }
                }
                Step::Settle(n) if posting.remove(&n) => {
                    open.remove(&n);
                    acks.settle(&id(&n.to_string()), now);
                }
                Step::Fail(n, for_good) if posting.remove(&n) => {
                    acks.fail(&id(&n.to_string()), for_good, now, 0.5);
                }
                Step::Push(_) | Step::Settle(_) | Step::Fail(..) => {}
                Step::Hurry => acks.hurry(now),
                Step::Flush => acks.flush(now),
                Step::Wait(wait) => now += seconds(wait),
            }
            let due: BTreeSet<u8> = acks.due.iter().map(|(_, id)| id.as_str().parse().unwrap()).collect();
            prop_assert_eq!(due.len(), acks.due.len(), "each is due once");
            prop_assert_eq!(due, open.difference(&posting).copied().collect());
            prop_assert_eq!(acks.count(), open.len());
        }
    }
}

#[test]
fn the_acks_of_three_different_envelopes_shut_the_seams_gate() {
    let mut gate = SeamGate::default();
    for name in ["a", "b", "a", "b"] {
        assert!(!gate.failed(&id(name)));
    }
    assert!(gate.failed(&id("c")));
    assert!(gate.is_blocked());
    assert!(!gate.failed(&id("d")), "it closes once");
}

#[test]
fn an_ack_that_gets_through_opens_it_and_forgets_what_failed() {
    let mut gate = SeamGate::default();
    assert!(!gate.passed(), "it was open");
    for name in ["a", "b", "c"] {
        gate.failed(&id(name));
    }
    assert!(gate.passed());
    assert!(!gate.is_blocked());
    for name in ["d", "e"] {
        assert!(!gate.failed(&id(name)));
    }
    gate.passed();
    assert!(!gate.failed(&id("f")), "no success between is what counts");
}

#[test]
fn an_ack_refused_for_good_does_not_keep_it_shut() {
    let mut gate = SeamGate::default();
    for name in ["a", "b", "c"] {
        gate.failed(&id(name));
    }
    assert!(!gate.refused(&id("a")));
    assert!(!gate.refused(&id("a")));
    assert!(!gate.refused(&id("b")));
    assert!(gate.is_blocked(), "one still fails");
    assert!(gate.refused(&id("c")));
    assert!(!gate.is_blocked());
    assert!(!gate.refused(&id("d")), "it is open");
}

#[test]
fn a_refused_ack_is_none_of_the_three() {
    let mut gate = SeamGate::default();
    gate.failed(&id("a"));
    gate.failed(&id("b"));
    gate.refused(&id("a"));
    assert!(!gate.failed(&id("c")));
}
