//! `check`: looks at everything that the worker needs, and says what to do where it is not as it should be.
//!
//! Owns the course of it and what it means as an exit code. It sends nothing and acks nothing, but for the one
//! mail of `--send-to`. What a topic is asked and how its answer is read has a file of its own.

use std::io::Write;
use std::time::Duration;

use self::dns::NameServer;
use self::report::{Level, Line};
use super::{Exit, Failure, runtime};
use crate::channel::{email, push};
use crate::config::{Config, Environment, Parts, Problem, Rendering, Warning};
use crate::envelope::ChannelName;
use crate::outbox::{self, HttpSeam};
use crate::render::Library;

mod admin;
mod clock;
mod dns;
mod letter;
mod outbound;
mod report;
mod resend;
mod seam;
mod templates;
mod unit;

/// Longer than any client waits for its answer: a file system or a service manager that hangs holds up no more.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks at everything that the worker needs.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// One JSON document instead of lines
    #[arg(long)]
    pub json: bool,
    /// Send one real mail, the example of a template, to this address
    #[arg(long, value_name = "ADDRESS")]
    pub send_to: Option<String>,
    /// Ask this name server about the sender's domain instead of the system's
    #[arg(long, value_name = "IP[:PORT]")]
    pub resolver: Option<NameServer>,
}

/// Looks, and tells on `out`. The exit is a failure if a line is.
///
/// # Errors
/// The system gives no means to wait for events, or nothing can be written.
pub fn run(args: &CheckArgs, env: &Environment, out: &mut impl Write) -> Result<Exit, Failure> {
    let (mut lines, parts, misconfigured) = match Config::read(env) {
        Ok((config, warnings)) => (whole(warnings), Parts::from(config), false),
        Err(problems) => (broken(&problems), Parts::read(env), true),
    };
    let runtime = runtime()?;
    lines.extend(runtime.block_on(look(parts, args)));
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

/// Everything that can be looked at, at once; then the one mail, if one is asked for.
async fn look(parts: Parts, args: &CheckArgs) -> Vec<Line> {
    let Parts { outbox, rendering, email, push, page_limit, admin_addr, shutdown_grace, webhook_addr } =
        parts;
    let mut channels = Vec::new();
    channels.extend(email.as_ref().map(|_| ChannelName::new("email")));
    channels.extend(push.as_ref().map(|_| ChannelName::new("push")));
    let templates = rendering.as_ref().and_then(|rendering| rendering.templates_dir.clone());
    let needs = unit::Needs { grace: shutdown_grace, templates };
    let (seam, mail, push, (rendered, library), admin, unit) = tokio::join!(
        seam_lines(outbox, &channels, page_limit),
        mail_lines(email.as_ref(), args.resolver),
        push_lines(push.as_ref()),
        template_lines(rendering),
        admin::check(admin_addr, webhook_addr),
        unit_lines(needs),
    );
    let lines = [seam, mail, push, rendered, admin, unit].into_iter().flatten();
    let sent = match &args.send_to {
        Some(address) => Some(send(email, library, address).await),
        None => None,
    };
    lines.chain(sent).collect()
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

async fn mail_lines(settings: Option<&email::Settings>, resolver: Option<NameServer>) -> Vec<Line> {
    let Some(settings) = settings else {
        return vec![Line::skip("resend", "email is not configured, or not whole")];
    };
    let domain = resend::domain(&settings.from);
    let (mut lines, records) = tokio::join!(resend::check(settings), dns::check(&domain, resolver));
    lines.extend(records);
    lines
}

async fn push_lines(settings: Option<&push::Settings>) -> Vec<Line> {
    let Some(settings) = settings else {
        return vec![Line::skip("push", "push is not configured, or not whole")];
    };
    // Key and subject are good, or the configuration would not be.
    let key = format!("the app's applicationServerKey must be {}", settings.key.public_base64url());
    let mut lines = vec![Line::ok("push", key)];
    if settings.allow_private_endpoints {
        let what = "PUSH_ALLOW_PRIVATE_ENDPOINTS is for development, where no push service need be reached";
        lines.push(Line::skip("outbound", what));
    } else {
        lines.extend(outbound::check(&outbound::PUSH_SERVICES).await);
    }
    lines
}

async fn template_lines(rendering: Option<Rendering>) -> (Vec<Line>, Option<Library>) {
    let Some(rendering) = rendering else {
        return (vec![Line::skip("templates", "what they are rendered with is not whole")], None);
    };
    let checked = waited(move || templates::check(rendering)).await;
    checked.unwrap_or_else(|| (vec![hanging("templates")], None))
}

async fn unit_lines(needs: unit::Needs) -> Vec<Line> {
    waited(move || unit::check(&needs)).await.unwrap_or_else(|| vec![hanging("unit")])
}

/// What `look` finds, in a thread that the system may keep; `None` if it does.
async fn waited<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(look)).await.ok()?.ok()
}

fn hanging(topic: &'static str) -> Line {
    let what = format!("no answer from the system within {} s", PATIENCE.as_secs());
    Line::fail(topic, what, "see what hangs: a network file system, or the service manager")
}

async fn send(settings: Option<email::Settings>, library: Option<Library>, address: &str) -> Line {
    match (settings, library) {
        (Some(settings), Some(library)) => letter::send(settings, library.current(), address).await,
        _ => Line::fail(
            "test mail",
            "it needs email configured and templates that render",
            "see the lines above",
        ),
    }
}
