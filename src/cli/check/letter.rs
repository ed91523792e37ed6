//! The one test mail of `--send-to`: the only thing that the preflight ever sends.
//!
//! It is the first template's example, rendered and sent as the worker would, under an id of its own each time, so
//! that Resend takes no earlier one for it. Nothing of it is in the app's outbox, and nothing is acked.

use std::sync::Arc;

use chrono::Utc;

use super::report::Line;
use crate::channel::{Channel, Delivery, email};
use crate::envelope::{Envelope, EnvelopeId, Recipient};
use crate::outcome::Outcome;
use crate::render::Templates;

const TOPIC: &str = "test mail";

/// Sends it to `address`.
pub(super) async fn send(settings: email::Settings, templates: Arc<Templates>, address: &str) -> Line {
    let Some(envelope) = templates.mail_examples().next().and_then(|example| addressed(example, address))
    else {
        return Line::fail(TOPIC, "no template makes a mail", "see DELIVERY_TEMPLATES_DIR");
    };
    let channel = match email::EmailChannel::new(settings) {
        Ok(channel) => channel,
        Err(error) => return Line::fail(TOPIC, error.to_string(), "see the lines above"),
    };
    let delivery =
        Delivery { envelope: Arc::new(envelope), templates, now: Utc::now(), refused_before: false };
    let attempt = channel.deliver(&delivery).await;
    match &attempt.outcome {
        accepted if accepted.is_acceptance() => Line::ok(
            TOPIC,
            format!(
                "Resend took it{}: look into that inbox, and its spam folder",
                named(accepted.provider_id())
            ),
        ),
        Outcome::Unclear { .. } => Line::warn(
            TOPIC,
            format!(
                "nobody knows whether Resend took it ({}{})",
                attempt.cause.label(),
                said(attempt.detail.as_str())
            ),
            "look into that inbox, and at Resend's own list",
        ),
        _ => Line::fail(
            TOPIC,
            format!("it was not taken ({}{})", attempt.cause.label(), said(attempt.detail.as_str())),
            "docs/outcomes.md says what that means",
        ),
    }
}

/// Under no older id: Resend would answer for the mail of then.
fn addressed(example: &Envelope, address: &str) -> Option<Envelope> {
    let id = format!("check-{}-{:08x}", Utc::now().timestamp(), fastrand::u32(..));
    let recipient = Recipient::of_mail(address);
    Some(Envelope { id: EnvelopeId::new(id).ok()?, recipient, ..example.clone() })
}

fn named(provider_id: Option<&str>) -> String {
    provider_id.map(|id| format!(" as {id}")).unwrap_or_default()
}

fn said(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}
