//! `check`: looks at everything that the worker needs, and says what to do where it is not as it should be.
//!
//! Owns the course of it and what it means as an exit code. It sends nothing and acks nothing. What a topic is
//! asked and how its answer is read has a file of its own.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::Context;
use serde::Deserialize;
use tokio::net::TcpListener;

use self::report::{Level, Line};
use super::{Exit, Failure, library};
use crate::channel::push;
use crate::config::{Config, Environment, Parts, Problem, Rendering, Warning};
use crate::envelope::ChannelName;
use crate::http::{self, BODY_CAP};
use crate::outbox::{self, HttpSeam};

mod report;
mod resend;
mod seam;

/// Looks at everything that the worker needs.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// One JSON document instead of lines
    #[arg(long)]
    pub json: bool,
}

/// Looks, and tells on `out`. The exit is a failure if a line is.
///
/// # Errors
/// The threads cannot be started, or nothing can be written.
pub fn run(args: &CheckArgs, env: &Environment, out: &mut impl Write) -> Result<Exit, Failure> {
    let (mut lines, parts, misconfigured) = match Config::read(env) {
        Ok((config, warnings)) => (whole(warnings), Parts::from(config), false),
        Err(problems) => (broken(&problems), Parts::read(env), true),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the threads cannot be started")?;
    lines.extend(runtime.block_on(look(parts)));
    runtime.shutdown_background();
    report::write(&lines, args.json, out)?;
    Ok(match report::worst(&lines) {
        _ if misconfigured => Exit::Misconfigured,
        Level::Fail => Exit::Failed,
        Level::Ok | Level::Skip | Level::Warn => Exit::Clean,
    })
}

fn whole(warnings: Vec<Warning>) -> Vec<Line> {
    let warning = |Warning { variable, what }| {
        Line::warn("configuration", format!("{variable} {what}"), "see README.md, Configuration")
    };
    let ok = Line::ok("configuration", "it is whole");
    [ok].into_iter().chain(warnings.into_iter().map(warning)).collect()
}

/// Each problem says itself what to do.
fn broken(problems: &[Problem]) -> Vec<Line> {
    let line = |problem: &Problem| Line {
        topic: "configuration",
        level: Level::Fail,
        what: problem.to_string(),
        mend: None,
    };
    problems.iter().map(line).collect()
}

/// Everything that can be looked at, at once.
async fn look(parts: Parts) -> Vec<Line> {
    let Parts { outbox, rendering, email, push, page_limit, admin_addr } = parts;
    let mut channels = Vec::new();
    channels.extend(email.as_ref().map(|_| ChannelName::new("email")));
    channels.extend(push.as_ref().map(|_| ChannelName::new("push")));
    let mail = async {
        match &email {
            Some(settings) => resend::check(settings).await,
            None => vec![Line::skip("resend", "email is not configured, or not whole")],
        }
    };
    let (seam, mail, admin) =
        tokio::join!(seam_lines(outbox, &channels, page_limit), mail, admin_line(admin_addr));
    let mut lines = seam;
    lines.extend(mail);
    lines.push(push_line(push.as_ref()));
    lines.extend(template_lines(rendering));
    lines.push(admin);
    lines
}

async fn seam_lines(settings: Option<outbox::Settings>, channels: &[ChannelName], limit: u16) -> Vec<Line> {
    let Some(settings) = settings else {
        return vec![Line::skip("seam", "its address and token are not whole")];
    };
    if channels.is_empty() {
        return vec![Line::skip("seam", "no channel is whole, so none can be asked for")];
    }
    match HttpSeam::new(settings) {
        Ok(client) => seam::check(&client, channels, limit).await,
        Err(error) => vec![Line::fail(
            "seam",
            error.to_string(),
            "see OUTBOX_BASE_URL and the system's CA certificates",
        )],
    }
}

fn push_line(settings: Option<&push::Settings>) -> Line {
    match settings {
        // Key and subject are good, or the configuration would not be.
        Some(settings) => Line::ok(
            "push",
            format!("the app's applicationServerKey must be {}", settings.key.public_base64url()),
        ),
        None => Line::skip("push", "push is not configured, or not whole"),
    }
}

fn template_lines(rendering: Option<Rendering>) -> Vec<Line> {
    let Some(rendering) = rendering else {
        return vec![Line::skip("templates", "what they are rendered with is not whole")];
    };
    let problems = match library(rendering) {
        Ok(library) => {
            let names: Vec<String> = library.current().names().map(str::to_owned).collect();
            return vec![Line::ok("templates", format!("each renders its example: {}", names.join(", ")))];
        }
        Err(Failure::Configuration(problems)) => problems,
        Err(Failure::Other(error)) => vec![format!("{error:#}")],
    };
    let mend = "mend the file: the worker does not start with it, and a reload keeps the old set";
    problems.into_iter().map(|problem| Line::fail("templates", problem, mend)).collect()
}

/// What a running worker tells of itself.
#[derive(Debug, Deserialize)]
struct Running {
    version: String,
    uptime_seconds: u64,
}

async fn admin_line(address: Option<SocketAddr>) -> Line {
    let Some(address) = address else {
        return Line::skip("admin", "DELIVERY_ADMIN_ADDR is off, or no address");
    };
    match TcpListener::bind(address).await {
        Ok(_free) => Line::ok("admin", format!("{address} is free")),
        Err(error) => match running(address).await {
            Some(Running { version, uptime_seconds }) => Line::ok(
                "admin",
                format!("a worker runs at {address}: version {version}, up for {uptime_seconds} s"),
            ),
            None => Line::fail(
                "admin",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Options, Sandbox};

    /// In a thread of its own, as the command is: it brings its own runtime.
    async fn checked(env: Environment, json: bool) -> (Exit, String) {
        let check = move || {
            let mut out = Vec::new();
            let exit = run(&CheckArgs { json }, &env, &mut out).unwrap();
            (exit, String::from_utf8(out).unwrap())
        };
        tokio::task::spawn_blocking(check).await.unwrap()
    }

    async fn env_of(sandbox: &Sandbox, change: &[(&'static str, &str)]) -> Environment {
        let changes = change.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let admin = ("DELIVERY_ADMIN_ADDR", "127.0.0.1:0".to_owned());
        sandbox.worker_env().into_iter().chain([admin]).chain(changes).collect()
    }

    #[tokio::test]
    async fn a_worker_that_would_deliver_passes_and_nothing_is_sent() {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let (exit, told) = checked(env_of(&sandbox, &[]).await, false).await;
        assert_eq!(exit, Exit::Clean, "{told}");
        for line in
            ["ok   configuration", "ok   seam", "ok   clock", "ok   resend", "ok   domain", "ok   push"]
        {
            assert!(told.contains(line), "{line} is not in\n{told}");
        }
        assert!(told.contains(&sandbox.push.vapid().public), "{told}");
        let log = sandbox.journal.log();
        assert_eq!((log.mails().count(), log.acks().count()), (0, 0));
    }

    #[tokio::test]
    async fn what_would_keep_it_from_delivering_fails_the_check_by_name() {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        drop(taken);
        for (variable, value, line) in [
            ("INTERNAL_OUTBOX_TOKEN", "another", "FAIL seam"),
            ("RESEND_API_KEY", "re_another", "FAIL resend"),
            ("MAIL_FROM", "digest@elsewhere.example", "FAIL domain"),
            ("RESEND_BASE_URL", &format!("http://{address}"), "FAIL resend"),
        ] {
            let (exit, told) = checked(env_of(&sandbox, &[(variable, value)]).await, false).await;
            assert_eq!(exit, Exit::Failed, "{told}");
            assert!(told.contains(line) && told.contains("→ "), "{line} is not in\n{told}");
            assert!(!told.contains("re_another"), "no secret is told\n{told}");
        }
    }

    #[tokio::test]
    async fn a_bad_configuration_is_told_whole_also_to_a_script() {
        let (exit, told) = checked(Environment::default(), true).await;
        assert_eq!(exit, Exit::Misconfigured);
        let document: serde_json::Value = serde_json::from_str(&told).unwrap();
        let lines = document["lines"].as_array().unwrap();
        let first: Vec<_> = lines.iter().take_while(|line| line["topic"] == "configuration").collect();
        assert!(first.len() > 2 && first.iter().all(|line| line["level"] == "fail"), "{told}");
        assert!(told.contains("OUTBOX_BASE_URL") && document["ok"] == false, "{told}");
    }

    #[tokio::test]
    async fn what_is_good_of_a_bad_configuration_is_looked_at_all_the_same() {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let env = env_of(&sandbox, &[("MAIL_FROM", "nonsense"), ("INTERNAL_OUTBOX_TOKEN", "another")]).await;
        let (exit, told) = checked(env, false).await;
        assert_eq!(exit, Exit::Misconfigured, "{told}");
        for line in
            ["FAIL configuration  MAIL_FROM", "FAIL seam", "skip resend", "ok   push", "ok   templates"]
        {
            assert!(told.contains(line), "{line} is not in\n{told}");
        }
    }

    #[tokio::test]
    async fn a_broken_template_and_a_taken_admin_address_are_named() {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("resurface-nudge.v1")).unwrap();
        std::fs::write(folder.path().join("resurface-nudge.v1/email.text.hbs"), "{{#if").unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        // Whoever holds it is no worker: it hangs up.
        tokio::spawn(async move {
            while let Ok((stream, _)) = taken.accept().await {
                drop(stream);
            }
        });
        let change = [
            ("DELIVERY_TEMPLATES_DIR", folder.path().to_str().unwrap()),
            ("DELIVERY_ADMIN_ADDR", address.as_str()),
        ];
        let (exit, told) = checked(env_of(&sandbox, &change).await, false).await;
        assert_eq!(exit, Exit::Failed);
        assert!(told.contains("resurface-nudge.v1/email.text.hbs") && told.contains("FAIL admin"), "{told}");
    }
}
