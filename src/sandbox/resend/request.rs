//! What a mail must look like for Resend to take it (resend.com/docs/api-reference/emails/send-email).
//!
//! Owns the reading of the request's body into a [`Draft`], naming the field that is wrong. It must not
//! know keys, rates or HTTP. Stricter than Resend in two things that its client never needs: fields
//! that it does not send are refused as misspelt ones, and a mail has one plain recipient.

use axum::http::StatusCode;
use serde_json::{Map, Value};

use super::Refusal;
use crate::sandbox::journal::ReceivedMail;

const FIELDS: [&str; 8] = ["from", "to", "subject", "html", "text", "reply_to", "headers", "tags"];
const MAX_TAGS: usize = 75;
const MAX_TAG_LENGTH: usize = 256;

/// A mail that may be sent.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) to: String,
    from: String,
    subject: String,
    html: String,
    text: String,
    reply_to: Vec<String>,
    headers: Vec<(String, String)>,
    tags: Vec<(String, String)>,
}

impl Draft {
    pub(super) fn check(body: &[u8]) -> Result<Draft, Refusal> {
        let fields: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| invalid("the body is not a JSON object"))?;
        if let Some(field) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
            return Err(invalid(format!("unknown field `{field}`")));
        }
        let (html, text) = (part(&fields, "html")?, part(&fields, "text")?);
        if html.is_empty() && text.is_empty() {
            return Err(missing("html` or `text"));
        }
        Ok(Draft {
            from: sender(&fields)?,
            to: recipient(&fields)?,
            subject: subject(&fields)?,
            html,
            text,
            reply_to: reply_to(&fields)?,
            headers: headers(&fields)?,
            tags: tags(&fields)?,
        })
    }

    pub(super) fn received(self, id: String, idempotency_key: Option<String>) -> ReceivedMail {
        let Draft { to, from, subject, html, text, reply_to, headers, tags } = self;
        ReceivedMail { id, from, to, subject, html, text, reply_to, headers, tags, idempotency_key }
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message)
}

fn missing(field: &str) -> Refusal {
    let message = format!("Missing `{field}` field");
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "missing_required_field", message)
}

fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<&'a str, Refusal> {
    match fields.get(field) {
        None => Err(missing(field)),
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(_) => Err(invalid(format!("`{field}` must be a string that is not empty"))),
    }
}

fn part(fields: &Map<String, Value>, field: &str) -> Result<String, Refusal> {
    if fields.contains_key(field) { Ok(text(fields, field)?.to_owned()) } else { Ok(String::new()) }
}

fn sender(fields: &Map<String, Value>) -> Result<String, Refusal> {
    let from = text(fields, "from")?;
    if is_mailbox(from) {
        return Ok(from.to_owned());
    }
    Err(Refusal::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "invalid_from_address",
        "Invalid `from` field. It must be `email@example.com` or `Name <email@example.com>`",
    ))
}

fn recipient(fields: &Map<String, Value>) -> Result<String, Refusal> {
    match fields.get("to") {
        None => Err(missing("to")),
        Some(Value::Array(to)) => match to.as_slice() {
            [Value::String(address)] if is_address(address) => Ok(address.clone()),
            _ => Err(invalid("Invalid `to` field: one plain address")),
        },
        Some(_) => Err(invalid("Invalid `to` field: an array")),
    }
}

fn subject(fields: &Map<String, Value>) -> Result<String, Refusal> {
    let subject = text(fields, "subject")?;
    if subject.chars().any(char::is_control) {
        return Err(invalid("The `subject` field must not hold control characters such as CR or LF"));
    }
    Ok(subject.to_owned())
}

fn reply_to(fields: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let given = match fields.get("reply_to") {
        None => return Ok(Vec::new()),
        Some(Value::Array(many)) => many.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    let read = |value: &Value| value.as_str().filter(|text| is_mailbox(text)).map(str::to_owned);
    given.iter().map(read).collect::<Option<_>>().ok_or_else(|| invalid("Invalid `reply_to` field"))
}

fn headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, Refusal> {
    let given = match fields.get("headers") {
        None => return Ok(Vec::new()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(invalid("`headers` must be an object")),
    };
    let mut headers = Vec::new();
    for (name, value) in given {
        match value.as_str().filter(|value| !value.is_empty() && !value.chars().any(char::is_control)) {
            Some(value) => headers.push((name.clone(), value.to_owned())),
            None => return Err(invalid(format!("`headers.{name}` must be one line of text"))),
        }
    }
    check_unsubscribe(&headers)?;
    Ok(headers)
}

/// RFC 8058, section 3.1: one-click needs both headers, and an https link.
fn check_unsubscribe(headers: &[(String, String)]) -> Result<(), Refusal> {
    let value =
        |name: &str| headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
    match (value("List-Unsubscribe"), value("List-Unsubscribe-Post")) {
        (None, None) => Ok(()),
        (Some(link), Some(post)) => {
            let url = link.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
            let https =
                url.and_then(|url| url::Url::parse(url).ok()).is_some_and(|url| url.scheme() == "https");
            if !https {
                return Err(invalid("`List-Unsubscribe` must be <https://…>"));
            }
            if post != "List-Unsubscribe=One-Click" {
                return Err(invalid("`List-Unsubscribe-Post` must be List-Unsubscribe=One-Click"));
            }
            Ok(())
        }
        _ => Err(invalid("`List-Unsubscribe` and `List-Unsubscribe-Post` go together")),
    }
}

fn tags(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, Refusal> {
    let given = match fields.get("tags") {
        None => return Ok(Vec::new()),
        Some(Value::Array(given)) if given.len() <= MAX_TAGS => given,
        Some(_) => return Err(invalid("`tags` must be an array of at most 75")),
    };
    let word =
        |tag: &Value, field: &str| tag.get(field)?.as_str().filter(|s| is_tag_word(s)).map(str::to_owned);
    let read = |tag: &Value| Some((word(tag, "name")?, word(tag, "value")?));
    given.iter().map(read).collect::<Option<_>>().ok_or_else(|| {
        invalid("Tags should only contain ASCII letters, numbers, underscores, or dashes, 256 at most")
    })
}

fn is_tag_word(text: &str) -> bool {
    (1..=MAX_TAG_LENGTH).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// `email@example.com` or `Name <email@example.com>`.
fn is_mailbox(text: &str) -> bool {
    let named = text.strip_suffix('>').and_then(|text| text.split_once('<'));
    match named {
        Some((name, address)) => !name.chars().any(char::is_control) && is_address(address),
        None => is_address(text),
    }
}

fn is_address(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>(),;:\"@".contains(c))
    };
    let labels = |domain: &str| domain.contains('.') && domain.split('.').all(|label| !label.is_empty());
    text.split_once('@').is_some_and(|(local, domain)| plain(local) && plain(domain) && labels(domain))
}
