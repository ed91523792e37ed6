use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::testing::{Answer, HandClock, ask, client, sandbox, sandbox_at};
use crate::sandbox::{Fault, Options, Sandbox};

const KEY: &str = "Bearer re_sandbox_key";

fn mail() -> Value {
    json!({
        "from": "Marginalia <digest@mail.example.com>", "to": ["ann@example.com"],
        "subject": "Your week", "html": "<p>Hello</p>", "text": "Hello",
        "reply_to": "help@example.com",
        "headers": {
            "List-Unsubscribe": "<https://listen.example.com/u?ref=1>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
        "tags": [{"name": "envelope_id", "value": "e-1"}],
    })
}

fn request(sandbox: &Sandbox, key: &str, body: &Value) -> reqwest::RequestBuilder {
    client()
        .post(format!("{}/emails", sandbox.resend.server().url()))
        .header("Authorization", KEY)
        .header("Idempotency-Key", key)
        .header("Content-Type", "application/json")
        .body(body.to_string())
}

async fn send(sandbox: &Sandbox, key: &str, body: &Value) -> Answer {
    ask(request(sandbox, key, body)).await.unwrap()
}

fn error(answer: &Answer) -> (u16, &str) {
    assert_eq!(answer.body["statusCode"], answer.status);
    assert!(answer.body["message"].is_string());
    (answer.status, answer.body["name"].as_str().unwrap())
}

#[tokio::test]
async fn a_good_mail_is_in_the_inbox_as_it_was_sent() {
    let sandbox = sandbox().await;
    let answer = send(&sandbox, "e-1", &mail()).await;
    assert_eq!(answer.status, 200);
    let inbox = sandbox.resend.inbox();
    assert_eq!(inbox.len(), 1);
    let got = &inbox[0];
    assert_eq!(answer.body, json!({"id": got.id}));
    assert_eq!((got.to.as_str(), got.subject.as_str()), ("ann@example.com", "Your week"));
    assert_eq!((got.html.as_str(), got.text.as_str()), ("<p>Hello</p>", "Hello"));
    assert_eq!(got.header("list-unsubscribe"), Some("<https://listen.example.com/u?ref=1>"));
    assert_eq!(got.tag("envelope_id"), Some("e-1"));
    assert_eq!(got.reply_to, ["help@example.com"]);
    assert_eq!(got.idempotency_key.as_deref(), Some("e-1"));
    assert_eq!(answer.header("ratelimit-limit"), None, "no rate is configured");
}

#[tokio::test]
async fn the_edge_wants_a_user_agent_and_the_api_a_key() {
    let sandbox = sandbox().await;
    let url = format!("{}/emails", sandbox.resend.server().url());
    let post = || client().post(&url).body(mail().to_string()).header("Content-Type", "application/json");

    let edge = ask(post().header("Authorization", KEY).header("User-Agent", "")).await.unwrap();
    assert_eq!((edge.status, edge.body), (403, json!("error code: 1010")));
    assert!(edge.headers["content-type"].to_str().unwrap().starts_with("text/plain"));

    assert_eq!(error(&ask(post()).await.unwrap()), (401, "missing_api_key"));
    let wrong = ask(post().header("Authorization", "Bearer re_old")).await.unwrap();
    assert_eq!(error(&wrong), (401, "validation_error"));
    assert_eq!(wrong.body["message"], "API key is invalid");
    assert!(sandbox.resend.inbox().is_empty());
    assert_eq!(sandbox.journal.log().refusals().map(|r| r.status).collect::<Vec<_>>(), [403, 401, 401]);
}

/// A mail with one field replaced (`null`: taken away), and the error that names it.
#[tokio::test]
async fn what_resend_refuses_is_refused_naming_the_field() {
    let many = |n: usize| json!(vec![json!({"name": "n", "value": "v"}); n]);
    let tag = |name: &str, value: &str| json!([{"name": name, "value": value}]);
    let cases = [
        ("from", Value::Null, "missing_required_field"),
        ("from", json!("nobody"), "invalid_from_address"),
        ("from", json!("A <a@b.example> x"), "invalid_from_address"),
        ("to", Value::Null, "missing_required_field"),
        ("to", json!("ann@example.com"), "validation_error"),
        ("to", json!([]), "validation_error"),
        ("to", json!(["ann@example.com", "bob@example.com"]), "validation_error"),
        ("to", json!(["Ann <ann@example.com>"]), "validation_error"),
        ("to", json!(["ann@example.com,bob@example.com"]), "validation_error"),
        ("to", json!(["ann@localhost"]), "validation_error"),
        ("subject", Value::Null, "missing_required_field"),
        ("subject", json!("Hi\r\nBcc: x@y.test"), "validation_error"),
        ("subject", json!("Hi\nthere"), "validation_error"),
        ("html", json!(7), "validation_error"),
        ("reply_to", json!("nonsense"), "validation_error"),
        ("reply_to", json!(["a@b.example", "nonsense"]), "validation_error"),
        ("headers", json!({"List-Unsubscribe": "<https://a.example/>"}), "validation_error"),
        ("headers", json!({"List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}), "validation_error"),
        (
            "headers",
            json!({"List-Unsubscribe": "<http://a.example/>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}),
            "validation_error",
        ),
        (
            "headers",
            json!({"List-Unsubscribe": "<https://a.example/>", "List-Unsubscribe-Post": "yes"}),
            "validation_error",
        ),
        ("headers", json!({"X-A": "1\n2"}), "validation_error"),
        ("headers", json!([]), "validation_error"),
        ("tags", many(76), "validation_error"),
        ("tags", tag("a b", "v"), "validation_error"),
        ("tags", tag("n", "é"), "validation_error"),
        ("tags", tag("n", ""), "validation_error"),
        ("tags", tag("n", &"v".repeat(257)), "validation_error"),
        ("bcc", json!(["x@y.example"]), "validation_error"),
    ];
    let sandbox = sandbox().await;
    for (field, value, name) in cases {
        let mut body = mail();
        body[field] = value.clone();
        if value.is_null() {
            body.as_object_mut().unwrap().remove(field);
        }
        let answer = send(&sandbox, "e-1", &body).await;
        assert_eq!(error(&answer), (422, name), "{field}: {value}");
        let message = answer.body["message"].as_str().unwrap().to_lowercase();
        let named = field.trim_end_matches('s');
        assert!(message.contains(named) || message.contains("unsubscribe"), "{field}: {message}");
    }
    assert!(sandbox.resend.inbox().is_empty());
    for (field, value) in [("tags", many(75)), ("tags", tag(&"n".repeat(256), "v")), ("headers", json!({}))] {
        let mut body = mail();
        body[field] = value;
        let key = format!("ok-{field}-{}", body[field].to_string().len());
        assert_eq!(send(&sandbox, &key, &body).await.status, 200, "{field}");
    }
}

#[tokio::test]
async fn nulls_missing_parts_and_what_is_no_json_are_refused() {
    let sandbox = sandbox().await;
    for field in ["reply_to", "html", "headers", "tags"] {
        let mut body = mail();
        body[field] = Value::Null;
        assert_eq!(send(&sandbox, "k", &body).await.status, 422, "{field}");
    }
    let mut bare = mail();
    for part in ["html", "text"] {
        bare.as_object_mut().unwrap().remove(part);
    }
    assert_eq!(error(&send(&sandbox, "k", &bare).await), (422, "missing_required_field"));
    assert_eq!(error(&send(&sandbox, "k", &json!([])).await), (422, "validation_error"));
    let plain =
        client().post(format!("{}/emails", sandbox.resend.server().url())).header("Authorization", KEY);
    assert_eq!(error(&ask(plain.body(mail().to_string())).await.unwrap()), (422, "validation_error"));
}

#[tokio::test]
async fn a_key_of_no_or_of_more_than_256_characters_is_refused() {
    let sandbox = sandbox().await;
    assert_eq!(error(&send(&sandbox, "", &mail()).await), (400, "invalid_idempotency_key"));
    assert_eq!(error(&send(&sandbox, &"k".repeat(257), &mail()).await), (400, "invalid_idempotency_key"));
    assert_eq!(send(&sandbox, &"k".repeat(256), &mail()).await.status, 200);
}

#[tokio::test]
async fn the_same_key_and_body_are_answered_alike_and_sent_once() {
    let sandbox = sandbox().await;
    let first = send(&sandbox, "e-1", &mail()).await;
    let again = send(&sandbox, "e-1", &mail()).await;
    assert_eq!((again.status, again.body), (200, first.body));
    assert_eq!(sandbox.resend.inbox().len(), 1);
    send(&sandbox, "e-2", &mail()).await;
    assert_eq!(sandbox.resend.inbox().len(), 2, "another key is another mail");
}

#[tokio::test]
async fn the_same_key_with_another_body_is_a_conflict_and_nothing_is_sent() {
    let sandbox = sandbox().await;
    send(&sandbox, "e-1", &mail()).await;
    let mut other = mail();
    other["subject"] = json!("Your week!");
    assert_eq!(error(&send(&sandbox, "e-1", &other).await), (409, "invalid_idempotent_request"));
    assert_eq!(sandbox.resend.inbox().len(), 1);
}

#[tokio::test]
async fn a_refused_mail_leaves_its_key_free() {
    let sandbox = sandbox().await;
    let mut bad = mail();
    bad["to"] = json!(["nobody"]);
    assert_eq!(send(&sandbox, "e-1", &bad).await.status, 422);
    assert_eq!(send(&sandbox, "e-1", &mail()).await.status, 200);
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day() {
    let clock = HandClock::new();
    let sandbox = sandbox_at(&clock).await;
    send(&sandbox, "e-1", &mail()).await;
    clock.forward(Duration::from_secs(24 * 3600 - 1));
    send(&sandbox, "e-1", &mail()).await;
    assert_eq!(sandbox.resend.inbox().len(), 1);
    clock.forward(Duration::from_secs(1));
    send(&sandbox, "e-1", &mail()).await;
    assert_eq!(sandbox.resend.inbox().len(), 2);
}

#[tokio::test]
async fn a_key_in_use_is_a_conflict_until_its_first_request_is_answered() {
    let sandbox = Arc::new(sandbox().await);
    sandbox.resend.faults().add(Fault::hang().after_accepting());
    let first = tokio::spawn(ask(request(&sandbox, "e-1", &mail())));
    sandbox.journal.wait_until(|log| log.mails().count() == 1).await;
    let second = send(&sandbox, "e-1", &mail()).await;
    assert_eq!(error(&second), (409, "concurrent_idempotent_requests"));
    sandbox.resend.faults().release();
    let first = first.await.unwrap().unwrap();
    assert_eq!(send(&sandbox, "e-1", &mail()).await.body, first.body);
    assert_eq!(sandbox.resend.inbox().len(), 1);
}

#[tokio::test]
async fn no_second_has_more_requests_than_the_rate_and_the_headers_say_so() {
    let clock = HandClock::new();
    let options = Options { resend_rate: Some(2), clock: Arc::new(clock.clone()), ..Options::default() };
    let sandbox = Sandbox::start(options).await.unwrap();
    let remaining = |answer: &Answer| {
        assert_eq!(answer.header("ratelimit-limit"), Some("2"));
        assert_eq!(answer.header("ratelimit-reset"), Some("1"));
        answer.header("ratelimit-remaining").unwrap().to_owned()
    };
    assert_eq!(remaining(&send(&sandbox, "e-1", &mail()).await), "1");
    clock.forward(Duration::from_millis(900));
    assert_eq!(remaining(&send(&sandbox, "e-2", &mail()).await), "0");
    let over = send(&sandbox, "e-3", &mail()).await;
    assert_eq!(error(&over), (429, "rate_limit_exceeded"));
    assert_eq!((remaining(&over).as_str(), over.header("retry-after")), ("0", Some("1")));
    clock.forward(Duration::from_millis(100));
    assert_eq!(send(&sandbox, "e-3", &mail()).await.status, 200, "the first has left the window");
    assert_eq!(send(&sandbox, "e-4", &mail()).await.status, 429, "the second has not");
    assert_eq!(sandbox.resend.inbox().len(), 3);
}

#[tokio::test]
async fn each_request_for_a_mail_counts_as_one_attempt_whatever_became_of_it() {
    let sandbox = sandbox().await;
    let faults = sandbox.resend.faults();
    faults.add(Fault::cut());
    faults.add(Fault::slow(Duration::ZERO));
    faults.add(Fault::cut().after_accepting());
    let ask_for = |body: &Value| ask(request(&sandbox, "e-1", body));
    assert!(ask_for(&mail()).await.is_err(), "cut before");
    assert_eq!(ask_for(&mail()).await.unwrap().status, 200, "late");
    assert!(ask_for(&mail()).await.is_err(), "cut after");
    assert_eq!(ask_for(&mail()).await.unwrap().status, 200, "repeated");
    let mut other = mail();
    other["subject"] = json!("Another");
    assert_eq!(ask_for(&other).await.unwrap().status, 409);
    let log = sandbox.journal.log();
    assert_eq!((log.attempts("e-1"), log.attempts("e-2")), (5, 0));
}

async fn get(sandbox: &Sandbox, path: &str) -> Answer {
    let url = format!("{}{path}", sandbox.resend.server().url());
    ask(client().get(url).header("Authorization", KEY)).await.unwrap()
}

#[tokio::test]
async fn what_becomes_of_a_mail_its_address_says_as_time_passes() {
    let clock = HandClock::new();
    let sandbox = sandbox_at(&clock).await;
    let courses: [(&str, &[&str]); 6] = [
        ("ann", &["sent", "delivered", "delivered"]),
        ("bounced+1", &["sent", "bounced", "bounced"]),
        ("complained", &["sent", "delivered", "complained"]),
        ("delayed", &["sent", "delivery_delayed", "delivered"]),
        ("suppressed", &["queued", "suppressed", "suppressed"]),
        ("silent", &["sent", "sent", "sent"]),
    ];
    let mut ids = Vec::new();
    for (local, _) in courses {
        let mut mail = mail();
        mail["to"] = json!([format!("{local}@example.com")]);
        ids.push(send(&sandbox, local, &mail).await.body["id"].as_str().unwrap().to_owned());
    }
    for (nth, later) in [0, 3, 70].into_iter().enumerate() {
        clock.forward(Duration::from_secs(later));
        for (id, (local, events)) in ids.iter().zip(courses) {
            let one = get(&sandbox, &format!("/emails/{id}")).await;
            assert_eq!((one.status, &one.body["last_event"]), (200, &json!(events[nth])), "{local}");
        }
    }
    let words: Vec<_> = sandbox.resend.history(&ids[2]).into_iter().map(|(_, event)| event).collect();
    assert_eq!(words, ["sent", "delivered", "complained"]);
    assert_eq!(get(&sandbox, "/emails/unknown").await.status, 404);
}

#[tokio::test]
async fn the_list_is_newest_first_and_goes_on_after_any_of_it() {
    let sandbox = sandbox().await;
    for n in 0..5 {
        send(&sandbox, &format!("e-{n}"), &mail()).await;
    }
    let ids = |answer: &Answer| -> Vec<String> {
        let data = answer.body["data"].as_array().unwrap();
        data.iter().map(|mail| mail["id"].as_str().unwrap().to_owned()).collect()
    };
    let sent: Vec<String> = sandbox.resend.inbox().iter().rev().map(|mail| mail.id.clone()).collect();
    let first = get(&sandbox, "/emails?limit=2").await;
    assert_eq!((ids(&first), &first.body["has_more"]), (sent[..2].to_vec(), &json!(true)));
    let rest = get(&sandbox, &format!("/emails?limit=100&after={}", sent[1])).await;
    assert_eq!((ids(&rest), &rest.body["has_more"]), (sent[2..].to_vec(), &json!(false)));
    assert_eq!(get(&sandbox, "/emails?limit=101").await.status, 422);
    assert_eq!(get(&sandbox, "/emails?limit=1&after=unknown").await.status, 404);
    assert_eq!(sandbox.resend.questions(), 3);
    sandbox.resend.only_sends();
    assert_eq!(error(&get(&sandbox, "/emails").await), (401, "restricted_api_key"));
}
