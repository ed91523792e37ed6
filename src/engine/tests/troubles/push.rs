//! A push service's troubles: 32 workers, of which one origin never has the last.

use super::super::outbox::{self, Draft};
use super::*;
use crate::outcome::Cause;

fn setup() -> Setup {
    Setup::push(32).slow_polls()
}

fn push(n: usize) -> Draft {
    outbox::push(format!("p{n}"), "fcm")
}

/// An origin that refuses every subscription.
fn refusal(trouble: &'static str, cause: Cause) -> Row {
    Row {
        trouble,
        answer: after_latency(Answer::pause_destination(cause, None)),
        one: (exactly(4), 8..=9),
        many: (exactly(34), 41..=42),
        delivered_in: (secs(1126), secs(755)),
        because: "31 begin at once, and each of the first two answers makes way for one more; probes 30 s later, \
                  then 60, 120, 240, 480, then every 600 s: nine in the hour, with all jitter eight; one alone \
                  closes nothing and waits 2, 8, 32, 128, 512, then 900 s",
    }
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_refuses_everyone_is_asked_ten_times_an_hour() {
    let rows = vec![refusal("401 or 403", Cause::PushCredential), refusal("405", Cause::EndpointBlocked)];
    play(rows, setup, push).await;
}

#[tokio::test(start_paused = true)]
async fn three_destinations_that_are_limited_hold_the_origin() {
    let limited = |wait| after_latency(Answer::pause_destination(Cause::RateLimited, Some(wait)));
    let rows = vec![
        Row {
            trouble: "429 with Retry-After: 120",
            answer: limited(secs(120)),
            one: (exactly(1), exactly(8)),
            many: (exactly(33), 56..=62),
            delivered_in: (secs(1126), secs(1126)),
            because: "33 as for any refusal, then one at a time: every 120.2 to 150.2 s; one alone waits 120 s \
                      three times, then 128, 512 and 900 s, and so do the oldest of five hundred",
        },
        Row {
            trouble: "429 without Retry-After",
            answer: limited(secs(1)),
            one: (exactly(4), 8..=9),
            many: (74..=83, 2500..=3033),
            delivered_in: (secs(1126), secs(1126)),
            because: "33 as for any refusal, then one at a time: every 1.2 to 1.45 s; each destination has waits \
                      of its own beside, as one alone: 2, 8, 32, 128, 512, then 900 s",
        },
        Row {
            trouble: "429 with Retry-After: 999999",
            answer: limited(hours(1)),
            one: (exactly(1), exactly(1)),
            many: (exactly(33), exactly(33)),
            delivered_in: (secs(901), secs(901)),
            because: "it is capped at an hour; whoever was told so waits for up to a quarter more",
        },
    ];
    play(rows, setup, push).await;
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_is_down_is_asked_eight_times_an_hour() {
    let rows = vec![
        Row {
            trouble: "503",
            answer: after_latency(Answer::unavailable()),
            one: (exactly(4), 8..=9),
            many: (exactly(36), 40..=41),
            delivered_in: (secs(1126), secs(1131)),
            because: "33 before the third has failed; probes wait 2, 8, 32, 128, 512, then 900 s: three in the \
                      first minute, eight in the hour, with all jitter seven",
        },
        Row {
            trouble: "timeouts of 15 s",
            answer: Answer::timeout().after(secs(15)),
            one: (exactly(3), 8..=9),
            many: (exactly(35), 40..=41),
            delivered_in: (secs(1141), secs(1146)),
            because: "the same, with 15 s between the beginning and the end of each: at 17, 40, 87, 230, 757, \
                      1672, 2587 and 3502 s",
        },
    ];
    play(rows, setup, push).await;
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_is_down_is_nobody_elses_trouble() {
    let world = setup().start(|w| {
        w.carrier().rule(|call| match call.gate == "fcm" && call.at < hours(1) {
            true => after_latency(Answer::unavailable()),
            false => after_latency(Answer::accepted()),
        });
        w.outbox.add_all((0..500).map(|n| outbox::push(format!("p{n}"), ["fcm", "mozilla"][n % 2])));
    });
    world.until_delivered(250).await;
    assert!(world.at() < secs(3), "250 by 31 workers in 0.2 s each: {:?}", world.at());
    world.pass(hours(1)).await;
    let down: Vec<_> = world.carrier().tries().into_iter().filter(|t| t.gate == "fcm").collect();
    let minute = down.iter().filter(|t| t.began < secs(60)).count();
    assert!(minute <= 36, "at most 33 before the third has failed, and three probes: {minute}");
    all_delivered(&world, 500, hours(1) + secs(1131), "503 at one origin").await;
}

/// What one destination answers while everybody else's go out at once; requests to it in the first minute
/// and in the first hour, and what it comes to when all is well again.
#[tokio::test(start_paused = true)]
async fn what_one_destination_meets_alone_holds_up_nobody() {
    let paused = |cause, wait| after_latency(Answer::pause_destination(cause, wait));
    // Once the origin has accepted something a refused credential costs an attempt: 2, 8, 32, 128, 512, 900 and
    // 900 s lie between the eight, so that one is failed within the hour.
    for (answer, minute, hour, ends) in [
        (paused(Cause::PushCredential, None), 4..=4, 8..=9, AckStatus::Failed),
        (paused(Cause::EndpointBlocked, None), 4..=4, 8..=9, AckStatus::Delivered),
        (paused(Cause::RateLimited, Some(secs(120))), 1..=1, 8..=8, AckStatus::Delivered),
        (paused(Cause::RateLimited, Some(hours(1))), 1..=1, 1..=1, AckStatus::Delivered),
    ] {
        let world = setup().start(|w| {
            w.carrier().always("p0", answer.clone());
            w.outbox.add_all((0..500).map(push));
        });
        world.until_delivered(499).await;
        assert!(world.at() < secs(5), "499 by 31 workers in 0.2 s each: {:?}", world.at());
        world.pass(hours(1).saturating_sub(world.at())).await;
        let began: Vec<_> = world.carrier().tries_of("p0").iter().map(|t| t.began).collect();
        let in_minute = began.iter().filter(|at| **at < secs(60)).count();
        assert!(minute.contains(&in_minute) && hour.contains(&began.len()), "{answer:?}: {began:?}");
        assert!(!world.is_gate_closed());
        world.carrier().always("p0", Answer::accepted());
        assert_eq!(world.until_acked("p0").await, ends, "{answer:?}");
        assert!(world.at() < hours(1) + secs(1126), "{:?}", world.at());
    }
}
