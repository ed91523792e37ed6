//! The channel against real sockets.

use std::io::ErrorKind;
use std::net::TcpListener as StdListener;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::resolver::tests::Script;
use super::testing::{Receiver, claims, envelope_for, envelope_with, notification, settings};
use super::*;
use crate::outcome::Scope;
use crate::render::Templates;

fn now() -> DateTime<Utc> {
    "2026-08-03T07:00:00Z".parse().unwrap()
}

fn channel(allow_private_endpoints: bool, answers: &[&[&str]]) -> PushChannel {
    let settings = Settings { allow_private_endpoints, ..settings() };
    PushChannel::over(http::client_builder(), settings, Script::of(answers)).unwrap()
}

async fn send(channel: &PushChannel, endpoint: &str) -> Attempt {
    let envelope = envelope_for(&Receiver::rfc8291().subscription(endpoint));
    channel.send(&envelope, &notification(), now()).await
}

/// Answers each request on each connection with `answer`, as it stands, and tells how many connections
/// there were. An empty answer closes the connection; so does one without a length.
async fn raw_server(answer: &'static str) -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            tokio::spawn(serve(stream, answer));
        }
    });
    (port, connections)
}

async fn serve(mut stream: TcpStream, answer: &'static str) {
    while read_request(&mut stream).await.is_some() {
        if stream.write_all(answer.as_bytes()).await.is_err() || !answer.contains("content-length: 0") {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().unwrap();
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some(())
}

#[tokio::test]
async fn the_service_gets_every_header_and_the_browser_reads_the_body() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/send/x"))
        .respond_with(ResponseTemplate::new(201))
        .mount(&server)
        .await;
    let receiver = Receiver::new();
    let envelope = envelope_for(&receiver.subscription(&format!("{}/send/x", server.uri())));

    let attempt = channel(true, &[]).send(&envelope, &notification(), now()).await;

    assert_eq!((attempt.outcome, attempt.cause), (Outcome::Delivered { provider_id: None }, Cause::Accepted));
    let requests = server.received_requests().await.unwrap();
    let header = |name: &str| requests[0].headers[name].to_str().unwrap();
    let topic = message::topic(&envelope.id);
    for (name, value) in [
        ("ttl", "3600"),
        ("urgency", "normal"),
        ("topic", topic.as_str()),
        ("content-encoding", "aes128gcm"),
        ("content-type", "application/octet-stream"),
        ("user-agent", crate::http::USER_AGENT),
    ] {
        assert_eq!(header(name), value, "{name}");
    }
    assert_eq!(claims(&requests[0].headers["authorization"])["aud"], server.uri());
    let content: Value = serde_json::from_slice(&receiver.decrypt(&requests[0].body).unwrap()).unwrap();
    let Notification { title, body, url } = notification();
    assert_eq!(content, json!({"title": title, "body": body, "url": url.as_str(), "tag": topic}));
}

/// Case 7: of two processes.
#[tokio::test]
async fn a_second_copy_bears_the_same_topic() {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(201)).mount(&server).await;
    for _process in 0..2 {
        send(&channel(true, &[]), &server.uri()).await;
    }
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests[0].headers["topic"], requests[1].headers["topic"]);
}

/// Case 23: a public one that redirects anywhere.
#[tokio::test]
async fn a_redirect_fails_and_is_not_followed() {
    let server = MockServer::start().await;
    for status in [301, 302, 303, 307, 308] {
        let there =
            ResponseTemplate::new(status).insert_header("location", format!("{}/landing", server.uri()));
        Mock::given(path(format!("/{status}"))).respond_with(there).mount(&server).await;
        let attempt = send(&channel(true, &[]), &format!("{}/{status}", server.uri())).await;
        assert_eq!((attempt.outcome, attempt.cause), (Outcome::Failed, Cause::EndpointForbidden));
    }
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| request.url.path() != "/landing"));
}

#[tokio::test]
async fn a_refused_connection_is_a_retry_and_no_answer() {
    let port = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let attempt = send(&channel(true, &[]), &format!("http://127.0.0.1:{port}/x")).await;
    assert_eq!((&attempt.outcome, attempt.cause), (&Outcome::Retry { after: None }, Cause::Connect));
    assert!(!attempt.answered);
}

#[tokio::test]
async fn a_connection_cut_after_the_request_is_unclear() {
    let (port, _) = raw_server("").await;
    let attempt = send(&channel(true, &[]), &format!("http://127.0.0.1:{port}/x")).await;
    assert_eq!((&attempt.outcome, attempt.cause), (&Outcome::Unclear { after: None }, Cause::Reset));
    assert!(!attempt.answered);
    assert!(!format!("{attempt:?}").contains("127.0.0.1"), "the endpoint is in no detail");
}

#[tokio::test]
async fn an_answer_whose_body_is_cut_still_counts() {
    for (answer, cause) in [
        ("HTTP/1.1 201 Created\r\ncontent-length: 99\r\n\r\ncut", Cause::Accepted),
        ("HTTP/1.1 410 Gone\r\ncontent-length: 99\r\n\r\ncut", Cause::SubscriptionGone),
    ] {
        let (port, _) = raw_server(answer).await;
        assert_eq!(send(&channel(true, &[]), &format!("http://127.0.0.1:{port}/x")).await.cause, cause);
    }
}

#[tokio::test]
async fn what_speaks_no_tls_is_a_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let attempt = send(&channel(true, &[]), &format!("https://127.0.0.1:{port}/x")).await;
    assert_eq!((attempt.outcome, attempt.cause), (Outcome::Retry { after: None }, Cause::Tls));
}

#[tokio::test]
async fn connections_are_reused_and_each_is_looked_up_once() {
    let (port, connections) = raw_server("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").await;
    let script = Script::of(&[&["127.0.0.1"], &["127.0.0.1"]]);
    let settings = Settings { allow_private_endpoints: true, ..settings() };
    let channel = PushChannel::over(http::client_builder(), settings, script.clone()).unwrap();
    for path in ["a", "b", "c"] {
        let attempt = send(&channel, &format!("http://push.example.net:{port}/{path}")).await;
        assert_eq!(attempt.cause, Cause::Accepted);
    }
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!(script.left(), 1);
}

/// Case 23: also a name that resolves to one.
#[tokio::test]
async fn nothing_connects_to_a_private_address_by_literal_or_by_name() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let channel = channel(false, &[&["127.0.0.1"], &["::ffff:127.0.0.1"], &["127.0.0.1", "8.8.8.8"]]);
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]", // literals
        "rebound.example.net",
        "mapped.example.net",
        "mixed.example.net", // looked up
    ] {
        let attempt = send(&channel, &format!("https://{host}:{port}/x")).await;
        assert_eq!((attempt.outcome, attempt.cause), (Outcome::Failed, Cause::EndpointForbidden), "{host}");
        assert!(!attempt.answered);
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_known_service_on_a_private_address_is_the_resolvers_fault() {
    for endpoint in [
        "https://fcm.googleapis.com/fcm/send/x",
        "https://updates.push.services.mozilla.com/wpush/v2/x",
        "https://web.push.apple.com/x",
        "https://db5p.notify.windows.com/w/?token=x",
    ] {
        let attempt = send(&channel(false, &[&["10.0.0.1"]]), endpoint).await;
        let pause = Outcome::Pause { scope: Scope::Provider, after: None };
        assert_eq!((attempt.outcome, attempt.cause), (pause, Cause::ResolverFault), "{endpoint}");
        assert!(!attempt.answered);
    }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_a_retry() {
    for endpoint in ["https://gone.example.net/x", "https://fcm.googleapis.com/fcm/send/x"] {
        for answers in [[].as_slice(), &[[].as_slice()]] {
            let attempt = send(&channel(false, answers), endpoint).await;
            assert_eq!((attempt.outcome, attempt.cause), (Outcome::Retry { after: None }, Cause::Dns));
        }
    }
}

#[tokio::test]
async fn an_endpoint_too_long_to_be_requested_is_an_invalid_recipient() {
    let endpoint = format!("https://push.example.net/{}", "x".repeat(70_000));
    let attempt = send(&channel(false, &[&["10.0.0.1"]]), &endpoint).await;
    assert_eq!((attempt.outcome, attempt.cause), (Outcome::Failed, Cause::RecipientInvalid));
}

#[tokio::test]
async fn windows_may_block_a_domain_in_the_reason_phrase_alone() {
    let (port, _) = raw_server("HTTP/1.1 410 Domain Blocked\r\ncontent-length: 0\r\n\r\n").await;
    let channel = channel(true, &[&["127.0.0.1"]]);
    let attempt = send(&channel, &format!("http://db5p.notify.windows.com:{port}/w/?token=x")).await;
    assert_eq!(attempt.cause, Cause::EndpointBlocked);
}

#[tokio::test]
async fn an_expired_or_unrendered_envelope_is_failed_and_nothing_is_sent() {
    let server = MockServer::start().await;
    let envelope = envelope_for(&Receiver::new().subscription(&server.uri()));
    let channel = channel(true, &[]);
    let late = envelope.expires_at.unwrap();
    assert_eq!(channel.send(&envelope, &notification(), late).await.cause, Cause::Expired);
    let delivery = Delivery {
        envelope: Arc::new(envelope),
        templates: Arc::new(Templates::default()),
        now: now(),
        refused_before: false,
    };
    let attempt = channel.deliver(&delivery).await;
    assert_eq!((attempt.outcome, attempt.cause), (Outcome::Failed, Cause::NoTemplate));
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[test]
fn a_route_is_the_endpoints_origin_and_the_endpoint() {
    let channel = channel(false, &[]);
    let route = |endpoint: &str| channel.route(&envelope_for(&Receiver::rfc8291().subscription(endpoint)));
    let (one, other) =
        (route("https://push.example.net/a").unwrap(), route("https://push.example.net:443/b").unwrap());
    assert_eq!(one.gate, other.gate);
    assert_ne!(one.destination, other.destination);
    assert_ne!(one.gate, route("https://push.example.net:8443/a").unwrap().gate);
    assert_eq!(route("http://push.example.net/a").unwrap_err().cause, Cause::EndpointForbidden);
    assert_eq!(route("/relative").unwrap_err().cause, Cause::RecipientInvalid);
    let nobody =
        channel.route(&envelope_for(&json!({"endpoint": "https://push.example.net/a"}))).unwrap_err();
    assert!(nobody.detail.as_str().starts_with("recipient.push_subscription.keys"), "{}", nobody.detail);
}

#[test]
fn the_ttl_ends_with_the_envelope_and_is_never_0() {
    let at = |expires_at: Value, created_at: &str| {
        let fields = json!({"expires_at": expires_at, "created_at": created_at});
        ttl(&envelope_with(&json!({}), &fields), now()).map_err(|refusal| refusal.cause)
    };
    let today = "2026-08-03T06:00:00Z";
    for (expires_at, created_at, expected) in [
        (json!("2026-08-03T07:00:01Z"), today, Ok(1)),
        (json!("2026-08-03T07:00:01.999Z"), today, Ok(1)),
        (json!("2026-08-03T09:00:00+02:00"), today, Err(Cause::Expired)),
        (json!("2026-08-03T07:00:00.999Z"), today, Err(Cause::Expired)),
        (json!("2026-08-02T07:00:00Z"), today, Err(Cause::Expired)),
        (json!("2099-01-01T00:00:00Z"), today, Ok(2_419_200)),
        (json!("+262142-12-31T23:59:59Z"), today, Ok(2_419_200)),
        (Value::Null, today, Ok(7 * 86_400 - 3600)),
        (Value::Null, "2026-07-27T07:00:01Z", Ok(1)),
        (Value::Null, "2026-07-27T07:00:00Z", Err(Cause::Expired)),
    ] {
        assert_eq!(at(expires_at.clone(), created_at), expected, "{expires_at} {created_at}");
    }
}

mod guard;
mod hostile;
