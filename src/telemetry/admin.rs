//! The admin server: health, readiness, metrics and a status page for whoever watches the worker.
//!
//! Owns what is served where. It reads and never changes anything, and what it tells holds no personal data;
//! still it listens where DELIVERY_ADMIN_ADDR says and nowhere else.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::gauges;
use super::page::{self, View};
use super::recent::Recent;
use super::status::StatusSource;
use crate::serve::accept_all;

/// The text format that Prometheus asks for.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// One request and its answer, for whoever is on this machine or its network.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(10);
const PAGES: &str = "/             what it is doing now\n/status.json  the same for a script\n\
                     /healthz      is the process alive?\n/readyz       does it deliver, and if not, why?\n\
                     /metrics      numbers\n";

/// The server, bound and not yet serving: what cannot be bound is known before anything is sent.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

/// The address cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "the admin server cannot listen on {address} ({why}): is another worker running here? \
     DELIVERY_ADMIN_ADDR sets another address, or off"
)]
pub struct BindError {
    /// What was asked for.
    pub address: SocketAddr,
    /// What the system says.
    pub why: io::Error,
}

impl Admin {
    /// Takes `address`. Port 0 takes a free one: see [`Admin::address`].
    ///
    /// # Errors
    /// It is in use, or not one of this machine's.
    pub async fn bind(address: SocketAddr) -> Result<Admin, BindError> {
        let bound = TcpListener::bind(address).await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok(Admin { listener, address })
        });
        bound.map_err(|why| BindError { address, why })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` comes; what is open then is cut. `registry` holds the counters; the gauges of
    /// `source` are added here. `recent` is what the status page tells of single envelopes.
    pub async fn serve(
        self,
        mut registry: Registry,
        source: Arc<dyn StatusSource>,
        recent: Recent,
        stop: impl Future<Output = ()> + Send + 'static,
    ) {
        gauges::register(&mut registry, source.clone());
        let told = Told { registry: Arc::new(registry), source, recent, started: Instant::now() };
        let status = Router::new()
            .route("/", get(status_page))
            .route("/status.json", get(status_json))
            .route("/status.js", get(|| async { page::file("text/javascript; charset=utf-8", page::SCRIPT) }))
            .route("/status.css", get(|| async { page::file("text/css; charset=utf-8", page::STYLE) }))
            .layer(middleware::from_fn(page::host::guard));
        let pages = Router::new()
            .merge(status)
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .fallback(|| async { (StatusCode::NOT_FOUND, PAGES) })
            .with_state(told);
        tokio::select! {
            () = accept_all(self.listener, pages, CONNECTION_DEADLINE) => {}
            () = stop => {}
        }
    }
}

#[derive(Clone)]
struct Told {
    registry: Arc<Registry>,
    source: Arc<dyn StatusSource>,
    recent: Recent,
    started: Instant,
}

impl Told {
    fn view(&self) -> View {
        View::new(self.source.status(), &self.recent, self.started)
    }
}

async fn status_page(State(told): State<Told>) -> Response {
    match told.view().html() {
        Ok(html) => page::file("text/html; charset=utf-8", html).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn status_json(State(told): State<Told>) -> Response {
    Json(told.view()).into_response()
}

async fn healthz(State(told): State<Told>) -> (StatusCode, &'static str) {
    if told.source.status().alive {
        (StatusCode::OK, "alive\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the loops make no progress\n")
    }
}

async fn readyz(State(told): State<Told>) -> (StatusCode, String) {
    let reasons = told.source.status().unready;
    if reasons.is_empty() {
        return (StatusCode::OK, "ready\n".to_owned());
    }
    let lines = reasons.iter().map(|reason| format!("{reason}\n")).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines)
}

async fn metrics(State(told): State<Told>) -> Response {
    let mut body = String::new();
    match text::encode(&mut body, &told.registry) {
        Ok(()) => ([(CONTENT_TYPE, OPENMETRICS)], body).into_response(),
        Err(std::fmt::Error) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests;
