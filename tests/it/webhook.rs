//! What Resend tells unasked: signed events reach the app, and nothing else is believed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use delivery_worker::http::client_builder;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::digest;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use serde_json::{Value, json};

use crate::harness::{Program, Stage, text};

const KEY: &[u8] = b"a key that only this test knows.";

/// A worker that listens for events, and Resend's hand.
struct Listening {
    stage: Stage,
    program: Program,
    url: String,
}

impl Listening {
    async fn new() -> Listening {
        let stage = Stage::of_email()
            .await
            .with("DELIVERY_EMAIL_ACK", "confirmed")
            .with("DELIVERY_WEBHOOK_ADDR", "127.0.0.1:0")
            .with("RESEND_WEBHOOK_SECRET", format!("whsec_{}", BASE64_STANDARD.encode(KEY)));
        Listening::on(stage).await
    }

    async fn on(stage: Stage) -> Listening {
        let program = Program::start(&["run"], stage.env());
        let line = program.logged("the start", |line| text(line, "message") == "delivering").await;
        let url = format!("http://{}/webhooks/resend", text(&line, "webhook"));
        Listening { program: program.delivering().await, url, stage }
    }

    /// Posts an event as Resend would, `id` its own; the answer's status.
    async fn tell(&self, id: &str, event: &Value) -> u16 {
        let now = chrono::Utc::now().timestamp();
        let body = event.to_string();
        self.post(id, now, &sign(KEY, id, now, &body), body).await
    }

    async fn post(&self, id: &str, timestamp: i64, signature: &str, body: String) -> u16 {
        let client = client_builder().tls_certs_only([]).build().unwrap();
        let request =
            client.post(&self.url).header("svix-id", id).header("svix-timestamp", timestamp.to_string());
        request.header("svix-signature", signature).body(body).send().await.unwrap().status().as_u16()
    }

    fn acks(&self) -> Vec<(String, String)> {
        let log = self.stage.journal.log();
        log.acks().map(|ack| (ack.id.clone(), ack.posted.to_string())).collect()
    }

    async fn count(&self, result: &str) -> f64 {
        let series = format!(r#"delivery_webhook_events_total{{channel="email",result="{result}"}}"#);
        self.program.metric(&series).await
    }
}

fn sign(key: &[u8], id: &str, timestamp: i64, body: &str) -> String {
    let key = PKey::hmac(key).unwrap();
    let mut signer = Signer::new(MessageDigest::sha256(), &key).unwrap();
    signer.update(format!("{id}.{timestamp}.{body}").as_bytes()).unwrap();
    format!("v1,{}", BASE64_STANDARD.encode(signer.sign_to_vec().unwrap()))
}

fn event(kind: &str, envelope: &str) -> Value {
    let tag = envelope.replace('_', "_5F").replace('/', "_2F");
    let tags = json!({"envelope": tag, "template": "your-week-digest_2Ev1"});
    json!({"type": kind, "created_at": "2026-08-03T06:00:00.000Z",
           "data": {"email_id": "m-1", "to": ["x@example.com"], "tags": tags, "bounce": {"type": "Permanent"}}})
}

fn ack(id: &str, status: &str) -> (String, String) {
    (id.to_owned(), status.to_owned())
}

#[tokio::test]
async fn an_event_ends_the_waiting_before_anybody_has_asked() {
    let told = Listening::new().await;
    told.stage.seam.enqueue(digest("week/31", "silent@example.com"));
    told.program.logged("the acceptance", |line| line["outcome"] == "accepted").await;
    assert_eq!(told.tell("evt-1", &event("email.delivery_delayed", "week/31")).await, 200);
    assert_eq!(told.acks(), []);
    assert_eq!(told.tell("evt-2", &event("email.bounced", "week/31")).await, 200);
    assert_eq!(told.acks(), [ack("week/31", "bounced")]);
    assert_eq!(
        told.program.metric(r#"delivery_confirmations_total{channel="email",result="bounced"}"#).await,
        1.0
    );
}

#[tokio::test]
async fn an_event_about_a_mail_of_days_ago_is_passed_on_and_an_older_status_stays() {
    let told = Listening::new().await;
    // Settled before this process began, as delivered.
    told.stage.seam.enqueue(digest("old", "ann@example.com"));
    told.stage.acked(["old"]).await;
    let again = Listening::on(told.stage).await;
    assert_eq!(again.tell("evt-1", &event("email.complained", "old")).await, 200);
    assert_eq!(again.acks(), [ack("old", "delivered"), ack("old", "complaint")]);
    assert_eq!(again.program.metric(r#"delivery_acks_total{channel="email",result="differs"}"#).await, 1.0);
    // One that the app does not know is no reason to tell it for ever.
    assert_eq!(again.tell("evt-2", &event("email.bounced", "never-heard-of")).await, 200);
    assert_eq!(
        again
            .tell("evt-3", &json!({"type": "email.bounced", "data": {"bounce": {"type": "Permanent"}}}))
            .await,
        200
    );
    assert_eq!(again.count("stranger").await, 1.0);
}

#[tokio::test]
async fn nothing_is_believed_without_a_good_signature_of_now() {
    let told = Listening::new().await;
    let body = event("email.bounced", "week-31").to_string();
    let now = chrono::Utc::now().timestamp();
    for (timestamp, signature) in [
        (now, String::new()),
        (now, sign(b"another key of the right length!", "evt", now, &body)),
        (now, sign(KEY, "another", now, &body)),
        (now + 1, sign(KEY, "evt", now, &body)),
        (now - 400, sign(KEY, "evt", now - 400, &body)),
    ] {
        assert_eq!(
            told.post("evt", timestamp, &signature, body.clone()).await,
            401,
            "{timestamp} {signature}"
        );
    }
    let long = "x".repeat(100_000);
    assert_eq!(told.post("evt", now, &sign(KEY, "evt", now, &long), long.clone()).await, 413);
    assert_eq!(told.acks(), []);
    assert_eq!(told.count("refused").await, 5.0);
}

#[tokio::test]
async fn an_event_that_is_told_twice_is_passed_on_once_and_a_soft_bounce_never() {
    let told = Listening::new().await;
    let complaint = event("email.complained", "week-31");
    assert_eq!(told.tell("evt-1", &complaint).await, 200);
    assert_eq!(told.tell("evt-1", &complaint).await, 200);
    assert_eq!(told.acks(), [ack("week-31", "complaint")]);
    let mut soft = event("email.bounced", "week-32");
    soft["data"]["bounce"]["type"] = json!("Transient");
    assert_eq!(told.tell("evt-2", &soft).await, 200);
    assert_eq!(told.acks().len(), 1);
    assert_eq!((told.count("repeated").await, told.count("open").await), (1.0, 1.0));
}

#[tokio::test]
async fn what_the_seam_has_not_taken_is_to_be_told_again() {
    let told = Listening::new().await;
    told.stage.seam.ack_faults().add(Fault::hang().on("week-31"));
    assert_eq!(told.tell("evt-1", &event("email.bounced", "week-31")).await, 503);
    told.stage.seam.ack_faults().clear();
    assert_eq!(told.tell("evt-1", &event("email.bounced", "week-31")).await, 200);
    assert!(told.acks().contains(&ack("week-31", "bounced")));
    assert_eq!(told.count("not_yet").await, 1.0);
}
