//! The stand-in for the app: an outbox and the seam's two endpoints over it.
//!
//! Owns the envelopes, the first terminal status of each and who may still be written to. It holds
//! whatever it is given, junk included: reading envelopes is the worker's business. It must not know a
//! worker, a provider or a template.

mod outbox;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::{AUTHORIZATION, DATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use self::outbox::Outbox;
pub use self::outbox::{Listing, Standing};
use super::faults::Faults;
use super::journal::{AckAnswer, Endpoint, Event, Journal, ReceivedAck, Refused};
use super::server::Server;
use crate::outcome::AckStatus;

/// The most that a page may be asked for.
const MAX_LIMIT: u16 = 500;

/// The app's outbox, served.
#[derive(Debug)]
pub struct Seam {
    app: Arc<App>,
    server: Server,
}

#[derive(Debug)]
struct App {
    token: Option<String>,
    journal: Journal,
    page_faults: Faults,
    ack_faults: Faults,
    state: Mutex<AppState>,
}

#[derive(Debug, Default)]
struct AppState {
    outbox: Outbox,
    lists_expired: bool,
    ahead: TimeDelta,
}

impl Seam {
    /// Starts an empty outbox on a port of 127.0.0.1 (0: any free one). Without a token it answers 503. It
    /// forgets of what is not listed any more as much as the journal does.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn start(port: u16, token: Option<String>, journal: Journal) -> io::Result<Seam> {
        let outbox = Outbox::keeping(journal.keep());
        let app = Arc::new(App {
            token,
            page_faults: Faults::new(Endpoint::Page, journal.clone()),
            ack_faults: Faults::new(Endpoint::Ack, journal.clone()),
            journal,
            state: Mutex::new(AppState { outbox, ..AppState::default() }),
        });
        let router = Router::new()
            .route("/internal/outbox/pending", get(pending))
            .route("/internal/outbox/{id}/status", post(status))
            .with_state(Arc::clone(&app));
        Ok(Seam { app, server: Server::start(Server::bind(port).await?, router)? })
    }

    /// Its server: where it is, and how to stop it for a while.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What its pages are made to do wrong.
    pub fn page_faults(&self) -> &Faults {
        &self.app.page_faults
    }

    /// What its status posts are made to do wrong.
    pub fn ack_faults(&self) -> &Faults {
        &self.app.ack_faults
    }

    /// Puts an element at the end of the outbox. Any JSON is taken; what has no readable channel is
    /// listed in every channel's pages.
    pub fn enqueue(&self, element: impl Into<Value>) {
        let now = self.app.journal.now().wall;
        self.app.state().outbox.enqueue(element.into(), now);
        self.app.journal.touch();
    }

    /// Everything in the outbox, oldest first, with what has become of it.
    pub fn listings(&self) -> Vec<Listing> {
        let now = self.app.now();
        let state = self.app.state();
        state.outbox.listings((!state.lists_expired).then_some(now)).collect()
    }

    /// Stops listing an envelope: its user withdrew this one.
    pub fn withdraw(&self, id: &str) {
        self.app.state().outbox.withdraw(id);
        self.app.journal.touch();
    }

    /// Switches a user's consent for a channel off, as the app's own page does: nothing of theirs is
    /// listed there any more.
    pub fn unsubscribe(&self, user: &str, channel: &str) {
        self.app.state().outbox.unsubscribe(user, channel);
        self.app.journal.touch();
    }

    /// The users and channels whose consent is off.
    pub fn unsubscribed(&self) -> BTreeSet<(String, String)> {
        self.app.state().outbox.unsubscribed().clone()
    }

    /// Stores a status as a worker's post would; the way of "another worker acked it".
    pub fn settle(&self, id: &str, status: AckStatus, detail: Option<String>) -> AckAnswer {
        self.app.settle(id, status, detail)
    }

    /// The status that is in force for each settled envelope.
    pub fn statuses(&self) -> BTreeMap<String, AckStatus> {
        self.app.state().outbox.statuses().clone()
    }

    /// The elements that a page of this channel would list now if it had no limit.
    pub fn pending(&self, channel: &str) -> Vec<Value> {
        self.app.listed(channel, usize::MAX)
    }

    /// Whether envelopes past their `expires_at` stay listed. Off at first.
    pub fn list_expired(&self, on: bool) {
        self.app.state().lists_expired = on;
    }

    /// Sets the app's clock so far ahead of the machine's (negative: behind): for its Date header and
    /// for what it holds expired.
    pub fn set_clock_ahead(&self, by: TimeDelta) {
        self.app.state().ahead = by;
    }
}

impl App {
    fn state(&self) -> MutexGuard<'_, AppState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> DateTime<Utc> {
        self.journal.now().wall + self.state().ahead
    }

    fn listed(&self, channel: &str, limit: usize) -> Vec<Value> {
        let now = self.now();
        let state = self.state();
        let living_at = (!state.lists_expired).then_some(now);
        state.outbox.pending(channel, living_at).take(limit).cloned().collect()
    }

    /// Stored and journaled under one lock, so that the journal's order is the order of storing.
    fn settle(&self, id: &str, posted: AckStatus, detail: Option<String>) -> AckAnswer {
        let mut state = self.state();
        let answer = state.outbox.settle(id, posted);
        let ack = ReceivedAck { id: id.to_owned(), posted, detail, answer };
        self.journal.record(Event::Acked(ack));
        answer
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else {
            return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, "no token is configured"));
        };
        let plain = headers.get("x-internal-token").is_some_and(|value| value == token);
        let bearer = headers.get(AUTHORIZATION).is_some_and(|value| *value == format!("Bearer {token}"));
        if plain || bearer {
            Ok(())
        } else {
            Err(Refusal(StatusCode::UNAUTHORIZED, "wrong or missing token"))
        }
    }

    fn refuse(&self, endpoint: Endpoint, Refusal(status, why): Refusal) -> Response {
        self.journal.record(Event::Refused(Refused {
            endpoint,
            target: None,
            status: status.as_u16(),
            why: why.to_owned(),
        }));
        (status, Json(json!({"detail": why}))).into_response()
    }

    /// The server below sets Date by the machine's clock unless it is there.
    fn dated(&self, mut response: Response) -> Response {
        if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(self.now().into())) {
            response.headers_mut().insert(DATE, date);
        }
        response
    }
}

struct Refusal(StatusCode, &'static str);

fn invalid(why: &'static str) -> Refusal {
    Refusal(StatusCode::UNPROCESSABLE_ENTITY, why)
}

#[derive(Debug, Deserialize)]
struct PageRequest {
    channel: String,
    limit: u16,
}

impl PageRequest {
    fn check(query: Result<Query<PageRequest>, QueryRejection>) -> Result<PageRequest, Refusal> {
        let Query(request) = query.map_err(|_| invalid("channel and limit are needed"))?;
        match request.limit {
            1..=MAX_LIMIT => Ok(request),
            _ => Err(invalid("limit must be 1 to 500")),
        }
    }
}

async fn pending(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    query: Result<Query<PageRequest>, QueryRejection>,
) -> Response {
    let response = match app.check_token(&headers).and_then(|()| PageRequest::check(query)) {
        Err(refusal) => app.refuse(Endpoint::Page, refusal),
        Ok(PageRequest { channel, limit }) => {
            let list = || {
                let envelopes = app.listed(&channel, limit.into());
                let elements = envelopes.len();
                app.journal.record(Event::Listed { channel: channel.clone(), limit, elements });
                Json(json!({"envelopes": envelopes})).into_response()
            };
            app.page_faults.around(&[&channel], list).await
        }
    };
    app.dated(response)
}

#[derive(Debug, Deserialize)]
struct StatusBody {
    status: String,
    detail: Option<String>,
}

impl StatusBody {
    fn check(body: &[u8]) -> Result<(AckStatus, Option<String>), Refusal> {
        let StatusBody { status, detail } =
            serde_json::from_slice(body).map_err(|_| invalid("the body must be {status, detail?}"))?;
        let status = AckStatus::parse(&status).ok_or(invalid("no such status"))?;
        Ok((status, detail))
    }
}

async fn status(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let checked = app.check_token(&headers).and_then(|()| {
        let Path(id) = path.map_err(|_| invalid("the id must be percent-encoded UTF-8"))?;
        let (status, detail) = StatusBody::check(&body)?;
        Ok((id, status, detail))
    });
    let response = match checked {
        Err(refusal) => app.refuse(Endpoint::Ack, refusal),
        Ok((id, status, detail)) => {
            let store = || {
                let effective = match app.settle(&id, status, detail) {
                    AckAnswer::Stored => status.as_str(),
                    AckAnswer::Kept(earlier) => earlier.as_str(),
                    AckAnswer::Unknown => "unknown",
                };
                Json(json!({"status": effective})).into_response()
            };
            app.ack_faults.around(&[&id], store).await
        }
    };
    app.dated(response)
}
