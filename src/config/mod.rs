//! From the environment to [`Config`]: read once, at the start, and every problem told at once.
//!
//! Owns which settings there are, what they default to and which of them do not go together. Secrets are
//! `SecretString` from here on, and nothing here shows one. It must not know what the settings do.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::channel::{Rate, email, push};
use crate::engine;
use crate::http::EXCHANGE_DEADLINE;
use crate::outbox;
use crate::telemetry::logs;
use crate::webhook;

mod environment;
mod read;
mod values;
pub mod variables;
mod warnings;

pub use environment::Environment;
pub use read::Problem;
pub use warnings::Warning;

use read::{Reader, Shape, duration, switch, whole};
use variables as var;

/// Everything that the operator sets.
#[derive(Debug)]
pub struct Config {
    /// The seam.
    pub outbox: outbox::Settings,
    /// What messages are made from.
    pub rendering: Rendering,
    /// The email channel, where it is configured and chosen.
    pub email: Option<email::Settings>,
    /// The push channel, where it is configured and chosen.
    pub push: Option<push::Settings>,
    /// The listener for Resend's events, where it is set.
    pub webhook: Option<webhook::Settings>,
    /// How the lanes drain.
    pub engine: engine::Settings,
    /// How many do it.
    pub workers: Workers,
    /// Where the admin server listens; `None` is nowhere.
    pub admin_addr: Option<SocketAddr>,
    /// How logs are written.
    pub logs: logs::Settings,
}

/// What messages are made from, beside their envelopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendering {
    /// Scheme, host and port of every link in a message.
    pub app_origin: Url,
    /// The path of the unsubscribe link behind `app_origin`.
    pub unsubscribe_path: String,
    /// Templates that add to the built-in ones and override them.
    pub templates_dir: Option<PathBuf>,
}

/// How many pull workers each lane has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workers {
    /// Mails on their way at once.
    pub email: usize,
    /// Pushes on their way at once.
    pub push: usize,
}

/// Resend's documented default has been lower and higher; its headers tell the true one.
const FIRST_RATE: NonZeroU32 = NonZeroU32::new(2).unwrap();

/// The app's own limit of one page.
const MOST_PER_PAGE: u16 = 500;

const MILLISECONDS_100: Duration = Duration::from_millis(100);
/// Resend knows the key of a mail for 24 hours: after a restart in the middle of the window there must be as much left.
const LONGEST_CONFIRM_WINDOW: Duration = Duration::from_secs(12 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Config {
    /// Reads `env`. What is set but of no use, and what goes together badly, comes back as warnings.
    ///
    /// # Errors
    /// Everything that is wrong with it, never a part of it.
    pub fn read(env: &Environment) -> Result<(Config, Vec<Warning>), Vec<Problem>> {
        let config = alone(env, read)?;
        let warnings = warnings::of(&config, env);
        Ok((config, warnings))
    }
}

/// What of a configuration is good by itself, for a command that looks at each part.
#[derive(Debug)]
pub struct Parts {
    /// The seam, where it is well set.
    pub outbox: Option<outbox::Settings>,
    /// What messages are made from, where that is well set.
    pub rendering: Option<Rendering>,
    /// The email channel, where it is configured and well set.
    pub email: Option<email::Settings>,
    /// The push channel, where it is configured and well set.
    pub push: Option<push::Settings>,
    /// The window, or what it is when it is not set.
    pub page_limit: u16,
    /// Where the admin server would listen, where that is well set and not off.
    pub admin_addr: Option<SocketAddr>,
    /// What a stop may take, or takes when it is not set.
    pub shutdown_grace: Duration,
    /// Where Resend's events would be taken, where that is well set.
    pub webhook_addr: Option<SocketAddr>,
}

impl Parts {
    /// Reads each part of `env` alone. What is wrong with one is left to [`Config::read`] to tell.
    pub fn read(env: &Environment) -> Parts {
        let page_limit =
            alone(env, |reader| reader.or_default(&var::OUTBOX_PAGE_LIMIT, whole(1..=MOST_PER_PAGE)));
        let admin_addr =
            alone(env, |reader| reader.or_default(&var::DELIVERY_ADMIN_ADDR, values::listen_address));
        let shutdown_grace = alone(env, read_grace).or_else(|_| alone(&Environment::default(), read_grace));
        Parts {
            outbox: alone(env, read_outbox).ok(),
            rendering: alone(env, read_rendering).ok(),
            email: alone(env, read_email).ok(),
            push: alone(env, read_push).ok(),
            page_limit: page_limit.unwrap_or(MOST_PER_PAGE),
            admin_addr: admin_addr.ok().flatten(),
            shutdown_grace: shutdown_grace.unwrap_or_default(),
            webhook_addr: None,
        }
    }
}

impl From<Config> for Parts {
    fn from(config: Config) -> Parts {
        let Config { outbox, rendering, email, push, engine, admin_addr, webhook, .. } = config;
        let engine::Settings { page_limit, shutdown_grace, .. } = engine;
        Parts {
            outbox: Some(outbox),
            rendering: Some(rendering),
            email,
            push,
            page_limit,
            admin_addr,
            shutdown_grace,
            webhook_addr: webhook.map(|webhook| webhook.address),
        }
    }
}

/// What messages are made from, for a command that sends none.
///
/// # Errors
/// Everything that is wrong with its variables.
pub fn rendering(env: &Environment) -> Result<Rendering, Vec<Problem>> {
    alone(env, read_rendering)
}

/// The key pair for push, for a command that needs nothing else.
///
/// # Errors
/// Everything that is wrong with its variable.
pub fn vapid_key(env: &Environment) -> Result<push::VapidKey, Vec<Problem>> {
    alone(env, read_vapid_key)
}

fn alone<T>(env: &Environment, read: fn(&mut Reader<'_>) -> Option<T>) -> Result<T, Vec<Problem>> {
    let mut reader = Reader::new(env);
    match read(&mut reader) {
        // An optional value can be noted as wrong although every part could be had.
        Some(part) if reader.is_clean() => Ok(part),
        _ => Err(reader.into_problems()),
    }
}

/// Reads every part before it looks at any, so that no problem hides another.
fn read(reader: &mut Reader<'_>) -> Option<Config> {
    let outbox = read_outbox(reader);
    let rendering = read_rendering(reader);
    let chosen = read_channels(reader);
    let email = chosen.email.then(|| read_email(reader));
    let push = chosen.push.then(|| read_push(reader));
    let webhook = read_webhook(reader, chosen.email);
    let engine = read_engine(reader);
    let workers = read_workers(reader);
    let admin_addr = reader.or_default(&var::DELIVERY_ADMIN_ADDR, values::listen_address);
    let logs = read_logs(reader);
    Some(Config {
        outbox: outbox?,
        rendering: rendering?,
        email: part(email)?,
        push: part(push)?,
        webhook: part(webhook)?,
        engine: engine?,
        workers: workers?,
        admin_addr: admin_addr?,
        logs: logs?,
    })
}

/// A part that is not chosen is whole; one that is chosen must be.
fn part<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(part) => part.map(Some),
    }
}

fn read_outbox(reader: &mut Reader<'_>) -> Option<outbox::Settings> {
    let base_url = reader.required(&var::OUTBOX_BASE_URL, values::base_url);
    let token = reader.secret(&var::INTERNAL_OUTBOX_TOKEN, Shape::Header);
    let token_header = reader.or_default(&var::OUTBOX_TOKEN_HEADER, values::header_name);
    Some(outbox::Settings { base_url: base_url?, token: token?, token_header: token_header? })
}

fn read_rendering(reader: &mut Reader<'_>) -> Option<Rendering> {
    let app_origin = reader.required(&var::APP_ORIGIN, values::origin);
    let unsubscribe_path = reader.or_default(&var::UNSUBSCRIBE_PATH, values::absolute_path);
    let templates_dir = reader.optional(&var::DELIVERY_TEMPLATES_DIR, values::directory);
    Some(Rendering { app_origin: app_origin?, unsubscribe_path: unsubscribe_path?, templates_dir })
}

/// Which channels run.
struct Chosen {
    email: bool,
    push: bool,
}

/// A channel with any variable of its own set is configured. `DELIVERY_CHANNELS` chooses among them; one
/// that it names and that is not configured is read too, so that what it lacks is told.
fn read_channels(reader: &mut Reader<'_>) -> Chosen {
    let chosen = reader.optional(&var::DELIVERY_CHANNELS, |text| {
        let mut chosen = Chosen { email: false, push: false };
        for word in text.split(',').map(str::trim) {
            match word {
                "email" => chosen.email = true,
                "push" => chosen.push = true,
                _ => return Err("must list channels of this build (email, push) with commas between them"),
            }
        }
        Ok(chosen)
    });
    let configured = Chosen {
        email: var::EMAIL.iter().any(|v| reader.is_set(v)),
        push: var::PUSH.iter().any(|v| reader.is_set(v)),
    };
    if chosen.is_none() && !configured.email && !configured.push {
        reader.problem::<()>(
            &var::DELIVERY_CHANNELS,
            "has no channel to choose: set RESEND_API_KEY and MAIL_FROM for email, VAPID_PRIVATE_KEY and \
             VAPID_SUBJECT for push, or all four",
        );
    }
    chosen.unwrap_or(configured)
}

fn read_email(reader: &mut Reader<'_>) -> Option<email::Settings> {
    let api_key = reader.secret(&var::RESEND_API_KEY, Shape::Header);
    let from = reader.required(&var::MAIL_FROM, values::mailbox);
    let reply_to = reader.optional(&var::MAIL_REPLY_TO, values::mailbox);
    let base_url = reader.or_default(&var::RESEND_BASE_URL, values::base_url);
    let rate = reader.optional(&var::RESEND_MAX_RPS, values::rate);
    let confirmed = reader.or_default(&var::DELIVERY_EMAIL_ACK, values::confirmed);
    let window =
        reader.or_default(&var::DELIVERY_CONFIRM_WINDOW, duration(MILLISECONDS_100..=LONGEST_CONFIRM_WINDOW));
    Some(email::Settings {
        api_key: api_key?,
        from: from?,
        reply_to,
        base_url: base_url?,
        rate: rate.unwrap_or(Rate::Follow { start: FIRST_RATE }),
        ack: if confirmed? { email::AckAt::FinalWord(window?) } else { email::AckAt::Acceptance },
    })
}

fn read_push(reader: &mut Reader<'_>) -> Option<push::Settings> {
    let key = read_vapid_key(reader);
    let subject = reader.required(&var::VAPID_SUBJECT, push::VapidSubject::parse);
    let allow_private_endpoints = reader.or_default(&var::PUSH_ALLOW_PRIVATE_ENDPOINTS, switch);
    Some(push::Settings { key: key?, subject: subject?, allow_private_endpoints: allow_private_endpoints? })
}

/// Secret and address go together; with either set the other must be. `None`: neither is.
fn read_webhook(reader: &mut Reader<'_>, email: bool) -> Option<Option<webhook::Settings>> {
    let (secret, address) = (&var::RESEND_WEBHOOK_SECRET, &var::DELIVERY_WEBHOOK_ADDR);
    if !reader.is_set(secret) && !reader.is_set(address) {
        return None;
    }
    if !email {
        return Some(reader.problem(address, "is set, and email is not: Resend has nothing to tell"));
    }
    let key = reader.secret(secret, Shape::Header).map(|secret| webhook::Key::parse(&secret));
    let key = match key {
        Some(Err(what)) => reader.problem(&var::RESEND_WEBHOOK_SECRET, what),
        key => key.and_then(Result::ok),
    };
    let address =
        reader.required(address, |text| text.parse().map_err(|_| "must be an IP address with its port"));
    Some(key.zip(address).map(|(key, address)| webhook::Settings { key, address }))
}

fn read_vapid_key(reader: &mut Reader<'_>) -> Option<push::VapidKey> {
    let secret = reader.secret(&var::VAPID_PRIVATE_KEY, Shape::Lines)?;
    match push::VapidKey::parse(&secret) {
        Ok(key) => Some(key),
        Err(error) => reader.problem(&var::VAPID_PRIVATE_KEY, error.to_string()),
    }
}

fn read_engine(reader: &mut Reader<'_>) -> Option<engine::Settings> {
    let page_limit = reader.or_default(&var::OUTBOX_PAGE_LIMIT, whole(1..=MOST_PER_PAGE));
    let poll_interval = reader.or_default(&var::DELIVERY_POLL_INTERVAL, duration(MILLISECONDS_100..=HOUR));
    let max_attempts = reader.or_default(&var::DELIVERY_MAX_ATTEMPTS, whole(1..=100));
    let retry_base = reader.or_default(&var::DELIVERY_RETRY_BASE, duration(MILLISECONDS_100..=HOUR));
    let retry_max = reader.or_default(&var::DELIVERY_RETRY_MAX, duration(MILLISECONDS_100..=DAY));
    if retry_base.zip(retry_max).is_some_and(|(base, max)| base > max) {
        reader.problem::<()>(&var::DELIVERY_RETRY_MAX, "must not be shorter than DELIVERY_RETRY_BASE");
    }
    let shutdown_grace = read_grace(reader);
    Some(engine::Settings {
        page_limit: page_limit?,
        poll_interval: poll_interval?,
        max_attempts: max_attempts?,
        retry_base: retry_base?,
        retry_max: retry_max?,
        shutdown_grace: shutdown_grace?,
    })
}

fn read_grace(reader: &mut Reader<'_>) -> Option<Duration> {
    reader.or_default(&var::DELIVERY_SHUTDOWN_GRACE, duration(Duration::ZERO..=HOUR))
}

fn read_workers(reader: &mut Reader<'_>) -> Option<Workers> {
    let email = reader.or_default(&var::DELIVERY_EMAIL_WORKERS, whole(1..=256));
    let push = reader.or_default(&var::DELIVERY_PUSH_WORKERS, whole(1..=256));
    Some(Workers { email: email?, push: push? })
}

fn read_logs(reader: &mut Reader<'_>) -> Option<logs::Settings> {
    let format = reader
        .optional(&var::DELIVERY_LOG_FORMAT, |text| logs::Format::parse(text).ok_or("must be json or text"));
    let filter = reader.or_default(&var::RUST_LOG, logs::Filter::parse)?;
    Some(logs::Settings { format: format.unwrap_or_else(logs::Format::of_stderr), filter })
}

#[cfg(test)]
mod tests;
