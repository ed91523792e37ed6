//! Account, credential, quota and rate: the gate waits, the envelopes stay pending.

use std::time::Duration;

use super::carrier::{Answer, Call};
use super::outbox::{mail, push};
use super::world::{Setup, World, fixed, hours, secs};
use crate::channel::{Attempt, Gating, Rate};
use crate::outcome::{AckStatus, Cause, Detail, Outcome};
use crate::telemetry::status::{GateState, Unready};

fn pending(count: usize, setup: Setup, answer: Answer) -> World {
    setup.start(|w| {
        w.carrier().all(answer);
        w.outbox.add_all((0..count).map(|n| mail(format!("m{n}"))));
    })
}

/// Case 15: nothing acked, four requests and then probes; the right key sends all fifty.
#[tokio::test(start_paused = true)]
async fn a_revoked_key_costs_one_request_per_worker_and_then_probes() {
    let slow = Answer::pause(Cause::ApiKey).after(Duration::from_millis(200));
    let world = pending(50, Setup::email(4), slow);
    world.pass(secs(60)).await;
    let first_minute = world.carrier().tries().len();
    assert_eq!(first_minute, 5, "four workers and the probe after 30 seconds");
    world.pass(hours(1)).await;
    let then = world.carrier().tries().len() - first_minute;
    assert!((8..=9).contains(&then), "60, 120, 240, 480, then every 600 seconds: {then}");
    assert_eq!(world.outbox.posts(), []);
    assert_eq!(world.unready(), [Unready::GateClosed { label: "resend", cause: Cause::ApiKey }]);
    world.carrier().all(Answer::accepted());
    world.until_delivered(50).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 0);
    assert_eq!(world.unready(), []);
}

#[tokio::test(start_paused = true)]
async fn whoever_mended_something_lets_closed_gates_probe_at_once() {
    let world = pending(50, Setup::email(4), Answer::pause(Cause::ApiKey));
    world.pass(hours(1)).await;
    world.carrier().all(Answer::accepted());
    let mended = world.at();
    world.engine.probe_gates();
    world.until_delivered(50).await;
    assert!(world.at() - mended < secs(4), "{:?}", world.at() - mended);
}

/// Case 16: nothing more before midnight, then all twenty.
#[tokio::test(start_paused = true)]
async fn a_daily_quota_used_up_at_ten_to_midnight_is_looked_at_just_after() {
    let world = Setup::email(2).wall("2026-08-03T23:50:00Z").start(|w| {
        w.carrier().rule(|call| match call.at < secs(600) {
            true => Answer::pause(Cause::QuotaDaily).after(Duration::from_millis(100)),
            false => Answer::accepted(),
        });
        w.outbox.add_all((0..20).map(|n| mail(format!("m{n}"))));
    });
    world.pass(secs(600)).await;
    assert_eq!(world.carrier().tries().len(), 2, "one request per worker");
    world.until_delivered(20).await;
    assert!(world.at() < secs(640), "{:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_is_looked_at_hourly() {
    let world = pending(
        20,
        Setup::email(2).slow_polls().wall("2026-08-03T02:00:00Z"),
        Answer::pause(Cause::QuotaDaily),
    );
    world.pass(hours(12)).await;
    let tries = world.carrier().tries().len();
    assert!((10..=14).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn a_rate_of_two_a_second_is_kept() {
    let world = pending(20, Setup::email_at(fixed(2), 4), Answer::accepted());
    world.until_delivered(20).await;
    let tries = world.carrier().tries();
    for pair in tries.windows(2) {
        assert!(pair[1].began - pair[0].began >= Duration::from_millis(499), "{pair:?}");
    }
    assert!(world.at() < secs(11), "{:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn the_rate_follows_what_the_provider_says_of_it() {
    let follow = Gating::OneProvider(Rate::Follow { start: 2.try_into().unwrap() });
    let world = pending(100, Setup::email_at(follow, 4), Answer::accepted().at_pace(10));
    world.until_delivered(100).await;
    assert!(world.at() > secs(12) && world.at() < secs(14), "eight a second: {:?}", world.at());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_moves_the_whole_gate_and_costs_nobody_an_attempt() {
    let world = Setup::email(2).start(|w| {
        w.carrier().rule(|call| match call.at < secs(300) {
            true => Answer::slow_down(secs(20)),
            false => Answer::accepted(),
        });
        w.outbox.add_all((0..10).map(|n| mail(format!("m{n}"))));
    });
    world.pass(secs(19)).await;
    assert!(world.carrier().tries().len() <= 2);
    assert!(matches!(world.lane().gates[0].state, GateState::Spaced { .. }));
    assert_eq!(world.unready(), [], "a rate limit is no trouble");
    world.until_delivered(10).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 0);
    assert!(world.carrier().tries_within(secs(0), secs(300)) <= 32);
}

#[tokio::test(start_paused = true)]
async fn mails_refused_alike_one_after_the_other_close_the_gate() {
    let world = pending(20, Setup::email(1), Answer::refused("reply_to is not an address"));
    world.until("the gate is closed", World::is_gate_closed).await;
    world.pass(hours(1)).await;
    assert_eq!(world.outbox.count(AckStatus::Failed), 2, "the third is more likely our settings' fault");
    world.carrier().all(Answer::accepted());
    world.until_delivered(18).await;
}

#[tokio::test(start_paused = true)]
async fn refusals_with_successes_between_them_are_each_their_own() {
    let world = Setup::email(1).start(|w| {
        w.carrier().rule(|call| match call.id.starts_with("bad") {
            true => Answer::refused("no such thing"),
            false => Answer::accepted(),
        });
        for n in 0..10 {
            w.outbox.add_all([mail(format!("bad {n}")), mail(format!("good {n}"))]);
        }
    });
    world.until_delivered(10).await;
    world.until("the bad ones failed", |w| w.outbox.count(AckStatus::Failed) == 10).await;
    assert!(!world.is_gate_closed());
}

/// Case 30: one request, nothing failed.
#[tokio::test(start_paused = true)]
async fn sender_settings_close_the_gate_at_the_first_refusal() {
    let world = pending(20, Setup::email(1), Answer::pause(Cause::SenderSettings));
    world.pass(secs(29)).await;
    assert_eq!(world.carrier().tries().len(), 1);
    world.pass(hours(2)).await;
    assert_eq!(world.outbox.posts(), []);
}

#[tokio::test(start_paused = true)]
async fn slow_answers_do_not_slow_the_rate() {
    let world = pending(4, Setup::email_at(fixed(2), 4), Answer::accepted().after(secs(9)));
    world.until_delivered(4).await;
    let began: Vec<_> = world.carrier().tries().iter().map(|t| t.began.as_millis()).collect();
    assert_eq!(began, [0, 500, 1000, 1500]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_waits_for_its_next_attempt_as_any_other() {
    let world = pending(1, Setup::email(2), Answer::pause(Cause::ApiKey));
    world.until("the gate is closed", World::is_gate_closed).await;
    world.carrier().all(Answer::panic());
    world.until("it has panicked for a while", |w| w.at() > secs(60)).await;
    let tries = world.carrier().tries();
    assert!((3..=5).contains(&tries.len()), "at 30 s, then 2, 8 and more seconds apart: {tries:#?}");
    assert_eq!(world.outbox.posts(), []);
}

#[tokio::test(start_paused = true)]
async fn a_closed_origin_that_nobody_needs_any_more_is_no_trouble_of_the_workers() {
    let world = Setup::push(4).start(|w| {
        w.carrier().all(Answer::pause_destination(Cause::PushCredential, None));
        w.outbox.add_all((0..3).map(|n| push(format!("p{n}"), "hostile")));
    });
    world.until("the gate is closed", World::is_gate_closed).await;
    assert!(!world.unready().is_empty());
    for n in 0..3 {
        world.outbox.withdraw(&format!("p{n}"));
    }
    world.pass(secs(20)).await;
    assert_eq!(world.unready(), []);
    world.outbox.restore("p0");
    world.carrier().all(Answer::accepted());
    world.until_delivered(1).await;
}

/// What nobody documents, in other words each time.
fn unknown_answers() -> impl FnMut(&Call<'_>) -> Answer {
    let mut number = 0;
    move |_| {
        number += 1;
        let detail = Detail::scrub(&format!("418 brewing pot {}", "i".repeat(number % 30)), &[]);
        let outcome = Outcome::Retry { after: None };
        Answer::exactly(Attempt::answered(outcome, Cause::UnexpectedAnswer, detail))
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_answer_to_everything_does_not_eat_the_queue() {
    let mails = Setup::email(4).slow_polls().start(|w| {
        w.carrier().rule(unknown_answers());
        w.outbox.add_all((0..20).map(|n| mail(format!("m{n}"))));
    });
    let pushes = Setup::push(4).slow_polls().start(|w| {
        w.carrier().rule(unknown_answers());
        w.outbox.add_all((0..20).map(|n| push(format!("p{n}"), "fcm")));
    });
    for world in [mails, pushes] {
        world.until("the gate is closed", World::is_gate_closed).await;
        world.pass(hours(12)).await;
        assert_eq!(world.outbox.posts(), [], "probes cost nobody an attempt");
        world.carrier().all(Answer::accepted());
        world.until_delivered(20).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_answer_to_one_mail_alone_fails_it_after_three() {
    let world = Setup::email(4).start(|w| {
        let mut unknown = unknown_answers();
        w.carrier().rule(move |call| if call.id == "odd" { unknown(call) } else { Answer::accepted() });
        w.outbox.add(mail("odd"));
        w.outbox.add_all((0..9).map(|n| mail(format!("m{n}"))));
    });
    assert_eq!(world.until_acked("odd").await, AckStatus::Failed);
    assert_eq!(world.carrier().tries_of("odd").len(), 3);
    assert!(!world.is_gate_closed());
}

/// A firewall before the provider may turn one mail away for what it quotes.
#[tokio::test(start_paused = true)]
async fn a_mail_that_alone_closes_the_gate_does_so_ever_more_rarely() {
    let world = Setup::email(4).slow_polls().start(|w| {
        w.carrier().always("odd", Answer::pause(Cause::WrongUrl));
        w.outbox.add(mail("odd"));
        w.outbox.add_all((0..600).map(|n| mail(format!("m{n}")).not_before(secs(60 * n))));
    });
    world.until_delivered(600).await;
    assert!(
        world.at() < hours(10) + secs(120),
        "the others are late by the closed gate alone: {:?}",
        world.at()
    );
    let tries = world.carrier().tries_of("odd").len();
    assert!(tries < 60, "at the longest backoff, not at the shortest: {tries}");
    assert_eq!(world.outbox.status("odd"), None, "and it is not failed for what may be our fault");
}
