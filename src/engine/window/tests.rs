//! How much is asked for and how soon, with counts in place of pages.

use proptest::prelude::*;

use super::*;
use crate::outcome::Cause;

const INTERVAL: Duration = Duration::from_secs(5);
/// The draw that leaves a poll interval as it is.
const MIDDLE: f64 = 0.5;

fn window(size: u16) -> Window {
    Window::new(size, INTERVAL)
}

fn tally(listed: usize, new_due: usize, dead: usize) -> Tally {
    Tally { listed, new_due, dead }
}

/// One poll that holds and wants so much and brings a full page with this many new ones.
fn full_page(window: &mut Window, (held, want): (usize, usize), new_due: usize, now: Instant) -> u16 {
    let request = window.begin(held, want, now);
    window.arrived(request, tally(request.limit.into(), new_due, 0), now, MIDDLE);
    request.limit
}

#[test]
fn it_asks_for_all_that_takes_places_and_for_what_workers_can_use() {
    let now = Instant::now();
    let mut window = window(500);
    let request = window.begin(10, 16, now);
    assert_eq!((request.limit, request.held), (26, 10));
    window.arrived(request, tally(12, 0, 2), now, MIDDLE);
    let request = window.begin(10, 16, now);
    assert_eq!((request.limit, request.held), (28, 12), "what is nobody's takes places too");
}

#[test]
fn it_asks_for_one_at_least_and_for_its_size_at_most() {
    let now = Instant::now();
    assert_eq!(window(500).begin(0, 0, now).limit, 1);
    assert_eq!(window(500).begin(490, 128, now).limit, 500);
    assert_eq!(window(500).begin(100_000, 1, now).limit, 500);
    assert_eq!(window(1).begin(0, 16, now).limit, 1);
}

#[test]
fn workers_want_eight_each_ahead_of_what_is_ready_and_one_at_least() {
    assert_eq!(Window::want(4, 0), 32);
    assert_eq!(Window::want(4, 10), 22);
    assert_eq!(Window::want(4, 32), 1);
    assert_eq!(Window::want(4, 500), 1);
}

#[test]
fn a_full_page_that_brings_nothing_doubles_the_next_limit() {
    let now = Instant::now();
    let mut window = window(500);
    let limits: Vec<u16> = (0..7).map(|_| full_page(&mut window, (0, 16), 0, now)).collect();
    assert_eq!(limits, [16, 32, 64, 128, 256, 500, 500]);
    full_page(&mut window, (0, 16), 1, now);
    assert_eq!(window.begin(0, 16, now).limit, 16, "work in sight ends it");
}

#[test]
fn a_page_that_is_not_full_shows_everything() {
    let now = Instant::now();
    let mut window = window(500);
    full_page(&mut window, (0, 16), 0, now);
    assert!(window.is_full());
    let request = window.begin(0, 16, now);
    window.arrived(request, tally(31, 0, 0), now, MIDDLE);
    assert!(!window.is_full());
    assert_eq!(window.begin(0, 16, now).limit, 16);
}

#[test]
fn the_first_poll_is_at_once() {
    assert_eq!(window(500).next_poll(Short::No, false), None);
}

#[test]
fn hungry_workers_poll_at_once_only_while_full_pages_bring_work() {
    let now = Instant::now();
    let later = now + INTERVAL;
    for (listed, new_due, at_once) in [(16, 16, true), (16, 1, true), (16, 0, false), (15, 15, false)] {
        let mut window = window(500);
        let request = window.begin(0, 16, now);
        window.arrived(request, tally(listed, new_due, 0), now, MIDDLE);
        assert_eq!(window.next_poll(Short::No, false), Some(later), "nobody is short of work");
        let expected = if at_once { now } else { later };
        assert_eq!(window.next_poll(Short::OfAll, false), Some(expected), "{listed} listed, {new_due} new");
    }
}

#[test]
fn one_full_page_makes_one_hungry_poll() {
    let now = Instant::now();
    let mut window = window(500);
    full_page(&mut window, (0, 16), 16, now);
    window.begin(16, 16, now);
    assert_eq!(window.next_poll(Short::OfAll, false), Some(now + INTERVAL));
}

#[test]
fn work_of_other_providers_is_looked_for_a_few_times_a_second() {
    let now = Instant::now();
    let mut window = window(500);
    full_page(&mut window, (0, 16), 16, now);
    assert_eq!(window.next_poll(Short::OfOthers, false), Some(now + ELSEWHERE_INTERVAL));
    full_page(&mut window, (16, 16), 0, now);
    assert_eq!(window.next_poll(Short::OfOthers, false), Some(now + INTERVAL), "a page brought nothing");
}

#[test]
fn a_stale_lease_is_looked_after_at_most_once_a_second() {
    let now = Instant::now();
    let mut window = window(500);
    let request = window.begin(0, 16, now);
    window.arrived(request, tally(0, 0, 0), now, MIDDLE);
    assert_eq!(window.next_poll(Short::No, true), Some(now + STALE_INTERVAL));
    let mut often = Window::new(500, Duration::from_millis(200));
    let request = often.begin(0, 16, now);
    often.arrived(request, tally(0, 0, 0), now, MIDDLE);
    assert_eq!(
        often.next_poll(Short::No, true),
        Some(now + Duration::from_millis(200)),
        "it hastens, never delays"
    );
}

#[test]
fn while_the_seam_fails_polls_back_off_whoever_is_waiting() {
    let mut now = Instant::now();
    let since = now;
    let mut window = window(500);
    full_page(&mut window, (0, 16), 16, now);
    let mut waits = Vec::new();
    for _ in 0..4 {
        window.begin(16, 16, now);
        let wait = window.failed(SeamError::Unreachable(Cause::Connect), now, 0.0);
        waits.push(wait.as_secs());
        for (short, stale) in
            [(Short::No, false), (Short::OfAll, false), (Short::OfOthers, true), (Short::OfAll, true)]
        {
            assert_eq!(window.next_poll(short, stale), Some(now + wait));
        }
        assert_eq!(
            window.trouble(),
            Some((&SeamError::Unreachable(Cause::Connect), since)),
            "since the first"
        );
        now += wait;
    }
    assert_eq!(waits, [5, 20, 30, 30]);
    let request = window.begin(16, 16, now);
    window.arrived(request, tally(0, 0, 0), now, MIDDLE);
    assert_eq!(window.trouble(), None);
    window.begin(16, 16, now);
    assert_eq!(window.failed(SeamError::NotReady, now, 0.0), INTERVAL, "the backoff begins anew");
}

#[test]
fn a_seam_that_fails_at_the_first_poll_is_backed_off_from_too() {
    let now = Instant::now();
    let mut window = window(500);
    window.begin(0, 16, now);
    let wait = window.failed(SeamError::Unreachable(Cause::Connect), now, 0.0);
    assert_eq!(window.next_poll(Short::OfAll, true), Some(now + wait));
    assert_eq!(window.last_page(), None);
}

proptest! {
    #[test]
    fn polls_vary_by_a_tenth_to_either_side(random in 0.0_f64..1.0) {
        let now = Instant::now();
        let mut window = window(500);
        let request = window.begin(0, 16, now);
        window.arrived(request, tally(0, 0, 0), now, random);
        let wait = window.next_poll(Short::No, false).unwrap() - now;
        prop_assert!(INTERVAL.mul_f64(0.9) <= wait && wait <= INTERVAL.mul_f64(1.1));
        prop_assert_eq!(random < 0.5, wait < INTERVAL);
    }

    #[test]
    fn a_failing_seam_is_asked_at_least_every_30_seconds(
        failures in 1_u32..20, random in 0.0_f64..1.0, interval in 1_u64..30_000
    ) {
        let now = Instant::now();
        let mut window = Window::new(500, Duration::from_millis(interval));
        for _ in 0..failures {
            window.begin(0, 1, now);
            let wait = window.failed(SeamError::Unreachable(Cause::Connect), now, random);
            prop_assert!(wait <= LONGEST_BACKOFF && wait >= Duration::from_millis(interval).mul_f64(0.9));
        }
    }

    #[test]
    fn a_limit_is_one_that_the_seam_takes(
        size in 1_u16..=500, polls in proptest::collection::vec((0_usize..2_000, 0_usize..200, 0_usize..3, 0_usize..600), 1..20)
    ) {
        let now = Instant::now();
        let mut window = window(size);
        for (held, want, new_due, listed) in polls {
            let request = window.begin(held, want, now);
            prop_assert!((1..=size).contains(&request.limit));
            prop_assert!(usize::from(request.limit) >= (held + want).min(size.into()));
            let listed = listed.min(request.limit.into());
            window.arrived(request, tally(listed, new_due.min(listed), listed / 2), now, MIDDLE);
        }
    }
}
