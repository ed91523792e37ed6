//! What an answer of Resend means: one pure function from status, headers and body to an [`Attempt`].
//!
//! Owns the reading of Resend's errors (<https://resend.com/docs/api-reference/errors>). An answer to
//! `POST /emails` says nothing about the recipient's consent: none is ever read as a bounce, a complaint
//! or a suppression. What this build does not know is decided by its status alone. It must not do I/O.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::channel::{Attempt, Pace};
use crate::http;
use crate::outcome::{Cause, Detail, Outcome, Scope};

/// The window that Resend's rate headers count in.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// After a 429 the gate waits at least this long: one whole window.
const RATE_WAIT_MIN: Duration = RATE_WINDOW;
/// How long another request of the same key may take: it is our own earlier attempt, under the same
/// deadline and mostly done.
const CONCURRENT_WAIT_MIN: Duration = Duration::from_secs(1);
const CONCURRENT_WAIT: Duration = Duration::from_secs(2);
const CONCURRENT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Message ids are UUIDs; what is longer is none and is not kept.
const PROVIDER_ID_MAX: usize = 64;

/// A whole answer, its body already capped. It may quote the mail, so it has no `Debug`.
pub(super) struct Answer<'a> {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its headers.
    pub(super) headers: &'a HeaderMap,
    /// Its body; empty where it was too long to be Resend's.
    pub(super) body: &'a [u8],
}

/// What the meaning of an answer depends on besides the answer.
pub(super) struct Context<'a> {
    /// For waits that are given as a date.
    pub(super) now: DateTime<Utc>,
    /// Whether an earlier attempt of this process for this envelope was plainly refused.
    pub(super) refused_before: bool,
    /// What must not stand in the detail: recipient, key, sender.
    pub(super) private: &'a [&'a str],
}

/// What `answer` means for the mail.
pub(super) fn classify(answer: &Answer<'_>, context: &Context<'_>) -> Attempt {
    let wait = http::retry_after(answer.headers, context.now);
    let attempt = if answer.status.is_success() {
        success(answer)
    } else {
        let said = Said::read(answer.body);
        let (outcome, cause) = refusal(answer.status.as_u16(), &said, wait, context);
        Attempt::answered(outcome, cause, said.detail(answer.status, cause, context))
    };
    attempt.at_pace(pace(answer.headers))
}

fn success(answer: &Answer<'_>) -> Attempt {
    #[derive(Deserialize)]
    struct Wire {
        id: String,
    }
    match serde_json::from_slice::<Wire>(answer.body) {
        Ok(Wire { id }) if !id.is_empty() => {
            let plain = id.len() <= PROVIDER_ID_MAX
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
            let outcome = Outcome::Delivered { provider_id: plain.then_some(id) };
            Attempt::answered(outcome, Cause::Accepted, Detail::default())
        }
        Ok(_) | Err(_) => {
            let detail = Detail::fixed("a success without the id of a message");
            Attempt::answered(Outcome::Unclear { after: None }, Cause::UnreadableAnswer, detail)
        }
    }
}

/// The table of errors, by status.
fn refusal(status: u16, said: &Said, wait: Option<Duration>, context: &Context<'_>) -> (Outcome, Cause) {
    match status {
        400 | 422 => request_refused(status, said),
        401 => pause(Cause::ApiKey),
        402 => pause(Cause::Account),
        403 => pause(forbidden(said)),
        300..=399 | 404 | 405 => pause(Cause::WrongUrl),
        408 => (Outcome::Unclear { after: wait }, Cause::Timeout),
        409 => conflict(said.name, wait, context),
        425 | 503 => (Outcome::Retry { after: wait }, Cause::Unavailable),
        429 => too_many(said.name, wait),
        451 if said.name == Name::SecurityError => (Outcome::Failed, Cause::Refused),
        502 => (Outcome::Unclear { after: wait }, Cause::BadGateway),
        504 => (Outcome::Unclear { after: wait }, Cause::GatewayTimeout),
        500..=599 => (Outcome::Unclear { after: wait }, Cause::ServerError),
        _ => (Outcome::Retry { after: wait }, Cause::UnexpectedAnswer),
    }
}

fn pause(cause: Cause) -> (Outcome, Cause) {
    (Outcome::Pause { scope: Scope::Provider, after: None }, cause)
}

/// 400 and 422: whose fault it is depends on what the message is about.
fn request_refused(status: u16, said: &Said) -> (Outcome, Cause) {
    match (said.name, said.about) {
        (Name::InvalidIdempotencyKey, _) => (Outcome::Failed, Cause::OurDefect),
        (Name::ApiKey, _) | (_, About::ApiKey) => pause(Cause::ApiKey),
        (_, About::Account) => pause(Cause::Account),
        (Name::InvalidFromAddress, _) | (_, About::Sender) => pause(Cause::SenderSettings),
        (_, About::Mail) => (Outcome::Failed, Cause::Refused),
        (_, About::Other) if status == 422 => (Outcome::Failed, Cause::Refused),
        (_, About::Other) => (Outcome::Retry { after: None }, Cause::UnexpectedAnswer),
    }
}

/// 403: the key, the account, the sender, or something before Resend that speaks no JSON.
fn forbidden(said: &Said) -> Cause {
    match said.name {
        Name::None => Cause::WrongUrl,
        Name::ApiKey => Cause::ApiKey,
        Name::InvalidFromAddress => Cause::SenderSettings,
        Name::InvalidIdempotencyKey
        | Name::ConcurrentRequests
        | Name::ResourceLocked
        | Name::OtherBody
        | Name::DailyQuota
        | Name::MonthlyQuota
        | Name::SecurityError
        | Name::Unknown => Cause::Account,
    }
}

/// 409: the key is in use, or was used.
fn conflict(name: Name, wait: Option<Duration>, context: &Context<'_>) -> (Outcome, Cause) {
    match name {
        Name::ConcurrentRequests => {
            let after = wait.unwrap_or(CONCURRENT_WAIT).clamp(CONCURRENT_WAIT_MIN, CONCURRENT_WAIT_MAX);
            (Outcome::Unclear { after: Some(after) }, Cause::ConcurrentRequest)
        }
        Name::OtherBody if context.refused_before => (Outcome::Failed, Cause::OurDefect),
        Name::OtherBody => (Outcome::Delivered { provider_id: None }, Cause::AcceptedBefore),
        Name::ResourceLocked => (Outcome::Retry { after: wait }, Cause::ResourceLocked),
        Name::InvalidIdempotencyKey
        | Name::ApiKey
        | Name::InvalidFromAddress
        | Name::DailyQuota
        | Name::MonthlyQuota
        | Name::SecurityError
        | Name::Unknown
        | Name::None => (Outcome::Retry { after: wait }, Cause::UnexpectedAnswer),
    }
}

/// 429: a quota that is used up, or the rate; a name that is not known is taken for the rate.
fn too_many(name: Name, wait: Option<Duration>) -> (Outcome, Cause) {
    let wait = wait.map(|wait| wait.max(RATE_WAIT_MIN));
    let (cause, after) = match name {
        Name::DailyQuota => (Cause::QuotaDaily, wait),
        Name::MonthlyQuota => (Cause::QuotaMonthly, wait),
        Name::InvalidIdempotencyKey
        | Name::ApiKey
        | Name::InvalidFromAddress
        | Name::ConcurrentRequests
        | Name::ResourceLocked
        | Name::OtherBody
        | Name::SecurityError
        | Name::Unknown
        | Name::None => (Cause::RateLimited, Some(wait.unwrap_or(RATE_WAIT_MIN))),
    };
    (Outcome::Pause { scope: Scope::Provider, after }, cause)
}

/// Resend's rate (`ratelimit-limit`), a number that in the newer form of the header is followed by its
/// policy.
pub(super) fn pace(headers: &HeaderMap) -> Option<Pace> {
    let value = headers.get("ratelimit-limit")?.to_str().ok()?;
    let limit = value.split([',', ';']).next()?.trim().parse().ok()?;
    (limit > 0).then_some(Pace { limit, window: RATE_WINDOW })
}

/// The names of errors that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    InvalidIdempotencyKey,
    /// `missing_`, `invalid_`, `restricted_`, `suspended_api_key`, `invalid_permission`.
    ApiKey,
    InvalidFromAddress,
    ConcurrentRequests,
    ResourceLocked,
    /// The key was used with another body.
    OtherBody,
    DailyQuota,
    MonthlyQuota,
    SecurityError,
    /// Any other, also none in a body that is JSON.
    Unknown,
    /// The body is no JSON object: what answers may not be Resend.
    None,
}

impl Name {
    /// Reads a name in any letter case: one that is missed can cost a mail its true outcome.
    fn parse(name: &str) -> Name {
        match name.trim().to_ascii_lowercase().as_str() {
            "invalid_idempotency_key" => Name::InvalidIdempotencyKey,
            "missing_api_key" | "invalid_api_key" | "restricted_api_key" | "suspended_api_key"
            | "invalid_permission" => Name::ApiKey,
            "invalid_from_address" => Name::InvalidFromAddress,
            "concurrent_idempotent_requests" => Name::ConcurrentRequests,
            "resource_locked" => Name::ResourceLocked,
            "invalid_idempotent_request" => Name::OtherBody,
            "daily_quota_exceeded" => Name::DailyQuota,
            "monthly_quota_exceeded" => Name::MonthlyQuota,
            "security_error" => Name::SecurityError,
            _ => Name::Unknown,
        }
    }
}

/// What an error is about, as far as its message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    ApiKey,
    /// The account or its domain.
    Account,
    /// What the operator set, or this build makes alike for every mail.
    Sender,
    /// A field of this mail.
    Mail,
    Other,
}

/// Fields that are plain English too: without quotes they count only before one of [`NOUNS`].
const ENGLISH: [&str; 3] = ["to", "from", "text"];
/// What makes the word before it the name of a field.
const NOUNS: [&str; 6] = ["field", "fields", "address", "email", "header", "parameter"];

impl About {
    /// Reads the message. Resend puts fields in quotes; the first one quoted is what it complains of,
    /// and later ones are its advice. An address is no word of Resend's: whoever chose it must not be
    /// able to say that the key is wrong.
    fn of(message: &str) -> About {
        let words = message.split_whitespace().filter(|word| !word.contains('@'));
        let message = words.collect::<Vec<_>>().join(" ").to_ascii_lowercase();
        if message.contains("api key") || message.contains("api_key") {
            return About::ApiKey;
        }
        // Between any two quotes: an apostrophe may stand among them.
        let pieces: Vec<_> = message.split(['`', '"', '\'']).collect();
        let quoted = pieces.iter().skip(1).find_map(|piece| About::field(piece));
        if let Some(about) = quoted {
            return about;
        }
        if message.contains("not verified") || message.contains("testing emails") {
            return About::Account;
        }
        let words: Vec<_> = message.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).collect();
        let pairs = words.iter().zip(words.iter().skip(1));
        let named = pairs.filter(|(_, next)| NOUNS.contains(next)).find_map(|(word, _)| About::field(word));
        let telling = || words.iter().filter(|word| !ENGLISH.contains(word)).find_map(|w| About::field(w));
        named.or_else(telling).unwrap_or(About::Other)
    }

    fn field(name: &str) -> Option<About> {
        // A field may be given with its path: `headers.List-Unsubscribe`, `tags[0].value`, `to[0]`.
        match name.split(['.', '[']).next()? {
            "from" | "sender" | "reply_to" | "reply-to" | "replyto" | "header" | "headers" | "tag"
            | "tags" => Some(About::Sender),
            "to" | "recipient" | "subject" | "html" | "text" => Some(About::Mail),
            _ => None,
        }
    }
}

/// An error as Resend words it.
struct Said {
    name: Name,
    about: About,
    /// Its name and message, or the body where there is no message: text from outside.
    text: String,
}

impl Said {
    fn read(body: &[u8]) -> Said {
        let raw = || String::from_utf8_lossy(body).into_owned();
        let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
            return Said { name: Name::None, about: About::Other, text: raw() };
        };
        let field = |name| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, message) = (field("name"), field("message"));
        let text = if message.is_empty() { raw() } else { format!("{name}: {message}") };
        Said { name: Name::parse(name), about: About::of(message), text }
    }

    fn detail(&self, status: StatusCode, cause: Cause, context: &Context<'_>) -> Detail {
        let note = if cause == Cause::AcceptedBefore {
            "accepted before with another body: "
        } else if cause == Cause::OurDefect {
            "a defect of this worker: "
        } else {
            ""
        };
        Detail::scrub(&format!("{note}{} {}", status.as_u16(), self.text), context.private)
    }
}

#[cfg(test)]
pub(in crate::channel) mod table;
#[cfg(test)]
mod tests;
