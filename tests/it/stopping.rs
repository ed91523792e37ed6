//! How the daemon ends: what is on its way is finished, nothing sleeps through a signal, and the exit
//! code and the last line tell the truth.

use std::time::Instant;

use axum::http::StatusCode;
use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::{digest, nudge};
use delivery_worker::sandbox::journal::Endpoint;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;

use crate::harness::{AT_ONCE, Stage, mailed, number, says, text};

/// Case 25: the send and its ack finish.
#[tokio::test]
async fn sends_in_flight_and_their_acks_finish_and_nothing_new_begins() {
    let stage = Stage::new().await;
    let browser = stage.push.subscribe().unwrap();
    stage.resend.faults().add(Fault::hang());
    stage.push.faults().add(Fault::hang());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    stage.seam.enqueue(nudge("nudge-1", &browser));
    let mut program = stage.run().await;
    let both = |log: &_| sends(log) == 2;
    stage.until("both sends", both).await;

    program.signal(Signal::TERM);
    program.logged("the signal", says("stopping")).await;
    stage.seam.enqueue(digest("too-late", "bob@example.com"));
    assert!(program.get("/readyz").await.1.contains("the worker is stopping"));
    stage.resend.faults().release();
    stage.push.faults().release();

    assert_eq!(program.exit().await, Some(0));
    stage.acked(["week-31", "nudge-1"]).await;
    assert_eq!(mailed(&stage.journal.log()), ["week-31"]);
}

fn sends(log: &delivery_worker::sandbox::journal::Log) -> usize {
    log.faults(Endpoint::Mail) + log.faults(Endpoint::Push)
}

/// Case 25: exit at once.
#[tokio::test]
async fn a_long_wait_for_a_retry_does_not_keep_it() {
    let stage = Stage::of_email().await;
    let wait = (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "300")]);
    stage.resend.faults().add(Fault::answer(wait));
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.run().await;
    let line = program.logged("the wait", |line| text(line, "outcome") == "retry").await;
    assert!(number(&line, "next_in_ms") >= 300_000, "{line}");

    let began = Instant::now();
    program.signal(Signal::INT);
    assert_eq!(program.exit().await, Some(0), "it is simply still pending");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(stage.seam.pending("email").len(), 1);
}

/// Case 25: code 75, and a line that says what is left.
#[tokio::test]
async fn with_the_seam_down_it_ends_at_the_grace_and_says_what_is_left() {
    let stage = Stage::of_email().await.with("DELIVERY_SHUTDOWN_GRACE", "1s");
    stage.seam.ack_faults().add(Fault::answer(StatusCode::INTERNAL_SERVER_ERROR).always());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.run().await;
    program.logged("the lost ack", says("ack failed")).await;

    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(75));
    assert!(began.elapsed().as_millis() >= 1000 && began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    let last = program.log(|_| true).pop().unwrap();
    assert_eq!((number(&last, "unacked"), number(&last, "cut")), (1, 0), "{last}");
    assert!(text(&last, "level") == "WARN" && text(&last, "message").starts_with("stopped"), "{last}");
}

/// Case 25: a second SIGTERM.
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let stage = Stage::of_email().await.with("DELIVERY_SHUTDOWN_GRACE", "1h");
    stage.resend.faults().add(Fault::hang());
    stage.seam.enqueue(digest("week-31", "ann@example.com"));
    let mut program = stage.run().await;
    stage.until("the send", |log| log.faults(Endpoint::Mail) == 1).await;
    program.signal(Signal::TERM);
    program.logged("the signal", says("stopping")).await;

    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(75));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    let last = program.log(|_| true).pop().unwrap();
    assert_eq!((number(&last, "unacked"), number(&last, "cut")), (0, 1), "{last}");
}

#[tokio::test]
async fn a_seam_that_hangs_does_not_keep_it() {
    let stage = Stage::new().await;
    stage.seam.page_faults().add(Fault::hang().always());
    let mut program = stage.run().await;
    stage.until("a page of each lane, asked for", |log| log.faults(Endpoint::Page) == 2).await;
    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_idle_worker_ends_at_once() {
    let stage = Stage::new().await.with("DELIVERY_POLL_INTERVAL", "1h");
    let mut program = stage.run().await;
    stage.until("a page of each lane", |log| log.pages() >= 2).await;
    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

/// Who reads a pipe that nobody writes to never comes back; no more does a lookup at once whose name
/// server is silent.
#[tokio::test]
async fn a_thread_that_the_system_keeps_does_not_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::of_email().await.with("DELIVERY_TEMPLATES_DIR", folder.path().to_str().unwrap());
    let mut program = stage.run().await;
    let template = folder.path().join("your-week-digest.v1");
    std::fs::create_dir(&template).unwrap();
    let pipe = template.join("email.subject.hbs");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    program.signal(Signal::HUP);
    // Opens when the other end is opened: the worker reads now.
    let open = move || std::fs::OpenOptions::new().write(true).open(pipe);
    let _silent = tokio::task::spawn_blocking(open).await.unwrap().unwrap();

    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn signals_that_come_while_it_starts_kill_nobody() {
    let stage = Stage::new().await;
    for signal in [Signal::HUP, Signal::TERM] {
        // A drain of nothing ends by itself.
        let mut program = stage.drain();
        program.logged("the first line", says("RESEND_BASE_URL is not https")).await;
        program.signal(signal);
        assert_eq!(program.exit().await, Some(0), "{signal:?}");
    }
}
