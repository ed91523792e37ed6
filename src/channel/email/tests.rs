use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;
use crate::envelope::{Reading, read};
use crate::http;
use crate::outcome::Outcome;
use crate::render::{Mail, Templates};

fn settings(base: &str) -> Settings {
    Settings {
        api_key: "re_s3cret".into(),
        from: "Digest <digest@news.test>".to_owned(),
        reply_to: None,
        base_url: base.parse().unwrap(),
        rate: Rate::Unlimited,
        ack: AckAt::Acceptance,
    }
}

fn envelope(id: &str, recipient: Value) -> Envelope {
    let element = json!({
        "schema_version": "1", "id": id, "user_id": "u-1", "channel": "email",
        "template": "your-week-digest.v1", "recipient": recipient,
        "consent_snapshot": {"unsubscribe_ref": "r-1"}, "payload": {},
        "created_at": "2026-08-03T06:00:00Z"
    });
    let Reading::Envelope(envelope) = read(&element.to_string()) else { panic!("not an envelope") };
    *envelope
}

fn delivery(id: &str) -> Delivery {
    Delivery {
        envelope: Arc::new(envelope(id, json!({"email": "Ann@Example.TEST"}))),
        templates: Arc::new(Templates::default()),
        now: "2026-08-03T06:00:00Z".parse().unwrap(),
        refused_before: false,
    }
}

fn mail() -> Mail {
    Mail {
        subject: "Your \"week\" & more".to_owned(),
        html: "<p>ü</p>".to_owned(),
        text: "ü\n".to_owned(),
        unsubscribe: "https://app.test/unsubscribe?ref=r%2F1".parse().unwrap(),
    }
}

async fn send(client: &Client, delivery: &Delivery, mail: &Mail) -> Attempt {
    let to = addressee(&delivery.envelope).unwrap();
    client.send(&Letter { delivery, to: &to, mail }).await
}

async fn resend(template: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(template).mount(&server).await;
    server
}

fn accepted() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({"id": "m-1"})).insert_header("ratelimit-limit", "5")
}

async fn requests(server: &MockServer) -> Vec<Request> {
    server.received_requests().await.unwrap()
}

/// A peer that reads a whole request, answers with `bytes` and closes the connection.
async fn raw(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8192];
            if stream.read(&mut request).await.is_err() || stream.write_all(bytes).await.is_err() {
                return;
            }
        }
    });
    base
}

#[tokio::test]
async fn a_mail_is_put_to_resend_in_exactly_this_form() {
    let server = resend(accepted()).await;
    let client = Client::new(settings(&format!("{}/prefix/", server.uri()))).unwrap();
    let attempt = send(&client, &delivery("e_1"), &mail()).await;
    assert_eq!(attempt.outcome, Outcome::Delivered { provider_id: Some("m-1".to_owned()) });
    assert_eq!(attempt.pace.map(|pace| pace.limit), Some(5));

    let [request] = &requests(&server).await[..] else { panic!("one request") };
    assert_eq!((request.method.as_str(), request.url.path()), ("POST", "/prefix/emails"));
    for (name, value) in [
        ("authorization", "Bearer re_s3cret"),
        ("idempotency-key", "e_1"),
        ("content-type", "application/json"),
        ("user-agent", http::USER_AGENT),
    ] {
        assert_eq!(request.headers[name], value);
    }
    let body = concat!(
        r#"{"from":"Digest <digest@news.test>","to":["Ann@example.test"],"subject":"Your \"week\" & more","#,
        r#""html":"<p>ü</p>","text":"ü\n","#,
        r#""headers":{"List-Unsubscribe":"<https://app.test/unsubscribe?ref=r%2F1>","#,
        r#""List-Unsubscribe-Post":"List-Unsubscribe=One-Click"},"#,
        r#""tags":[{"name":"envelope","value":"e_5F1"},{"name":"template","value":"your-week-digest_2Ev1"}]}"#,
    );
    assert_eq!(std::str::from_utf8(&request.body).unwrap(), body);
}

#[tokio::test]
async fn reply_to_is_sent_where_it_is_set_and_no_unsubscribe_header_without_https() {
    let server = resend(accepted()).await;
    let mut settings = settings(&server.uri());
    settings.reply_to = Some("hello@news.test".to_owned());
    let mut mail = mail();
    mail.unsubscribe = "http://app.test/u".parse().unwrap();
    send(&Client::new(settings).unwrap(), &delivery("e-1"), &mail).await;
    let body: Value = requests(&server).await[0].body_json().unwrap();
    assert_eq!(body["reply_to"], "hello@news.test");
    assert_eq!(body.get("headers"), None);
}

/// Case 18: the same key and the same bytes.
#[tokio::test]
async fn a_retry_is_the_same_key_and_the_same_bytes() {
    let server = resend(ResponseTemplate::new(500)).await;
    let client = Client::new(settings(&server.uri())).unwrap();
    for _ in 0..2 {
        let attempt = send(&client, &delivery("zwei \u{1f4e7}"), &mail()).await;
        assert_eq!((attempt.outcome, attempt.answered), (Outcome::Unclear { after: None }, true));
    }
    send(&client, &delivery("other"), &mail()).await;
    let [first, second, other] = &requests(&server).await[..] else { panic!("three requests") };
    let key = |request: &Request| request.headers["idempotency-key"].clone();
    assert_eq!(first.body, second.body);
    assert_eq!(key(first), key(second));
    assert_ne!(key(first), key(other));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = resend(accepted()).await;
    for status in [301, 302, 307, 308] {
        let location = format!("{}/emails", elsewhere.uri());
        let server = resend(ResponseTemplate::new(status).insert_header("location", location)).await;
        let attempt = send(&Client::new(settings(&server.uri())).unwrap(), &delivery("e-1"), &mail()).await;
        assert_eq!(attempt.cause, Cause::WrongUrl);
    }
    assert!(requests(&elsewhere).await.is_empty());
}

/// Case 18: cut before the answer.
#[tokio::test]
async fn a_connection_that_is_cut_leaves_it_unclear() {
    for bytes in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"id\":",
        b"HTTP/1.1 422 Unprocessable\r\ncontent-length: 99\r\n\r\n{\"name\":",
    ] {
        let client = Client::new(settings(&raw(bytes).await)).unwrap();
        let attempt = send(&client, &delivery("e-1"), &mail()).await;
        assert_eq!((attempt.outcome, attempt.cause), (Outcome::Unclear { after: None }, Cause::Reset));
        assert!(!attempt.answered);
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let attempt = send(&Client::new(settings(&base)).unwrap(), &delivery("e-1"), &mail()).await;
    assert_eq!((attempt.outcome, attempt.cause), (Outcome::Retry { after: None }, Cause::Connect));
    assert!(!attempt.answered);
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_leaves_it_unclear() {
    let silent = resend(accepted().set_delay(Duration::from_secs(60))).await;
    let builder = http::client_builder().timeout(Duration::from_millis(100));
    let client = Client::over(builder, settings(&silent.uri())).unwrap();
    let attempt = send(&client, &delivery("e-1"), &mail()).await;
    assert_eq!((attempt.outcome, attempt.cause), (Outcome::Unclear { after: None }, Cause::Timeout));
    assert!(!attempt.answered);
}

#[tokio::test]
async fn a_body_over_the_cap_is_judged_by_its_status() {
    let long = " ".repeat(http::BODY_CAP) + r#"{"id":"m-1"}"#;
    for (status, cause) in [(200, Cause::UnreadableAnswer), (403, Cause::WrongUrl), (502, Cause::BadGateway)]
    {
        let server = resend(ResponseTemplate::new(status).set_body_string(&*long)).await;
        let attempt = send(&Client::new(settings(&server.uri())).unwrap(), &delivery("e-1"), &mail()).await;
        assert_eq!((attempt.cause, attempt.answered), (cause, true));
    }
}

#[tokio::test]
async fn what_the_provider_says_of_recipient_key_or_sender_is_not_repeated() {
    let message = "ann@EXAMPLE.test re_s3cret Digest <digest@news.test> Your \"week\" & more hello";
    let answer = json!({"name": "validation_error", "message": message});
    let server = resend(ResponseTemplate::new(451).set_body_json(answer)).await;
    let attempt = send(&Client::new(settings(&server.uri())).unwrap(), &delivery("e-1"), &mail()).await;
    assert_eq!(
        attempt.detail.as_str(),
        "451 validation_error: [private] [private] [private] [private] hello"
    );
}

#[tokio::test]
async fn what_cannot_be_rendered_or_addressed_is_refused_before_anything_is_sent() {
    let server = resend(accepted()).await;
    let channel = EmailChannel::new(settings(&server.uri())).unwrap();
    let unrendered = delivery("e-1");
    let mut unaddressed = delivery("e-2");
    unaddressed.envelope = Arc::new(envelope("e-2", json!({"email": "ann"})));
    for (delivery, cause) in [(unrendered, Cause::NoTemplate), (unaddressed, Cause::RecipientInvalid)] {
        let attempt = channel.deliver(&delivery).await;
        assert_eq!((attempt.outcome, attempt.cause, attempt.answered), (Outcome::Failed, cause, false));
    }
    assert!(requests(&server).await.is_empty());
}

#[test]
fn two_spellings_of_an_address_are_one_destination_behind_one_gate() {
    let channel = EmailChannel::new(settings("https://api.resend.test")).unwrap();
    let route = |email: &str| channel.route(&envelope("e-1", json!({"email": email}))).unwrap();
    assert_eq!(route("ann@Example.TEST"), route("ann@example.test"));
    assert_ne!(route("ann@example.test"), route("Ann@example.test"), "a local part is its host's affair");
    assert_eq!(route("ann@example.test").gate, GateId::new("resend", "resend"));
    assert_eq!((channel.name().as_str(), channel.gating()), ("email", Gating::OneProvider(Rate::Unlimited)));
}

#[test]
fn a_recipient_that_gets_no_mail_is_refused_by_the_name_of_its_field() {
    let channel = EmailChannel::new(settings("https://api.resend.test")).unwrap();
    for (recipient, field) in [
        (json!({}), "recipient.email"),
        (json!({"email": null}), "recipient.email"),
        (json!({"email": ["ann@example.test"]}), "recipient.email"),
        (json!({"email": "Ann <marker@example.test>"}), "recipient.email"),
        (json!({"email": "ann@example.test", "email_verified": false}), "recipient.email_verified"),
        (json!({"email": "ann@example.test", "email_verified": "marker"}), "recipient.email_verified"),
    ] {
        let refusal = channel.route(&envelope("e-1", recipient)).unwrap_err();
        assert_eq!(refusal.cause, Cause::RecipientInvalid);
        assert!(refusal.detail.as_str().starts_with(&format!("{field}: ")), "{}", refusal.detail);
        assert!(!refusal.detail.as_str().contains("marker"));
    }
    for verified in [json!(true), Value::Null] {
        let recipient = json!({"email": "ann@example.test", "email_verified": verified});
        assert!(channel.route(&envelope("e-1", recipient)).is_ok());
    }
}

#[test]
fn neither_key_nor_address_is_in_debug() {
    let settings =
        Settings { reply_to: Some("a@news.test".to_owned()), ..settings("https://api.resend.test") };
    let address = Address::parse("ann@news.test").unwrap();
    let shown = format!("{settings:?} {settings:#?} {address:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("news.test"), "{shown}");
}

mod hostile;
