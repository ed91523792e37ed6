//! The listener for what Resend tells unasked: bounces, complaints and the like, as they happen.
//!
//! Owns the endpoint and its answers. Nothing is believed without a good signature; an event is answered with 200
//! only once the seam has taken its ack, so that Resend tells again what this process could not pass on. It must not
//! know what an ack does.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use chrono::Utc;
use lru::LruCache;
use tokio::net::TcpListener;

use crate::channel::email;
use crate::engine::Engine;
use crate::envelope::ChannelName;
use crate::http::BODY_CAP;
use crate::serve::accept_all;
use crate::telemetry::events::{Events, Unasked};

mod event;
mod signature;

pub use signature::Key;

use event::Event;
use signature::Stamp;

/// Where events are posted to.
pub const PATH: &str = "/webhooks/resend";
/// Resend waits for an answer for 15 s, then tells again later.
const PATIENCE: Duration = Duration::from_secs(10);
/// One request and its answer.
const DEADLINE: Duration = Duration::from_secs(20);
/// Events that were passed on are remembered by their ids: Resend tells again what it had no answer to.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// What the operator sets for it.
#[derive(Debug)]
pub struct Settings {
    /// RESEND_WEBHOOK_SECRET.
    pub key: Key,
    /// DELIVERY_WEBHOOK_ADDR.
    pub address: SocketAddr,
}

/// The listener, bound and not yet serving.
#[derive(Debug)]
pub struct Webhook {
    listener: TcpListener,
    address: SocketAddr,
    key: Key,
}

/// The address cannot be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "the webhook listener cannot listen on {address} ({why}): DELIVERY_WEBHOOK_ADDR sets another address"
)]
pub struct BindError {
    /// What was asked for.
    pub address: SocketAddr,
    /// What the system says.
    pub why: io::Error,
}

impl Webhook {
    /// Takes the address. Port 0 takes a free one: see [`Webhook::address`].
    ///
    /// # Errors
    /// It is in use, or not one of this machine's.
    pub async fn bind(settings: Settings) -> Result<Webhook, BindError> {
        let Settings { key, address } = settings;
        let bound = TcpListener::bind(address).await.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.map_err(|why| BindError { address, why })?;
        Ok(Webhook { listener, address, key })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` comes.
    pub async fn serve(self, engine: Arc<Engine>, events: Events, stop: impl Future<Output = ()>) {
        let passed_on = Mutex::new(LruCache::new(REMEMBERED));
        let desk = Arc::new(Desk { key: self.key, engine, events, passed_on });
        let routes =
            Router::new().route(PATH, post(receive)).layer(DefaultBodyLimit::max(BODY_CAP)).with_state(desk);
        tokio::select! {
            () = accept_all(self.listener, routes, DEADLINE) => {}
            () = stop => {}
        }
    }
}

struct Desk {
    key: Key,
    engine: Arc<Engine>,
    events: Events,
    passed_on: Mutex<LruCache<String, ()>>,
}

async fn receive(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let (what, status) = desk.take_in(&headers, &body).await;
    desk.events.unasked(&email(), what);
    status
}

fn email() -> ChannelName {
    ChannelName::new(email::NAME)
}

impl Desk {
    async fn take_in(&self, headers: &HeaderMap, body: &[u8]) -> (Unasked, StatusCode) {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let stamp = Stamp {
            id: header("svix-id"),
            timestamp: header("svix-timestamp"),
            signatures: header("svix-signature"),
        };
        if let Err(disbelief) = self.key.verify(stamp, body, Utc::now()) {
            tracing::debug!("an event is not believed: {disbelief}");
            return (Unasked::Refused, StatusCode::UNAUTHORIZED);
        }
        if self.remembered().contains(stamp.id) {
            return (Unasked::Repeated, StatusCode::OK);
        }
        let (what, status) = match event::read(body) {
            Event::About(envelope, fate) => {
                match self.engine.learn(&email(), &envelope, fate, PATIENCE).await {
                    true => (Unasked::PassedOn, StatusCode::OK),
                    false => return (Unasked::NotYet, StatusCode::SERVICE_UNAVAILABLE),
                }
            }
            Event::Open => (Unasked::Open, StatusCode::OK),
            Event::Stranger => (Unasked::Stranger, StatusCode::OK),
            // Telling it again would make it no better.
            Event::Unreadable => (Unasked::Unreadable, StatusCode::OK),
        };
        self.remembered().put(stamp.id.to_owned(), ());
        (what, status)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, LruCache<String, ()>> {
        self.passed_on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
