//! A provider that is down costs time, never mail.

use std::time::Duration;

use super::carrier::{Answer, Call, Try};
use super::outbox::mail;
use super::world::{Setup, World, hours, secs};
use crate::outcome::{AckStatus, Cause};
use crate::telemetry::status::{LeaseState, Unready};

/// `trouble` for so long, then all is well.
fn until_then_well(end: std::time::Duration, trouble: Answer) -> impl FnMut(&Call<'_>) -> Answer {
    move |call| if call.at < end { trouble.clone() } else { Answer::accepted() }
}

#[tokio::test(start_paused = true)]
async fn three_envelopes_in_an_outage_close_the_gate_and_one_probes_at_a_time() {
    let world = Setup::email(8).start(|w| {
        w.carrier().rule(until_then_well(secs(600), Answer::timeout().after(secs(1))));
        w.outbox.add_all((0..40).map(|n| mail(format!("m{n}"))));
    });
    world.until("the gate is closed", World::is_gate_closed).await;
    assert_eq!(world.unready(), [Unready::GateClosed { label: "resend", cause: Cause::Timeout }]);
    world.pass(secs(2)).await;
    let before = world.carrier().tries().len();
    assert_eq!(before, 10, "one request per worker, and two that began before the third had failed");
    world.pass(secs(601).saturating_sub(world.at())).await;
    let tries = world.carrier().tries();
    let probes = &tries[before..];
    assert!((4..=6).contains(&probes.len()), "2, 8, 32, 128, 512 seconds: {}", probes.len());
    for pair in probes.windows(2) {
        assert!(pair[1].began > pair[0].ended.as_ref().unwrap().0, "one at a time");
    }
    world.until_delivered(40).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_reopens_with_one_two_and_four_on_their_way() {
    let world = Setup::email(8).start(|w| {
        let mut down = until_then_well(secs(20), Answer::connection_refused());
        w.carrier().rule(move |call| match call.at < secs(20) {
            true => down(call),
            false => {
                Answer::accepted().after(Duration::from_millis(9_000 + call.at.as_millis() as u64 % 999))
            }
        });
        w.outbox.add_all((0..40).map(|n| mail(format!("m{n}"))));
    });
    world.until_delivered(40).await;
    let tries: Vec<_> = world.carrier().tries().into_iter().filter(|t| t.began >= secs(20)).collect();
    let ended = |t: &Try| t.ended.as_ref().unwrap().0;
    let mut busiest = 0;
    for t in &tries {
        let accepted = tries.iter().filter(|other| ended(other) <= t.began).count();
        let in_flight = tries.iter().filter(|o| o.began <= t.began && ended(o) > t.began).count();
        assert!(in_flight <= 1 << accepted.saturating_sub(1).min(3), "{in_flight} after {accepted}");
        busiest = busiest.max(in_flight);
    }
    assert_eq!(busiest, 8);
}

/// Case 19: 503 for three hours, thirty pending.
#[tokio::test(start_paused = true)]
async fn an_outage_of_three_hours_fails_nothing() {
    let world = Setup::email(4).slow_polls().start(|w| {
        w.carrier().rule(until_then_well(hours(3), Answer::unavailable()));
        w.outbox.add_all((0..30).map(|n| mail(format!("m{n}"))));
    });
    world.until_delivered(30).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 0);
    assert!(world.at() < hours(3) + secs(1400), "{:?}", world.at());
    let requests = world.carrier().tries_within(secs(0), hours(3));
    assert!(requests < 30, "probes alone: {requests}");
    assert_eq!(world.leases(LeaseState::Waiting), 0);
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_answers_500_fails_nothing_either() {
    let world = Setup::email(4).slow_polls().start(|w| {
        w.carrier().rule(until_then_well(hours(3), Answer::server_error()));
        w.outbox.add_all((0..30).map(|n| mail(format!("m{n}"))));
    });
    world.until_delivered(30).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_single_envelope_outlives_an_outage_of_hours() {
    let world = Setup::email(4).slow_polls().start(|w| {
        w.carrier().rule(until_then_well(hours(8), Answer::connection_refused()));
        w.outbox.add(mail("alone"));
    });
    assert_eq!(world.until_acked("alone").await, AckStatus::Delivered);
    let tries = world.carrier().tries().len();
    assert!((25..=45).contains(&tries), "at the longest backoff: {tries}");
}

/// Case 19: failed after its attempts, the last error as detail.
#[tokio::test(start_paused = true)]
async fn an_envelope_that_always_answers_500_fails_while_others_pass() {
    let world = Setup::email(4).start(|w| {
        w.carrier().always("bad", Answer::server_error());
        w.outbox.add(mail("bad"));
        w.outbox.add_all((0..30).map(|n| mail(format!("m{n}"))));
    });
    world.until_delivered(30).await;
    assert!(world.at() < secs(1));
    assert_eq!(world.until_acked("bad").await, AckStatus::Failed);
    assert_eq!(world.carrier().tries_of("bad").len(), 8);
    let detail = &world.outbox.posts_of("bad")[0].detail;
    assert_eq!(detail, "server error: given up after 8 attempts: it answered 500");
    assert!(!world.is_gate_closed());
}

#[tokio::test(start_paused = true)]
async fn an_envelope_that_alone_times_out_fails_while_others_pass() {
    let world = Setup::email(4).slow_polls().start(|w| {
        w.carrier().always("bad", Answer::timeout());
        w.outbox.add(mail("bad"));
        w.outbox.add_all((0..100).map(|n| mail(format!("m{n}")).not_before(secs(40 * n))));
    });
    assert_eq!(world.until_acked("bad").await, AckStatus::Failed);
    assert_eq!(world.outbox.count(AckStatus::Failed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unclear_envelope_that_is_left_out_and_listed_again_is_no_second_mail_either() {
    let world = Setup::email(2).slow_polls().start(|w| {
        let mut down = until_then_well(hours(25), Answer::connection_refused());
        w.carrier().rule(move |call| match call.number {
            1 => Answer::timeout().though_taken(),
            _ => down(call),
        });
        w.outbox.add(mail("a"));
    });
    world.pass(hours(1)).await;
    world.outbox.withdraw("a");
    world.pass(secs(120)).await;
    assert_eq!(world.leases(LeaseState::Waiting), 0, "it is gone");
    world.outbox.restore("a");
    assert_eq!(world.until_acked("a").await, AckStatus::Failed);
    assert!(world.outbox.posts()[0].detail.starts_with("outcome unknown: "));
    assert_eq!(world.carrier().tries().iter().filter(|t| t.taken.is_some()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_stays_unknown_for_23_hours_ends_as_failed_and_not_as_a_second_mail() {
    let world = Setup::email(2).slow_polls().start(|w| {
        w.carrier().all(Answer::timeout());
        w.outbox.add(mail("a"));
    });
    assert_eq!(world.until_acked("a").await, AckStatus::Failed);
    assert!(world.at() >= hours(23) && world.at() < hours(24), "{:?}", world.at());
    assert!(world.outbox.posts()[0].detail.starts_with("outcome unknown: "));
    assert!(world.carrier().tries().iter().all(|t| t.began < hours(23) + secs(1)));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for() {
    let world = Setup::email(2).start(|w| {
        w.carrier().next("a", [Answer::unavailable_for(secs(300))]);
        w.outbox.add(mail("a"));
    });
    assert_eq!(world.until_acked("a").await, AckStatus::Delivered);
    let began = world.carrier().tries()[1].began;
    assert!(began >= secs(300) && began < secs(376), "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn the_backlog_is_as_old_as_its_longest_due_envelope() {
    let world = Setup::email(2).start(|w| {
        w.carrier().all(Answer::pause(Cause::ApiKey));
        w.outbox.add(mail("later").not_before(secs(3600)));
    });
    world.pass(secs(1800)).await;
    assert_eq!(world.lane().backlog_age, secs(0), "held, and not due yet");
    world.pass(secs(1900)).await;
    assert!((secs(95)..=secs(100)).contains(&world.lane().backlog_age), "{:?}", world.lane().backlog_age);
    world.outbox.add(mail("now"));
    world.pass(secs(1000)).await;
    let age = world.lane().backlog_age;
    assert!((secs(1095)..=secs(1100)).contains(&age), "the older of the two: {age:?}");
    world.carrier().all(Answer::accepted());
    world.until_delivered(2).await;
    assert_eq!(world.lane().backlog_age, secs(0));
}
