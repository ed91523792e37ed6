//! How much each trouble lets through, by the clock: requests in the first minute and in the first hour, with
//! one envelope waiting and with five hundred, and how soon after its end all is delivered.
//!
//! Every number is worked out from the rules of the gate; the sentence beside it says how. Waits are spread
//! by up to a quarter, so a number may be a range: its ends are no jitter and all of it.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::carrier::Answer;
use super::outbox::Draft;
use super::world::{Setup, World, hours, secs};
use crate::outcome::AckStatus;

mod email;
mod hostile;
mod push;
mod reopening;
mod seam;

/// How long an answer takes.
const LATENCY: Duration = Duration::from_millis(200);
/// Each row is played with jitter from these seeds.
const SEEDS: [u64; 2] = [1, 20];

/// Requests within the first minute and the first hour of a trouble.
type Requests = (RangeInclusive<usize>, RangeInclusive<usize>);

/// One trouble by the clock. It ends after an hour.
struct Row {
    trouble: &'static str,
    answer: Answer,
    one: Requests,
    many: Requests,
    /// All of one, and all of five hundred, are delivered this soon after the end.
    delivered_in: (Duration, Duration),
    /// How the numbers come about.
    because: &'static str,
}

fn exactly(count: usize) -> RangeInclusive<usize> {
    count..=count
}

fn after_latency(answer: Answer) -> Answer {
    answer.after(LATENCY)
}

/// Plays each row with one envelope and with five hundred; those, which take their time, with one seed a row.
async fn play(rows: Vec<Row>, setup: fn() -> Setup, draft: fn(usize) -> Draft) {
    for (row, many_seed) in rows.into_iter().zip(SEEDS.into_iter().cycle()) {
        let (one, many) = ((1, &row.one, row.delivered_in.0), (500, &row.many, row.delivered_in.1));
        let loads = SEEDS.map(|seed| (one, seed)).into_iter().chain([(many, many_seed)]);
        for ((count, requests, delivered_in), seed) in loads {
            let (what, because) = (format!("{} with {count}, seed {seed}", row.trouble), row.because);
            let answer = row.answer.clone();
            let world = setup().seed(seed).start(|w| {
                w.carrier().rule(move |call| match call.at < hours(1) {
                    true => answer.clone(),
                    false => after_latency(Answer::accepted()),
                });
                w.outbox.add_all((0..count).map(draft));
            });
            world.pass(hours(1)).await;
            let minute = world.carrier().tries_within(secs(0), secs(60));
            let hour = world.carrier().tries_within(secs(0), hours(1));
            assert!(requests.0.contains(&minute), "{what}: {minute} in the first minute: {because}");
            assert!(requests.1.contains(&hour), "{what}: {hour} in the first hour: {because}");
            assert_eq!(world.outbox.posts(), [], "{what}: nothing is acked");
            all_delivered(&world, count, hours(1) + delivered_in, &what).await;
        }
    }
}

async fn all_delivered(world: &World, count: usize, by: Duration, what: &str) {
    world.until_delivered(count).await;
    assert!(world.at() <= by, "{what}: delivered {:?} after its end", world.at().saturating_sub(hours(1)));
    assert_eq!(world.outbox.posts().len(), count, "{what}: none failed");
    assert_eq!(world.outbox.count(AckStatus::Delivered), count);
}
