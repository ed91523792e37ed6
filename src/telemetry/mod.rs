//! What the operator sees: logs, metrics, health.
//!
//! Owns the events (one log line and one metric each), the status that `/readyz` and `/metrics` tell,
//! and the server that tells them. It must not decide anything.

pub mod admin;
pub mod events;
pub mod gauges;
pub mod logs;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod page;
pub mod recent;
pub mod screen;
pub mod status;
pub mod systemd;
