//! How much is asked of the seam, and how often.

use super::carrier::Answer;
use super::outbox::{Fault, mail};
use super::world::{Setup, World, hours, secs};
use crate::outcome::{AckStatus, Cause};

/// Polls within one hour, at the poll interval of 5 s with its jitter.
const POLLS_AN_HOUR: std::ops::RangeInclusive<usize> = 690..=750;

async fn polls_in_the_next_hour(world: &World) -> usize {
    let from = world.at();
    world.pass(hours(1)).await;
    world.outbox.polls_within(from, world.at())
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_polls_at_the_poll_rate_and_does_nothing_else() {
    let world = Setup::email(4).start(|_| {});
    world.pass(secs(10)).await;
    let polls = polls_in_the_next_hour(&world).await;
    assert!(POLLS_AN_HOUR.contains(&polls), "{polls}");
    assert_eq!(world.outbox.posts(), []);
}

/// Case 3: and the request rate stays at the poll rate.
#[tokio::test(start_paused = true)]
async fn a_fresh_envelope_behind_ten_that_wait_is_sent_at_the_next_poll() {
    let world = Setup::email(1).start(|w| {
        w.outbox.add_all((0..5).map(|n| mail(format!("month {n}")).not_before(hours(720))));
        w.carrier().rule(|_| Answer::unavailable_for(hours(1)));
        w.outbox.add_all((0..5).map(|n| mail(format!("hour {n}")).to("ann")));
    });
    world.until("the head waits", |w| w.carrier().tries().len() == 1).await;
    world.pass(secs(60)).await;
    world.outbox.add(mail("fresh"));
    world.carrier().always("fresh", Answer::accepted());
    let written = world.at();
    assert_eq!(world.until_acked("fresh").await, AckStatus::Delivered);
    assert!(world.at() - written < secs(6), "{:?}", world.at() - written);
    let polls = polls_in_the_next_hour(&world).await;
    assert!(POLLS_AN_HOUR.contains(&polls), "{polls}");
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_full_of_waiting_ones_is_seen_and_polled_at_the_poll_rate() {
    let world = Setup::email(2).page_limit(10).start(|w| {
        w.outbox.add_all((0..25).map(|n| mail(format!("m{n}")).not_before(hours(5))));
        w.outbox.add(mail("unseen"));
    });
    world.until("the window is full", |w| w.lane().window_used == 10).await;
    assert_eq!(world.lane().window_size, 10);
    let polls = polls_in_the_next_hour(&world).await;
    assert!(POLLS_AN_HOUR.contains(&polls), "{polls}");
    assert_eq!(world.carrier().tries(), []);
    world.until_delivered(26).await;
    assert!(world.at() >= hours(5) && world.at() < hours(5) + secs(30), "{:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_drained_without_waiting_for_polls() {
    let world = Setup::email(4).start(|w| w.outbox.add_all((0..2000).map(|n| mail(format!("m{n}")))));
    world.until_delivered(2000).await;
    assert!(world.at() < secs(1), "{:?}", world.at());
    assert_eq!(world.carrier().tries().len(), 2000);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_larger_than_the_window_flows_through_it() {
    let world = Setup::email(4).page_limit(10).start(|w| {
        w.carrier().all(Answer::accepted().after(secs(1)));
        w.outbox.add_all((0..200).map(|n| mail(format!("m{n}"))));
    });
    world.until_delivered(200).await;
    assert!(world.at() < secs(80), "four workers, a second each: {:?}", world.at());
    assert!(world.outbox.polls().iter().all(|poll| poll.limit <= 10));
}

#[tokio::test(start_paused = true)]
async fn elements_that_nobody_can_use_do_not_hide_the_ones_behind_them() {
    let world = Setup::email(1).start(|w| {
        (0..40).for_each(|_| w.outbox.add_raw("email", &serde_json::Value::Null));
        w.outbox.add(mail("behind"));
    });
    assert_eq!(world.until_acked("behind").await, AckStatus::Delivered);
    assert!(world.at() < secs(31), "the limit doubles with each poll: {:?}", world.at());
    let polls = polls_in_the_next_hour(&world).await;
    assert!(POLLS_AN_HOUR.contains(&polls), "{polls}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_does_not_hurry_the_poller() {
    let world = Setup::email(4).start(|w| {
        w.carrier().all(Answer::pause(Cause::ApiKey));
        w.outbox.add_all((0..400).map(|n| mail(format!("m{n}"))));
    });
    world.until("the gate is closed", World::is_gate_closed).await;
    let polls = polls_in_the_next_hour(&world).await;
    assert!(POLLS_AN_HOUR.contains(&polls), "{polls}");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_to_be_read_is_asked_for_in_parts() {
    let world = Setup::email(4).start(|w| {
        w.outbox.all_polls(Fault::TooLargeOver(100));
        w.carrier().all(Answer::pause(Cause::ApiKey));
        w.outbox.add_all((0..400).map(|n| mail(format!("m{n}"))));
    });
    world.pass(hours(1)).await;
    assert!(world.outbox.polls().iter().any(|poll| poll.limit > 100), "it has asked for more");
    assert!(world.lane().window_size <= 100);
    world.carrier().all(Answer::accepted());
    world.until_delivered(400).await;
}
