//! The way of an outcome back to the app: lost, refused, misdirected, contradicted, cut by a crash.

use axum::Json;
use axum::http::StatusCode;
use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::{digest, nudge};
use delivery_worker::sandbox::journal::{AckAnswer, Endpoint, Event, Log};
use rustix::process::Signal;
use serde_json::json;
use wiremock::ResponseTemplate;

use crate::harness::{Stage, Wire, mailed, says, text};

fn repeated(log: &Log) -> usize {
    log.entries().iter().filter(|entry| matches!(entry.event, Event::MailRepeated { .. })).count()
}

/// Case 6: 500 three times, then 200.
#[tokio::test]
async fn an_ack_that_fails_three_times_is_posted_until_it_is_taken_and_the_mail_is_sent_once() {
    let stage = Stage::of_email().await;
    stage.seam.ack_faults().add(Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).times(3));
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let program = stage.run().await;

    stage.acked(["week-31"]).await;
    let log = stage.more_pages(3, "email").await;
    assert_eq!((log.faults(Endpoint::Ack), log.acks().count()), (3, 1));
    assert_eq!((log.mails().count(), repeated(&log)), (1, 0));
    assert_eq!(program.metric(r#"delivery_acks_total{channel="email",result="status"}"#).await, 3.0);
    assert_eq!(program.get("/readyz").await.0, 200);
}

#[tokio::test]
async fn an_ack_whose_answer_is_lost_is_posted_again_and_nothing_is_sent_again() {
    let stage = Stage::of_email().await;
    stage.seam.ack_faults().add(Fault::cut().after_accepting());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let program = stage.run().await;

    program.logged("the ack", says("acked")).await;
    let log = stage.more_pages(3, "email").await;
    let answers: Vec<_> = log.acks().map(|ack| ack.answer).collect();
    assert_eq!(answers, [AckAnswer::Stored, AckAnswer::Kept(AckStatus::Delivered)]);
    assert_eq!((log.mails().count(), repeated(&log)), (1, 0));
}

/// Case 6: 301 to a page that says 200.
#[tokio::test]
async fn a_redirected_ack_is_not_taken_for_one_and_readiness_says_so() {
    let stage = Stage::of_email().await;
    let elsewhere =
        Wire::start(|_| ResponseTemplate::new(200).set_body_json(json!({"status": "delivered"}))).await;
    stage.seam.ack_faults().add(Fault::redirect(format!("{}/login?next=s3cret", elsewhere.url())).always());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let program = stage.run().await;

    let failed = |line: &serde_json::Value| text(line, "message").starts_with("ack failed");
    let line = program.logged_times(2, "the ack's failure", failed).await;
    let message = text(&line, "message");
    assert!(message.contains(&elsewhere.url()) && !message.contains("s3cret"), "{message}");
    let (status, reasons) = program.get("/readyz").await;
    assert!(status == 503 && reasons.contains("redirected"), "{status}: {reasons}");
    assert_eq!((elsewhere.requests().len(), stage.journal.log().acks().count()), (0, 0));

    stage.seam.ack_faults().clear();
    stage.acked(["week-31"]).await;
    program.logged("the ack", says("acked")).await;
    assert_eq!(program.get("/readyz").await, (200, "ready\n".to_owned()));
    assert_eq!((stage.journal.log().mails().count(), repeated(&stage.journal.log())), (1, 0));
}

/// Case 29: 404 for ever.
#[tokio::test]
async fn an_ack_refused_for_good_is_rare_and_readiness_says_so() {
    let stage = Stage::of_email().await;
    stage.seam.ack_faults().add(Fault::answer(StatusCode::NOT_FOUND).on("a/b").always());
    stage.seam.enqueue(digest("a/b", "ann@example.com"));
    stage.seam.enqueue(digest("next", "ann@example.com"));
    let program = stage.run().await;

    stage.acked(["next"]).await;
    let log = stage.more_pages(3, "email").await;
    assert_eq!((mailed(&log), repeated(&log)), (vec!["a/b".to_owned(), "next".to_owned()], 0));
    let (status, reasons) = program.get("/readyz").await;
    assert!(status == 503 && reasons.contains("refuses 1 ack(s) for good"), "{reasons}");
    assert!(program.metric(r#"delivery_acks_total{channel="email",result="refused"}"#).await >= 1.0);
}

#[tokio::test]
async fn while_no_ack_gets_through_no_new_sends_begin() {
    let stage = Stage::of_email().await;
    stage.seam.ack_faults().add(Fault::answer(StatusCode::BAD_GATEWAY).always());
    for n in 0..3 {
        stage.seam.enqueue(digest(&format!("first-{n}"), &format!("reader-{n}@example.com")));
    }
    let program = stage.run().await;
    program.logged("the seam's gate", says("acks do not get through")).await;
    stage.seam.enqueue(digest("later", "ann@example.com"));
    let log = stage.more_pages(4, "email").await;
    assert_eq!(log.mails().count(), 3, "{:?}", mailed(&log));
    assert!(program.get("/readyz").await.1.contains("acks do not get through"));

    stage.seam.ack_faults().clear();
    stage.acked(["first-0", "first-1", "first-2", "later"]).await;
    assert_eq!(mailed(&stage.journal.log()).len(), 4);
}

/// Case 6: `bounced` for our `delivered`.
#[tokio::test]
async fn an_app_that_holds_another_status_is_believed_and_warned_about() {
    let stage = Stage::of_email().await;
    stage.resend.faults().add(Fault::hang());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let program = stage.run().await;
    stage.until("the send", |log| log.faults(Endpoint::Mail) == 1).await;
    stage.seam.settle("week-31", AckStatus::Bounced, None);
    stage.resend.faults().release();

    let line = program.logged("the answer", says("acked, but the app holds otherwise")).await;
    assert_eq!((text(&line, "status"), text(&line, "stored")), ("delivered", "bounced"));
    assert_eq!(text(&line, "level"), "WARN");
    let log = stage.more_pages(3, "email").await;
    assert_eq!((log.mails().count(), log.acks().count()), (1, 2), "ours and the other's");
    assert_eq!(program.metric(r#"delivery_acks_total{channel="email",result="differs"}"#).await, 1.0);
}

/// Case 29: `unknown`, and still listed.
#[tokio::test]
async fn an_app_that_lists_what_it_has_taken_gets_the_ack_again_and_the_reader_nothing() {
    let stage = Stage::of_email().await;
    stage.seam.ack_faults().add(Fault::answer(Json(json!({"status": "unknown"}))).times(2));
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let program = stage.run().await;

    stage.acked(["week-31"]).await;
    let log = stage.more_pages(2, "email").await;
    assert_eq!((log.mails().count(), repeated(&log)), (1, 0));
    assert!(program.metric(r#"delivery_relisted_total{channel="email"}"#).await >= 1.0);
    let line = program.logged("the listing", says("still listed after its ack")).await;
    assert_eq!(text(&line, "level"), "ERROR");
}

/// Case 7: one mail; the second push replaces the first.
#[tokio::test]
async fn killed_between_the_providers_yes_and_the_ack_it_sends_no_second_mail() {
    let stage = Stage::new().await;
    let browser = stage.push.subscribe().unwrap();
    stage.seam.ack_faults().add(Fault::hang().always());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(nudge("nudge-1", &browser));
    let mut program = stage.run().await;
    stage.until("both acks on their way", |log| log.faults(Endpoint::Ack) == 2).await;
    program.signal(Signal::KILL);
    assert_eq!(program.exit().await, None);
    stage.seam.ack_faults().none_held().await;
    stage.seam.ack_faults().clear();

    let _again = stage.run().await;
    stage.acked(["week-31", "nudge-1"]).await;
    let log = stage.journal.log();
    assert_eq!((log.mails().count(), repeated(&log)), (1, 1), "one mail, asked for twice");
    let tags: Vec<_> = log.pushes().map(|push| (push.topic.clone(), push.tag.clone())).collect();
    assert_eq!(tags.len(), 2);
    assert_eq!(tags[0], tags[1]);
    assert_eq!(stage.push.shown().len(), 1, "the second copy replaces the first");
}

#[tokio::test]
async fn killed_before_the_providers_yes_arrives_it_sends_no_second_mail() {
    let stage = Stage::of_email().await;
    stage.resend.faults().add(Fault::hang().after_accepting());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.run().await;
    stage.until("the mail", |log| log.faults(Endpoint::Mail) == 1).await;
    program.signal(Signal::KILL);
    program.exit().await;
    stage.resend.faults().none_held().await;

    let _again = stage.run().await;
    stage.acked(["week-31"]).await;
    let log = stage.journal.log();
    assert_eq!((log.mails().count(), repeated(&log)), (1, 1));
}

/// Case 18: one mail, asked for twice.
#[tokio::test]
async fn a_connection_cut_before_the_answer_is_tried_again_under_the_same_key() {
    let stage = Stage::of_email().await;
    stage.resend.faults().add(Fault::cut().after_accepting());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let _program = stage.run().await;

    stage.acked(["week-31"]).await;
    let log = stage.journal.log();
    assert_eq!((log.mails().count(), repeated(&log)), (1, 1), "the same bytes, or it would be refused");
}

/// Case 17: `invalid_idempotent_request`, after a restart with another sender.
#[tokio::test]
async fn a_mail_that_an_earlier_process_sent_with_other_bytes_is_delivered_with_a_note() {
    let stage = Stage::of_email().await;
    stage.resend.faults().add(Fault::hang().after_accepting());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.run().await;
    stage.until("the mail", |log| log.faults(Endpoint::Mail) == 1).await;
    program.signal(Signal::KILL);
    program.exit().await;
    stage.resend.faults().none_held().await;

    let stage = stage.with("MAIL_FROM", "Other <other@mail.example.com>");
    let _again = stage.run().await;
    let [ack] = stage.acked(["week-31"]).await;
    assert_eq!(ack.posted, AckStatus::Delivered);
    let note = ack.detail.unwrap();
    assert!(note.contains("accepted before with another body"), "{note}");
    assert_eq!(stage.journal.log().mails().count(), 1);
}

/// Case 17: `concurrent_idempotent_requests`.
#[tokio::test]
async fn a_key_that_is_in_use_is_tried_again_and_costs_no_attempt() {
    let stage = Stage::of_email().await.with("DELIVERY_MAX_ATTEMPTS", "1");
    let busy = json!({"statusCode": 409, "name": "concurrent_idempotent_requests", "message": "in progress"});
    stage.resend.faults().add(Fault::answer((StatusCode::CONFLICT, Json(busy))).times(2));
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let _program = stage.run().await;

    let [ack] = stage.acked(["week-31"]).await;
    assert_eq!(ack.posted, AckStatus::Delivered);
    let log = stage.journal.log();
    assert_eq!((log.faults(Endpoint::Mail), log.mails().count(), repeated(&log)), (2, 1, 0));
}
