//! Email through the Resend API.
//!
//! Owns the channel: whom an envelope's mail goes to, and one attempt from rendering to outcome. How a
//! mail is put to Resend is `client`'s, what its answers mean `classify`'s, what became of it later `confirm`'s. It must not know leases,
//! retries or the seam.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde::Deserialize;
use tracing::Instrument;
use url::Url;

use super::confirm::{Confirmer, Confirming};
use super::{Attempt, Channel, Delivery, Destination, GateId, Gating, Rate, Route};
use crate::envelope::{ChannelName, Envelope, FieldError};
use crate::http::SetupError;
use crate::outcome::{Cause, MessageId, Outcome, Refusal};
use crate::trace;

mod address;
mod classify;
mod client;
mod confirm;

use address::Address;
pub use client::envelope_of_tag;
use client::{Client, Letter};
use confirm::Reader;

#[cfg(test)]
pub(in crate::channel) use classify::table;
#[cfg(test)]
pub(in crate::channel) use client::no_answer;
#[cfg(test)]
pub(in crate::channel) use confirm::EVENTS;

/// The word of the contract.
pub const NAME: &str = "email";
/// The one gate of the channel.
const GATE: &str = "resend";
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
    /// DELIVERY_EMAIL_ACK.
    pub ack: AckAt,
}

/// When a mail is acked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckAt {
    /// As soon as Resend has accepted it.
    Acceptance,
    /// When Resend knows what became of it, or this long (DELIVERY_CONFIRM_WINDOW) after it was accepted.
    FinalWord(Duration),
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
    reader: Option<Arc<Reader>>,
}

impl EmailChannel {
    /// Builds the channel; nothing is sent yet.
    ///
    /// # Errors
    /// The base URL is none, or the key cannot stand in a header.
    pub fn new(settings: Settings) -> Result<EmailChannel, SetupError> {
        let (rate, ack) = (settings.rate, settings.ack);
        let client = Client::new(settings)?;
        let reader = match ack {
            AckAt::Acceptance => None,
            AckAt::FinalWord(window) => Some(Arc::new(client.reader(window))),
        };
        Ok(EmailChannel { client, rate, reader })
    }

    /// What Resend accepts is not the end of it where somebody can ask how it went on.
    fn as_accepted(&self, attempt: Attempt) -> Attempt {
        match &attempt.outcome {
            Outcome::Delivered { provider_id: Some(id) }
                if self.reader.as_ref().is_some_and(|reader| reader.may_read()) =>
            {
                let outcome = Outcome::Accepted { message: MessageId::new(id) };
                Attempt { outcome, ..attempt }
            }
            _ => attempt,
        }
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

    fn confirming(&self) -> Confirming {
        self.reader.clone().map(|reader| reader as Arc<dyn Confirmer>)
    }

    fn route(&self, envelope: &Envelope) -> Result<Route, Refusal> {
        let to = addressee(envelope)?;
        Ok(Route { gate: GateId::new(GATE, GATE), destination: Destination::new(to.expose()) })
    }

    async fn deliver(&self, delivery: &Delivery) -> Attempt {
        let rendered = addressee(&delivery.envelope)
            .and_then(|to| delivery.templates.mail(&delivery.envelope).map(|mail| (to, mail)));
        match rendered {
            Ok((to, mail)) => {
                let letter = Letter { delivery, to: &to, mail: &mail };
                let attempt = self.client.send(&letter).instrument(trace::send(GATE)).await;
                Attempt { nearly_too_large: mail.nearly_too_large(), ..self.as_accepted(attempt) }
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
