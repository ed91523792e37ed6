//! Three endpoints that refuse everything, among five hundred good ones of the same origin.

use super::super::outbox::push;
use super::*;
use crate::outcome::Cause;

/// The three are the oldest, so they close the origin with the first answers. Its probe, 30 to 37 s later, is of a
/// destination that was never tried, hence a good one. From then on the three yield to the others: they close
/// nothing again for as long as anyone waits.
#[tokio::test(start_paused = true)]
async fn three_bogus_endpoints_hold_up_five_hundred_good_ones_once_and_for_38_seconds() {
    for (cause, seed) in [Cause::PushCredential, Cause::EndpointBlocked].into_iter().zip(SEEDS) {
        let world = Setup::push(32).seed(seed).start(|w| {
            for n in 0..3 {
                w.carrier()
                    .always(&format!("bogus {n}"), after_latency(Answer::pause_destination(cause, None)));
            }
            w.carrier().all(after_latency(Answer::accepted()));
            w.outbox.add_all((0..3).map(|n| push(format!("bogus {n}"), "fcm")));
            w.outbox.add_all((0..500).map(|n| push(format!("p{n}"), "fcm")));
        });
        world.until("the gate is closed", World::is_gate_closed).await;
        world.until_delivered(500).await;
        assert!(world.at() < secs(38 + 5), "one closing, then 1, 2, 4 … at once: {:?}", world.at());
        let tries = world.carrier().tries();
        let first = tries.iter().position(|t| t.began >= secs(30)).unwrap();
        assert!(!tries[first].id.starts_with("bogus"), "the first probe is a good one");
        let (bogus, good): (Vec<_>, Vec<_>) = tries.iter().partition(|t| t.id.starts_with("bogus"));
        let last_good = good.last().unwrap().began;
        assert!(bogus[3..].iter().all(|t| t.began >= last_good), "the three again after all others: {cause}");
        assert!(good.len() == 500 && bogus.len() <= 6, "{} {}", good.len(), bogus.len());
    }
}

/// While the origin is closed by three that lie, each new destination is a better probe than they are.
#[tokio::test(start_paused = true)]
async fn a_good_destination_that_comes_late_is_the_next_probe() {
    let world = Setup::push(32).start(|w| {
        w.carrier().rule(|call| match call.id.starts_with("bogus") {
            true => after_latency(Answer::pause_destination(Cause::EndpointBlocked, None)),
            false => after_latency(Answer::accepted()),
        });
        w.outbox.add_all((0..3).map(|n| push(format!("bogus {n}"), "fcm")));
    });
    world.pass(secs(3600)).await;
    world.outbox.add(push("good", "fcm"));
    world.until_delivered(1).await;
    assert!(world.at() < secs(3600 + 751 + 6), "at the next probe, 600 to 750 s apart: {:?}", world.at());
}
