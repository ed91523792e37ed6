//! The table against an independent account of what it should hold: named examples here, random
//! histories in `histories`.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use serde_json::json;

use super::*;
use crate::envelope::{Reading, read};

mod histories;
mod world;

const FRESHNESS: Duration = Duration::from_secs(10);

fn now() -> Now {
    Now { mono: Instant::now(), wall: "2026-08-03T06:00:00Z".parse().unwrap() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn envelope(id: &str, template: &str, not_before: Option<DateTime<Utc>>) -> Arc<Envelope> {
    let element = json!({
        "schema_version": "1", "id": id, "user_id": "u-1", "channel": "email", "template": template,
        "recipient": {}, "consent_snapshot": {"unsubscribe_ref": "r-1"}, "payload": {},
        "not_before": not_before, "created_at": "2026-08-03T05:00:00Z",
    });
    match read(&element.to_string()) {
        Reading::Envelope(envelope) => Arc::new(*envelope),
        other => panic!("{other:?}"),
    }
}

fn gate() -> GateId {
    GateId::new("provider", "provider")
}

fn new(id: &str, destination: &str, template: &str) -> Listing {
    let route = Route { gate: gate(), destination: Destination::new(destination) };
    Listing::New(envelope(id, template, None), route)
}

fn digest(id: &str) -> Listing {
    new(id, "ann", "your-week-digest.v1")
}

fn table(listings: Vec<Listing>, now: Now) -> Leases {
    let mut table = Leases::new(FRESHNESS);
    table.apply(listings, Coverage::All, now);
    table
}

fn key(table: &Leases, id: &str) -> Key {
    table.key_of(&EnvelopeId::new(id).unwrap()).unwrap()
}

fn held(table: &Leases, ids: &[&str]) -> Vec<Listing> {
    ids.iter().map(|id| Listing::Held(key(table, id))).collect()
}

/// The ids that are handed out one after the other, each claimed and left in its worker's hands.
fn hand_out(table: &mut Leases, now: Now) -> Vec<String> {
    table.advance(now);
    std::iter::from_fn(|| {
        let (_, key) = table.oldest_ready(&gate(), now)?;
        assert!(table.claim(key));
        Some(table.get(key)?.envelope.id.to_string())
    })
    .collect()
}

#[test]
fn week_32_waits_until_week_31_is_accepted() {
    let now = now();
    let mut table = table(vec![digest("week-31"), digest("week-32")], now);
    assert_eq!(hand_out(&mut table, now), ["week-31"]);
    table.decide(key(&table, "week-31"), true);
    assert_eq!(hand_out(&mut table, now), ["week-32"], "its ack is not waited for");
}

#[test]
fn week_32_waits_until_the_ack_of_a_failed_week_31_is_through() {
    let now = now();
    let mut table = table(vec![digest("week-31"), digest("week-32")], now);
    hand_out(&mut table, now);
    table.decide(key(&table, "week-31"), false);
    assert!(hand_out(&mut table, now).is_empty());
    table.release(&EnvelopeId::new("week-31").unwrap());
    assert_eq!(hand_out(&mut table, now), ["week-32"]);
}

#[test]
fn an_ack_that_cannot_get_through_makes_way() {
    let now = now();
    let mut table = table(vec![digest("week-31"), digest("week-32")], now);
    hand_out(&mut table, now);
    table.decide(key(&table, "week-31"), false);
    table.make_way(&EnvelopeId::new("week-31").unwrap());
    assert_eq!(hand_out(&mut table, now), ["week-32"]);
    assert_eq!(table.len(), 2, "it is kept all the same");
}

#[test]
fn a_sign_in_mail_never_waits_behind_a_stuck_digest() {
    let now = now();
    let mut table = table(vec![digest("digest"), new("sign-in", "ann", "sign-in.v1")], now);
    assert_eq!(hand_out(&mut table, now), ["digest", "sign-in"]);
}

#[test]
fn two_versions_of_a_template_are_one_record() {
    let now = now();
    let mut table = table(vec![digest("old"), new("new", "ann", "your-week-digest.v2")], now);
    assert_eq!(hand_out(&mut table, now), ["old"]);
}

#[test]
fn an_envelope_that_is_not_due_holds_up_nobody_and_takes_its_place_when_it_is() {
    let now = now();
    let route = Route { gate: gate(), destination: Destination::new("ann") };
    let later = envelope("later", "your-week-digest.v1", Some(now.wall + TimeDelta::seconds(5)));
    let mut table = table(vec![Listing::New(later, route), digest("this")], now);
    assert_eq!(table.next_change(now), Some(now.mono + seconds(5)));
    assert_eq!(hand_out(&mut table, now), ["this"]);
    assert_eq!(hand_out(&mut table, now.after(seconds(5))), ["later"], "in front, whoever is on his way");
}

#[test]
fn a_listing_is_fresh_for_less_than_the_bound() {
    let now = now();
    let mut table = table(vec![digest("e")], now);
    let bound = now.after(FRESHNESS);
    assert!(hand_out(&mut table, bound).is_empty());
    assert!(table.has_stale_head(&gate(), bound));
    table.apply(held(&table, &["e"]), Coverage::All, bound);
    assert_eq!(hand_out(&mut table, bound), ["e"]);
}

#[test]
fn what_is_withdrawn_while_it_is_sent_is_not_sent_again() {
    let now = now();
    let mut table = table(vec![digest("e")], now);
    hand_out(&mut table, now);
    let applied = table.apply(vec![], Coverage::All, now);
    assert!(applied.withdrawn.is_empty(), "what is on its way cannot be called back");
    assert_eq!(table.wait(key(&table, "e"), now.mono), Some(EnvelopeId::new("e").unwrap()));
    assert!(table.is_empty());
}

#[test]
fn what_is_withdrawn_while_it_is_sent_and_listed_again_stays() {
    let now = now();
    let mut table = table(vec![digest("e")], now);
    hand_out(&mut table, now);
    table.apply(vec![], Coverage::All, now);
    table.apply(held(&table, &["e"]), Coverage::All, now);
    assert_eq!(table.wait(key(&table, "e"), now.mono), None);
    assert_eq!(table.len(), 1);
}

#[test]
fn what_is_accepted_is_kept_until_its_ack_is_through_whatever_a_page_lists() {
    let now = now();
    let mut table = table(vec![digest("e")], now);
    hand_out(&mut table, now);
    table.decide(key(&table, "e"), true);
    table.apply(vec![], Coverage::All, now);
    assert_eq!(table.len(), 1);
    assert!(hand_out(&mut table, now).is_empty());
}

#[test]
fn an_envelope_committed_late_goes_before_a_younger_one_that_is_held_already() {
    let now = now();
    let mut table = table(vec![digest("week-32")], now);
    let mut page = vec![digest("week-31")];
    page.extend(held(&table, &["week-32"]));
    table.apply(page, Coverage::All, now);
    assert_eq!(hand_out(&mut table, now), ["week-31"]);
}

#[test]
fn a_full_page_that_ends_with_a_late_one_drops_nothing_it_had_no_room_for() {
    let now = now();
    let ids = ["a", "b", "c", "d"];
    let mut table = table(ids.iter().map(|id| new(id, id, "nudge.v1")).collect(), now);
    let mut page = held(&table, &["a", "b"]);
    page.push(new("late", "b", "nudge.v1"));
    let applied = table.apply(page, Coverage::OlderThanLast, now);
    assert!(applied.withdrawn.is_empty(), "{:?}", applied.withdrawn);
    let mut page = held(&table, &["a", "late"]);
    page.extend(held(&table, &["c"]));
    let applied = table.apply(page, Coverage::OlderThanLast, now);
    assert_eq!(applied.withdrawn, [EnvelopeId::new("b").unwrap()]);
    assert_eq!(hand_out(&mut table, now), ["a", "late", "c", "d"], "the seam's order");
}

#[test]
fn a_full_page_of_new_ones_says_nothing_of_those_behind_it() {
    let now = now();
    let mut table = table(vec![new("a", "a", "nudge.v1")], now);
    let applied = table.apply(vec![new("late", "l", "nudge.v1")], Coverage::OlderThanLast, now);
    assert!(applied.withdrawn.is_empty());
    assert_eq!(hand_out(&mut table, now), ["late", "a"]);
}
