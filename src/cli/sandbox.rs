//! `sandbox`: the stand-ins alone with their page, to develop an app or a template against.
//!
//! Owns the ports, the words and the file for a worker's environment. What is on the page is the sandbox's. It
//! must not start a worker.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;

use super::run::Signals;
use super::{Failure, library, runtime};
use crate::config::{self, variables};
use crate::sandbox::desk::Desk;
use crate::sandbox::{Options, Sandbox, StandIn, StartError};

/// What the stand-ins remember: enough for a day of looking, little enough for a laptop.
pub(super) const KEEP: usize = 2_000;

/// Where the sandbox listens, always on 127.0.0.1.
#[derive(Debug, Clone, Args)]
pub struct SandboxArgs {
    /// The page's port; 0 is any free one, for each of the ports
    #[arg(long, value_name = "PORT", default_value_t = 9120)]
    pub page_port: u16,

    /// The port of the seam, the app's outbox
    #[arg(long, value_name = "PORT", default_value_t = 9121)]
    pub seam_port: u16,

    /// The port of the stand-in for Resend
    #[arg(long, value_name = "PORT", default_value_t = 9122)]
    pub resend_port: u16,

    /// The port of the push service
    #[arg(long, value_name = "PORT", default_value_t = 9123)]
    pub push_port: u16,

    /// Write the environment of a worker that drains this sandbox into a file, for `EnvironmentFile=` or `source`
    #[arg(long, value_name = "FILE")]
    pub env: Option<PathBuf>,
}

/// Serves the stand-ins and their page until stopped. `env` looks up a variable: where templates are.
///
/// # Errors
/// A port is taken (the option that changes it is named), a template is broken, or the file cannot be written.
pub fn run(
    args: &SandboxArgs,
    env: impl Fn(&str) -> Option<String>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let signals = Signals::listen().context("signals cannot be received")?;
        let sandbox = Arc::new(start(args).await?);
        let worker_env = worker_env(&sandbox, env);
        let library = library(config::rendering(&worker_env.iter().cloned().collect())?)?;
        if let Some(file) = &args.env {
            write_env(file, &worker_env).with_context(|| format!("{} cannot be written", file.display()))?;
        }
        let desk = Desk::start(args.page_port, Arc::clone(&sandbox), library, worker_env.clone());
        let desk = desk.await.map_err(|why| taken("the page", args.page_port, &why, "--page-port"))?;
        tell(out, &desk, &sandbox, &worker_env).context("writing the output")?;
        signals.next().await;
        Ok(())
    });
    runtime.shutdown_background();
    served
}

async fn start(args: &SandboxArgs) -> anyhow::Result<Sandbox> {
    let options = Options {
        seam_port: args.seam_port,
        resend_port: args.resend_port,
        push_port: args.push_port,
        keep: Some(KEEP),
        ..Options::default()
    };
    Sandbox::start(options).await.map_err(|StartError { stand_in, port, why }| {
        let option = match stand_in {
            StandIn::Seam => "--seam-port",
            StandIn::Resend => "--resend-port",
            StandIn::Push => "--push-port",
        };
        taken(&stand_in.to_string(), port, &why, option)
    })
}

fn taken(what: &str, port: u16, why: &io::Error, option: &str) -> anyhow::Error {
    anyhow!("{what} cannot be served on port {port} of 127.0.0.1 ({why}): choose another with {option}")
}

type WorkerEnv = Vec<(&'static str, String)>;

/// A worker is to have the templates that the page checks against.
fn worker_env(sandbox: &Sandbox, env: impl Fn(&str) -> Option<String>) -> WorkerEnv {
    let templates = variables::DELIVERY_TEMPLATES_DIR.name;
    let directory = env(templates).filter(|directory| !directory.is_empty());
    sandbox.worker_env().into_iter().chain(directory.map(|directory| (templates, directory))).collect()
}

/// Lines that systemd reads as they are, and a shell too.
fn write_env(file: &Path, env: &WorkerEnv) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(file)?;
    env.iter().try_for_each(|(name, value)| writeln!(file, "{name}={}", quoted(value)))
}

/// In single quotes, inside of which both take everything but a quote for itself.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

fn tell(out: &mut impl Write, desk: &Desk, sandbox: &Sandbox, env: &WorkerEnv) -> io::Result<()> {
    writeln!(out, "The sandbox is up, for this machine alone. Ctrl-C ends it.\n")?;
    writeln!(out, "  page          {}/", desk.url())?;
    writeln!(out, "  outbox        {}", sandbox.seam.server().url())?;
    writeln!(out, "  Resend        {}", sandbox.resend.server().url())?;
    writeln!(out, "  push service  {}", sandbox.push.server().url())?;
    writeln!(out, "\nA worker that drains it (the secrets are made up, and others at each start):\n")?;
    for (name, value) in env {
        writeln!(out, "  export {name}={}", quoted(value))?;
    }
    writeln!(out, "  delivery-worker run\n")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn any_ports() -> SandboxArgs {
        SandboxArgs { page_port: 0, seam_port: 0, resend_port: 0, push_port: 0, env: None }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_named_with_the_option_that_changes_it() {
        let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = holder.local_addr().unwrap().port();
        for (args, option) in [
            (SandboxArgs { seam_port: port, ..any_ports() }, "--seam-port"),
            (SandboxArgs { resend_port: port, ..any_ports() }, "--resend-port"),
            (SandboxArgs { push_port: port, ..any_ports() }, "--push-port"),
        ] {
            let error = start(&args).await.unwrap_err().to_string();
            assert!(error.contains(option) && error.contains(&port.to_string()), "{error}");
        }
    }

    #[test]
    fn the_file_is_the_owners_alone_and_a_shell_reads_what_was_meant() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("worker.env");
        let env = vec![("MAIL_FROM", "O'Hara & Söhne <a@mail.example.com> $HOME \"x\"".to_owned())];
        write_env(&file, &env).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let script = r#"set -a; . "$1"; printf %s "$MAIL_FROM""#;
        let shell = Command::new("sh").args(["-c", script, "sh"]).arg(&file).output().unwrap();
        assert_eq!(String::from_utf8(shell.stdout).unwrap(), env[0].1);
    }

    #[tokio::test]
    async fn a_worker_has_the_templates_that_the_page_checks_against() {
        let sandbox = start(&any_ports()).await.unwrap();
        let with = |value: &'static str| {
            worker_env(&sandbox, |name| (name == "DELIVERY_TEMPLATES_DIR").then(|| value.to_owned()))
        };
        assert!(with("/srv/templates").contains(&("DELIVERY_TEMPLATES_DIR", "/srv/templates".to_owned())));
        assert_eq!(with(""), sandbox.worker_env());
    }
}
