//! Many short histories with everything going wrong at once, each from its seed; then the faults end,
//! and what was promised must have held.

use std::collections::BTreeMap;
use std::time::Duration;

use super::carrier::{Answer, Try};
use super::outbox::{Draft, Fault, mail, push};
use super::world::{Setup, World, secs};
use crate::outbox::SeamError;
use crate::outcome::{AckStatus, Cause};

const HISTORIES: u64 = 30;
const ENVELOPES: usize = 30;
/// How long things go wrong.
const BAD_TIME: Duration = Duration::from_secs(600);
/// By when all must have come to its end: the longest waits that began in the bad time, in a row.
const AFTERMATH: Duration = Duration::from_secs(2 * 3600);

fn ids() -> impl Iterator<Item = String> {
    (0..ENVELOPES).map(|n| format!("e{n}"))
}

/// One draw of what an attempt comes to.
fn any_answer(rng: &mut fastrand::Rng) -> Answer {
    let answer = match rng.u8(..20) {
        0 => Answer::server_error(),
        1 => Answer::unavailable(),
        2 => Answer::timeout(),
        3 => Answer::connection_refused(),
        4 => Answer::slow_down(secs(rng.u64(..30))),
        5 => Answer::pause(Cause::ApiKey),
        6 => Answer::pause_destination(Cause::RateLimited, Some(secs(rng.u64(..100)))),
        7 => Answer::pause_destination(Cause::PushCredential, None),
        8 => Answer::panic(),
        9 => Answer::refused("no"),
        _ => Answer::accepted(),
    };
    answer.after(Duration::from_millis(rng.u64(..8000)))
}

/// One draw of what becomes of a request to the seam.
fn any_fault(rng: &mut fastrand::Rng) -> Fault {
    match rng.u8(..12) {
        0 => Fault::Error(SeamError::Status(500)),
        1 => Fault::Error(SeamError::Unreachable(Cause::Connect)),
        2 => Fault::AnswerLost,
        3 => Fault::Late(Duration::from_millis(rng.u64(..9000))),
        _ => Fault::None,
    }
}

fn any_draft(n: usize, rng: &mut fastrand::Rng) -> Draft {
    let id = format!("e{n}");
    let gate = ["fcm", "mozilla", "apple"][rng.usize(..3)];
    let draft = if rng.bool() { mail(id) } else { push(id, gate) };
    let draft =
        draft.to(&format!("reader {}", rng.u8(..12))).template(["digest.v1", "nudge.v1"][rng.usize(..2)]);
    match rng.u8(..10) {
        0 => draft.not_before(secs(rng.u64(..1200))),
        1 => draft.expires(secs(rng.u64(1..1200))),
        _ => draft,
    }
}

/// Plays the history of one seed to its end, and tells when which envelopes were withdrawn.
async fn play(seed: u64) -> (World, BTreeMap<String, Duration>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let workers = rng.usize(1..5);
    let limit = [3, 10, 500][rng.usize(..3)];
    let setup = Setup::email(workers).and("push", crate::channel::Gating::ManyProviders, workers);
    let mut world = setup.page_limit(limit).seed(seed).start(|w| {
        for carrier in &w.carriers {
            let mut rng = rng.fork();
            carrier
                .rule(move |call| if call.at < BAD_TIME { any_answer(&mut rng) } else { Answer::accepted() });
        }
        w.outbox.next_polls((0..60).map(|_| any_fault(&mut rng)));
    });
    let mut withdrawn = BTreeMap::new();
    for n in 0..ENVELOPES {
        let (id, draft) = (format!("e{n}"), any_draft(n, &mut rng));
        world.outbox.next_acks(&id, (0..rng.usize(..4)).map(|_| any_fault(&mut rng)));
        world.outbox.add(draft);
        world.pass(Duration::from_millis(rng.u64(..30_000))).await;
        if rng.u8(..6) == 0 {
            let gone = format!("e{}", rng.usize(..=n));
            world.outbox.withdraw(&gone);
            withdrawn.entry(gone).or_insert(world.at());
        }
    }
    let all_ended = |w: &World| {
        let gone = |id: &str| withdrawn.contains_key(id) || w.outbox.has_expired(id);
        w.at() > BAD_TIME && ids().all(|id| w.outbox.status(&id).is_some() || gone(&id))
    };
    world.until(&format!("all of seed {seed} has come to its end"), all_ended).await;
    assert!(world.at() < BAD_TIME + AFTERMATH, "seed {seed}: {:?}", world.at());
    assert_eq!(world.stop().await.exit_code(), 0, "seed {seed}");
    (world, withdrawn)
}

fn all_tries(world: &World) -> Vec<Try> {
    world.carriers.iter().flat_map(|carrier| carrier.tries()).collect()
}

fn check(world: &World, withdrawn: &BTreeMap<String, Duration>) -> Result<(), String> {
    let posts = world.outbox.posts();
    for id in ids() {
        let tries: Vec<Try> = all_tries(world).into_iter().filter(|t| t.id == id).collect();
        let accepted = tries.iter().filter(|t| t.is_accepted()).count();
        let statuses: Vec<AckStatus> = posts.iter().filter(|p| p.id == id).map(|p| p.status).collect();
        // A refusal may count as the sender's settings' fault, so it need not be the end.
        let is_terminal = |t: &Try| {
            let ended = t.ended.as_ref().map(|(_, attempt)| attempt);
            ended.is_some_and(|a| a.outcome.ack_status().is_some() && a.cause != Cause::Refused)
        };
        // A page may be on its way for 9 s, and its listing is good for 10 s.
        let known = withdrawn.get(&id).map_or(Duration::MAX, |at| *at + secs(19));
        for (holds, claim) in [
            (accepted <= 1, "is accepted once"),
            (!tries.iter().rev().skip(1).any(is_terminal), "is not sent after its end"),
            (statuses.windows(2).all(|pair| pair[0] == pair[1]), "is acked with one status"),
            ((accepted == 1) == statuses.contains(&AckStatus::Delivered), "is delivered if it was accepted"),
            (!statuses.contains(&AckStatus::Bounced), "is nobody's end of consent"),
            (tries.iter().all(|t| t.began < known), "is not sent once it is withdrawn"),
        ] {
            if !holds {
                return Err(format!("{id} {claim}: {statuses:?} {tries:#?}"));
            }
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn promises_hold_whatever_goes_wrong() {
    for seed in 0..HISTORIES {
        let (world, withdrawn) = play(seed).await;
        if let Err(broken) = check(&world, &withdrawn) {
            panic!("seed {seed}: {broken}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_can_be_played_again() {
    let (first, _) = play(7).await;
    let (second, _) = play(7).await;
    assert_eq!(all_tries(&first), all_tries(&second));
    assert_eq!(first.outbox.posts(), second.outbox.posts());
    assert_eq!(first.outbox.polls(), second.outbox.polls());
}
