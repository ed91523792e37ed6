//! Many providers on one lane: what one of them or one destination does is nobody else's trouble.

use super::carrier::Answer;
use super::outbox::push;
use super::world::{Setup, World, hours, secs};
use crate::outcome::{AckStatus, Cause};
use crate::telemetry::status::Unready;

fn wrong_credential() -> Answer {
    Answer::pause_destination(Cause::PushCredential, None)
}

/// Case 31: ten seconds each for more than all workers.
#[tokio::test(start_paused = true)]
async fn a_slow_provider_leaves_a_worker_to_the_others() {
    let world = Setup::push(4).start(|w| {
        w.carrier().rule(|call| Answer::accepted().after(secs(if call.gate == "fcm" { 10 } else { 0 })));
        w.outbox.add_all((0..40).map(|n| push(format!("slow {n}"), "fcm")));
        w.outbox.add_all((0..10).map(|n| push(format!("quick {n}"), "mozilla")));
    });
    world
        .until("the quick ones are out", |w| {
            (0..10).all(|n| w.outbox.status(&format!("quick {n}")).is_some())
        })
        .await;
    assert!(world.at() < secs(10), "{:?}", world.at());
    world.until_delivered(50).await;
    assert!(world.at() < secs(160), "three workers for forty times ten seconds: {:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_lane_of_one_worker_serves_every_provider() {
    let world = Setup::push(1).start(|w| w.outbox.add_all([push("a", "fcm"), push("b", "mozilla")]));
    world.until_delivered(2).await;
}

/// Case 20: four sent, one failed after its attempts.
#[tokio::test(start_paused = true)]
async fn one_subscription_of_another_key_fails_alone() {
    let world = Setup::push(4).start(|w| {
        w.carrier().always("p2", wrong_credential());
        w.outbox.add_all((0..5).map(|n| push(format!("p{n}"), "fcm")));
    });
    world.until_delivered(4).await;
    assert_eq!(world.until_acked("p2").await, AckStatus::Failed);
    assert!((8..=9).contains(&world.carrier().tries_of("p2").len()));
    assert_eq!(world.outbox.count(AckStatus::Bounced), 0);
    assert!(!world.is_gate_closed());
}

/// Case 20: all five refuse.
#[tokio::test(start_paused = true)]
async fn a_key_that_every_subscription_refuses_closes_the_origin_and_fails_nothing() {
    let world = Setup::push(4).slow_polls().start(|w| {
        w.carrier().rule(|call| match call.gate {
            "fcm" => wrong_credential(),
            _ => Answer::accepted(),
        });
        w.outbox.add_all((0..5).map(|n| push(format!("p{n}"), "fcm")));
    });
    world.until("the gate is closed", World::is_gate_closed).await;
    assert_eq!(world.unready(), [Unready::GateClosed { label: "fcm", cause: Cause::PushCredential }]);
    world.outbox.add(push("other", "mozilla"));
    assert_eq!(world.until_acked("other").await, AckStatus::Delivered);
    world.pass(hours(24)).await;
    assert_eq!(world.outbox.posts().len(), 1);
    world.carrier().all(Answer::accepted());
    world.until_delivered(6).await;
}

/// Case 20, after a wrong rotation of the key: the origin took it for weeks, and refuses it for a day.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_refused_for_a_day_after_it_was_taken_fails_nobody() {
    let world = Setup::push(4).slow_polls().start(|w| w.outbox.add(push("before", "fcm")));
    world.until_delivered(1).await;
    world.carrier().all(wrong_credential());
    world.outbox.add_all((0..3).map(|n| push(format!("p{n}"), "fcm")));
    world.until("the gate is closed", World::is_gate_closed).await;
    world.pass(hours(24)).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 0);
    assert!((0..3).all(|n| world.carrier().tries_of(&format!("p{n}")).len() > 8), "each was a probe often");
    world.carrier().all(Answer::accepted());
    world.until_delivered(4).await;
}

/// Case 20: one endpoint that answers 405.
#[tokio::test(start_paused = true)]
async fn one_destination_that_blocks_us_never_closes_its_origin() {
    let world = Setup::push(4).slow_polls().start(|w| {
        w.carrier().rule(|call| match call.id.starts_with("blocked") {
            true => Answer::pause_destination(Cause::EndpointBlocked, None),
            false => Answer::accepted(),
        });
        w.outbox.add_all((0..10).map(|n| push(format!("blocked {n}"), "fcm").to("one").template("t.v1")));
        w.outbox.add_all((0..10).map(|n| push(format!("p{n}"), "fcm")));
    });
    world.until_delivered(10).await;
    world.pass(hours(6)).await;
    assert!(!world.is_gate_closed());
    assert_eq!(world.outbox.posts().len(), 10);
}

/// Case 22: other destinations go on.
#[tokio::test(start_paused = true)]
async fn a_rate_limit_holds_one_destination_and_three_hold_the_origin() {
    let limited = || Answer::pause_destination(Cause::RateLimited, Some(secs(120)));
    let world = Setup::push(2).start(|w| {
        w.carrier().next("a1", [limited()]);
        w.outbox.add(push("a1", "fcm").to("a"));
        w.outbox.add(push("a2", "fcm").to("a").template("other.v1"));
        w.outbox.add(push("b", "fcm"));
    });
    assert_eq!(world.until_acked("b").await, AckStatus::Delivered);
    world.until_delivered(3).await;
    let others = world.carrier().tries_of("a2");
    assert!(others[0].began >= secs(120), "another record of that destination waits too: {others:?}");

    let world = Setup::push(2).start(|w| {
        w.carrier().rule(move |call| match call.number == 1 && call.id != "late" {
            true => limited(),
            false => Answer::accepted(),
        });
        w.outbox.add_all(["a", "b", "c"].map(|id| push(id, "fcm")));
    });
    world.until("three are limited", |w| w.carrier().tries().len() == 3).await;
    world.outbox.add_all([push("late", "fcm"), push("elsewhere", "mozilla")]);
    world.until_delivered(4).await;
    assert!(world.carrier().tries_of("late")[0].began >= secs(120));
    assert!(world.carrier().tries_of("elsewhere")[0].began < secs(12));
}

#[tokio::test(start_paused = true)]
async fn a_dead_subscription_is_bounced() {
    let world = Setup::push(2).start(|w| {
        w.carrier().always("dead", Answer::gone());
        w.outbox.add_all([push("dead", "fcm"), push("alive", "fcm")]);
    });
    world.until_delivered(1).await;
    assert_eq!(world.until_acked("dead").await, AckStatus::Bounced);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_hostile_origins_leave_no_gates_behind() {
    let world = Setup::push(8).start(|w| {
        let origin = |n: usize| -> &'static str { Box::leak(format!("origin {n}").into_boxed_str()) };
        w.outbox.add_all((0..1000).map(|n| push(format!("p{n}"), origin(n))));
    });
    world.until_delivered(1000).await;
    world.pass(secs(12)).await;
    assert!(world.lane().gates.len() <= 64, "{}", world.lane().gates.len());
}
