//! What an operator wants proved: the worker as it is installed, against stand-ins that fail in every way
//! they know, killed ten times while five hundred envelopes drain.
//!
//! Owns the drain and the kills. What is enqueued and expected is `cast`'s; whether it came so, read from
//! the stand-ins' journal alone, is `verdict`'s.

mod cast;
mod verdict;

use std::time::Instant;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use delivery_worker::sandbox::journal::{AckAnswer, Endpoint, Event, Log};
use delivery_worker::sandbox::{Fault, Faults};
use rustix::process::Signal;

use self::cast::{Cast, Fate};
use self::verdict::{Kill, Verdict, Withdrawal};
use crate::harness::{Program, Stage};

/// A process that is to be killed gets at least so many acks through before, but for the first.
const ACKS_BEFORE: usize = 20;

/// A moment to kill at: when a fault has struck there, and holds a request in just this place.
struct Moment<'a> {
    at: Endpoint,
    faults: &'a Faults,
    fault: Fault,
}

/// In the midst of sends, between a provider's answer and the ack, around acks and pages.
fn moments(stage: &Stage) -> [Moment<'_>; cast::HALF_WEEKS] {
    let (mails, pushes) = ((Endpoint::Mail, stage.resend.faults()), (Endpoint::Push, stage.push.faults()));
    let (acks, pages) =
        ((Endpoint::Ack, stage.seam.ack_faults()), (Endpoint::Page, stage.seam.page_faults()));
    let (hang, heard) = (Fault::hang, || Fault::hang().after_accepting());
    let moments = [
        (mails, hang()),
        (pushes, heard()),
        (acks, hang()),
        (pages, heard()),
        (mails, heard()),
        (acks, heard()),
        (pushes, hang()),
        // Closes the gate for half a minute, but for a new process.
        (mails, Fault::redirect("http://127.0.0.1:9/emails")),
        (pushes, heard()),
        (acks, hang()),
    ];
    moments.map(|((at, faults), fault)| Moment { at, faults, fault })
}

/// Pages fail in their turn, too: the first ones of each process.
fn lay_for_pages(stage: &Stage, n: usize) {
    let fault = match n % 5 {
        0 => Fault::answer(StatusCode::INTERNAL_SERVER_ERROR),
        1 => Fault::cut(),
        2 => Fault::answer(StatusCode::SERVICE_UNAVAILABLE),
        3 => Fault::redirect("http://127.0.0.1:9/login"),
        _ => Fault::cut().after_accepting(),
    };
    stage.seam.page_faults().add(fault.times(2));
}

fn stored(log: &Log) -> usize {
    log.acks().filter(|ack| ack.answer == AckAnswer::Stored).count()
}

/// Waits for the moment and kills `program` in it. Meanwhile the app writes the next envelopes, so that
/// there are requests of each kind to strike.
async fn kill(stage: &Stage, mut program: Program, moment: Moment<'_>, write: impl FnOnce()) -> usize {
    let armed = stage.journal.log().entries().len();
    let (at, faults, fault) = (moment.at, moment.faults, moment.fault.to_string());
    let is_struck = |event: &Event| matches!(event, Event::Faulted { endpoint, fault: f, .. } if *endpoint == at && *f == fault);
    faults.add(moment.fault);
    write();
    let what = format!("{fault} at {at:?}");
    stage.until(&what, |log| log.entries()[armed..].iter().any(|entry| is_struck(&entry.event))).await;
    let begun = stage.journal.log().entries().len();
    program.signal(Signal::KILL);
    assert_eq!(program.exit().await, None, "it was killed");
    faults.none_held().await;
    begun
}

/// The users withdraw some of what the worker may hold: of each channel, those just behind the next ones.
fn withdraw(stage: &Stage, cast: &Cast) -> Vec<Withdrawal> {
    let accepted = verdict::accepted(&stage.journal.log());
    let arrives = |id: &str| cast.parts.iter().any(|part| part.id == id && part.fate == Fate::Arrives);
    let mut withdrawn = Vec::new();
    for channel in ["email", "push"] {
        let pending = stage.seam.pending(channel);
        let ids = pending.iter().filter_map(|element| element["id"].as_str());
        for id in ids.filter(|id| arrives(id) && !accepted.contains(*id)).skip(6).take(3) {
            stage.seam.withdraw(id);
            let since = stage.journal.log().entries().len();
            withdrawn.push(Withdrawal { id: id.to_owned(), channel, since });
        }
    }
    withdrawn
}

/// The users withdraw what is being waited for: mails that the provider has put off for a second. Whoever
/// does not look at pages sends them then.
async fn withdraw_what_waits(stage: &Stage, cast: &Cast) -> Vec<Withdrawal> {
    let accepted = verdict::accepted(&stage.journal.log());
    let last_week = cast.parts.iter().filter(|part| part.fate == Fate::Arrives && part.id.ends_with("-4"));
    let mails =
        last_week.map(|part| &part.id).filter(|id| id.starts_with("mail-") && !accepted.contains(*id));
    let waiting: Vec<String> = mails.take(4).cloned().collect();
    for id in &waiting {
        let later = Fault::answer((StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]));
        stage.resend.faults().add(later.on(id));
    }
    let is_put_off = |event: &Event, id: &String| matches!(event, Event::Faulted { endpoint: Endpoint::Mail, target, fault, .. } if target == id && fault == "answer 503");
    let all =
        |log: &Log| waiting.iter().all(|id| log.entries().iter().any(|entry| is_put_off(&entry.event, id)));
    stage.until("mails put off", all).await;
    waiting.iter().for_each(|id| stage.seam.withdraw(id));
    let since = stage.journal.log().entries().len();
    stage.more_pages(20, "email").await;
    waiting.into_iter().map(|id| Withdrawal { id, channel: "email", since }).collect()
}

/// Whether only what no build of this version can end is listed.
fn all_have_ended(stage: &Stage, cast: &Cast) -> bool {
    let is_listed =
        |id: &str| cast.parts.iter().any(|part| part.id == id) || cast.junk.iter().any(|j| j == id);
    let left = ["email", "push"].into_iter().flat_map(|channel| stage.seam.pending(channel));
    left.filter_map(|element| Some(is_listed(element["id"].as_str()?))).all(|listed| !listed)
}

fn fewer_workers(stage: Stage) -> Stage {
    // As many for push as for mail, so that both are at work until the end.
    stage.with("DELIVERY_PUSH_WORKERS", "4").with("RUST_LOG", "info")
}

#[tokio::test]
async fn killed_ten_times_in_a_storm_of_faults_it_sends_every_message_once_in_order_and_acks_it_right() {
    let began = Instant::now();
    let stage = fewer_workers(Stage::new().await);
    let mut cast = Cast::new(&stage);
    let (mut kills, mut withdrawals) = (Vec::new(), Vec::new());
    for (n, moment) in moments(&stage).into_iter().enumerate() {
        lay_for_pages(&stage, n);
        let enough = stored(&stage.journal.log()) + if n == 0 { 0 } else { ACKS_BEFORE };
        let program = stage.run().await;
        if let Some(Kill { over, .. }) = kills.last_mut() {
            *over = stage.journal.log().entries().len();
        }
        stage.until("some acks more", |log| stored(log) >= enough).await;
        if n % 2 == 0 {
            withdrawals.extend(withdraw(&stage, &cast));
        }
        let begun = kill(&stage, program, moment, || cast.enqueue(&stage, n)).await;
        if n % 4 == 1 {
            withdrawals.extend(withdraw(&stage, &cast));
        }
        kills.push(Kill { begun, over: usize::MAX });
    }
    let mut last = stage.run().await;
    if let Some(Kill { over, .. }) = kills.last_mut() {
        *over = stage.journal.log().entries().len();
    }
    withdrawals.extend(withdraw_what_waits(&stage, &cast).await);
    stage.until("the end of each", |_| all_have_ended(&stage, &cast)).await;
    last.signal(Signal::TERM);
    assert_eq!(last.exit().await, Some(0));

    let verdict = Verdict { log: stage.journal.log(), cast, kills, withdrawals };
    verdict.pass();
    println!("{verdict}, {:.1} s", began.elapsed().as_secs_f64());
}
