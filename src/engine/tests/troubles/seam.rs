//! The seam's own troubles: what it sees of a worker that cannot reach it, and what providers see meanwhile.

use super::super::outbox::{Fault, Post, mail};
use super::*;
use crate::channel::{Gating, Rate};
use crate::outbox::SeamError;
use crate::outcome::Cause;

/// Five hundred mails at two a second.
const DRAIN: u64 = 250;

fn setup() -> Setup {
    Setup::email_at(Gating::OneProvider(Rate::Follow { start: 2.try_into().unwrap() }), 4)
}

/// `count` mails to a provider in good health, while the seam is in `trouble` for an hour.
async fn an_hour_of(count: usize, seed: u64, trouble: impl FnOnce(&World)) -> World {
    let world = setup().seed(seed).start(|w| {
        w.carrier().all(after_latency(Answer::accepted()));
        w.outbox.add_all((0..count).map(|n| mail(format!("m{n}"))));
        trouble(w);
    });
    world.pass(hours(1)).await;
    world
}

fn within(posts: &[Post], time: Duration) -> usize {
    posts.iter().filter(|post| post.at < time).count()
}

/// Each ack is tried again after 2, 8, then every 30 s: at 0, 2, 10, 40, 70 s …, which is 4 in the first minute
/// and 122 in the hour, with all jitter at 0, 2, 12, 50, 87 s …, which is 98. Three that fail stop new sends.
#[tokio::test(start_paused = true)]
async fn acks_that_fail_stop_the_third_send() {
    for ((count, sends), seed) in [(1, 1), (500, 3)].into_iter().flat_map(|load| SEEDS.map(|s| (load, s))) {
        let fault = Fault::Error(SeamError::Status(500));
        let world = an_hour_of(count, seed, |w| w.outbox.all_acks(fault)).await;
        assert_eq!(world.carrier().tries().len(), sends, "at 0, 0.5 and 1 s, then none");
        let posts = world.outbox.posts();
        assert_eq!(within(&posts, secs(60)), 4 * sends);
        assert!((98 * sends..=122 * sends).contains(&posts.len()), "{}", posts.len());
        world.outbox.all_acks(Fault::None);
        world.until_delivered(count).await;
        let soon = if count == 1 { 38 } else { 38 + DRAIN };
        assert!(world.at() <= hours(1) + secs(soon), "{:?}", world.at());
        assert_eq!(world.carrier().tries().len(), count, "none is sent twice");
    }
}

/// An ack that is refused for good is tried every 15 minutes: 4 times in the hour, with all jitter and sent
/// last 3 times. Sends go on: two a second.
#[tokio::test(start_paused = true)]
async fn acks_that_are_refused_for_good_stop_no_send() {
    for (count, minute, hour) in [(1, 1, 4..=4), (500, 120, 1500..=2000)] {
        let fault = Fault::Error(SeamError::Refused(404));
        let world = an_hour_of(count, 1, |w| w.outbox.all_acks(fault)).await;
        assert_eq!(world.carrier().tries_within(secs(0), secs(60)), minute);
        assert_eq!(world.carrier().tries().len(), count);
        let posts = world.outbox.posts();
        assert_eq!(within(&posts, secs(60)), minute);
        assert!(hour.contains(&posts.len()), "{}", posts.len());
        world.outbox.all_acks(Fault::None);
        world.until_delivered(count).await;
        assert!(world.at() <= hours(1) + secs(1126), "{:?}", world.at());
        assert_eq!(world.carrier().tries().len(), count, "none is sent twice");
    }
}

/// Polls are tried again after 5, 20, then every 30 s, less up to a tenth: at 0, 5, 25 and 55 s and every 30 s,
/// which is 122 in the hour, with all jitter at 0, 4, 22 and 49 s and every 27 s, which is 135.
#[tokio::test(start_paused = true)]
async fn a_seam_that_lists_nothing_is_asked_twice_a_minute() {
    let errors = [SeamError::Unreachable(Cause::Connect), SeamError::TokenRefused, SeamError::NotReady];
    for (error, count) in errors.into_iter().flat_map(|error| [(error.clone(), 1), (error, 500)]) {
        let world = an_hour_of(count, 1, |w| w.outbox.all_polls(Fault::Error(error))).await;
        assert_eq!(world.outbox.polls_within(secs(0), secs(60)), 4);
        let hour = world.outbox.polls().len();
        assert!((122..=135).contains(&hour), "{hour}");
        assert_eq!((world.carrier().tries().len(), world.outbox.posts().len()), (0, 0));
        world.outbox.all_polls(Fault::None);
        let soon = if count == 1 { 31 } else { 31 + DRAIN };
        all_delivered(&world, count, hours(1) + secs(soon), "polls").await;
    }
}
