//! Push through Web Push (RFC 8030) with VAPID.
//!
//! Owns [`PushChannel`]: it reads the subscription, encrypts and signs the notification, posts it once
//! and says what the answer means. It must not know leases, retries or other envelopes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tracing::Instrument;

use super::{Attempt, Channel, Delivery, Gating, Route};
use crate::envelope::{ChannelName, Envelope};
use crate::http;
use crate::outcome::{Cause, Detail, Outcome, Refusal};
use crate::render::Notification;
use crate::trace;

mod address;
mod classify;
mod client;
mod endpoint;
pub mod message;
mod resolver;
mod subject;
mod subscription;
mod token;
mod vapid;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use subject::{VapidSubject, VapidSubjectError};
pub use vapid::{VapidKey, VapidKeyError};

use client::{Client, Request};
use resolver::{Lookup, SystemLookup};
use subscription::Subscription;
use token::Tokens;

#[cfg(test)]
pub(in crate::channel) use classify::table;
#[cfg(test)]
pub(in crate::channel) use testing::without_answer;

/// The word of the contract.
pub(super) const NAME: &str = "push";
/// The longest that every service keeps a message: FCM's limit, in seconds (28 days).
const TTL_CAP: u32 = 2_419_200;
/// An envelope without `expires_at` is worth showing for a week after it was made.
const DEFAULT_LIFE: TimeDelta = TimeDelta::days(7);

/// What the operator sets for this channel.
#[derive(Debug, Clone)]
pub struct Settings {
    /// VAPID_PRIVATE_KEY.
    pub key: VapidKey,
    /// VAPID_SUBJECT.
    pub subject: VapidSubject,
    /// PUSH_ALLOW_PRIVATE_ENDPOINTS: endpoints may be plain http and on private addresses, for
    /// development alone.
    pub allow_private_endpoints: bool,
}

/// The push channel.
pub struct PushChannel {
    client: Client,
    tokens: Tokens,
    allow_private: bool,
}

impl PushChannel {
    /// The channel as the operator set it, on the machine's own resolver.
    ///
    /// # Errors
    /// The TLS library cannot be set up.
    pub fn new(settings: Settings) -> Result<PushChannel, reqwest::Error> {
        PushChannel::over(http::client_builder(), settings, Arc::new(SystemLookup))
    }

    /// The same over another HTTP client and resolver, so that a test need not wait for the real deadlines.
    ///
    /// # Errors
    /// As [`PushChannel::new`].
    fn over(
        builder: reqwest::ClientBuilder,
        settings: Settings,
        lookup: Arc<dyn Lookup>,
    ) -> Result<PushChannel, reqwest::Error> {
        let Settings { key, subject, allow_private_endpoints: allow_private } = settings;
        let client = Client::over(builder, lookup, allow_private)?;
        Ok(PushChannel { client, tokens: Tokens::new(key, subject), allow_private })
    }

    /// Makes one attempt to show `notification` to the recipient of `envelope`.
    async fn send(&self, envelope: &Envelope, notification: &Notification, now: DateTime<Utc>) -> Attempt {
        let subscription = match Subscription::of(envelope, self.allow_private) {
            Ok(subscription) => subscription,
            Err(refusal) => return Attempt::refusal(refusal),
        };
        let request = match self.request(envelope, &subscription, notification, now) {
            Ok(request) => request,
            Err(attempt) => return attempt,
        };
        let service = subscription.endpoint.service().label();
        match self.client.post(&subscription.endpoint, request).instrument(trace::send(service)).await {
            Ok(answer) => classify::classify(&answer, &subscription, now),
            Err(attempt) => attempt,
        }
    }

    fn request(
        &self,
        envelope: &Envelope,
        subscription: &Subscription,
        notification: &Notification,
        now: DateTime<Utc>,
    ) -> Result<Request, Attempt> {
        let ttl = ttl(envelope, now).map_err(Attempt::refusal)?;
        let topic = message::topic(&envelope.id);
        let plaintext = message::plaintext(notification, &topic).map_err(Attempt::refusal)?;
        let body = message::encrypt(subscription, &plaintext).map_err(|_| crypto_failed())?;
        let audience = subscription.endpoint.origin();
        let authorization = self.tokens.authorization(audience, now).map_err(|_| crypto_failed())?;
        Ok(Request { authorization, ttl, topic, body })
    }
}

/// Keys and claims have been checked: what is left is the library, on which the envelope has no bearing.
fn crypto_failed() -> Attempt {
    let detail = Detail::fixed("the message could not be encrypted or signed");
    Attempt::unanswered(Outcome::Retry { after: None }, Cause::OurDefect, detail)
}

/// The seconds for which the service may keep the message: to `expires_at`, or, without one, to a week
/// after `created_at`. Windows refuses 0, and no message is worth less than a second.
fn ttl(envelope: &Envelope, now: DateTime<Utc>) -> Result<u32, Refusal> {
    let (end, said) = match envelope.expires_at {
        Some(end) => (end, "expired before it could be sent"),
        None => {
            let end = envelope.created_at.checked_add_signed(DEFAULT_LIFE);
            (end.unwrap_or(DateTime::<Utc>::MAX_UTC), "expired: a week old, and without expires_at")
        }
    };
    match (end - now).num_seconds() {
        ..1 => Err(Refusal::new(Cause::Expired, Detail::fixed(said))),
        seconds => Ok(u32::try_from(seconds).map_or(TTL_CAP, |seconds| seconds.min(TTL_CAP))),
    }
}

#[async_trait]
impl Channel for PushChannel {
    fn name(&self) -> ChannelName {
        ChannelName::new(NAME)
    }

    fn gating(&self) -> Gating {
        Gating::ManyProviders
    }

    /// The Topic lets a second copy replace the first at the service, the tag in the browser: for ever.
    fn redelivery_window(&self) -> Option<Duration> {
        None
    }

    fn route(&self, envelope: &Envelope) -> Result<Route, Refusal> {
        let Subscription { endpoint, .. } = Subscription::of(envelope, self.allow_private)?;
        Ok(Route { gate: endpoint.gate(), destination: endpoint.destination() })
    }

    async fn deliver(&self, delivery: &Delivery) -> Attempt {
        match delivery.templates.notification(&delivery.envelope) {
            Ok(notification) => self.send(&delivery.envelope, &notification, delivery.now).await,
            Err(refusal) => Attempt::refusal(refusal),
        }
    }
}
