//! Whether the worker is alive: a loop that hangs says no, trouble elsewhere does not.

use std::time::Duration;

use super::carrier::Answer;
use super::outbox::{Fault, mail, push};
use super::world::{Setup, World, hours, secs};
use crate::outbox::SeamError;
use crate::outcome::Cause;
use crate::telemetry::status::StatusSource;

fn is_alive(world: &World) -> bool {
    world.engine.status().alive
}

/// Looks every few seconds, as whoever watches the process does.
async fn stays_alive(world: &World, time: Duration) -> bool {
    let end = world.at() + time;
    while world.at() < end {
        if !is_alive(world) {
            return false;
        }
        world.pass(secs(5)).await;
    }
    true
}

#[tokio::test(start_paused = true)]
async fn a_quiet_outbox_is_no_hang() {
    let mut setup = Setup::email(2);
    setup.settings.poll_interval = hours(1);
    let world = setup.start(|_| {});
    assert!(stays_alive(&world, hours(3)).await);
}

#[tokio::test(start_paused = true)]
async fn a_dead_seam_is_no_hang() {
    let world = Setup::email(2).start(|w| {
        w.outbox.all_polls(Fault::Error(SeamError::Unreachable(Cause::Connect)));
        w.outbox.all_acks(Fault::Error(SeamError::Unreachable(Cause::Connect)));
        w.outbox.add(mail("a"));
    });
    assert!(stays_alive(&world, hours(3)).await);
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_is_no_hang() {
    let world = Setup::email(2).start(|w| {
        w.carrier().all(Answer::pause(Cause::ApiKey));
        w.outbox.add_all((0..10).map(|n| mail(format!("m{n}"))));
    });
    assert!(stays_alive(&world, hours(3)).await);
    assert!(world.is_gate_closed());
}

#[tokio::test(start_paused = true)]
async fn acks_that_do_not_get_through_are_no_hang() {
    let world = Setup::email(2).start(|w| {
        w.outbox.all_acks(Fault::Error(SeamError::Status(503)));
        w.outbox.add_all((0..10).map(|n| mail(format!("m{n}"))));
    });
    assert!(stays_alive(&world, hours(3)).await);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_confirmation_is_no_hang() {
    let world = Setup::email(2).confirming(hours(2)).start(|w| w.outbox.add(mail("a")));
    assert!(stays_alive(&world, hours(3)).await);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_never_comes_is_a_hang() {
    let world = Setup::email(2).start(|w| w.outbox.all_polls(Fault::Late(hours(9))));
    assert!(stays_alive(&world, secs(60)).await);
    world.pass(secs(60)).await;
    assert!(!is_alive(&world));
}

#[tokio::test(start_paused = true)]
async fn an_ack_that_never_ends_is_a_hang() {
    let world = Setup::email(2).start(|w| {
        w.outbox.acks_of("a", Fault::Late(hours(9)));
        w.outbox.add(mail("a"));
    });
    assert!(stays_alive(&world, secs(60)).await);
    world.pass(secs(60)).await;
    assert!(!is_alive(&world));
}

#[tokio::test(start_paused = true)]
async fn one_delivery_that_never_ends_is_no_hang_but_that_of_every_worker_is() {
    let world = Setup::push(2).start(|w| {
        w.carrier().always("a", Answer::hang());
        w.carrier().always("b", Answer::hang());
        w.outbox.add(push("a", "fcm"));
    });
    assert!(stays_alive(&world, hours(1)).await, "the lane has one more worker");
    world.outbox.add(push("b", "mozilla"));
    world.pass(secs(120)).await;
    assert!(!is_alive(&world));
    world.carrier().release("b");
    world.pass(secs(1)).await;
    assert!(is_alive(&world));
}
