//! What is said of a start that fails: the variable or the field by its name, never a value that is
//! private.

use std::collections::BTreeMap;

use delivery_worker::sandbox::examples::digest;
use serde_json::Value;

use super::{MARK, marked};
use crate::harness::Program;

/// What the program says with `env`, which cannot be right.
async fn told(arguments: &[&str], env: &BTreeMap<String, String>, code: i32) -> String {
    let mut program = Program::start(arguments, env);
    assert_eq!(program.exit().await, Some(code), "{arguments:?}: {}", program.output());
    let told = program.output();
    assert!(!told.to_lowercase().contains(MARK), "{arguments:?} tells {MARK}:\n{told}");
    told
}

#[tokio::test]
async fn a_wrong_setting_is_named_and_its_value_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{MARK}\u{1}")).unwrap();
    let wrong = [
        ("OUTBOX_BASE_URL", format!("http://{MARK}:{MARK}@127.0.0.1")),
        ("INTERNAL_OUTBOX_TOKEN", format!("two words\n{MARK}")),
        ("OUTBOX_TOKEN_HEADER", format!("{MARK}:")),
        ("APP_ORIGIN", format!("https://app.test/{MARK}")),
        ("RESEND_API_KEY_FILE", file.path().display().to_string()),
        ("MAIL_FROM", format!("{MARK} at example.com")),
        ("MAIL_REPLY_TO", format!("<{MARK}@example.com")),
        ("RESEND_BASE_URL", format!("https://api.test/?key={MARK}")),
        ("RESEND_MAX_RPS", MARK.to_owned()),
        ("VAPID_PRIVATE_KEY", format!("-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----")),
        ("VAPID_SUBJECT", format!("mailto:{MARK}")),
        ("PUSH_ALLOW_PRIVATE_ENDPOINTS", MARK.to_owned()),
        ("DELIVERY_POLL_INTERVAL", MARK.to_owned()),
        ("DELIVERY_ADMIN_ADDR", MARK.to_owned()),
    ];
    let env = wrong.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    for command in ["run", "drain"] {
        let told = told(&[command], &env, 78).await;
        for (name, _) in &wrong {
            let name = name.trim_end_matches("_FILE");
            assert!(told.contains(name), "{name} is not named in\n{told}");
        }
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_read_is_named_and_never_shown() {
    for key in [MARK.to_owned(), format!("{MARK}{}", "A".repeat(30)), format!("-----BEGIN {MARK}-----")] {
        let env = BTreeMap::from([("VAPID_PRIVATE_KEY".to_owned(), key)]);
        assert!(told(&["vapid", "public"], &env, 78).await.contains("VAPID_PRIVATE_KEY"));
    }
}

#[tokio::test]
async fn an_envelope_that_cannot_be_rendered_is_refused_by_the_name_of_its_field() {
    let env = BTreeMap::from([("APP_ORIGIN".to_owned(), "https://app.test".to_owned())]);
    let item = "/payload/sections/0/items/0";
    let wrong: [(Value, &str); 6] = [
        (marked("x").set(&format!("{item}/deep_link"), format!("//{MARK}.test/")).into(), "deep_link"),
        (marked("x").set(&format!("{item}/t_ms"), MARK).into(), "t_ms"),
        (marked("x").set("/payload/sections", MARK).into(), "sections"),
        (marked("x").set("/expires_at", MARK).into(), "expires_at"),
        (marked("x").set("/recipient", MARK).into(), "recipient"),
        (digest("x", MARK).set("/schema_version", "2").into(), "schema_version"),
    ];
    let broken = format!("{{\"quote\": \"{MARK}");
    let texts = wrong.iter().map(|(envelope, field)| (envelope.to_string(), *field));
    for (text, field) in texts.chain([(broken, "line 1")]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let told = told(&["render", file.path().to_str().unwrap()], &env, 1).await;
        assert!(told.contains(field), "{field} is not named in\n{told}");
    }
}
