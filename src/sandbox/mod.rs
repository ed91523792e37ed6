//! Stand-ins for everything that the worker talks to: the app's seam, Resend and a push service.
//!
//! Owns [`Sandbox`], the three together, and what a worker is told to find them. They check what the
//! real ones check, so that a wrong request fails here first, and they can be made to fail as real ones
//! do. They must not know the worker: they are reached over HTTP alone.

pub mod desk;
pub mod examples;
pub mod faults;
pub mod journal;
pub mod push;
pub mod resend;
pub mod seam;
mod server;
#[cfg(test)]
mod testing;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use self::desk::Desk;
pub use self::faults::{Fault, Faults};
pub use self::journal::Journal;
pub use self::push::{PushService, Subscription};
pub use self::resend::Resend;
pub use self::seam::Seam;
pub use self::server::Server;
use crate::clock::{Clock, SystemClock};

/// What mail is sent from.
const MAIL_DOMAIN: &str = "mail.example.com";

/// How to start a [`Sandbox`]. The secrets in it are made up and protect nothing.
#[derive(Clone)]
pub struct Options {
    /// The seam's port on 127.0.0.1; 0 is any free one.
    pub seam_port: u16,
    /// Resend's port.
    pub resend_port: u16,
    /// The push service's port.
    pub push_port: u16,
    /// What the seam wants in X-Internal-Token. `None`: it has none configured and answers 503.
    pub token: Option<String>,
    /// The key that Resend takes.
    pub resend_api_key: String,
    /// How many requests Resend takes in a second. `None`: any number, and no rate headers.
    pub resend_rate: Option<u32>,
    /// How much of the past is kept, for one that runs for long: so many pages, so many other entries of the
    /// journal, so many settled envelopes. `None`: everything.
    pub keep: Option<usize>,
    /// Where the stand-ins read the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seam_port: 0,
            resend_port: 0,
            push_port: 0,
            token: Some("sandbox-token".to_owned()),
            resend_api_key: "re_sandbox_key".to_owned(),
            resend_rate: None,
            keep: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// One of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandIn {
    /// The app's outbox.
    Seam,
    /// The mail provider.
    Resend,
    /// The push service.
    Push,
}

impl fmt::Display for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StandIn::Seam => "the outbox",
            StandIn::Resend => "the stand-in for Resend",
            StandIn::Push => "the push service",
        })
    }
}

/// A stand-in cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("{stand_in} cannot be served on port {port} of 127.0.0.1 ({why})")]
pub struct StartError {
    /// Which.
    pub stand_in: StandIn,
    /// What was asked for.
    pub port: u16,
    /// What the system says.
    pub why: io::Error,
}

/// The three stand-ins with one journal. Dropping it stops them.
#[derive(Debug)]
pub struct Sandbox {
    /// What happened at all three, in order.
    pub journal: Journal,
    /// The app.
    pub seam: Seam,
    /// The mail provider.
    pub resend: Resend,
    /// The push service.
    pub push: PushService,
    token: Option<String>,
    resend_api_key: String,
}

impl Sandbox {
    /// Starts all three.
    ///
    /// # Errors
    /// A port is taken, or no keys can be made.
    pub async fn start(options: Options) -> Result<Sandbox, StartError> {
        let journal = Journal::new(options.clock);
        let journal = match options.keep {
            Some(entries) => journal.keeping(entries),
            None => journal,
        };
        let (token, resend_api_key) = (options.token, options.resend_api_key);
        let failed = |stand_in, port| move |why| StartError { stand_in, port, why };
        let seam = Seam::start(options.seam_port, token.clone(), journal.clone())
            .await
            .map_err(failed(StandIn::Seam, options.seam_port))?;
        let rate = options.resend_rate;
        let resend = Resend::start(options.resend_port, resend_api_key.clone(), rate, journal.clone())
            .await
            .map_err(failed(StandIn::Resend, options.resend_port))?;
        let push = PushService::start(options.push_port, journal.clone())
            .await
            .map_err(failed(StandIn::Push, options.push_port))?;
        Ok(Sandbox { seam, resend, push, journal, token, resend_api_key })
    }

    /// The environment variables of a worker that drains this sandbox by email and push.
    pub fn worker_env(&self) -> Vec<(&'static str, String)> {
        vec![
            ("OUTBOX_BASE_URL", self.seam.server().url()),
            ("INTERNAL_OUTBOX_TOKEN", self.token.clone().unwrap_or_else(|| "none-configured".to_owned())),
            ("APP_ORIGIN", examples::APP_ORIGIN.to_owned()),
            ("RESEND_BASE_URL", self.resend.server().url()),
            ("RESEND_API_KEY", self.resend_api_key.clone()),
            ("MAIL_FROM", format!("Marginalia <digest@{MAIL_DOMAIN}>")),
            ("VAPID_PRIVATE_KEY", self.push.vapid().private.clone()),
            ("VAPID_SUBJECT", "mailto:ops@example.com".to_owned()),
            ("PUSH_ALLOW_PRIVATE_ENDPOINTS", "true".to_owned()),
        ]
    }
}
