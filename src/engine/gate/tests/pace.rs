//! How many attempts begin at once, and how soon after each other.

use std::num::NonZeroU32;

use super::*;

/// How many attempts the gate lets begin now.
fn fill(gate: &mut Gate, now: Now) -> Vec<Ticket> {
    std::iter::from_fn(|| (gate.admits(now) == Admission::Now).then(|| gate.begin(now))).collect()
}

#[test]
fn a_gate_that_opens_lets_1_2_4_through_and_then_all() {
    let now = start();
    let mut gate = closed(EMAIL, now);
    attempt(&mut gate, &accepted(), &who(0), now);
    for expected in [1, 2, 4, 8] {
        let tickets = fill(&mut gate, now);
        assert_eq!(tickets.len(), expected);
        assert_eq!(gate.admits(now), Admission::Full);
        let (last, rest) = tickets.split_last().unwrap();
        rest.iter().for_each(|ticket| gate.abandon(*ticket));
        gate.end(*last, &accepted(), &who(1), moment(now));
    }
}

#[test]
fn a_provider_among_many_never_takes_the_last_worker() {
    let now = start();
    assert_eq!(fill(&mut gate(PUSH, 4), now).len(), 3);
    assert_eq!(fill(&mut gate(PUSH, 1), now).len(), 1, "where there is one, it is for all");
    assert_eq!(fill(&mut gate(EMAIL, 4), now).len(), 4);
}

pub(super) fn rate(rate: u32) -> NonZeroU32 {
    NonZeroU32::new(rate).unwrap()
}

/// When the first `count` attempts may begin, in milliseconds.
fn beginnings(gate: &mut Gate, count: usize, start: Now) -> Vec<u128> {
    let mut now = start;
    let mut began = Vec::new();
    while began.len() < count {
        match gate.admits(now) {
            Admission::Now => {
                began.push((now.mono - start.mono).as_millis());
                let ticket = gate.begin(now);
                gate.abandon(ticket);
            }
            Admission::At(at) => now = now.after(at - now.mono),
            other => panic!("{other:?}"),
        }
    }
    began
}

#[test]
fn a_fixed_rate_spaces_attempts_whatever_the_provider_says() {
    let now = start();
    let mut gate = gate(Gating::OneProvider(Rate::Fixed(rate(4))), 8);
    let pace = Some(Pace { limit: 100, window: seconds(1) });
    attempt(&mut gate, &accepted().at_pace(pace), &who(0), now);
    assert_eq!(beginnings(&mut gate, 4, now.after(seconds(1))), [0, 250, 500, 750]);
}

#[test]
fn a_followed_rate_starts_slow_and_then_uses_four_fifths_of_what_the_provider_says() {
    let now = start();
    let mut gate = gate(Gating::OneProvider(Rate::Follow { start: rate(2) }), 8);
    assert_eq!(beginnings(&mut gate, 3, now), [0, 500, 1000]);
    let later = now.after(seconds(5));
    attempt(&mut gate, &accepted().at_pace(Some(Pace { limit: 10, window: seconds(1) })), &who(0), later);
    assert_eq!(beginnings(&mut gate, 4, now.after(seconds(9))), [0, 125, 250, 375]);
    attempt(&mut gate, &accepted().at_pace(None), &who(0), now.after(seconds(20)));
    assert_eq!(
        beginnings(&mut gate, 2, now.after(seconds(30))),
        [0, 125],
        "an answer without it forgets nothing"
    );
}

#[test]
fn idle_time_buys_no_burst() {
    let now = start();
    let mut gate = gate(Gating::OneProvider(Rate::Fixed(rate(2))), 8);
    beginnings(&mut gate, 1, now);
    assert_eq!(beginnings(&mut gate, 3, now.after(seconds(60))), [0, 500, 1000]);
}

#[test]
fn without_a_rate_attempts_begin_as_fast_as_workers_can() {
    assert_eq!(beginnings(&mut gate(EMAIL, 8), 3, start()), [0, 0, 0]);
}

#[test]
fn a_rate_limit_holds_the_whole_gate_at_least_a_second_and_closes_nothing() {
    let now = start();
    for (asked, held) in [(None, 1), (Some(0), 1), (Some(120), 120)] {
        let mut gate = gate(EMAIL, 8);
        let limited = pause(Scope::Provider, Cause::RateLimited, asked.map(seconds));
        assert_eq!(attempt(&mut gate, &limited, &who(0), now), None);
        assert_eq!(gate.admits(now), Admission::At(now.mono + seconds(held)));
        assert_eq!(gate.closed(), None);
        assert_eq!(gate.admits(now.after(seconds(held))), Admission::Now);
    }
}

#[test]
fn a_second_rate_limit_never_shortens_the_first() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    let (first, second) = (gate.begin(now), gate.begin(now));
    let limited = |wait| pause(Scope::Provider, Cause::RateLimited, Some(seconds(wait)));
    gate.end(first, &limited(60), &who(0), moment(now));
    gate.end(second, &limited(5), &who(1), moment(now));
    assert_eq!(gate.held_until(), Some(now.mono + seconds(60)));
}

#[test]
fn three_throttled_destinations_hold_their_origin() {
    let now = start();
    let mut gate = gate(PUSH, 8);
    let throttled = pause(Scope::Destination, Cause::RateLimited, Some(seconds(120)));
    for (envelope, destination) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        attempt(&mut gate, &throttled, &of(envelope, destination), now);
        assert_eq!(gate.admits(now), Admission::Now);
    }
    attempt(&mut gate, &throttled, &of(4, 2), now);
    assert_eq!(gate.admits(now), Admission::At(now.mono + seconds(120)));
    assert_eq!(gate.closed(), None);
}

#[test]
fn a_run_remembers_no_more_suspects_than_it_needs() {
    let now = start();
    let mut gate = gate(PUSH, 8);
    for n in 0..1_000 {
        attempt(&mut gate, &pause(Scope::Destination, Cause::RateLimited, None), &who(n), now);
    }
    assert_eq!(gate.runs.iter().map(|run| run.suspects.len()).sum::<usize>(), STREAK_LIMIT);
}
