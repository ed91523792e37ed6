//! Everything at once: faults at all three ends while the worker is killed again and again. What holds
//! then is what is promised: every message once, in order, each acked as what it came to.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::examples::{digest, nudge};
use delivery_worker::sandbox::journal::Log;
use delivery_worker::sandbox::{Fault, Faults};
use rustix::process::Signal;

use crate::harness::{Stage, mailed};

/// Readers, each with this many weeks of mail and of nudges.
const READERS: usize = 8;
const WEEKS: usize = 3;

/// Strikes requests about `name` with a trouble of its own, as `n` has it.
fn trouble(faults: &Faults, name: &str, n: usize) {
    let fault = match n % 7 {
        0 => Fault::cut(),
        1 => Fault::cut().after_accepting(),
        2 => Fault::answer(StatusCode::INTERNAL_SERVER_ERROR),
        3 => Fault::answer(StatusCode::SERVICE_UNAVAILABLE).times(2),
        4 => Fault::answer(StatusCode::BAD_GATEWAY).after_accepting(),
        _ => return,
    };
    faults.add(fault.on(name));
}

fn settled(log: &Log) -> usize {
    log.acks().map(|ack| ack.id.as_str()).collect::<BTreeSet<_>>().len()
}

#[tokio::test]
async fn whatever_fails_and_however_often_it_is_killed_each_message_comes_once_and_in_order() {
    let stage = Stage::new().await;
    let browsers: Vec<_> = (0..READERS).map(|_| stage.push.subscribe().unwrap()).collect();
    for week in 0..WEEKS {
        for (reader, browser) in browsers.iter().enumerate() {
            let n = week * READERS + reader;
            let (mail, push) = (format!("mail-{reader}-{week}"), format!("push-{reader}-{week}"));
            trouble(stage.resend.faults(), &mail, n);
            trouble(stage.push.faults(), &browser.token, n + 1);
            trouble(stage.seam.ack_faults(), &mail, n + 2);
            trouble(stage.seam.ack_faults(), &push, n + 3);
            stage.seam.enqueue(digest(&mail, &format!("reader-{reader}@example.com")));
            stage.seam.enqueue(nudge(&push, browser));
        }
    }
    let all = 2 * READERS * WEEKS;
    for part in [5, 15, 30] {
        let mut program = stage.run().await;
        stage.until("some acks", |log| settled(log) >= part).await;
        program.signal(Signal::KILL);
        program.exit().await;
    }
    let mut program = stage.run().await;
    stage.until("all acks", |log| settled(log) == all).await;
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await, Some(0));

    let log = stage.journal.log();
    assert!(log.acks().all(|ack| ack.posted == AckStatus::Delivered), "{:?}", stage.seam.statuses());
    assert_eq!(stage.push.shown().len(), READERS * WEEKS, "each notification once");
    let mails = mailed(&log);
    assert_eq!(mails.len(), READERS * WEEKS, "each mail once");
    for reader in 0..READERS {
        let prefix = format!("mail-{reader}-");
        let weeks: Vec<_> = mails.iter().filter_map(|id| id.strip_prefix(&prefix)).collect();
        assert_eq!(weeks, ["0", "1", "2"], "reader {reader}");
    }
}
