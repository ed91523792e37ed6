//! `expires_at`, and clocks that are wrong.

use super::carrier::Answer;
use super::outbox::mail;
use super::world::{Setup, World, fixed, hours, secs};
use crate::channel::Attempt;
use crate::outcome::{AckStatus, Cause, Detail, Refusal};
use crate::telemetry::status::Unready;

const DAY: i64 = 24 * 3600;

fn is_skewed(world: &World) -> bool {
    world.unready().iter().any(|reason| matches!(reason, Unready::ClockSkew { .. }))
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_when_its_turn_comes_is_failed_and_says_when() {
    let world = Setup::email(1).start(|w| {
        w.carrier().next("slow", [Answer::accepted().after(secs(4))]);
        w.outbox.add_all([mail("slow"), mail("a").expires(secs(3))]);
    });
    assert_eq!(world.until_acked("a").await, AckStatus::Failed);
    assert_eq!(world.carrier().tries_of("a"), []);
    let detail = &world.outbox.posts_of("a")[0].detail;
    assert_eq!(detail, "expired: its last moment was 2026-08-03T06:00:03+00:00");
}

#[tokio::test(start_paused = true)]
async fn a_wait_past_the_end_becomes_one_last_try_before_it() {
    let world = Setup::email(1).start(|w| {
        w.carrier().all(Answer::connection_refused());
        w.outbox.add(mail("a").expires(secs(100)));
    });
    assert_eq!(world.until_acked("a").await, AckStatus::Failed);
    let last = world.carrier().tries().last().unwrap().began;
    assert!(last >= secs(97) && last < secs(99), "{last:?}");
    assert!(world.outbox.posts()[0].detail.starts_with("connect: given up"));
}

/// Case 28: thirty wait while the clock jumps.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_a_day_ahead_fails_nothing() {
    let world = Setup::email_at(fixed(1), 2).start(|w| {
        w.outbox.add_all((0..30).map(|n| mail(format!("m{n}")).expires(hours(6))));
    });
    world.until_delivered(5).await;
    world.clock.set_wrong_by(DAY);
    world.pass(hours(1)).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 0);
    assert!(world.carrier().tries().len() <= 7, "what has expired as far as we know is not sent either");
    assert_eq!(world.unready(), [Unready::ClockSkew { seconds: DAY }]);
    world.clock.set_wrong_by(0);
    world.until_delivered(30).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 0);
    assert!(world.at() < hours(1) + secs(60), "{:?}", world.at());
    assert!(!is_skewed(&world));
}

#[tokio::test(start_paused = true)]
async fn a_seam_whose_clock_is_behind_keeps_envelopes_from_being_failed() {
    let world = Setup::email(1).start(|w| {
        w.outbox.date_off_by(Some(-3600));
        w.carrier().next("slow", [Answer::accepted().after(secs(4))]);
        w.outbox.add_all([mail("slow"), mail("a").expires(secs(3))]);
    });
    world.until_delivered(1).await;
    world.pass(secs(60)).await;
    assert_eq!(world.outbox.posts_of("a"), [], "the outbox itself has stopped listing it");
    assert_eq!(world.unready(), [Unready::ClockSkew { seconds: 3600 }]);
}

#[tokio::test(start_paused = true)]
async fn without_a_date_header_the_workers_own_clock_decides() {
    let world = Setup::email(1).start(|w| {
        w.outbox.date_off_by(None);
        w.carrier().next("slow", [Answer::accepted().after(secs(4))]);
        w.outbox.add_all([mail("slow"), mail("a").expires(secs(3))]);
    });
    assert_eq!(world.until_acked("a").await, AckStatus::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_while_a_gate_is_closed_fails_nothing_and_hangs_nobody() {
    let world = Setup::email(2).start(|w| {
        w.carrier().all(Answer::pause(Cause::ApiKey));
        w.outbox.add_all((0..10).map(|n| mail(format!("m{n}")).expires(hours(6))));
    });
    world.until("the gate is closed", World::is_gate_closed).await;
    world.clock.set_wrong_by(DAY);
    world.pass(hours(1)).await;
    assert!(is_skewed(&world));
    assert_eq!(world.outbox.posts(), []);
    let asked = world.carrier().tries().len();
    world.clock.set_wrong_by(0);
    world.carrier().all(Answer::accepted());
    world.until_delivered(10).await;
    assert!(asked <= 4, "what may have expired is no probe: {asked}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_does_not_send_before_not_before() {
    let world = Setup::email(1).start(|w| {
        w.carrier().next("slow", [Answer::accepted().after(secs(70))]);
        w.outbox.add_all([mail("slow"), mail("a").not_before(secs(60))]);
    });
    world.until("the first is on its way", |w| !w.carrier().tries().is_empty()).await;
    world.pass(secs(65)).await;
    world.clock.set_wrong_by(-600);
    assert_eq!(world.until_acked("a").await, AckStatus::Delivered);
    let began = world.carrier().tries_of("a")[0].began;
    assert!(began >= secs(660) && began < secs(667), "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_sends_nothing_before_not_before() {
    let world = Setup::email(1).start(|w| w.outbox.add(mail("a").not_before(secs(600))));
    world.until("it is listed", |w| w.outbox.polls().len() == 1).await;
    world.clock.set_wrong_by(DAY);
    world.until_delivered(1).await;
    let began = world.carrier().tries()[0].began;
    assert!(began >= secs(600) && began < secs(607), "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_fails_under_a_wrong_clock_is_repeated_all_the_same() {
    let world = Setup::email(1).start(|w| {
        w.carrier().next("a", [Answer::unavailable().after(secs(3))]);
        w.outbox.add(mail("a").expires(hours(6)));
    });
    world.until("it is on its way", |w| !w.carrier().tries().is_empty()).await;
    world.clock.set_wrong_by(DAY);
    world.pass(secs(30)).await;
    assert_eq!(world.outbox.posts(), [], "the wrong clock says that its life is over");
    world.clock.set_wrong_by(0);
    world.until_delivered(1).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_channel_calls_expired_under_a_wrong_clock_is_held() {
    let expired = Refusal::new(Cause::Expired, Detail::fixed("a week old"));
    let world = Setup::email(1).start(|w| {
        w.carrier().next("a", [Answer::exactly(Attempt::refusal(expired)).after(secs(3))]);
        w.outbox.add(mail("a"));
    });
    world.until("it is on its way", |w| !w.carrier().tries().is_empty()).await;
    world.clock.set_wrong_by(DAY);
    world.pass(secs(4)).await;
    assert_eq!(world.outbox.posts(), []);
    world.clock.set_wrong_by(0);
    world.until_delivered(1).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_channel_calls_expired_under_a_wrong_clock_does_not_probe_without_end() {
    let expired = Refusal::new(Cause::Expired, Detail::fixed("a week old"));
    let world = Setup::email(2).start(|w| {
        w.carrier().all(Answer::pause(Cause::ApiKey));
        w.outbox.add(mail("a"));
    });
    world.until("the gate is closed", World::is_gate_closed).await;
    world.clock.set_wrong_by(DAY);
    let mut probes = 0;
    world.carrier().rule(move |_| {
        probes += 1;
        // A loop without a pause would never let the test's own time go on.
        if probes > 100 { Answer::hang() } else { Answer::exactly(Attempt::refusal(expired.clone())) }
    });
    world.pass(secs(90)).await;
    let probes = world.carrier().tries().len() - 1;
    assert!((10..=15).contains(&probes), "every five seconds after the first thirty: {probes}");
    assert_eq!(world.outbox.posts(), []);
    world.clock.set_wrong_by(0);
    world.carrier().all(Answer::accepted());
    world.until_delivered(1).await;
}

#[tokio::test(start_paused = true)]
async fn dates_at_the_ends_of_time_are_dates() {
    const FIRST: &str = "-262143-01-01T00:00:00Z";
    const LAST: &str = "+262142-12-31T23:59:59.999999999Z";
    let world = Setup::email(1).start(|w| {
        for (id, not_before, expires_at) in [
            ("always", FIRST, LAST),
            ("never", LAST, LAST),
            ("long ago", FIRST, FIRST),
            ("a", "0000-01-01T00:00:00Z", "9999-12-31T23:59:60-23:59"),
            ("b", "2016-12-31T23:59:60+23:59", "+262142-12-31T23:59:59-23:59"),
            ("c", "-262143-01-01T00:00:00+23:59", LAST),
        ] {
            let mut json = mail(id).json(&w.clock);
            json["not_before"] = not_before.into();
            json["expires_at"] = expires_at.into();
            json["created_at"] = LAST.into();
            w.outbox.add_raw("email", &json);
        }
    });
    world.pass(secs(60)).await;
    for (id, status) in [
        ("always", Some(AckStatus::Delivered)),
        ("a", Some(AckStatus::Delivered)),
        ("never", None),
        ("long ago", Some(AckStatus::Failed)),
        ("b", Some(AckStatus::Failed)),
        ("c", Some(AckStatus::Failed)),
    ] {
        assert_eq!(world.outbox.status(id), status, "{id}");
    }
    world.clock.set_wrong_by(200_000_000_000);
    world.pass(secs(60)).await;
    assert!(is_skewed(&world));
}
