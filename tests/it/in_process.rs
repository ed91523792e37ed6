//! The worker as a value, run in this process against the stand-ins.

use std::time::Duration;

use delivery_worker::config::{Config, Environment};
use delivery_worker::engine::Mode;
use delivery_worker::http;
use delivery_worker::render::{Library, Links};
use delivery_worker::sandbox::{Options, Sandbox, examples};
use delivery_worker::worker::Worker;

/// Bounds every wait: a test that would hang fails instead.
const SOON: Duration = Duration::from_secs(10);

async fn worker(sandbox: &Sandbox, more: &[(&'static str, &str)]) -> Worker {
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let at_once = [("DELIVERY_EMAIL_ACK", "accepted".to_owned())];
    let env: Environment = sandbox.worker_env().into_iter().chain(at_once).chain(more).collect();
    let (config, _) = Config::read(&env).unwrap();
    let links = Links::new(&config.rendering.app_origin, &config.rendering.unsubscribe_path).unwrap();
    Worker::new(config, Library::load(None, links).unwrap()).await.unwrap()
}

/// What /metrics tells once `id` is acked.
async fn metrics_after(sandbox: &Sandbox, id: &str) -> String {
    let worker = worker(sandbox, &[("DELIVERY_ADMIN_ADDR", "127.0.0.1:0")]).await;
    let metrics = format!("http://{}/metrics", worker.admin_address().unwrap());
    let looked = async {
        let acked = sandbox.journal.wait_until(|log| log.acks().any(|ack| ack.id == id));
        drop(tokio::time::timeout(SOON, acked).await.expect("no ack"));
        let client = http::client_builder().tls_certs_only([]).build().unwrap();
        let answer = client.get(metrics).send().await.unwrap();
        String::from_utf8(http::read_capped(answer, 1 << 20).await.unwrap().to_vec()).unwrap()
    };
    tokio::select! {
        metrics = looked => metrics,
        _ = worker.run(Mode::Daemon, std::future::pending(), std::future::pending()) => unreachable!(),
    }
}

#[tokio::test]
async fn what_cannot_be_rendered_is_no_call_to_a_provider() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    sandbox.seam.enqueue(examples::digest("poison", "ann@example.com").set("/payload/sections", 7));
    let metrics = metrics_after(&sandbox, "poison").await;
    let refused = r#"delivery_refusals_total{channel="email",cause="payload_invalid"} 1"#;
    assert!(metrics.contains(refused), "{metrics}");
    assert!(!metrics.contains("delivery_attempts_total{"), "{metrics}");
}

#[tokio::test]
async fn a_mail_close_to_its_limit_is_sent_and_counted() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let long = "word ".repeat(16_500);
    sandbox
        .seam
        .enqueue(examples::digest("long", "ann@example.com").set("/payload/sections/0/items/0/quote", long));
    let metrics = metrics_after(&sandbox, "long").await;
    assert!(metrics.contains(r#"delivery_nearly_too_large_total{channel="email"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"outcome="delivered""#), "{metrics}");
}

#[tokio::test]
async fn what_is_found_expired_between_two_polls_is_acked_at_once() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    sandbox.seam.list_expired(true);
    sandbox.seam.enqueue(examples::digest("first", "ann@example.com"));
    let expired = examples::digest("late", "bob@example.com").set("/expires_at", "2020-01-01T00:00:00Z");
    sandbox.seam.enqueue(expired);
    let settings =
        [("DELIVERY_POLL_INTERVAL", "1h"), ("DELIVERY_ADMIN_ADDR", "off"), ("RESEND_MAX_RPS", "1")];
    let worker = worker(&sandbox, &settings).await;
    let acked = sandbox.journal.wait_until(|log| log.acks().any(|ack| ack.id == "late"));
    tokio::select! {
        acked = tokio::time::timeout(SOON, acked) => drop(acked.expect("no ack before the next poll")),
        _ = worker.run(Mode::Daemon, std::future::pending(), std::future::pending()) => {}
    }
}
