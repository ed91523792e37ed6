//! Stand-ins that cost next to nothing: an outbox, Resend and a push service that check no more than they must.
//!
//! Owns what they hold, and when each envelope was first listed and acked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// A browser's keys (RFC 8291, 5): whoever encrypts for them works as hard as for any other.
pub(crate) const KEYS: (&str, &str) = (
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "BTBZMqHH6r4Tts7J_aSIgg",
);

/// Which envelopes an outbox holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// `email` or `push`.
    pub(crate) channel: &'static str,
    /// How many.
    pub(crate) envelopes: usize,
    /// How many of them the outbox lists as pending at once.
    pub(crate) pending: usize,
    /// The size of each as JSON, at least, in bytes.
    pub(crate) bytes: usize,
    /// How long the provider takes.
    pub(crate) answers_after: Duration,
}

struct Entry {
    json: String,
    listed: Option<Instant>,
    acked: Option<Instant>,
}

struct Outbox {
    channel: &'static str,
    pending: usize,
    entries: Vec<Entry>,
    /// Everything before it is acked.
    first: usize,
    acked: usize,
    open: bool,
}

struct Shared {
    outbox: Mutex<Outbox>,
    answers_after: Duration,
    /// The size of the last message's body.
    body: AtomicUsize,
    asked: AtomicUsize,
    failed: AtomicUsize,
    moved: Notify,
}

/// All three, on one address.
pub(crate) struct Stand {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Stand {
    /// Serves `load`, of which nothing is listed before [`Stand::open`].
    pub(crate) async fn start(load: &Load) -> std::io::Result<Stand> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let entry = |n| Entry { json: envelope(load, n, address), listed: None, acked: None };
        let outbox = Outbox {
            channel: load.channel,
            pending: load.pending,
            entries: (0..load.envelopes).map(entry).collect(),
            first: 0,
            acked: 0,
            open: false,
        };
        let shared = Arc::new(Shared {
            outbox: Mutex::new(outbox),
            answers_after: load.answers_after,
            body: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            moved: Notify::new(),
        });
        let app = Router::new()
            .route("/internal/outbox/pending", get(pending))
            .route("/internal/outbox/{id}/status", post(status))
            .route("/emails", post(email))
            .route("/push/{n}", post(push))
            .with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Stand { address, shared })
    }

    /// From now on what is pending is listed.
    pub(crate) fn open(&self) {
        self.shared.lock().open = true;
    }

    /// Waits until all is acked.
    pub(crate) async fn drained(&self) {
        self.until(|shared| {
            let outbox = shared.lock();
            outbox.acked == outbox.entries.len()
        })
        .await;
    }

    /// Waits until pages have been asked for so many times.
    pub(crate) async fn asked(&self, times: usize) {
        self.until(|shared| shared.asked.load(Ordering::Relaxed) >= times).await;
    }

    async fn until(&self, holds: impl Fn(&Shared) -> bool) {
        loop {
            let moved = self.shared.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if holds(&self.shared) {
                return;
            }
            moved.await;
        }
    }

    /// The size of the last message's body, in bytes.
    pub(crate) fn body(&self) -> usize {
        self.shared.body.load(Ordering::Relaxed)
    }

    /// How often a page was asked for.
    pub(crate) fn pages(&self) -> usize {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// How many were acked as anything but delivered, which no measurement is made of.
    pub(crate) fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// From the first listing of any to the last ack.
    pub(crate) fn took(&self) -> Duration {
        let outbox = self.shared.lock();
        let first = outbox.entries.iter().filter_map(|entry| entry.listed).min();
        let last = outbox.entries.iter().filter_map(|entry| entry.acked).max();
        first.zip(last).map(|(first, last)| last - first).unwrap_or_default()
    }

    /// From the first listing to the ack, of all that are acked, shortest first.
    pub(crate) fn lags(&self) -> Vec<Duration> {
        let outbox = self.shared.lock();
        let lag = |entry: &Entry| Some(entry.acked?.duration_since(entry.listed?));
        let mut lags: Vec<_> = outbox.entries.iter().filter_map(lag).collect();
        lags.sort();
        lags
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().expect("nothing panics under it")
    }
}

/// The id of the `n`th envelope.
pub(crate) fn id(n: usize) -> String {
    format!("0192f1c2-7b1e-7c3a-9d2e-{n:012}")
}

/// A digest by mail, a nudge by push; whatever is to be larger is a digest.
fn envelope(load: &Load, n: usize, address: SocketAddr) -> String {
    let example = match load.channel {
        "push" if load.bytes == 0 => include_str!("../../templates/resurface-nudge.v1/example.json"),
        _ => include_str!("../../templates/your-week-digest.v1/example.json"),
    };
    let mut envelope: Value = serde_json::from_str(example).expect("an example is JSON");
    envelope["id"] = id(n).into();
    envelope["channel"] = load.channel.into();
    // The example's is of some day long past, and a push lives for a week.
    envelope["created_at"] = chrono::Utc::now().to_rfc3339().into();
    envelope["expires_at"] = Value::Null;
    envelope["recipient"] = match load.channel {
        "push" => {
            let (p256dh, auth) = KEYS;
            let endpoint = format!("http://{address}/push/{n}");
            json!({"push_subscription": {"endpoint": endpoint, "keys": {"p256dh": p256dh, "auth": auth}}})
        }
        _ => json!({"email": format!("reader{n}@example.com"), "email_verified": true}),
    };
    let lacks = load.bytes.saturating_sub(envelope.to_string().len());
    if let Some(Value::String(quote)) = envelope.pointer_mut("/payload/sections/0/items/0/quote") {
        quote.push_str(&" and so on".repeat(lacks.div_ceil(10)));
    }
    envelope.to_string()
}

#[derive(Deserialize)]
struct Asked {
    channel: String,
    limit: usize,
}

async fn pending(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> impl IntoResponse {
    shared.asked.fetch_add(1, Ordering::Relaxed);
    shared.moved.notify_waiters();
    let mut page = String::from(r#"{"envelopes":["#);
    let mut outbox = shared.lock();
    if outbox.open && outbox.channel == asked.channel {
        let (first, most) = (outbox.first, asked.limit.min(outbox.pending));
        let now = Instant::now();
        let waiting = outbox.entries.iter_mut().skip(first).filter(|entry| entry.acked.is_none());
        for (n, entry) in waiting.take(most).enumerate() {
            entry.listed.get_or_insert(now);
            if n > 0 {
                page.push(',');
            }
            page.push_str(&entry.json);
        }
    }
    page.push_str("]}");
    ([(header::CONTENT_TYPE, "application/json")], page)
}

async fn status(State(shared): State<Arc<Shared>>, Path(id): Path<String>, body: Bytes) -> impl IntoResponse {
    let now = Instant::now();
    if body.as_ref() != br#"{"status":"delivered"}"# {
        shared.failed.fetch_add(1, Ordering::Relaxed);
    }
    let n: usize = id.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or_default();
    {
        let mut outbox = shared.lock();
        if outbox.entries[n].acked.replace(now).is_none() {
            outbox.acked += 1;
        }
        while outbox.entries.get(outbox.first).is_some_and(|entry| entry.acked.is_some()) {
            outbox.first += 1;
        }
    }
    shared.moved.notify_waiters();
    ([(header::CONTENT_TYPE, "application/json")], r#"{"status":"delivered"}"#)
}

async fn email(State(shared): State<Arc<Shared>>, body: Bytes) -> impl IntoResponse {
    shared.body.store(body.len(), Ordering::Relaxed);
    answer_after(shared.answers_after).await;
    ([(header::CONTENT_TYPE, "application/json")], r#"{"id":"49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"}"#)
}

async fn push(State(shared): State<Arc<Shared>>, body: Bytes) -> impl IntoResponse {
    shared.body.store(body.len(), Ordering::Relaxed);
    answer_after(shared.answers_after).await;
    (StatusCode::CREATED, [(header::LOCATION, "https://push.example/m/1")])
}

async fn answer_after(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
