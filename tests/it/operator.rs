//! What an operator sees of a running worker, and what keeps two of them apart.

use axum::Json;
use axum::http::StatusCode;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::{digest, nudge};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Program, Stage, says};

/// The names in the first column of the README's table of metrics.
fn promised() -> Vec<&'static str> {
    let readme = include_str!("../../README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| `delivery_"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(','));
    names.map(|name| name.trim().trim_matches('`')).collect()
}

#[tokio::test]
async fn a_worker_in_good_health_says_so_and_shows_every_promised_metric() {
    let stage = Stage::new().await;
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(nudge("nudge-1", &stage.push.subscribe().unwrap()));
    let program = stage.run().await;
    stage.acked(["week-31", "nudge-1"]).await;
    program.logged_times(2, "the acks", says("acked")).await;

    assert_eq!(program.get("/healthz").await, (200, "alive\n".to_owned()));
    assert_eq!(program.get("/readyz").await, (200, "ready\n".to_owned()));
    for sample in [
        r#"delivery_envelopes_total{channel="email",status="delivered"}"#,
        r#"delivery_envelopes_total{channel="push",status="delivered"}"#,
        r#"delivery_attempts_total{channel="email",gate="resend",outcome="delivered",cause="accepted"}"#,
        r#"delivery_attempts_total{channel="push",gate="other",outcome="delivered",cause="accepted"}"#,
        r#"delivery_acks_total{channel="email",result="stored"}"#,
        r#"delivery_lag_seconds_count{channel="push"}"#,
        "delivery_ready",
    ] {
        assert_eq!(program.metric(sample).await, 1.0, "{sample}");
    }
}

#[tokio::test]
async fn every_promised_metric_is_there_once_its_event_has_happened() {
    let stage = Stage::of_email().await;
    let revoked = json!({"statusCode": 401, "name": "validation_error", "message": "API key is invalid"});
    stage.resend.faults().add(Fault::answer((StatusCode::UNAUTHORIZED, Json(revoked))));
    stage.seam.enqueue(Value::Null);
    stage.seam.enqueue(digest("nobody", "ann@example.com").set("/recipient", json!({})));
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let program = stage.run().await;
    program.logged("the gate", says("gate closed")).await;
    program.signal(Signal::HUP);
    program.logged("the gate", says("gate open again")).await;

    let (status, text) = program.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(promised().len() > 20, "the README's table has moved");
    for name in promised() {
        let family = name.trim_end_matches("_total").trim_end_matches("_info");
        let described = text.lines().any(|line| line.starts_with(&format!("# TYPE {family} ")));
        assert!(described, "{name} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_second_worker_on_the_same_machine_ends_before_it_asks_for_anything() {
    let stage = Stage::of_email().await;
    let first = stage.run().await;
    let quiet = Stage::of_email().await.with("DELIVERY_ADMIN_ADDR", first.admin());
    for command in ["run", "drain"] {
        let mut second = Program::start(&[command], quiet.env());
        assert_eq!(second.exit().await, Some(1), "{command}");
        assert!(second.output().contains("DELIVERY_ADMIN_ADDR"), "{}", second.output());
    }
    assert_eq!(quiet.journal.log().entries().len(), 0);
}

#[tokio::test]
async fn a_proxy_in_the_environment_is_not_used() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let mut stage = Stage::new().await;
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        stage = stage.with(name, url.as_str());
    }
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(nudge("nudge-1", &stage.push.subscribe().unwrap()));
    let _program = stage.run().await;

    tokio::select! {
        _ = stage.acked(["week-31", "nudge-1"]) => {}
        _ = proxy.accept() => panic!("the proxy was asked"),
    }
}

#[tokio::test]
async fn odd_settings_are_warned_about_at_the_start() {
    let stage = Stage::of_email().await.with("DELIVERY_POL_INTERVAL", "1s");
    let program = stage.run().await;
    let warnings = program.log(says("DELIVERY_POL_INTERVAL is not known"));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0]["message"].as_str().unwrap().contains("is DELIVERY_POLL_INTERVAL meant?"));
}

#[tokio::test]
async fn secrets_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new().await;
    for name in ["INTERNAL_OUTBOX_TOKEN", "RESEND_API_KEY", "VAPID_PRIVATE_KEY"] {
        let file = folder.path().join(name);
        std::fs::write(&file, format!("{}\n", stage.env()[name])).unwrap();
        stage = stage.with(name, "").with(&format!("{name}_FILE"), file.to_str().unwrap());
    }
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(nudge("nudge-1", &stage.push.subscribe().unwrap()));
    let _program = stage.run().await;
    stage.acked(["week-31", "nudge-1"]).await;
}

#[tokio::test]
async fn it_delivers_on_when_nobody_reads_its_log_and_without_an_admin_server() {
    let stage = Stage::of_email().await.with("DELIVERY_ADMIN_ADDR", "off").with("RUST_LOG", "trace");
    let mut program = stage.run().await;
    program.stop_reading().await;
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.acked(["week-31"]).await;
    stage.more_pages(2, "email").await;
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));
}
