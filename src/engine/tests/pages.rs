//! What a page says: junk costs itself alone, a listing grows stale, only a page that answers drops.

use serde_json::{Value, json};

use super::carrier::Answer;
use super::outbox::{Fault, mail, push};
use super::world::{Setup, World, fixed, hours, secs};
use crate::outbox::SeamError;
use crate::outcome::{AckStatus, Cause};
use crate::telemetry::status::{LeaseState, Unready};

fn changed(world: &World, id: &str, field: &str, value: Value) -> Value {
    let mut json = mail(id).json(&world.clock);
    json[field] = value;
    json
}

/// Case 1: junk of every kind.
/// Case 2: a version of tomorrow is neither sent nor acked.
#[tokio::test(start_paused = true)]
async fn junk_in_a_page_costs_itself_alone() {
    let world = Setup::email(4).start(|w| {
        w.outbox.add_all((0..6).map(|n| mail(format!("m{n}"))));
        w.outbox.add_raw("email", &json!({"id": "broken", "kind": 42}));
        w.outbox.add_raw("email", &Value::Null);
        w.outbox.add_raw("email", &json!([1, 2]));
        w.outbox.add_raw("email", &changed(w, "sms", "channel", json!("sms")));
        w.outbox.add_raw("email", &changed(w, "newer", "schema_version", json!("2")));
        w.outbox.add_raw("email", &changed(w, "..", "user_id", json!("u")));
        w.outbox.add_raw("email", &json!({"user_id": "u"}));
        w.outbox.add(mail("panic").to("panic"));
        w.outbox.add_raw("email", &changed(w, "nobody", "recipient", json!({"gate": "resend"})));
        w.outbox.add(mail("m0"));
        w.outbox.add_all((6..10).map(|n| mail(format!("m{n}"))));
    });
    world.until_delivered(10).await;
    for (id, detail) in [
        ("broken", "malformed: schema_version: is missing"),
        ("sms", "unknown channel: channel: is not one that this worker carries"),
        ("panic", "panic: its recipient made the worker panic: a defect of the worker"),
        ("nobody", "recipient invalid: recipient.to: is missing"),
    ] {
        assert_eq!(world.until_acked(id).await, AckStatus::Failed);
        assert_eq!(world.outbox.posts_of(id)[0].detail, detail);
    }
    world.pass(hours(1)).await;
    assert_eq!(world.carrier().tries().len(), 10, "the duplicate is not sent twice");
    assert_eq!(world.outbox.posts_of("newer"), []);
    assert_eq!(world.outbox.posts_of(".."), []);
    assert_eq!(world.unready(), [Unready::UnreadableVersion { count: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn an_envelope_of_a_sibling_lane_is_left_to_it() {
    let rate = crate::channel::Gating::ManyProviders;
    let world = Setup::email(2).and("push", rate, 2).start(|w| {
        w.outbox.add_raw("email", &changed(w, "p", "channel", json!("push")));
    });
    world.pass(secs(60)).await;
    assert_eq!(world.outbox.posts(), []);
    assert_eq!(world.carrier().tries(), []);
}

/// Case 8: minutes without a seam, then it drains.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_on_a_listing_that_has_grown_stale_and_it_resumes_with_the_next_page() {
    let world = Setup::email_at(fixed(1), 4).start(|w| {
        w.outbox.add_all((0..60).map(|n| mail(format!("m{n}"))));
    });
    world.until_delivered(2).await;
    world.outbox.all_polls(Fault::Error(SeamError::Unreachable(Cause::Connect)));
    world.pass(secs(600)).await;
    let last = world.carrier().tries().last().unwrap().began;
    let fresh =
        world.outbox.polls().iter().filter(|poll| poll.at <= secs(3)).map(|poll| poll.at).max().unwrap();
    assert!(last < fresh + secs(10), "{last:?} after the page at {fresh:?}");
    assert!(last > fresh + secs(8), "but until then it goes on: {last:?}");
    assert!(world.unready().contains(&Unready::Seam { error: Some(SeamError::Unreachable(Cause::Connect)) }));
    world.outbox.all_polls(Fault::None);
    let mended = world.at();
    world.until("it resumes", |w| w.carrier().tries().last().unwrap().began > mended).await;
    assert!(world.at() < mended + secs(31));
    world.until_delivered(60).await;
    assert_eq!(world.carrier().tries().len(), 60);
}

/// Case 8: the backoff.
#[tokio::test(start_paused = true)]
async fn a_seam_that_is_down_is_asked_with_backoff() {
    let world =
        Setup::email(1).start(|w| w.outbox.all_polls(Fault::Error(SeamError::Unreachable(Cause::Connect))));
    world.pass(hours(1)).await;
    let polls = world.outbox.polls().len();
    assert!((118..=140).contains(&polls), "every half minute: {polls}");
}

#[tokio::test(start_paused = true)]
async fn a_full_page_with_a_place_for_everybody_answers_for_everybody() {
    let world = Setup::push(2).page_limit(8).start(|w| {
        w.carrier().all(Answer::accepted().after(secs(1)));
        w.carrier().next("youngest", [Answer::busy_for(secs(7))]);
        w.outbox.add_all((0..7).map(|n| push(format!("p{n}"), "fcm")));
        w.outbox.add(push("youngest", "mozilla"));
        w.outbox.add_all((8..40).map(|n| push(format!("p{n}"), "fcm")));
    });
    world.until("it waits", |w| w.leases(LeaseState::Waiting) == 1).await;
    world.outbox.withdraw("youngest");
    world.until_delivered(39).await;
    assert!(world.outbox.polls().iter().filter(|poll| poll.at < secs(7)).count() > 1);
    assert_eq!(world.carrier().tries_of("youngest").len(), 1, "its listing was still fresh at its retry");
}

#[tokio::test(start_paused = true)]
async fn a_settled_page_leaves_nothing_behind() {
    let world = Setup::email(4).start(|w| w.outbox.add_all((0..40).map(|n| mail(format!("m{n}")))));
    world.until_delivered(40).await;
    world.pass(secs(12)).await;
    let lane = world.lane();
    assert_eq!(lane.window_used, 0);
    for state in LeaseState::ALL {
        assert_eq!(lane.leases[&state], 0, "{state:?}");
    }
}
