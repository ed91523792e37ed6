use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Desk;
use super::files::{contents, shared_contents};
use crate::http::{client_builder, read_capped};
use crate::render::{Library, Links};
use crate::sandbox::{Fault, Options, Sandbox, examples};

/// A sandbox with its page, and a client that speaks as the page does.
struct Bench {
    sandbox: Arc<Sandbox>,
    desk: Desk,
    client: reqwest::Client,
}

impl Bench {
    async fn new() -> Bench {
        let options = Options { keep: Some(100), ..Options::default() };
        let sandbox = Arc::new(Sandbox::start(options).await.unwrap());
        let links = Links::new(&examples::APP_ORIGIN.parse().unwrap(), "/unsubscribe").unwrap();
        let library = Library::load(None, links).unwrap();
        let env = sandbox.worker_env();
        let desk = Desk::start(0, Arc::clone(&sandbox), library, env).await.unwrap();
        Bench { sandbox, desk, client: client_builder().build().unwrap() }
    }

    async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        let request = self.client.post(format!("{}{path}", self.desk.url()));
        let answer = request.header("content-type", "application/json").body(body.to_string());
        let answer = answer.send().await.unwrap();
        let status = answer.status();
        (status, serde_json::from_slice(&read_capped(answer, 1 << 20).await.unwrap()).unwrap())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let answer = self.client.get(format!("{}{path}", self.desk.url())).send().await.unwrap();
        let status = answer.status();
        (status, serde_json::from_slice(&read_capped(answer, 1 << 20).await.unwrap()).unwrap())
    }

    /// The first state that `holds`, from a stream that is opened now.
    async fn state(&self, holds: impl Fn(&Value) -> bool) -> Value {
        let mut answer = self.client.get(format!("{}/events", self.desk.url())).send().await.unwrap();
        let mut text = String::new();
        let read = async {
            while let Some(chunk) = answer.chunk().await.unwrap() {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
                while let Some((event, rest)) = text.split_once("\n\n") {
                    let state = event.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
                    text = rest.to_owned();
                    if let Some(state) = state.filter(&holds) {
                        return state;
                    }
                }
            }
            panic!("the stream has ended");
        };
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("no such state")
    }

    /// Takes the outbox's pending mail as a worker would, by hand.
    async fn deliver(&self, id: &str) -> StatusCode {
        let mail = json!({
            "from": "Marginalia <digest@mail.example.com>", "to": ["mara@example.com"], "subject": "Hello",
            "html": "<p>Hello</p>", "text": "Hello",
        });
        let request = self.client.post(format!("{}/emails", self.sandbox.resend.server().url()));
        let request = request.bearer_auth("re_sandbox_key").header("idempotency-key", id);
        let request = request.header("content-type", "application/json").header("user-agent", "test");
        request.body(mail.to_string()).send().await.unwrap().status()
    }
}

fn row<'a>(state: &'a Value, id: &str) -> Option<&'a Value> {
    state["rows"].as_array().unwrap().iter().find(|row| row["id"] == id)
}

#[tokio::test]
async fn each_example_goes_into_the_outbox_and_is_told() {
    let bench = Bench::new().await;
    let (_, setup) = bench.get("/setup").await;
    for example in setup["examples"].as_array().unwrap() {
        let (status, answer) = bench.post("/enqueue", json!({"example": example["name"]})).await;
        assert_eq!(status, StatusCode::OK);
        let id = answer["id"].as_str().unwrap();
        let state = bench.state(|state| row(state, id).is_some()).await;
        assert_eq!(row(&state, id).unwrap()["status"], "pending");
        let channel = row(&state, id).unwrap()["channel"].as_str().unwrap().to_owned();
        let label = example["label"].as_str().unwrap().to_lowercase();
        assert!(label.contains(if channel == "push" { "push" } else { "mail" }), "{label}");
    }
    assert_eq!(bench.sandbox.seam.listings().len(), 7);
    assert_eq!(bench.post("/enqueue", json!({"example": "fax"})).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_draft_can_be_pasted_as_it_is_and_once() {
    let bench = Bench::new().await;
    for name in ["digest-mail", "nudge-mail", "nudge-push", "digest-push"] {
        let (_, draft) = bench.post("/draft", json!({"example": name})).await;
        let paste = || bench.post("/paste", json!({"text": draft.to_string()}));
        assert_eq!(paste().await, (StatusCode::OK, json!({"id": draft["id"]})));
        let again =
            (StatusCode::UNPROCESSABLE_ENTITY, json!({"field": "id", "problem": "is in the outbox already"}));
        assert_eq!(paste().await, again);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_paste_is_named_by_its_field() {
    let bench = Bench::new().await;
    let (_, draft) = bench.post("/draft", json!({"example": "digest-mail"})).await;
    let with = |pointer: &str, value: Value| {
        let mut changed = draft.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed.to_string()
    };
    for (text, field, words) in [
        ("{\"id\": ".to_owned(), "envelope", "line 1"),
        (with("/created_at", json!("yesterday")), "created_at", ""),
        (with("/schema_version", json!("2")), "schema_version", "none that is read here"),
        (with("/id", Value::Null), "id", ""),
        (with("/channel", json!("fax")), "channel", "neither email nor push"),
        (with("/recipient", json!({})), "recipient.email", "missing"),
        (with("/template", json!("none-such.v1")), "template", "none-such"),
        (with("/payload/sections/0/items/0/graph_refs", json!([])), "graph_refs", "empty"),
    ] {
        let (status, answer) = bench.post("/paste", json!({"text": text})).await;
        assert_eq!((status, &answer["field"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!(field)), "{answer}");
        assert!(answer["problem"].as_str().unwrap().contains(words), "{answer}");
    }
    assert!(bench.sandbox.seam.listings().is_empty());
    let text = with("/schema_version", json!("2"));
    assert_eq!(bench.post("/paste", json!({"text": text, "anyway": true})).await.0, StatusCode::OK);
    assert_eq!(bench.sandbox.seam.listings().len(), 1);
}

#[tokio::test]
async fn a_subscription_is_one_that_the_push_service_knows() {
    let bench = Bench::new().await;
    let (status, subscription) = bench.post("/subscription", json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let endpoint = subscription["endpoint"].as_str().unwrap();
    assert!(endpoint.starts_with(&bench.sandbox.push.server().url()), "{endpoint}");
    let (_, mut draft) = bench.post("/draft", json!({"example": "nudge-push"})).await;
    draft["recipient"]["push_subscription"] = subscription;
    assert_eq!(bench.post("/paste", json!({"text": draft.to_string()})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn every_failure_that_is_offered_can_be_armed_and_taken_back() {
    let bench = Bench::new().await;
    let (_, setup) = bench.get("/setup").await;
    let choices = setup["faults"].as_array().unwrap();
    for choice in choices {
        let asked = json!({"at": choice["at"], "what": choice["name"], "always": true});
        assert_eq!(bench.post("/fault", asked).await.0, StatusCode::OK, "{choice}");
    }
    let armed = |state: &Value| -> Vec<usize> {
        let places = state["faults"].as_array().unwrap();
        places.iter().map(|place| place["armed"].as_array().unwrap().len()).collect()
    };
    let all = bench.state(|state| armed(state).iter().sum::<usize>() == choices.len()).await;
    assert_eq!(armed(&all), [8, 7, 2, 2]);
    for at in ["mail", "push", "ack", "page"] {
        assert_eq!(bench.post("/clear", json!({"at": at})).await.0, StatusCode::OK);
    }
    bench.state(|state| armed(state) == [0; 4]).await;
    let nowhere = json!({"at": "moon", "what": "500"});
    assert_eq!(bench.post("/fault", nowhere.clone()).await.0, StatusCode::NOT_FOUND);
    assert_eq!(bench.post("/clear", nowhere).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_happens_to_an_envelope_is_told_attempt_by_attempt() {
    let bench = Bench::new().await;
    bench.sandbox.seam.enqueue(examples::digest("e-1", "mara@example.com"));
    bench.post("/fault", json!({"at": "mail", "what": "500"})).await;
    assert_eq!(bench.deliver("e-1").await, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(bench.deliver("e-1").await, StatusCode::OK);
    let state = bench.state(|state| row(state, "e-1").is_some_and(|row| row["attempts"] == 2)).await;
    let key = row(&state, "e-1").unwrap()["key"].as_str().unwrap().to_owned();
    let (_, whole) = bench.get(&format!("/message/{key}")).await;
    assert_eq!(
        (&whole["message"]["kind"], &whole["message"]["html"]),
        (&json!("mail"), &json!("<p>Hello</p>"))
    );
    assert_eq!(whole["envelope"]["id"], "e-1");
    let lines: Vec<&str> =
        whole["lines"].as_array().unwrap().iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert!(lines[0].starts_with("attempt 1: made to fail: "), "{lines:?}");
    assert_eq!(lines[1..3], ["attempt 2: accepted by Resend", "Resend: sent"]);
    let headers = whole["message"]["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["Idempotency-Key", "e-1"])), "{headers:?}");
    assert_eq!(bench.get("/message/e99").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_mail_of_another_outbox_is_shown_too() {
    let bench = Bench::new().await;
    assert_eq!(bench.deliver("elsewhere").await, StatusCode::OK);
    let state = bench.state(|state| row(state, "elsewhere").is_some()).await;
    assert_eq!(row(&state, "elsewhere").unwrap()["status"], "received");
}

#[tokio::test]
async fn a_request_that_hangs_is_told_and_can_be_let_go() {
    let bench = Bench::new().await;
    bench.sandbox.resend.faults().add(Fault::hang());
    let hanging = bench.deliver("e-1");
    tokio::pin!(hanging);
    let held = bench.state(|state| state["faults"][0]["held"] == 1);
    tokio::select! {
        _ = &mut hanging => panic!("it did not hang"),
        _ = held => {}
    }
    bench.post("/release", json!({"at": "mail"})).await;
    hanging.await;
    bench.state(|state| state["faults"][0]["held"] == 0).await;
}

#[tokio::test]
async fn another_site_reaches_nothing_of_it() {
    let bench = Bench::new().await;
    let url = |path: &str| format!("{}{path}", bench.desk.url());
    let rebound = bench.client.get(url("/events")).header("host", "evil.test").send().await.unwrap();
    assert_eq!(rebound.status(), StatusCode::FORBIDDEN);
    let forged = bench.client.post(url("/enqueue")).header("content-type", "application/json");
    let forged = forged.header("origin", "http://evil.test").body("{\"example\": \"digest-mail\"}");
    assert_eq!(forged.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    assert!(bench.sandbox.seam.listings().is_empty());
    let page = bench.client.get(url("/")).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
}

#[test]
fn the_page_asks_for_nothing_from_elsewhere() {
    for (path, content) in shared_contents().chain(contents(&super::FILES)) {
        for word in ["http://", "https://", "//cdn", "@import", "innerHTML", "insertAdjacentHTML", "eval("] {
            assert!(!content.contains(word), "{path} has {word}");
        }
    }
}
