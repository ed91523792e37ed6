//! Whether the admin address can be had, or a worker has it already.

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

/// Tries to listen at `address`.
pub(super) async fn check(address: Option<SocketAddr>) -> Line {
    let Some(address) = address else {
        return Line::skip(TOPIC, "DELIVERY_ADMIN_ADDR is off, or no address");
    };
    match TcpListener::bind(address).await {
        Ok(_free) => Line::ok(TOPIC, format!("{address} is free")),
        Err(error) => match running(address).await {
            Some(Running { version, uptime_seconds }) => Line::ok(
                TOPIC,
                format!("a worker runs at {address}: version {version}, up for {uptime_seconds} s"),
            ),
            None => Line::fail(
                TOPIC,
                format!("{address} cannot be had ({error})"),
                "set DELIVERY_ADMIN_ADDR to an address of this machine that is free, or to off",
            ),
        },
    }
}

async fn running(address: SocketAddr) -> Option<Running> {
    let client = http::client_builder().build().ok()?;
    let answer = client.get(format!("http://{address}/status.json")).send().await.ok()?;
    serde_json::from_slice(&http::read_capped(answer, BODY_CAP).await.ok()?).ok()
}
