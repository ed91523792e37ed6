//! What can be done on the page: enqueue, paste, subscribe, make something fail.
//!
//! Owns the list of examples and of failures, and what is said of a wrong envelope. It must not know how the page
//! looks.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Shared, view};
use crate::envelope::{self, Envelope, FieldError, Reading};
use crate::render::{Library, TemplateErrors};
use crate::sandbox::examples;
use crate::sandbox::faults::{Fault, Faults};
use crate::sandbox::seam::Listing;

/// The examples by name, with what the page calls them.
const EXAMPLES: [(&str, &str); 7] = [
    ("digest-mail", "Digest by mail"),
    ("nudge-mail", "Nudge by mail"),
    ("nudge-push", "Nudge by push"),
    ("digest-push", "Digest by push"),
    ("bounced", "Mail that bounces"),
    ("suppressed", "Mail that is suppressed"),
    ("delayed", "Mail that is delayed"),
];

/// One way to fail at one place.
struct Choice {
    at: &'static str,
    name: &'static str,
    label: &'static str,
    make: fn() -> Fault,
}

const fn choice(at: &'static str, name: &'static str, label: &'static str, make: fn() -> Fault) -> Choice {
    Choice { at, name, label, make }
}

const CUT: &str = "cut the connection";
const HANG: &str = "hang until released";
const CUT_AFTER: &str = "accept, then cut the connection";

const CHOICES: [Choice; 19] = [
    choice("mail", "429", "429 too many requests", || limited("rate_limit_exceeded")),
    choice("mail", "quota", "429 daily quota used up", || limited("daily_quota_exceeded")),
    choice("mail", "500", "500 internal error", || resend(500, "internal_server_error", "An error occurred")),
    choice("mail", "bad-key", "401 API key is invalid", || {
        resend(401, "validation_error", "API key is invalid")
    }),
    choice("mail", "422", "422 this mail is refused", || {
        resend(422, "validation_error", "Invalid `to` field")
    }),
    choice("mail", "hang", HANG, Fault::hang),
    choice("mail", "cut", CUT, Fault::cut),
    choice("mail", "cut-after", CUT_AFTER, || Fault::cut().after_accepting()),
    choice("push", "410", "410 subscription gone", || push(410, "the subscription has ended")),
    choice("push", "429", "429 too many requests", || {
        Fault::answer((StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "2")]))
    }),
    choice("push", "500", "500 internal error", || push(500, "internal error")),
    choice("push", "bad-key", "403 another VAPID key", || {
        push(403, "the subscription is of another VAPID key")
    }),
    choice("push", "hang", HANG, Fault::hang),
    choice("push", "cut", CUT, Fault::cut),
    choice("push", "cut-after", CUT_AFTER, || Fault::cut().after_accepting()),
    choice("ack", "500", "500 internal error", app),
    choice("ack", "cut", CUT, Fault::cut),
    choice("page", "500", "500 internal error", app),
    choice("page", "cut", CUT, Fault::cut),
];

fn resend(status: u16, name: &'static str, message: &'static str) -> Fault {
    let body = Json(json!({"statusCode": status, "name": name, "message": message}));
    Fault::answer((StatusCode::from_u16(status).unwrap_or_default(), body))
}

fn limited(name: &'static str) -> Fault {
    let body = Json(json!({"statusCode": 429, "name": name, "message": "Too many requests"}));
    Fault::answer((StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "2")], body))
}

fn push(status: u16, reason: &'static str) -> Fault {
    Fault::answer((StatusCode::from_u16(status).unwrap_or_default(), Json(json!({"reason": reason}))))
}

fn app() -> Fault {
    Fault::answer((StatusCode::INTERNAL_SERVER_ERROR, Json(json!({"detail": "made to fail"}))))
}

/// The examples, for the page.
pub(super) fn examples() -> Value {
    EXAMPLES.map(|(name, label)| json!({"name": name, "label": label})).to_vec().into()
}

/// What can be made to fail, for the page.
pub(super) fn choices() -> Value {
    CHOICES.iter().map(|it| json!({"at": it.at, "name": it.name, "label": it.label})).collect()
}

/// Why something is not done.
#[derive(Debug)]
pub(super) struct Wrong {
    status: StatusCode,
    /// Which of what was sent is at fault, if one is.
    field: Option<String>,
    problem: String,
}

impl Wrong {
    /// There is none of that name.
    fn unknown(field: &str, problem: &str) -> Wrong {
        Wrong { status: StatusCode::NOT_FOUND, field: Some(field.to_owned()), problem: problem.to_owned() }
    }
}

impl From<FieldError> for Wrong {
    fn from(error: FieldError) -> Wrong {
        let (field, problem) = (Some(error.field), error.problem);
        Wrong { status: StatusCode::UNPROCESSABLE_ENTITY, field, problem }
    }
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        Wrong { status: StatusCode::INTERNAL_SERVER_ERROR, field: None, problem: error.to_string() }
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let body = json!({"field": self.field, "problem": self.problem});
        (self.status, Json(body)).into_response()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Named {
    example: String,
}

/// A new envelope of that name. Its id is not one that a worker may have seen: a worker that runs on while the
/// sandbox starts anew would hold it for settled.
fn example(shared: &Shared, name: &str) -> Result<Value, Wrong> {
    let id = format!("{name}-{:08x}", fastrand::u32(..));
    let address = format!("{id}@example.com");
    let subscribe = || shared.sandbox.push.subscribe();
    Ok(Value::from(match name {
        "digest-mail" => examples::digest(&id, &address),
        "nudge-mail" => examples::nudge(&id, &subscribe()?).to_address(&address),
        "nudge-push" => examples::nudge(&id, &subscribe()?),
        // What becomes of a mail its address says.
        "bounced" | "suppressed" | "delayed" => examples::digest(&id, &format!("{name}+{id}@example.com")),
        "digest-push" => examples::digest(&id, &address).to_browser(&subscribe()?),
        _ => return Err(Wrong::unknown("example", "there is no such example")),
    }))
}

/// Puts an element into the outbox; answers with its id.
fn put(shared: &Shared, element: Value) -> Json<Value> {
    let id = element.get("id").cloned();
    shared.sandbox.seam.enqueue(element);
    Json(json!({"id": id}))
}

/// Puts an example into the outbox.
pub(super) async fn enqueue(
    State(shared): State<Arc<Shared>>,
    Json(named): Json<Named>,
) -> Result<Json<Value>, Wrong> {
    Ok(put(&shared, example(&shared, &named.example)?))
}

/// An example to be changed and pasted.
pub(super) async fn draft(
    State(shared): State<Arc<Shared>>,
    Json(named): Json<Named>,
) -> Result<Json<Value>, Wrong> {
    Ok(Json(example(&shared, &named.example)?))
}

/// A fresh subscription, to be copied into an envelope.
pub(super) async fn subscription(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Wrong> {
    Ok(Json(shared.sandbox.push.subscribe()?.json))
}

#[derive(Debug, Deserialize)]
pub(super) struct Pasted {
    text: String,
    /// Takes JSON that is no good envelope: what a worker makes of it is to be seen.
    #[serde(default)]
    anyway: bool,
}

/// Puts what was pasted into the outbox, if it is an envelope that can be rendered.
pub(super) async fn paste(
    State(shared): State<Arc<Shared>>,
    Json(pasted): Json<Pasted>,
) -> Result<Json<Value>, Wrong> {
    let element = serde_json::from_str(&pasted.text)
        .map_err(|error| FieldError::new("envelope", format!("it is not JSON: {error}")))?;
    if !pasted.anyway {
        check(&pasted.text, &shared.sandbox.seam.listings(), &shared.library)?;
    }
    Ok(put(&shared, element))
}

fn check(text: &str, listings: &[Listing], library: &Library) -> Result<(), FieldError> {
    let envelope = match envelope::read(text) {
        Reading::Envelope(envelope) => envelope,
        Reading::Malformed { error, .. } => return Err(error),
        Reading::Unreadable { version, .. } => {
            return Err(FieldError::new("schema_version", format!("{version} is none that is read here")));
        }
        Reading::Unnamed { problem } => return Err(FieldError::new("id", problem)),
    };
    let id = envelope.id.as_str();
    if listings.iter().any(|listing| listing.element.get("id").and_then(Value::as_str) == Some(id)) {
        return Err(FieldError::new("id", "is in the outbox already"));
    }
    // Each paste meets the templates as they are now.
    library.reload().map_err(|TemplateErrors(errors)| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        FieldError::new("template", format!("cannot be read: {}", errors.join("; ")))
    })?;
    render(&envelope, library)
}

#[derive(Deserialize)]
struct MailRecipient {
    #[serde(rename = "email")]
    _email: String,
}

#[derive(Deserialize)]
struct PushRecipient {
    #[serde(rename = "push_subscription")]
    _subscription: PushSubscription,
}

#[derive(Deserialize)]
struct PushSubscription {
    #[serde(rename = "endpoint")]
    _endpoint: String,
    #[serde(rename = "keys")]
    _keys: PushKeys,
}

#[derive(Deserialize)]
struct PushKeys {
    #[serde(rename = "p256dh")]
    _p256dh: String,
    #[serde(rename = "auth")]
    _auth: String,
}

fn render(envelope: &Envelope, library: &Library) -> Result<(), FieldError> {
    let templates = library.current();
    let rendered = match envelope.channel.as_str() {
        "email" => {
            envelope.recipient.decode::<MailRecipient>()?;
            templates.mail(envelope).map(drop)
        }
        "push" => {
            envelope.recipient.decode::<PushRecipient>()?;
            templates.notification(envelope).map(drop)
        }
        _ => return Err(FieldError::new("channel", "is neither email nor push")),
    };
    // The refusal's own words name the field.
    rendered.map_err(|refusal| match refusal.detail.to_string().split_once(": ") {
        Some((field, problem)) if !field.contains(' ') => FieldError::new(field, problem),
        _ => FieldError::new("template", refusal.detail.to_string()),
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    at: String,
    what: String,
    #[serde(default)]
    always: bool,
}

/// Arms a failure.
pub(super) async fn fault(
    State(shared): State<Arc<Shared>>,
    Json(asked): Json<Asked>,
) -> Result<Json<Value>, Wrong> {
    let choice = CHOICES.iter().find(|choice| choice.at == asked.at && choice.name == asked.what);
    let fault = choice.ok_or_else(|| Wrong::unknown("what", "there is no such failure"))?.make;
    let fault = if asked.always { fault().always() } else { fault() };
    at(&shared, &asked.at, |faults| faults.add(fault))
}

#[derive(Debug, Deserialize)]
pub(super) struct Place {
    at: String,
}

/// Takes back what is armed.
pub(super) async fn clear(
    State(shared): State<Arc<Shared>>,
    Json(place): Json<Place>,
) -> Result<Json<Value>, Wrong> {
    at(&shared, &place.at, Faults::clear)
}

/// Lets what hangs go on.
pub(super) async fn release(
    State(shared): State<Arc<Shared>>,
    Json(place): Json<Place>,
) -> Result<Json<Value>, Wrong> {
    at(&shared, &place.at, Faults::release)
}

fn at(shared: &Shared, place: &str, act: impl FnOnce(&Faults)) -> Result<Json<Value>, Wrong> {
    let faults = view::faults(&shared.sandbox).into_iter().find(|(at, _)| *at == place);
    act(faults.ok_or_else(|| Wrong::unknown("at", "there is no such place"))?.1);
    Ok(Json(json!({})))
}
