//! Traces: what a collector gets of an envelope's way, and what the seam is told.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::digest;
use rustix::process::Signal;
use serde_json::Value;
use wiremock::{Request, ResponseTemplate};

use crate::harness::{Program, Stage, Wire, WireSeam, says};

/// What the log says where a collector cannot be had.
const LOST: &str = "traces do not get through to the collector: they are lost";

fn contains(body: &[u8], word: impl AsRef<[u8]>) -> bool {
    body.windows(word.as_ref().len()).any(|window| window == word.as_ref())
}

/// The bytes that hex digits stand for.
fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap())
        .collect()
}

fn parent(request: &Request) -> &str {
    request.headers.get("traceparent").map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_collector_gets_each_step_and_the_seam_its_context() {
    let collector = Wire::start(|_| ResponseTemplate::new(200)).await;
    let seam = WireSeam::start(vec![Value::from(digest("week-31", "ann@example.com"))]).await;
    let stage = Stage::of_email().await.with("OUTBOX_BASE_URL", seam.url());
    let stage = stage.with("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    stage.resend.faults().add(Fault::answer(StatusCode::INTERNAL_SERVER_ERROR));
    let mut program = stage.run().await;
    seam.acked(1).await;
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));

    // What was left was sent before the end.
    let told = collector.requests();
    assert!(!told.is_empty() && told.iter().all(|request| request.url.path() == "/v1/traces"), "{told:?}");
    let told: Vec<u8> = told.into_iter().flat_map(|request| request.body).collect();
    for word in
        ["delivery-worker", "poll", "delivery", "send", "ack", "week-31", "your-week-digest.v1", "accepted"]
    {
        assert!(contains(&told, word), "{word}");
    }
    for private in ["ann@example.com", "127.0.0.1", "http://"] {
        assert!(!contains(&told, private), "{private}");
    }

    // Two attempts, their sends and the ack are one trace.
    let ack = seam.requests().into_iter().find(|request| request.method == "POST").unwrap();
    let trace = bytes(parent(&ack).split('-').nth(1).unwrap());
    assert_eq!(told.windows(trace.len()).filter(|bytes| *bytes == trace).count(), 5);

    // W3C Trace Context: version, trace, span, flags.
    for request in seam.requests() {
        let parts: Vec<&str> = parent(&request).split('-').collect();
        let [version, trace, span, flags] = parts[..] else { panic!("{parts:?} at {}", request.url) };
        assert_eq!((version, trace.len(), span.len(), flags), ("00", 32, 16, "01"));
        assert!(contains(&told, bytes(trace)) && contains(&told, bytes(span)), "{} is not told", request.url);
    }
}

#[tokio::test]
async fn without_a_collector_the_seam_is_told_no_context() {
    let seam = WireSeam::start(vec![Value::from(digest("week-31", "ann@example.com"))]).await;
    let stage = Stage::of_email().await.with("OUTBOX_BASE_URL", seam.url());
    let _program = stage.run().await;
    seam.acked(1).await;
    assert!(seam.requests().iter().all(|request| parent(request).is_empty()));
}

#[tokio::test]
async fn a_collector_that_is_away_holds_up_nothing() {
    let stage = Stage::of_email().await.with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.run().await;
    stage.acked(["week-31"]).await;
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));
    assert_eq!(program.log(says(LOST)).len(), 1, "{}", program.output());
}

#[tokio::test]
async fn a_collector_that_fails_and_comes_back_is_told_once_each() {
    let told = AtomicUsize::new(0);
    let collector = Wire::start(move |_| match told.fetch_add(1, Ordering::Relaxed) {
        0..3 => ResponseTemplate::new(400),
        _ => ResponseTemplate::new(200),
    });
    let collector = collector.await;
    let stage = Stage::of_email().await.with("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    // Each poll is a span, and spans are sent as soon as there is one.
    let stage = stage.with("OTEL_BSP_SCHEDULE_DELAY", "10").with("DELIVERY_POLL_INTERVAL", "250ms");
    let mut program = stage.run().await;
    program.logged("that traces get through", says("traces get through to the collector again")).await;
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));
    assert_eq!(program.log(says(LOST)).len(), 1, "{}", program.output());
    assert!(!program.output().contains(&collector.url()), "{}", program.output());
}

#[tokio::test]
async fn an_address_that_is_none_is_a_wrong_setting() {
    let stage = Stage::of_email().await.with("OTEL_EXPORTER_OTLP_ENDPOINT", "not a url");
    let mut program = Program::start(&["run"], stage.env());
    assert_eq!(program.exit().await, Some(78));
    assert!(program.output().contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{}", program.output());
    assert!(!program.output().contains("not a url"), "its value is not shown: {}", program.output());
}
