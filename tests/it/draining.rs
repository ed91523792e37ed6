//! `drain`: it ends by itself, and its exit code says whether something due is left.

use axum::Json;
use axum::http::StatusCode;
use chrono::{TimeDelta, Utc};
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::{digest, nudge};
use delivery_worker::sandbox::push::VapidKeys;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Stage, mailed, number, says, text};

#[tokio::test]
async fn it_ends_clean_when_all_is_done_retries_and_lost_acks_included() {
    let stage = Stage::new().await;
    let browser = stage.push.subscribe().unwrap();
    stage.resend.faults().add(Fault::answer(StatusCode::SERVICE_UNAVAILABLE).on("week-31").times(2));
    stage.seam.ack_faults().add(Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).on("nudge-1").times(2));
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(nudge("nudge-1", &browser));
    let next_month = (Utc::now() + TimeDelta::days(30)).to_rfc3339();
    stage.seam.enqueue(digest("not-due", "bob@example.com").set("/not_before", next_month));
    stage.seam.enqueue(digest("of-tomorrow", "eve@example.com").set("/schema_version", "2"));
    let mut program = stage.drain();

    assert_eq!(program.exit().await, Some(0));
    stage.acked(["week-31", "nudge-1"]).await;
    assert_eq!(mailed(&stage.journal.log()), ["week-31"]);
    assert_eq!(stage.seam.pending("email").len(), 2, "what is not due, and what is for another build");
    let last = program.log(|_| true).pop().unwrap();
    assert!(text(&last, "message").starts_with("drained"), "{last}");
}

#[tokio::test]
async fn more_than_one_page_is_drained_whole() {
    let stage = Stage::of_email().await.with("OUTBOX_PAGE_LIMIT", "7");
    for n in 0..40 {
        stage.seam.enqueue(digest(&format!("mail-{n}"), &format!("reader-{n}@example.com")));
    }
    let mut program = stage.drain();
    assert_eq!(program.exit().await, Some(0));
    assert_eq!(stage.journal.log().mails().count(), 40);
    assert!(stage.seam.pending("email").is_empty());
}

#[tokio::test]
async fn an_empty_outbox_is_drained_at_once() {
    let stage = Stage::new().await;
    assert_eq!(stage.drain().exit().await, Some(0));
}

#[tokio::test]
async fn a_closed_gate_with_due_envelopes_behind_it_ends_it_with_75() {
    let stage = Stage::new().await;
    let revoked = json!({"statusCode": 401, "name": "validation_error", "message": "API key is invalid"});
    stage.resend.faults().add(Fault::answer((StatusCode::UNAUTHORIZED, Json(revoked))).always());
    for n in 0..6 {
        stage.seam.enqueue(digest(&format!("mail-{n}"), &format!("reader-{n}@example.com")));
    }
    stage.seam.enqueue(nudge("nudge-1", &stage.push.subscribe().unwrap()));
    let mut program = stage.drain();

    assert_eq!(program.exit().await, Some(75));
    stage.acked(["nudge-1"]).await;
    assert_eq!(stage.journal.log().acks().count(), 1);
    let last = program.log(|_| true).pop().unwrap();
    assert_eq!(number(&last, "due_left"), 6, "{last}");
}

#[tokio::test]
async fn one_subscription_that_refuses_us_is_left_for_later() {
    let stage = Stage::of_push().await;
    let foreign = stage.push.subscribe_for(&VapidKeys::generate().unwrap().public).unwrap();
    stage.seam.enqueue(nudge("foreign", &foreign));
    let mut program = stage.drain();
    assert_eq!(program.exit().await, Some(75));
    assert_eq!(stage.journal.log().acks().count(), 0);
}

#[tokio::test]
async fn a_signal_ends_it_early() {
    let stage = Stage::of_email().await;
    let wait = (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "300")]);
    stage.resend.faults().add(Fault::answer(wait));
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.drain();
    program.logged("the wait", |line| text(line, "outcome") == "retry").await;
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0), "nothing is cut and nothing is known and unacked");
}

#[tokio::test]
async fn a_refused_token_ends_it_with_1() {
    let stage = Stage::new().await.with("INTERNAL_OUTBOX_TOKEN", "wr0ng-token");
    let mut program = stage.drain();
    assert_eq!(program.exit().await, Some(1));
    program.logged("the reason", says("gave up: the seam refuses the token")).await;
}
