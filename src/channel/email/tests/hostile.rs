//! A provider that is none: whatever answers at its address must not take the worker's memory, and no
//! mail is lost or failed by what it answers.

use super::*;
use crate::http::BODY_CAP;
use crate::http::hostile::{BODIES, HEADS, PRELUDES, Peer};

const SHORT: Duration = Duration::from_millis(300);

async fn answered_by(peer: &Peer, builder: reqwest::ClientBuilder) -> (Outcome, Cause) {
    let client = Client::over(builder, settings(&peer.base)).unwrap();
    let attempt = send(&client, &delivery("e-1"), &mail()).await;
    (attempt.outcome, attempt.cause)
}

fn unclear(cause: Cause) -> (Outcome, Cause) {
    (Outcome::Unclear { after: None }, cause)
}

#[tokio::test]
async fn a_body_without_end_is_cut_at_its_cap_and_the_mail_may_have_been_accepted() {
    for flood in &BODIES {
        let peer = Peer::flooding(flood).await;
        let came = answered_by(&peer, http::client_builder()).await;
        assert_eq!(came, unclear(Cause::UnreadableAnswer), "{}", flood.what);
        peer.was_cut_at(BODY_CAP, flood.what).await;
    }
}

#[tokio::test]
async fn a_head_without_end_is_no_answer() {
    for flood in &HEADS {
        let peer = Peer::flooding(flood).await;
        let came = answered_by(&peer, http::client_builder()).await;
        assert_eq!(came, unclear(Cause::Reset), "{}", flood.what);
        peer.was_cut_at(0, flood.what).await;
    }
}

#[tokio::test]
async fn the_deadline_is_of_the_whole_exchange_and_not_of_each_byte() {
    for head in
        ["HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nx-slow: ", "HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n"]
    {
        let peer = Peer::trickling(head).await;
        let came = answered_by(&peer, http::client_builder().timeout(SHORT)).await;
        assert_eq!(came, unclear(Cause::Timeout), "{head:?}");
        peer.was_cut_at(0, head).await;
    }
    for flood in &PRELUDES {
        let peer = Peer::flooding(flood).await;
        let came = answered_by(&peer, http::client_builder().timeout(SHORT)).await;
        assert_eq!(came, unclear(Cause::Timeout), "{}", flood.what);
    }
}

#[tokio::test]
async fn a_body_is_asked_for_and_read_without_compression() {
    let server = resend(accepted().insert_header("content-encoding", "gzip")).await;
    let attempt = send(&Client::new(settings(&server.uri())).unwrap(), &delivery("e-1"), &mail()).await;
    assert_eq!(attempt.outcome, Outcome::Delivered { provider_id: Some("m-1".to_owned()) });
    assert!(!requests(&server).await[0].headers.contains_key("accept-encoding"));
}

#[tokio::test]
async fn an_answer_that_came_before_the_mail_was_read_settles_nothing_wrongly() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Nothing of the request is read, so that closing resets the connection.
            stream.write_all(b"HTTP/1.1 500 Early\r\ncontent-length: 0\r\n\r\n").await.ok();
        }
    });
    let long = Mail { html: "x".repeat(90_000), ..mail() };
    let attempt = send(&Client::new(settings(&base)).unwrap(), &delivery("e-1"), &long).await;
    assert_eq!(attempt.outcome, Outcome::Unclear { after: None }, "{:?}", attempt.cause);
}
