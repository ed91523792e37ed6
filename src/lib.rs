//! delivery-worker: drains an app's outbox and delivers each envelope by email or push.
//!
//! Read ARCHITECTURE.md for the map. The order of dependence is
//! `cli → worker → engine → channel → render → envelope, outcome`.

pub mod channel;
pub mod cli;
pub mod clock;
pub mod config;
pub mod engine;
pub mod envelope;
pub mod http;
pub mod outbox;
pub mod outcome;
pub mod render;
pub mod sandbox;
pub mod serve;
pub mod telemetry;
pub mod trace;
pub mod webhook;
pub mod worker;
