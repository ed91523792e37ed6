//! From envelope to message: template sets and what they make.
//!
//! Owns [`Templates`], one compiled and checked set, and [`Library`], which holds the current one. A
//! rendering is a pure function of envelope and set: no clock, no network, no locale. It must not know
//! a provider, a channel's wire format or a lease.

use std::sync::{Arc, PoisonError, RwLock};

use url::Url;

use crate::envelope::Envelope;
use crate::outcome::{Cause, Detail, Refusal};

/// A mail as its reader gets it.
#[derive(Clone, PartialEq, Eq)]
pub struct Mail {
    /// One line of plain text.
    pub subject: String,
    /// The HTML part.
    pub html: String,
    /// The plain-text part.
    pub text: String,
    /// The one-click unsubscribe link (RFC 8058).
    pub unsubscribe: Url,
}

/// A push notification as the app's service worker gets it, but for its tag.
#[derive(Clone, PartialEq, Eq)]
pub struct Notification {
    /// One line of plain text.
    pub title: String,
    /// One line of plain text.
    pub body: String,
    /// Where a click goes.
    pub url: Url,
}

/// One compiled set of templates: every one of it is whole and has rendered its own example. The
/// default is the empty set, which serves nothing.
#[derive(Debug, Default)]
pub struct Templates {}

impl Templates {
    /// Renders the mail of `envelope`.
    ///
    /// # Errors
    /// No such template, a payload that does not fit it, or a link that is not allowed: the envelope
    /// can never be sent.
    pub fn mail(&self, _envelope: &Envelope) -> Result<Mail, Refusal> {
        Err(Refusal::new(Cause::NoTemplate, Detail::fixed("no template of that name")))
    }

    /// Renders the notification of `envelope`.
    ///
    /// # Errors
    /// As [`Templates::mail`].
    pub fn notification(&self, _envelope: &Envelope) -> Result<Notification, Refusal> {
        Err(Refusal::new(Cause::NoTemplate, Detail::fixed("no template of that name")))
    }
}

/// Holds the current set, for a reload to replace whole.
#[derive(Debug, Default)]
pub struct Library {
    current: RwLock<Arc<Templates>>,
}

impl Library {
    /// The set that new envelopes are rendered with.
    pub fn current(&self) -> Arc<Templates> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
