use std::io::Write;

use proptest::prelude::*;
use secrecy::ExposeSecret;
use tempfile::NamedTempFile;

use super::*;
use crate::channel::email::AckAt;

/// A private key: any number of the curve is one.
const SCALAR: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

/// The least that both channels need.
const WHOLE: [(&str, &str); 7] = [
    ("OUTBOX_BASE_URL", "http://100.64.1.2:8099/prefix"),
    ("INTERNAL_OUTBOX_TOKEN", "t0ken-of-the-seam"),
    ("APP_ORIGIN", "https://app.example.com"),
    ("RESEND_API_KEY", "re_secret"),
    ("MAIL_FROM", "Your Week <week@mail.example.com>"),
    ("VAPID_PRIVATE_KEY", SCALAR),
    ("VAPID_SUBJECT", "mailto:push@example.com"),
];

/// [`WHOLE`] with each of `changes` put in its place; an empty value takes one away.
fn env(changes: &[(&str, &str)]) -> Environment {
    WHOLE.iter().chain(changes).copied().collect()
}

fn read_ok(changes: &[(&str, &str)]) -> (Config, Vec<String>) {
    let (config, warnings) = Config::read(&env(changes)).unwrap();
    (config, warnings.iter().map(ToString::to_string).collect())
}

/// The names of the variables that something is wrong with.
fn wrong(changes: &[(&str, &str)]) -> Vec<&'static str> {
    Config::read(&env(changes)).unwrap_err().iter().map(|problem| problem.variable).collect()
}

#[test]
fn the_least_environment_runs_both_channels_with_the_defaults() {
    let (config, warnings) = read_ok(&[]);
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(config.outbox.base_url.path(), "/prefix");
    assert_eq!(config.outbox.token.expose_secret(), "t0ken-of-the-seam");
    assert_eq!(config.outbox.token_header, "x-internal-token");
    assert_eq!(config.rendering.unsubscribe_path, "/api/app/comms/unsubscribe");
    let email = config.email.unwrap();
    assert_eq!(email.base_url.as_str(), "https://api.resend.com/");
    assert_eq!(email.rate, Rate::Follow { start: FIRST_RATE });
    assert_eq!(email.reply_to, None);
    assert!(!config.push.unwrap().allow_private_endpoints);
    assert_eq!(
        config.engine,
        engine::Settings {
            page_limit: 500,
            poll_interval: Duration::from_secs(5),
            max_attempts: 8,
            retry_base: Duration::from_secs(2),
            retry_max: Duration::from_secs(900),
            shutdown_grace: Duration::from_secs(25),
        }
    );
    assert_eq!(config.workers, Workers { email: 4, push: 32 });
    assert_eq!(config.rendering.templates_dir, None);
    assert_eq!(config.admin_addr, Some("127.0.0.1:9110".parse().unwrap()));
}

#[test]
fn every_problem_is_told_at_once_with_its_name_and_an_example() {
    let problems = Config::read(&Environment::default()).unwrap_err();
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "OUTBOX_BASE_URL is not set (e.g. OUTBOX_BASE_URL=http://100.64.1.2:8099)",
            "INTERNAL_OUTBOX_TOKEN is not set (e.g. INTERNAL_OUTBOX_TOKEN=<the app's own value>)",
            "APP_ORIGIN is not set (e.g. APP_ORIGIN=https://app.example.com)",
            "DELIVERY_CHANNELS has no channel to choose: set RESEND_API_KEY and MAIL_FROM for email, \
             VAPID_PRIVATE_KEY and VAPID_SUBJECT for push, or all four (e.g. DELIVERY_CHANNELS=email,push)",
        ]
    );
    assert_eq!(
        wrong(&[
            ("OUTBOX_PAGE_LIMIT", "501"),
            ("MAIL_FROM", "me"),
            ("VAPID_SUBJECT", "x"),
            ("RUST_LOG", "=,=")
        ]),
        ["MAIL_FROM", "VAPID_SUBJECT", "OUTBOX_PAGE_LIMIT", "RUST_LOG"]
    );
}

#[test]
fn a_value_out_of_its_range_is_refused_with_the_variables_name() {
    for (name, bad) in [
        ("OUTBOX_BASE_URL", "https://app.example.com/?x=1"),
        ("OUTBOX_TOKEN_HEADER", "Host"),
        ("OUTBOX_PAGE_LIMIT", "0"),
        ("APP_ORIGIN", "https://app.example.com/app"),
        ("UNSUBSCRIBE_PATH", "//evil.example.com"),
        ("DELIVERY_CHANNELS", "email,sms"),
        ("MAIL_REPLY_TO", "nobody"),
        ("RESEND_BASE_URL", "api.resend.com"),
        ("RESEND_MAX_RPS", "-1"),
        ("VAPID_PRIVATE_KEY", "AQEB"),
        ("PUSH_ALLOW_PRIVATE_ENDPOINTS", "yes"),
        ("DELIVERY_EMAIL_WORKERS", "0"),
        ("DELIVERY_PUSH_WORKERS", "many"),
        ("DELIVERY_POLL_INTERVAL", "5"),
        ("DELIVERY_POLL_INTERVAL", "0s"),
        ("DELIVERY_MAX_ATTEMPTS", "0"),
        ("DELIVERY_RETRY_BASE", "0ms"),
        ("DELIVERY_RETRY_MAX", "1s"),
        ("DELIVERY_SHUTDOWN_GRACE", "2h"),
        ("DELIVERY_TEMPLATES_DIR", "/nowhere/at/all"),
        ("DELIVERY_TEMPLATES_DIR", "/dev/null"),
        ("DELIVERY_ADMIN_ADDR", "localhost:9110"),
        ("DELIVERY_LOG_FORMAT", "xml"),
        ("RUST_LOG", "delivery_worker=loud"),
    ] {
        assert_eq!(wrong(&[(name, bad)]), [name], "{name}={bad}");
    }
}

#[test]
fn an_empty_value_is_an_unset_one() {
    assert_eq!(wrong(&[("APP_ORIGIN", ""), ("MAIL_FROM", "  ")]), ["APP_ORIGIN", "MAIL_FROM"]);
    let (config, _) = read_ok(&[("RESEND_API_KEY", ""), ("MAIL_FROM", ""), ("DELIVERY_MAX_ATTEMPTS", "")]);
    assert!(config.email.is_none() && config.push.is_some());
    assert_eq!(config.engine.max_attempts, 8);
}

#[test]
fn a_channel_that_is_set_in_part_is_an_error() {
    assert_eq!(wrong(&[("RESEND_API_KEY", "")]), ["RESEND_API_KEY"]);
    assert_eq!(
        wrong(&[("RESEND_API_KEY", ""), ("MAIL_FROM", ""), ("RESEND_MAX_RPS", "2")]),
        ["RESEND_API_KEY", "MAIL_FROM"]
    );
    assert_eq!(wrong(&[("VAPID_SUBJECT", "")]), ["VAPID_SUBJECT"]);
}

#[test]
fn the_webhooks_secret_and_address_go_together_and_need_email() {
    let (secret, address) = (&variables::RESEND_WEBHOOK_SECRET, &variables::DELIVERY_WEBHOOK_ADDR);
    let (secret, address) = ((secret.name, secret.example), (address.name, address.example));
    assert!(read_ok(&[secret, address]).0.webhook.is_some() && read_ok(&[]).0.webhook.is_none());
    assert_eq!(wrong(&[secret]), ["DELIVERY_WEBHOOK_ADDR"]);
    assert_eq!(wrong(&[address]), ["RESEND_WEBHOOK_SECRET"]);
    assert_eq!(wrong(&[secret, (address.0, "9111")]), ["DELIVERY_WEBHOOK_ADDR"]);
    assert_eq!(wrong(&[("RESEND_WEBHOOK_SECRET", "whsec_short"), address]), ["RESEND_WEBHOOK_SECRET"]);
    let push_only = [secret, address, ("RESEND_API_KEY", ""), ("MAIL_FROM", "")];
    assert_eq!(wrong(&push_only), ["DELIVERY_WEBHOOK_ADDR"]);
}

#[test]
fn when_a_mail_is_acked_can_be_chosen() {
    let ack = |changes: &[(&str, &str)]| read_ok(changes).0.email.unwrap().ack;
    assert_eq!(ack(&[]), AckAt::FinalWord(Duration::from_secs(600)));
    assert_eq!(ack(&[("DELIVERY_EMAIL_ACK", "accepted")]), AckAt::Acceptance);
    assert_eq!(ack(&[("DELIVERY_CONFIRM_WINDOW", "12h")]), AckAt::FinalWord(Duration::from_secs(43_200)));
    assert_eq!(wrong(&[("DELIVERY_EMAIL_ACK", "never"), ("DELIVERY_CONFIRM_WINDOW", "13h")]).len(), 2);
}

#[test]
fn the_channels_can_be_chosen() {
    let (config, _) = read_ok(&[("DELIVERY_CHANNELS", " push ")]);
    assert!(config.email.is_none() && config.push.is_some());
    let (config, _) = read_ok(&[("DELIVERY_CHANNELS", "email,push,email")]);
    assert!(config.email.is_some() && config.push.is_some());
    let none = [("DELIVERY_CHANNELS", "email"), ("RESEND_API_KEY", ""), ("MAIL_FROM", "")];
    assert_eq!(wrong(&none), ["RESEND_API_KEY", "MAIL_FROM"], "a chosen channel says what it lacks");
}

#[test]
fn a_secret_may_come_from_a_file() {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(b"  from-a-file\n").unwrap();
    let path = file.path().to_str().unwrap();
    let (config, _) = read_ok(&[("INTERNAL_OUTBOX_TOKEN", ""), ("INTERNAL_OUTBOX_TOKEN_FILE", path)]);
    assert_eq!(config.outbox.token.expose_secret(), "from-a-file");
    assert_eq!(wrong(&[("INTERNAL_OUTBOX_TOKEN_FILE", path)]), ["INTERNAL_OUTBOX_TOKEN"], "both");
    for no_secret in ["/nowhere/at/all", "/dev/null", "/dev/zero"] {
        let env = [("RESEND_API_KEY", ""), ("RESEND_API_KEY_FILE", no_secret)];
        assert_eq!(wrong(&env), ["RESEND_API_KEY"], "{no_secret}");
    }
}

#[test]
fn a_secret_that_was_not_copied_alone_is_refused() {
    for name in ["INTERNAL_OUTBOX_TOKEN", "RESEND_API_KEY"] {
        for bad in ["two\nlines", "tab\there", "gr\u{f6}\u{df}e", "nul\u{1}"] {
            assert_eq!(wrong(&[(name, bad)]), [name], "{bad:?}");
        }
    }
}

#[test]
fn a_pem_key_keeps_its_lines() {
    let key = openssl::ec::EcGroup::from_curve_name(openssl::nid::Nid::X9_62_PRIME256V1)
        .and_then(|curve| openssl::ec::EcKey::generate(&curve))
        .and_then(|key| key.private_key_to_pem())
        .unwrap();
    let pem = String::from_utf8(key).unwrap();
    assert!(read_ok(&[("VAPID_PRIVATE_KEY", &pem)]).0.push.is_some());
}

#[test]
fn an_unknown_variable_of_ours_is_a_warning_that_guesses_what_was_meant() {
    let (_, warnings) = read_ok(&[
        ("DELIVERY_POLL_INTERVALL", "5s"),
        ("DELIVERY_EMAIL_WORKER", "5"),
        ("DELIVERY_COLOUR", "blue"),
        ("RESEND_MAX_RSP", "2"),
        ("MAIL_SPOOL", "another program's"),
        ("PATH", "/bin"),
    ]);
    assert_eq!(
        warnings,
        [
            "DELIVERY_COLOUR is not known to this build and does nothing",
            "DELIVERY_EMAIL_WORKER is not known to this build and does nothing: is DELIVERY_EMAIL_WORKERS meant?",
            "DELIVERY_POLL_INTERVALL is not known to this build and does nothing: is DELIVERY_POLL_INTERVAL meant?",
            "RESEND_MAX_RSP is not known to this build and does nothing: is RESEND_MAX_RPS meant?",
        ]
    );
}

#[test]
fn settings_that_do_not_go_together_are_warned_of() {
    for (name, value) in [
        ("DELIVERY_SHUTDOWN_GRACE", "14s"),
        ("DELIVERY_POLL_INTERVAL", "61s"),
        ("OUTBOX_PAGE_LIMIT", "31"),
        ("APP_ORIGIN", "http://app.example.com"),
        ("RESEND_BASE_URL", "http://127.0.0.1:9000"),
        ("PUSH_ALLOW_PRIVATE_ENDPOINTS", "true"),
    ] {
        let (_, warnings) = read_ok(&[(name, value)]);
        assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
        assert!(warnings[0].starts_with(name), "{warnings:?}");
    }
    let (_, warnings) = read_ok(&[("DELIVERY_EMAIL_ACK", "accepted"), ("DELIVERY_CONFIRM_WINDOW", "5m")]);
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("DELIVERY_CONFIRM_WINDOW does nothing"),
        "{warnings:?}"
    );
    for (name, value) in
        [("DELIVERY_SHUTDOWN_GRACE", "15s"), ("DELIVERY_POLL_INTERVAL", "60s"), ("OUTBOX_PAGE_LIMIT", "32")]
    {
        assert_eq!(read_ok(&[(name, value)]).1, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn debug_shows_no_secret() {
    let environment = env(&[]);
    let shown = format!("{environment:?} {:?}", Config::read(&environment).unwrap());
    for secret in ["t0ken-of-the-seam", "re_secret", SCALAR] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_part_can_be_read_alone() {
    let alone = rendering(&[("APP_ORIGIN", "https://app.example.com")].into_iter().collect()).unwrap();
    assert_eq!(alone.app_origin.as_str(), "https://app.example.com/");
    let env = [("APP_ORIGIN", "https://app.example.com"), ("DELIVERY_TEMPLATES_DIR", "/nowhere/at/all")];
    assert_eq!(rendering(&env.into_iter().collect()).unwrap_err()[0].variable, "DELIVERY_TEMPLATES_DIR");

    assert!(vapid_key(&[("VAPID_PRIVATE_KEY", SCALAR)].into_iter().collect()).is_ok());
    assert_eq!(vapid_key(&Environment::default()).unwrap_err()[0].variable, "VAPID_PRIVATE_KEY");
}

#[test]
fn help_names_every_variable() {
    let help = variables::help();
    assert!(variables::ALL.iter().all(|variable| help.contains(variable.name)));
}

const EXAMPLE: &str = include_str!("../../deploy/delivery-worker.env.example");
const README: &str = include_str!("../../README.md");

#[test]
fn the_example_file_lists_every_variable_and_no_other_and_reads_without_a_warning() {
    let named: Vec<_> =
        EXAMPLE.lines().filter_map(|line| line.trim_start_matches('#').split_once('=')).collect();
    for variable in variables::ALL {
        assert!(named.iter().any(|(name, _)| *name == variable.name), "{} is missing", variable.name);
    }
    for (name, _) in named {
        assert!(variables::is_read(name), "{name} is not read");
    }
    let set = EXAMPLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
    // systemd and a shell both take the quotes away.
    let set = set.map(|(name, value)| (name, value.trim_matches('"')));
    let secrets =
        WHOLE.iter().copied().filter(|(name, _)| variables::ALL.iter().any(|v| v.secret && v.name == *name));
    let (_, warnings) = Config::read(&set.chain(secrets).collect()).unwrap();
    assert_eq!(warnings, []);
}

#[test]
fn the_readme_lists_every_variable_with_its_default() {
    for variable in variables::ALL {
        let row = format!("| `{}` | {} |", variable.name, variable.default);
        assert!(README.contains(&row), "README.md has no row that begins with {row}");
    }
}

#[test]
fn every_example_and_every_default_that_is_a_value_is_taken() {
    for variable in variables::ALL.iter().filter(|v| !v.secret) {
        let example = if variable == &&variables::DELIVERY_TEMPLATES_DIR { "/tmp" } else { variable.example };
        // It is of use beside its secret alone.
        let secret = &variables::RESEND_WEBHOOK_SECRET;
        let beside =
            (variable == &&variables::DELIVERY_WEBHOOK_ADDR).then_some((secret.name, secret.example));
        let all: Vec<_> = beside.into_iter().chain([(variable.name, example)]).collect();
        assert!(Config::read(&env(&all)).is_ok(), "{}", variable.name);
    }
}

proptest! {
    #[test]
    fn no_file_of_a_secret_panics_and_no_problem_quotes_it(
        secret in proptest::sample::select(&["INTERNAL_OUTBOX_TOKEN", "RESEND_API_KEY", "VAPID_PRIVATE_KEY"][..]),
        around in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&[&around[..], b"marker", &around].concat()).unwrap();
        let name = format!("{secret}_FILE");
        if let Err(problems) = Config::read(&env(&[(secret, ""), (&name, file.path().to_str().unwrap())])) {
            prop_assert!(problems.iter().all(|problem| !problem.to_string().contains("marker")));
            prop_assert!(problems.iter().all(|problem| problem.variable == secret));
        }
    }

    /// As [`no_value_panics_and_no_problem_quotes_one`], with values that are almost some.
    #[test]
    fn no_value_that_is_almost_one_panics(
        index in 0..variables::ALL.len(),
        value in "-?[0-9]{1,40}(ns|ms|s|m|h|days|y)?|https?://[\\PC]{0,20}|[\\PC]{0,9}<?[\\PC]{1,5}@[\\PC]{1,5}>?|/[\\PC]{0,9}|[a-z]{1,9}(,[a-z]{0,9}){0,3}|[0-9.:\\[\\]]{1,20}",
    ) {
        let variable = &variables::ALL[index];
        // Two that go together, so that what is wrong with one is not told of the other.
        let (secret, address) = (&variables::RESEND_WEBHOOK_SECRET, &variables::DELIVERY_WEBHOOK_ADDR);
        let both = [(secret.name, secret.example), (address.name, address.example)];
        let all: Vec<_> = both.into_iter().chain([(variable.name, value.as_str())]).collect();
        if let Err(problems) = Config::read(&env(&all)) {
            prop_assert!(problems.iter().any(|problem| problem.variable == variable.name));
        }
    }

    #[test]
    fn no_value_panics_and_no_problem_quotes_one(
        index in 0..variables::ALL.len(),
        value in "[\\PC]{0,30}",
    ) {
        let name = variables::ALL[index].name;
        let value = format!("marker{value}marker");
        if let Err(problems) = Config::read(&env(&[(name, &value)])) {
            prop_assert!(problems.iter().all(|problem| !problem.to_string().contains("marker")));
        }
    }
}
