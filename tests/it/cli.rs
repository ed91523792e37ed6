//! The program as an operator meets it.

use std::process::{Command, Output};

fn run(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_delivery-worker"))
        .args(arguments)
        .env_clear()
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_wrong_command_line_is_bad_configuration() {
    for wrong in [&[][..], &["fly"], &["--fly"], &["render"]] {
        let output = run(wrong, &[]);
        assert_eq!(output.status.code(), Some(78), "{wrong:?}");
        assert!(stderr(&output).contains("Usage"), "{wrong:?}");
    }
}

#[test]
fn help_and_version_are_told_on_stdout() {
    let help = run(&["--help"], &[]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("OUTBOX_BASE_URL"));
    let version = run(&["--version"], &[]);
    assert_eq!(stdout(&version), concat!("delivery-worker ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_missing_variable_is_named_and_ends_with_78() {
    let output = run(&["render", "templates/your-week-digest.v1/example.json"], &[]);
    assert_eq!(output.status.code(), Some(78));
    assert!(
        stderr(&output).contains("APP_ORIGIN is not set (e.g. APP_ORIGIN=https://"),
        "{}",
        stderr(&output)
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn the_worker_does_not_start_with_a_wrong_configuration_and_tells_all_of_it() {
    for command in ["run", "drain"] {
        let output = run(&[command], &[("OUTBOX_BASE_URL", "nowhere"), ("RESEND_API_KEY", "re_marker")]);
        assert_eq!(output.status.code(), Some(78), "{command}");
        for name in ["OUTBOX_BASE_URL", "INTERNAL_OUTBOX_TOKEN", "APP_ORIGIN", "MAIL_FROM"] {
            assert!(stderr(&output).contains(&format!("\n  {name} ")), "{name}: {}", stderr(&output));
        }
        assert!(!stderr(&output).contains("re_marker"));
    }
}

#[test]
fn two_workers_on_one_machine_do_not_start_beside_each_other() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let env = [
        ("OUTBOX_BASE_URL", "http://127.0.0.1:9"),
        ("INTERNAL_OUTBOX_TOKEN", "t0ken"),
        ("APP_ORIGIN", "https://app.example.com"),
        ("RESEND_API_KEY", "re_secret"),
        ("MAIL_FROM", "week@mail.example.com"),
        ("DELIVERY_ADMIN_ADDR", address.as_str()),
    ];
    let output = run(&["run"], &env);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("DELIVERY_ADMIN_ADDR"), "{}", stderr(&output));
}

#[test]
fn broken_templates_are_bad_configuration_and_every_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for template in ["a.v1", "b.v1"] {
        std::fs::create_dir(folder.path().join(template)).unwrap();
        std::fs::write(folder.path().join(template).join("push.title.hbs"), "{{#if}}").unwrap();
    }
    let env = [
        ("APP_ORIGIN", "https://app.example.com"),
        ("DELIVERY_TEMPLATES_DIR", folder.path().to_str().unwrap()),
    ];
    let output = run(&["render", "templates/your-week-digest.v1/example.json"], &env);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("a.v1/") && stderr(&output).contains("b.v1/"), "{}", stderr(&output));
}

#[test]
fn an_envelope_is_shown_as_it_will_be_read() {
    let env = [("APP_ORIGIN", "https://app.example.com")];
    let output = run(&["render", "templates/your-week-digest.v1/example.json"], &env);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("https://app.example.com/"));
    let missing = run(&["render", "/nowhere/at/all.json"], &env);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("/nowhere/at/all.json"), "{}", stderr(&missing));
}

#[test]
fn a_key_pair_that_is_made_is_one_that_is_taken() {
    let made = run(&["vapid", "generate"], &[]);
    let value = |name| stdout(&made).lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let shown = run(&["vapid", "public"], &[("VAPID_PRIVATE_KEY", value("VAPID_PRIVATE_KEY="))]);
    assert_eq!(stdout(&shown).trim_end(), value("VAPID_PUBLIC_KEY="));
    let unset = run(&["vapid", "public"], &[]);
    assert_eq!(unset.status.code(), Some(78));
    assert!(stderr(&unset).contains("VAPID_PRIVATE_KEY is not set"));
}
