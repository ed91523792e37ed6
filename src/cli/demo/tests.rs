//! The demo as `make demo` runs it, and that its verdict can be no.

use std::future::pending;

use axum::Json;
use axum::http::StatusCode;
use serde_json::json;

use super::*;
use crate::outcome::AckStatus;
use crate::sandbox::Fault;

/// A demo with its mails in a directory that is gone with the guard.
async fn prepared() -> (Demo, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mails = Mails::open(Some(directory.path().join("mails"))).unwrap();
    (Demo::prepare(mails, Screen::plain()).await.unwrap(), directory)
}

/// Plays until the table; the exit and what was shown.
async fn played(demo: &Demo) -> (Exit, String) {
    let mut out = Vec::new();
    let exit = demo.play(demo.config(|_| None).unwrap(), true, &mut out, pending()).await.unwrap();
    (exit, String::from_utf8(out).unwrap())
}

/// The lines after the verdict's "not".
fn wrong(shown: &str) -> Vec<&str> {
    let (_, lines) = shown.split_once(show::NOT_AS_IT_SHOULD_BE).unwrap();
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[tokio::test]
async fn every_envelope_of_the_demo_ends_as_it_should() {
    let (demo, _directory) = prepared().await;
    let (exit, shown) = played(&demo).await;
    assert_eq!(exit, Exit::Clean, "{shown}");
    for role in &demo.cast {
        assert!(shown.matches(role.id).count() >= 2, "{} as it ends and in the table\n{shown}", role.id);
    }
    for mail in demo.sandbox.resend.inbox() {
        let name = mail.idempotency_key.clone().unwrap();
        let read = |kind: &str| {
            std::fs::read_to_string(demo.mails.directory().join(format!("{name}.{kind}"))).unwrap()
        };
        assert_eq!((read("html"), read("txt")), (mail.html.clone(), mail.text.clone()));
    }
    let push = demo.sandbox.push.shown().remove(0);
    assert!([&push.title, &push.body, &push.url].iter().all(|part| shown.contains(*part)), "{shown}");
}

#[tokio::test]
async fn an_envelope_that_ends_otherwise_makes_the_demo_fail_and_is_named() {
    let (demo, _directory) = prepared().await;
    let refusal = json!({"statusCode": 422, "name": "validation_error", "message": "no"});
    let fault = Fault::answer((StatusCode::UNPROCESSABLE_ENTITY, Json(refusal)));
    demo.sandbox.resend.faults().add(fault.on("mail-digest"));
    let (exit, shown) = played(&demo).await;
    assert_eq!(exit, Exit::Failed, "{shown}");
    assert_eq!(wrong(&shown), ["mail-digest: should be delivered, is failed"]);
}

#[tokio::test]
async fn one_attempt_too_many_and_a_refusal_by_a_stand_in_are_named() {
    let (demo, _directory) = prepared().await;
    demo.sandbox.resend.faults().add(Fault::cut().on("mail-nudge"));
    let nudged = demo.cast.iter().find(|role| role.id == "push-nudge").unwrap();
    demo.sandbox.push.unsubscribe(&nudged.target);
    let (exit, shown) = played(&demo).await;
    assert_eq!(exit, Exit::Failed, "{shown}");
    let expected = [
        "mail-nudge: attempts: 2 instead of 1",
        "push-nudge: should be delivered, is bounced",
        "push-nudge: refused by a stand-in with 410: the subscription has ended",
    ];
    assert_eq!(wrong(&shown), expected);
}

#[tokio::test]
async fn when_the_time_is_up_what_is_missing_is_named() {
    let (demo, _directory) = prepared().await;
    let demo = Demo { patience: Duration::ZERO, ..demo };
    let (exit, shown) = played(&demo).await;
    assert_eq!(exit, Exit::Failed);
    let wrong = wrong(&shown);
    assert!(wrong.contains(&"mail-not-before: should be delivered, is pending"), "{wrong:?}");
    assert!(wrong.last().unwrap().contains("time is up"), "{wrong:?}");
}

#[tokio::test]
async fn a_stop_ends_a_demo_that_goes_on_and_keeps_its_verdict() {
    let (demo, _directory) = prepared().await;
    let demo = Demo { pause: Duration::ZERO, ..demo };
    let mut out = Vec::new();
    let stop = async {
        let goes_on = |log: &Log| log.acks().any(|ack| ack.id == "fresh-3");
        demo.sandbox.journal.wait_until(goes_on).await;
    };
    let exit = demo.play(demo.config(|_| None).unwrap(), false, &mut out, stop).await.unwrap();
    let shown = String::from_utf8(out).unwrap();
    assert_eq!(exit, Exit::Clean, "{shown}");
    assert!(shown.contains("/metrics") && shown.contains("delivered   fresh-2"), "{shown}");
}

#[tokio::test]
async fn each_way_to_end_is_in_the_cast() {
    let (demo, _directory) = prepared().await;
    let has = |how: How| demo.cast.iter().any(|role| role.expected.how() == how);
    for status in [AckStatus::Delivered, AckStatus::Bounced, AckStatus::Failed] {
        assert!(has(How::Acked(status)), "{status}");
    }
    assert!(has(How::Withdrawn) && has(How::LeftAlone));
}
