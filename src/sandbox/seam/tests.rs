use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use std::time::Duration;

use crate::clock::Clock;
use crate::envelope::{self, Reading};
use crate::outcome::AckStatus;
use crate::sandbox::examples::{self, Example};
use crate::sandbox::journal::AckAnswer;
use crate::sandbox::testing::{Answer, HandClock, ask, client, sandbox, sandbox_at};
use crate::sandbox::{Options, Sandbox};

async fn get(sandbox: &Sandbox, path_and_query: &str) -> Answer {
    let url = format!("{}{path_and_query}", sandbox.seam.server().url());
    ask(client().get(url).header("X-Internal-Token", "sandbox-token")).await.unwrap()
}

/// The ids of a page, `-` for an element without one.
async fn page(sandbox: &Sandbox, channel: &str, limit: u16) -> Vec<String> {
    let answer = get(sandbox, &format!("/internal/outbox/pending?channel={channel}&limit={limit}")).await;
    assert_eq!(answer.status, 200);
    let elements = answer.body["envelopes"].as_array().unwrap().clone();
    elements.iter().map(|e| e["id"].as_str().unwrap_or("-").to_owned()).collect()
}

async fn post(sandbox: &Sandbox, id_in_path: &str, body: &Value) -> Answer {
    let url = format!("{}/internal/outbox/{id_in_path}/status", sandbox.seam.server().url());
    let request = client().post(url).header("X-Internal-Token", "sandbox-token");
    ask(request.body(body.to_string())).await.unwrap()
}

fn mail(id: &str) -> Example {
    examples::digest(id, "ann@example.com")
}

#[tokio::test]
async fn a_page_is_the_oldest_pending_of_its_channel_and_unreadable_ones_are_in_every_page() {
    let sandbox = sandbox().await;
    let browser = sandbox.push.subscribe().unwrap();
    for id in ["m-1", "m-2", "m-3"] {
        sandbox.seam.enqueue(mail(id));
    }
    sandbox.seam.enqueue(examples::nudge("p-1", &browser));
    sandbox.seam.enqueue(Value::Null);
    sandbox.seam.enqueue(json!({"id": "x", "channel": 7}));
    assert_eq!(page(&sandbox, "email", 500).await, ["m-1", "m-2", "m-3", "-", "x"]);
    assert_eq!(page(&sandbox, "push", 500).await, ["p-1", "-", "x"]);
    assert_eq!(page(&sandbox, "email", 2).await, ["m-1", "m-2"]);
    assert_eq!(page(&sandbox, "email", 2).await, ["m-1", "m-2"], "there is no cursor");
    assert_eq!(sandbox.journal.log().pages(), 4);
}

#[tokio::test]
async fn limits_outside_1_to_500_and_missing_parameters_are_422() {
    let sandbox = sandbox().await;
    for query in [
        "channel=email&limit=501",
        "channel=email&limit=0",
        "channel=email",
        "limit=5",
        "limit=x&channel=email",
    ] {
        assert_eq!(get(&sandbox, &format!("/internal/outbox/pending?{query}")).await.status, 422, "{query}");
    }
    assert_eq!(sandbox.journal.log().refusals().count(), 5);
}

#[tokio::test]
async fn the_token_is_checked_in_either_header_and_503_says_that_none_is_configured() {
    let sandbox = sandbox().await;
    let url = format!("{}/internal/outbox/pending?channel=email&limit=1", sandbox.seam.server().url());
    let status = |name: &'static str, value: &'static str| {
        let request = client().get(&url).header(name, value);
        async { ask(request).await.unwrap().status }
    };
    assert_eq!(status("X-Internal-Token", "sandbox-token").await, 200);
    assert_eq!(status("Authorization", "Bearer sandbox-token").await, 200);
    assert_eq!(status("Authorization", "sandbox-token").await, 401);
    assert_eq!(status("X-Internal-Token", "guess").await, 401);
    assert_eq!(status("X-Other", "sandbox-token").await, 401);
    let ack = client().post(format!("{}/internal/outbox/e/status", sandbox.seam.server().url()));
    assert_eq!(ask(ack.body(r#"{"status":"delivered"}"#)).await.unwrap().status, 401);

    let open = Sandbox::start(Options { token: None, ..Options::default() }).await.unwrap();
    assert_eq!(get(&open, "/internal/outbox/pending?channel=email&limit=1").await.status, 503);
}

#[tokio::test]
async fn the_first_status_wins_and_the_settled_are_listed_no_more() {
    let sandbox = sandbox().await;
    sandbox.seam.enqueue(mail("e-1"));
    let first = post(&sandbox, "e-1", &json!({"status": "delivered", "detail": "sent"})).await;
    let second = post(&sandbox, "e-1", &json!({"status": "failed"})).await;
    assert_eq!((first.body, second.body), (json!({"status": "delivered"}), json!({"status": "delivered"})));
    assert_eq!(page(&sandbox, "email", 500).await, [""; 0]);
    assert_eq!(sandbox.seam.statuses()["e-1"], AckStatus::Delivered);
    let log = sandbox.journal.log();
    let acks: Vec<_> = log.acks().map(|ack| (ack.posted, ack.answer, ack.detail.as_deref())).collect();
    let kept = AckAnswer::Kept(AckStatus::Delivered);
    assert_eq!(
        acks,
        [(AckStatus::Delivered, AckAnswer::Stored, Some("sent")), (AckStatus::Failed, kept, None)]
    );
}

#[tokio::test]
async fn unknown_ids_are_answered_and_statuses_outside_the_contract_refused() {
    let sandbox = sandbox().await;
    sandbox.seam.enqueue(mail("e-1"));
    let unknown = post(&sandbox, "nobody", &json!({"status": "failed"})).await;
    assert_eq!((unknown.status, unknown.body), (200, json!({"status": "unknown"})));
    for body in [json!({"status": "sent"}), json!({"status": null}), json!({}), json!("delivered")] {
        assert_eq!(post(&sandbox, "e-1", &body).await.status, 422, "{body}");
    }
    assert!(sandbox.seam.statuses().is_empty());
}

/// Written out here: the words that the worker's own code has may be wrong.
#[tokio::test]
async fn the_statuses_are_the_five_words_of_the_contract() {
    let sandbox = sandbox().await;
    for word in ["delivered", "bounced", "complaint", "suppressed", "failed"] {
        sandbox.seam.enqueue(mail(word));
        assert_eq!(post(&sandbox, word, &json!({"status": word})).await.body, json!({"status": word}));
    }
}

#[tokio::test]
async fn ids_are_opaque_segments_of_the_path() {
    let sandbox = sandbox().await;
    sandbox.seam.enqueue(mail("a/b ?ü%"));
    let answer = post(&sandbox, "a%2Fb%20%3F%C3%BC%25", &json!({"status": "delivered"})).await;
    assert_eq!(answer.body, json!({"status": "delivered"}));
    assert!(sandbox.seam.statuses().contains_key("a/b ?ü%"));
}

#[tokio::test]
async fn only_statuses_about_the_recipient_end_consent_and_only_on_their_channel() {
    for status in AckStatus::ALL {
        let sandbox = sandbox().await;
        let browser = sandbox.push.subscribe().unwrap();
        sandbox.seam.enqueue(mail("e-1").set("/user_id", "ann"));
        sandbox.seam.enqueue(mail("e-2").set("/user_id", "ann"));
        sandbox.seam.enqueue(mail("e-3").set("/user_id", "bob"));
        sandbox.seam.enqueue(examples::nudge("p-1", &browser).set("/user_id", "ann"));
        post(&sandbox, "e-1", &json!({"status": status.as_str()})).await;
        let ends = !matches!(status, AckStatus::Delivered | AckStatus::Failed);
        let left: &[&str] = if ends { &["e-3"] } else { &["e-2", "e-3"] };
        assert_eq!(page(&sandbox, "email", 500).await, left, "{status}");
        assert_eq!(page(&sandbox, "push", 500).await, ["p-1"], "{status}");
        assert_eq!(sandbox.seam.unsubscribed().contains(&("ann".into(), "email".into())), ends);
    }
}

#[tokio::test]
async fn the_withdrawn_and_the_unsubscribed_are_not_listed() {
    let sandbox = sandbox().await;
    for id in ["e-1", "e-2", "e-3"] {
        sandbox.seam.enqueue(mail(id).set("/user_id", id));
    }
    sandbox.seam.withdraw("e-1");
    sandbox.seam.unsubscribe("e-2", "email");
    sandbox.seam.unsubscribe("e-3", "push");
    assert_eq!(page(&sandbox, "email", 500).await, ["e-3"]);
}

#[tokio::test]
async fn the_expired_are_dropped_at_their_instant_unless_told_otherwise() {
    let clock = HandClock::new();
    let sandbox = sandbox_at(&clock).await;
    let tomorrow = clock.now().wall + TimeDelta::days(1);
    sandbox.seam.enqueue(mail("tomorrow").set("/expires_at", tomorrow.to_rfc3339()));
    sandbox.seam.enqueue(mail("old").set("/expires_at", "2020-01-01T00:00:00Z"));
    sandbox.seam.enqueue(mail("endless").without("expires_at"));
    clock.forward(Duration::from_secs(24 * 3600 - 1));
    assert_eq!(page(&sandbox, "email", 500).await, ["tomorrow", "endless"]);
    clock.forward(Duration::from_secs(1));
    assert_eq!(page(&sandbox, "email", 500).await, ["endless"]);
    sandbox.seam.list_expired(true);
    assert_eq!(page(&sandbox, "email", 500).await, ["tomorrow", "old", "endless"]);
}

#[tokio::test]
async fn the_date_header_is_the_apps_clock_which_can_be_set_wrong() {
    let sandbox = sandbox().await;
    sandbox.seam.enqueue(mail("week"));
    let path = "/internal/outbox/pending?channel=email&limit=1";
    let off_by = |answer: &Answer| {
        let date: DateTime<Utc> = crate::http::date(&answer.headers).unwrap();
        (date - Utc::now()).num_hours()
    };
    assert_eq!(off_by(&get(&sandbox, path).await), 0);
    sandbox.seam.set_clock_ahead(TimeDelta::days(-3) - TimeDelta::minutes(1));
    assert_eq!(off_by(&get(&sandbox, path).await), -72);
    sandbox.seam.set_clock_ahead(TimeDelta::days(8));
    assert_eq!(page(&sandbox, "email", 1).await, [""; 0], "expiry goes by the same clock");
}

#[tokio::test]
async fn a_status_from_elsewhere_counts_as_the_first() {
    let sandbox = sandbox().await;
    sandbox.seam.enqueue(mail("e-1"));
    assert_eq!(sandbox.seam.settle("e-1", AckStatus::Failed, None), AckAnswer::Stored);
    let answer = post(&sandbox, "e-1", &json!({"status": "delivered"})).await;
    assert_eq!(answer.body, json!({"status": "failed"}));
}

#[tokio::test]
async fn every_example_reads_as_a_whole_envelope() {
    let sandbox = sandbox().await;
    let browser = sandbox.push.subscribe().unwrap();
    for id in ["a", "b", "c", "d"] {
        let pair: [Value; 2] = [mail(id).into(), examples::nudge(id, &browser).into()];
        for element in pair {
            let Reading::Envelope(read) = envelope::read(&element.to_string()) else {
                panic!("not readable: {element}");
            };
            assert_eq!(read.id.as_str(), id);
            assert!(read.expires_at.is_some_and(|at| at > Utc::now()));
        }
    }
}

#[test]
fn an_example_can_be_changed_anywhere() {
    let changed: Value = mail("e-1")
        .set("/payload/sections/0/items/0/quote", Value::Null)
        .set("/not_before", "2030-01-01T00:00:00Z")
        .without("schema_version")
        .into();
    assert_eq!(changed["payload"]["sections"][0]["items"][0]["quote"], Value::Null);
    assert_eq!(changed["not_before"], "2030-01-01T00:00:00Z");
    assert_eq!(changed.get("schema_version"), None);
}
