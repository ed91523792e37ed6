//! What Resend's answers mean, as rows: held against the code by the tests beside this file, and against
//! `docs/outcomes.md` by the channels' tests.

use std::time::Duration;

use super::About;
use crate::outcome::Cause::{self, *};
use crate::outcome::Outcome::{self, Failed};
use crate::outcome::Scope;

pub(super) const UNCLEAR: Outcome = Outcome::Unclear { after: None };
pub(super) const RETRY: Outcome = Outcome::Retry { after: None };
pub(super) const HOLD: Outcome = Outcome::Pause { scope: Scope::Provider, after: None };
pub(super) const WINDOW: Outcome =
    Outcome::Pause { scope: Scope::Provider, after: Some(Duration::from_secs(1)) };
pub(super) const SOON: Outcome = Outcome::Unclear { after: Some(Duration::from_secs(2)) };
pub(super) const V: &str = "validation_error";

/// Status, name, message, and what they mean.
pub(in crate::channel) type Row = (u16, &'static str, &'static str, Outcome, Cause);
/// The provider's table.
pub(in crate::channel) const TABLE: &[Row] = &[
    // About a field of this mail.
    (400, V, "Invalid `to` field. Use `Name <a@example.com>`.", Failed, Refused),
    (400, V, "The `subject` field is missing", Failed, Refused),
    (400, V, "The 'html' field must be a string", Failed, Refused),
    (422, V, "Invalid `to` field. Do not use `example.com`.", Failed, Refused),
    (422, "missing_required_field", "Missing `subject` field.", Failed, Refused),
    // A reader's address may hold any word and quote it.
    (422, V, "api_key@example.test is no valid `to`", Failed, Refused),
    (422, V, "The address x'from'y@example.test is invalid", Failed, Refused),
    (422, V, "Invalid `to` field (not-verified-tags@example.test).", Failed, Refused),
    (422, "invalid_attachment", "Attachment is odd", Failed, Refused),
    (422, V, "Something else entirely", Failed, Refused),
    (451, "security_error", "We may have found a security issue", Failed, Refused),
    // About the sender's settings.
    (422, V, "Invalid `from` field. It is no `to` field.", HOLD, SenderSettings),
    (400, V, "The from address is not valid", HOLD, SenderSettings),
    (422, V, "Invalid `reply_to` field.", HOLD, SenderSettings),
    (400, V, "replyTo is not an address", HOLD, SenderSettings),
    (422, V, "You can't use `headers.List-Unsubscribe`", HOLD, SenderSettings),
    (400, V, "Tags should only contain ASCII letters.", HOLD, SenderSettings),
    (422, V, "The `tags[0].value` is too long", HOLD, SenderSettings),
    (422, "missing_required_field", "Missing `from` field.", HOLD, SenderSettings),
    (400, "invalid_from_address", "x", HOLD, SenderSettings),
    (403, "invalid_from_address", "Invalid `from` field.", HOLD, SenderSettings),
    (422, "invalid_from_address", "x", HOLD, SenderSettings),
    // The key and the account.
    (400, V, "API key is invalid", HOLD, ApiKey),
    (401, V, "API key is invalid", HOLD, ApiKey),
    (401, "missing_api_key", "Missing API key", HOLD, ApiKey),
    (401, "restricted_api_key", "This API key is restricted", HOLD, ApiKey),
    (401, "anything", "x", HOLD, ApiKey),
    (402, "payment_required", "x", HOLD, Account),
    (403, "invalid_api_key", "API key is invalid", HOLD, ApiKey),
    (403, "suspended_api_key", "x", HOLD, ApiKey),
    (403, "invalid_permission", "x", HOLD, ApiKey),
    (403, "anything", "x", HOLD, Account),
    (403, V, "The news.test domain is not verified.", HOLD, Account),
    (403, V, "You can only send testing emails to your own.", HOLD, Account),
    (422, V, "The news.test domain is not verified.", HOLD, Account),
    (404, "not_found", "The requested endpoint does not exist", HOLD, WrongUrl),
    (405, "method_not_allowed", "x", HOLD, WrongUrl),
    (301, "moved", "x", HOLD, WrongUrl),
    (308, "", "", HOLD, WrongUrl),
    // The idempotency key.
    (400, "invalid_idempotency_key", "Not 1-256 chars", Failed, OurDefect),
    (409, "concurrent_idempotent_requests", "x", SOON, ConcurrentRequest),
    (409, "invalid_idempotent_request", "x", Outcome::Delivered { provider_id: None }, AcceptedBefore),
    (409, "resource_locked", "x", RETRY, ResourceLocked),
    (409, "anything", "x", RETRY, UnexpectedAnswer),
    // Rate and quotas.
    (429, "rate_limit_exceeded", "Too many requests", WINDOW, RateLimited),
    (429, "anything", "x", WINDOW, RateLimited),
    (429, "daily_quota_exceeded", "x", HOLD, QuotaDaily),
    (429, "monthly_quota_exceeded", "x", HOLD, QuotaMonthly),
    // Outages.
    (408, "", "", UNCLEAR, Timeout),
    (425, "", "", RETRY, Unavailable),
    (503, "service_unavailable", "x", RETRY, Unavailable),
    (500, "application_error", "An unexpected error occurred", UNCLEAR, ServerError),
    (502, "", "", UNCLEAR, BadGateway),
    (504, "", "", UNCLEAR, GatewayTimeout),
    (520, "", "", UNCLEAR, ServerError),
    // What this build does not know.
    (400, "anything", "x", RETRY, UnexpectedAnswer),
    (400, V, "You have to do it from another place", RETRY, UnexpectedAnswer),
    (418, "anything", "x", RETRY, UnexpectedAnswer),
    (451, "anything", "x", RETRY, UnexpectedAnswer),
];

/// Answers whose body is no JSON, by status.
pub(in crate::channel) const NO_JSON: &[(u16, Outcome, Cause)] = &[
    (400, RETRY, UnexpectedAnswer),
    (401, HOLD, ApiKey),
    (403, HOLD, WrongUrl),
    (404, HOLD, WrongUrl),
    (409, RETRY, UnexpectedAnswer),
    (422, Failed, Refused),
    (429, WINDOW, RateLimited),
    (502, UNCLEAR, BadGateway),
];

/// What a success means by its body, whatever id it gives.
pub(in crate::channel) const SUCCESSES: &[(&[u8], Outcome, Cause)] = &[
    (br#"{"id":"49a3999c-0ce1","object":"email"}"#, Outcome::Delivered { provider_id: None }, Accepted),
    (b"", UNCLEAR, UnreadableAnswer),
    (b"OK", UNCLEAR, UnreadableAnswer),
    (b"{}", UNCLEAR, UnreadableAnswer),
    (br#"{"id":""}"#, UNCLEAR, UnreadableAnswer),
    (br#"{"id":7}"#, UNCLEAR, UnreadableAnswer),
    (br#"{"id":null}"#, UNCLEAR, UnreadableAnswer),
    (b"\xff", UNCLEAR, UnreadableAnswer),
    (b"[]", UNCLEAR, UnreadableAnswer),
];

/// 409 `invalid_idempotent_request` where an earlier attempt of this process was plainly refused.
pub(in crate::channel) const OTHER_BODY_AFTER_REFUSAL: (Outcome, Cause) = (Failed, OurDefect);

/// What a row's message is about, in words, where its meaning depends on that.
pub(in crate::channel) fn about((status, _, message, ..): &Row) -> &'static str {
    match (status, About::of(message)) {
        (400 | 422, About::ApiKey) => " about the key",
        (400 | 422, About::Account) => " about the account",
        (400 | 422, About::Sender) => " about the sender's settings",
        (400 | 422, About::Mail) => " about a field of the mail",
        _ => "",
    }
}
