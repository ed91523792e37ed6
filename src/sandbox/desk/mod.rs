//! The sandbox's page: what is in the outbox, what became of it, and the messages as their readers see them.
//!
//! Owns the page's server and who may talk to it: whoever sits at this machine, and no other page that their
//! browser shows. What is told is `view`'s and `ledger`'s, what can be done is `actions`'. It must not know a
//! worker: like the stand-ins it sees requests alone.

mod actions;
pub mod files;
mod guard;
mod ledger;
#[cfg(test)]
mod tests;
mod view;

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::files::File;
use self::ledger::Ledger;
use super::{Sandbox, Server};
use crate::render::Library;

/// What happens within this time is told at once: a busy worker must not keep a browser busy.
const TOGETHER: Duration = Duration::from_millis(60);

/// How late a change that no stand-in tells of may be seen.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

const FILES: [File; 4] = [
    File::html("/", include_str!("page/index.html")),
    File::css("/desk.css", include_str!("page/desk.css")),
    File::js("/desk.js", include_str!("page/desk.js")),
    File::js("/paste.js", include_str!("page/paste.js")),
];

/// The page, served. Dropping it ends that; the sandbox goes on.
#[derive(Debug)]
pub struct Desk {
    server: Server,
    _follower: JoinSet<()>,
}

/// What the requests share.
#[derive(Debug)]
struct Shared {
    sandbox: Arc<Sandbox>,
    library: Library,
    worker_env: Vec<(&'static str, String)>,
    ledger: Mutex<Ledger>,
    states: watch::Sender<String>,
}

impl Desk {
    /// Serves the page of `sandbox` on a port of 127.0.0.1 (0: any free one). What is pasted is checked against
    /// the templates of `library`; `worker_env` is what a worker is shown to be started with.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn start(
        port: u16,
        sandbox: Arc<Sandbox>,
        library: Library,
        worker_env: Vec<(&'static str, String)>,
    ) -> io::Result<Desk> {
        let listener = Server::bind(port).await?;
        let port = listener.local_addr()?.port();
        let (ledger, states) = (Mutex::default(), watch::Sender::new(String::new()));
        let shared = Arc::new(Shared { sandbox, library, worker_env, ledger, states });
        let mut follower = JoinSet::new();
        follower.spawn(follow(Arc::clone(&shared)));
        let server = Server::start(listener, files::page(routes(shared), &FILES, port))?;
        Ok(Desk { server, _follower: follower })
    }

    /// The page's address.
    pub fn url(&self) -> String {
        self.server.url()
    }
}

fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/setup", get(setup))
        .route("/events", get(events))
        .route("/message/{key}", get(message))
        .route("/enqueue", post(actions::enqueue))
        .route("/draft", post(actions::draft))
        .route("/paste", post(actions::paste))
        .route("/subscription", post(actions::subscription))
        .route("/fault", post(actions::fault))
        .route("/clear", post(actions::clear))
        .route("/release", post(actions::release))
        .with_state(shared)
}

/// Takes in what the stand-ins saw, and tells the state that follows.
async fn follow(shared: Arc<Shared>) {
    let mut changes = shared.sandbox.journal.changes();
    loop {
        let log = changes.borrow_and_update().clone();
        let listings = shared.sandbox.seam.listings();
        let state = {
            let mut ledger = shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.follow(&log, &listings);
            view::state(&ledger, &listings, log.totals(), &view::faults(&shared.sandbox)).to_string()
        };
        shared.states.send_if_modified(|told| {
            let differs = *told != state;
            *told = state;
            differs
        });
        tokio::time::sleep(TOGETHER).await;
        // What is due or over, and who has given up waiting, comes without an entry.
        if let Ok(Err(_closed)) = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await {
            return;
        }
    }
}

/// What stays as it is while the sandbox runs.
async fn setup(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let env: Vec<_> = shared.worker_env.iter().map(|(name, value)| json!([name, value])).collect();
    Json(json!({"env": env, "examples": actions::examples(), "faults": actions::choices()}))
}

/// The state, and then each next one.
async fn events(State(shared): State<Arc<Shared>>) -> Response {
    let mut states = shared.states.subscribe();
    states.mark_changed();
    Sse::new(told(states)).keep_alive(KeepAlive::default()).into_response()
}

fn told(states: watch::Receiver<String>) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(states, |mut states| async {
        loop {
            states.changed().await.ok()?;
            let state = states.borrow_and_update().clone();
            // Empty until the first look at the journal.
            if !state.is_empty() {
                return Some((Ok(Event::default().data(state)), states));
            }
        }
    })
}

/// One row with its message, its envelope and what happened to it.
async fn message(State(shared): State<Arc<Shared>>, Path(key): Path<String>) -> Response {
    let listings = shared.sandbox.seam.listings();
    let ledger = shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
    match view::message(&ledger, &listings, &key, |id| shared.sandbox.resend.history(id)) {
        Some(message) => Json(message).into_response(),
        None => (StatusCode::NOT_FOUND, Json(json!({"error": "it is not kept any more"}))).into_response(),
    }
}
