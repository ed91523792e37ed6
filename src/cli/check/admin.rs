//! Whether the worker's own addresses can be had, or a worker has them already.

use std::net::SocketAddr;

use serde::Deserialize;
use tokio::net::TcpListener;

use super::report::Line;
use crate::http::{self, BODY_CAP};

const TOPIC: &str = "admin";

/// What a running worker tells of itself.
#[derive(Debug, Deserialize)]
struct Running {
    version: String,
    uptime_seconds: u64,
}

/// Tries to listen where the worker would: at the admin address, and where Resend's events are taken. What a running
/// worker holds is as it should be.
pub(super) async fn check(admin: Option<SocketAddr>, webhook: Option<SocketAddr>) -> Vec<Line> {
    let running = match admin {
        Some(address) => running(address).await.map(|running| (address, running)),
        None => None,
    };
    if let Some((address, Running { version, uptime_seconds })) = running {
        let what = format!("a worker runs at {address}: version {version}, up for {uptime_seconds} s");
        return vec![Line::ok(TOPIC, what)];
    }
    let mut lines = vec![match admin {
        Some(address) => {
            listen(
                TOPIC,
                address,
                "set DELIVERY_ADMIN_ADDR to an address of this machine that is free, or to off",
            )
            .await
        }
        None => Line::skip(TOPIC, "DELIVERY_ADMIN_ADDR is off, or no address"),
    }];
    if let Some(address) = webhook {
        let mend = "set DELIVERY_WEBHOOK_ADDR to an address of this machine that is free";
        lines.push(listen("webhook", address, mend).await);
    }
    lines
}

async fn listen(topic: &'static str, address: SocketAddr, mend: &str) -> Line {
    match TcpListener::bind(address).await {
        Ok(_free) => Line::ok(topic, format!("{address} is free")),
        Err(error) => Line::fail(topic, format!("{address} cannot be had ({error})"), mend),
    }
}

async fn running(address: SocketAddr) -> Option<Running> {
    let client = http::client_builder().build().ok()?;
    let answer = client.get(format!("http://{address}/status.json")).send().await.ok()?;
    serde_json::from_slice(&http::read_capped(answer, BODY_CAP).await.ok()?).ok()
}
