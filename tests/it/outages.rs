//! Trouble that is the seam's, a provider's or a credential's: it costs time and no mail, and the
//! operator sees it. Trouble that is one subscription's stays with that one.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::{digest, nudge};
use delivery_worker::sandbox::journal::{Endpoint, Event};
use delivery_worker::sandbox::push::VapidKeys;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Stage, says, text};

/// Case 8: not ready, alive, and delivering once it is back.
#[tokio::test]
async fn a_seam_that_is_away_for_a_while_is_waited_for() {
    let stage = Stage::of_email().await;
    let program = stage.run().await;
    stage.more_pages(1, "email").await;
    stage.seam.server().stop().await;
    program.logged("the outage", says("poll failed")).await;
    let (status, reasons) = program.get("/readyz").await;
    assert!(
        status == 503 && reasons.contains("no page comes: the seam is out of reach (connect)"),
        "{reasons}"
    );
    assert_eq!(program.get("/healthz").await.0, 200, "it is alive all the same");

    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.server().restart().await.unwrap();
    stage.acked(["week-31"]).await;
    assert_eq!(program.get("/readyz").await, (200, "ready\n".to_owned()));
}

#[tokio::test]
async fn a_worker_that_starts_before_its_seam_is_up_delivers_once_it_is() {
    let stage = Stage::of_email().await;
    stage.seam.server().stop().await;
    let program = stage.run().await;
    program.logged("the outage", says("poll failed")).await;
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.server().restart().await.unwrap();
    stage.acked(["week-31"]).await;
}

#[tokio::test]
async fn a_refused_token_is_named_and_not_told() {
    let stage = Stage::of_email().await.with("INTERNAL_OUTBOX_TOKEN", "wr0ng-token");
    let program = stage.run().await;
    program.logged("the refusal", says("poll failed: the seam refuses the token")).await;
    let (status, reasons) = program.get("/readyz").await;
    assert!(status == 503 && reasons.contains("INTERNAL_OUTBOX_TOKEN"), "{reasons}");
    assert!(!program.output().contains("wr0ng-token"));
}

fn revoked() -> Fault {
    let body = json!({"statusCode": 401, "name": "validation_error", "message": "API key is invalid"});
    Fault::answer((StatusCode::UNAUTHORIZED, Json(body)))
}

/// What Resend's edge answers, before Resend.
fn turned_away() -> Fault {
    Fault::answer((StatusCode::FORBIDDEN, "error code: 1010"))
}

/// Case 15: fifty pending behind a revoked key, and behind an edge that turns the worker away.
#[tokio::test]
async fn a_revoked_key_costs_a_request_a_worker_and_no_mail() {
    for (fault, cause) in [(revoked(), "api_key"), (turned_away(), "wrong_url")] {
        let stage = Stage::of_email().await;
        let ids: [String; 50] = std::array::from_fn(|n| format!("mail-{n}"));
        for id in &ids {
            stage.seam.enqueue(digest(id, &format!("{id}@example.com")));
        }
        stage.resend.faults().add(fault.always());
        let program = stage.run().await;

        let line = program.logged("the gate", says("gate closed")).await;
        assert_eq!((text(&line, "gate"), text(&line, "cause")), ("resend", cause));
        let log = stage.more_pages(6, "email").await;
        assert!(log.faults(Endpoint::Mail) <= 4, "{} requests of 4 workers", log.faults(Endpoint::Mail));
        assert_eq!(log.acks().count(), 0);
        let reason = format!("the gate of resend is closed: {cause}");
        assert!(program.get("/readyz").await.1.contains(&reason));
        let closed = r#"delivery_gates{channel="email",gate="resend",state="closed"}"#;
        assert_eq!(program.metric(closed).await, 1.0);
        let closings = format!(r#"delivery_gate_closed_total{{gate="resend",cause="{cause}"}}"#);
        assert_eq!(program.metric(&closings).await, 1.0);

        stage.resend.faults().clear();
        program.signal(Signal::HUP);
        let acks = stage.acked(ids.each_ref().map(String::as_str)).await;
        assert!(acks.iter().all(|ack| ack.posted == AckStatus::Delivered));
        assert_eq!(stage.journal.log().mails().count(), 50);
        assert_eq!(program.get("/readyz").await, (200, "ready\n".to_owned()));
        assert_eq!(program.log(says("gate closed")).len(), 1, "told once");
    }
}

/// Case 30: the gate closes at the first, nothing is failed.
#[tokio::test]
async fn a_sender_setting_that_resend_refuses_closes_the_gate_at_the_first_mail() {
    let stage = Stage::of_email().await;
    let refused =
        json!({"statusCode": 422, "name": "validation_error", "message": "Invalid `reply_to` field."});
    stage.resend.faults().add(Fault::answer((StatusCode::UNPROCESSABLE_ENTITY, Json(refused))).always());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let program = stage.run().await;

    let line = program.logged("the gate", says("gate closed")).await;
    assert_eq!(text(&line, "cause"), "sender_settings");
    stage.seam.enqueue(digest("next", "bob@example.com"));
    let log = stage.more_pages(4, "email").await;
    assert_eq!((log.faults(Endpoint::Mail), log.acks().count()), (1, 0));
    stage.resend.faults().clear();
    program.signal(Signal::HUP);
    stage.acked(["week-31", "next"]).await;
}

/// Case 19: an outage fails nothing.
#[tokio::test]
async fn an_outage_of_resend_fails_nothing_and_ends_by_itself() {
    let stage = Stage::of_email().await.with("DELIVERY_MAX_ATTEMPTS", "2");
    let ids: [String; 8] = std::array::from_fn(|n| format!("mail-{n}"));
    for id in &ids {
        stage.seam.enqueue(digest(id, &format!("{id}@example.com")));
    }
    stage.resend.faults().add(Fault::answer(StatusCode::SERVICE_UNAVAILABLE).times(9));
    let program = stage.run().await;

    let line = program.logged("the gate", says("gate closed")).await;
    assert_eq!(text(&line, "cause"), "unavailable");
    let acks = stage.acked(ids.each_ref().map(String::as_str)).await;
    assert!(acks.iter().all(|ack| ack.posted == AckStatus::Delivered), "{acks:?}");
    program.logged("the end of the outage", says("gate open again")).await;
}

/// Case 19: one mail that always answers 500.
#[tokio::test]
async fn one_mail_that_always_fails_is_given_up_while_others_pass() {
    let stage = Stage::of_email().await.with("DELIVERY_MAX_ATTEMPTS", "3");
    stage.resend.faults().add(Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).on("poison").always());
    stage.seam.enqueue(digest("poison", "ann@example.com"));
    stage.seam.enqueue(digest("good", "bob@example.com"));
    let _program = stage.run().await;

    let [good, poison] = stage.acked(["good", "poison"]).await;
    assert_eq!((good.posted, poison.posted), (AckStatus::Delivered, AckStatus::Failed));
    let detail = poison.detail.unwrap();
    assert!(detail.contains("after 3 attempts") && detail.contains("500"), "{detail}");
    assert_eq!(stage.journal.log().faults(Endpoint::Mail), 3);
}

#[tokio::test]
async fn a_dead_subscription_is_bounced_and_ends_that_consent_alone() {
    let stage = Stage::of_push().await;
    let [dead, alive] = [0, 1].map(|_| stage.push.subscribe().unwrap());
    stage.push.unsubscribe(&dead.token);
    stage.seam.enqueue(nudge("dead", &dead).set("/user_id", "ann"));
    stage.seam.enqueue(nudge("alive", &alive).set("/user_id", "bob"));
    let _program = stage.run().await;

    let [dead, alive] = stage.acked(["dead", "alive"]).await;
    assert_eq!((dead.posted, alive.posted), (AckStatus::Bounced, AckStatus::Delivered));
    assert_eq!(stage.seam.unsubscribed(), [("ann".to_owned(), "push".to_owned())].into());
}

/// Case 22: the other destination goes on.
#[tokio::test]
async fn a_throttled_subscription_waits_alone() {
    let stage = Stage::of_push().await;
    let [throttled, other] = [0, 1].map(|_| stage.push.subscribe().unwrap());
    let wait = (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")]);
    stage.push.faults().add(Fault::answer(wait).on(&throttled.token));
    stage.seam.enqueue(nudge("throttled", &throttled));
    stage.seam.enqueue(nudge("other", &other));
    let _program = stage.run().await;

    stage.acked(["throttled", "other"]).await;
    let log = stage.journal.log();
    let when = |is: fn(&Event) -> bool| log.entries().iter().rfind(|e| is(&e.event)).unwrap().at.mono;
    let refused = when(|event| matches!(event, Event::Faulted { .. }));
    let sent = when(|event| matches!(event, Event::Pushed(_)));
    assert!(sent - refused >= Duration::from_secs(1), "it was asked to wait a second");
    assert_eq!(log.pushes().next().unwrap().token, other.token);
}

/// Case 20: one of five.
#[tokio::test]
async fn a_subscription_of_another_vapid_key_fails_alone_and_nobody_bounces() {
    let stage = Stage::of_push().await.with("DELIVERY_MAX_ATTEMPTS", "3");
    let foreign = stage.push.subscribe_for(&VapidKeys::generate().unwrap().public).unwrap();
    stage.seam.enqueue(nudge("foreign", &foreign));
    for id in ["one", "two", "three", "four"] {
        stage.seam.enqueue(nudge(id, &stage.push.subscribe().unwrap()));
    }
    let program = stage.run().await;

    let [foreign, ours @ ..] = stage.acked(["foreign", "one", "two", "three", "four"]).await;
    assert!(ours.iter().all(|ack| ack.posted == AckStatus::Delivered), "{ours:?}");
    assert_eq!(foreign.posted, AckStatus::Failed, "after its attempts: {:?}", foreign.detail);
    assert!(stage.seam.unsubscribed().is_empty());
    assert!(program.log(says("gate closed")).is_empty());
}

/// Case 20: all five.
#[tokio::test]
async fn a_vapid_key_that_no_subscription_takes_closes_the_origin_and_fails_nothing() {
    let stage = Stage::of_push().await;
    let other = VapidKeys::generate().unwrap();
    for id in ["one", "two", "three", "four", "five"] {
        stage.seam.enqueue(nudge(id, &stage.push.subscribe_for(&other.public).unwrap()));
    }
    let program = stage.run().await;

    let line = program.logged("the gate", says("gate closed")).await;
    assert_eq!((text(&line, "gate"), text(&line, "cause")), ("other", "push_credential"));
    let log = stage.more_pages(5, "push").await;
    assert_eq!(log.acks().count(), 0);
    assert_eq!(program.log(|line| text(line, "level") == "ERROR").len(), 1, "told once");
    assert!(program.get("/readyz").await.1.contains("the gate of other is closed: push_credential"));
}

/// Case 23: what must not be connected to, by the whole program.
#[tokio::test]
async fn an_endpoint_inside_the_own_network_is_failed_and_never_connected_to() {
    let stage = Stage::of_push().await.with("PUSH_ALLOW_PRIVATE_ENDPOINTS", "false");
    let port = stage.push.server().url().rsplit_once(':').unwrap().1.to_owned();
    let hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "100.64.0.1", "169.254.169.254"];
    for (n, host) in hosts.iter().enumerate() {
        for scheme in ["http", "https"] {
            let mut browser = stage.push.subscribe().unwrap();
            browser.json["endpoint"] = format!("{scheme}://{host}:{port}/push/{}", browser.token).into();
            stage.seam.enqueue(nudge(&format!("{scheme}-{n}"), &browser));
        }
    }
    let _program = stage.run().await;

    let log = stage.until("twelve acks", |log| log.acks().count() == 12).await;
    for ack in log.acks() {
        assert_eq!(ack.posted, AckStatus::Failed, "{ack:?}");
    }
    assert_eq!((log.pushes().count(), log.refusals().count()), (0, 0));
    assert!(stage.seam.unsubscribed().is_empty());
}
