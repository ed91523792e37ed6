//! The preflight, as an operator runs it: every line's ok, warn and fail, from the binary.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use delivery_worker::sandbox::examples::digest;
use delivery_worker::sandbox::{Options, Sandbox};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::harness::dns::{Zone, good, mx, name_server, txt};
use crate::harness::{binary, within};

/// The world that is checked: all good, until a test changes it.
struct World {
    sandbox: Sandbox,
    resolver: SocketAddr,
    env: BTreeMap<String, String>,
}

/// What the preflight told.
#[derive(Debug)]
struct Told {
    exit: Option<i32>,
    text: String,
}

impl World {
    async fn new() -> World {
        World::of_zone(good()).await
    }

    async fn of_zone(zone: Zone) -> World {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let env = sandbox.worker_env().into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut env: BTreeMap<_, _> = env.collect();
        env.insert("DELIVERY_ADMIN_ADDR".to_owned(), "127.0.0.1:0".to_owned());
        World { sandbox, resolver: name_server(zone).await, env }
    }

    fn with(mut self, variable: &str, value: impl ToString) -> World {
        self.env.insert(variable.to_owned(), value.to_string());
        self
    }

    async fn check(&self, more: &[&str]) -> Told {
        let resolver = self.resolver.to_string();
        let output = Command::new(binary())
            .args(["check", "--resolver", &resolver])
            .args(more)
            .env_clear()
            .envs(&self.env)
            .kill_on_drop(true)
            .output();
        let output = within(output, || "the check did not end".to_owned()).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        Told { exit: output.status.code(), text: String::from_utf8(output.stdout).unwrap() }
    }

    /// How many mails and acks there have been.
    fn sent(&self) -> (usize, usize) {
        let log = self.sandbox.journal.log();
        (log.mails().count(), log.acks().count())
    }
}

impl Told {
    /// Fails unless a line begins so, with what to do below it where something is wrong.
    fn says(&self, level: &str, topic: &str, what: &str) {
        let mut lines = self.text.lines();
        let begins = format!("{level:<5}{topic:<15}");
        let found = lines.by_ref().find(|line| line.starts_with(&begins) && line.contains(what));
        assert!(found.is_some(), "no line {begins}…{what} in\n{}", self.text);
        if ["warn", "FAIL"].contains(&level) && topic != "configuration" {
            assert!(lines.next().is_some_and(|next| next.contains("→ ")), "no mend in\n{}", self.text);
        }
    }
}

#[tokio::test]
async fn a_worker_that_would_deliver_passes_and_nothing_is_sent() {
    let world = World::new().await;
    world.sandbox.seam.enqueue(digest("week-31", "ann@example.com"));
    let told = world.check(&[]).await;
    assert_eq!(told.exit, Some(0), "{told:?}");
    for (topic, what) in [
        ("configuration", "whole"),
        ("seam", "email: 1 pending"),
        ("seam", "push: 0 pending"),
        ("clock", "the seam's agree"),
        ("resend", "full access"),
        ("domain", "mail.example.com is verified"),
        ("dkim", "has a key"),
        ("spf", "lets Resend send"),
        ("return-path", "amazonses.com"),
        ("dmarc", "example.com asks for reject"),
        ("push", &world.sandbox.push.vapid().public),
        ("templates", "resurface-nudge.v1, your-week-digest.v1"),
        ("admin", "is free"),
    ] {
        told.says("ok", topic, what);
    }
    told.says("skip", "outbound", "development");
    // The stand-ins are a configuration for development, which it says.
    assert!(!told.text.contains("FAIL") && told.text.matches("warn ").count() == 2, "{}", told.text);
    assert_eq!(world.sent(), (0, 0));
    let secrets =
        [&world.env["RESEND_API_KEY"], &world.env["INTERNAL_OUTBOX_TOKEN"], &world.env["VAPID_PRIVATE_KEY"]];
    assert!(secrets.iter().all(|secret| !told.text.contains(secret.as_str())), "{}", told.text);
}

#[tokio::test]
async fn a_script_reads_the_same_as_json_also_of_a_bad_configuration() {
    let document = |told: &Told| serde_json::from_str::<Value>(&told.text).unwrap();
    let good = World::new().await.check(&["--json"]).await;
    assert_eq!((good.exit, &document(&good)["ok"]), (Some(0), &json!(true)));

    let mut world = World::new().await.with("MAIL_FROM", "nonsense").with("INTERNAL_OUTBOX_TOKEN", "another");
    world.env.remove("APP_ORIGIN");
    let told = world.check(&["--json"]).await;
    assert_eq!((told.exit, &document(&told)["ok"]), (Some(78), &json!(false)));
    let lines = document(&told)["lines"].as_array().unwrap().clone();
    let first: Vec<&Value> = lines.iter().take_while(|line| line["topic"] == "configuration").collect();
    assert_eq!(first.len(), 2, "{}", told.text);
    assert!(first.iter().all(|line| line["level"] == "fail"), "{}", told.text);
    for (topic, level) in [("seam", "fail"), ("resend", "skip"), ("push", "ok"), ("templates", "skip")] {
        let found = lines.iter().any(|line| line["topic"] == topic && line["level"] == level);
        assert!(found, "what is good is looked at all the same: {topic} {level}\n{}", told.text);
    }
}

#[tokio::test]
async fn each_setting_that_would_keep_it_from_delivering_fails_by_name() {
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("http://{}", away.local_addr().unwrap());
    drop(away);
    for (variable, value, topic, what) in [
        ("INTERNAL_OUTBOX_TOKEN", "another", "seam", "token"),
        ("OUTBOX_BASE_URL", &nowhere, "seam", "out of reach (connect)"),
        ("RESEND_API_KEY", "re_another", "resend", "refuses the key"),
        ("RESEND_BASE_URL", &nowhere, "resend", "out of reach (connect)"),
        ("MAIL_FROM", "digest@elsewhere.example", "domain", "no domain of this Resend account"),
    ] {
        let told = World::new().await.with(variable, value).check(&[]).await;
        assert_eq!(told.exit, Some(1), "{told:?}");
        told.says("FAIL", topic, what);
        assert!(!told.text.contains("re_another"), "no secret is told\n{}", told.text);
    }
}

#[tokio::test]
async fn what_resend_says_of_key_and_domain_is_told() {
    let restricted = json!({"statusCode": 401, "name": "restricted_api_key", "message": "only send"});
    let pending = json!({"data": [{"id": "1", "name": "mail.example.com", "status": "pending"}]});
    let unsteady = json!({"data": [{"id": "1", "name": "mail.example.com", "status": "temporary_failure"}]});
    for (status, body, exit, level, topic, what) in [
        (401, restricted, 0, "warn", "resend", "may only send"),
        (200, pending, 1, "FAIL", "domain", "is not verified"),
        (200, unsteady, 0, "warn", "domain", "no longer finds"),
        (429, json!({"name": "rate_limit_exceeded"}), 0, "warn", "resend", "no time"),
    ] {
        let resend = MockServer::start().await;
        let answer = ResponseTemplate::new(status).set_body_json(body);
        Mock::given(method("GET")).and(path("/domains")).respond_with(answer).mount(&resend).await;
        let told = World::new().await.with("RESEND_BASE_URL", resend.uri()).check(&[]).await;
        assert_eq!(told.exit, Some(exit), "{told:?}");
        told.says(level, topic, what);
    }
}

#[tokio::test]
async fn what_dns_says_of_the_domain_is_told() {
    let told = World::of_zone(Vec::new()).await.check(&[]).await;
    assert_eq!(told.exit, Some(1));
    told.says("FAIL", "dkim", "no key at resend._domainkey.mail.example.com");
    told.says("warn", "spf", "no SPF record at send.mail.example.com");
    told.says("warn", "return-path", "no MX record");
    told.says("warn", "dmarc", "no DMARC record for mail.example.com");

    let wrong = vec![
        ("resend._domainkey.mail.example.com", txt("p=")),
        ("send.mail.example.com", txt("v=spf1 mx ~all")),
        ("send.mail.example.com", mx("mail.example.com")),
        ("_dmarc.mail.example.com", txt("v=DMARC1; p=perhaps")),
    ];
    let told = World::of_zone(wrong).await.check(&[]).await;
    assert_eq!(told.exit, Some(1));
    told.says("FAIL", "dkim", "revoked");
    told.says("FAIL", "spf", "does not let Resend send");
    told.says("FAIL", "return-path", "elsewhere");
    told.says("warn", "dmarc", "no policy");

    let mut silent = World::new().await;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    silent.resolver = socket.local_addr().unwrap();
    let told = silent.check(&[]).await;
    assert_eq!(told.exit, Some(0), "a name server that is away says nothing of the worker: {told:?}");
    told.says("warn", "dkim", "DNS does not tell");
}

#[tokio::test]
async fn what_the_seam_lists_and_cannot_be_sent_is_told_by_what_is_wrong_with_it() {
    let world = World::new().await;
    for id in ["a", "b"] {
        world.sandbox.seam.enqueue(digest(id, "ann@example.com").without("user_id"));
    }
    world.sandbox.seam.enqueue(digest("c", "ann@example.com").set("/schema_version", "2"));
    let told = world.check(&[]).await;
    assert_eq!(told.exit, Some(0), "{told:?}");
    told.says("warn", "seam", "email: 2 malformed: user_id");
    told.says("warn", "seam", "1 of a schema version");
}

#[tokio::test]
async fn templates_that_are_broken_or_nearly_too_large_are_told() {
    let write = |directory: &Path, file: &str, text: &str| {
        std::fs::create_dir_all(directory.join("resurface-nudge.v1")).unwrap();
        std::fs::write(directory.join("resurface-nudge.v1").join(file), text).unwrap();
    };
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "email.text.hbs", &"word ".repeat(19_000));
    let world = World::new().await.with("DELIVERY_TEMPLATES_DIR", directory.path().display());
    let told = world.check(&[]).await;
    assert_eq!(told.exit, Some(0), "{told:?}");
    told.says("warn", "templates", "resurface-nudge.v1 makes a mail of 9");
    write(directory.path(), "email.text.hbs", "\n{{#if");
    let told = world.check(&[]).await;
    assert_eq!(told.exit, Some(1), "{told:?}");
    told.says("FAIL", "templates", "resurface-nudge.v1/email.text.hbs:2");
}

#[tokio::test]
async fn an_admin_address_that_another_program_holds_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    // Whoever holds it is no worker: it hangs up.
    tokio::spawn(async move {
        while let Ok((stream, _)) = taken.accept().await {
            drop(stream);
        }
    });
    let secret = ("RESEND_WEBHOOK_SECRET", "whsec_YSBzZWNyZXQgdGhhdCBpcyBsb25nIGVub3VnaA==");
    let world = World::new().await.with(secret.0, secret.1).with("DELIVERY_WEBHOOK_ADDR", address);
    let told = world.with("DELIVERY_ADMIN_ADDR", address).check(&[]).await;
    assert_eq!(told.exit, Some(1), "{told:?}");
    told.says("FAIL", "admin", "cannot be had");
    told.says("FAIL", "webhook", "cannot be had");
    let world = World::new().await.with(secret.0, secret.1).with("DELIVERY_WEBHOOK_ADDR", "127.0.0.1:0");
    world.check(&[]).await.says("ok", "webhook", "is free");
}

#[tokio::test]
async fn one_real_mail_is_sent_where_it_is_asked_for_and_each_time_anew() {
    let world = World::new().await;
    for sent in 1..=2 {
        let told = world.check(&["--send-to", "ann@example.com"]).await;
        assert_eq!(told.exit, Some(0), "{told:?}");
        told.says("ok", "test mail", "Resend took it as ");
        assert!(!told.text.contains("ann@"), "{}", told.text);
        assert_eq!(world.sent(), (sent, 0));
    }
    assert_eq!(world.sandbox.resend.inbox().len(), 2, "under ids of their own");

    let told = world.check(&["--send-to", "nobody"]).await;
    assert_eq!(told.exit, Some(1), "{told:?}");
    told.says("FAIL", "test mail", "recipient.email");
    let told =
        World::new().await.with("RESEND_API_KEY", "re_another").check(&["--send-to", "a@b.test"]).await;
    told.says("FAIL", "test mail", "was not taken");
    let mut no_mail = World::new().await;
    no_mail.env.retain(|name, _| !name.starts_with("RESEND") && name != "MAIL_FROM");
    no_mail.check(&["--send-to", "a@b.test"]).await.says("FAIL", "test mail", "needs email configured");
}

#[tokio::test]
async fn a_name_server_that_is_none_is_a_wrong_command_line() {
    let output =
        Command::new(binary()).args(["check", "--resolver", "dns.example.com"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("such as 9.9.9.9"));
}
