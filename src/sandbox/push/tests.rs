//! The requests are made with the `web-push` crate, the counterpart that was written by others.

use std::time::Duration;

use chrono::Utc;
use serde_json::{Value, json};
use web_push::{ContentEncoding, SubscriptionInfo, VapidSignatureBuilder, WebPushMessageBuilder};

use super::VapidKeys;
use crate::sandbox::testing::{Answer, HandClock, ask, client, sandbox, sandbox_at};
use crate::sandbox::{Sandbox, Subscription};

/// A request to be made; each field a right value at first.
struct Sending {
    endpoint: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Sending {
    fn set(mut self, name: &'static str, value: impl Into<String>) -> Sending {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name, value.into()));
        self
    }

    fn without(mut self, name: &str) -> Sending {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    async fn send(self) -> Answer {
        let request = client().post(self.endpoint).body(self.body);
        let add = |request: reqwest::RequestBuilder, (name, value)| request.header(name, value);
        ask(self.headers.into_iter().fold(request, add)).await.unwrap()
    }
}

fn note() -> Value {
    json!({"title": "Tide Tables", "body": "“High water”", "url": "https://a.example/p", "tag": "t-1"})
}

fn sending(sandbox: &Sandbox, to: &Subscription) -> Sending {
    sealed(sandbox, to, note().to_string().as_bytes(), &[])
}

/// Seals `plain` for `to`, with a token of the sandbox's key; `claims` replace the right ones.
fn sealed(sandbox: &Sandbox, to: &Subscription, plain: &[u8], claims: &[(&'static str, Value)]) -> Sending {
    let info: SubscriptionInfo = serde_json::from_value(to.json.clone()).unwrap();
    let mut vapid = VapidSignatureBuilder::from_base64(&sandbox.push.vapid().private, &info).unwrap();
    vapid.add_claim("aud", sandbox.push.server().url());
    vapid.add_claim("sub", "mailto:ops@example.com");
    for (name, value) in claims {
        vapid.add_claim(name, value.clone());
    }
    let mut message = WebPushMessageBuilder::new(&info);
    message.set_payload(ContentEncoding::Aes128Gcm, plain);
    message.set_vapid_signature(vapid.build().unwrap());
    let payload = message.build().unwrap().payload.unwrap();
    let start =
        Sending { endpoint: info.endpoint.clone(), headers: payload.crypto_headers, body: payload.content };
    start
        .set("TTL", "60")
        .set("Content-Encoding", "aes128gcm")
        .set("Topic", "abcdefgh")
        .set("Urgency", "normal")
}

async fn with_browser() -> (Sandbox, Subscription) {
    let sandbox = sandbox().await;
    let browser = sandbox.push.subscribe().unwrap();
    (sandbox, browser)
}

/// Sends, expects this status, and returns the reason.
async fn refused(sending: Sending, status: u16) -> String {
    let answer = sending.send().await;
    assert_eq!(answer.status, status, "{answer:?}");
    answer.body["reason"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_good_message_is_opened_and_shown() {
    let (sandbox, browser) = with_browser().await;
    let answer = sending(&sandbox, &browser).send().await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(answer.header("location").unwrap().starts_with(&sandbox.push.server().url()));
    let shown = sandbox.push.shown();
    assert_eq!(shown.len(), 1);
    let push = &shown[0];
    assert_eq!((push.token.as_str(), push.ttl), (browser.token.as_str(), 60));
    assert_eq!((push.title.as_str(), push.body.as_str()), ("Tide Tables", "“High water”"));
    assert_eq!((push.url.as_str(), push.tag.as_str()), ("https://a.example/p", "t-1"));
    assert_eq!((push.topic.as_deref(), push.urgency.as_deref()), (Some("abcdefgh"), Some("normal")));
}

#[tokio::test]
async fn headers_that_push_services_refuse_are_400() {
    let (sandbox, browser) = with_browser().await;
    let good = || sending(&sandbox, &browser);
    refused(good().without("TTL"), 400).await;
    for ttl in ["", "-1", "1.5", "soon", "99999999999"] {
        assert!(refused(good().set("TTL", ttl), 400).await.contains("TTL"), "{ttl}");
    }
    refused(good().without("Content-Encoding"), 400).await;
    refused(good().set("Content-Encoding", "aesgcm"), 400).await;
    for topic in ["", "a", "abcde", "a b", "a+b=", &"t".repeat(33), &"t".repeat(29)] {
        assert!(refused(good().set("Topic", topic), 400).await.contains("Topic"), "{topic}");
    }
    assert!(refused(good().set("Urgency", "urgent"), 400).await.contains("Urgency"));
    assert_eq!(sandbox.journal.log().pushes().count(), 0);
    assert_eq!(good().without("Topic").without("Urgency").set("TTL", "0").send().await.status, 201);
    assert_eq!(good().set("Topic", "t".repeat(32)).send().await.status, 201);
}

#[tokio::test]
async fn tokens_that_do_not_fit_this_service_and_hour_are_refused() {
    let (sandbox, browser) = with_browser().await;
    let now = Utc::now().timestamp();
    let portless = "http://127.0.0.1";
    let cases = [
        ("aud", json!(portless), "`aud`"),
        ("aud", json!(format!("{}/", sandbox.push.server().url())), "`aud`"),
        ("exp", json!(now - 1), "expired"),
        ("exp", json!(now + 24 * 3600 + 60), "24 hours"),
        ("sub", json!("ops@example.com"), "`sub`"),
        ("sub", json!("mailto: ops@example.com"), "`sub`"),
        ("sub", json!("mailto:mailto:ops@example.com"), "`sub`"),
        ("sub", json!("mailto:<ops@example.com>"), "`sub`"),
    ];
    for (name, value, reason) in cases {
        let sending = sealed(&sandbox, &browser, note().to_string().as_bytes(), &[(name, value.clone())]);
        let why = refused(sending, 403).await;
        assert!(why.contains(reason), "{name} {value}: {why}");
    }
    for (name, value) in [("exp", json!(now + 24 * 3600 - 60)), ("sub", json!("https://example.com/contact"))]
    {
        let sending = sealed(&sandbox, &browser, note().to_string().as_bytes(), &[(name, value)]);
        assert_eq!(sending.send().await.status, 201);
    }
}

#[tokio::test]
async fn a_token_ends_with_its_time() {
    let clock = HandClock::new();
    let sandbox = sandbox_at(&clock).await;
    let browser = sandbox.push.subscribe().unwrap();
    clock.forward(Duration::from_secs(11 * 3600));
    assert_eq!(sending(&sandbox, &browser).send().await.status, 201);
    clock.forward(Duration::from_secs(3600 + 1));
    refused(sending(&sandbox, &browser), 403).await;
}

#[tokio::test]
async fn an_authorization_that_is_missing_malformed_or_forged_is_refused() {
    let (sandbox, browser) = with_browser().await;
    let good = || sending(&sandbox, &browser);
    let authorization = good().headers.into_iter().find(|(n, _)| *n == "Authorization").unwrap().1;
    refused(good().without("Authorization"), 401).await;
    for nonsense in ["Bearer x", "vapid", "vapid t=a.b.c", "vapid t=a.b.c, k=AAAA", "WebPush x"] {
        refused(good().set("Authorization", nonsense), 401).await;
    }
    // The k of another key: the token's signature is not of it.
    let (token, _) = authorization.split_once(", k=").unwrap();
    let other = VapidKeys::generate().unwrap().public;
    let why = refused(good().set("Authorization", format!("{token}, k={other}")), 403).await;
    assert!(why.contains("signature"), "{why}");
    // Another header, another claim: signed no more.
    let (head, rest) = authorization.split_once('.').unwrap();
    let (_, tail) = rest.split_once('.').unwrap();
    refused(good().set("Authorization", format!("{head}.e30.{tail}")), 403).await;
    assert_eq!(good().set("Authorization", authorization.replace(", ", ",")).send().await.status, 201);
}

#[tokio::test]
async fn a_subscription_of_another_vapid_key_is_403() {
    let (sandbox, _) = with_browser().await;
    let foreign = sandbox.push.subscribe_for(&VapidKeys::generate().unwrap().public).unwrap();
    let why = refused(sending(&sandbox, &foreign), 403).await;
    assert!(why.contains("another VAPID key"), "{why}");
}

#[tokio::test]
async fn what_the_browser_could_not_open_or_show_is_400() {
    let (sandbox, browser) = with_browser().await;
    let other = sandbox.push.subscribe().unwrap();
    let mut crossed = sending(&sandbox, &browser);
    crossed.endpoint = sending(&sandbox, &other).endpoint;
    refused(crossed, 400).await;
    let mut empty = sending(&sandbox, &browser);
    empty.body.clear();
    refused(empty, 400).await;
    for payload in [json!({"title": "T", "body": "B", "url": "U"}), json!("text"), json!({"title": 1})] {
        refused(sealed(&sandbox, &browser, payload.to_string().as_bytes(), &[]), 400).await;
    }
    assert_eq!(sandbox.journal.log().pushes().count(), 0);
}

#[tokio::test]
async fn a_body_over_4096_bytes_is_413() {
    let (sandbox, browser) = with_browser().await;
    let mut large = sending(&sandbox, &browser);
    large.body.resize(4097, 0);
    refused(large, 413).await;
}

#[tokio::test]
async fn an_ended_subscription_is_410_and_an_unknown_one_404() {
    let (sandbox, browser) = with_browser().await;
    let mut unknown = sending(&sandbox, &browser);
    unknown.endpoint.push('x');
    refused(unknown, 404).await;
    sandbox.push.unsubscribe(&browser.token);
    refused(sending(&sandbox, &browser), 410).await;
}

#[tokio::test]
async fn a_second_message_of_a_topic_or_tag_replaces_the_first_on_its_device_alone() {
    let (sandbox, browser) = with_browser().await;
    let other = sandbox.push.subscribe().unwrap();
    let tagged = |to, topic: &str, tag: &str| {
        let mut note = note();
        note["tag"] = json!(tag);
        sealed(&sandbox, to, note.to_string().as_bytes(), &[]).set("Topic", topic)
    };
    for sending in [
        tagged(&browser, "AAAA", "a"),
        tagged(&browser, "AAAA", "a2"),
        tagged(&other, "AAAA", "a"),
        tagged(&browser, "BBBB", "b"),
        tagged(&browser, "CCCC", "b"),
    ] {
        assert_eq!(sending.send().await.status, 201);
    }
    let shown = sandbox.push.shown();
    let tags: Vec<_> = shown.iter().map(|push| (push.token == browser.token, push.tag.as_str())).collect();
    assert_eq!(tags, [(true, "a2"), (false, "a"), (true, "b")]);
    assert_eq!(sandbox.journal.log().pushes().count(), 5, "the journal forgets none");
}
