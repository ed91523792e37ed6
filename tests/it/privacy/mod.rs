//! No secret, address, endpoint or payload leaves the worker but for where it belongs: not in a log at
//! any level, not in a metric, a readiness reason or an ack's detail, whatever goes wrong.

mod debug;
mod panics;
mod seam;
mod start;

use axum::Json;
use axum::http::StatusCode;
use delivery_worker::sandbox::examples::{Example, digest, nudge};
use delivery_worker::sandbox::push::VapidKeys;
use delivery_worker::sandbox::{Fault, Options, Subscription};
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Program, Stage, says};

/// Stands in everything that must not be told.
const MARK: &str = "zqmark";

/// What must not be found, in lower case.
fn private(stage: &Stage, browsers: &[Subscription]) -> Vec<String> {
    let keys = [&browsers[0].json["keys"]["auth"], &browsers[0].json["keys"]["p256dh"]];
    let keys = keys.into_iter().map(|key| key.as_str().unwrap());
    let tokens = browsers.iter().map(|browser| browser.token.as_str());
    let all = keys.chain(tokens).chain([MARK, stage.push.vapid().private.as_str()]);
    all.map(str::to_lowercase).collect()
}

fn marked(id: &str) -> Example {
    let ref_ = json!({"digest_enabled": true, "cadence": "weekly", "unsubscribe_ref": format!("ref-{MARK}")});
    digest(id, &format!("{id}.{MARK}@example.com"))
        .set("/user_id", format!("user-{MARK}"))
        .set("/consent_snapshot", ref_)
        .set("/payload/sections/0/items/0/quote", format!("a quote {MARK}"))
        .set("/payload/sections/0/items/0/deep_link", format!("/player/{MARK}"))
}

async fn mails_that_go_wrong(stage: &Stage) {
    let says = |status: StatusCode, name: &str, id: &str| {
        let message =
            format!("Invalid `to`: {id}.{MARK}@example.com, key re_{MARK}_key, see https://x.test/{MARK}");
        Fault::answer((
            status,
            Json(json!({"statusCode": status.as_u16(), "name": name, "message": message})),
        ))
        .on(id)
    };
    let faults = stage.resend.faults();
    faults.add(says(StatusCode::UNPROCESSABLE_ENTITY, "validation_error", "refused"));
    faults.add(says(StatusCode::INTERNAL_SERVER_ERROR, "application_error", "once-500"));
    faults.add(Fault::answer((StatusCode::IM_A_TEAPOT, format!("teapot re_{MARK}_key"))).on("teapot"));
    faults.add(Fault::cut().on("cut"));
    faults.add(Fault::redirect(format!("https://elsewhere.test/{MARK}")).on("redirected"));
    for id in ["refused", "once-500", "teapot", "cut", "sent"] {
        stage.seam.enqueue(marked(id));
    }
    stage.seam.enqueue(marked("no-address").set("/recipient/email", format!("{MARK} is no address")));
    stage.seam.enqueue(marked("no-recipient").set("/recipient", MARK));
    stage.seam.enqueue(
        marked("off-origin").set("/payload/sections/0/items/0/deep_link", format!("//{MARK}.test/")),
    );
    stage.seam.enqueue(marked("bad-type").set("/payload/sections/0/items/0/t_ms", MARK));
    stage.seam.enqueue(marked("bad-time").set("/expires_at", MARK));
    stage.seam.enqueue(marked("no-template").set("/template", "no-such-thing.v1"));
    stage.seam.enqueue(json!({"id": 5, "quote": MARK, "channel": "email"}));
}

async fn pushes_that_go_wrong(stage: &Stage, browsers: &[Subscription]) {
    let [cut, bad, gone, foreign, sent, closed, odd] = browsers else { panic!("seven browsers") };
    let echo = |browser: &Subscription| json!({"reason": format!("{} has {}: {}", browser.token, browser.json["keys"], browser.json["endpoint"])});
    let faults = stage.push.faults();
    faults.add(Fault::cut().on(&cut.token));
    faults.add(Fault::answer((StatusCode::BAD_REQUEST, Json(echo(bad)))).on(&bad.token));
    faults.add(Fault::answer((StatusCode::FORBIDDEN, Json(echo(foreign)))).on(&foreign.token));
    stage.push.unsubscribe(&gone.token);
    for (id, browser) in
        [("push-cut", cut), ("push-bad", bad), ("push-gone", gone), ("push-foreign", foreign)]
    {
        stage.seam.enqueue(nudge(id, browser));
    }
    stage.seam.enqueue(nudge("push-sent", sent).set("/payload/lead/quote", MARK));
    let endpoint = |at: &str, browser: &Subscription| format!("{at}/{MARK}/{}", browser.token);
    let mut away = closed.clone();
    away.json["endpoint"] = endpoint("http://127.0.0.1:1", closed).into();
    stage.seam.enqueue(nudge("push-away", &away));
    let mut strange = odd.clone();
    strange.json["endpoint"] = endpoint("gopher://x.test", odd).into();
    stage.seam.enqueue(nudge("push-strange", &strange));
    strange.json =
        json!({"endpoint": endpoint("https://x.test", odd), "keys": {"p256dh": MARK, "auth": MARK}});
    stage.seam.enqueue(nudge("push-keys", &strange));
}

async fn told(stage: &Stage, program: &Program) -> String {
    let pages = [program.get("/metrics").await.1, program.get("/readyz").await.1].join("\n");
    let log = stage.journal.log();
    let details: Vec<_> = log.acks().map(|ack| format!("{}: {:?}", ack.id, ack.detail)).collect();
    [program.output(), pages, details.join("\n")].join("\n")
}

async fn nothing_is_told(stage: Stage) {
    let stage = stage
        .with("RUST_LOG", "trace")
        .with("MAIL_FROM", format!("Digest {MARK} <digest.{MARK}@mail.example.com>"))
        .with("MAIL_REPLY_TO", format!("answers.{MARK}@example.com"))
        .with("DELIVERY_MAX_ATTEMPTS", "2");
    let mut browsers: Vec<_> = (0..7).map(|_| stage.push.subscribe().unwrap()).collect();
    browsers[3] = stage.push.subscribe_for(&VapidKeys::generate().unwrap().public).unwrap();
    mails_that_go_wrong(&stage).await;
    pushes_that_go_wrong(&stage, &browsers).await;
    stage.seam.ack_faults().add(Fault::answer((StatusCode::INTERNAL_SERVER_ERROR, MARK)).on("sent"));
    let mut program = stage.run().await;

    stage.acked(["refused", "once-500", "cut", "sent", "no-address", "no-recipient", "off-origin"]).await;
    stage.acked(["bad-type", "bad-time", "no-template", "teapot"]).await;
    stage
        .acked([
            "push-cut",
            "push-bad",
            "push-gone",
            "push-foreign",
            "push-sent",
            "push-strange",
            "push-keys",
        ])
        .await;
    stage.seam.page_faults().add(Fault::redirect(format!("https://x.test/?token={MARK}")).times(2));
    program.logged("the redirect", says("poll failed")).await;
    stage.seam.enqueue(marked("redirected"));
    program.logged("the gate", says("gate closed")).await;
    let live = told(&stage, &program).await;
    program.signal(Signal::TERM);
    program.exit().await;
    let all = [live, program.output()].join("\n").to_lowercase();

    assert!(all.contains("push-away") && all.contains("teapot"), "the paths were walked");
    for word in private(&stage, &browsers) {
        let found = all.lines().find(|line| line.contains(&word));
        assert_eq!(found, None, "{word} is told");
    }
}

async fn stage() -> Stage {
    let options = Options {
        token: Some(format!("t0ken-{MARK}")),
        resend_api_key: format!("re_{MARK}_key"),
        ..Options::default()
    };
    Stage::with_options(options).await
}

#[tokio::test]
async fn nothing_private_is_told_in_json_whatever_goes_wrong() {
    nothing_is_told(stage().await).await;
}

#[tokio::test]
async fn nothing_private_is_told_in_text_whatever_goes_wrong() {
    nothing_is_told(stage().await.with("DELIVERY_LOG_FORMAT", "text")).await;
}
