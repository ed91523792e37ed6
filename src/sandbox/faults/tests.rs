//! Each fault as a client sees it, at the stand-in where it is the easiest to see.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use reqwest::RequestBuilder;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Fault;
use crate::outcome::AckStatus;
use crate::sandbox::journal::{Endpoint, Event};
use crate::sandbox::testing::{Answer, SOON, ask, client, sandbox};
use crate::sandbox::{Sandbox, examples};

async fn seam_with(ids: &[&str]) -> Arc<Sandbox> {
    let sandbox = sandbox().await;
    for id in ids {
        sandbox.seam.enqueue(examples::digest(id, "ann@example.com"));
    }
    Arc::new(sandbox)
}

fn ack(sandbox: &Sandbox, id: &str) -> RequestBuilder {
    client()
        .post(format!("{}/internal/outbox/{id}/status", sandbox.seam.server().url()))
        .header("X-Internal-Token", "sandbox-token")
        .body(r#"{"status": "delivered"}"#)
}

async fn status(sandbox: &Sandbox, id: &str) -> u16 {
    ask(ack(sandbox, id)).await.unwrap().status
}

fn in_background(request: RequestBuilder) -> JoinHandle<Result<Answer, reqwest::Error>> {
    tokio::spawn(ask(request))
}

#[tokio::test]
async fn an_answer_takes_the_place_of_the_real_one_and_nothing_is_stored() {
    let sandbox = seam_with(&["e-1"]).await;
    let body = Json(json!({"why": "tired"}));
    sandbox.seam.ack_faults().add(Fault::answer((
        StatusCode::SERVICE_UNAVAILABLE,
        [(RETRY_AFTER, "7")],
        body,
    )));
    let answer = ask(ack(&sandbox, "e-1")).await.unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("7")));
    assert_eq!(answer.body, json!({"why": "tired"}));
    assert!(sandbox.seam.statuses().is_empty());
    assert_eq!(status(&sandbox, "e-1").await, 200, "once is over");
}

#[tokio::test]
async fn an_answer_after_accepting_lies_about_what_was_stored() {
    let sandbox = seam_with(&["e-1"]).await;
    sandbox.seam.ack_faults().add(Fault::answer(StatusCode::BAD_GATEWAY).after_accepting());
    assert_eq!(status(&sandbox, "e-1").await, 502);
    assert_eq!(sandbox.seam.statuses()["e-1"], AckStatus::Delivered);
}

#[tokio::test]
async fn a_fault_strikes_whom_and_as_often_as_it_is_told() {
    let sandbox = seam_with(&["e-1", "e-2"]).await;
    let faults = sandbox.seam.ack_faults();
    faults.add(Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).on("e-2").times(2));
    assert_eq!(status(&sandbox, "e-1").await, 200);
    assert_eq!([status(&sandbox, "e-2").await, status(&sandbox, "e-2").await], [500, 500]);
    assert_eq!(status(&sandbox, "e-2").await, 200);

    faults.add(Fault::answer(StatusCode::TOO_MANY_REQUESTS).always());
    for _ in 0..3 {
        assert_eq!(status(&sandbox, "e-1").await, 429);
    }
    faults.clear();
    assert_eq!(status(&sandbox, "e-1").await, 200);
    let log = sandbox.journal.log();
    assert_eq!((log.faults(Endpoint::Ack), log.faults(Endpoint::Page)), (5, 0));
}

#[tokio::test]
async fn the_oldest_fitting_fault_strikes_first() {
    let sandbox = seam_with(&["e-1"]).await;
    for code in [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT] {
        sandbox.seam.ack_faults().add(Fault::answer(code));
    }
    assert_eq!([status(&sandbox, "e-1").await, status(&sandbox, "e-1").await], [502, 504]);
}

#[tokio::test]
async fn faults_do_not_hide_a_wrong_request() {
    let sandbox = seam_with(&[]).await;
    sandbox.seam.ack_faults().add(Fault::answer(StatusCode::OK).always());
    let wrong = ack(&sandbox, "e-1").body("nonsense");
    assert_eq!(ask(wrong).await.unwrap().status, 422);
}

#[tokio::test]
async fn a_cut_before_accepting_stores_nothing_and_answers_nothing() {
    let sandbox = seam_with(&["e-1"]).await;
    sandbox.seam.ack_faults().add(Fault::cut());
    let error = ask(ack(&sandbox, "e-1")).await.unwrap_err();
    assert!(!error.is_timeout() && !error.is_connect() && error.is_request(), "{error:?}");
    assert!(sandbox.seam.statuses().is_empty());
}

#[tokio::test]
async fn a_cut_after_accepting_loses_the_answer_alone() {
    let sandbox = seam_with(&["e-1"]).await;
    sandbox.seam.ack_faults().add(Fault::cut().after_accepting());
    assert!(ask(ack(&sandbox, "e-1")).await.is_err());
    assert_eq!(sandbox.seam.statuses()["e-1"], AckStatus::Delivered);
    let log = sandbox.journal.log();
    let stored = log.number_of(|event| matches!(event, Event::Acked(_))).unwrap();
    let cut = log.number_of(|event| matches!(event, Event::Faulted { .. })).unwrap();
    assert!(stored < cut);
    assert_eq!(status(&sandbox, "e-1").await, 200, "the next connection is good");
}

#[tokio::test]
async fn a_cut_ends_a_kept_connection_too() {
    let sandbox = seam_with(&["e-1"]).await;
    let client = client();
    let again = || {
        let request = ack(&sandbox, "e-1").build().unwrap();
        let client = client.clone();
        async move { client.execute(request).await }
    };
    assert!(again().await.is_ok());
    sandbox.seam.ack_faults().add(Fault::cut());
    assert!(again().await.is_err(), "the client must not have retried by itself");
    assert!(again().await.is_ok());
}

#[tokio::test]
async fn what_hangs_goes_on_when_released_and_holds_up_nobody_else() {
    let sandbox = seam_with(&["e-1", "e-2"]).await;
    sandbox.seam.ack_faults().add(Fault::hang().on("e-1"));
    let hanging = in_background(ack(&sandbox, "e-1"));
    sandbox.journal.wait_until(|log| log.faults(Endpoint::Ack) == 1).await;
    assert_eq!(status(&sandbox, "e-2").await, 200);
    assert!(!sandbox.seam.statuses().contains_key("e-1"));
    sandbox.seam.ack_faults().release();
    assert_eq!(hanging.await.unwrap().unwrap().status, 200);
    assert!(sandbox.seam.statuses().contains_key("e-1"));
}

#[tokio::test]
async fn what_hangs_before_accepting_is_never_accepted_once_its_client_is_gone() {
    let sandbox = seam_with(&["e-1", "e-2"]).await;
    sandbox.seam.ack_faults().add(Fault::hang().on("e-1"));
    let hanging = in_background(ack(&sandbox, "e-1"));
    sandbox.journal.wait_until(|log| log.faults(Endpoint::Ack) == 1).await;
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    timeout(SOON, sandbox.seam.ack_faults().none_held()).await.unwrap();
    sandbox.seam.ack_faults().release();
    assert_eq!(status(&sandbox, "e-2").await, 200);
    assert!(!sandbox.seam.statuses().contains_key("e-1"));
}

#[tokio::test]
async fn a_slow_answer_comes_no_sooner_than_told() {
    let sandbox = seam_with(&["e-1"]).await;
    let by = Duration::from_millis(80);
    sandbox.seam.ack_faults().add(Fault::slow(by));
    let began = std::time::Instant::now();
    assert_eq!(status(&sandbox, "e-1").await, 200);
    assert!(began.elapsed() >= by);
}

#[tokio::test]
async fn a_redirect_names_where_to() {
    let sandbox = seam_with(&["e-1"]).await;
    sandbox.seam.ack_faults().add(Fault::redirect("http://elsewhere.example/x"));
    let answer = ask(ack(&sandbox, "e-1")).await.unwrap();
    assert_eq!((answer.status, answer.header("location")), (301, Some("http://elsewhere.example/x")));
}

#[tokio::test]
async fn a_fault_on_pages_leaves_acks_alone() {
    let sandbox = seam_with(&["e-1"]).await;
    sandbox.seam.page_faults().add(Fault::answer(StatusCode::BAD_GATEWAY).on("email"));
    assert_eq!(status(&sandbox, "e-1").await, 200);
    let url = format!("{}/internal/outbox/pending?channel=email&limit=9", sandbox.seam.server().url());
    let page = || client().get(&url).header("X-Internal-Token", "sandbox-token");
    assert_eq!(ask(page()).await.unwrap().status, 502);
    assert_eq!(ask(page()).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_stopped_server_refuses_connections_and_comes_back_with_all_it_had() {
    let sandbox = seam_with(&["e-1"]).await;
    assert_eq!(status(&sandbox, "e-1").await, 200);
    sandbox.seam.server().stop().await;
    assert!(ask(ack(&sandbox, "e-1")).await.unwrap_err().is_connect());
    sandbox.seam.server().restart().await.unwrap();
    assert_eq!(status(&sandbox, "e-1").await, 200);
    assert_eq!(sandbox.seam.statuses()["e-1"], AckStatus::Delivered);
}

#[tokio::test]
async fn stopping_cuts_what_hangs() {
    let sandbox = seam_with(&["e-1"]).await;
    sandbox.seam.ack_faults().add(Fault::hang());
    let hanging = in_background(ack(&sandbox, "e-1"));
    sandbox.journal.wait_until(|log| log.faults(Endpoint::Ack) == 1).await;
    timeout(SOON, sandbox.seam.server().stop()).await.unwrap();
    assert!(hanging.await.unwrap().is_err());
}

#[tokio::test]
async fn dropping_the_sandbox_frees_its_ports() {
    let sandbox = seam_with(&[]).await;
    let url = sandbox.seam.server().url();
    let held = client().get(&url);
    assert!(ask(held).await.is_ok());
    drop(sandbox);
    // The port is given back when the server's task has seen the drop; until then it still answers.
    let gone = async {
        while ask(client().get(&url)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, gone).await.unwrap();
}

#[tokio::test]
async fn the_journal_numbers_all_stand_ins_in_one_order() {
    let sandbox = seam_with(&["e-1", "e-2"]).await;
    let waiting = tokio::spawn({
        let sandbox = Arc::clone(&sandbox);
        async move { sandbox.journal.wait_until(|_| sandbox.seam.statuses().len() == 2).await }
    });
    assert_eq!(status(&sandbox, "e-1").await, 200);
    let refused = client().post(format!("{}/emails", sandbox.resend.server().url()));
    assert_eq!(ask(refused).await.unwrap().status, 401);
    assert_eq!(status(&sandbox, "e-2").await, 200);
    let log = timeout(SOON, waiting).await.unwrap().unwrap();
    let numbers: Vec<_> = log.entries().iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(matches!(log.entries()[1].event, Event::Refused(_)));
}
