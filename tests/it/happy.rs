//! From the outbox to the provider and back, when all is well: against the stand-ins, which check what
//! the real ones check, and against servers that hand over what came over the wire.

use std::collections::BTreeSet;

use delivery_worker::http::USER_AGENT;
use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::examples::{APP_ORIGIN, digest, nudge};
use serde_json::{Value, json};
use wiremock::{Request, ResponseTemplate};

use crate::harness::{Program, Stage, Wire, WireSeam, mailed};

#[tokio::test]
async fn a_mail_and_a_push_are_delivered_and_acked_once() {
    let stage = Stage::new().await;
    let browser = stage.push.subscribe().unwrap();
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(nudge("nudge-1", &browser));
    let program = stage.run().await;

    for ack in stage.acked(["week-31", "nudge-1"]).await {
        assert_eq!((ack.posted, ack.detail), (AckStatus::Delivered, None), "{}", ack.id);
    }
    let log = stage.more_pages(3, "email").await;
    assert_eq!((log.mails().count(), log.pushes().count(), log.acks().count()), (1, 1, 2));
    assert_eq!(log.refusals().count(), 0);

    let mail = log.mails().next().unwrap();
    assert_eq!(
        (mail.from.as_str(), mail.to.as_str()),
        ("Marginalia <digest@mail.example.com>", "ann@example.com")
    );
    let unsubscribe = format!("<{APP_ORIGIN}/api/app/comms/unsubscribe?ref=unsub-week-31>");
    assert_eq!(mail.header("List-Unsubscribe"), Some(unsubscribe.as_str()));
    assert!(mail.html.contains(APP_ORIGIN) && mail.text.contains(APP_ORIGIN));

    let push = log.pushes().next().unwrap();
    assert_eq!(push.token, browser.token);
    assert!(!push.title.is_empty() && !push.body.is_empty() && push.url.starts_with(APP_ORIGIN), "{push:?}");
    assert_eq!(push.topic.as_deref(), Some(push.tag.as_str()));
    assert!((600_000..=604_800).contains(&push.ttl), "a week is left to it: {}", push.ttl);
    assert_eq!(program.get("/readyz").await, (200, "ready\n".to_owned()));
}

const ODD_ID: &str = "a/b?c#d %é";

/// A worker for servers on wiremock.
async fn wired(seam: &WireSeam, channel: &str, resend: &str) -> (Stage, Program) {
    let stage = Stage::new()
        .await
        .with("OUTBOX_BASE_URL", seam.url())
        .with("INTERNAL_OUTBOX_TOKEN", "s3am-token")
        .with("RESEND_BASE_URL", resend)
        .with("DELIVERY_CHANNELS", channel);
    let program = stage.run().await;
    (stage, program)
}

fn header<'a>(request: &'a Request, name: &str) -> &'a str {
    request.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn over_the_wire_the_seam_and_resend_get_what_the_contract_says() {
    let seam = WireSeam::start(vec![digest(ODD_ID, "Ann@Example.com").into()]).await;
    let resend = Wire::start(|_| ResponseTemplate::new(200).set_body_json(json!({"id": "m-1"}))).await;
    let (_stage, _program) = wired(&seam, "email", &resend.url()).await;

    let acks = seam.acked(1).await;
    assert_eq!(acks, [(ODD_ID.to_owned(), json!({"status": "delivered"}))].into());
    for request in seam.requests() {
        assert_eq!(header(&request, "x-internal-token"), "s3am-token");
        assert_eq!(header(&request, "user-agent"), USER_AGENT);
        match request.method.as_str() {
            "GET" => {
                assert_eq!(request.url.path(), "/internal/outbox/pending");
                let query: Vec<_> = request.url.query_pairs().into_owned().collect();
                assert_eq!(query[0], ("channel".to_owned(), "email".to_owned()));
                let limit: u16 = query[1].1.parse().unwrap();
                assert!(query[1].0 == "limit" && (1..=500).contains(&limit), "{query:?}");
            }
            _ => assert_eq!(request.url.path(), "/internal/outbox/a%2Fb%3Fc%23d%20%25%C3%A9/status"),
        }
    }
    let [request] = &resend.requests()[..] else { panic!("one mail") };
    assert_eq!((request.method.as_str(), request.url.path()), ("POST", "/emails"));
    assert_eq!(header(request, "authorization"), "Bearer re_sandbox_key");
    assert_eq!(
        (header(request, "content-type"), header(request, "user-agent")),
        ("application/json", USER_AGENT)
    );
    let key = header(request, "idempotency-key");
    assert!(key.starts_with("sha256:") && key.len() == 71, "an id that fits no header is hashed: {key}");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let fields: BTreeSet<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        BTreeSet::from(["from", "headers", "html", "subject", "tags", "text", "to"]),
        "no more, and no nulls"
    );
    assert_eq!(body["to"], json!(["Ann@example.com"]));
    assert_eq!(body["headers"]["List-Unsubscribe-Post"], "List-Unsubscribe=One-Click");
    assert_eq!(body["tags"][0], json!({"name": "envelope", "value": "a_2Fb_3Fc_23d_20_25_C3_A9"}));
}

#[tokio::test]
async fn over_the_wire_a_push_service_gets_what_the_standards_say() {
    let stage = Stage::new().await;
    let service = Wire::start(|_| ResponseTemplate::new(201)).await;
    let mut browser = stage.push.subscribe().unwrap();
    browser.json["endpoint"] = format!("{}/send/s3cret?x=1", service.url()).into();
    let seam = WireSeam::start(vec![nudge("nudge-1", &browser).into()]).await;
    let (_stage, _program) = wired(&seam, "push", &service.url()).await;

    seam.acked(1).await;
    let [request] = &service.requests()[..] else { panic!("one push") };
    assert_eq!(
        (request.method.as_str(), request.url.path(), request.url.query()),
        ("POST", "/send/s3cret", Some("x=1"))
    );
    assert_eq!(header(request, "content-encoding"), "aes128gcm");
    assert!(header(request, "authorization").starts_with("vapid t="), "{:?}", request.headers);
    assert!(header(request, "ttl").parse::<u32>().unwrap() > 0);
    assert_eq!((header(request, "topic").len(), header(request, "user-agent")), (32, USER_AGENT));
    assert!(!String::from_utf8_lossy(&request.body).contains("title"), "the body is encrypted");
}

#[tokio::test]
async fn an_id_of_any_form_goes_through_the_stand_ins_as_one() {
    let stage = Stage::of_email().await;
    for id in [ODD_ID, "..%2f..", "ünï/cödé", "-"] {
        stage.seam.enqueue(digest(id, "ann@example.com").set("/user_id", "u-1"));
    }
    let _program = stage.run().await;
    stage.acked([ODD_ID, "..%2f..", "ünï/cödé", "-"]).await;
    assert_eq!(mailed(&stage.journal.log()).len(), 4);
}

/// Case 11: no new header, and the mail is sent.
#[tokio::test]
async fn line_ends_in_a_title_put_nothing_but_one_line_into_the_mail() {
    let title = "a\r\nBcc: x@y.test\u{2028}\t\tb";
    let envelope =
        digest("week-31", "ann@example.com").set("/payload/sections/0/items/0/episode_title", title);
    let seam = WireSeam::start(vec![envelope.into()]).await;
    let resend = Wire::start(|_| ResponseTemplate::new(200).set_body_json(json!({"id": "m-1"}))).await;
    let (_stage, _program) = wired(&seam, "email", &resend.url()).await;

    seam.acked(1).await;
    let [request] = &resend.requests()[..] else { panic!("one mail") };
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let subject = body["subject"].as_str().unwrap();
    assert!(subject.contains("a Bcc: x@y.test b") && !subject.contains(char::is_control), "{subject:?}");
    assert!(!subject.contains('\u{2028}'), "{subject:?}");
    assert_eq!(body["to"], json!(["ann@example.com"]));
    let headers: Vec<_> = body["headers"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(headers, ["List-Unsubscribe", "List-Unsubscribe-Post"]);
    assert!(body.get("bcc").is_none());
}
