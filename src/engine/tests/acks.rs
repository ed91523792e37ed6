//! Acks: sent once, acked until it is through, and never sent again.

use super::carrier::Answer;
use super::outbox::{Fault, mail, push};
use super::world::{Setup, fixed, hours, secs};
use crate::channel::Gating;
use crate::outbox::SeamError;
use crate::outcome::AckStatus;
use crate::telemetry::status::{LeaseState, Unready};

fn answers_500() -> Fault {
    Fault::Error(SeamError::Status(500))
}

/// Case 6: 500 three times, then 200.
#[tokio::test(start_paused = true)]
async fn an_ack_that_fails_three_times_is_one_send_and_one_stored_status() {
    let world = Setup::email(1).start(|w| {
        w.outbox.next_acks("a", [answers_500(), answers_500(), answers_500()]);
        w.outbox.add(mail("a"));
        w.outbox.add(mail("b"));
    });
    assert_eq!(world.until_acked("b").await, AckStatus::Delivered);
    assert_eq!(world.outbox.status("a"), None, "the one worker did not wait for its ack");
    assert_eq!(world.until_acked("a").await, AckStatus::Delivered);
    world.pass(hours(1)).await;
    assert_eq!(world.outbox.posts_of("a").len(), 4);
    assert_eq!(world.carrier().tries().len(), 2);
    assert_eq!(world.leases(LeaseState::Acking), 0);
}

#[tokio::test(start_paused = true)]
async fn an_ack_whose_answer_was_lost_is_posted_again_and_nothing_is_sent_again() {
    let world = Setup::email(2).start(|w| {
        w.outbox.next_acks("a", [Fault::AnswerLost, Fault::AnswerLost]);
        w.outbox.add(mail("a"));
    });
    world.until("the third is answered", |w| w.outbox.posts().len() == 3).await;
    world.pass(hours(1)).await;
    assert_eq!((world.outbox.posts().len(), world.carrier().tries().len()), (3, 1));
}

/// Case 4: neither sent nor acked again.
#[tokio::test(start_paused = true)]
async fn a_page_requested_before_an_ack_still_lists_it_and_nothing_is_sent_again() {
    let world = Setup::email(2).start(|w| {
        w.carrier().all(Answer::accepted().after(secs(6)));
        w.outbox.next_polls([Fault::None, Fault::Late(secs(8))]);
        w.outbox.add(mail("a"));
    });
    world.until("two polls", |w| w.outbox.polls().len() == 2).await;
    assert_eq!(world.outbox.polls()[1].listed, 1);
    world.pass(hours(1)).await;
    assert_eq!(world.carrier().tries().len(), 1);
    assert_eq!(world.outbox.posts().len(), 1, "nor acked again: the page is older than the ack");
}

/// Case 29: `unknown`, and listed for ever.
#[tokio::test(start_paused = true)]
async fn what_the_app_lists_for_ever_is_acked_again_with_backoff_and_never_sent_again() {
    let world = Setup::email(2).start(|w| {
        w.outbox.acks_of("a", Fault::Unknown);
        w.outbox.keep_listing("a");
        w.outbox.add(mail("a"));
    });
    world.pass(hours(1)).await;
    assert_eq!(world.carrier().tries().len(), 1);
    let posts = world.outbox.posts();
    assert!((60..=130).contains(&posts.len()), "every half minute at most: {}", posts.len());
    assert!(posts.iter().all(|post| post.status == AckStatus::Delivered));
    let polls = world.outbox.polls().len();
    assert!((640..=800).contains(&polls), "the poll rate stays: {polls}");
}

/// Case 6: `bounced` for our `delivered`.
#[tokio::test(start_paused = true)]
async fn another_status_in_the_outbox_settles_the_envelope() {
    let world = Setup::email(2).start(|w| {
        w.carrier().next("a", [Answer::accepted().after(secs(1))]);
        w.outbox.add(mail("a"));
    });
    world.until("it is on its way", |w| !w.carrier().tries().is_empty()).await;
    world.outbox.store("a", AckStatus::Bounced);
    world.pass(hours(1)).await;
    assert_eq!(world.outbox.status("a"), Some(AckStatus::Bounced));
    assert_eq!((world.outbox.posts().len(), world.carrier().tries().len()), (1, 1));
    assert_eq!(world.leases(LeaseState::Acking), 0);
}

/// Case 29: 404 for ever.
#[tokio::test(start_paused = true)]
async fn acks_refused_for_good_are_rare_and_stop_nobody_else() {
    let world = Setup::email(2).start(|w| {
        for id in ["a/b", "c/d", "e/f", "g/h"] {
            w.outbox.acks_of(id, Fault::Error(SeamError::Refused(404)));
            w.outbox.add(mail(id).to("ann"));
        }
        w.outbox.add_all((0..20).map(|n| mail(format!("m{n}"))));
        w.outbox.add(mail("behind").to("ann"));
    });
    world.until_delivered(21).await;
    assert!(world.at() < secs(30));
    assert!(world.unready().contains(&Unready::AcksRefused { count: 4 }), "{:?}", world.unready());
    world.pass(hours(2)).await;
    let posts = world.outbox.posts_of("a/b").len();
    assert!((7..=9).contains(&posts), "every 15 minutes to a quarter more: {posts}");
    assert_eq!(world.carrier().tries_of("a/b").len(), 1);
    world.outbox.acks_of("a/b", Fault::None);
    assert_eq!(world.until_acked("a/b").await, AckStatus::Delivered);
}

#[tokio::test(start_paused = true)]
async fn three_acks_that_fail_stop_new_sends_until_one_gets_through() {
    let world = Setup::email_at(fixed(1), 2).start(|w| {
        w.outbox.all_acks(answers_500());
        w.outbox.add_all((0..20).map(|n| mail(format!("m{n}"))));
    });
    world.until("sends stop", |w| w.unready().contains(&Unready::AcksBlocked)).await;
    let sent = world.carrier().tries().len();
    assert!((3..=4).contains(&sent), "{sent}");
    world.pass(hours(1)).await;
    assert!(world.carrier().tries().len() <= sent + 1, "one may have been on its way");
    assert_eq!(world.outbox.count(AckStatus::Delivered), 0);
    world.outbox.all_acks(Fault::None);
    let mended = world.at();
    world.until_delivered(20).await;
    assert!(world.at() < mended + secs(70), "{:?}", world.at() - mended);
    assert_eq!(world.carrier().tries().len(), 20);
    assert!(!world.unready().contains(&Unready::AcksBlocked));
}

#[tokio::test(start_paused = true)]
async fn the_lanes_share_the_gate_of_the_seam() {
    let world = Setup::email(2).and("push", Gating::ManyProviders, 2).start(|w| {
        w.outbox.all_acks(answers_500());
        w.outbox.add_all((0..3).map(|n| mail(format!("m{n}"))));
    });
    world.until("sends stop", |w| w.unready().contains(&Unready::AcksBlocked)).await;
    world.outbox.add_all((0..3).map(|n| push(format!("p{n}"), "fcm")));
    world.pass(secs(600)).await;
    assert_eq!(world.carriers[1].tries(), []);
    world.outbox.all_acks(Fault::None);
    world.until_delivered(6).await;
    assert_eq!(world.carriers[1].tries().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_ack_that_is_never_answered_holds_no_worker_and_no_other_ack() {
    let world = Setup::email(1).start(|w| {
        w.outbox.acks_of("a", Fault::Hang);
        w.outbox.add_all([mail("a"), mail("b"), mail("c")]);
    });
    world.until_delivered(2).await;
    assert!(world.at() < secs(1));
    assert_eq!(world.carrier().tries().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_makes_way_for_the_next_of_its_record_before_its_ack_is_through() {
    let world = Setup::email(2).start(|w| {
        w.outbox.acks_of("week-31", Fault::Hang);
        w.outbox.add_all([mail("week-31").to("ann"), mail("week-32").to("ann")]);
    });
    assert_eq!(world.until_acked("week-32").await, AckStatus::Delivered);
    assert!(world.at() < secs(1));
    assert_eq!(world.outbox.status("week-31"), None);
}
