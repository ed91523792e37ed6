//! Who is sent when: order within a record, nobody behind a stuck one, nothing that was withdrawn.

use super::carrier::Answer;
use super::outbox::{mail, push};
use super::world::{Setup, hours, secs};
use crate::outcome::AckStatus;
use crate::telemetry::status::LeaseState;

/// Case 27: in the time that the fifty need.
#[tokio::test(start_paused = true)]
async fn fifty_behind_one_that_hangs_go_out() {
    let world = Setup::push(4).start(|w| {
        w.carrier().always("stuck", Answer::hang());
        w.carrier().all(Answer::accepted().after(secs(1)));
        w.outbox.add(push("stuck", "fcm"));
        w.outbox.add_all((0..50).map(|n| push(format!("p{n}"), ["fcm", "mozilla"][n % 2])));
    });
    world.until_delivered(50).await;
    assert!(world.at() < secs(20), "three workers are left for fifty seconds of work: {:?}", world.at());
    assert_eq!(world.outbox.status("stuck"), None);
    world.carrier().release("stuck");
    assert_eq!(world.until_acked("stuck").await, AckStatus::Delivered);
    assert_eq!(world.carrier().tries().len(), 51);
}

#[tokio::test(start_paused = true)]
async fn a_record_waits_for_its_failing_head_and_other_records_overtake_it() {
    let world = Setup::email(4).start(|w| {
        w.carrier().next("week-31", [Answer::server_error(), Answer::server_error()]);
        w.outbox.add(mail("week-31").to("ann"));
        w.outbox.add(mail("week-32").to("ann"));
        w.outbox.add(mail("week-33").to("ann"));
        w.outbox.add(mail("other").to("bob"));
        w.outbox.add(mail("sign-in").to("ann").template("sign-in.v1"));
    });
    world.until_delivered(5).await;
    let accepted = world.carrier().accepted();
    assert_eq!(accepted[..2], ["other", "sign-in"]);
    assert_eq!(accepted[2..], ["week-31", "week-32", "week-33"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_record_starts_when_the_one_before_is_accepted_and_not_before() {
    let world = Setup::email(4).start(|w| {
        w.carrier().all(Answer::accepted().after(secs(3)));
        w.outbox.add_all((0..4).map(|n| mail(format!("{n}")).to("ann")));
    });
    world.until_delivered(4).await;
    let tries = world.carrier().tries();
    assert_eq!(tries.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    for pair in tries.windows(2) {
        assert!(pair[1].began >= pair[0].ended.as_ref().unwrap().0);
    }
}

#[tokio::test(start_paused = true)]
async fn two_versions_of_a_template_are_one_record() {
    let world = Setup::email(4).start(|w| {
        w.carrier().next("old", [Answer::server_error()]);
        w.outbox.add(mail("old").to("ann").template("digest.v1"));
        w.outbox.add(mail("new").to("ann").template("digest.v2"));
    });
    world.until_delivered(2).await;
    assert_eq!(world.carrier().accepted(), ["old", "new"]);
}

#[tokio::test(start_paused = true)]
async fn an_envelope_that_fails_for_good_makes_way_for_the_next_of_its_record() {
    let world = Setup::email(2).start(|w| {
        w.carrier().next("bad", [Answer::refused("its own fault")]);
        w.outbox.add(mail("bad").to("ann"));
        w.outbox.add(mail("good").to("ann"));
    });
    world.until_delivered(1).await;
    assert_eq!(world.outbox.status("bad"), Some(AckStatus::Failed));
    assert_eq!(world.outbox.status("good"), Some(AckStatus::Delivered));
}

#[tokio::test(start_paused = true)]
async fn not_before_is_waited_for_and_does_not_hold_its_record() {
    let world = Setup::email(2).start(|w| {
        w.outbox.add(mail("later").to("ann").not_before(hours(2)));
        w.outbox.add(mail("now").to("ann"));
    });
    world.until_delivered(2).await;
    let tries = world.carrier().tries();
    assert_eq!((tries[0].id.as_str(), tries[1].id.as_str()), ("now", "later"));
    assert!(tries[0].began < secs(1));
    assert!(tries[1].began >= hours(2) && tries[1].began < hours(2) + secs(1), "{:?}", tries[1].began);
}

/// Case 5: no send, no ack, lease gone.
#[tokio::test(start_paused = true)]
async fn an_envelope_withdrawn_while_it_waits_is_neither_sent_again_nor_acked() {
    let world = Setup::email(2).start(|w| {
        w.carrier().always("gone", Answer::unavailable_for(secs(300)));
        w.outbox.add(mail("gone"));
    });
    world.until("it waits", |w| w.leases(LeaseState::Waiting) == 1).await;
    world.outbox.withdraw("gone");
    world.until("its lease is gone", |w| w.leases(LeaseState::Waiting) == 0).await;
    assert!(world.at() < secs(12));
    world.pass(hours(1)).await;
    assert_eq!(world.carrier().tries().len(), 1);
    assert_eq!(world.outbox.posts(), []);
}

/// Case 5: withdrawn before its turn.
#[tokio::test(start_paused = true)]
async fn an_envelope_withdrawn_while_it_is_ready_is_never_sent() {
    let world = Setup::email(1).start(|w| {
        w.carrier().next("slow", [Answer::accepted().after(secs(14))]);
        w.outbox.add(mail("slow"));
        w.outbox.add(mail("gone"));
    });
    world.until("the first is on its way", |w| !w.carrier().tries().is_empty()).await;
    world.outbox.withdraw("gone");
    world.pass(hours(1)).await;
    assert_eq!(world.carrier().tries_of("gone"), []);
    assert_eq!(world.outbox.posts_of("gone"), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_withdrawn_while_it_is_sent_is_acked_if_it_arrived_and_dropped_if_it_did_not() {
    let world = Setup::email(2).start(|w| {
        w.carrier().always("arrived", Answer::accepted().after(secs(12)));
        w.carrier().always("not", Answer::unavailable().after(secs(12)));
        w.outbox.add_all([mail("arrived"), mail("not")]);
    });
    world.until("both are on their way", |w| w.carrier().tries().len() == 2).await;
    world.outbox.withdraw("arrived");
    world.outbox.withdraw("not");
    assert_eq!(world.until_acked("arrived").await, AckStatus::Delivered);
    world.until("the other is dropped", |w| w.leases(LeaseState::Sending) == 0).await;
    assert_eq!(world.leases(LeaseState::Waiting), 0);
    world.pass(hours(1)).await;
    assert_eq!(world.carrier().tries().len(), 2);
    assert_eq!(world.outbox.posts_of("not"), []);
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_while_his_envelope_is_sent_still_gets_it() {
    let world = Setup::email(2).start(|w| {
        w.carrier().next("back", [Answer::unavailable().after(secs(14))]);
        w.outbox.add(mail("back"));
    });
    world.until("it is on its way", |w| !w.carrier().tries().is_empty()).await;
    world.outbox.withdraw("back");
    world.pass(secs(7)).await;
    world.outbox.restore("back");
    assert_eq!(world.until_acked("back").await, AckStatus::Delivered);
    assert_eq!(world.carrier().tries().len(), 2);
    assert!(world.at() < secs(20), "its backoff, not a new lease: {:?}", world.at());
}

/// Case 26: the one worker of the lane goes on.
#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_envelope_one_attempt_and_the_worker_lives() {
    let mut world = Setup::email(1).start(|w| {
        w.carrier().next("bad", [Answer::panic(), Answer::panic()]);
        w.carrier().always("worse", Answer::panic());
        w.outbox.add_all([mail("bad"), mail("worse"), mail("good")]);
    });
    assert_eq!(world.until_acked("worse").await, AckStatus::Failed);
    assert_eq!(world.outbox.status("bad"), Some(AckStatus::Delivered));
    assert_eq!(world.outbox.status("good"), Some(AckStatus::Delivered));
    assert_eq!(world.carrier().tries_of("bad").len(), 3);
    assert_eq!(world.carrier().tries_of("worse").len(), 8);
    assert!(world.outbox.posts_of("worse")[0].detail.starts_with("panic: "));
    assert_eq!(world.stop().await.exit_code(), 0);
}
