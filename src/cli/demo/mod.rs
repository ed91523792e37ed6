//! `demo`: the real worker against the stand-ins, with an envelope for each way to end.
//!
//! Owns the course of the show and its verdict as an exit code. Everything crosses real HTTP on loopback:
//! the worker is built from a configuration like any other. It must not reach into the worker.

use std::collections::HashSet;
use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::cast::{Expected, Role};
use self::ending::{Ending, Evidence, How};
use self::mails::Mails;
use super::run::Signals;
use super::sandbox::KEEP;
use super::{Exit, Failure, library, progress, runtime};
use crate::config::{Config, Environment};
use crate::engine::{Engine, Mode};
use crate::render::Library;
use crate::sandbox::desk::Desk;
use crate::sandbox::journal::{Event, Log};
use crate::sandbox::{Options, Sandbox, Subscription, examples};
use crate::telemetry::logs;
use crate::telemetry::screen::Screen;
use crate::telemetry::status::StatusSource;
use crate::worker::Worker;

mod cast;
mod ending;
mod mails;
mod show;
#[cfg(test)]
mod tests;

/// How the demo is played.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// End after the table; the exit code is 0 only if each envelope ended as it should
    #[arg(long)]
    pub once: bool,

    /// Where the mails are left as files: made if it is not there [default: a fresh directory for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Several times what the show takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two fresh envelopes, once the table is shown.
const PAUSE: Duration = Duration::from_secs(4);
/// What the stand-in for Resend takes in a second: as the real one by its documentation.
const RESEND_RATE: u32 = 10;

/// Variables of the worker that make it quick enough to watch. The port is any free one, so that the
/// demo runs beside a worker.
const QUICK: [(&str, &str); 5] = [
    ("DELIVERY_POLL_INTERVAL", "300ms"),
    ("DELIVERY_RETRY_BASE", "200ms"),
    ("DELIVERY_RETRY_MAX", "1s"),
    ("DELIVERY_MAX_ATTEMPTS", "4"),
    ("DELIVERY_ADMIN_ADDR", "127.0.0.1:0"),
];

/// Plays the demo and shows it on `out`; `env` looks up a variable.
///
/// # Errors
/// Something that it needs cannot be had: a port, a thread, the directory of the mails, an output.
pub fn run(
    args: &DemoArgs,
    env: impl Fn(&str) -> Option<String>,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let screen = Screen::of_stderr();
        let demo = Demo::prepare(Mails::open(args.out.clone())?, screen.clone()).await?;
        let config = demo.config(env)?;
        logs::start(&config.logs, &screen, None).map_err(anyhow::Error::from)?;
        let signals = Signals::listen().context("signals cannot be received")?;
        demo.play(config, args.once, &mut screen.above(out), signals.next()).await
    })
}

/// Why the show is over before its end.
enum Cut {
    /// Somebody stopped it.
    Stopped,
    /// Envelopes are still without an end.
    TimeIsUp,
}

/// The stage, set.
struct Demo {
    sandbox: Arc<Sandbox>,
    cast: Vec<Role>,
    mails: Mails,
    screen: Screen,
    patience: Duration,
    pause: Duration,
}

impl Demo {
    /// Starts the stand-ins, with every envelope pending.
    async fn prepare(mails: Mails, screen: Screen) -> anyhow::Result<Demo> {
        let options = Options { resend_rate: Some(RESEND_RATE), keep: Some(KEEP), ..Options::default() };
        let sandbox = Arc::new(Sandbox::start(options).await.context("the stand-ins cannot be started")?);
        let cast = cast::cast(&sandbox).context("the browsers' keys cannot be made")?;
        for role in &cast {
            sandbox.seam.enqueue(role.envelope());
        }
        Ok(Demo { sandbox, cast, mails, screen, patience: PATIENCE, pause: PAUSE })
    }

    /// The worker's configuration: nothing of it is the process's own, but for how it logs.
    fn config(&self, env: impl Fn(&str) -> Option<String>) -> Result<Config, Failure> {
        let own = |name: &'static str, default: &str| {
            let set = env(name).filter(|value| !value.is_empty());
            (name, set.unwrap_or_else(|| default.to_owned()))
        };
        let logging = [own("RUST_LOG", "off"), own("DELIVERY_LOG_FORMAT", "text")];
        let quick = QUICK.map(|(name, value)| (name, value.to_owned()));
        let env: Environment = self.sandbox.worker_env().into_iter().chain(quick).chain(logging).collect();
        // What is odd about it is so on purpose.
        let (config, _warnings) = Config::read(&env)?;
        Ok(config)
    }

    /// Runs the worker until every envelope has ended, and then, unless only `once`, until `stop`.
    async fn play(
        &self,
        config: Config,
        once: bool,
        out: &mut impl Write,
        stop: impl Future<Output = ()>,
    ) -> Result<Exit, Failure> {
        let desk = if once { None } else { Some(self.desk(library(config.rendering.clone())?).await?) };
        let library = library(config.rendering.clone())?;
        let worker = Worker::new(config, library).await?;
        let (engine, admin) = (worker.engine(), worker.admin_address());
        let mut showing = JoinSet::new();
        let (screen, recent) = (self.screen.clone(), worker.recent());
        showing.spawn({
            let engine = engine.clone();
            async move { progress::follow(&engine, &recent, &screen).await }
        });
        let (stop_worker, stopped) = oneshot::channel::<()>();
        let until_dropped = async { drop(stopped.await) };
        let working = tokio::spawn(worker.run(Mode::Daemon, until_dropped, std::future::pending()));
        tokio::pin!(stop);

        show::opening(out, self.cast.len(), desk.as_ref().map(Desk::url))?;
        let cut = tokio::select! {
            () = &mut stop => Some(Cut::Stopped),
            watched = tokio::time::timeout(self.patience, self.watch(&engine, out)) => match watched {
                Ok(watched) => watched.map(|()| None)?,
                Err(_) => Some(Cut::TimeIsUp),
            },
        };
        let mut good = self.judge(&engine, cut.as_ref(), out)?;
        if !once && !matches!(cut, Some(Cut::Stopped)) {
            show::going_on(out, admin)?;
            tokio::select! {
                () = &mut stop => {}
                failed = self.go_on(out) => failed?,
            }
        }
        drop(stop_worker);
        let report = working.await.context("the worker panicked")?;
        if report.exit_code() != 0 {
            writeln!(out, "The worker did not end cleanly: {report:?}").context(OUTPUT)?;
            good = false;
        }
        Ok(if good { Exit::Clean } else { Exit::Failed })
    }

    /// The page of the stand-ins, on any free port.
    async fn desk(&self, library: Library) -> anyhow::Result<Desk> {
        let desk = Desk::start(0, Arc::clone(&self.sandbox), library, self.sandbox.worker_env());
        desk.await.context("the page cannot be served")
    }

    /// Tells of each envelope as it ends, until all have.
    async fn watch(&self, engine: &Engine, out: &mut impl Write) -> anyhow::Result<()> {
        let mut told = HashSet::new();
        let mut seen = 0;
        while told.len() < self.cast.len() {
            let log = self.sandbox.journal.wait_until(|log| log.totals().entries > seen).await;
            seen = log.totals().entries;
            self.withdraw(&log);
            let evidence = Evidence::gather(&self.sandbox, &engine.status());
            for role in &self.cast {
                let ending = evidence.ending(role);
                if ending.how != How::Pending && told.insert(role.id) {
                    self.tell(role, &ending, &evidence.log, out)?;
                }
            }
        }
        Ok(())
    }

    /// Withdraws what is to be, once the worker has been given it.
    fn withdraw(&self, log: &Log) {
        for role in self.cast.iter().filter(|role| role.expected == Expected::Withdrawn) {
            let is_page =
                |event: &Event| matches!(event, Event::Listed { channel, .. } if channel == "email");
            if log.number_of(is_page).is_some() {
                self.sandbox.seam.withdraw(role.id);
            }
        }
    }

    fn tell(&self, role: &Role, ending: &Ending, log: &Log, out: &mut impl Write) -> anyhow::Result<()> {
        let mut lines = self.message(log, &role.target)?;
        lines.extend(ending.detail.clone().filter(|_| lines.is_empty()));
        show::ended(out, role.id, ending.how, &lines)
    }

    /// The last message that the provider accepted for `target`, in words. A mail is left as files.
    fn message(&self, log: &Log, target: &str) -> anyhow::Result<Vec<String>> {
        if let Some(mail) = log.mails().find(|mail| mail.idempotency_key.as_deref() == Some(target)) {
            let file = self.mails.keep(target, mail)?;
            return Ok(vec![mail.subject.clone(), file.display().to_string()]);
        }
        let push = log.pushes().filter(|push| push.token == target).last();
        Ok(push.map(|push| vec![push.title.clone(), push.body.clone(), push.url.clone()]).unwrap_or_default())
    }

    /// Shows the table and the summary; whether all is as it should be.
    fn judge(&self, engine: &Engine, cut: Option<&Cut>, out: &mut impl Write) -> anyhow::Result<bool> {
        let evidence = Evidence::gather(&self.sandbox, &engine.status());
        let rows: Vec<show::Row<'_>> = self
            .cast
            .iter()
            .map(|role| {
                let ending = evidence.ending(role);
                show::Row { role, objection: role.objection(&ending), ending }
            })
            .collect();
        show::table(out, &rows)?;
        let mut wrong: Vec<String> = rows
            .iter()
            .filter_map(|row| row.objection.as_ref().map(|why| format!("{}: {why}", row.role.id)))
            .collect();
        wrong.extend(evidence.refusals(&self.cast).map(|refused| {
            let role = self.cast.iter().find(|role| refused.target.as_ref() == Some(&role.target));
            let about = role.map_or("a request", |role| role.id);
            format!("{about}: refused by a stand-in with {}: {}", refused.status, refused.why)
        }));
        match cut {
            Some(Cut::Stopped) => wrong.push("stopped before the end".to_owned()),
            Some(Cut::TimeIsUp) => wrong.push(format!("the time is up, {:?}", self.patience)),
            None => {}
        }
        show::summary(out, &evidence.log, &rows, self.mails.directory())?;
        show::verdict(out, &wrong)?;
        Ok(wrong.is_empty())
    }

    /// A fresh envelope now and then, for ever.
    async fn go_on(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let browser = self.sandbox.push.subscribe().context("the browser's keys cannot be made")?;
        for number in 1.. {
            tokio::time::sleep(self.pause).await;
            self.one_more(&format!("fresh-{number}"), (number % 2 == 0).then_some(&browser), out).await?;
        }
        Ok(())
    }

    async fn one_more(
        &self,
        id: &str,
        browser: Option<&Subscription>,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let (example, target) = match browser {
            Some(browser) => (examples::nudge(id, browser), browser.token.as_str()),
            None => (examples::digest(id, "mara@example.com"), id),
        };
        self.sandbox.seam.enqueue(example);
        let acked = self.sandbox.journal.wait_until(|log| log.acks().any(|ack| ack.id == id));
        let acked = tokio::time::timeout(self.patience, acked).await;
        let log = acked.with_context(|| format!("{id} has not ended within {:?}", self.patience))?;
        let status = log.acks().find(|ack| ack.id == id).map(|ack| ack.posted);
        let lines = self.message(&log, target)?;
        show::ended(out, id, status.map_or(How::Pending, How::Acked), &lines)
    }
}

/// What is wrong when a line cannot be shown.
const OUTPUT: &str = "writing the output";

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Other(error.into())
    }
}
