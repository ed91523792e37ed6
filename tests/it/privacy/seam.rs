//! Every way in which the seam can fail, each with something private in its answer.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::nudge;
use rustix::process::Signal;
use serde_json::Value;

use super::{MARK, marked, private, stage};
use crate::harness::text;

/// Each kind of [`delivery_worker::outbox::SeamError`] by its name, and an answer that is one.
fn kinds() -> [(&'static str, Fault); 9] {
    let says =
        |status: StatusCode| Fault::answer((status, format!("token t0ken-{MARK} of a.{MARK}@example.com")));
    let elsewhere =
        (StatusCode::FOUND, [(LOCATION, format!("https://user:{MARK}@x.test/{MARK}?token={MARK}"))]);
    [
        ("unreachable", Fault::cut()),
        ("token_refused", says(StatusCode::UNAUTHORIZED)),
        ("forbidden", says(StatusCode::FORBIDDEN)),
        ("not_ready", says(StatusCode::SERVICE_UNAVAILABLE)),
        ("redirected", Fault::answer(elsewhere)),
        ("status", says(StatusCode::INTERNAL_SERVER_ERROR)),
        ("refused", says(StatusCode::UNPROCESSABLE_ENTITY)),
        ("unreadable", says(StatusCode::OK)),
        ("too_large", Fault::answer((StatusCode::OK, MARK.repeat(17 * 1024 * 1024 / MARK.len())))),
    ]
}

async fn nothing_is_told_of_the_seams_failures(format: &str) {
    let stage = stage().await.with("RUST_LOG", "trace").with("DELIVERY_LOG_FORMAT", format);
    let browsers = [stage.push.subscribe().unwrap()];
    for (name, ack) in kinds() {
        stage.seam.ack_faults().add(ack.on(format!("ack-{name}")));
        stage.seam.enqueue(marked(&format!("ack-{name}")));
    }
    stage.seam.enqueue(nudge("push-sent", &browsers[0]).set("/payload/lead/quote", MARK));
    let mut program = stage.run().await;
    for (name, page) in kinds() {
        let failed = |what: &'static str, error: &'static str| {
            move |line: &Value| text(line, "message").starts_with(what) && text(line, "error") == error
        };
        program.logged(&format!("an ack that is {name}"), failed("ack failed", name)).await;
        stage.seam.page_faults().add(page.on("email"));
        // Only an ack can be refused for good.
        let of_page = if name == "refused" { "status" } else { name };
        program.logged(&format!("a poll that is {name}"), failed("poll failed", of_page)).await;
        stage.more_pages(1, "email").await;
    }
    stage.acked(["ack-unreachable", "ack-too_large", "push-sent"]).await;
    let live = super::told(&stage, &program).await;
    program.signal(Signal::TERM);
    program.exit().await;
    let all = [live, program.output()].join("\n").to_lowercase();
    for word in private(&stage, &browsers) {
        let found = all.lines().find(|line| line.contains(&word));
        assert_eq!(found, None, "{format}: {word} is told");
    }
}

#[tokio::test]
async fn no_failure_of_the_seam_tells_what_its_answer_says() {
    for format in ["json", "text"] {
        nothing_is_told_of_the_seams_failures(format).await;
    }
}

/// A drain that is turned away, and its last words.
#[tokio::test]
async fn a_drain_that_gives_up_tells_nothing_private() {
    let stage = stage().await.with("RUST_LOG", "trace").with("DELIVERY_LOG_FORMAT", "text");
    stage.seam.enqueue(marked("held"));
    let (_, refused) = kinds().into_iter().nth(1).unwrap();
    stage.seam.page_faults().add(refused.on("email").always());
    let mut program = stage.drain();
    assert_eq!(program.exit().await, Some(1));
    let told = program.output();
    assert!(told.contains("gave up") && !told.to_lowercase().contains(MARK), "{told}");
}
