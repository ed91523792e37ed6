//! What a push service's answer means.
//!
//! Owns the table from answer to [`Attempt`] (RFC 8030, 5 and 7.3; RFC 8292, 4.2; and where each service
//! differs). Pure, and total: an answer that nobody has seen yet must never eat the queue, and only
//! "gone" ends anyone's consent. It must not know a request or a retry.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::endpoint::Service;
use super::subscription::Subscription;
use crate::channel::Attempt;
use crate::http::{date, retry_after};
use crate::outcome::{Cause, Detail, Outcome, Scope};

/// The shortest wait after "too many requests".
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// A clock further off than this is named where a credential is refused.
const SKEW_WORTH_NAMING: i64 = 60;
/// Words by which a 400 says that the credential does not fit: FCM's and Apple's.
const CREDENTIAL_WORDS: [&str; 2] = ["UnauthorizedRegistration", "VapidPkHashMismatch"];
/// How Windows says that it has no quarrel with the subscription, but with the sender.
const DOMAIN_BLOCKED: &str = "domain blocked";

/// An answer, as far as its meaning depends on it. It may quote the subscription: `Debug` shows its status
/// alone.
#[derive(Clone)]
pub(super) struct Answer {
    /// The status code.
    pub(super) status: StatusCode,
    /// The reason phrase, where it is not the standard one of the status.
    pub(super) reason: Option<String>,
    /// The header fields.
    pub(super) headers: HeaderMap,
    /// The start of the body; empty if it could not be read.
    pub(super) body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, …)", self.status.as_u16())
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Whether the reason, the body or what Windows says in headers holds `words`, in any form and letter
    /// case: what hangs on them is too much to hang on a form.
    fn mentions(&self, words: &str) -> bool {
        let reason = self.reason.as_deref().unwrap_or_default().as_bytes();
        let told =
            ["x-wns-status", "x-wns-error-description"].iter().flat_map(|name| self.headers.get_all(*name));
        let parts = told.map(HeaderValue::as_bytes).chain([reason, &self.body]);
        parts
            .into_iter()
            .any(|part| part.windows(words.len()).any(|window| window.eq_ignore_ascii_case(words.as_bytes())))
    }

    /// What the service says in words, in one line. Windows says it in headers, others in JSON or text.
    fn said(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let body = match serde_json::from_str::<Value>(&body) {
            Ok(json) => words_of(&json),
            Err(_) if body.trim_start().starts_with('<') => String::new(),
            Err(_) => body.into_owned(),
        };
        let reason = self.reason.as_deref().unwrap_or_default();
        let parts = [reason, self.header("x-wns-status"), self.header("x-wns-error-description"), &body];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

/// The fields of an error object in which push services put their reasons.
fn words_of(json: &Value) -> String {
    let fields = ["errno", "reason", "status", "error", "message"];
    let words = fields.iter().filter_map(|field| match json.get(field)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(format!("{field} {number}")),
        nested @ Value::Object(_) => Some(words_of(nested)),
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Reads `answer` to a message for `subscription`; `now` is this machine's clock.
pub(super) fn classify(answer: &Answer, subscription: &Subscription, now: DateTime<Utc>) -> Attempt {
    let service = subscription.endpoint.service();
    let asked = retry_after(&answer.headers, now);
    let (outcome, cause) = meaning(answer, service, asked);
    let said = answer.said();
    let mut text = answer.status.as_str().to_owned();
    if cause == Cause::Accepted {
        return Attempt::answered(outcome, cause, Detail::default());
    }
    if cause == Cause::PushCredential {
        text.extend(skew(answer, now));
    }
    if answer.status.is_redirection() {
        text.push_str(": redirects are not followed");
    }
    if !said.is_empty() {
        text = format!("{text}: {said}");
    }
    Attempt::answered(outcome, cause, subscription.scrub(&text))
}

fn meaning(answer: &Answer, service: Service, asked: Option<Duration>) -> (Outcome, Cause) {
    let spaced = Some(asked.unwrap_or_default().max(LEAST_WAIT));
    let windows = service == Service::Windows;
    match answer.status.as_u16() {
        200..=299 if windows && was_dropped(answer) => (Outcome::Retry { after: asked }, Cause::Dropped),
        200..=299 => (Outcome::Delivered { provider_id: None }, Cause::Accepted),
        300..=399 => (Outcome::Failed, Cause::EndpointForbidden),
        400 if names_credential(answer) => (pause(None), Cause::PushCredential),
        400 => (Outcome::Failed, Cause::Refused),
        401 | 403 => (pause(None), Cause::PushCredential),
        404 | 410 if windows && is_blocked(answer) => (pause(None), Cause::EndpointBlocked),
        404 | 410 => (Outcome::Bounced, Cause::SubscriptionGone),
        405 => (pause(None), Cause::EndpointBlocked),
        406 if windows => (Outcome::Retry { after: spaced }, Cause::RateLimited),
        406 => (Outcome::Failed, Cause::Refused),
        408 => (Outcome::Unclear { after: asked }, Cause::Timeout),
        413 => (Outcome::Failed, Cause::TooLarge),
        425 | 503 => (Outcome::Retry { after: asked }, Cause::Unavailable),
        429 => (pause(spaced), Cause::RateLimited),
        502 => (Outcome::Unclear { after: asked }, Cause::BadGateway),
        504 => (Outcome::Unclear { after: asked }, Cause::GatewayTimeout),
        500..=599 => (Outcome::Unclear { after: asked }, Cause::ServerError),
        0..=199 | 402 | 407 | 409 | 411 | 412 | 414..=424 | 426..=428 | 430..=499 | 600.. => {
            (Outcome::Retry { after: asked }, Cause::UnexpectedAnswer)
        }
    }
}

/// Every pause is of the one destination: an endpoint's answer is its owner's word alone, and whether it
/// speaks for the whole origin is for the gate to see from several.
fn pause(after: Option<Duration>) -> Outcome {
    Outcome::Pause { scope: Scope::Destination, after }
}

fn was_dropped(answer: &Answer) -> bool {
    let status = answer.header("x-wns-status");
    ["dropped", "channelthrottled"].iter().any(|word| status.eq_ignore_ascii_case(word))
}

fn names_credential(answer: &Answer) -> bool {
    CREDENTIAL_WORDS.iter().any(|word| answer.mentions(word))
}

fn is_blocked(answer: &Answer) -> bool {
    answer.mentions(DOMAIN_BLOCKED)
}

/// A clock that runs ahead makes tokens that "expire too late", one that is behind makes expired ones.
fn skew(answer: &Answer, now: DateTime<Utc>) -> Option<String> {
    let ahead = (now - date(&answer.headers)?).num_seconds();
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    (ahead.abs() > SKEW_WORTH_NAMING)
        .then(|| format!(": this machine's clock is {} s {direction} the push service's", ahead.abs()))
}

#[cfg(test)]
pub(in crate::channel) mod table;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderName;

    use super::super::testing::{Receiver, envelope_for};
    use super::table::{APPLE, EVERY_SERVICE, FCM, MOZILLA, OTHER, Row, SOME_SERVICES, WINDOWS};
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-08-03T06:00:00Z".parse().unwrap()
    }

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            reason: None,
            headers: headers.iter().map(header).collect(),
            body: body.into(),
        }
    }

    fn subscription(endpoint: &str) -> Subscription {
        Subscription::of(&envelope_for(&Receiver::rfc8291().subscription(endpoint)), false).unwrap()
    }

    fn read(endpoint: &str, answer: &Answer) -> Attempt {
        classify(answer, &subscription(endpoint), now())
    }

    fn retry(after: u64) -> Outcome {
        Outcome::Retry { after: Some(Duration::from_secs(after)) }
    }

    fn waits(seconds: u64) -> Outcome {
        pause(Some(Duration::from_secs(seconds)))
    }

    /// Case 20: 403 and 405.
    #[test]
    fn each_status_means_what_the_table_says() {
        for (status, outcome, cause) in EVERY_SERVICE {
            for endpoint in [FCM, MOZILLA, APPLE, WINDOWS, OTHER] {
                let own = |row: &&Row| (row.0, row.1, row.2, row.3) == (endpoint, *status, &[][..], "");
                let (outcome, cause) =
                    SOME_SERVICES.iter().find(own).map_or((outcome, cause), |row| (&row.4, &row.5));
                let attempt = read(endpoint, &answer(*status, &[], ""));
                assert_eq!((&attempt.outcome, &attempt.cause), (outcome, cause), "{endpoint} {status}");
                assert!(attempt.answered);
            }
        }
    }

    #[test]
    fn a_status_without_a_row_means_what_its_like_does() {
        let rows: Vec<u16> = EVERY_SERVICE.iter().map(|row| row.0).collect();
        for status in (100..=999).filter(|status| !rows.contains(status)) {
            let like = match status {
                100..=199 => 100,
                200..=299 => 200,
                300..=399 => 301,
                500..=599 => 500,
                600.. => 999,
                _ => 418,
            };
            for endpoint in [FCM, MOZILLA, APPLE, WINDOWS, OTHER] {
                let [this, like] = [status, like].map(|status| read(endpoint, &answer(status, &[], "")));
                assert_eq!((this.outcome, this.cause), (like.outcome, like.cause), "{endpoint} {status}");
            }
        }
    }

    /// What hangs on these words is a reader's consent, or a whole origin's mail.
    #[test]
    fn words_that_speak_of_the_sender_count_wherever_and_however_they_are_written() {
        let empty = |status| answer(status, &[], "");
        let bodies = |status, words: &str| {
            [
                words.to_owned(),
                words.to_lowercase(),
                words.to_uppercase(),
                format!("<html><body><h1>{words}</h1></body></html>"),
                format!(r#"{{"detail":"{words}"}}"#),
                format!(r#"[{{"reason":"{words}"}}]"#),
                format!("{}{words}", "x".repeat(60_000)),
            ]
            .map(|body| answer(status, &[], &body))
        };
        let by_reason = |status, words: &str| Answer { reason: Some(words.to_lowercase()), ..empty(status) };
        let mut twice = empty(410);
        for value in [&b"\xff"[..], b"domain blocked"] {
            twice.headers.append("x-wns-error-description", HeaderValue::from_bytes(value).unwrap());
        }
        for status in [404, 410] {
            for answer in
                bodies(status, "Domain Blocked").into_iter().chain([by_reason(status, "Domain Blocked")])
            {
                assert_eq!(read(WINDOWS, &answer).cause, Cause::EndpointBlocked, "{answer:?}");
                assert_eq!(read(FCM, &answer).cause, Cause::SubscriptionGone, "no words of this service");
            }
        }
        assert_eq!(read(WINDOWS, &twice).cause, Cause::EndpointBlocked);
        for words in CREDENTIAL_WORDS {
            for answer in bodies(400, words).into_iter().chain([by_reason(400, words)]) {
                assert_eq!(read(FCM, &answer).cause, Cause::PushCredential, "{answer:?}");
            }
        }
    }

    #[test]
    fn a_body_of_any_form_leaves_the_meaning_to_the_status() {
        let forms: [&[u8]; 7] = [
            b"",
            b"<html>",
            b"\x1f\x8b\x08\x00\xff",
            b"[]",
            b"null",
            br#"{"reason":["BadTtl"]}"#,
            b"{\"cut\":",
        ];
        for (status, outcome, cause) in EVERY_SERVICE {
            for body in forms {
                let attempt = read(FCM, &Answer { body: body.to_vec(), ..answer(*status, &[], "") });
                assert_eq!((&attempt.outcome, &attempt.cause), (outcome, cause), "{status} {body:?}");
            }
        }
    }

    #[test]
    fn some_services_say_some_things_in_their_own_way() {
        for (endpoint, status, headers, body, outcome, cause) in SOME_SERVICES {
            let attempt = read(endpoint, &answer(*status, headers, body));
            let said = format!("{endpoint} {status} {headers:?} {body}");
            assert_eq!((&attempt.outcome, &attempt.cause), (outcome, cause), "{said}");
        }
        let mut by_reason = answer(410, &[], "");
        by_reason.reason = Some("Domain Blocked".to_owned());
        assert_eq!(read(WINDOWS, &by_reason).cause, Cause::EndpointBlocked);
    }

    /// Case 22: seconds, a date, nothing, and far too long.
    #[test]
    fn a_rate_limit_is_waited_for_at_least_a_second_and_at_most_an_hour() {
        for (value, seconds) in [
            ("120", 120),
            ("Mon, 03 Aug 2026 06:02:00 GMT", 120),
            ("0", 1),
            ("", 1),
            ("soon", 1),
            ("Mon, 03 Aug 2026 05:00:00 GMT", 1),
            ("999999", 3600),
        ] {
            let attempt = read(FCM, &answer(429, &[("retry-after", value)], ""));
            assert_eq!((attempt.outcome, attempt.cause), (waits(seconds), Cause::RateLimited), "{value}");
        }
        assert_eq!(read(FCM, &answer(503, &[("retry-after", "7")], "")).outcome, retry(7));
        assert_eq!(read(WINDOWS, &answer(406, &[("retry-after", "30")], "")).outcome, retry(30));
    }

    #[test]
    fn a_refused_credential_names_a_clock_that_is_off() {
        for (date, expected) in [
            (
                "Mon, 03 Aug 2026 05:00:00 GMT",
                "401: this machine's clock is 3600 s ahead of the push service's: errno 109 expired",
            ),
            (
                "Mon, 03 Aug 2026 06:02:00 GMT",
                "401: this machine's clock is 120 s behind the push service's: errno 109 expired",
            ),
            ("Mon, 03 Aug 2026 06:01:00 GMT", "401: errno 109 expired"),
        ] {
            let body = r#"{"code":401,"errno":109,"message":"expired"}"#;
            let attempt = read(FCM, &answer(401, &[("date", date)], body));
            assert_eq!(attempt.detail.as_str(), expected);
        }
        let attempt = read(FCM, &answer(500, &[("date", "Mon, 03 Aug 2026 05:00:00 GMT")], ""));
        assert_eq!(attempt.detail.as_str(), "500");
    }

    #[test]
    fn the_detail_holds_the_services_reason_and_nothing_of_the_subscription() {
        for (answer, expected) in [
            (answer(403, &[], r#"{"reason":"BadJwtToken"}"#), "403: BadJwtToken"),
            (
                answer(404, &[], r#"{"error":{"code":404,"message":"not found","status":"NOT_FOUND"}}"#),
                "404: NOT_FOUND not found",
            ),
            (answer(413, &[], "too big for cafebabe01"), "413: too big for [private]"),
            (answer(502, &[], "<html><body>Bad gateway</body></html>"), "502"),
            (answer(302, &[("location", "http://10.0.0.1/")], ""), "302: redirects are not followed"),
            (answer(201, &[("location", OTHER)], OTHER), ""),
        ] {
            assert_eq!(read(OTHER, &answer).detail.as_str(), expected);
        }
    }

    #[test]
    fn no_row_tells_what_is_private_however_the_service_quotes_it() {
        let receiver = Receiver::rfc8291().subscription(FCM);
        let keys = ["p256dh", "auth"].map(|key| receiver["keys"][key].as_str().unwrap().to_owned());
        let quote = format!("cAfeBabe01 CAFEBABE01 at {FCM}: {}", keys.join(" "));
        let rows = EVERY_SERVICE.iter().map(|(status, ..)| (FCM, *status));
        for (endpoint, status) in
            rows.chain(SOME_SERVICES.iter().map(|(endpoint, status, ..)| (*endpoint, *status)))
        {
            let json = serde_json::json!({"reason": quote, "error": {"message": quote}}).to_string();
            for body in [&quote, &json] {
                let headers = [("x-wns-error-description", quote.as_str()), ("location", FCM)];
                let answer = Answer { reason: Some(quote.clone()), ..answer(status, &headers, body) };
                let (attempt, subscription) = (read(endpoint, &answer), subscription(endpoint));
                let told = format!("{answer:?} {attempt:?} {subscription:?}").to_lowercase();
                let private = keys.iter().map(|key| key.to_lowercase()).chain(["cafebabe01".to_owned()]);
                private.for_each(|word| assert!(!told.contains(&word), "{endpoint} {status}: {told}"));
            }
        }
    }

    fn any_answer() -> impl Strategy<Value = Answer> {
        let word = prop_oneof![Just("dropped".to_owned()), Just("Domain Blocked".to_owned()), "[ -~]{0,30}"];
        let body = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[ -~]{0,200}".prop_map(String::into_bytes),
            Just(br#"{"reason":"VapidPkHashMismatch"}"#.to_vec()),
        ];
        (100_u16..1000, word.clone(), word, body).prop_map(|(status, wns, retry, body)| {
            let headers =
                [("x-wns-status", wns.as_str()), ("x-wns-error-description", &wns), ("retry-after", &retry)];
            Answer { body, reason: Some(wns.clone()), ..answer(status, &headers, "") }
        })
    }

    proptest! {
        #[test]
        fn no_answer_panics_and_only_gone_ends_consent(answer in any_answer(), which in 0_usize..4) {
            let endpoint = [FCM, APPLE, WINDOWS, OTHER][which];
            let attempt = read(endpoint, &answer);
            let status = answer.status.as_u16();
            prop_assert!(!matches!(attempt.outcome, Outcome::Complained | Outcome::Suppressed));
            if attempt.outcome == Outcome::Bounced {
                prop_assert!(status == 404 || status == 410);
            }
            if matches!(attempt.outcome, Outcome::Delivered { .. }) {
                prop_assert!(answer.status.is_success());
            }
            if attempt.outcome == Outcome::Failed {
                prop_assert!(answer.status.is_redirection() || matches!(status, 400 | 406 | 413));
            }
        }

        #[test]
        fn no_answer_pauses_more_than_its_destination(answer in any_answer()) {
            let outcome = read(FCM, &answer).outcome;
            let whole_origin = matches!(outcome, Outcome::Pause { scope: Scope::Provider, .. });
            prop_assert!(!whole_origin);
        }
    }
}
