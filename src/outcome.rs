//! The one vocabulary between channels and engine: what an attempt means, and why.
//!
//! Owns the closed enums [`Outcome`] and [`Cause`] and what the engine's policy needs to know of each
//! cause. It must not know HTTP, a provider, a lease or a clock: channels translate answers into these
//! words, the engine acts on them.

use std::fmt;
use std::time::Duration;

/// What one attempt means for its envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The provider accepted the message. Terminal: acked `delivered`.
    Delivered {
        /// The provider's own id of the message, where it gives one.
        provider_id: Option<String>,
    },
    /// The recipient's address or subscription is dead. Terminal: acked `bounced`, which ends consent.
    Bounced,
    /// The recipient marked the message as spam. Terminal: acked `complaint`, which ends consent.
    Complained,
    /// The provider keeps the recipient on its suppression list. Terminal: acked `suppressed`, which
    /// ends consent.
    Suppressed,
    /// This envelope can never be sent. Terminal: acked `failed`; consent stays as it is.
    Failed,
    /// Not accepted; this envelope is tried again later.
    Retry {
        /// At least this long from now, where the provider asked for a wait.
        after: Option<Duration>,
    },
    /// It may have arrived: tried again later with the same key and the same bytes.
    Unclear {
        /// At least this long from now, where the provider asked for a wait.
        after: Option<Duration>,
    },
    /// The trouble is not this envelope's: it stays pending, and what `scope` names is left in peace.
    Pause {
        /// What is held back.
        scope: Scope,
        /// At least this long from now, where the provider asked for a wait.
        after: Option<Duration>,
    },
}

impl Outcome {
    /// The status that this outcome is acked with; `None` while the envelope stays pending.
    pub fn ack_status(&self) -> Option<AckStatus> {
        match self {
            Outcome::Delivered { .. } => Some(AckStatus::Delivered),
            Outcome::Bounced => Some(AckStatus::Bounced),
            Outcome::Complained => Some(AckStatus::Complaint),
            Outcome::Suppressed => Some(AckStatus::Suppressed),
            Outcome::Failed => Some(AckStatus::Failed),
            Outcome::Retry { .. } | Outcome::Unclear { .. } | Outcome::Pause { .. } => None,
        }
    }

    /// The outcome's name in logs and metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Outcome::Delivered { .. } => "delivered",
            Outcome::Bounced => "bounced",
            Outcome::Complained => "complaint",
            Outcome::Suppressed => "suppressed",
            Outcome::Failed => "failed",
            Outcome::Retry { .. } => "retry",
            Outcome::Unclear { .. } => "unclear",
            Outcome::Pause { .. } => "pause",
        }
    }
}

/// What a [`Outcome::Pause`] holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One address or push endpoint.
    Destination,
    /// Everything behind the gate.
    Provider,
}

/// A terminal status of the seam (`POST …/status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AckStatus {
    /// The provider accepted the message.
    Delivered,
    /// The recipient is dead; ends consent.
    Bounced,
    /// The recipient complained; ends consent.
    Complaint,
    /// The provider suppresses the recipient; ends consent.
    Suppressed,
    /// This envelope can never be sent.
    Failed,
}

impl AckStatus {
    /// Every status, for tables and metrics.
    pub const ALL: [AckStatus; 5] = [
        AckStatus::Delivered,
        AckStatus::Bounced,
        AckStatus::Complaint,
        AckStatus::Suppressed,
        AckStatus::Failed,
    ];

    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            AckStatus::Delivered => "delivered",
            AckStatus::Bounced => "bounced",
            AckStatus::Complaint => "complaint",
            AckStatus::Suppressed => "suppressed",
            AckStatus::Failed => "failed",
        }
    }

    /// Reads the word of the contract; `None` for any other.
    pub fn parse(word: &str) -> Option<AckStatus> {
        AckStatus::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

impl fmt::Display for AckStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an attempt ended as it did. Closed: its label is a metric's label value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The provider said yes.
    Accepted,
    /// The provider holds this key with another body: an earlier process sent it.
    AcceptedBefore,
    /// Push 404 or 410: the subscription is dead.
    SubscriptionGone,
    /// The mail bounced for good.
    MailBounced,
    /// The recipient reported spam.
    SpamComplaint,
    /// The provider suppresses the address.
    SuppressionList,
    /// A field of the envelope is missing or wrong.
    Malformed,
    /// The envelope's channel is not one of this build.
    UnknownChannel,
    /// No template of that name serves this channel.
    NoTemplate,
    /// The payload does not fit the template's schema, or holds a link that is not allowed.
    PayloadInvalid,
    /// The template could not be rendered.
    RenderFailed,
    /// The address, subscription or its keys cannot be used.
    RecipientInvalid,
    /// The push endpoint points where the worker must not connect.
    EndpointForbidden,
    /// The rendered message is larger than the provider takes.
    TooLarge,
    /// Past `expires_at` when its turn came.
    Expired,
    /// The provider refuses this message for what it holds.
    Refused,
    /// The provider refuses a request that this worker should not have made: a defect of ours.
    OurDefect,
    /// Unclear for so long that the idempotency key no longer protects.
    OutcomeUnknown,
    /// The connection was refused or unreachable.
    Connect,
    /// The name did not resolve.
    Dns,
    /// The TLS handshake failed.
    Tls,
    /// No answer within the deadline (also 408).
    Timeout,
    /// The connection was cut after the request was written.
    Reset,
    /// 500, or an unlisted 5xx.
    ServerError,
    /// 502.
    BadGateway,
    /// 503 (also 425).
    Unavailable,
    /// 504.
    GatewayTimeout,
    /// A success that cannot be read: no id, not JSON.
    UnreadableAnswer,
    /// The provider is busy with another request of the same key.
    ConcurrentRequest,
    /// 409 `resource_locked`.
    ResourceLocked,
    /// The push service took the message and dropped it.
    Dropped,
    /// A status that the provider's documentation does not know.
    UnexpectedAnswer,
    /// Too many requests in a short time.
    RateLimited,
    /// The day's quota is used up.
    QuotaDaily,
    /// The month's quota is used up.
    QuotaMonthly,
    /// The provider does not take our key.
    ApiKey,
    /// The account, its plan or its sending domain keeps the provider from sending.
    Account,
    /// The provider refuses what the operator set: from, reply_to, headers, tags.
    SenderSettings,
    /// What answers is not the provider's API: a wrong URL, a proxy, an edge.
    WrongUrl,
    /// The push service does not take our VAPID token for this subscription.
    PushCredential,
    /// The endpoint takes no POST (405) or blocks the domain.
    EndpointBlocked,
    /// A known provider resolves to a private address: the resolver's fault.
    ResolverFault,
    /// The delivery panicked: a defect of ours.
    Panic,
}

/// When a non-terminal outcome uses up one of the envelope's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Each time.
    Always,
    /// Only if something else has passed the gate since this envelope's first failure.
    IfOthersPass,
    /// Only once the gate has let something through since the start.
    OnceAccepted,
    /// Never.
    Never,
}

/// Which run of like troubles, unbroken by a success, a cause belongs to at its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Streak {
    /// "Provider down": closes the gate as an outage.
    Outage,
    /// The push service refuses our credential: closes the origin.
    Credential,
    /// Trouble that one endpoint alone could fake: closes the origin.
    Blocked,
    /// Rate limits on single destinations: hold the origin for the wait that was asked for.
    Throttled,
    /// Messages refused alike: more likely our settings than each message's fault.
    Refusal,
}

impl Cause {
    /// Every cause, for tables and metrics.
    pub const ALL: [Cause; 43] = [
        Cause::Accepted,
        Cause::AcceptedBefore,
        Cause::SubscriptionGone,
        Cause::MailBounced,
        Cause::SpamComplaint,
        Cause::SuppressionList,
        Cause::Malformed,
        Cause::UnknownChannel,
        Cause::NoTemplate,
        Cause::PayloadInvalid,
        Cause::RenderFailed,
        Cause::RecipientInvalid,
        Cause::EndpointForbidden,
        Cause::TooLarge,
        Cause::Expired,
        Cause::Refused,
        Cause::OurDefect,
        Cause::OutcomeUnknown,
        Cause::Connect,
        Cause::Dns,
        Cause::Tls,
        Cause::Timeout,
        Cause::Reset,
        Cause::ServerError,
        Cause::BadGateway,
        Cause::Unavailable,
        Cause::GatewayTimeout,
        Cause::UnreadableAnswer,
        Cause::ConcurrentRequest,
        Cause::ResourceLocked,
        Cause::Dropped,
        Cause::UnexpectedAnswer,
        Cause::RateLimited,
        Cause::QuotaDaily,
        Cause::QuotaMonthly,
        Cause::ApiKey,
        Cause::Account,
        Cause::SenderSettings,
        Cause::WrongUrl,
        Cause::PushCredential,
        Cause::EndpointBlocked,
        Cause::ResolverFault,
        Cause::Panic,
    ];

    /// The cause's name in logs, acks and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Cause::Accepted => "accepted",
            Cause::AcceptedBefore => "accepted_before",
            Cause::SubscriptionGone => "subscription_gone",
            Cause::MailBounced => "mail_bounced",
            Cause::SpamComplaint => "spam_complaint",
            Cause::SuppressionList => "suppression_list",
            Cause::Malformed => "malformed",
            Cause::UnknownChannel => "unknown_channel",
            Cause::NoTemplate => "no_template",
            Cause::PayloadInvalid => "payload_invalid",
            Cause::RenderFailed => "render_failed",
            Cause::RecipientInvalid => "recipient_invalid",
            Cause::EndpointForbidden => "endpoint_forbidden",
            Cause::TooLarge => "too_large",
            Cause::Expired => "expired",
            Cause::Refused => "refused",
            Cause::OurDefect => "our_defect",
            Cause::OutcomeUnknown => "outcome_unknown",
            Cause::Connect => "connect",
            Cause::Dns => "dns",
            Cause::Tls => "tls",
            Cause::Timeout => "timeout",
            Cause::Reset => "reset",
            Cause::ServerError => "server_error",
            Cause::BadGateway => "bad_gateway",
            Cause::Unavailable => "unavailable",
            Cause::GatewayTimeout => "gateway_timeout",
            Cause::UnreadableAnswer => "unreadable_answer",
            Cause::ConcurrentRequest => "concurrent_request",
            Cause::ResourceLocked => "resource_locked",
            Cause::Dropped => "dropped",
            Cause::UnexpectedAnswer => "unexpected_answer",
            Cause::RateLimited => "rate_limited",
            Cause::QuotaDaily => "quota_daily",
            Cause::QuotaMonthly => "quota_monthly",
            Cause::ApiKey => "api_key",
            Cause::Account => "account",
            Cause::SenderSettings => "sender_settings",
            Cause::WrongUrl => "wrong_url",
            Cause::PushCredential => "push_credential",
            Cause::EndpointBlocked => "endpoint_blocked",
            Cause::ResolverFault => "resolver_fault",
            Cause::Panic => "panic",
        }
    }

    /// What a non-terminal outcome with this cause costs its envelope.
    ///
    /// Trouble that may be the provider's is free until something else gets through, so that an outage
    /// costs time and never mail; terminal causes never ask.
    pub fn cost(self) -> Cost {
        match self {
            Cause::Connect
            | Cause::Dns
            | Cause::Tls
            | Cause::Timeout
            | Cause::BadGateway
            | Cause::Unavailable
            | Cause::GatewayTimeout
            | Cause::UnreadableAnswer => Cost::IfOthersPass,
            Cause::ServerError
            | Cause::Reset
            | Cause::ResourceLocked
            | Cause::Dropped
            | Cause::UnexpectedAnswer
            | Cause::Panic => Cost::Always,
            Cause::PushCredential => Cost::OnceAccepted,
            Cause::ConcurrentRequest
            | Cause::RateLimited
            | Cause::QuotaDaily
            | Cause::QuotaMonthly
            | Cause::ApiKey
            | Cause::Account
            | Cause::SenderSettings
            | Cause::WrongUrl
            | Cause::EndpointBlocked
            | Cause::ResolverFault => Cost::Never,
            Cause::Accepted
            | Cause::AcceptedBefore
            | Cause::SubscriptionGone
            | Cause::MailBounced
            | Cause::SpamComplaint
            | Cause::SuppressionList
            | Cause::Malformed
            | Cause::UnknownChannel
            | Cause::NoTemplate
            | Cause::PayloadInvalid
            | Cause::RenderFailed
            | Cause::RecipientInvalid
            | Cause::EndpointForbidden
            | Cause::TooLarge
            | Cause::Expired
            | Cause::Refused
            | Cause::OurDefect
            | Cause::OutcomeUnknown => Cost::Always,
        }
    }

    /// The run of like troubles that this cause adds to, if any.
    pub fn streak(self) -> Option<Streak> {
        match self {
            Cause::Connect
            | Cause::Dns
            | Cause::Tls
            | Cause::Timeout
            | Cause::Reset
            | Cause::ServerError
            | Cause::BadGateway
            | Cause::Unavailable
            | Cause::GatewayTimeout
            | Cause::UnreadableAnswer => Some(Streak::Outage),
            Cause::PushCredential => Some(Streak::Credential),
            Cause::EndpointBlocked => Some(Streak::Blocked),
            Cause::RateLimited => Some(Streak::Throttled),
            Cause::Refused | Cause::UnexpectedAnswer => Some(Streak::Refusal),
            Cause::Accepted
            | Cause::AcceptedBefore
            | Cause::SubscriptionGone
            | Cause::MailBounced
            | Cause::SpamComplaint
            | Cause::SuppressionList
            | Cause::Malformed
            | Cause::UnknownChannel
            | Cause::NoTemplate
            | Cause::PayloadInvalid
            | Cause::RenderFailed
            | Cause::RecipientInvalid
            | Cause::EndpointForbidden
            | Cause::TooLarge
            | Cause::Expired
            | Cause::OurDefect
            | Cause::OutcomeUnknown
            | Cause::ConcurrentRequest
            | Cause::ResourceLocked
            | Cause::Dropped
            | Cause::QuotaDaily
            | Cause::QuotaMonthly
            | Cause::ApiKey
            | Cause::Account
            | Cause::SenderSettings
            | Cause::WrongUrl
            | Cause::ResolverFault
            | Cause::Panic => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Text that may stand in a log line or an ack: at most [`Detail::MAX_CHARS`] characters, one line,
/// without recipient, endpoint, secret or anything like an address.
///
/// There is no way to make one from outside text but [`Detail::scrub`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detail(String);

impl Detail {
    /// The most characters a detail holds.
    pub const MAX_CHARS: usize = 200;

    /// A sentence of our own that holds nothing from outside.
    pub fn fixed(text: &'static str) -> Detail {
        Detail(text.to_owned())
    }

    /// Cleans text from outside. Each of `private` (recipient, endpoint, keys …) is replaced wherever it
    /// stands, in any letter case; so is every word that looks like an address, a URL or a long token.
    pub fn scrub(text: &str, private: &[&str]) -> Detail {
        let mut text = text.to_owned();
        for secret in private.iter().filter(|s| !s.trim().is_empty()) {
            text = replace_ignoring_case(&text, secret, "[private]");
        }
        let words = text
            .split(|c: char| c.is_whitespace() || is_invisible(c))
            .filter(|word| !word.is_empty())
            .map(|word| if looks_private(word) { "[private]" } else { word });
        let line = words.collect::<Vec<_>>().join(" ");
        Detail(line.chars().take(Detail::MAX_CHARS).collect())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why an envelope can never be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The class.
    pub cause: Cause,
    /// The sentence for log and ack.
    pub detail: Detail,
}

impl Refusal {
    /// A refusal with its sentence.
    pub fn new(cause: Cause, detail: Detail) -> Refusal {
        Refusal { cause, detail }
    }

    /// The sentence for the ack: the cause in words, then the detail.
    pub fn ack_detail(&self) -> Detail {
        let cause = self.cause.label().replace('_', " ");
        match (self.cause, self.detail.is_empty()) {
            (Cause::Accepted, _) => self.detail.clone(),
            (_, true) => Detail(cause),
            (_, false) => {
                Detail(format!("{cause}: {}", self.detail).chars().take(Detail::MAX_CHARS).collect())
            }
        }
    }
}

/// Longer runs of token characters than this are keys or capabilities, not words.
const LONGEST_PLAIN_WORD: usize = 40;

fn looks_private(word: &str) -> bool {
    word.contains('@')
        || word.contains("%40")
        || word.contains("://")
        || word.chars().count() > LONGEST_PLAIN_WORD
}

/// Control characters, and the marks that reorder or break a line without being white space.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

fn replace_ignoring_case(text: &str, needle: &str, with: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..needle.len()) {
            Some(head) if head.eq_ignore_ascii_case(needle) => {
                out.push_str(with);
                rest = rest.get(needle.len()..).unwrap_or_default();
            }
            _ => {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_cause_has_its_own_label() {
        let labels: std::collections::HashSet<_> = Cause::ALL.iter().map(|c| c.label()).collect();
        assert_eq!(labels.len(), Cause::ALL.len());
    }

    #[test]
    fn a_scrubbed_detail_keeps_the_sentence_and_loses_the_private_parts() {
        let detail = Detail::scrub(
            "Invalid `to`: Ann@Example.test (https://push.test/abc)\r\nBcc: x@y.test\u{2028}see key-1",
            &["ann@example.test", "key-1"],
        );
        assert_eq!(detail.as_str(), "Invalid `to`: [private] [private] Bcc: [private] see [private]");
    }

    proptest! {
        #[test]
        fn a_detail_is_always_one_short_line_without_an_address(text in "\\PC{0,300}[\\s\\S]{0,100}") {
            let detail = Detail::scrub(&text, &["needle"]);
            prop_assert!(detail.as_str().chars().count() <= Detail::MAX_CHARS);
            prop_assert!(!detail.as_str().chars().any(char::is_control));
            prop_assert!(!detail.as_str().contains('@'));
        }

        #[test]
        fn what_is_named_private_never_stays(before in "[ a-z]{0,20}", after in "[ a-z]{0,20}") {
            let detail = Detail::scrub(&format!("{before}S3cret{after}"), &["s3CRET"]);
            prop_assert!(!detail.as_str().to_lowercase().contains("s3cret"));
        }
    }
}
