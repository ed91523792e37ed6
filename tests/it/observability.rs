//! What is put beside the worker to watch it: it names what the worker has, and nothing else.

use std::collections::BTreeSet;

use serde_json::Value;

const RULES: &str = include_str!("../../deploy/prometheus/rules.yml");
const RULES_TEST: &str = include_str!("../../deploy/prometheus/rules.test.yml");
const DASHBOARD: &str = include_str!("../../deploy/grafana/delivery-worker.json");
const RUNBOOK: &str = include_str!("../../docs/runbook.md");

/// The README's table of metrics; that each is really there is `operator`'s to test.
fn promised() -> BTreeSet<&'static str> {
    let rows = include_str!("../../README.md").lines().filter(|line| line.starts_with("| `delivery_"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(','));
    names.map(|name| name.trim().trim_matches('`')).collect()
}

/// The metrics that a text names; a histogram by its own name.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let metrics = words.filter(|word| word.starts_with("delivery_"));
    let promised = promised();
    metrics
        .map(|word| {
            let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            histogram.filter(|name| promised.contains(name)).unwrap_or(word).to_owned()
        })
        .collect()
}

fn alerts() -> Vec<&'static str> {
    RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

#[test]
fn rules_runbook_and_dashboard_name_metrics_that_there_are() {
    let promised = promised();
    for (file, text) in
        [("rules.yml", RULES), ("rules.test.yml", RULES_TEST), ("dashboard", DASHBOARD), ("runbook", RUNBOOK)]
    {
        let unknown: Vec<_> =
            named(text).into_iter().filter(|name| !promised.contains(name.as_str())).collect();
        assert_eq!(unknown, [""; 0], "{file}");
    }
    assert!(named(RULES).len() > 10 && named(DASHBOARD).len() > 20, "the files have moved");
}

#[test]
fn each_alert_leads_to_its_section_of_the_runbook_and_is_tested() {
    let headings: BTreeSet<&str> = RUNBOOK.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for alert in alerts() {
        assert!(headings.contains(alert), "docs/runbook.md has no section {alert}");
        assert!(RULES.contains(&format!("runbook: docs/runbook.md#{}\n", alert.to_lowercase())), "{alert}");
        assert!(RULES_TEST.contains(alert), "rules.test.yml does not test {alert}");
    }
    assert!(alerts().len() >= 14);
}

#[test]
fn each_panel_says_what_it_shows() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] != "row" {
            assert!(!panel["description"].as_str().unwrap().is_empty(), "{panel}");
        }
    }
}
