//! Accepted is not the end: what becomes of a mail later is waited for, asked about, and acked.

use std::time::Duration;

use super::outbox::mail;
use super::world::{Setup, World, fixed, secs};
use crate::channel::confirm::{Fate, Question, Said};
use crate::outcome::{AckStatus, Cause};
use crate::telemetry::status::LeaseState;

const WINDOW: Duration = Duration::from_secs(600);

/// A world whose provider's yes is not its last word.
fn confirming(setup: Setup, prepare: impl FnOnce(&World)) -> World {
    setup.confirming(WINDOW).start(prepare)
}

fn posted(world: &World, id: &str) -> Vec<(AckStatus, String)> {
    world.outbox.posts_of(id).iter().map(|post| (post.status, post.detail.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn each_final_word_is_acked_as_what_it_is() {
    for (fate, status) in [
        (Fate::Delivered, AckStatus::Delivered),
        (Fate::Bounced, AckStatus::Bounced),
        (Fate::Complained, AckStatus::Complaint),
        (Fate::Suppressed, AckStatus::Suppressed),
        (Fate::Failed, AckStatus::Failed),
    ] {
        let mut world = confirming(Setup::email(2), |w| {
            w.carrier().fate("a", secs(20), fate);
            w.outbox.add(mail("a"));
        });
        assert_eq!(world.until_acked("a").await, status, "{fate:?}");
        assert!(world.at() >= secs(20));
        assert_eq!(world.carrier().tries().len(), 1);
        assert_eq!(world.stop().await.exit_code(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_final_word_it_is_delivered_as_the_window_ends() {
    let world = confirming(Setup::email(2), |w| {
        w.carrier().fate("a", secs(100_000), Fate::Bounced);
        w.outbox.add(mail("a"));
    });
    assert_eq!(world.until_acked("a").await, AckStatus::Delivered);
    assert_eq!(posted(&world, "a"), [(AckStatus::Delivered, "accepted, not confirmed".to_owned())]);
    assert!((WINDOW..WINDOW + secs(5)).contains(&world.at()), "{:?}", world.at());
    let questions = world.carrier().questions();
    assert!((10..=16).contains(&questions.len()), "{questions:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_holds_no_worker_and_nobody_of_its_record() {
    let world = confirming(Setup::email(1), |w| {
        for id in ["week-31", "week-32", "week-33"] {
            w.carrier().fate(id, secs(300), Fate::Delivered);
            w.outbox.add(mail(id).to("ann"));
        }
    });
    world.until("all accepted", |w| w.leases(LeaseState::Accepted) == 3).await;
    assert!(world.at() < secs(5), "{:?}", world.at());
    assert_eq!(world.carrier().accepted(), ["week-31", "week-32", "week-33"]);
    world.until_delivered(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_waiting_sends_no_second_mail_and_finds_the_truth() {
    let mut world = confirming(Setup::email(2), |w| {
        w.carrier().fate("a", secs(120), Fate::Bounced);
        w.outbox.add(mail("a"));
    });
    world.until("accepted", |w| w.leases(LeaseState::Accepted) == 1).await;
    world.pass(secs(60)).await;
    world.crash().await;
    world.restart(Setup::email(2).settings);
    assert_eq!(world.until_acked("a").await, AckStatus::Bounced);
    let taken = world.carrier().tries().iter().filter(|t| t.taken.is_some()).count();
    assert_eq!((world.carrier().tries().len(), taken), (2, 1));
}

/// Restart after restart must not add up to the day after which the provider forgets the key.
#[tokio::test(start_paused = true)]
async fn the_window_counts_from_the_first_acceptance_whoever_saw_it() {
    let mut world = confirming(Setup::email(2), |w| {
        w.carrier().fate("a", secs(100_000), Fate::Bounced);
        w.outbox.add(mail("a"));
    });
    world.until("accepted", |w| w.leases(LeaseState::Accepted) == 1).await;
    for _ in 0..3 {
        world.pass(secs(190)).await;
        world.crash().await;
        world.restart(Setup::email(2).settings);
    }
    world.until_acked("a").await;
    assert!(world.at() < WINDOW + secs(30), "{:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_may_only_send_ends_the_waiting_and_stops_nothing() {
    let world = confirming(Setup::email(2), |w| {
        w.carrier().says(|_, _| Some(Said::MayNot));
        (0..5).for_each(|n| w.outbox.add(mail(format!("e{n}"))));
    });
    world.until_delivered(5).await;
    assert!(world.at() < secs(10) && world.unready().is_empty(), "{:?}", world.unready());
    assert_eq!(world.carrier().questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_half_of_the_window_waits() {
    let world = confirming(Setup::email(4).page_limit(10), |w| {
        (0..12).for_each(|n| {
            w.carrier().fate(&format!("e{n}"), secs(100_000), Fate::Bounced);
            w.outbox.add(mail(format!("e{n}")));
        });
    });
    world.until("all sent", |w| w.carrier().accepted().len() == 12).await;
    world.until("the oldest acked", |w| w.outbox.count(AckStatus::Delivered) == 7).await;
    assert_eq!(world.leases(LeaseState::Accepted), 5);
    assert!(world.at() < secs(60), "{:?}", world.at());
    assert_eq!(posted(&world, "e0")[0].1, "accepted, not confirmed: too many wait to be");
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_final_word_and_a_stop_leaves_it_pending() {
    let mut drain = confirming(Setup::email(2).drain(), |w| {
        w.carrier().fate("a", secs(90), Fate::Suppressed);
        w.outbox.add(mail("a"));
    });
    assert_eq!(drain.ended().await.exit_code(), 0);
    assert_eq!(drain.outbox.status("a"), Some(AckStatus::Suppressed));

    let mut daemon = confirming(Setup::email(2), |w| {
        w.carrier().fate("a", secs(90), Fate::Bounced);
        w.outbox.add(mail("a"));
    });
    daemon.until("accepted", |w| w.leases(LeaseState::Accepted) == 1).await;
    let report = daemon.stop().await;
    assert_eq!((report.exit_code(), report.unacked, report.due_left), (0, 0, 0));
    assert!(daemon.at() < secs(5) && daemon.outbox.posts_of("a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_listed_while_it_waits_is_acked_all_the_same() {
    let world = confirming(Setup::email(2), |w| {
        w.carrier().fate("a", secs(60), Fate::Complained);
        w.outbox.add(mail("a"));
    });
    world.until("accepted", |w| w.leases(LeaseState::Accepted) == 1).await;
    world.outbox.withdraw("a");
    world.pass(secs(30)).await;
    assert_eq!(world.leases(LeaseState::Accepted), 1);
    world.until("acked", |w| !w.outbox.posts_of("a").is_empty()).await;
    assert_eq!(posted(&world, "a")[0].0, AckStatus::Complaint);
}

#[tokio::test(start_paused = true)]
async fn sends_go_first_but_not_for_ever() {
    let world = confirming(Setup::email_at(fixed(1), 2), |w| {
        (0..200).for_each(|n| w.outbox.add(mail(format!("e{n}"))));
    });
    world.until("a question", |w| !w.carrier().questions().is_empty()).await;
    assert!((secs(60)..secs(70)).contains(&world.at()), "{:?}", world.at());
    world.until_delivered(200).await;
    assert!(world.at() < secs(280), "questions take no more than their share: {:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_that_a_question_meets_holds_the_gate_and_a_failure_closes_nothing() {
    let world = confirming(Setup::email(2), |w| {
        w.carrier().says(|_, _| Some(Said::Later { after: Some(secs(40)) }));
        w.outbox.add(mail("a"));
    });
    world.until("a question", |w| !w.carrier().questions().is_empty()).await;
    let asked = world.at();
    world.outbox.add(mail("b"));
    world.carrier().says(|_, _| Some(Said::Nothing(Cause::ServerError)));
    world.until("b sent", |w| w.carrier().tries_of("b").len() == 1).await;
    assert!(world.at() >= asked + secs(40), "{:?}", world.at());
    world.pass(secs(300)).await;
    assert!(!world.is_gate_closed() && world.unready().is_empty());
    world.carrier().says(|_, _| None);
    world.until_delivered(2).await;
    assert!(
        world.carrier().questions().iter().all(|asked| asked.question == Question::Newest { after: None })
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_hangs_holds_up_no_mail() {
    let world = confirming(Setup::email(1), |w| {
        w.carrier().asks_take(secs(15));
        w.outbox.add(mail("a"));
    });
    world.until("a question", |w| !w.carrier().questions().is_empty()).await;
    let asked = world.at();
    world.outbox.add(mail("b"));
    world.until("b sent", |w| w.carrier().tries_of("b").len() == 1).await;
    assert!(world.at() < asked + secs(6), "within a poll interval: {:?}", world.at());
}
