use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::matchers::{body_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;
use crate::envelope::Reading;
use crate::outcome::{Cause, Detail};

fn settings(base: &str, token_header: &'static str) -> Settings {
    Settings {
        base_url: base.parse().unwrap(),
        token: "t0ken".into(),
        token_header: HeaderName::from_static(token_header),
    }
}

fn seam(base: &str) -> HttpSeam {
    HttpSeam::new(settings(base, "x-internal-token")).unwrap()
}

async fn answering(template: ResponseTemplate) -> (MockServer, HttpSeam) {
    let server = MockServer::start().await;
    Mock::given(wiremock::matchers::any()).respond_with(template).mount(&server).await;
    let seam = seam(&server.uri());
    (server, seam)
}

fn email() -> ChannelName {
    ChannelName::new("email")
}

fn id(text: &str) -> EnvelopeId {
    EnvelopeId::new(text).unwrap()
}

fn delivered() -> Ack {
    Ack { status: AckStatus::Delivered, detail: Detail::default() }
}

async fn received(server: &MockServer) -> Request {
    server.received_requests().await.unwrap().pop().unwrap()
}

/// A peer that answers each connection with `bytes`, over and over where `endless`, and closes it.
async fn raw(bytes: &'static [u8], endless: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok() {
                while stream.write_all(bytes).await.is_ok() && endless {}
            }
        }
    });
    base
}

#[tokio::test]
async fn a_page_is_asked_for_below_the_prefix_with_the_token() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/app/internal/outbox/pending"))
        .and(query_param("channel", "email"))
        .and(query_param("limit", "50"))
        .and(header("x-internal-token", "t0ken"))
        .and(header("user-agent", http::USER_AGENT))
        .respond_with(
            ResponseTemplate::new(200)
                .insert_header("date", "Mon, 03 Aug 2026 06:00:00 GMT")
                .set_body_string(r#"{"envelopes":[{"id":"a"},{"id":"b"}],"more":1}"#),
        )
        .expect(2)
        .mount(&server)
        .await;
    for base in [format!("{}/app", server.uri()), format!("{}/app/", server.uri())] {
        let page = seam(&base).pending(&email(), 50).await.unwrap();
        let ids: Vec<_> = page.elements.iter().filter_map(|e| e.id().map(EnvelopeId::as_str)).collect();
        assert_eq!(ids, ["a", "b"], "in the seam's order");
        assert_eq!(page.date, Some("2026-08-03T06:00:00Z".parse().unwrap()));
    }
}

#[tokio::test]
async fn in_the_authorization_header_the_token_is_a_bearer_token() {
    let (server, _) = answering(ResponseTemplate::new(200).set_body_string(r#"{"envelopes":[]}"#)).await;
    let seam = HttpSeam::new(settings(&server.uri(), "authorization")).unwrap();
    seam.pending(&email(), 1).await.unwrap();
    assert_eq!(received(&server).await.headers["authorization"], "Bearer t0ken");
}

#[test]
fn the_token_is_not_in_debug() {
    let settings = settings("http://app.test", "x-internal-token");
    assert!(!format!("{settings:?}").contains("t0ken"));
    assert!(!format!("{:?}", HttpSeam::new(settings).unwrap()).contains("t0ken"));
}

/// Case 1: the page is read element by element.
#[test]
fn one_bad_element_costs_only_itself() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let page = [
        br#"{"envelopes":[{"id":"a"}, null, 7, {"id":{}}, {"id":"lone","x":"\ud800"}, {"id":"deep","x":"#
            .as_slice(),
        deep.as_bytes(),
        br#"}, {"id":"bytes","x":"#,
        b"\"\xff\"",
        br#"}, {"id":"z"}]}"#,
    ]
    .concat();
    let elements = Page::decode(page, None).unwrap().elements;
    let ids: Vec<_> = elements.iter().map(|e| e.id().map(EnvelopeId::as_str)).collect();
    assert_eq!(ids, [Some("a"), None, None, None, Some("lone"), Some("deep"), Some("bytes"), Some("z")]);
    assert!(matches!(elements[4].read(), Reading::Malformed { .. }));
    assert!(matches!(elements[5].read(), Reading::Malformed { .. }));
}

#[test]
fn of_a_page_without_end_the_oldest_500_are_kept() {
    let page = json!({ "envelopes": (0..501).map(|n| json!({ "id": n.to_string() })).collect::<Vec<_>>() });
    let elements = Page::decode(page.to_string().into_bytes(), None).unwrap().elements;
    assert_eq!(elements.len(), PAGE_ELEMENTS);
    assert_eq!(elements[499].id().map(EnvelopeId::as_str), Some("499"));
}

#[test]
fn what_is_no_page_is_unreadable() {
    for body in
        ["", "<html>", "[]", "{}", r#"{"envelopes":null}"#, r#"{"envelopes":{}}"#, r#"{"envelopes":[1"#]
    {
        assert_eq!(
            Page::decode(body.as_bytes().to_vec(), None).unwrap_err(),
            SeamError::Unreadable,
            "{body}"
        );
    }
}

#[tokio::test]
async fn each_refusal_of_a_page_has_its_own_error() {
    for (status, error) in [
        (401, SeamError::TokenRefused),
        (403, SeamError::Forbidden),
        (503, SeamError::NotReady),
        (204, SeamError::Status(204)),
        (404, SeamError::Status(404)),
        (422, SeamError::Status(422)),
        (429, SeamError::Status(429)),
        (500, SeamError::Status(500)),
    ] {
        let (_server, seam) = answering(ResponseTemplate::new(status)).await;
        assert_eq!(seam.pending(&email(), 1).await.unwrap_err(), error, "{status}");
    }
}

#[tokio::test]
async fn an_ack_is_refused_for_good_only_by_a_4xx_that_stays() {
    for (status, error) in [
        (401, SeamError::TokenRefused),
        (403, SeamError::Forbidden),
        (503, SeamError::NotReady),
        (204, SeamError::Status(204)),
        (408, SeamError::Status(408)),
        (429, SeamError::Status(429)),
        (500, SeamError::Status(500)),
        (502, SeamError::Status(502)),
        (400, SeamError::Refused(400)),
        (404, SeamError::Refused(404)),
        (409, SeamError::Refused(409)),
        (422, SeamError::Refused(422)),
    ] {
        let (_server, seam) = answering(ResponseTemplate::new(status)).await;
        let got = seam.ack(&id("e-1"), &delivered()).await.unwrap_err();
        assert_eq!(got.is_final(), matches!(error, SeamError::Refused(_)));
        assert_eq!(got, error, "{status}");
    }
}

/// Case 6: a redirect is no answer.
#[tokio::test]
async fn a_redirect_is_not_followed_and_its_origin_alone_is_named() {
    let elsewhere = MockServer::start().await;
    let target = format!("{}/login?token=s3cret", elsewhere.uri());
    for status in [301, 302, 307, 308] {
        let (_server, seam) =
            answering(ResponseTemplate::new(status).insert_header("location", target.as_str())).await;
        let to = Some(elsewhere.uri().as_str().into());
        for error in [
            seam.pending(&email(), 1).await.unwrap_err(),
            seam.ack(&id("e-1"), &delivered()).await.unwrap_err(),
        ] {
            assert_eq!(error, SeamError::Redirected { to: Clone::clone(&to) });
            assert!(error.to_string().contains(&elsewhere.uri()));
            assert!(!error.to_string().contains("s3cret"));
        }
    }
    assert!(elsewhere.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_redirect_within_the_app_names_the_app_and_one_to_nowhere_nothing() {
    let (server, seam) = answering(ResponseTemplate::new(302).insert_header("location", "/login")).await;
    let to = Some(server.uri().as_str().into());
    assert_eq!(seam.pending(&email(), 1).await.unwrap_err(), SeamError::Redirected { to });
    for nowhere in ["data:text/html,x", "http://["] {
        let (_server, seam) = answering(ResponseTemplate::new(302).insert_header("location", nowhere)).await;
        assert_eq!(seam.pending(&email(), 1).await.unwrap_err(), SeamError::Redirected { to: None });
    }
}

#[tokio::test]
async fn an_ack_posts_the_status_and_leaves_an_empty_detail_out() {
    let server = MockServer::start().await;
    let detail = Detail::fixed("no template of that name");
    for (ack, body) in [
        (delivered(), json!({"status": "delivered"})),
        (
            Ack { status: AckStatus::Failed, detail },
            json!({"status": "failed", "detail": "no template of that name"}),
        ),
    ] {
        Mock::given(method("POST"))
            .and(path("/internal/outbox/e-1/status"))
            .and(header("content-type", "application/json"))
            .and(header("x-internal-token", "t0ken"))
            .and(body_json(&body))
            .respond_with(ResponseTemplate::new(200).set_body_json(json!({"status": ack.status.as_str()})))
            .expect(1)
            .mount(&server)
            .await;
        assert_eq!(seam(&server.uri()).ack(&id("e-1"), &ack).await, Ok(Acked::Stored));
    }
}

#[test]
fn the_effective_status_is_compared_with_the_posted_one() {
    for (body, answer) in [
        (r#"{"status":"delivered","at":1}"#, Ok(Acked::Stored)),
        (r#"{"status":"bounced"}"#, Ok(Acked::Differs(AckStatus::Bounced))),
        (r#"{"status":"unknown"}"#, Ok(Acked::Unknown)),
        (r#"{"status":"Delivered"}"#, Err(SeamError::Unreadable)),
        (r#"{"status":"pending"}"#, Err(SeamError::Unreadable)),
        (r#"{"status":null}"#, Err(SeamError::Unreadable)),
        ("{}", Err(SeamError::Unreadable)),
        ("OK", Err(SeamError::Unreadable)),
        ("", Err(SeamError::Unreadable)),
    ] {
        assert_eq!(acked(body.as_bytes(), AckStatus::Delivered), answer, "{body}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_at_its_cap() {
    let seam = seam(&raw(b"HTTP/1.1 200 OK\r\n\r\n                                ", true).await);
    assert_eq!(seam.ack(&id("e-1"), &delivered()).await, Err(SeamError::TooLarge(BODY_CAP)));
    let big = ResponseTemplate::new(200).set_body_bytes(vec![b' '; PAGE_CAP + 1]);
    let (_server, seam) = answering(big).await;
    assert_eq!(seam.pending(&email(), 1).await.unwrap_err(), SeamError::TooLarge(PAGE_CAP));
}

#[tokio::test]
async fn no_answer_or_half_of_one_is_unreachable() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let cut = raw(b"", false).await;
    let half = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"envelopes\":[", false).await;
    for (base, cause) in [(refused, Cause::Connect), (cut, Cause::Reset), (half, Cause::Reset)] {
        let unreachable = SeamError::Unreachable(cause);
        assert_eq!(seam(&base).pending(&email(), 1).await.unwrap_err(), unreachable);
        assert_eq!(seam(&base).ack(&id("e-1"), &delivered()).await, Err(unreachable));
    }
}

#[tokio::test]
async fn an_id_of_any_form_arrives_whole_as_one_segment() {
    let (server, seam) =
        answering(ResponseTemplate::new(200).set_body_json(json!({"status": "delivered"}))).await;
    for text in ["a/../b", "%2e%2e", "...", "a?b#c", "ä \t\n\\x", "100%", ".%2e", "a+b&c=d;e", "\u{0}"] {
        assert_eq!(seam.ack(&id(text), &delivered()).await, Ok(Acked::Stored));
        let url = received(&server).await.url;
        let segments: Vec<_> = url.path().split('/').collect();
        let [_, "internal", "outbox", segment, "status"] = segments[..] else { panic!("{url}") };
        assert_eq!(percent_decode_str(segment).decode_utf8().unwrap(), text);
        assert_eq!((url.query(), url.fragment()), (None, None));
    }
}

proptest! {
    #[test]
    fn an_id_is_always_one_segment_that_decodes_to_it(text in "[\\s\\S]{1,60}|[./%2eE\\\\?#]{1,8}") {
        let Ok(id) = EnvelopeId::new(text.clone()) else { return Ok(()) };
        let base = BaseUrl::new("http://app.test/prefix/".parse().unwrap()).unwrap();
        let url = base.join(&status_path(&id));
        let segments: Vec<_> = url.path().split('/').collect();
        let [_, "prefix", "internal", "outbox", segment, "status"] = segments[..] else {
            return Err(TestCaseError::fail(url.to_string()));
        };
        prop_assert_eq!(percent_decode_str(segment).decode_utf8().unwrap(), text);
    }

    /// Each element is of a page's form and holds what it likes.
    #[test]
    fn no_page_is_larger_than_the_limit_and_no_element_makes_the_reader_panic(
        listed in proptest::collection::vec("null|-?[0-9]{1,30}|[0-9]e[0-9]{1,3}|\\{\"id\": ?\"\\PC{0,9}\"\\}|\\[{0,9}\\]{0,9}", 0..20),
        times in 1_usize..100,
    ) {
        let body = format!(r#"{{"envelopes":[{}]}}"#, vec![listed.join(","); times].join(","));
        let Ok(Page { elements, .. }) = Page::decode(body.into_bytes(), None) else { return Ok(()) };
        prop_assert!(elements.len() <= PAGE_ELEMENTS);
        for element in elements {
            let unnamed = matches!(element.read(), Reading::Unnamed { .. });
            prop_assert_eq!(unnamed, element.id().is_none());
        }
    }

    #[test]
    fn no_body_makes_the_client_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Page::decode(body.clone(), None).is_ok(), acked(&body, AckStatus::Failed).is_ok());
    }
}

mod hostile;
