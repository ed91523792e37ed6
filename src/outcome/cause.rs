//! Why an attempt ended as it did, and what the engine's policy needs to know of each cause.
//!
//! Owns the closed enum [`Cause`] and its one table. It must not know what anyone does about a cause.

use std::fmt;

/// Why an attempt ended as it did. Closed: its label is a metric's label value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The provider said yes.
    Accepted,
    /// The provider says that the accepted message arrived.
    Confirmed,
    /// The provider accepted the message, and its final word did not come in time.
    Unconfirmed,
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
    /// The provider gave an accepted message up.
    MailFailed,
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
    /// The provider refuses what the operator set (from, reply_to, headers, tags), or message after message
    /// alike.
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

/// When a non-terminal outcome uses up one of the envelope's attempts. A probe that meets again what its gate
/// is closed for never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Each time.
    Always,
    /// Only if something else has passed the gate since this envelope's last failure.
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
    /// Answers that nobody documents, whatever their words: more likely a change at the provider.
    Unexpected,
}

impl Cause {
    /// Every cause, for tables and metrics.
    pub const ALL: [Cause; 46] = [
        Cause::Accepted,
        Cause::Confirmed,
        Cause::Unconfirmed,
        Cause::AcceptedBefore,
        Cause::SubscriptionGone,
        Cause::MailBounced,
        Cause::SpamComplaint,
        Cause::SuppressionList,
        Cause::MailFailed,
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
        self.row().0
    }

    /// What a non-terminal outcome with this cause costs its envelope.
    pub fn cost(self) -> Cost {
        self.row().1
    }

    /// The run of like troubles that this cause adds to, if any.
    pub fn streak(self) -> Option<Streak> {
        self.row().2
    }

    /// Label, cost and streak. Trouble that may be the provider's is free until something else gets
    /// through, so that an outage costs time and never mail. What ends an envelope has no say in cost.
    fn row(self) -> (&'static str, Cost, Option<Streak>) {
        match self {
            Cause::Accepted => ("accepted", Cost::Always, None),
            Cause::Confirmed => ("confirmed", Cost::Always, None),
            Cause::Unconfirmed => ("unconfirmed", Cost::Always, None),
            Cause::AcceptedBefore => ("accepted_before", Cost::Always, None),
            Cause::SubscriptionGone => ("subscription_gone", Cost::Always, None),
            Cause::MailBounced => ("mail_bounced", Cost::Always, None),
            Cause::SpamComplaint => ("spam_complaint", Cost::Always, None),
            Cause::SuppressionList => ("suppression_list", Cost::Always, None),
            Cause::MailFailed => ("mail_failed", Cost::Always, None),
            Cause::Malformed => ("malformed", Cost::Always, None),
            Cause::UnknownChannel => ("unknown_channel", Cost::Always, None),
            Cause::NoTemplate => ("no_template", Cost::Always, None),
            Cause::PayloadInvalid => ("payload_invalid", Cost::Always, None),
            Cause::RenderFailed => ("render_failed", Cost::Always, None),
            Cause::RecipientInvalid => ("recipient_invalid", Cost::Always, None),
            Cause::EndpointForbidden => ("endpoint_forbidden", Cost::Always, None),
            Cause::TooLarge => ("too_large", Cost::Always, None),
            Cause::Expired => ("expired", Cost::Always, None),
            Cause::Refused => ("refused", Cost::Always, Some(Streak::Refusal)),
            Cause::OurDefect => ("our_defect", Cost::Always, Some(Streak::Refusal)),
            Cause::OutcomeUnknown => ("outcome_unknown", Cost::Always, None),
            Cause::Connect => ("connect", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::Dns => ("dns", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::Tls => ("tls", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::Timeout => ("timeout", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::Reset => ("reset", Cost::Always, Some(Streak::Outage)),
            Cause::ServerError => ("server_error", Cost::Always, Some(Streak::Outage)),
            Cause::BadGateway => ("bad_gateway", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::Unavailable => ("unavailable", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::GatewayTimeout => ("gateway_timeout", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::UnreadableAnswer => ("unreadable_answer", Cost::IfOthersPass, Some(Streak::Outage)),
            Cause::ConcurrentRequest => ("concurrent_request", Cost::Never, None),
            Cause::ResourceLocked => ("resource_locked", Cost::Always, None),
            Cause::Dropped => ("dropped", Cost::Always, None),
            Cause::UnexpectedAnswer => ("unexpected_answer", Cost::Always, Some(Streak::Unexpected)),
            Cause::RateLimited => ("rate_limited", Cost::Never, Some(Streak::Throttled)),
            Cause::QuotaDaily => ("quota_daily", Cost::Never, None),
            Cause::QuotaMonthly => ("quota_monthly", Cost::Never, None),
            Cause::ApiKey => ("api_key", Cost::Never, None),
            Cause::Account => ("account", Cost::Never, None),
            Cause::SenderSettings => ("sender_settings", Cost::Never, None),
            Cause::WrongUrl => ("wrong_url", Cost::Never, None),
            Cause::PushCredential => ("push_credential", Cost::OnceAccepted, Some(Streak::Credential)),
            Cause::EndpointBlocked => ("endpoint_blocked", Cost::Never, Some(Streak::Blocked)),
            Cause::ResolverFault => ("resolver_fault", Cost::Never, None),
            Cause::Panic => ("panic", Cost::Always, None),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_label() {
        let labels: std::collections::HashSet<_> = Cause::ALL.iter().map(|c| c.label()).collect();
        assert_eq!(labels.len(), Cause::ALL.len());
    }
}
