//! How a closed gate opens again: promptly, once, and whatever became of its probe.

use super::super::outbox::{mail, push};
use super::super::world::fixed;
use super::*;
use crate::outcome::Cause;

fn mails(count: usize) -> impl Iterator<Item = Draft> {
    (0..count).map(|n| mail(format!("m{n}")))
}

/// When the first attempt at or after `from` began.
fn first_after(world: &World, from: Duration) -> Duration {
    world.carrier().tries().iter().map(|t| t.began).find(|began| *began >= from).unwrap()
}

/// After an hour the key is mended, and the provider is down for ten seconds: 2 and 8 s, not 15 minutes.
#[tokio::test(start_paused = true)]
async fn a_short_outage_after_a_long_closing_is_waited_for_as_a_short_one() {
    for trouble in [Answer::unavailable(), Answer::slow_down(secs(1))] {
        let world = Setup::email_at(fixed(2), 4).start(|w| {
            w.carrier().all(after_latency(Answer::pause(Cause::ApiKey)));
            w.outbox.add_all(mails(20));
        });
        world.pass(hours(1)).await;
        world.carrier().all(after_latency(trouble.clone()));
        world.engine.probe_gates();
        world.pass(secs(10)).await;
        world.carrier().all(after_latency(Answer::accepted()));
        world.until_delivered(20).await;
        assert!(world.at() < hours(1) + secs(13 + 32 + 10), "{trouble:?}: {:?}", world.at());
    }
}

/// An outage of three, then 429 to every probe: 2, 8, 32, 128, 512, then 900 s again, of which none is one a second.
#[tokio::test(start_paused = true)]
async fn a_provider_that_answers_429_to_every_probe_is_asked_ever_less() {
    let world = Setup::email_at(fixed(2), 4).slow_polls().start(|w| {
        w.carrier().rule(|call| match call.at {
            at if at < secs(2) => after_latency(Answer::unavailable()),
            at if at < hours(1) => after_latency(Answer::slow_down(secs(1))),
            _ => after_latency(Answer::accepted()),
        });
        w.outbox.add_all(mails(500));
    });
    world.pass(hours(1)).await;
    let asked = world.carrier().tries().len();
    assert!((10..=12).contains(&asked), "three, and a probe at each step: {asked}");
    all_delivered(&world, 500, hours(1) + secs(1126 + 250), "429 to every probe").await;
}

/// Each probe is accepted and the next attempt refused: two requests and one mail per 30 to 38 s. A mail that was
/// refused time after time while others passed may wait the longest wait, 1125 s, before it is tried again.
#[tokio::test(start_paused = true)]
async fn a_gate_that_flaps_lets_two_through_each_time_and_fails_nobody() {
    let world = Setup::email_at(fixed(2), 4).slow_polls().start(|w| {
        let mut count = 0;
        w.carrier().rule(move |call| {
            count += 1;
            let trouble = call.at < hours(1) && count % 2 == 1;
            after_latency(if trouble { Answer::pause(Cause::ApiKey) } else { Answer::accepted() })
        });
        w.outbox.add_all(mails(500));
    });
    world.pass(hours(1)).await;
    let asked = world.carrier().tries().len();
    assert!((190..=242).contains(&asked), "3600 s at two per 30.2 to 37.9 s: {asked}");
    all_delivered(&world, 500, hours(1) + secs(38 + 1125 + 250), "flapping").await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_envelope_ends_on_its_way_leaves_its_slot_to_the_next() {
    for withdrawn in [true, false] {
        let world = Setup::email_at(fixed(2), 4).start(|w| {
            let first = mail("m0");
            w.outbox.add(if withdrawn { first } else { first.expires(secs(50)) });
            w.outbox.add_all((1..3).map(|n| mail(format!("m{n}"))));
            w.carrier().all(Answer::pause(Cause::ApiKey));
        });
        world.until("the gate is closed", World::is_gate_closed).await;
        // Every probe of the first 100 s takes 20 s, in which its envelope ends.
        world.carrier().rule(|call| match call.at < secs(100) {
            true => Answer::timeout().after(secs(20)),
            false => Answer::accepted(),
        });
        world.until("a probe is on its way", |w| w.at() > secs(38)).await;
        let probed = world.carrier().tries().last().unwrap().id.clone();
        if withdrawn {
            world.outbox.withdraw(&probed);
        }
        world.until_delivered(2).await;
        assert!(world.at() < secs(200), "withdrawn: {withdrawn}: {:?}", world.at());
    }
}

/// The operator's signal does not wait for the schedule; what it meets begins at 30 s again.
#[tokio::test(start_paused = true)]
async fn a_signal_probes_once_and_not_once_per_worker() {
    let world = Setup::email_at(fixed(2), 4).start(|w| {
        w.carrier().all(after_latency(Answer::pause(Cause::ApiKey)));
        w.outbox.add_all(mails(50));
    });
    world.pass(hours(1)).await;
    let before = world.carrier().tries().len();
    world.engine.probe_gates();
    world.pass(secs(29)).await;
    assert_eq!(world.carrier().tries().len(), before + 1);
    world.pass(secs(10)).await;
    assert_eq!(world.carrier().tries().len(), before + 2);
}

/// The provider's midnight comes 40 s after this machine's: looked at just after our own, and a minute later.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_a_little_ahead_at_midnight_costs_a_minute_and_not_an_hour() {
    for wall in ["2026-08-03T23:55:00Z", "2026-08-03T23:59:59.700Z"] {
        for seed in SEEDS {
            let ours = if wall.contains("55") { secs(300) } else { Duration::from_millis(300) };
            let reset = ours + secs(40);
            let world = Setup::email_at(fixed(2), 4).seed(seed).wall(wall).start(|w| {
                w.carrier().rule(move |call| match call.at < reset {
                    true => after_latency(Answer::pause(Cause::QuotaDaily)),
                    false => after_latency(Answer::accepted()),
                });
                w.outbox.add_all(mails(20));
            });
            world.until_delivered(20).await;
            assert_eq!(world.carrier().tries().len(), 20 + 2, "one to close it, one just after midnight");
            assert!(world.at() < ours + secs(30 + 90 + 11), "{wall}: {:?}", world.at());
        }
    }
}

/// One destination is told to wait for an hour; then three others close the origin. Its probes are of those three,
/// and of the first only when its hour is over, also where it is the only one left.
#[tokio::test(start_paused = true)]
async fn no_probe_undercuts_what_its_destination_was_told() {
    let world = Setup::push(8).slow_polls().start(|w| {
        w.carrier().next("told", [Answer::pause_destination(Cause::RateLimited, Some(hours(1)))]);
        w.carrier().rule(|_| after_latency(Answer::connection_refused()));
        w.outbox.add(push("told", "fcm"));
        w.outbox.add_all((0..3).map(|n| push(format!("p{n}"), "fcm")));
    });
    world.until("the gate is closed", World::is_gate_closed).await;
    world.pass(secs(60)).await;
    for n in 0..3 {
        world.outbox.withdraw(&format!("p{n}"));
    }
    world.carrier().all(after_latency(Answer::accepted()));
    assert_eq!(world.until_acked("told").await, AckStatus::Delivered);
    let began: Vec<_> = world.carrier().tries_of("told").iter().map(|t| t.began).collect();
    assert!(began.len() == 2 && began[1] >= hours(1) && began[1] < secs(4501), "{began:?}");
}

/// Two workers that meet the same trouble at the same instant do not come back at the same instant.
#[tokio::test(start_paused = true)]
async fn seeds_spread_the_probes_of_every_trouble() {
    for (trouble, from, longest) in [
        (Answer::pause(Cause::ApiKey), 30, 38),
        (Answer::pause(Cause::QuotaMonthly), 3600, 4501),
        (Answer::slow_down(secs(120)), 120, 151),
    ] {
        let mut began = std::collections::BTreeSet::new();
        for seed in 0..8 {
            let world = Setup::email(1).slow_polls().seed(seed).start(|w| {
                w.carrier().all(trouble.clone());
                w.outbox.add_all(mails(3));
            });
            world.pass(secs(longest)).await;
            let at = first_after(&world, secs(1));
            assert!(at >= secs(from), "never undercut: {at:?}");
            began.insert(at);
        }
        assert_eq!(began.len(), 8, "{trouble:?}: {began:?}");
    }
}

/// Two lanes of one process, closed at the same instant.
#[tokio::test(start_paused = true)]
async fn two_lanes_do_not_wake_at_the_same_instant() {
    let world = Setup::email_at(fixed(2), 4)
        .and("push", crate::channel::Gating::OneProvider(crate::channel::Rate::Unlimited), 1)
        .start(|w| {
            w.carriers.iter().for_each(|carrier| carrier.all(Answer::pause(Cause::ApiKey)));
            w.outbox.add_all([mail("a"), push("b", "fcm")]);
        });
    world.pass(secs(39)).await;
    let probes: Vec<_> = world.carriers.iter().map(|carrier| carrier.tries()[1].began).collect();
    assert_ne!(probes[0], probes[1]);
}
