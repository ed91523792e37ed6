//! What a drain shows of its progress: a line that moves on a terminal, log lines elsewhere.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use delivery_worker::sandbox::Fault;
use delivery_worker::sandbox::examples::digest;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::process::Command;

use crate::harness::{Stage, binary, number, says, within};

/// A terminal: the end that shows, and the end that a program writes to.
fn terminal() -> (File, File) {
    let shows = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&shows).unwrap();
    unlockpt(&shows).unwrap();
    let name = ptsname(&shows, Vec::new()).unwrap();
    let writes = open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (shows.into(), writes.into())
}

/// Everything that a drain with such a TERM writes to its terminal; what holds it up is let go once it has been seen.
async fn drained_on_a_terminal(stage: &Stage, term: &str) -> String {
    let (mut shows, writes) = terminal();
    let mut child = Command::new(binary())
        .arg("drain")
        .env_clear()
        .envs(stage.env())
        .env("TERM", term)
        .env("RUST_LOG", "info")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(writes)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let reader = tokio::task::spawn_blocking(move || {
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        // An error is how the kernel says that the other end is closed.
        while let Ok(length @ 1..) = shows.read(&mut bytes) {
            seen.extend_from_slice(&bytes[..length]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    });
    let status = within(child.wait(), || "the drain did not end".to_owned()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    reader.await.unwrap()
}

async fn stage() -> Stage {
    let stage = Stage::of_email().await;
    // Long enough for a look or two at what waits.
    stage
        .resend
        .faults()
        .add(Fault::answer(axum::http::StatusCode::SERVICE_UNAVAILABLE).on("mail-3").times(3));
    for n in 0..5 {
        stage.seam.enqueue(digest(&format!("mail-{n}"), &format!("reader-{n}@example.com")));
    }
    stage
}

#[tokio::test]
async fn on_a_terminal_a_line_moves_below_the_log_and_is_gone_at_the_end() {
    let seen = drained_on_a_terminal(&stage().await, "xterm").await;
    assert!(seen.contains("4 delivered") && seen.contains("email: 1 waiting"), "{seen}");
    // What stays of a row once everything before it has been wiped.
    let rows: Vec<&str> = seen.lines().filter_map(|row| row.rsplit("\x1b[2K").next()).collect();
    let lines: Vec<&&str> = rows.iter().filter(|row| row.contains("INFO")).collect();
    assert!(lines.len() > 10, "{seen}");
    for line in lines {
        assert!(!line.contains(" waiting"), "a log line has the progress in it: {line}");
    }
    assert!(rows.last().unwrap().contains("drained"), "{seen}");
}

#[tokio::test]
async fn a_terminal_that_cannot_move_its_cursor_gets_plain_lines() {
    let seen = drained_on_a_terminal(&stage().await, "dumb").await;
    assert!(!seen.contains("\x1b[2K") && !seen.contains("email: 1 waiting"), "{seen}");
    assert!(seen.contains("drained"), "{seen}");
}

#[tokio::test]
async fn elsewhere_the_log_tells_the_sums_at_the_end() {
    let stage = stage().await;
    let mut program = stage.drain();
    assert_eq!(program.exit().await, Some(0));
    let sums = program.logged("the sums", says("in all")).await;
    assert_eq!((number(&sums, "delivered"), number(&sums, "failed")), (5, 0));
}
