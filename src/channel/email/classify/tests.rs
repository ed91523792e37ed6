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

/// Case 15: a revoked key in each of its words.
/// Case 16: a used-up quota.
/// Case 17: both conflicts over a key.
/// Case 30: refused for a setting.
#[test]
fn each_error_means_what_the_table_says() {
    for (status, name, message, outcome, cause) in TABLE {
        let attempt = error(*status, name, message);
        assert_eq!((&attempt.outcome, &attempt.cause), (outcome, cause), "{status} {name}: {message}");
        assert!(attempt.answered);
        assert!(attempt.detail.as_str().contains(&format!("{status} {name}")), "{}", attempt.detail);
    }
}

/// Case 15: `error code: 1010` as plain text.
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
fn neither_the_letter_case_of_a_name_nor_the_status_in_a_body_changes_what_is_meant() {
    for (status, name, message, outcome, cause) in TABLE {
        for (name, inside) in [(name.to_uppercase(), json!(status)), (format!(" {name} "), json!("200"))] {
            let body = json!({"message": message, "name": name, "statusCode": inside}).to_string();
            let attempt = answer(*status, &[], body.as_bytes());
            assert_eq!((&attempt.outcome, &attempt.cause), (outcome, cause), "{status} {name}: {message}");
        }
    }
}

/// What the document says of statuses that have no row.
fn like(status: u16) -> u16 {
    match status {
        _ if TABLE.iter().any(|row| row.0 == status) => status,
        300..=399 => 308,
        500..=599 => 520,
        _ => 418,
    }
}

fn meaning(attempt: &Attempt) -> (Outcome, Cause) {
    (attempt.outcome.clone(), attempt.cause)
}

#[test]
fn a_status_without_a_row_means_what_its_like_does() {
    for status in (300..=999).filter(|status| like(*status) != *status) {
        for message in ["x", "API key is invalid", "Invalid `from` field."] {
            let attempt = error(status, "anything", message);
            assert_eq!(meaning(&attempt), meaning(&error(like(status), "anything", "x")), "{status}");
        }
    }
}

/// What a proxy, an edge or a broken server may put where Resend puts an object of its own.
const STRANGE: &[&[u8]] = &[
    b"",
    b"Forbidden",
    b"<!DOCTYPE html><html><head><title>Attention Required!</title></head></html>",
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xabV*\xcaIU\xb2R",
    b"[]",
    br#"[{"name":"invalid_idempotent_request","message":"Invalid `from` field."}]"#,
    br#""security_error""#,
    b"null",
    br#"{"name":"daily_quota_exceeded","message":"cut"#,
];

#[test]
fn what_is_no_json_object_means_what_the_status_does_under_any_name() {
    for status in 300..=999 {
        let row =
            NO_JSON.iter().find(|row| row.0 == status).map(|(_, outcome, cause)| (outcome.clone(), *cause));
        let expected = row.unwrap_or_else(|| meaning(&error(status, "anything", "x")));
        for body in STRANGE {
            assert_eq!(meaning(&answer(status, &[], body)), expected, "{status} {body:?}");
        }
    }
    for body in STRANGE {
        assert_eq!(answer(200, &[], body).cause, Cause::UnreadableAnswer, "{body:?}");
    }
}

#[test]
fn an_object_without_a_name_or_with_odd_fields_is_one_under_any_name() {
    for body in [
        json!({}),
        json!({"name": "", "message": ""}),
        json!({"name": 7, "message": ["Invalid `from` field."]}),
        json!({"error": {"name": "invalid_idempotent_request"}}),
    ] {
        for status in (300..=599).filter(|status| ![400, 422].contains(status)) {
            let attempt = answer(status, &[], body.to_string().as_bytes());
            assert_eq!(meaning(&attempt), meaning(&error(status, "anything", "x")), "{status} {body}");
        }
        assert_eq!(answer(422, &[], body.to_string().as_bytes()).cause, Cause::Refused);
        assert_eq!(answer(400, &[], body.to_string().as_bytes()).cause, Cause::UnexpectedAnswer);
    }
}

#[test]
fn an_error_inside_a_success_is_no_success() {
    let body = br#"{"statusCode":422,"name":"validation_error","message":"Invalid `to` field."}"#;
    let attempt = answer(200, &[], body);
    assert_eq!(meaning(&attempt), (Outcome::Unclear { after: None }, Cause::UnreadableAnswer));
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

/// Case 17: the note says which it is.
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
