//! The stand-in for a push service and the browsers behind it: `POST /push/{token}` and what they show.
//!
//! Owns the subscriptions and the order of the checks (RFC 8030, 8291, 8292). It must not know the
//! seam. It also plays the browser, which real services cannot: what the subscription's keys do not
//! open, or the app's service worker could not show, is refused with 400 instead of lost in silence.

mod decrypt;
#[cfg(test)]
mod tests;
mod vapid;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openssl::ec::EcKey;
use openssl::error::ErrorStack;
use serde::Deserialize;
use serde_json::{Value, json};

use self::decrypt::Receiver;
use super::faults::Faults;
use super::journal::{Endpoint, Event, Journal, ReceivedPush, Refused};
use super::server::Server;

/// The largest body that a push service must take (RFC 8030, section 7.2); real ones take no more.
const MAX_BODY: usize = 4096;
const MAX_TOPIC: usize = 32;
const URGENCIES: [&str; 4] = ["very-low", "low", "normal", "high"];

/// A push service with its browsers, served.
#[derive(Debug)]
pub struct PushService {
    service: Arc<Service>,
    server: Server,
    vapid: VapidKeys,
}

/// A VAPID key pair, base64url without padding. Made up at start: it protects nothing.
#[derive(Debug, Clone)]
pub struct VapidKeys {
    /// The scalar, as `VAPID_PRIVATE_KEY` takes it.
    pub private: String,
    /// The uncompressed point, as a browser's `applicationServerKey` takes it.
    pub public: String,
}

impl VapidKeys {
    /// A new random pair.
    ///
    /// # Errors
    /// OpenSSL has no randomness or memory.
    pub fn generate() -> io::Result<VapidKeys> {
        let make = || {
            let key = EcKey::generate(&*decrypt::p256()?)?;
            Ok::<_, ErrorStack>((key.private_key().to_vec_padded(32)?, decrypt::point_bytes(&key)?))
        };
        let (private, public) = make().map_err(io::Error::other)?;
        let [private, public] = [private, public].map(|bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes));
        Ok(VapidKeys { private, public })
    }
}

/// What a browser hands to the app.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// The last segment of the endpoint; names the subscription in journal and faults.
    pub token: String,
    /// The W3C PushSubscription JSON.
    pub json: Value,
}

#[derive(Debug)]
struct Service {
    origin: String,
    subscribers: Mutex<HashMap<String, Subscriber>>,
    journal: Journal,
    faults: Faults,
}

#[derive(Debug)]
struct Subscriber {
    receiver: Arc<Receiver>,
    vapid_public: String,
    gone: bool,
}

impl PushService {
    /// Starts a service without subscriptions on a port of 127.0.0.1 (0: any free one), and makes the
    /// VAPID keys that its subscriptions are bound to.
    ///
    /// # Errors
    /// The port is taken, or no keys can be made.
    pub async fn start(port: u16, journal: Journal) -> io::Result<PushService> {
        let listener = Server::bind(port).await?;
        let service = Arc::new(Service {
            origin: format!("http://{}", listener.local_addr()?),
            subscribers: Mutex::default(),
            faults: Faults::new(Endpoint::Push, journal.clone()),
            journal,
        });
        let router = Router::new().route("/push/{token}", post(receive)).with_state(Arc::clone(&service));
        Ok(PushService { service, server: Server::start(listener, router)?, vapid: VapidKeys::generate()? })
    }

    /// Its server: where it is, and how to stop it for a while.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What it is made to do wrong.
    pub fn faults(&self) -> &Faults {
        &self.service.faults
    }

    /// The keys that a worker needs to reach the subscriptions of [`PushService::subscribe`].
    pub fn vapid(&self) -> &VapidKeys {
        &self.vapid
    }

    /// A new subscription for the holder of [`PushService::vapid`].
    ///
    /// # Errors
    /// OpenSSL has no randomness or memory.
    pub fn subscribe(&self) -> io::Result<Subscription> {
        self.subscribe_for(&self.vapid.public)
    }

    /// A new subscription for the holder of another VAPID key, given by its public half. Everybody
    /// else gets 403.
    ///
    /// # Errors
    /// As [`PushService::subscribe`].
    pub fn subscribe_for(&self, vapid_public: &str) -> io::Result<Subscription> {
        let receiver = Arc::new(Receiver::generate().map_err(io::Error::other)?);
        let mut token = [0; 16];
        openssl::rand::rand_bytes(&mut token).map_err(io::Error::other)?;
        let token = BASE64_URL_SAFE_NO_PAD.encode(token);
        let json = json!({
            "endpoint": format!("{}/push/{token}", self.service.origin),
            "expirationTime": null,
            "keys": {"p256dh": receiver.p256dh(), "auth": receiver.auth()},
        });
        let subscriber = Subscriber { receiver, vapid_public: vapid_public.to_owned(), gone: false };
        self.service.subscribers().insert(token.clone(), subscriber);
        Ok(Subscription { token, json })
    }

    /// Ends a subscription, as a browser does: 410 from now on.
    pub fn unsubscribe(&self, token: &str) {
        if let Some(subscriber) = self.service.subscribers().get_mut(token) {
            subscriber.gone = true;
        }
    }

    /// The notifications that the devices show: of each subscription the last of a topic or tag.
    pub fn shown(&self) -> Vec<Arc<ReceivedPush>> {
        let mut shown: Vec<Arc<ReceivedPush>> = Vec::new();
        for push in self.service.journal.log().pushes() {
            shown.retain(|earlier| !replaces(push, earlier));
            shown.push(Arc::clone(push));
        }
        shown
    }
}

fn replaces(push: &ReceivedPush, earlier: &ReceivedPush) -> bool {
    let same_topic = push.topic.is_some() && push.topic == earlier.topic;
    push.token == earlier.token && (same_topic || push.tag == earlier.tag)
}

/// An answer that says no.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    why: &'static str,
}

fn bad(why: &'static str) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, why }
}

/// What the app's service worker gets.
#[derive(Debug, Deserialize)]
struct Notification {
    title: String,
    body: String,
    url: String,
    tag: String,
}

async fn receive(
    State(service): State<Arc<Service>>,
    Path(token): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match service.check(&token, &headers, &body) {
        Err(refusal) => service.refuse(&token, &refusal),
        Ok(push) => {
            let accept = || {
                let location = format!("{}/message/{}", service.origin, fastrand::u64(..));
                let ttl = push.ttl.to_string();
                service.journal.record(Event::Pushed(Arc::new(push)));
                (StatusCode::CREATED, [(LOCATION.as_str(), location), ("ttl", ttl)]).into_response()
            };
            service.faults.around(&[&token], accept).await
        }
    }
}

impl Service {
    fn subscribers(&self) -> MutexGuard<'_, HashMap<String, Subscriber>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, token: &str, Refusal { status, why }: &Refusal) -> Response {
        let target = Some(token.to_owned());
        let refused =
            Refused { endpoint: Endpoint::Push, target, status: status.as_u16(), why: (*why).to_owned() };
        self.journal.record(Event::Refused(refused));
        (*status, Json(json!({"reason": why}))).into_response()
    }

    fn check(&self, token: &str, headers: &HeaderMap, body: &[u8]) -> Result<ReceivedPush, Refusal> {
        let (receiver, vapid_public) = self.subscriber(token)?;
        let ttl = ttl(headers)?;
        if header(headers, CONTENT_ENCODING.as_str()) != Some("aes128gcm") {
            return Err(bad("Content-Encoding is not aes128gcm"));
        }
        let (topic, urgency) = (topic(headers)?, urgency(headers)?);
        self.check_sender(headers, &vapid_public)?;
        if body.len() > MAX_BODY {
            return Err(Refusal {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                why: "the body is over 4096 bytes",
            });
        }
        let plain = receiver.decrypt(body).map_err(|_| bad("the body cannot be decrypted"))?;
        let Notification { title, body, url, tag } =
            serde_json::from_slice(&plain).map_err(|_| bad("the payload is not {title, body, url, tag}"))?;
        Ok(ReceivedPush { token: token.to_owned(), title, body, url, tag, topic, ttl, urgency })
    }

    fn subscriber(&self, token: &str) -> Result<(Arc<Receiver>, String), Refusal> {
        match self.subscribers().get(token) {
            None => Err(Refusal { status: StatusCode::NOT_FOUND, why: "no such subscription" }),
            Some(subscriber) if subscriber.gone => {
                Err(Refusal { status: StatusCode::GONE, why: "the subscription has ended" })
            }
            Some(subscriber) => Ok((Arc::clone(&subscriber.receiver), subscriber.vapid_public.clone())),
        }
    }

    fn check_sender(&self, headers: &HeaderMap, vapid_public: &str) -> Result<(), Refusal> {
        let Some(authorization) = header(headers, AUTHORIZATION.as_str()) else {
            return Err(Refusal { status: StatusCode::UNAUTHORIZED, why: "Authorization is missing" });
        };
        let key = vapid::check(authorization, &self.origin, self.journal.now().wall)?;
        if key != vapid_public {
            return Err(Refusal {
                status: StatusCode::FORBIDDEN,
                why: "the subscription is of another VAPID key",
            });
        }
        Ok(())
    }
}

/// A header that is text; one that is not reads as a value that fits no check.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("\0"))
}

/// Required, in whole seconds (RFC 8030, section 5.2).
fn ttl(headers: &HeaderMap) -> Result<u32, Refusal> {
    let ttl = header(headers, "ttl").ok_or(bad("TTL is missing"))?;
    if !ttl.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad("TTL is not a whole number of seconds"));
    }
    ttl.parse().map_err(|_| bad("TTL is not a whole number of seconds"))
}

/// RFC 8030, section 5.4; Apple also decodes it, so that a length of 1 modulo 4 is refused.
fn topic(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(topic) = header(headers, "topic") else { return Ok(None) };
    let alphabet = topic.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if !alphabet || topic.is_empty() || topic.len() > MAX_TOPIC || topic.len() % 4 == 1 {
        return Err(bad("Topic is not 1 to 32 characters of base64url"));
    }
    Ok(Some(topic.to_owned()))
}

/// RFC 8030, section 5.3.
fn urgency(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(urgency) = header(headers, "urgency") else { return Ok(None) };
    if !URGENCIES.contains(&urgency) {
        return Err(bad("Urgency is unknown"));
    }
    Ok(Some(urgency.to_owned()))
}
