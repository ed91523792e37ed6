//! The program as a value: everything that a configuration asks for, put together, and its run.
//!
//! Owns the wiring of seam, channels, templates, telemetry and engine. It must not know the command
//! line or where the configuration came from, so that a test or the demo runs the very same thing.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::channel::email::{self, EmailChannel};
use crate::channel::push::{self, PushChannel};
use crate::channel::{self, Channel};
use crate::clock::SystemClock;
use crate::config::{Config, Workers};
use crate::engine::{Engine, LaneSettings, Mode, Parts, Report};
use crate::outbox::HttpSeam;
use crate::render::Library;
use crate::telemetry::admin::Admin;
use crate::telemetry::events::Events;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::recent::Recent;
use crate::telemetry::status::StatusSource;
use crate::webhook::Webhook;

/// A worker, ready to run.
pub struct Worker {
    engine: Arc<Engine>,
    library: Arc<Library>,
    recent: Recent,
    admin: Option<(Admin, Registry)>,
    webhook: Option<Webhook>,
    events: Events,
}

impl Worker {
    /// Puts a worker together and binds the admin address; nothing is asked of the seam or a provider
    /// yet.
    ///
    /// # Errors
    /// The admin address is taken, or the HTTP clients cannot be built.
    pub async fn new(config: Config, library: Library) -> anyhow::Result<Worker> {
        let library = Arc::new(library);
        let seam = HttpSeam::new(config.outbox).context("the client for the seam cannot be built")?;
        let channels = channels(config.email, config.push, config.workers)?;
        let metrics = Metrics::new(channels.iter().map(|(channel, _)| channel.name()));
        let events = Events::new(metrics.clone());
        let admin = match config.admin_addr {
            Some(address) => {
                let mut registry = Registry::default();
                metrics.register(&mut registry);
                Some((Admin::bind(address).await?, registry))
            }
            None => None,
        };
        let webhook = match config.webhook {
            Some(settings) => Some(Webhook::bind(settings).await?),
            None => None,
        };
        let recent = events.recent();
        let engine = Engine::new(Parts {
            seam: Arc::new(seam),
            channels,
            known: channel::known().into(),
            library: library.clone(),
            clock: Arc::new(SystemClock),
            events: events.clone(),
            settings: config.engine,
        });
        Ok(Worker { engine, library, recent, admin, webhook, events })
    }

    /// Where the admin server listens, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|(admin, ..)| admin.address())
    }

    /// Where Resend's events are taken, if anywhere.
    pub fn webhook_address(&self) -> Option<SocketAddr> {
        self.webhook.as_ref().map(Webhook::address)
    }

    /// The channels that it drains.
    pub fn channels(&self) -> Vec<String> {
        self.engine.status().lanes.iter().map(|lane| lane.channel.to_string()).collect()
    }

    /// A handle for whoever reloads while the worker runs.
    pub fn reloader(&self) -> Reloader {
        Reloader { engine: self.engine.clone(), library: self.library.clone() }
    }

    /// The state, for whoever shows it while the worker runs.
    pub fn engine(&self) -> Arc<Engine> {
        self.engine.clone()
    }

    /// What has become of envelopes since the start.
    pub fn recent(&self) -> Recent {
        self.recent.clone()
    }

    /// Runs until `stop`, or in [`Mode::Drain`] until there is nothing left to do; `abort` cuts short
    /// what is still being finished then.
    pub async fn run(
        self,
        mode: Mode,
        stop: impl Future<Output = ()>,
        abort: impl Future<Output = ()>,
    ) -> Report {
        let mut serving = JoinSet::new();
        if let Some((admin, registry)) = self.admin {
            serving.spawn(admin.serve(registry, self.engine.clone(), self.recent, std::future::pending()));
        }
        if let Some(webhook) = self.webhook {
            serving.spawn(webhook.serve(self.engine.clone(), self.events, std::future::pending()));
        }
        let report = self.engine.run(mode, stop, abort).await;
        serving.abort_all();
        report
    }
}

type Lanes = Vec<(Arc<dyn Channel>, LaneSettings)>;

fn channels(
    email: Option<email::Settings>,
    push: Option<push::Settings>,
    workers: Workers,
) -> anyhow::Result<Lanes> {
    let mut channels: Lanes = Vec::new();
    if let Some(settings) = email {
        let channel = EmailChannel::new(settings).context("the client for Resend cannot be built")?;
        channels.push((Arc::new(channel), lane(workers.email)));
    }
    if let Some(settings) = push {
        let channel = PushChannel::new(settings).context("the client for push cannot be built")?;
        channels.push((Arc::new(channel), lane(workers.push)));
    }
    Ok(channels)
}

fn lane(workers: usize) -> LaneSettings {
    LaneSettings { workers, seed: fastrand::u64(..) }
}

/// Takes in what was changed while the worker runs.
#[derive(Clone)]
pub struct Reloader {
    engine: Arc<Engine>,
    library: Arc<Library>,
}

impl Reloader {
    /// Loads the templates again, all or nothing, and lets each closed gate probe at once.
    pub fn reload(&self) {
        match self.library.reload() {
            Ok(()) => tracing::info!("templates loaded again, closed gates probe at once"),
            Err(errors) => tracing::error!("templates not loaded again, the old ones stay: {errors}"),
        }
        self.engine.probe_gates();
    }
}
