//! The stand-in for Resend: `POST /emails`, an inbox, and `GET /emails`, which tells what became of each mail.
//!
//! Owns the order of its checks (edge, key, rate, idempotency key, body) and its answers, as in
//! resend.com/docs/api-reference. It must not know the seam. What a mail must look like is `request`'s,
//! what it remembers of earlier ones is `memory`'s, what
//! becomes of one `fates`'.

mod fates;
mod memory;
mod request;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use self::fates::Fates;
use self::memory::{Claim, InProgress, Keys, Pace, Window};
use self::request::Draft;
use super::faults::Faults;
use super::journal::{Endpoint, Event, Journal, ReceivedMail, Refused};
use super::server::Server;
use crate::clock::Now;

/// Resend, served.
#[derive(Debug)]
pub struct Resend {
    provider: Arc<Provider>,
    server: Server,
}

#[derive(Debug)]
struct Provider {
    api_key: String,
    window: Option<Mutex<Window>>,
    keys: Keys,
    fates: Fates,
    only_sends: AtomicBool,
    questions: AtomicUsize,
    journal: Journal,
    faults: Faults,
}

impl Resend {
    /// Starts an empty inbox on a port of 127.0.0.1 (0: any free one) that takes `api_key` and, with a
    /// rate, so many requests in a second.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn start(
        port: u16,
        api_key: String,
        rate: Option<u32>,
        journal: Journal,
    ) -> io::Result<Resend> {
        let provider = Arc::new(Provider {
            api_key,
            window: rate.map(|limit| Mutex::new(Window::new(limit))),
            keys: Keys::default(),
            fates: Fates::default(),
            only_sends: AtomicBool::new(false),
            questions: AtomicUsize::new(0),
            faults: Faults::new(Endpoint::Mail, journal.clone()),
            journal,
        });
        let router = Router::new()
            .route("/emails", post(send).get(list))
            .route("/emails/{id}", get(one))
            .route("/domains", get(domains))
            .with_state(Arc::clone(&provider));
        Ok(Resend { provider, server: Server::start(Server::bind(port).await?, router)? })
    }

    /// Its server: where it is, and how to stop it for a while.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What it is made to do wrong.
    pub fn faults(&self) -> &Faults {
        &self.provider.faults
    }

    /// Its key may send and not read from now on.
    pub fn only_sends(&self) {
        self.provider.only_sends.store(true, Ordering::Relaxed);
    }

    /// How often it was asked what became of mails.
    pub fn questions(&self) -> usize {
        self.provider.questions.load(Ordering::Relaxed)
    }

    /// What has become of a mail so far, by its id, the oldest first.
    pub fn history(&self, id: &str) -> Vec<(DateTime<Utc>, &'static str)> {
        self.provider.fates.history(id, self.provider.journal.now())
    }

    /// The mails that it accepted, oldest first.
    pub fn inbox(&self) -> Vec<Arc<ReceivedMail>> {
        self.provider.journal.log().mails().cloned().collect()
    }
}

/// An answer that says no, as the API or as the edge before it words it.
#[derive(Debug)]
enum Refusal {
    Edge,
    Api { status: StatusCode, name: &'static str, message: String },
}

impl Refusal {
    fn new(status: StatusCode, name: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::Api { status, name, message: message.into() }
    }

    fn status(&self) -> StatusCode {
        match self {
            Refusal::Edge => StatusCode::FORBIDDEN,
            Refusal::Api { status, .. } => *status,
        }
    }

    fn why(&self) -> String {
        match self {
            Refusal::Edge => "no User-Agent".to_owned(),
            Refusal::Api { name, message, .. } => format!("{name}: {message}"),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::Edge => (StatusCode::FORBIDDEN, "error code: 1010").into_response(),
            Refusal::Api { status, name, message } => {
                let body = json!({"statusCode": status.as_u16(), "name": name, "message": message});
                (status, Json(body)).into_response()
            }
        }
    }
}

/// The account's one domain, verified (<https://resend.com/docs/api-reference/domains/list-domains>).
async fn domains(State(provider): State<Arc<Provider>>, headers: HeaderMap) -> Response {
    match provider.check_caller(&headers) {
        Err(refusal) => refusal.into_response(),
        Ok(()) => {
            let domain = json!({"id": "d-1", "name": super::MAIL_DOMAIN, "status": "verified"});
            Json(json!({"object": "list", "has_more": false, "data": [domain]})).into_response()
        }
    }
}

#[derive(Debug, Deserialize)]
struct Listing {
    limit: Option<usize>,
    after: Option<String>,
}

/// The newest mails first (<https://resend.com/docs/api-reference/emails/list-emails>).
async fn list(
    State(provider): State<Arc<Provider>>,
    Query(listing): Query<Listing>,
    headers: HeaderMap,
) -> Response {
    let limit = listing.limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        let message = "limit must be from 1 to 100";
        return Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", message).into_response();
    }
    read(&provider, &headers, |now| provider.fates.list(limit, listing.after.as_deref(), now))
}

async fn one(State(provider): State<Arc<Provider>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    read(&provider, &headers, |now| provider.fates.one(&id, now))
}

/// Answers a question, within the rate that it shares with mails.
fn read(provider: &Provider, headers: &HeaderMap, answer: impl FnOnce(Now) -> Option<Value>) -> Response {
    if let Err(refusal) = provider.check_caller(headers) {
        return refusal.into_response();
    }
    let pace = match provider.take_place() {
        Ok(pace) => pace,
        Err(pace) => return limited(provider, &pace),
    };
    provider.questions.fetch_add(1, Ordering::Relaxed);
    let response = match answer(provider.journal.now()) {
        _ if provider.only_sends.load(Ordering::Relaxed) => {
            let message = "This API key is restricted to only send emails";
            Refusal::new(StatusCode::UNAUTHORIZED, "restricted_api_key", message).into_response()
        }
        Some(body) => Json(body).into_response(),
        None => Refusal::new(StatusCode::NOT_FOUND, "not_found", "Email not found").into_response(),
    };
    paced(response, pace.as_ref())
}

/// A request that passed every check.
struct Checked {
    key: Option<String>,
    draft: Draft,
}

async fn send(State(provider): State<Arc<Provider>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refusal) = provider.check_caller(&headers) {
        return provider.refuse(refusal, None);
    }
    let pace = match provider.take_place() {
        Ok(pace) => pace,
        Err(pace) => return limited(&provider, &pace),
    };
    let response = match check(&headers, &body) {
        Err(refusal) => provider.refuse(refusal, None),
        Ok(Checked { key, draft }) => {
            let to = draft.to.clone();
            let names = [key.as_deref().unwrap_or(&to), &to];
            // Held until the answer leaves: until then the key is in use.
            let mut in_progress = None;
            let accept = || provider.accept(key.clone(), draft, &body, &mut in_progress);
            provider.faults.around(&names, accept).await
        }
    };
    paced(response, pace.as_ref())
}

fn check(headers: &HeaderMap, body: &[u8]) -> Result<Checked, Refusal> {
    let key = idempotency_key(headers)?;
    let json = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !json {
        return Err(Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "validation_error",
            "Content-Type must be application/json",
        ));
    }
    Ok(Checked { key, draft: Draft::check(body)? })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(key) if (1..=256).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "invalid_idempotency_key",
            "The idempotency key must be between 1 and 256 characters",
        )),
    }
}

impl Provider {
    fn check_caller(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if headers.get(USER_AGENT).is_none_or(|agent| agent.is_empty()) {
            return Err(Refusal::Edge);
        }
        match headers.get(AUTHORIZATION) {
            None => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "missing_api_key",
                "Missing API key in the authorization header",
            )),
            Some(value) if *value == format!("Bearer {}", self.api_key) => Ok(()),
            Some(_) => Err(Refusal::new(StatusCode::UNAUTHORIZED, "validation_error", "API key is invalid")),
        }
    }

    fn take_place(&self) -> Result<Option<Pace>, Pace> {
        let Some(window) = &self.window else {
            return Ok(None);
        };
        window.lock().unwrap_or_else(PoisonError::into_inner).take(self.journal.now().mono).map(Some)
    }

    fn accept(
        &self,
        key: Option<String>,
        draft: Draft,
        body: &Bytes,
        in_progress: &mut Option<InProgress>,
    ) -> Response {
        let id = match &key {
            None => memory::new_id(),
            Some(key) => match self.keys.claim(key, body, self.journal.now().mono) {
                Claim::New { id, guard } => {
                    *in_progress = Some(guard);
                    id
                }
                Claim::Repeat { id } => {
                    self.journal.record(Event::MailRepeated { key: key.clone() });
                    return accepted(&id);
                }
                Claim::OtherBody => {
                    let refusal = Refusal::new(
                        StatusCode::CONFLICT,
                        "invalid_idempotent_request",
                        "This idempotency key has been used with a different request body",
                    );
                    return self.refuse(refusal, Some(key));
                }
                Claim::Concurrent => {
                    let refusal = Refusal::new(
                        StatusCode::CONFLICT,
                        "concurrent_idempotent_requests",
                        "Another request with this idempotency key is in progress",
                    );
                    return self.refuse(refusal, Some(key));
                }
            },
        };
        let to = draft.to.clone();
        self.journal.record(Event::Mailed(Arc::new(draft.received(id.clone(), key))));
        self.fates.add(&id, &to, self.journal.now());
        accepted(&id)
    }

    fn refuse(&self, refusal: Refusal, key: Option<&str>) -> Response {
        let (status, why, target) = (refusal.status().as_u16(), refusal.why(), key.map(str::to_owned));
        self.journal.record(Event::Refused(Refused { endpoint: Endpoint::Mail, target, status, why }));
        refusal.into_response()
    }
}

fn accepted(id: &str) -> Response {
    Json(json!({"id": id})).into_response()
}

fn limited(provider: &Provider, pace: &Pace) -> Response {
    let refusal = Refusal::new(
        StatusCode::TOO_MANY_REQUESTS,
        "rate_limit_exceeded",
        format!("Too many requests: the limit is {} per second", pace.limit),
    );
    let mut response = paced(provider.refuse(refusal, None), Some(pace));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(pace.reset));
    response
}

/// Adds the rate headers; those that a fault has put there stay.
fn paced(mut response: Response, pace: Option<&Pace>) -> Response {
    let Some(Pace { limit, remaining, reset }) = pace else {
        return response;
    };
    for (name, value) in [("limit", *limit), ("remaining", *remaining), ("reset", *reset)] {
        if let Ok(name) = HeaderName::try_from(format!("ratelimit-{name}")) {
            response.headers_mut().entry(name).or_insert(HeaderValue::from(value));
        }
    }
    response
}
