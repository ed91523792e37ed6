//! One template: a folder's parts, compiled, with the schema of what they may be given.
//!
//! Owns [`Engine`], the compiled parts of a whole set, [`Template`], which makes a message of an envelope,
//! and [`Failure`], the ways in which that can fail. It must not know where the files came from.

use std::sync::Arc;

use chrono::SecondsFormat;
use handlebars::{Context, Handlebars, RenderError, RenderErrorReason};
use serde_json::json;
use url::Url;

use super::helpers::UNSUBSCRIBE;
use super::links::Links;
use super::payload::PayloadSchema;
use super::source::{EXAMPLE, Part, TemplateError};
use super::text;
use super::{Mail, Notification};
use crate::envelope::{Envelope, FieldError};
use crate::outcome::{Cause, Detail, Refusal};

/// The most bytes of either part of a mail. Gmail clips HTML above about 102 kB, and the first thing to
/// go is the footer with its unsubscribe link.
pub const MAX_MAIL_BYTES: usize = 100 * 1024;

/// From here on a mail is close enough to [`MAX_MAIL_BYTES`] to tell the operator.
pub const NEAR_MAIL_BYTES: usize = 90 * 1024;

/// The compiled parts of a set, partials put into them. Two registries, because what is right in one kind of output
/// is wrong in the other: HTML is escaped, plain text is not, and each has partials of its own.
pub(super) struct Engine {
    pub(super) html: Handlebars<'static>,
    pub(super) plain: Handlebars<'static>,
    pub(super) links: Arc<Links>,
}

impl Engine {
    fn render(&self, template: &str, part: Part, data: &Context) -> Result<String, Failure> {
        let registry = match part {
            Part::Html => &self.html,
            Part::Subject | Part::Text | Part::Title | Part::Body | Part::Url => &self.plain,
        };
        let path = format!("{template}/{}", part.file());
        registry.render_with_context(&path, data).map_err(|error| in_file(&error, path))
    }
}

fn in_file(error: &RenderError, path: String) -> Failure {
    let problem = match error.reason() {
        RenderErrorReason::MissingVariable(Some(field)) => format!("{field} is missing"),
        RenderErrorReason::MissingVariable(None) => "a field is missing".to_owned(),
        other => other.to_string(),
    };
    Failure::Part { file: error.template_name.clone().unwrap_or(path), line: error.line_no, problem }
}

/// Why an envelope has no message. Holds no value of its payload.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The payload does not fit the template.
    Payload(FieldError),
    /// A part cannot be rendered.
    Part { file: String, line: Option<usize>, problem: String },
    /// A part of the mail is over [`MAX_MAIL_BYTES`].
    TooLarge { part: Part, bytes: usize },
}

impl Failure {
    /// As the reason why this envelope is never sent.
    pub(super) fn refusal(&self, template: &str) -> Refusal {
        let (cause, sentence) = match self {
            Failure::Payload(error) => (Cause::PayloadInvalid, format!("{error} (template {template})")),
            Failure::Part { file, line, problem } => {
                // Short words: a long one looks like a key, and the scrubbing takes it out.
                let file =
                    file.strip_prefix(template).map_or(file.as_str(), |part| part.trim_start_matches('/'));
                let line = line.map(|line| format!(" line {line}")).unwrap_or_default();
                (Cause::RenderFailed, format!("template {template}: {file}{line}: {problem}"))
            }
            Failure::TooLarge { part, bytes } => {
                (Cause::TooLarge, format!("{} (template {template})", too_large(*part, *bytes)))
            }
        };
        Refusal::new(cause, Detail::scrub(&sentence, &[]))
    }

    /// As what is wrong with a template whose own example fails.
    pub(super) fn of_example(self, template: &str) -> TemplateError {
        match self {
            Failure::Payload(error) => {
                TemplateError::new(format!("{template}/{EXAMPLE}"), None, error.to_string())
            }
            Failure::Part { file, line, problem } => {
                TemplateError::new(file, line, format!("{problem} (rendering {template}/{EXAMPLE})"))
            }
            Failure::TooLarge { part, bytes } => TemplateError::new(
                format!("{template}/{}", part.file()),
                None,
                format!("{} (rendering {template}/{EXAMPLE})", too_large(part, bytes)),
            ),
        }
    }
}

fn too_large(part: Part, bytes: usize) -> String {
    let part = if part == Part::Html { "HTML" } else { "text" };
    format!("the {part} part is {bytes} bytes, more than {MAX_MAIL_BYTES}")
}

/// One compiled template.
pub(super) struct Template {
    pub(super) name: String,
    pub(super) serves_mail: bool,
    pub(super) serves_notifications: bool,
    pub(super) schema: PayloadSchema,
    pub(super) example: Envelope,
    pub(super) engine: Arc<Engine>,
}

impl Template {
    /// The mail of `envelope`.
    pub(super) fn mail(&self, envelope: &Envelope) -> Result<Mail, Failure> {
        let unsubscribe = self.engine.links.unsubscribe(&envelope.consent.unsubscribe_ref);
        let data = self.data(envelope, &unsubscribe)?;
        let html = self.sized(Part::Html, &data)?;
        let text = self.sized(Part::Text, &data)?;
        Ok(Mail { subject: self.line(Part::Subject, &data)?, html, text, unsubscribe })
    }

    /// The notification of `envelope`.
    pub(super) fn notification(&self, envelope: &Envelope) -> Result<Notification, Failure> {
        let unsubscribe = self.engine.links.unsubscribe(&envelope.consent.unsubscribe_ref);
        let data = self.data(envelope, &unsubscribe)?;
        let (title, body) = (self.line(Part::Title, &data)?, self.line(Part::Body, &data)?);
        match Url::parse(&self.line(Part::Url, &data)?) {
            Ok(url) if self.engine.links.holds(&url) => Ok(Notification { title, body, url }),
            _ => Err(self.failed(Part::Url, "is no link into the app: use a link helper")),
        }
    }

    /// What the parts are given: the envelope as the contract writes it, as far as a rendering may use it.
    fn data(&self, envelope: &Envelope, unsubscribe: &Url) -> Result<Context, Failure> {
        let payload = self.schema.read(&envelope.payload, &self.engine.links).map_err(Failure::Payload)?;
        let mut data = json!({
            "consent_snapshot": { "cadence": envelope.consent.cadence },
            "created_at": envelope.created_at.to_rfc3339_opts(SecondsFormat::Secs, true),
            UNSUBSCRIBE: unsubscribe.as_str(),
        });
        // Put in by itself: the macro would copy it.
        data["payload"] = payload;
        Ok(Context::from(data))
    }

    /// A part that is one line, whatever its data holds. Only a notification's body may be empty.
    fn line(&self, part: Part, data: &Context) -> Result<String, Failure> {
        let line = text::one_line(&self.engine.render(&self.name, part, data)?);
        if line.is_empty() && part != Part::Body {
            return Err(self.failed(part, "renders to nothing"));
        }
        Ok(line)
    }

    fn sized(&self, part: Part, data: &Context) -> Result<String, Failure> {
        let text = self.engine.render(&self.name, part, data)?;
        if text.len() > MAX_MAIL_BYTES {
            return Err(Failure::TooLarge { part, bytes: text.len() });
        }
        Ok(text)
    }

    fn failed(&self, part: Part, problem: &str) -> Failure {
        Failure::Part {
            file: format!("{}/{}", self.name, part.file()),
            line: None,
            problem: problem.to_owned(),
        }
    }
}
