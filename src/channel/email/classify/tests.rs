use proptest::prelude::*;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::json;

use super::table::*;
use super::*;

const PRIVATE: [&str; 3] = ["ann@example.test", "re_s3cret", "Digest <digest@news.test>"];

fn context(refused_before: bool) -> Context<'static> {
    Context { now: "2026-08-03T06:00:00Z".parse().unwrap(), refused_before, private: &PRIVATE }
}

fn answer(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> Attempt {
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    let status = StatusCode::from_u16(status).unwrap();
    classify(&Answer { status, headers: &headers, body }, &context(false))
}

fn error(status: u16, name: &str, message: &str) -> Attempt {
    let body = json!({"statusCode": status, "name": name, "message": message});
    answer(status, &[], body.to_string().as_bytes())
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn provider(after: Option<Duration>) -> Outcome {
    Outcome::Pause { scope: Scope::Provider, after }
}

#[test]
fn each_error_means_what_the_table_says() {
    for (status, name, message, outcome, cause) in TABLE {
        let attempt = error(*status, name, message);
        assert_eq!((&attempt.outcome, &attempt.cause), (outcome, cause), "{status} {name}: {message}");
        assert!(attempt.answered);
        assert!(attempt.detail.as_str().contains(&format!("{status} {name}")), "{}", attempt.detail);
    }
}

#[test]
fn no_row_tells_what_is_private_however_the_message_quotes_it() {
    let quote =
        "ANN@example.test with re_s3cret from Digest <digest@news.test>, see https://x.test/?k=re_s3cret";
    let statuses = TABLE.iter().map(|(status, name, ..)| (*status, *name));
    for (status, name) in statuses.chain(NO_JSON.iter().map(|(status, ..)| (*status, ""))) {
        let quoting = [
            error(status, name, quote),
            error(status, &format!("{name} {quote}"), quote),
            answer(status, &[("location", quote)], quote.as_bytes()),
            answer(status, &[], json!({"name": name, "detail": quote}).to_string().as_bytes()),
        ];
        for attempt in quoting {
            let told = format!("{attempt:?}").to_lowercase();
            assert!(
                !["ann@", "s3cret", "news.test"].iter().any(|word| told.contains(word)),
                "{status}: {told}"
            );
        }
    }
}

#[test]
fn a_body_that_is_no_json_is_judged_by_its_status() {
    for (status, outcome, cause) in NO_JSON {
        let attempt = answer(*status, &[], b"error code: 1010");
        assert_eq!((&attempt.outcome, &attempt.cause), (outcome, cause), "{status}");
        assert_eq!(attempt.detail.as_str(), format!("{status} error code: 1010"));
    }
}

#[test]
fn a_success_is_one_only_with_the_id_of_a_message() {
    for (body, outcome, cause) in SUCCESSES {
        for status in [200, 201, 202] {
            let attempt = answer(status, &[], body);
            assert_eq!((attempt.outcome.label(), &attempt.cause), (outcome.label(), cause), "{body:?}");
        }
    }
    let id = |body: &[u8]| match answer(200, &[], body).outcome {
        Outcome::Delivered { provider_id } => provider_id,
        _ => None,
    };
    assert_eq!(id(br#"{"id":"49a3999c-0ce1","object":"email"}"#).as_deref(), Some("49a3999c-0ce1"));
    let odd = json!({"id": "x".repeat(65)}).to_string();
    for body in [odd.as_bytes(), br#"{"id":"a b"}"#] {
        assert_eq!(answer(200, &[], body).outcome, Outcome::Delivered { provider_id: None }, "not kept");
    }
}

#[test]
fn another_body_under_a_key_of_a_refused_attempt_is_our_defect() {
    let body = br#"{"name":"invalid_idempotent_request","message":"same key, other body"}"#;
    let answer = Answer { status: StatusCode::CONFLICT, headers: &HeaderMap::new(), body };
    let attempt = classify(&answer, &context(true));
    assert_eq!((attempt.outcome, attempt.cause), OTHER_BODY_AFTER_REFUSAL);
    assert!(attempt.detail.as_str().starts_with("a defect of this worker: 409 "));
    let attempt = classify(&answer, &context(false));
    assert!(attempt.detail.as_str().starts_with("accepted before with another body: 409 "));
}

#[test]
fn the_wait_that_is_asked_for_is_kept_within_bounds() {
    let asked = |status, name: &str, wait: &str| {
        let body = json!({"name": name, "message": "x"}).to_string();
        answer(status, &[("retry-after", wait)], body.as_bytes()).outcome
    };
    for (wait, after) in [("0", 1), ("1", 1), ("30", 30), ("Mon, 03 Aug 2026 06:02:00 GMT", 120), ("soon", 1)]
    {
        assert_eq!(asked(429, "rate_limit_exceeded", wait), provider(seconds(after)), "{wait}");
    }
    assert_eq!(asked(429, "rate_limit_exceeded", "999999"), provider(Some(http::RETRY_AFTER_CAP)));
    assert_eq!(asked(429, "daily_quota_exceeded", "600"), provider(seconds(600)));
    for (wait, after) in [("0", 1), ("3", 3), ("600", 5)] {
        let outcome = asked(409, "concurrent_idempotent_requests", wait);
        assert_eq!(outcome, Outcome::Unclear { after: seconds(after) }, "{wait}");
    }
    assert_eq!(asked(503, "x", "20"), Outcome::Retry { after: seconds(20) });
    assert_eq!(asked(500, "x", "20"), Outcome::Unclear { after: seconds(20) });
}

#[test]
fn the_rate_is_read_from_any_answer() {
    let pace = |value| answer(200, &[("ratelimit-limit", value)], b"{}").pace.map(|pace| pace.limit);
    for (value, limit) in [("10", Some(10)), (" 5 ", Some(5)), ("2, 2;w=1", Some(2)), ("2;w=1", Some(2))] {
        assert_eq!(pace(value), limit, "{value}");
    }
    for value in ["0", "-1", "", "many", "99999999999"] {
        assert_eq!(pace(value), None, "{value}");
    }
    let refused = answer(429, &[("ratelimit-limit", "2")], b"");
    assert_eq!(refused.pace, Some(Pace { limit: 2, window: Duration::from_secs(1) }));
    assert_eq!(answer(200, &[], b"{}").pace, None);
}

#[test]
fn nothing_private_is_in_the_detail() {
    let message =
        format!("{} and {} and {} and https://x.test/y", PRIVATE[0].to_uppercase(), PRIVATE[1], PRIVATE[2]);
    for attempt in [error(422, V, &message), answer(403, &[], message.as_bytes())] {
        let detail = attempt.detail.as_str();
        assert!(detail.contains("and [private]"), "{detail}");
        for private in ["example.test", "s3cret", "digest", "://"] {
            assert!(!detail.to_lowercase().contains(private), "{detail}");
        }
    }
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let worded = ("[a-z_]{0,30}", "[\\s\\S]{0,80}|bounced|complained|suppressed")
        .prop_map(|(name, message)| json!({"name": name, "message": message}).to_string().into_bytes());
    let listed = proptest::sample::select(TABLE).prop_map(|(_, name, message, ..)| {
        json!({"name": name, "message": message}).to_string().into_bytes()
    });
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), worded, listed]
}

proptest! {
    #[test]
    fn no_answer_panics_or_ends_anyones_consent(
        status in 100_u16..1000,
        body in bodies(),
        wait in "[ -~]{0,20}",
        limit in "[ -~]{0,20}",
    ) {
        let attempt = answer(status, &[("retry-after", &wait), ("ratelimit-limit", &limit)], &body);
        let ends_consent =
            matches!(attempt.outcome, Outcome::Bounced | Outcome::Complained | Outcome::Suppressed);
        prop_assert!(!ends_consent, "{:?}", attempt);
    }

    #[test]
    fn only_a_success_or_a_used_key_delivers(status in 300_u16..1000, body in bodies()) {
        let attempt = answer(status, &[], &body);
        let delivered = matches!(attempt.outcome, Outcome::Delivered { .. });
        prop_assert!(!delivered || status == 409, "{:?}", attempt);
    }

    #[test]
    fn trouble_with_key_or_account_never_fails_a_mail(status in 401_u16..408, body in bodies()) {
        prop_assume!(status != 406 && status != 407);
        prop_assert_eq!(answer(status, &[], &body).outcome, provider(None));
    }
}
