//! The same envelope is the same message: whatever order its fields come in, wherever and whenever it is
//! rendered. The provider's idempotency key protects the same bytes alone.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};

use delivery_worker::sandbox::examples::digest;
use rustix::process::Signal;
use serde_json::{Value, json};
use wiremock::{Request, ResponseTemplate};

use crate::harness::{Stage, Wire};

/// Surroundings of a worker that write dates, numbers and names each in their own way.
const ELSEWHERE: [&[(&str, &str)]; 3] = [
    &[("TZ", "UTC"), ("LANG", "C")],
    &[("TZ", "Pacific/Kiritimati"), ("LANG", "tr_TR.UTF-8"), ("LC_ALL", "tr_TR.UTF-8"), ("LANGUAGE", "tr")],
    &[("TZ", "America/St_Johns"), ("LANG", "de_DE.UTF-8"), ("LC_ALL", "ar_EG.UTF-8")],
];

/// The same JSON with the fields of each object turned round. As text: a `Value` may sort them again.
fn turned(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields =
                fields.iter().rev().map(|(name, value)| format!("{}:{}", json!(name), turned(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(turned).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

fn rendered(arguments: &[&str], env: &[(&str, &str)]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_delivery-worker"))
        .arg("render")
        .args(arguments)
        .env_clear()
        .env("APP_ORIGIN", "https://app.example.com")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Case 13: keys shuffled, under another TZ and LANG, in each format.
#[test]
fn an_envelope_is_rendered_to_the_same_bytes_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    for template in ["your-week-digest.v1", "resurface-nudge.v1"] {
        let example = format!("{}/templates/{template}/example.json", env!("CARGO_MANIFEST_DIR"));
        let envelope: Value = serde_json::from_str(&fs::read_to_string(&example).unwrap()).unwrap();
        let other = folder.path().join("turned.json");
        fs::write(&other, turned(&envelope)).unwrap();
        assert_ne!(turned(&envelope), envelope.to_string());
        for (channel, format) in
            [("email", "html"), ("email", "text"), ("email", "subject"), ("email", "json"), ("push", "json")]
        {
            let how = ["--channel", channel, "--format", format];
            let expected = rendered(&[&[example.as_str()], &how[..]].concat(), &[]);
            assert!(expected.len() > 20, "{template} {how:?}");
            for env in ELSEWHERE {
                let again = rendered(&[&[other.to_str().unwrap()], &how[..]].concat(), env);
                assert_eq!(again, expected, "{template} {how:?} {env:?}");
            }
        }
    }
}

/// A seam that lists one element, as the text that it is told, until it is acked.
async fn listing(element: Arc<Mutex<String>>) -> Wire {
    Wire::start(move |request: &Request| match request.method.as_str() {
        "GET" => {
            let page = format!(r#"{{"envelopes":[{}]}}"#, element.lock().unwrap());
            ResponseTemplate::new(200).set_body_raw(page, "application/json")
        }
        _ => ResponseTemplate::new(200).set_body_json(json!({"status": "delivered"})),
    })
    .await
}

/// Case 13: put to the provider again by another process, elsewhere, from the same envelope with its keys
/// shuffled.
#[tokio::test]
async fn a_mail_is_put_to_the_provider_again_with_the_same_key_and_the_same_bytes() {
    let envelope: Value = digest("week-31", "ann@example.com").into();
    let element = Arc::new(Mutex::new(envelope.to_string()));
    let seam = listing(element.clone()).await;
    let resend = Wire::start(|_| ResponseTemplate::new(500)).await;
    let stage = Stage::of_email().await;
    let mut stage = stage.with("OUTBOX_BASE_URL", seam.url()).with("RESEND_BASE_URL", resend.url());

    let mut sent: BTreeMap<Vec<u8>, String> = BTreeMap::new();
    for env in ELSEWHERE {
        for (name, value) in env {
            stage = stage.with(name, *value);
        }
        let before = resend.requests().len();
        let mut program = stage.run().await;
        let requests = resend.until("two sends more", |all| all.len() >= before + 2).await;
        program.signal(Signal::KILL);
        program.exit().await;
        for request in requests {
            let key = request.headers["idempotency-key"].to_str().unwrap().to_owned();
            sent.insert(request.body, key);
        }
        *element.lock().unwrap() = turned(&envelope);
    }
    assert_eq!(sent.values().collect::<Vec<_>>(), ["week-31"], "one body under one key");
}
