//! The rules and the dashboard against a real Prometheus that scrapes a worker at work.
//!
//! Needs Debian's prometheus; `make test-prometheus` installs it and runs this.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "../browser/process.rs"]
mod process;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use delivery_worker::http::{BODY_CAP, client_builder, read_capped};
use process::{LIMIT, Process};
use serde_json::Value;

const SCRAPE: &str = include_str!("../../deploy/prometheus/scrape.yml");
const RULES: &str = include_str!("../../deploy/prometheus/rules.yml");
const DASHBOARD: &str = include_str!("../../deploy/grafana/delivery-worker.json");

/// A Prometheus with the rules, which scrapes one worker every second.
struct Prometheus {
    address: String,
    client: reqwest::Client,
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    async fn of(worker: &str) -> Prometheus {
        let folder = tempfile::tempdir().unwrap();
        let scrape = SCRAPE.replace("127.0.0.1:9110", worker).replace("15s", "1s");
        fs::write(folder.path().join("prometheus.yml"), scrape).unwrap();
        fs::write(folder.path().join("rules.yml"), RULES).unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        // Bound and given back: nobody else takes it in between on a machine that runs one of these.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let arguments = [
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address={free}"),
        ];
        let arguments = arguments.each_ref().map(String::as_str);
        let process = Process::start("prometheus".as_ref(), &arguments, &[]);
        process.line("its readiness", |line| line.contains("ready to receive").then_some(())).await;
        let client = client_builder().tls_certs_only([]).build().unwrap();
        Prometheus { address: free.to_string(), client, _process: process, _folder: folder }
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let mut url = reqwest::Url::parse(&format!("http://{}{path}", self.address)).unwrap();
        url.query_pairs_mut().extend_pairs(query);
        let answer = self.client.get(url).send().await.unwrap();
        serde_json::from_slice(&read_capped(answer, BODY_CAP).await.unwrap()).unwrap()
    }

    /// How many series the expression has now.
    async fn count(&self, expression: &str) -> usize {
        let answer = self.get("/api/v1/query", &[("query", expression)]).await;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().len()
    }
}

/// What each panel of the dashboard asks, with Grafana's own variables filled in.
fn questions() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut questions = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression.replace("$instance", ".*").replace("$__rate_interval", "5s");
            questions.push((panel["title"].as_str().unwrap().to_owned(), expression));
        }
    }
    questions
}

#[tokio::test]
async fn every_panel_and_every_rule_has_what_it_asks_for() {
    let worker = Process::worker(&["demo"], &[]);
    let admin = |line: &str| Some(line.strip_prefix("Look at http://")?.split_once('/')?.0.to_owned());
    let prometheus = Prometheus::of(&worker.line("the worker's address", admin).await).await;

    // What a panel shows only in trouble is allowed to be empty.
    let mut empty: BTreeSet<_> = questions().into_iter().filter(|(_, ask)| !ask.ends_with("> 0")).collect();
    assert!(empty.len() > 15, "the dashboard has moved");
    let begun = Instant::now();
    while !empty.is_empty() {
        assert!(begun.elapsed() < LIMIT, "panels without data: {empty:#?}");
        for (panel, ask) in empty.clone() {
            if prometheus.count(&ask).await > 0 {
                empty.remove(&(panel, ask));
            }
        }
        // Between two scrapes.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for (_, ask) in questions() {
        prometheus.count(&ask).await;
    }

    let rules = prometheus.get("/api/v1/rules", &[]).await;
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), RULES.matches("- alert:").count());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    // The demo's outbox holds one of a version that the worker does not read, and two that cannot be rendered.
    let stands = |name: &str| rules.iter().find(|rule| rule["name"] == name).unwrap()["state"].clone();
    assert_eq!(stands("DeliveryVersionUnreadable"), "pending");
    assert_eq!(stands("DeliveryTemplateErrors"), "firing");
    assert_eq!(stands("DeliveryDown"), "inactive");
    worker.kill().await;
}
