//! Closing and reopening, rule by rule; rate and places are in `pace`, when a closed gate is probed in `probes`,
//! what holds over any sequence of attempts in `sequences`.

use super::*;

mod pace;
mod probes;
mod sequences;

impl Gate {
    /// Whether it has opened of late and takes more and more.
    pub(in crate::engine) fn is_ramping(&self) -> bool {
        self.closed.is_none() && self.ramp.is_some()
    }
}

const BASE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(900);
const EMAIL: Gating = Gating::OneProvider(Rate::Unlimited);
const PUSH: Gating = Gating::ManyProviders;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn start() -> Now {
    Now { mono: Instant::now(), wall: "2026-08-03T06:00:00Z".parse().unwrap() }
}

fn moment(now: Now) -> Moment {
    Moment { now, random: 0.0 }
}

fn gate(gating: Gating, workers: usize) -> Gate {
    Gate::new(gating, workers, Schedule::new(BASE, LONGEST))
}

/// The envelope `n`, of the destination `n`.
fn who(n: usize) -> Suspect {
    of(n, n)
}

fn of(envelope: usize, destination: usize) -> Suspect {
    Suspect {
        id: EnvelopeId::new(format!("e-{envelope}")).unwrap(),
        destination: Destination::new(&format!("d-{destination}")),
    }
}

fn accepted() -> Attempt {
    Attempt::answered(Outcome::Delivered { provider_id: None }, Cause::Accepted, Detail::default())
}

fn timeout() -> Attempt {
    Attempt::unanswered(Outcome::Unclear { after: None }, Cause::Timeout, Detail::default())
}

fn server_error() -> Attempt {
    Attempt::answered(Outcome::Unclear { after: None }, Cause::ServerError, Detail::default())
}

fn refused(detail: &'static str) -> Attempt {
    Attempt::answered(Outcome::Failed, Cause::Refused, Detail::fixed(detail))
}

fn pause(scope: Scope, cause: Cause, after: Option<Duration>) -> Attempt {
    Attempt::answered(Outcome::Pause { scope, after }, cause, Detail::default())
}

fn bad_key() -> Attempt {
    pause(Scope::Provider, Cause::ApiKey, None)
}

fn credential() -> Attempt {
    pause(Scope::Destination, Cause::PushCredential, None)
}

/// One attempt, begun and ended at `now`.
fn attempt(gate: &mut Gate, attempt: &Attempt, who: &Suspect, now: Now) -> Option<Change> {
    let ticket = gate.begin(now);
    gate.end(ticket, attempt, who, moment(now))
}

fn closed(gating: Gating, now: Now) -> Gate {
    let mut gate = gate(gating, 8);
    assert!(matches!(attempt(&mut gate, &bad_key(), &who(0), now), Some(Change::Closed { .. })));
    gate
}

fn next_probe(gate: &Gate, now: Now) -> Duration {
    gate.closed().unwrap().1 - now.mono
}

#[test]
fn account_trouble_closes_at_once() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    let change = attempt(&mut gate, &bad_key(), &who(0), now);
    assert_eq!(change, Some(Change::Closed { cause: Cause::ApiKey, probe_in: seconds(30) }));
    assert_eq!(gate.admits(now), Admission::Probe(Some(now.mono + seconds(30))));
}

#[test]
fn an_outage_closes_with_the_third_different_envelope() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    for envelope in [0, 0, 0, 1, 0, 1] {
        assert_eq!(attempt(&mut gate, &timeout(), &of(envelope, 9), now), None);
    }
    let change = attempt(&mut gate, &server_error(), &of(2, 9), now);
    assert_eq!(change, Some(Change::Closed { cause: Cause::ServerError, probe_in: BASE }));
}

#[test]
fn one_destination_never_closes_a_shared_origin() {
    let now = start();
    for trouble in [timeout(), credential(), pause(Scope::Destination, Cause::EndpointBlocked, None)] {
        let mut gate = gate(PUSH, 8);
        for envelope in 0..20 {
            assert_eq!(attempt(&mut gate, &trouble, &of(envelope, envelope % 2), now), None);
        }
        let change = attempt(&mut gate, &trouble, &of(20, 2), now);
        assert!(matches!(change, Some(Change::Closed { .. })), "the third destination does: {trouble:?}");
    }
}

#[test]
fn a_success_between_ends_every_run() {
    let now = start();
    for trouble in [timeout(), credential(), refused("no")] {
        let mut gate = gate(if trouble == credential() { PUSH } else { EMAIL }, 8);
        for n in [0, 1] {
            attempt(&mut gate, &trouble, &who(n), now);
        }
        attempt(&mut gate, &accepted(), &who(9), now);
        for n in [2, 3] {
            assert!(!gate.is_refusal_run(&trouble, &who(n)));
            assert_eq!(attempt(&mut gate, &trouble, &who(n), now), None, "{trouble:?}");
        }
    }
}

#[test]
fn an_answer_of_any_kind_ends_an_outage_but_no_run_of_refused_credentials() {
    let now = start();
    let dead = Attempt::answered(Outcome::Bounced, Cause::SubscriptionGone, Detail::default());
    let mut outage = gate(PUSH, 8);
    let mut credentials = gate(PUSH, 8);
    for n in [0, 1] {
        attempt(&mut outage, &timeout(), &who(n), now);
        attempt(&mut credentials, &credential(), &who(n), now);
    }
    attempt(&mut outage, &dead, &who(9), now);
    attempt(&mut credentials, &dead, &who(9), now);
    assert_eq!(attempt(&mut outage, &timeout(), &who(2), now), None);
    assert!(attempt(&mut credentials, &credential(), &who(2), now).is_some());
}

#[test]
fn a_late_answer_neither_opens_nor_lengthens() {
    let now = start();
    for late in [accepted(), bad_key(), timeout(), pause(Scope::Provider, Cause::RateLimited, Some(LONGEST))]
    {
        let mut gate = gate(EMAIL, 8);
        let before = gate.begin(now);
        attempt(&mut gate, &bad_key(), &who(0), now);
        let probe = gate.closed();
        let later = now.after(seconds(20));
        assert_eq!(gate.end(before, &late, &who(1), moment(later)), None);
        assert_eq!(gate.closed(), probe, "{late:?}");
    }
}

#[test]
fn a_late_answer_counts_as_one_that_passed() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    let before = gate.begin(now);
    attempt(&mut gate, &bad_key(), &who(0), now);
    gate.end(before, &accepted(), &who(1), moment(now));
    assert_eq!((gate.passed(), gate.has_accepted()), (1, true));
}

#[test]
fn a_late_answer_frees_no_slot_of_a_probe() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    let (before, given_up) = (gate.begin(now), gate.begin(now));
    attempt(&mut gate, &bad_key(), &who(0), now);
    let probe = gate.begin(now.after(seconds(30)));
    gate.end(before, &timeout(), &who(1), moment(now));
    gate.abandon(given_up);
    assert_eq!(gate.admits(now), Admission::Probe(None));
    gate.abandon(probe);
    assert!(!gate.is_busy());
}

#[test]
fn only_one_probe_is_on_its_way() {
    let now = start().after(seconds(30));
    let mut gate = closed(EMAIL, now);
    let _probe = gate.begin(now);
    assert_eq!(gate.admits(now), Admission::Probe(None));
}

#[test]
fn a_probe_that_ends_without_an_answer_frees_its_slot() {
    let now = start();
    let unrendered = Attempt::unanswered(Outcome::Failed, Cause::RenderFailed, Detail::default());
    let panicked = Attempt::unanswered(Outcome::Unclear { after: None }, Cause::Panic, Detail::default());
    for end in [Some(unrendered), Some(panicked), None] {
        let mut gate = closed(EMAIL, now);
        let due = gate.admits(now);
        let ticket = gate.begin(now);
        match &end {
            Some(attempt) => assert_eq!(gate.end(ticket, attempt, &who(1), moment(now)), None),
            None => gate.abandon(ticket),
        }
        assert_eq!(gate.admits(now), due, "another may probe as if it had not been: {end:?}");
    }
}

#[test]
fn a_probe_with_an_answer_of_its_own_opens_the_gate() {
    let now = start();
    let later = now.after(seconds(30));
    for answer in [accepted(), refused("too large")] {
        let mut gate = closed(EMAIL, now);
        let change = attempt(&mut gate, &answer, &who(1), later);
        assert_eq!(change, Some(Change::Opened { closed_for: seconds(30) }));
        assert_eq!(gate.admits(later), Admission::Now);
    }
}

#[test]
fn closing_does_not_shorten_a_rate_limit() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    let running = gate.begin(now);
    attempt(&mut gate, &pause(Scope::Provider, Cause::RateLimited, Some(LONGEST)), &who(0), now);
    gate.end(running, &bad_key(), &who(1), moment(now));
    assert_eq!(next_probe(&gate, now), LONGEST);
}

#[test]
fn a_rate_limit_keeps_a_closed_gate_closed() {
    let now = start();
    let later = now.after(seconds(30));
    let mut gate = closed(EMAIL, now);
    let limited = pause(Scope::Provider, Cause::RateLimited, Some(LONGEST));
    assert_eq!(attempt(&mut gate, &limited, &who(1), later), None);
    assert_eq!(gate.closed(), Some((Cause::ApiKey, later.mono + LONGEST)));
}

#[test]
fn no_wait_that_was_asked_for_is_undercut_and_none_ends_for_all_at_once() {
    let now = start();
    for cause in [Cause::RateLimited, Cause::Account] {
        let until = |random| {
            let mut gate = gate(EMAIL, 8);
            let ticket = gate.begin(now);
            let attempt = pause(Scope::Provider, cause, Some(LONGEST));
            gate.end(ticket, &attempt, &who(0), Moment { now, random });
            gate.closed().map(|(_, at)| at).or(gate.held_until()).unwrap() - now.mono
        };
        assert_eq!((until(0.0), until(0.9)), (LONGEST, LONGEST + seconds(30)));
    }
}

#[test]
fn after_a_rate_limit_one_is_on_its_way_then_two() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    attempt(&mut gate, &pause(Scope::Provider, Cause::RateLimited, None), &who(0), now);
    let later = now.after(seconds(2));
    let first = gate.begin(later);
    assert_eq!(gate.admits(later), Admission::Full);
    gate.end(first, &accepted(), &who(0), moment(later));
    let _two = (gate.begin(later), gate.admits(later), gate.begin(later));
    assert_eq!(gate.admits(later), Admission::Full);
}

#[test]
fn the_third_different_mail_refused_in_the_same_words_is_the_senders_settings() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    for (n, words) in
        [(0, "reply_to (request 7f3a)"), (1, "reply_to (request 80c1)"), (0, "reply_to (request 9)")]
    {
        assert!(!gate.is_refusal_run(&refused(words), &who(n)));
        attempt(&mut gate, &refused(words), &who(n), now);
    }
    assert!(!gate.is_refusal_run(&refused("other words"), &who(2)));
    assert!(!gate.is_refusal_run(&accepted(), &who(2)));
    assert!(
        gate.is_refusal_run(&refused("reply_to (request a81)"), &who(2)),
        "the id of a request is no word"
    );
    let change = attempt(&mut gate, &refused("reply_to (request a81)"), &who(2), now);
    assert!(matches!(change, Some(Change::Closed { .. })));
}

#[test]
fn a_defect_of_ours_that_the_provider_refuses_in_every_mail_closes_the_gate() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    let defect =
        Attempt::answered(Outcome::Failed, Cause::OurDefect, Detail::fixed("invalid_idempotency_key"));
    for n in [0, 1] {
        attempt(&mut gate, &defect, &who(n), now);
    }
    assert!(gate.is_refusal_run(&defect, &who(2)));
    assert!(!gate.is_refusal_run(&refused("invalid_idempotency_key"), &who(2)), "of another cause");
}

#[test]
fn unknown_answers_for_three_different_suspects_are_the_providers_whatever_their_words() {
    let now = start();
    let unknown = |words| {
        Attempt::answered(Outcome::Retry { after: None }, Cause::UnexpectedAnswer, Detail::fixed(words))
    };
    for gating in [EMAIL, PUSH] {
        let mut gate = gate(gating, 8);
        for (n, words) in [(0, "one"), (1, "two"), (1, "three")] {
            assert!(!gate.is_refusal_run(&unknown(words), &who(n)));
            assert_eq!(attempt(&mut gate, &unknown(words), &who(n), now), None);
        }
        assert!(gate.is_refusal_run(&unknown("four"), &who(2)));
        attempt(&mut gate, &pause(Scope::Provider, Cause::SenderSettings, None), &who(2), now);
        assert!(
            gate.is_refusal_run(&unknown("five"), &who(0)),
            "a probe of one of the three does not open it"
        );
    }
    let mut gate = gate(PUSH, 8);
    for n in 0..10 {
        assert!(!gate.is_refusal_run(&unknown("x"), &of(n, 0)), "one endpoint closes no origin");
        assert_eq!(attempt(&mut gate, &unknown("x"), &of(n, 0), now), None);
    }
}

#[test]
fn after_a_run_of_refusals_the_next_one_alike_is_not_failed_either() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    for n in [0, 1] {
        attempt(&mut gate, &refused("reply_to"), &who(n), now);
    }
    attempt(&mut gate, &pause(Scope::Provider, Cause::SenderSettings, None), &who(2), now);
    assert!(gate.is_refusal_run(&refused("reply_to"), &who(2)), "the probe is the one that closed it");
    assert!(gate.is_refusal_run(&refused("reply_to"), &who(3)), "a late answer, or another probe");
}

#[test]
fn refused_messages_of_many_providers_are_each_ones_own_fault() {
    let now = start();
    let mut gate = gate(PUSH, 8);
    for n in 0..10 {
        assert!(!gate.is_refusal_run(&refused("no"), &who(n)));
        assert_eq!(attempt(&mut gate, &refused("no"), &who(n), now), None);
    }
}

#[test]
fn what_passed_is_what_got_a_final_answer() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    attempt(&mut gate, &refused("too large"), &who(0), now);
    attempt(&mut gate, &timeout(), &who(1), now);
    attempt(
        &mut gate,
        &Attempt::unanswered(Outcome::Failed, Cause::RenderFailed, Detail::default()),
        &who(2),
        now,
    );
    assert_eq!((gate.passed(), gate.has_accepted()), (1, false));
    attempt(&mut gate, &accepted(), &who(3), now);
    assert_eq!((gate.passed(), gate.has_accepted()), (2, true));
}
