//! What a page may hold: junk, waiting envelopes, withdrawn ones, and news that is stale on arrival.

use std::time::Duration;

use axum::http::StatusCode;
use chrono::{SecondsFormat, TimeDelta, Utc};
use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::{digest, nudge};
use delivery_worker::sandbox::journal::{Endpoint, Event};
use serde_json::{Value, json};

use crate::harness::{Stage, Wire, WireSeam, mailed, says, text};
use wiremock::ResponseTemplate;

fn from_now(by: TimeDelta) -> String {
    (Utc::now() + by).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Case 1: three bad elements of twenty cost themselves alone.
#[tokio::test]
async fn a_page_of_twenty_with_three_bad_elements_sends_seventeen() {
    let mut elements: Vec<Value> =
        (1..=20).map(|n| digest(&format!("mail-{n}"), &format!("reader-{n}@example.com")).into()).collect();
    elements[6] = json!({"id": "x", "kind": 42});
    elements[7] = Value::Null;
    elements[8]["channel"] = "sms".into();
    let seam = WireSeam::start(elements).await;
    let resend = Wire::start(|_| ResponseTemplate::new(200).set_body_json(json!({"id": "m"}))).await;
    let stage = Stage::of_email().await;
    let stage = stage.with("OUTBOX_BASE_URL", seam.url()).with("RESEND_BASE_URL", resend.url());
    let program = stage.run().await;

    let acks = seam.acked(19).await;
    seam.more_pages(3).await;
    assert_eq!(resend.requests().len(), 17);
    let (failed, delivered): (Vec<_>, Vec<_>) = acks.iter().partition(|(_, ack)| ack["status"] == "failed");
    assert_eq!((failed.len(), delivered.len()), (2, 17));
    for (id, field) in [("x", "schema_version"), ("mail-9", "channel")] {
        assert!(text(&acks[id], "detail").contains(field), "{id}: {}", acks[id]);
    }
    assert_eq!(program.log(says("an element of a page has no usable id")).len(), 1);
    assert_eq!(
        program.metric(r#"delivery_unusable_elements_total{channel="email",problem="unnamed"}"#).await,
        1.0
    );
}

/// Case 2: one version of tomorrow among ten of today.
#[tokio::test]
async fn an_envelope_of_another_schema_version_is_left_alone_and_readiness_says_so() {
    let stage = Stage::of_email().await;
    let ids: [String; 10] = std::array::from_fn(|n| format!("mail-{n}"));
    for (n, id) in ids.iter().enumerate() {
        if n == 5 {
            stage.seam.enqueue(digest("of-tomorrow", "eve@example.com").set("/schema_version", "2"));
        }
        stage.seam.enqueue(digest(id, &format!("{id}@example.com")));
    }
    let program = stage.run().await;

    stage.acked(ids.each_ref().map(String::as_str)).await;
    let log = stage.more_pages(2, "email").await;
    assert_eq!((log.mails().count(), log.acks().count()), (10, 10));
    assert_eq!(stage.seam.pending("email").len(), 1, "it waits for a build that can read it");
    assert_eq!(program.log(says("schema version of another build")).len(), 1);
    let (status, reasons) = program.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(reasons.contains("1 envelope(s) of a schema version"), "{reasons}");
    assert_eq!(program.metric(r#"delivery_unready{reason="unreadable_version"}"#).await, 1.0);
}

/// Case 9: everything else goes out.
#[tokio::test]
async fn a_payload_that_lacks_a_field_is_failed_with_its_name_and_the_others_go_out() {
    let stage = Stage::of_email().await;
    stage.seam.enqueue(digest("before", "ann@example.com"));
    stage.seam.enqueue(
        digest("poison", "bob@example.com").set("/payload/sections/0/items", json!([{"quote": "q"}])),
    );
    stage.seam.enqueue(digest("nowhere", "eve@example.com").set("/template", "no-such-thing.v1"));
    stage.seam.enqueue(digest("after", "cat@example.com"));
    let _program = stage.run().await;

    let [before, after, poison, nowhere] = stage.acked(["before", "after", "poison", "nowhere"]).await;
    assert_eq!((before.posted, after.posted), (AckStatus::Delivered, AckStatus::Delivered));
    assert_eq!((poison.posted, nowhere.posted), (AckStatus::Failed, AckStatus::Failed));
    let detail = poison.detail.unwrap();
    assert!(detail.contains("episode_slug: is missing in sections[0].items[0]"), "{detail}");
    assert!(nowhere.detail.unwrap().contains("template"));
    assert!(stage.seam.unsubscribed().is_empty(), "a bad payload is nobody's consent");
}

#[tokio::test]
async fn nothing_is_sent_before_its_not_before_and_what_is_not_due_holds_nobody_back() {
    let stage = Stage::of_email().await;
    let not_before = Utc::now() + TimeDelta::seconds(1);
    let next_month = digest("next-month", "ann@example.com");
    stage.seam.enqueue(next_month.set("/not_before", from_now(TimeDelta::days(30))));
    let soon = digest("soon", "ann@example.com");
    stage.seam.enqueue(soon.set("/not_before", not_before.to_rfc3339()));
    stage.seam.enqueue(digest("now", "ann@example.com"));
    let _program = stage.run().await;

    stage.acked(["now", "soon"]).await;
    let log = stage.journal.log();
    let is_soon = |event: &Event| matches!(event, Event::Mailed(mail) if mail.idempotency_key.as_deref() == Some("soon"));
    let sent = log.entries().iter().find(|entry| is_soon(&entry.event)).unwrap();
    assert!(sent.at.wall >= not_before, "{} before {not_before}", sent.at.wall);
    assert_eq!(log.mails().count(), 2);
}

#[tokio::test]
async fn what_has_expired_is_acked_failed_and_not_sent() {
    let stage = Stage::of_email().await;
    stage.seam.list_expired(true);
    stage
        .seam
        .enqueue(digest("stale", "ann@example.com").set("/expires_at", from_now(TimeDelta::seconds(-5))));
    let _program = stage.run().await;

    let [stale] = stage.acked(["stale"]).await;
    assert_eq!(stale.posted, AckStatus::Failed);
    assert!(stale.detail.as_deref().is_some_and(|detail| detail.starts_with("expired")), "{stale:?}");
    assert_eq!(stage.journal.log().mails().count(), 0);
    assert!(stage.seam.unsubscribed().is_empty());
}

/// Case 28: a machine whose clock is a day ahead of the seam's.
#[tokio::test]
async fn while_the_clocks_disagree_nothing_is_failed_as_expired() {
    let stage = Stage::of_email().await;
    stage.seam.list_expired(true);
    stage.seam.set_clock_ahead(TimeDelta::days(-1));
    stage
        .seam
        .enqueue(digest("held", "ann@example.com").set("/expires_at", from_now(TimeDelta::seconds(-5))));
    let program = stage.run().await;

    program.logged("the skew", says("this machine's clock and the seam's disagree")).await;
    stage.seam.enqueue(digest("fresh", "bob@example.com"));
    stage.acked(["fresh"]).await;
    let log = stage.more_pages(3, "email").await;
    assert_eq!(log.acks().count(), 1, "{:?}", log.acks().collect::<Vec<_>>());
    let (status, reasons) = program.get("/readyz").await;
    assert!(status == 503 && reasons.contains("ahead of the seam's"), "{reasons}");
}

/// Case 3: what waits hides nobody.
#[tokio::test]
async fn a_fresh_envelope_behind_a_page_of_junk_and_waiting_ones_is_sent_without_a_hot_loop() {
    let stage = Stage::of_email().await.with("DELIVERY_EMAIL_WORKERS", "2");
    let wait = (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "3600")]);
    stage.resend.faults().add(Fault::answer(wait).on("in-an-hour"));
    stage.seam.enqueue(digest("in-an-hour", "ann@example.com"));
    for n in 0..20 {
        let next_month = digest(&format!("next-month-{n}"), &format!("reader-{n}@example.com"));
        stage.seam.enqueue(next_month.set("/not_before", from_now(TimeDelta::days(30))));
        stage.seam.enqueue(json!({"n": n}));
    }
    let program = stage.run().await;
    program.logged("the wait", |line| text(line, "outcome") == "retry").await;
    stage.seam.enqueue(digest("fresh", "bob@example.com"));
    stage.acked(["fresh"]).await;

    let log = stage.more_pages(8, "email").await;
    assert_eq!((mailed(&log), log.acks().count()), (vec!["fresh".to_owned()], 1));
    assert_eq!(log.faults(Endpoint::Mail), 1);
    let listed = |event: &Event| matches!(event, Event::Listed { .. });
    let times: Vec<_> = log.entries().iter().filter(|e| listed(&e.event)).map(|e| e.at.mono).collect();
    let settled = &times[times.len() - 6..];
    assert!(settled.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_millis(85)), "{settled:?}");
}

/// Case 5: withdrawn while it waits.
#[tokio::test]
async fn whoever_unsubscribes_while_a_retry_waits_gets_nothing() {
    let stage = Stage::of_email().await;
    let wait = (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]);
    stage.resend.faults().add(Fault::answer(wait));
    stage.seam.enqueue(digest("unwanted", "ann@example.com").set("/user_id", "ann"));
    let program = stage.run().await;
    program.logged("the wait", |line| text(line, "outcome") == "retry").await;

    stage.seam.unsubscribe("ann", "email");
    program.logged("the withdrawal", says("withdrawn")).await;
    let log = stage.more_pages(18, "email").await;
    assert_eq!((log.mails().count(), log.acks().count(), log.faults(Endpoint::Mail)), (0, 0, 1));
    assert_eq!(program.metric(r#"delivery_withdrawn_total{channel="email"}"#).await, 1.0);
    assert_eq!(program.metric(r#"delivery_leases{channel="email",state="waiting"}"#).await, 0.0);
}

/// Case 4: a page that is older than the ack.
#[tokio::test]
async fn a_page_that_was_asked_for_before_an_ack_does_not_send_its_envelope_again() {
    let stage = Stage::of_email().await;
    stage.resend.faults().add(Fault::hang());
    stage.seam.enqueue(digest("once", "ann@example.com"));
    let _program = stage.run().await;
    stage.until("the send", |log| log.faults(Endpoint::Mail) == 1).await;

    stage.seam.page_faults().add(Fault::hang().after_accepting());
    stage.until("a page that is late", |log| log.faults(Endpoint::Page) == 1).await;
    stage.resend.faults().release();
    stage.acked(["once"]).await;
    stage.seam.page_faults().release();

    let log = stage.more_pages(4, "email").await;
    let repeats = log.number_of(|event| matches!(event, Event::MailRepeated { .. }));
    assert_eq!((log.mails().count(), log.acks().count(), repeats), (1, 1, None));
}

#[tokio::test]
async fn ids_that_no_path_can_carry_hold_nobody_up() {
    let stage = Stage::of_email().await;
    for n in 0..3 {
        stage.seam.enqueue(digest(&format!("{n}{}", "x".repeat(300_000)), &format!("r{n}@example.com")));
    }
    let program = stage.run().await;
    program.logged_times(3, "the ids", |line| text(line, "problem") == "id is too long for a path").await;
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.acked(["week-31"]).await;
    assert_eq!(mailed(&stage.journal.log()), ["week-31"], "what cannot be acked is not sent");
}

#[tokio::test]
async fn an_app_that_ignores_the_channel_is_told_of_once_and_loses_nothing() {
    let stage = Stage::new().await;
    let later = from_now(TimeDelta::days(1));
    let waiting = digest("next-week", "ann@example.com").set("/not_before", &*later);
    let seam = WireSeam::start(vec![waiting.into()]).await;
    let program = stage.with("OUTBOX_BASE_URL", seam.url()).run().await;
    seam.more_pages(8).await;
    assert_eq!(program.log(says("listed in another channel's page")).len(), 1);
    let misplaced = r#"delivery_unusable_elements_total{channel="push",problem="misplaced"}"#;
    assert_eq!(program.metric(misplaced).await, 1.0);
    assert_eq!(seam.acked(0).await.len(), 0);
}

#[tokio::test]
async fn what_another_worker_carries_is_left_to_it() {
    let stage = Stage::new().await;
    let browser = stage.push.subscribe().unwrap();
    let elements = vec![nudge("of-another", &browser).into(), digest("ours", "ann@example.com").into()];
    let seam = WireSeam::start(elements).await;
    let resend = Wire::start(|_| ResponseTemplate::new(200).set_body_json(json!({"id": "m"}))).await;
    let stage = stage.with("OUTBOX_BASE_URL", seam.url()).with("RESEND_BASE_URL", resend.url());
    let _program = stage.with("DELIVERY_CHANNELS", "email").run().await;
    seam.more_pages(3).await;
    assert_eq!(seam.acked(1).await.keys().collect::<Vec<_>>(), ["ours"], "not failed for the other worker");
}
