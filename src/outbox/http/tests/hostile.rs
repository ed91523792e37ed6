//! A seam that is not the app's: whatever answers at its address must not take the worker's memory.

use std::time::Duration;

use super::*;
use crate::http::hostile::{BODIES, HEADS, PRELUDES, Peer};

const SHORT: Duration = Duration::from_millis(300);

fn hurried(base: &str) -> HttpSeam {
    HttpSeam::over(|| http::client_builder().timeout(SHORT), settings(base, "x-internal-token")).unwrap()
}

#[tokio::test]
async fn a_body_without_end_is_cut_at_its_cap_and_named() {
    for flood in &BODIES {
        let peer = Peer::flooding(flood).await;
        let page = seam(&peer.base).pending(&email(), 1).await.unwrap_err();
        assert_eq!(page, SeamError::TooLarge(PAGE_CAP), "{}", flood.what);
        peer.was_cut_at(PAGE_CAP, flood.what).await;

        let peer = Peer::flooding(flood).await;
        let ack = seam(&peer.base).ack(&id("e-1"), &delivered()).await;
        assert_eq!(ack, Err(SeamError::TooLarge(BODY_CAP)), "{}", flood.what);
        peer.was_cut_at(BODY_CAP, flood.what).await;
    }
}

#[tokio::test]
async fn a_head_without_end_is_no_answer() {
    for flood in &HEADS {
        let peer = Peer::flooding(flood).await;
        let broken = SeamError::Unreachable(Cause::Reset);
        assert_eq!(seam(&peer.base).pending(&email(), 1).await.unwrap_err(), broken, "{}", flood.what);
        assert_eq!(seam(&peer.base).ack(&id("e-1"), &delivered()).await, Err(broken), "{}", flood.what);
        peer.was_cut_at(0, flood.what).await;
    }
}

#[tokio::test]
async fn the_deadline_is_of_the_whole_exchange_and_not_of_each_byte() {
    let slow = SeamError::Unreachable(Cause::Timeout);
    for head in [
        "HTTP/1.1 200 ",
        "HTTP/1.1 200 OK\r\nx-slow: ",
        "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n{\"envelopes\":[",
    ] {
        let peer = Peer::trickling(head).await;
        assert_eq!(hurried(&peer.base).pending(&email(), 1).await.unwrap_err(), slow, "{head:?}");
        assert_eq!(hurried(&peer.base).ack(&id("e-1"), &delivered()).await, Err(slow.clone()), "{head:?}");
        peer.was_cut_at(0, head).await;
    }
    for flood in &PRELUDES {
        let peer = Peer::flooding(flood).await;
        assert_eq!(hurried(&peer.base).pending(&email(), 1).await.unwrap_err(), slow, "{}", flood.what);
    }
}

#[tokio::test]
async fn a_body_is_asked_for_and_read_without_compression() {
    for coding in ["gzip", "br", "zstd", "deflate"] {
        let page = ResponseTemplate::new(200)
            .insert_header("content-encoding", coding)
            .set_body_string(r#"{"envelopes":[{"id":"a"}]}"#);
        let (server, seam) = answering(page).await;
        let page = seam.pending(&email(), 1).await.unwrap();
        assert_eq!(page.elements.len(), 1, "read as it stands: {coding}");
        assert!(!received(&server).await.headers.contains_key("accept-encoding"));
    }
}

#[tokio::test]
async fn an_answer_that_came_before_the_question_is_no_page_of_an_app() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Nothing of the request is read, so that closing resets the connection.
            stream.write_all(b"HTTP/1.1 500 Early\r\ncontent-length: 0\r\n\r\n").await.ok();
        }
    });
    let error = seam(&base).pending(&email(), 1).await.unwrap_err();
    let either = [SeamError::Status(500), SeamError::Unreachable(Cause::Reset)];
    assert!(either.contains(&error), "{error:?}");
}
