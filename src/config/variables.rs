//! Every variable that the worker reads: the one list behind reading, `--help` and the documents.
//!
//! Owns names, examples and one line of meaning each. It must not know how a value is read.

/// One environment variable.
#[derive(Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Whether it may come as a file, `{name}_FILE`, and is never shown.
    pub secret: bool,
    /// What holds when it is not set, in words or as a value.
    pub default: &'static str,
    /// A value that would be taken.
    pub example: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
}

const fn plain(
    name: &'static str,
    default: &'static str,
    example: &'static str,
    help: &'static str,
) -> Variable {
    Variable { name, secret: false, default, example, help }
}

const fn secret(
    name: &'static str,
    default: &'static str,
    example: &'static str,
    help: &'static str,
) -> Variable {
    Variable { name, secret: true, default, example, help }
}

/// Where the app answers.
pub static OUTBOX_BASE_URL: Variable = plain(
    "OUTBOX_BASE_URL",
    "required",
    "http://100.64.1.2:8099",
    "where the app's outbox answers; a path prefix is kept",
);
/// The shared secret of the seam.
pub static INTERNAL_OUTBOX_TOKEN: Variable =
    secret("INTERNAL_OUTBOX_TOKEN", "required", "<the app's own value>", "the secret shared with the app");
/// The header that carries it.
pub static OUTBOX_TOKEN_HEADER: Variable = plain(
    "OUTBOX_TOKEN_HEADER",
    "X-Internal-Token",
    "X-Internal-Token",
    "the header that carries it; with Authorization it is sent as a Bearer token",
);
/// The window.
pub static OUTBOX_PAGE_LIMIT: Variable =
    plain("OUTBOX_PAGE_LIMIT", "500", "500", "the window: how many envelopes one lane holds, 1 to 500");
/// The origin of every link.
pub static APP_ORIGIN: Variable = plain(
    "APP_ORIGIN",
    "required",
    "https://app.example.com",
    "scheme, host and port of every link in a message",
);
/// Where unsubscribing happens.
pub static UNSUBSCRIBE_PATH: Variable = plain(
    "UNSUBSCRIBE_PATH",
    "/api/app/comms/unsubscribe",
    "/api/app/comms/unsubscribe",
    "where the app answers an unsubscribe link",
);
/// Which channels run.
pub static DELIVERY_CHANNELS: Variable =
    plain("DELIVERY_CHANNELS", "all that are configured", "email,push", "the channels that are drained");
/// Resend's key.
pub static RESEND_API_KEY: Variable =
    secret("RESEND_API_KEY", "required for email", "re_…", "the key of the Resend account");
/// Who mails are from.
pub static MAIL_FROM: Variable = plain(
    "MAIL_FROM",
    "required for email",
    "Your Week <week@mail.example.com>",
    "the sender; its domain is verified at Resend",
);
/// Where answers go.
pub static MAIL_REPLY_TO: Variable =
    plain("MAIL_REPLY_TO", "none", "hello@example.com", "where a reader's answer goes");
/// Where Resend answers.
pub static RESEND_BASE_URL: Variable = plain(
    "RESEND_BASE_URL",
    "https://api.resend.com",
    "https://api.resend.com",
    "where the Resend API answers",
);
/// The rate of mails.
pub static RESEND_MAX_RPS: Variable = plain(
    "RESEND_MAX_RPS",
    "follows Resend's headers",
    "2",
    "a hard cap of mails a second; 0 is no cap on our side",
);
/// When a mail is acked.
pub static DELIVERY_EMAIL_ACK: Variable = plain(
    "DELIVERY_EMAIL_ACK",
    "confirmed",
    "accepted",
    "when a mail is acked: confirmed, once Resend knows what became of it, or accepted, as soon as Resend has it",
);
/// How long its final word is waited for.
pub static DELIVERY_CONFIRM_WINDOW: Variable = plain(
    "DELIVERY_CONFIRM_WINDOW",
    "10m",
    "10m",
    "how long Resend is asked what became of a mail before it is acked as delivered all the same; at most 12h",
);
/// What Resend's events are signed with.
pub static RESEND_WEBHOOK_SECRET: Variable = secret(
    "RESEND_WEBHOOK_SECRET",
    "none",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "the signing secret of a webhook at Resend, with DELIVERY_WEBHOOK_ADDR: bounces are told as they happen",
);
/// Where Resend's events are taken.
pub static DELIVERY_WEBHOOK_ADDR: Variable = plain(
    "DELIVERY_WEBHOOK_ADDR",
    "none",
    "127.0.0.1:9111",
    "where POST /webhooks/resend is listened for, behind whatever brings it in from outside",
);
/// The VAPID key.
pub static VAPID_PRIVATE_KEY: Variable = secret(
    "VAPID_PRIVATE_KEY",
    "required for push",
    "<what `delivery-worker vapid generate` makes>",
    "the VAPID private key, base64url or PEM",
);
/// The VAPID contact.
pub static VAPID_SUBJECT: Variable = plain(
    "VAPID_SUBJECT",
    "required for push",
    "mailto:push@example.com",
    "whom a push service can write to; mailto: or https:",
);
/// Development only.
pub static PUSH_ALLOW_PRIVATE_ENDPOINTS: Variable = plain(
    "PUSH_ALLOW_PRIVATE_ENDPOINTS",
    "false",
    "false",
    "for development: endpoints may be plain http or in a private network",
);
/// Workers of the email lane.
pub static DELIVERY_EMAIL_WORKERS: Variable =
    plain("DELIVERY_EMAIL_WORKERS", "4", "4", "how many mails are on their way at once");
/// Workers of the push lane.
pub static DELIVERY_PUSH_WORKERS: Variable =
    plain("DELIVERY_PUSH_WORKERS", "32", "32", "how many pushes are on their way at once");
/// The poll interval.
pub static DELIVERY_POLL_INTERVAL: Variable =
    plain("DELIVERY_POLL_INTERVAL", "5s", "5s", "how often an idle lane asks for its page");
/// Attempts.
pub static DELIVERY_MAX_ATTEMPTS: Variable =
    plain("DELIVERY_MAX_ATTEMPTS", "8", "8", "attempts at one envelope before it is failed");
/// The first wait.
pub static DELIVERY_RETRY_BASE: Variable = plain(
    "DELIVERY_RETRY_BASE",
    "2s",
    "2s",
    "the first wait between attempts; each next is four times as long",
);
/// The longest wait.
pub static DELIVERY_RETRY_MAX: Variable =
    plain("DELIVERY_RETRY_MAX", "15m", "15m", "the longest wait between attempts");
/// Grace.
pub static DELIVERY_SHUTDOWN_GRACE: Variable =
    plain("DELIVERY_SHUTDOWN_GRACE", "25s", "25s", "how long sends and acks may still take after SIGTERM");
/// Own templates.
pub static DELIVERY_TEMPLATES_DIR: Variable = plain(
    "DELIVERY_TEMPLATES_DIR",
    "none",
    "/etc/delivery-worker/templates",
    "a directory of templates that adds to the built-in ones and overrides them",
);
/// The admin server.
pub static DELIVERY_ADMIN_ADDR: Variable = plain(
    "DELIVERY_ADMIN_ADDR",
    "127.0.0.1:9110",
    "127.0.0.1:9110",
    "where the status page, /healthz, /readyz and /metrics answer; off",
);
/// The log's form.
pub static DELIVERY_LOG_FORMAT: Variable =
    plain("DELIVERY_LOG_FORMAT", "json when stderr is not a terminal", "json", "json or text");
/// The log's level.
pub static RUST_LOG: Variable = plain("RUST_LOG", "info", "info", "which log lines are written");
/// Where traces go.
pub static OTEL_EXPORTER_OTLP_ENDPOINT: Variable = plain(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "none",
    "http://127.0.0.1:4318",
    "an OpenTelemetry collector, for traces, in a build with the feature otlp",
);

/// All of them, in the order of the documents.
pub static ALL: [&Variable; 31] = [
    &OUTBOX_BASE_URL,
    &INTERNAL_OUTBOX_TOKEN,
    &OUTBOX_TOKEN_HEADER,
    &OUTBOX_PAGE_LIMIT,
    &APP_ORIGIN,
    &UNSUBSCRIBE_PATH,
    &DELIVERY_CHANNELS,
    &RESEND_API_KEY,
    &MAIL_FROM,
    &MAIL_REPLY_TO,
    &RESEND_BASE_URL,
    &RESEND_MAX_RPS,
    &DELIVERY_EMAIL_ACK,
    &DELIVERY_CONFIRM_WINDOW,
    &RESEND_WEBHOOK_SECRET,
    &DELIVERY_WEBHOOK_ADDR,
    &VAPID_PRIVATE_KEY,
    &VAPID_SUBJECT,
    &PUSH_ALLOW_PRIVATE_ENDPOINTS,
    &DELIVERY_EMAIL_WORKERS,
    &DELIVERY_PUSH_WORKERS,
    &DELIVERY_POLL_INTERVAL,
    &DELIVERY_MAX_ATTEMPTS,
    &DELIVERY_RETRY_BASE,
    &DELIVERY_RETRY_MAX,
    &DELIVERY_SHUTDOWN_GRACE,
    &DELIVERY_TEMPLATES_DIR,
    &DELIVERY_ADMIN_ADDR,
    &DELIVERY_LOG_FORMAT,
    &RUST_LOG,
    &OTEL_EXPORTER_OTLP_ENDPOINT,
];

/// The variables of the email channel alone: one of them set means that mails are to be sent.
pub static EMAIL: [&Variable; 5] =
    [&RESEND_API_KEY, &MAIL_FROM, &MAIL_REPLY_TO, &RESEND_BASE_URL, &RESEND_MAX_RPS];

/// The variables of the push channel alone.
pub static PUSH: [&Variable; 3] = [&VAPID_PRIVATE_KEY, &VAPID_SUBJECT, &PUSH_ALLOW_PRIVATE_ENDPOINTS];

/// Whether a variable of this name is read.
pub fn is_read(name: &str) -> bool {
    ALL.iter().any(|v| v.name == name || (v.secret && name.strip_suffix("_FILE") == Some(v.name)))
}

/// The list for `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Environment (all read once, at the start; an empty value is an unset one; a secret X may come as X_FILE):\n",
    );
    for Variable { name, secret, default, help, .. } in ALL {
        let mark = if *secret { ", secret" } else { "" };
        text.push_str(&format!("\n  {name} [{default}{mark}]\n      {help}"));
    }
    text.push_str(
        "\n\nExit codes: 0 clean; 1 failed; 75 a send was cut or a known outcome is not acked; 78 bad configuration.",
    );
    text
}
