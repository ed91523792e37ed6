//! Email through the Resend API.
//!
//! Owns the channel: whom an envelope's mail goes to, and one attempt from rendering to outcome. How a
//! mail is put to Resend is `client`'s, what its answers mean `classify`'s. It must not know leases,
//! retries or the seam.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

use super::{Attempt, Channel, Delivery, Destination, GateId, Gating, Rate, Route};
use crate::envelope::{ChannelName, Envelope, FieldError};
use crate::http::SetupError;
use crate::outcome::{Cause, Refusal};

mod address;
mod classify;
mod client;

use address::Address;
use client::{Client, Letter};

#[cfg(test)]
pub(in crate::channel) use classify::table;
#[cfg(test)]
pub(in crate::channel) use client::no_answer;

/// The word of the contract.
pub(super) const NAME: &str = "email";
/// Resend remembers an Idempotency-Key for 24 hours; the last is left for clocks and queues in between.
const KEY_PROTECTS: Duration = Duration::from_secs(23 * 3600);

/// What the operator sets for email. `Debug` shows no address.
pub struct Settings {
    /// RESEND_API_KEY.
    pub api_key: SecretString,
    /// MAIL_FROM, sent verbatim.
    pub from: String,
    /// MAIL_REPLY_TO.
    pub reply_to: Option<String>,
    /// RESEND_BASE_URL; a path prefix is kept.
    pub base_url: Url,
    /// RESEND_MAX_RPS as the gate understands it.
    pub rate: Rate,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { base_url, rate, .. } = self;
        write!(f, "Settings({base_url}, {rate:?}, …)")
    }
}

/// The email channel.
pub struct EmailChannel {
    client: Client,
    rate: Rate,
}

impl EmailChannel {
    /// Builds the channel; nothing is sent yet.
    ///
    /// # Errors
    /// The base URL is none, or the key cannot stand in a header.
    pub fn new(settings: Settings) -> Result<EmailChannel, SetupError> {
        let rate = settings.rate;
        Ok(EmailChannel { client: Client::new(settings)?, rate })
    }
}

#[async_trait]
impl Channel for EmailChannel {
    fn name(&self) -> ChannelName {
        ChannelName::new(NAME)
    }

    fn gating(&self) -> Gating {
        Gating::OneProvider(self.rate)
    }

    fn redelivery_window(&self) -> Option<Duration> {
        Some(KEY_PROTECTS)
    }

    fn route(&self, envelope: &Envelope) -> Result<Route, Refusal> {
        let to = addressee(envelope)?;
        Ok(Route { gate: GateId::new("resend", "resend"), destination: Destination::new(to.expose()) })
    }

    async fn deliver(&self, delivery: &Delivery) -> Attempt {
        let rendered = addressee(&delivery.envelope)
            .and_then(|to| delivery.templates.mail(&delivery.envelope).map(|mail| (to, mail)));
        match rendered {
            Ok((to, mail)) => {
                let attempt = self.client.send(&Letter { delivery, to: &to, mail: &mail }).await;
                Attempt { nearly_too_large: mail.nearly_too_large(), ..attempt }
            }
            Err(refusal) => Attempt::refusal(refusal),
        }
    }
}

/// Whom the envelope's mail goes to.
fn addressee(envelope: &Envelope) -> Result<Address, Refusal> {
    #[derive(Deserialize)]
    struct Wire {
        email: String,
        email_verified: Option<bool>,
    }
    let read = || {
        let recipient: Wire = envelope.recipient.decode()?;
        if recipient.email_verified == Some(false) {
            return Err(FieldError::new(
                "recipient.email_verified",
                "is false: only verified addresses get mail",
            ));
        }
        Address::parse(&recipient.email).map_err(|problem| FieldError::new("recipient.email", problem))
    };
    read().map_err(|error| error.refusal(Cause::RecipientInvalid))
}

#[cfg(test)]
mod tests;
