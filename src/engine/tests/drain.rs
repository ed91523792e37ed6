//! `drain`: it ends when nothing is left that time alone would bring.

use serde_json::json;

use super::carrier::Answer;
use super::outbox::{Fault, mail, push};
use super::world::{Setup, hours, secs};
use crate::channel::Gating;
use crate::engine::{End, Report};
use crate::outbox::SeamError;
use crate::outcome::{AckStatus, Cause};

#[tokio::test(start_paused = true)]
async fn a_drain_of_an_empty_outbox_ends_at_once() {
    let mut world = Setup::email(2).and("push", Gating::ManyProviders, 2).drain().start(|_| {});
    let report = world.ended().await;
    assert_eq!((report.end.clone(), report.exit_code()), (End::Drained, 0));
    assert!(world.at() < secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_retries_acks_and_both_lanes() {
    let mut world = Setup::email(2).and("push", Gating::ManyProviders, 2).drain().start(|w| {
        w.carrier().next("a", [Answer::unavailable_for(secs(300))]);
        w.carriers[1].next("p", [Answer::server_error(), Answer::server_error()]);
        w.outbox.next_acks("b", (0..3).map(|_| Fault::Error(SeamError::Status(500))));
        w.outbox.add_all([mail("a"), mail("b"), push("p", "fcm")]);
    });
    let report = world.ended().await;
    assert_eq!(report, Report { end: End::Drained, cut: 0, unacked: 0, due_left: 0 });
    assert_eq!(world.outbox.count(AckStatus::Delivered), 3);
    assert!(world.at() > secs(300));
}

#[tokio::test(start_paused = true)]
async fn a_drain_leaves_what_is_not_due_and_what_it_cannot_read() {
    let mut world = Setup::email(2).drain().start(|w| {
        let mut newer = mail("newer").json(&w.clock);
        newer["schema_version"] = json!("2");
        w.outbox.add_raw("email", &newer);
        w.outbox.add(mail("tomorrow").not_before(hours(24)));
        w.outbox.add_all((0..50).map(|n| mail(format!("m{n}"))));
    });
    let report = world.ended().await;
    assert_eq!(
        (report.clone(), report.exit_code()),
        (Report { end: End::Drained, cut: 0, unacked: 0, due_left: 0 }, 0)
    );
    assert_eq!(world.outbox.count(AckStatus::Delivered), 50);
    assert!(world.at() < secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_drain_looks_once_more_after_its_last_ack() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.carrier().all(Answer::accepted().after(secs(4)));
        w.outbox.add(mail("a"));
    });
    world.until_acked("a").await;
    world.outbox.add(mail("late"));
    let report = world.ended().await;
    assert_eq!(report.exit_code(), 0);
    assert_eq!(world.outbox.status("late"), Some(AckStatus::Delivered));
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_a_closed_gate_and_says_that_something_is_left() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.carrier().all(Answer::pause(Cause::ApiKey));
        w.outbox.add_all((0..5).map(|n| mail(format!("m{n}"))));
    });
    let report = world.ended().await;
    assert_eq!(
        (report.clone(), report.exit_code()),
        (Report { end: End::Drained, cut: 0, unacked: 0, due_left: 5 }, 75)
    );
    assert!(world.at() < secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_a_destination_that_refuses_us() {
    let mut world = Setup::push(2).drain().start(|w| {
        w.carrier().always("blocked", Answer::pause_destination(Cause::EndpointBlocked, None));
        w.outbox.add_all([
            push("blocked", "fcm").to("ann"),
            push("behind", "fcm").to("ann"),
            push("p", "fcm"),
        ]);
    });
    let report = world.ended().await;
    assert_eq!((report.due_left, report.exit_code()), (2, 75));
    assert_eq!(world.outbox.status("p"), Some(AckStatus::Delivered));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_rate_limit() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.carrier().next("a", [Answer::slow_down(secs(100))]);
        w.outbox.add_all([mail("a"), mail("b"), mail("c")]);
    });
    assert_eq!(world.ended().await.exit_code(), 0);
    assert_eq!(world.outbox.count(AckStatus::Delivered), 3);
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_up_on_a_seam_that_is_out_of_reach_for_a_minute() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.outbox.all_polls(Fault::Error(SeamError::Unreachable(Cause::Connect)));
    });
    let report = world.ended().await;
    assert_eq!(
        (report.end.clone(), report.exit_code()),
        (End::Seam(SeamError::Unreachable(Cause::Connect)), 75)
    );
    assert!(world.at() >= secs(60) && world.at() < secs(62), "{:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_after_a_seam_that_was_away_for_half_a_minute() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.outbox.next_polls((0..3).map(|_| Fault::Error(SeamError::Unreachable(Cause::Connect))));
        w.outbox.add(mail("a"));
    });
    assert_eq!(world.ended().await.exit_code(), 0);
    assert_eq!(world.outbox.count(AckStatus::Delivered), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_the_seam_turns_away_fails_at_once() {
    for error in [SeamError::TokenRefused, SeamError::Forbidden] {
        let mut world = Setup::email(2).drain().start(|w| {
            w.outbox.all_polls(Fault::Error(error.clone()));
            w.outbox.add(mail("a"));
        });
        let report = world.ended().await;
        assert_eq!((report.end.clone(), report.exit_code()), (End::Seam(error), 1));
        assert!(world.at() < secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_an_ack_that_is_refused_for_good() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.outbox.acks_of("a/b", Fault::Error(SeamError::Refused(404)));
        w.outbox.add_all([mail("a/b"), mail("c")]);
    });
    let report = world.ended().await;
    assert_eq!((report.end.clone(), report.unacked, report.exit_code()), (End::Drained, 1, 75));
}

#[tokio::test(start_paused = true)]
async fn a_drain_can_be_stopped() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.carrier().all(Answer::unavailable_for(secs(300)));
        w.outbox.add(mail("a"));
    });
    world.pass(secs(20)).await;
    assert_eq!(world.stop().await.end, End::Stopped);
    assert!(world.at() < secs(21));
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_up_on_acks_that_have_not_got_through_for_a_minute() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.outbox.acks_of("a", Fault::Error(SeamError::Status(500)));
        w.outbox.add_all([mail("a"), mail("b")]);
    });
    let report = world.ended().await;
    assert_eq!((report.end.clone(), report.unacked), (End::Seam(SeamError::Status(500)), 1));
    assert_eq!(report.exit_code(), 75);
    assert_eq!(world.outbox.status("b"), Some(AckStatus::Delivered));
    assert!(world.at() >= secs(60) && world.at() < secs(90), "{:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_a_clock_that_is_wrong() {
    let mut world = Setup::email(2).drain().start(|w| {
        w.clock.set_wrong_by(24 * 3600);
        w.outbox.add_all([mail("a").expires(hours(6)), mail("b")]);
    });
    let report = world.ended().await;
    assert_eq!((report.due_left, report.exit_code()), (1, 75));
    assert_eq!(world.outbox.status("a"), None);
    assert!(world.at() < secs(30));
}
