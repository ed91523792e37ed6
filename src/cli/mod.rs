//! The command line: what can be asked for, and what a command's end means to who asked.
//!
//! Owns the tree of commands, the start that they share (configuration, then logs) and the exit codes.
//! One file per command.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

use crate::config::{self, Config, Environment, Problem, Rendering, Warning};
use crate::engine::Mode;
use crate::render::{Library, Links, TemplateErrors};
use crate::telemetry::logs;
use crate::telemetry::screen::Screen;

pub mod check;
pub mod demo;
pub mod man;
mod progress;
pub mod render;
pub mod run;
pub mod sandbox;
pub mod vapid;

/// Delivers an app's outbox: email through Resend, push through Web Push
///
/// A stateless daemon. It asks the app's outbox for what is pending, renders each envelope, sends it, and
/// tells the app what became of it. Everything is set by environment variables; README.md has the whole
/// list, and so has --help.
#[derive(Debug, Parser)]
#[command(name = "delivery-worker", version, after_long_help = config::variables::help())]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Deliver until stopped: the daemon
    Run,
    /// Deliver what is pending, then end
    Drain,
    /// Show the whole thing at work on this machine, without any configuration
    ///
    /// An outbox, Resend and a push service, all of them stand-ins, and the worker between them. Nothing
    /// is read from the environment but RUST_LOG and DELIVERY_LOG_FORMAT: RUST_LOG=info shows the worker's
    /// own log too.
    Demo(demo::DemoArgs),
    /// Serve an outbox, Resend and a push service on this machine, with one page to look at them
    ///
    /// For developing an app or a template without any account. A worker or an app is pointed at the addresses
    /// that are printed; the page shows what arrives, puts envelopes into the outbox, and makes answers fail.
    /// Of the environment only DELIVERY_TEMPLATES_DIR is read.
    Sandbox(sandbox::SandboxArgs),
    /// Look at everything that the worker needs, and say what to do where it is not as it should be
    ///
    /// Nothing is sent but the one mail that --send-to asks for, and nothing is acked. The exit code is 1 if a line
    /// fails, and 78 if the configuration is wrong.
    Check(check::CheckArgs),
    /// Show what one envelope becomes, without sending anything
    Render(render::RenderArgs),
    /// Write the manual pages
    #[command(hide = true)]
    Man(man::ManArgs),
    /// Make a VAPID key pair for push, or print the public half of the configured one
    Vapid(vapid::VapidArgs),
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was begun is finished.
    Clean,
    /// The command failed.
    Failed,
    /// A send was cut, or a known outcome is not acked (EX_TEMPFAIL).
    Unfinished,
    /// The configuration or the command line is wrong: starting again does not help (EX_CONFIG).
    Misconfigured,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Failed => 1,
            Exit::Unfinished => 75,
            Exit::Misconfigured => 78,
        }
    }
}

/// Every way to end, with what it means to an operator.
const EXITS: [(Exit, &str); 4] = [
    (Exit::Clean, "Clean; what was never begun is still pending at the app."),
    (Exit::Failed, "Failed."),
    (
        Exit::Unfinished,
        "A send was cut, or a known outcome is not acked; for drain also: something due is left.",
    ),
    (Exit::Misconfigured, "The configuration or the command line is wrong."),
];

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong, in each of these ways.
    Configuration(Vec<String>),
    /// Anything else.
    Other(anyhow::Error),
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Failure {
        Failure::Configuration(problems.iter().map(ToString::to_string).collect())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Other(error)
    }
}

/// Runs the command of `arguments`, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    logs::guard_panics();
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(asked_or_wrong) => {
            // A closed stdout or stderr leaves nobody to tell.
            asked_or_wrong.print().ok();
            return if asked_or_wrong.use_stderr() { Exit::Misconfigured } else { Exit::Clean };
        }
    };
    match run(cli.command) {
        Ok(exit) => exit,
        Err(Failure::Configuration(problems)) => {
            tell(&format!("the configuration is wrong:\n  {}", problems.join("\n  ")));
            Exit::Misconfigured
        }
        Err(Failure::Other(error)) => {
            tell(&format!("{error:#}"));
            Exit::Failed
        }
    }
}

/// Tells the operator, if there is one: `eprintln` would panic at a closed stderr.
fn tell(what: &str) {
    writeln!(std::io::stderr(), "delivery-worker: {what}").ok();
}

fn run(command: Command) -> Result<Exit, Failure> {
    let out = &mut std::io::stdout().lock();
    match command {
        Command::Run => return run::run(Mode::Daemon),
        Command::Drain => return run::run(Mode::Drain),
        Command::Check(args) => return check::run(&args, &Environment::of_process(), out),
        Command::Demo(args) => return demo::run(&args, |name| std::env::var(name).ok(), out),
        Command::Render(args) => render::run(&args, config::rendering(&Environment::of_process())?, out)?,
        Command::Sandbox(args) => sandbox::run(&args, |name| std::env::var(name).ok(), out)?,
        Command::Man(args) => man::run(&args)?,
        Command::Vapid(args) => vapid::run(&args, &Environment::of_process(), out)?,
    }
    Ok(Exit::Clean)
}

/// How every command that works on the outbox begins: the whole configuration is read, logging starts as
/// it says, and what is odd about it is the first that is logged.
///
/// # Errors
/// The configuration is wrong, or logging has been started before.
pub fn begin(env: &Environment, screen: &Screen) -> Result<(Config, Traces), Failure> {
    let (config, warnings) = Config::read(env)?;
    let (traces, spans) = traces()?;
    logs::start(&config.logs, screen, spans).map_err(anyhow::Error::from)?;
    for Warning { variable, what } in warnings {
        tracing::warn!(variable, "{variable} {what}");
    }
    Ok((config, traces))
}

/// What sends traces, to be kept as long as there are any.
#[cfg(feature = "otlp")]
pub type Traces = Option<crate::telemetry::otlp::Exporter>;

/// This build has no traces.
#[cfg(not(feature = "otlp"))]
pub type Traces = ();

#[cfg(feature = "otlp")]
fn traces() -> Result<(Traces, Option<logs::Listener>), Failure> {
    // The error quotes the address, which may hold a password.
    let exporter = crate::telemetry::otlp::Exporter::of_environment().map_err(|_| {
        let config::variables::Variable { name, example, .. } =
            config::variables::OTEL_EXPORTER_OTLP_ENDPOINT;
        Failure::Configuration(vec![format!("{name} must be the URL of a collector (e.g. {name}={example})")])
    })?;
    let listener = exporter.as_ref().map(|exporter| exporter.listener());
    Ok((exporter, listener))
}

#[cfg(not(feature = "otlp"))]
fn traces() -> Result<(Traces, Option<logs::Listener>), Failure> {
    Ok(((), None))
}

/// What a command's tasks run on: one thread. It carries thousands of deliveries a second, which is more than providers
/// take, and memory does not grow with the machine's cores (docs/performance.md).
///
/// # Errors
/// The system has nothing left to wait for events with.
fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("the system gives no means to wait for events")
}

/// The templates as they are set.
///
/// # Errors
/// A template is broken, in each of these ways.
pub fn library(rendering: Rendering) -> Result<Library, Failure> {
    let Rendering { app_origin, unsubscribe_path, templates_dir } = rendering;
    let links = Links::new(&app_origin, &unsubscribe_path)
        .map_err(|error| Failure::Configuration(vec![error.to_string()]))?;
    Library::load(templates_dir, links).map_err(|TemplateErrors(errors)| {
        Failure::Configuration(errors.iter().map(ToString::to_string).collect())
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_tree_of_commands_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_lists_the_environment_and_the_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("OUTBOX_BASE_URL") && help.contains("78 bad configuration"), "{help}");
    }

    #[test]
    fn nothing_begins_with_a_wrong_configuration() {
        let Err(Failure::Configuration(problems)) = begin(&Environment::default(), &Screen::plain()) else {
            panic!("it began");
        };
        assert!(problems.iter().any(|problem| problem.contains("OUTBOX_BASE_URL")), "{problems:?}");
    }
}
