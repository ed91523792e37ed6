use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::*;
use crate::channel::confirm::Said;
use crate::telemetry::logs::Format;
use crate::telemetry::logs::tests::logged;

/// What one event logs, as objects, and every sample that it brings into the metrics.
fn told(tell: impl FnOnce(&Events)) -> (Vec<Value>, Vec<String>) {
    let metrics = Metrics::new([ChannelName::new("email")]);
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let lines = logged(Format::Json, "debug", || tell(&Events::new(metrics)));
    let mut samples = String::new();
    text::encode(&mut samples, &registry).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let new = |line: &&str| {
        let is_part = line.contains("_bucket") || line.contains("_sum");
        !line.starts_with('#') && !is_part && !line.ends_with(" 0") && !line.contains("build_info")
    };
    (lines, samples.lines().filter(new).map(str::to_owned).collect())
}

fn envelope() -> EnvelopeId {
    EnvelopeId::new("e-1").unwrap()
}

fn email() -> ChannelName {
    ChannelName::new("email")
}

fn digest() -> TemplateName {
    TemplateName::new("your-week-digest.v1")
}

fn tell_attempt(events: &Events, channel: &ChannelName) {
    tell_outcome(events, channel, &Outcome::Retry { after: None });
}

fn tell_outcome(events: &Events, channel: &ChannelName, outcome: &Outcome) {
    events.attempt(&AttemptEvent {
        id: &envelope(),
        channel,
        template: &digest(),
        gate: &GateId::new("resend", "resend"),
        number: 2,
        outcome,
        cause: Cause::Unavailable,
        detail: &Detail::fixed("busy"),
        took: Duration::from_millis(120),
        next_in: Some(Duration::from_secs(8)),
    });
}

fn tell_ack(events: &Events, answer: Acked) {
    events.acked(&AckEvent {
        id: &envelope(),
        channel: &email(),
        status: AckStatus::Delivered,
        cause: Cause::Accepted,
        answer,
        lag: Duration::from_secs(3),
    });
}

type Tell = fn(&Events);

/// Every event, the level of its line, and the samples that it moves.
const TABLE: [(&str, Tell, &str, &[&str]); 30] = [
    (
        "page",
        |e| {
            let event = PageEvent { listed: 9, new: 4, limit: 20, took: Duration::ZERO };
            e.page(&email(), &event);
        },
        "DEBUG",
        &[
            r#"delivery_polls_total{channel="email",result="ok"} 1"#,
            r#"delivery_envelopes_listed_total{channel="email"} 4"#,
        ],
    ),
    (
        "poll_failed",
        |e| e.poll_failed(&email(), &SeamError::TokenRefused, Duration::from_secs(5)),
        "ERROR",
        &[r#"delivery_polls_total{channel="email",result="token_refused"} 1"#],
    ),
    (
        "poll_failed for a while",
        |e| e.poll_failed(&email(), &SeamError::NotReady, Duration::from_secs(5)),
        "WARN",
        &[r#"delivery_polls_total{channel="email",result="not_ready"} 1"#],
    ),
    (
        "attempt",
        |e| tell_attempt(e, &email()),
        "INFO",
        &[
            r#"delivery_attempts_total{channel="email",gate="resend",outcome="retry",cause="unavailable"} 1"#,
            r#"delivery_attempt_seconds_count{channel="email"} 1"#,
        ],
    ),
    (
        "refused",
        |e| {
            let refusal = Refusal::new(Cause::Expired, Detail::fixed("expired"));
            e.refused(&envelope(), &email(), &digest(), &refusal);
        },
        "WARN",
        &[r#"delivery_refusals_total{channel="email",cause="expired"} 1"#],
    ),
    (
        "acked",
        |e| tell_ack(e, Acked::Stored),
        "INFO",
        &[
            r#"delivery_envelopes_total{channel="email",status="delivered"} 1"#,
            r#"delivery_lag_seconds_count{channel="email"} 1"#,
            r#"delivery_acks_total{channel="email",result="stored"} 1"#,
        ],
    ),
    (
        "acked, differs",
        |e| tell_ack(e, Acked::Differs(AckStatus::Bounced)),
        "WARN",
        &[
            r#"delivery_envelopes_total{channel="email",status="delivered"} 1"#,
            r#"delivery_lag_seconds_count{channel="email"} 1"#,
            r#"delivery_acks_total{channel="email",result="differs"} 1"#,
        ],
    ),
    (
        "acked, unknown",
        |e| tell_ack(e, Acked::Unknown),
        "WARN",
        &[
            r#"delivery_envelopes_total{channel="email",status="delivered"} 1"#,
            r#"delivery_lag_seconds_count{channel="email"} 1"#,
            r#"delivery_acks_total{channel="email",result="unknown"} 1"#,
        ],
    ),
    (
        "ack_failed",
        |e| e.ack_failed(&envelope(), &email(), &SeamError::Refused(404), Duration::from_secs(900)),
        "WARN",
        &[r#"delivery_acks_total{channel="email",result="refused"} 1"#],
    ),
    (
        "withdrawn",
        |e| e.withdrawn(&envelope(), &email()),
        "INFO",
        &[r#"delivery_withdrawn_total{channel="email"} 1"#],
    ),
    (
        "unnamed",
        |e| e.unnamed(&email(), "id is missing"),
        "ERROR",
        &[r#"delivery_unusable_elements_total{channel="email",problem="unnamed"} 1"#],
    ),
    (
        "malformed",
        |e| e.malformed(&envelope(), &email(), &FieldError::new("recipient", "is missing")),
        "ERROR",
        &[r#"delivery_unusable_elements_total{channel="email",problem="malformed"} 1"#],
    ),
    (
        "unreadable",
        |e| e.unreadable(&envelope(), &email(), &Detail::fixed("2")),
        "ERROR",
        &[r#"delivery_unusable_elements_total{channel="email",problem="unreadable"} 1"#],
    ),
    (
        "misplaced",
        |e| e.misplaced(&envelope(), &ChannelName::new("push"), &email()),
        "ERROR",
        &[r#"delivery_unusable_elements_total{channel="email",problem="misplaced"} 1"#],
    ),
    (
        "relisted",
        |e| e.relisted(&envelope(), &email(), AckStatus::Failed),
        "ERROR",
        &[r#"delivery_relisted_total{channel="email"} 1"#],
    ),
    (
        "gate_closed",
        |e| {
            let gate = GateId::new("resend", "resend");
            e.gate_closed(&gate, Cause::ApiKey, &Detail::default(), Duration::from_secs(30));
        },
        "ERROR",
        &[r#"delivery_gate_closed_total{gate="resend",cause="api_key"} 1"#],
    ),
    (
        "gate_opened",
        |e| e.gate_opened(&GateId::new("https://push.example.test", "other"), Duration::from_secs(60)),
        "INFO",
        &[r#"delivery_gate_opened_total{gate="other"} 1"#],
    ),
    (
        "acks blocked",
        |e| e.acks_blocked(true),
        "ERROR",
        &[r#"delivery_gate_closed_total{gate="seam",cause="acks_blocked"} 1"#],
    ),
    ("acks unblocked", |e| e.acks_blocked(false), "INFO", &[r#"delivery_gate_opened_total{gate="seam"} 1"#]),
    (
        "panicked",
        |e| e.panicked(&envelope(), &email()),
        "ERROR",
        &[r#"delivery_panics_total{channel="email"} 1"#],
    ),
    (
        "asked",
        |e| e.asked(&email(), &Said::Messages { listed: Vec::new(), more: false }),
        "DEBUG",
        &[r#"delivery_confirmation_requests_total{channel="email",result="answered"} 1"#],
    ),
    (
        "asked in vain",
        |e| e.asked(&email(), &Said::Nothing(Cause::ServerError)),
        "WARN",
        &[r#"delivery_confirmation_requests_total{channel="email",result="failed"} 1"#],
    ),
    (
        "concluded",
        |e| {
            let word = FinalWord::Known(AckStatus::Bounced);
            e.concluded(&envelope(), &email(), &digest(), (word, Cause::MailBounced));
        },
        "INFO",
        &[r#"delivery_confirmations_total{channel="email",result="bounced"} 1"#],
    ),
    (
        "unasked",
        |e| e.unasked(&email(), Unasked::PassedOn),
        "DEBUG",
        &[r#"delivery_webhook_events_total{channel="email",result="passed_on"} 1"#],
    ),
    (
        "unasked by a stranger",
        |e| e.unasked(&email(), Unasked::Refused),
        "WARN",
        &[r#"delivery_webhook_events_total{channel="email",result="refused"} 1"#],
    ),
    ("confirmations_off", |e| e.confirmations_off(&email(), 3), "WARN", &[]),
    (
        "nearly_too_large",
        |e| e.nearly_too_large(&envelope(), &email(), &digest(), 95_000),
        "WARN",
        &[r#"delivery_nearly_too_large_total{channel="email"} 1"#],
    ),
    (
        "window_full",
        |e| e.window_full(&email(), 500),
        "WARN",
        &[r#"delivery_window_full_total{channel="email"} 1"#],
    ),
    (
        "clock_skew",
        |e| e.clock_skew(&email(), 86_400),
        "ERROR",
        &[r#"delivery_clock_skew_total{channel="email"} 1"#],
    ),
    (
        "an attempt on a channel that this worker does not have",
        |e| tell_attempt(e, &ChannelName::new("carrier-pigeon")),
        "INFO",
        &[
            r#"delivery_attempts_total{channel="other",gate="resend",outcome="retry",cause="unavailable"} 1"#,
            r#"delivery_attempt_seconds_count{channel="other"} 1"#,
        ],
    ),
];

/// Case 26: a panic is counted.
#[test]
fn each_event_writes_one_line_and_moves_its_metrics_and_no_others() {
    for (name, tell, level, moved) in TABLE {
        let (lines, samples) = told(tell);
        assert_eq!(lines.len(), 1, "{name}");
        assert_eq!(lines[0]["level"], level, "{name}");
        let [mut samples, mut moved] = [samples, moved.iter().map(|s| (*s).to_owned()).collect()];
        samples.sort();
        moved.sort();
        assert_eq!(samples, moved, "{name}");
    }
}

#[test]
fn the_readme_lists_every_metric_that_an_event_moves() {
    let readme = include_str!("../../../README.md");
    for (_, tell, ..) in TABLE {
        for sample in told(tell).1 {
            let name = sample.split('{').next().unwrap().trim_end_matches("_count");
            assert!(readme.contains(&format!("`{name}`")), "README.md does not list {name}");
        }
    }
}

#[test]
fn the_end_of_an_envelope_is_told_with_all_that_led_to_it() {
    let fields = |name: &str| {
        let (_, tell, ..) = TABLE.into_iter().find(|(event, ..)| *event == name).unwrap();
        told(tell).0.remove(0)
    };
    let attempt = fields("attempt");
    for (field, value) in [
        ("envelope", Value::from("e-1")),
        ("channel", "email".into()),
        ("template", "your-week-digest.v1".into()),
        ("gate", "resend".into()),
        ("outcome", "retry".into()),
        ("cause", "unavailable".into()),
        ("attempt", 2.into()),
        ("took_ms", 120.into()),
        ("next_in_ms", 8000.into()),
        ("detail", "busy".into()),
    ] {
        assert_eq!(attempt[field], value, "{field} of {attempt}");
    }
    let refused = fields("refused");
    for (field, value) in [
        ("envelope", "e-1"),
        ("channel", "email"),
        ("template", "your-week-digest.v1"),
        ("outcome", "failed"),
        ("cause", "expired"),
    ] {
        assert_eq!(refused[field], value, "{field} of {refused}");
    }
}

#[test]
fn an_accepted_message_can_be_found_at_its_provider() {
    let outcome = Outcome::Delivered { provider_id: Some("4ef9-a1".to_owned()) };
    let line = logged(Format::Json, "info", || tell_outcome(&Events::default(), &email(), &outcome));
    assert!(line.contains(r#""provider_id":"4ef9-a1""#), "{line}");
}

#[test]
fn an_id_cannot_forge_a_second_line() {
    let id = EnvelopeId::new("e-1\nERROR all is lost").unwrap();
    let lines = logged(Format::Text, "info", || Events::default().withdrawn(&id, &email()));
    assert_eq!(lines.lines().count(), 1, "{lines}");
}
