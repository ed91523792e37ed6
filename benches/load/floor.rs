//! The floor: what the protocol itself costs, made with the worker's own HTTP client and nothing around it.
//!
//! Per envelope one request to the provider and one ack, and a page for each window; for push one encryption. No
//! rendering, no reading, no order, no gates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use delivery_worker::http::{BODY_CAP, client_builder, read_capped};
use reqwest::{Client, Response};
use tokio::task::JoinSet;
use web_push::{ContentEncoding, SubscriptionInfo, WebPushMessageBuilder};

use crate::Anything;
use crate::process::own_cpu;
use crate::stand::{KEYS, id};

/// What aes128gcm adds to a plaintext: the header with a key of 65 bytes (RFC 8188, 2.1), one byte of padding, the tag.
const ENCRYPTION: usize = 86 + 1 + 16;

/// What is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Floor {
    pub(crate) channel: String,
    pub(crate) address: String,
    pub(crate) envelopes: usize,
    /// How many at once.
    pub(crate) workers: usize,
    /// The size of a message's body, in bytes: as large as what the worker sends for the same envelopes.
    pub(crate) body: usize,
}

/// Sends and acks them; the CPU seconds that it took.
pub(crate) async fn run(floor: Floor) -> Result<f64, Anything> {
    let Floor { channel, address, envelopes, workers: at_once, body } = floor;
    // As the worker has them: one client for the provider, one for the seam.
    let (provider, seam) = (client_builder().build()?, client_builder().build()?);
    let next = Arc::new(AtomicUsize::new(0));
    let before = own_cpu()?;
    let mut workers = JoinSet::new();
    for _ in 0..at_once {
        let (provider, seam, next) = (provider.clone(), seam.clone(), next.clone());
        let (channel, address) = (channel.clone(), address.clone());
        workers.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= envelopes {
                    return Ok::<_, Anything>(());
                }
                if n % 500 == 0 {
                    let page =
                        format!("http://{address}/internal/outbox/pending?channel={channel}&limit=500");
                    read(seam.get(page).header("x-internal-token", "token").send().await?, 16 << 20).await?;
                }
                match channel.as_str() {
                    "push" => push(&provider, &address, n, body).await?,
                    _ => email(&provider, &address, n, body).await?,
                }
                ack(&seam, &address, n).await?;
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok((own_cpu()? - before).as_secs_f64())
}

async fn email(client: &Client, address: &str, n: usize, body: usize) -> Result<(), Anything> {
    let request = client
        .post(format!("http://{address}/emails"))
        .header("authorization", "Bearer re_0123456789")
        .header("idempotency-key", id(n))
        .header("content-type", "application/json")
        .body("x".repeat(body));
    read(request.send().await?, BODY_CAP).await
}

async fn push(client: &Client, address: &str, n: usize, body: usize) -> Result<(), Anything> {
    let subscription = SubscriptionInfo::new("https://push.invalid/", KEYS.0, KEYS.1);
    let plaintext = "x".repeat(body.saturating_sub(ENCRYPTION));
    let mut builder = WebPushMessageBuilder::new(&subscription);
    builder.set_payload(ContentEncoding::Aes128Gcm, plaintext.as_bytes());
    let encrypted = builder.build()?.payload.map(|payload| payload.content).unwrap_or_default();
    let request = client
        .post(format!("http://{address}/push/{n}"))
        .header("ttl", "604800")
        .header("urgency", "normal")
        .header("topic", "0123456789abcdef0123456789abcdef")
        .header("content-encoding", "aes128gcm")
        .header("content-type", "application/octet-stream")
        // As long as a real one.
        .header("authorization", format!("vapid t={}", "x".repeat(330)))
        .body(encrypted);
    read(request.send().await?, BODY_CAP).await
}

async fn ack(client: &Client, address: &str, n: usize) -> Result<(), Anything> {
    let request = client
        .post(format!("http://{address}/internal/outbox/{}/status", id(n)))
        .header("x-internal-token", "token")
        .header("content-type", "application/json")
        .body(r#"{"status":"delivered"}"#);
    read(request.send().await?, BODY_CAP).await
}

async fn read(answer: Response, cap: usize) -> Result<(), Anything> {
    read_capped(answer.error_for_status()?, cap).await?;
    Ok(())
}
