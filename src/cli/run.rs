//! `run` and `drain`: the worker itself, until it is told to stop or has nothing left to do.
//!
//! Owns the signals and the last words. It must not know how anything is delivered.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::{Exit, Failure, begin, library, progress, runtime};
use crate::config::Environment;
use crate::engine::{End, Mode, Report};
use crate::telemetry::recent::Tally;
use crate::telemetry::screen::Screen;
use crate::telemetry::systemd;
use crate::worker::{Reloader, Worker};

/// Reads the configuration and runs the worker in `mode`.
///
/// # Errors
/// The configuration or a template is wrong, or the admin address is taken.
pub fn run(mode: Mode) -> Result<Exit, Failure> {
    let runtime = runtime()?;
    // Before anything that takes time: a signal that nobody listens for kills.
    let signals = runtime.block_on(async { Signals::listen() }).context("signals cannot be received")?;
    let hangups = runtime.block_on(async { signal(SignalKind::hangup()) });
    let hangups = hangups.context("signals cannot be received")?;
    let screen = if mode == Mode::Drain { Screen::of_stderr() } else { Screen::plain() };
    // Kept to the end: dropped, they send what is left.
    let (config, _traces) = begin(&Environment::of_process(), &screen)?;
    let library = library(config.rendering.clone())?;
    let report = runtime.block_on(async {
        let worker = Worker::new(config, library).await?;
        tokio::spawn(reload(hangups, worker.reloader()));
        Ok::<_, anyhow::Error>(work(worker, signals, mode, &screen).await)
    });
    // What the system keeps a thread for (a lookup whose name server is silent, a file on a dead mount)
    // must not keep the worker: dropped, the runtime would wait for it.
    runtime.shutdown_background();
    let (report, tally) = report?;
    tell(&report, &tally);
    Ok(exit_of(&report))
}

async fn work(worker: Worker, signals: Signals, mode: Mode, screen: &Screen) -> (Report, Tally) {
    let admin = worker.admin_address().map(|address| address.to_string());
    let channels = worker.channels().join(",");
    let webhook = worker.webhook_address().map(|address| address.to_string());
    tracing::info!(version = env!("CARGO_PKG_VERSION"), channels, admin, webhook, "delivering");
    let (engine, recent) = (worker.engine(), worker.recent());
    let mut told = JoinSet::new();
    // A task of its own: where the engine's state cannot be had, it alone waits, and the pings cease.
    told.spawn({
        let engine = engine.clone();
        async move { match systemd::follow(&*engine).await {} }
    });
    let stop = async {
        signals.next().await;
        systemd::stopping();
    };
    let progress = async {
        match mode {
            Mode::Drain => progress::follow(&engine, &recent, screen).await,
            // A daemon's progress is its log, its metrics and its page.
            Mode::Daemon => std::future::pending().await,
        }
    };
    let report = tokio::select! {
        report = worker.run(mode, stop, signals.next()) => report,
        never = progress => match never {},
    };
    (report, recent.tally())
}

/// SIGHUP: what was changed is taken in.
async fn reload(mut hangups: Signal, reloader: Reloader) {
    while hangups.recv().await.is_some() {
        let reloader = reloader.clone();
        // A panic in there has been logged; the next SIGHUP may go better.
        let reload = move || {
            let _reloading = systemd::reloading();
            reloader.reload();
        };
        tokio::task::spawn_blocking(reload).await.ok();
    }
}

/// SIGTERM and SIGINT, which ask for the same: the first to stop, the second to stop now.
pub(super) struct Signals(Mutex<(Signal, Signal)>);

impl Signals {
    pub(super) fn listen() -> std::io::Result<Signals> {
        Ok(Signals(Mutex::new((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))))
    }

    pub(super) async fn next(&self) {
        let mut signals = self.0.lock().await;
        let (terminate, interrupt) = &mut *signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

fn exit_of(report: &Report) -> Exit {
    match report.exit_code() {
        0 => Exit::Clean,
        75 => Exit::Unfinished,
        _ => Exit::Failed,
    }
}

/// The last line says what has ended and what is left, so that nobody has to guess.
fn tell(report: &Report, tally: &Tally) {
    let Tally { delivered, bounced, complaint, suppressed, failed, withdrawn } = tally;
    tracing::info!(delivered, bounced, complaint, suppressed, failed, withdrawn, "in all");
    let Report { end, cut, unacked, due_left } = report;
    let why = match end {
        End::Stopped => "stopped".to_owned(),
        End::Drained => "drained".to_owned(),
        End::Seam(error) => format!("gave up: {error}"),
        End::Died => "a loop of the engine died: a defect of the worker".to_owned(),
    };
    if let End::Seam(_) | End::Died = end {
        tracing::error!(cut, unacked, due_left, "{why}");
    } else if *cut + *unacked > 0 {
        tracing::warn!(
            cut,
            unacked,
            due_left,
            "{why}; sends were cut or acks are not through: the next run finishes them"
        );
    } else {
        tracing::info!(cut, unacked, due_left, "{why}");
    }
}
