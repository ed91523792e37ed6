//! What the worker promises as a whole: the program as it is run, and the order of the code.
//!
//! One binary for all of it, so that it links once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod acks;
mod architecture;
mod cases;
mod check;
mod cli;
mod confirming;
mod draining;
mod happy;
mod harness;
mod hostile;
mod in_process;
mod lanes;
mod observability;
mod operator;
mod outages;
mod page;
mod privacy;
mod progress;
mod reload;
mod sameness;
mod stopping;
mod systemd;
mod torture;
#[cfg(feature = "otlp")]
mod traces;
mod webhook;
