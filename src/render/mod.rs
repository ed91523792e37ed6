//! From envelope to message: template sets and what they make.
//!
//! Owns [`Templates`], one compiled and checked set, and [`Library`], which holds the current one. A
//! rendering is a pure function of envelope and set: no clock, no network, no locale. It must not know
//! a provider, a channel's wire format or a lease.
//!
//! A template is a folder: `email.{subject,html,text}.hbs`, `push.{title,body,url}.hbs` or both,
//! `payload.schema.json` and `example.json`. Its parts see the envelope as the contract writes it
//! (`payload.…`, `consent_snapshot.cadence`) and the helpers of `helpers.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use url::Url;

use crate::envelope::Envelope;
use crate::outcome::{Cause, Detail, Refusal};

mod compile;
mod fold;
mod helpers;
mod inline;
mod inspect;
mod links;
mod payload;
mod source;
mod template;
mod text;
mod theme;

#[cfg(test)]
mod tests;

pub use links::{Links, LinksError};
pub use source::{TemplateError, TemplateErrors};
pub use template::{MAX_MAIL_BYTES, NEAR_MAIL_BYTES};

use template::Template;

/// A mail as its reader gets it. Personal data: `Debug` shows nothing of it.
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

impl Mail {
    /// The bytes of the larger part, if they come close to [`MAX_MAIL_BYTES`].
    pub fn nearly_too_large(&self) -> Option<usize> {
        Some(self.html.len().max(self.text.len())).filter(|bytes| *bytes >= NEAR_MAIL_BYTES)
    }
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mail(…)")
    }
}

/// A push notification as the app's service worker gets it, but for its tag. Personal data: `Debug` shows
/// nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Notification {
    /// One line of plain text.
    pub title: String,
    /// One line of plain text.
    pub body: String,
    /// Where a click goes.
    pub url: Url,
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notification(…)")
    }
}

/// One compiled set of templates: every one of it is whole and has rendered its own example. The
/// default is the empty set, which serves nothing.
#[derive(Default)]
pub struct Templates {
    by_name: BTreeMap<String, Template>,
}

impl Templates {
    /// Renders the mail of `envelope`.
    ///
    /// # Errors
    /// No such template, a payload that does not fit it, a link that is not allowed, or a part over
    /// [`MAX_MAIL_BYTES`]: the envelope can never be sent.
    pub fn mail(&self, envelope: &Envelope) -> Result<Mail, Refusal> {
        let template = self.serving(envelope, |template| template.serves_mail)?;
        template.mail(envelope).map_err(|failure| failure.refusal(&template.name))
    }

    /// Renders the notification of `envelope`.
    ///
    /// # Errors
    /// As [`Templates::mail`], but for the size, which the channel knows.
    pub fn notification(&self, envelope: &Envelope) -> Result<Notification, Refusal> {
        let template = self.serving(envelope, |template| template.serves_notifications)?;
        template.notification(envelope).map_err(|failure| failure.refusal(&template.name))
    }

    /// The names of the templates, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The sample envelopes of the templates that make a mail, in the order of their names.
    pub fn mail_examples(&self) -> impl Iterator<Item = &Envelope> {
        self.by_name.values().filter(|template| template.serves_mail).map(|template| &template.example)
    }

    fn serving(&self, envelope: &Envelope, serves: fn(&Template) -> bool) -> Result<&Template, Refusal> {
        let name = envelope.template.as_str();
        let problem = match self.by_name.get(name) {
            Some(template) if serves(template) => return Ok(template),
            Some(_) => format!("template {name} has no parts for this channel"),
            None => format!("there is no template {name}"),
        };
        Err(Refusal::new(Cause::NoTemplate, Detail::scrub(&problem, &[])))
    }
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Holds the current set, for a reload to replace whole.
#[derive(Debug)]
pub struct Library {
    directory: Option<PathBuf>,
    links: Links,
    current: RwLock<Arc<Templates>>,
}

impl Library {
    /// The templates compiled in, with those of `directory` (DELIVERY_TEMPLATES_DIR) over them, file by
    /// file: a file there replaces the built-in one of the same path, any other adds to the set.
    ///
    /// # Errors
    /// Everything that is wrong with any file, at once.
    pub fn load(directory: Option<PathBuf>, links: Links) -> Result<Library, TemplateErrors> {
        let first = read(directory.as_ref(), &links)?;
        Ok(Library { directory, links, current: RwLock::new(Arc::new(first)) })
    }

    /// The set that new envelopes are rendered with.
    pub fn current(&self) -> Arc<Templates> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the templates anew and puts them in the place of the current set. Who holds the old set
    /// keeps it.
    ///
    /// # Errors
    /// As [`Library::load`]; the current set stays.
    pub fn reload(&self) -> Result<(), TemplateErrors> {
        let fresh = Arc::new(read(self.directory.as_ref(), &self.links)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

fn read(directory: Option<&PathBuf>, links: &Links) -> Result<Templates, TemplateErrors> {
    let files = source::gather(directory.map(PathBuf::as_path))?;
    Ok(Templates { by_name: compile::compile(&files, links)? })
}
