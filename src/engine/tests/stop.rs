//! Stopping: sends and acks finish, waits do not, and the report says what is left.

use std::time::Duration;

use super::carrier::Answer;
use super::outbox::{Fault, mail};
use super::world::{Setup, World, secs};
use crate::engine::{End, Report};
use crate::outbox::SeamError;
use crate::outcome::{AckStatus, Cause};
use crate::telemetry::status::{LeaseState, Unready};

fn down() -> Fault {
    Fault::Error(SeamError::Unreachable(Cause::Connect))
}

async fn on_its_way(setup: Setup, answer: Answer) -> World {
    let world = setup.start(|w| {
        w.carrier().all(answer);
        w.outbox.add_all((0..10).map(|n| mail(format!("m{n}"))));
    });
    world.until("a send began", |w| !w.carrier().tries().is_empty()).await;
    world.pass(Duration::from_millis(10)).await;
    world
}

/// Case 25: 10 ms after a send began.
#[tokio::test(start_paused = true)]
async fn a_stop_during_a_send_lets_the_send_and_its_ack_finish() {
    let mut world = on_its_way(Setup::email(2), Answer::accepted().after(secs(3))).await;
    world.tell_to_stop();
    world.pass(secs(1)).await;
    assert!(world.unready().contains(&Unready::Stopping));
    let report = world.ended().await;
    assert_eq!(report, Report { end: End::Stopped, cut: 0, unacked: 0, due_left: 8 });
    assert_eq!(report.exit_code(), 0, "what was never started is simply still pending");
    assert_eq!(world.outbox.count(AckStatus::Delivered), 2);
    assert_eq!(world.carrier().tries().len(), 2);
    assert!(world.at() < secs(4), "{:?}", world.at());
}

/// Case 25: during a wait of 300 s.
#[tokio::test(start_paused = true)]
async fn a_stop_during_a_wait_of_300_seconds_is_at_once() {
    let mut world = on_its_way(Setup::email(2), Answer::unavailable_for(secs(300))).await;
    let told = world.at();
    let report = world.stop().await;
    assert_eq!((report.exit_code(), report.cut, report.unacked), (0, 0, 0));
    assert!(world.at() - told < Duration::from_millis(5));
    let polls = world.outbox.polls().len();
    world.pass(secs(600)).await;
    assert_eq!(world.outbox.polls().len(), polls, "nothing goes on after the end");
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_and_a_hanging_poll_stop_at_once() {
    for fault in [Fault::None, Fault::Hang] {
        let mut world = Setup::email(2).start(|w| w.outbox.all_polls(fault));
        world.pass(secs(7)).await;
        assert_eq!(world.stop().await.exit_code(), 0);
        assert!(world.at() < secs(8));
    }
}

/// Case 25: with the seam down.
#[tokio::test(start_paused = true)]
async fn a_stop_while_the_seam_is_down_ends_at_the_grace_and_counts_what_is_unacked() {
    let mut world = on_its_way(Setup::email(2), Answer::accepted().after(secs(1))).await;
    world.outbox.all_polls(down());
    world.outbox.all_acks(down());
    let told = world.at();
    let report = world.stop().await;
    assert_eq!(world.at() - told, secs(25));
    assert_eq!((report.unacked, report.cut), (2, 0));
    assert_eq!(report.exit_code(), 75);
    assert!(world.outbox.posts().len() >= 40, "each is tried every second");
}

#[tokio::test(start_paused = true)]
async fn an_ack_in_its_backoff_is_flushed_at_once_by_a_stop() {
    let mut world = Setup::email(1).start(|w| {
        w.outbox.next_acks("a", (0..7).map(|_| down()));
        w.outbox.add(mail("a"));
    });
    world.until("six attempts", |w| w.outbox.posts().len() == 6).await;
    let told = world.at();
    let report = world.stop().await;
    assert_eq!(report, Report { end: End::Stopped, cut: 0, unacked: 0, due_left: 0 });
    assert!(world.at() - told < secs(2), "{:?}", world.at() - told);
    assert_eq!(world.outbox.status("a"), Some(AckStatus::Delivered));
}

#[tokio::test(start_paused = true)]
async fn an_ack_refused_for_good_is_tried_once_more_and_does_not_hold_a_stop() {
    let mut world = Setup::email(1).start(|w| {
        w.outbox.all_acks(Fault::Error(SeamError::Refused(404)));
        w.outbox.add(mail("a/b"));
    });
    world.until("it is refused", |w| w.unready() == [Unready::AcksRefused { count: 1 }]).await;
    let told = world.at();
    let report = world.stop().await;
    assert_eq!((report.unacked, report.exit_code()), (1, 75));
    assert!(world.at() - told < secs(1));
    assert_eq!(world.outbox.posts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_outlasts_the_grace_is_cut_and_counted() {
    let mut world = on_its_way(Setup::email(2), Answer::hang()).await;
    let told = world.at();
    let report = world.stop().await;
    assert_eq!(world.at() - told, secs(25));
    assert_eq!((report.cut, report.exit_code()), (2, 75));
}

/// Case 25: a second signal.
#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_the_worker_at_once() {
    let mut world = on_its_way(Setup::email(2), Answer::hang()).await;
    world.tell_to_stop();
    world.pass(secs(3)).await;
    let told = world.at();
    world.tell_to_abort();
    let report = world.ended().await;
    assert!(world.at() - told < Duration::from_millis(5));
    assert_eq!((report.end.clone(), report.cut, report.exit_code()), (End::Stopped, 2, 75));
}

#[tokio::test(start_paused = true)]
async fn no_send_begins_after_a_stop() {
    let mut world = on_its_way(Setup::email(1), Answer::accepted().after(secs(2))).await;
    world.stop().await;
    world.pass(secs(60)).await;
    assert_eq!(world.carrier().tries().len(), 1);
    assert_eq!(world.leases(LeaseState::Sending), 0);
}
