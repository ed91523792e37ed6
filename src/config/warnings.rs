//! What does not keep the worker from starting, but is hardly meant.
//!
//! Owns the odd names and the pairs of settings that go together badly. It must not refuse anything: what
//! is wrong is `read`'s and `values`' to say.

use std::fmt;

use super::{Config, EXCHANGE_DEADLINE, Environment, environment::PREFIX, variables as var};
use crate::channel::email::AckAt;
use crate::engine::FRESH_AT_MOST;

/// Something that the operator should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The variable's name.
    pub variable: String,
    /// What is odd about it; never its value.
    pub what: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { variable, what } = self;
        write!(f, "{variable} {what}")
    }
}

/// Everything odd about `config` as read from `env`.
pub(super) fn of(config: &Config, env: &Environment) -> Vec<Warning> {
    let unknown =
        env.unknown().filter_map(|name| Some(Warning { variable: name.to_owned(), what: unknown(name)? }));
    unknown.chain(pairs(config, env)).collect()
}

/// Names this alike are one name mistyped (Jaro-Winkler, from 0 to 1).
const ALIKE: f64 = 0.93;

/// What to say of a name that is not read: of one with our prefix that it does nothing, of any other only
/// if it is one of ours mistyped.
fn unknown(name: &str) -> Option<String> {
    let near = |known: &str| strsim::jaro_winkler(name, known);
    let best = var::ALL.iter().map(|v| (near(v.name), v.name)).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((alike, known)) if alike >= ALIKE => {
            Some(format!("is not known to this build and does nothing: is {known} meant?"))
        }
        _ if name.starts_with(PREFIX) => Some("is not known to this build and does nothing".to_owned()),
        _ => None,
    }
}

/// Settings that are each allowed and do not go together.
fn pairs(config: &Config, env: &Environment) -> Vec<Warning> {
    let engine = &config.engine;
    let mail_in_clear = config.email.as_ref().is_some_and(|email| email.base_url.scheme() == "http");
    let private_push = config.push.as_ref().is_some_and(|push| push.allow_private_endpoints);
    let workers = config.email.as_ref().map_or(0, |_| config.workers.email);
    let workers = workers.max(config.push.as_ref().map_or(0, |_| config.workers.push));
    let at_once = config.email.as_ref().is_none_or(|email| email.ack == AckAt::Acceptance);
    let odd = [
        (
            at_once && env.get(var::DELIVERY_CONFIRM_WINDOW.name).is_some(),
            &var::DELIVERY_CONFIRM_WINDOW,
            "does nothing: no mail waits for its confirmation",
        ),
        (
            engine.shutdown_grace < EXCHANGE_DEADLINE,
            &var::DELIVERY_SHUTDOWN_GRACE,
            "is shorter than the 15s that one request may take: a stop can cut a send",
        ),
        (
            engine.poll_interval > FRESH_AT_MOST,
            &var::DELIVERY_POLL_INTERVAL,
            "is longer than the 60s for which a listing is trusted: retries ask for pages in between",
        ),
        (
            usize::from(engine.page_limit) < workers,
            &var::OUTBOX_PAGE_LIMIT,
            "is smaller than the number of a lane's workers: some of them never have work",
        ),
        (
            config.email.is_some() && config.rendering.app_origin.scheme() != "https",
            &var::APP_ORIGIN,
            "is not https: mails go out without the one-click unsubscribe that large providers ask for",
        ),
        (
            cfg!(not(feature = "otlp")) && env.get(var::OTEL_EXPORTER_OTLP_ENDPOINT.name).is_some(),
            &var::OTEL_EXPORTER_OTLP_ENDPOINT,
            "is set, but this build sends no traces: build it with --features otlp",
        ),
        (mail_in_clear, &var::RESEND_BASE_URL, "is not https: the API key and every mail travel in clear"),
        (
            private_push,
            &var::PUSH_ALLOW_PRIVATE_ENDPOINTS,
            "is on: an endpoint may point into this machine's own network. For development alone",
        ),
    ];
    let warning = |variable: &var::Variable, what: &str| Warning {
        variable: variable.name.to_owned(),
        what: what.to_owned(),
    };
    odd.into_iter().filter(|(is_so, ..)| *is_so).map(|(_, variable, what)| warning(variable, what)).collect()
}
