//! What became of the mail: the later events of Resend reach the app as the first status that it hears.

use delivery_worker::sandbox::examples::digest;
use rustix::process::Signal;

use crate::harness::{Stage, says};

async fn stage() -> Stage {
    Stage::of_email().await.with("DELIVERY_EMAIL_ACK", "confirmed")
}

#[tokio::test]
async fn each_later_event_is_acked_as_what_it_is_and_as_the_first() {
    let stage = stage().await;
    let cases = [
        ("ann", "delivered"),
        ("bounced", "bounced"),
        ("suppressed", "suppressed"),
        ("failed", "failed"),
        ("delayed", "delivered"),
    ];
    for (local, _) in cases {
        stage.seam.enqueue(digest(local, &format!("{local}+1@example.com")));
    }
    let program = stage.run().await;
    stage.acked(cases.map(|(id, _)| id)).await;
    for (id, status) in cases {
        let log = stage.journal.log();
        let acks: Vec<&str> = log.acks().filter(|ack| ack.id == id).map(|ack| ack.posted.as_str()).collect();
        assert_eq!(acks, [status], "{id}");
    }
    assert_eq!(stage.resend.inbox().len(), 5);
    assert_eq!(
        program.metric(r#"delivery_confirmations_total{channel="email",result="bounced"}"#).await,
        1.0
    );
    let asked = stage.resend.questions();
    assert!((2..=4).contains(&asked), "{asked} requests for five mails");
}

#[tokio::test]
async fn without_a_final_word_it_is_delivered_with_that_detail() {
    let stage = stage().await.with("DELIVERY_CONFIRM_WINDOW", "4s");
    stage.seam.enqueue(digest("week-31", "silent@example.com"));
    let _program = stage.run().await;
    stage.acked(["week-31"]).await;
    let log = stage.journal.log();
    let ack = log.acks().next().unwrap();
    assert_eq!((ack.posted.as_str(), ack.detail.as_deref()), ("delivered", Some("accepted, not confirmed")));
}

#[tokio::test]
async fn a_kill_in_the_middle_of_waiting_leaves_one_mail_and_the_right_status() {
    let stage = stage().await;
    stage.seam.enqueue(digest("week-31", "bounced@example.com"));
    let mut first = stage.run().await;
    first.logged("the acceptance", |line| line["outcome"] == "accepted").await;
    first.signal(Signal::KILL);
    first.exit().await;
    assert_eq!(stage.journal.log().acks().count(), 0);
    let _second = stage.run().await;
    stage.acked(["week-31"]).await;
    let log = stage.journal.log();
    assert_eq!(log.acks().map(|ack| ack.posted.as_str()).collect::<Vec<_>>(), ["bounced"]);
    assert_eq!(stage.resend.inbox().len(), 1);
}

#[tokio::test]
async fn a_key_that_may_only_send_is_told_once_and_mails_are_acked_as_they_are_accepted() {
    let stage = stage().await;
    stage.resend.only_sends();
    for n in 0..3 {
        stage.seam.enqueue(digest(&format!("first-{n}"), "bounced@example.com"));
    }
    let program = stage.run().await;
    stage.acked(["first-0", "first-1", "first-2"]).await;
    stage.seam.enqueue(digest("second", "bounced@example.com"));
    stage.acked(["second"]).await;
    let log = stage.journal.log();
    assert!(log.acks().all(|ack| ack.posted.as_str() == "delivered"));
    assert_eq!(program.log(says("the API key may send and not read")).len(), 1);
    assert_eq!(stage.resend.questions(), 1);
    assert_eq!(program.get("/readyz").await.0, 200);
}

#[tokio::test]
async fn two_hundred_and_fifty_that_wait_cost_three_requests_a_round() {
    let stage = stage().await;
    for n in 0..250 {
        stage.seam.enqueue(digest(&format!("week-{n}"), &format!("ann+{n}@example.com")));
    }
    let program = stage.run().await;
    program.logged_times(250, "the final words", says("final word")).await;
    let asked = stage.resend.questions();
    assert!((3..=9).contains(&asked), "{asked} requests for 250 mails");
}

#[tokio::test]
async fn a_drain_waits_for_the_final_word_and_a_stop_does_not() {
    let stage = stage().await;
    stage.seam.enqueue(digest("week-31", "bounced@example.com"));
    let mut daemon = stage.run().await;
    daemon.logged("the acceptance", |line| line["outcome"] == "accepted").await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit().await, Some(0));
    assert_eq!(stage.journal.log().acks().count(), 0);
    let mut drain = stage.drain();
    assert_eq!(drain.exit().await, Some(0));
    let log = stage.journal.log();
    assert_eq!(log.acks().map(|ack| ack.posted.as_str()).collect::<Vec<_>>(), ["bounced"]);
    assert_eq!(stage.resend.inbox().len(), 1);
}
