//! One stuck envelope holds up nobody else, and what is of one record stays in order.

use std::time::Duration;

use axum::http::StatusCode;
use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::examples::{digest, nudge};
use delivery_worker::sandbox::journal::{Endpoint, Event, Log};
use delivery_worker::sandbox::{Fault, PushService};

use crate::harness::{Stage, mailed, says};

/// Case 27: fifty behind one that hangs.
#[tokio::test]
async fn fifty_healthy_pushes_are_acked_while_one_endpoint_hangs() {
    let stage = Stage::of_push().await.with("DELIVERY_PUSH_WORKERS", "4");
    let hanging = stage.push.subscribe().unwrap();
    stage.push.faults().add(Fault::hang().on(&hanging.token));
    stage.seam.enqueue(nudge("hanging", &hanging));
    for n in 0..50 {
        stage.seam.enqueue(nudge(&format!("healthy-{n}"), &stage.push.subscribe().unwrap()));
    }
    let _program = stage.run().await;

    let log = stage.until("fifty acks", |log| log.acks().count() >= 50).await;
    assert!(log.acks().all(|ack| ack.id.starts_with("healthy-") && ack.posted == AckStatus::Delivered));
    stage.push.faults().release();
    stage.acked(["hanging"]).await;
    assert_eq!(stage.journal.log().pushes().count(), 51, "each was sent once");
}

/// Case 31: the healthy one's go out.
#[tokio::test]
async fn a_slow_push_service_with_work_for_every_worker_leaves_one_to_the_others() {
    let stage = Stage::of_push().await.with("DELIVERY_PUSH_WORKERS", "3");
    let other = PushService::start(0, stage.journal.clone()).await.unwrap();
    stage.push.faults().add(Fault::hang().always());
    for n in 0..9 {
        stage.seam.enqueue(nudge(&format!("slow-{n}"), &stage.push.subscribe().unwrap()));
    }
    for n in 0..5 {
        let browser = other.subscribe_for(&stage.push.vapid().public).unwrap();
        stage.seam.enqueue(nudge(&format!("quick-{n}"), &browser));
    }
    let _program = stage.run().await;

    stage.acked(["quick-0", "quick-1", "quick-2", "quick-3", "quick-4"]).await;
    assert_eq!(stage.journal.log().faults(Endpoint::Push), 2, "no more workers hang than may");
}

#[tokio::test]
async fn a_failing_week_holds_back_the_next_of_its_record_and_nothing_else() {
    let stage = Stage::of_email().await.with("DELIVERY_MAX_ATTEMPTS", "100");
    stage.resend.faults().add(Fault::answer(StatusCode::SERVICE_UNAVAILABLE).on("week-31").always());
    let browser = stage.push.subscribe().unwrap();
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(digest("week-32", "ann@example.com"));
    stage.seam.enqueue(nudge("sign-in", &browser).to_address("ann@example.com"));
    stage.seam.enqueue(digest("bob-31", "bob@example.com"));
    let _program = stage.run().await;

    stage.acked(["sign-in", "bob-31"]).await;
    let tried_again = |log: &Log| log.faults(Endpoint::Mail) >= 3;
    let log = stage.until("week 31 to be tried again", tried_again).await;
    assert!(!mailed(&log).contains(&"week-32".to_owned()), "week 32 has overtaken week 31");

    stage.resend.faults().clear();
    stage.acked(["week-31", "week-32"]).await;
    let order = mailed(&stage.journal.log());
    assert_eq!(order[2..], ["week-31", "week-32"]);
}

#[tokio::test]
async fn a_rate_limit_spaces_mails_and_fails_none() {
    let stage = Stage::of_email().await.with("RESEND_MAX_RPS", "");
    let limited = (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")]);
    stage.resend.faults().add(Fault::answer(limited).on("mail-0"));
    for n in 0..3 {
        stage.seam.enqueue(digest(&format!("mail-{n}"), &format!("reader-{n}@example.com")));
    }
    let program = stage.run().await;

    stage.acked(["mail-0", "mail-1", "mail-2"]).await;
    let log = stage.journal.log();
    let when = |is: fn(&Event) -> bool| log.entries().iter().find(|e| is(&e.event)).unwrap().at.mono;
    let refused = when(|event| matches!(event, Event::Faulted { .. }));
    let sent = when(|event| matches!(event, Event::Mailed(_)));
    assert!(sent - refused >= Duration::from_secs(1), "the whole gate waits as long as it was asked to");
    assert!(program.log(says("gate closed")).is_empty(), "a rate is no trouble");
}
