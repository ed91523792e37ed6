//! What each kind of trouble costs and when trying ends, as tables; then what holds for any of them.

use std::time::Instant;

use proptest::prelude::*;

use super::*;

const BASE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(900);
const WINDOW: Duration = Duration::from_secs(23 * 3600);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn start() -> Now {
    Now { mono: Instant::now(), wall: "2026-08-03T06:00:00Z".parse().unwrap() }
}

fn policy() -> Policy {
    Policy { schedule: Schedule::new(BASE, LONGEST), max_attempts: 8, redelivery_window: Some(WINDOW) }
}

fn facts(now: Now) -> Circumstances {
    Circumstances {
        at: Moment { now, random: 0.0 },
        passed: 0,
        accepted: false,
        probed: None,
        expires_at: None,
    }
}

fn lives(now: Now, life: Duration) -> Circumstances {
    Circumstances { expires_at: Some(now.after(life).wall), ..facts(now) }
}

fn failing(outcome: Outcome, cause: Cause) -> Attempt {
    Attempt::answered(outcome, cause, Detail::fixed("what it said"))
}

fn retry(cause: Cause) -> Attempt {
    failing(Outcome::Retry { after: None }, cause)
}

fn asking(after: Duration) -> Attempt {
    failing(Outcome::Retry { after: Some(after) }, Cause::ServerError)
}

fn pause(scope: Scope, cause: Cause, after: Option<Duration>) -> Attempt {
    failing(Outcome::Pause { scope, after }, cause)
}

/// Judges one more attempt, counted as the desk counts it.
fn judge(history: &mut History, attempt: &Attempt, facts: Circumstances) -> Verdict {
    history.tries += 1;
    policy().judge(history, attempt, facts)
}

fn first(attempt: &Attempt, facts: Circumstances) -> Verdict {
    judge(&mut History::default(), attempt, facts)
}

fn is_again(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Again(_))
}

/// The cause of a verdict of `failed`.
fn failed(verdict: &Verdict) -> Option<Cause> {
    match verdict {
        Verdict::Settle(AckStatus::Failed, reason) => Some(reason.cause),
        Verdict::Settle(..) | Verdict::Await(_) | Verdict::Again(_) => None,
    }
}

#[test]
fn waits_grow_by_four_up_to_a_quarter_of_an_hour() {
    let schedule = Schedule::new(BASE, LONGEST);
    let waits: Vec<u64> = (1..=7).map(|n| schedule.after(n).as_secs()).collect();
    assert_eq!(waits, [2, 8, 32, 128, 512, 900, 900]);
    assert_eq!(schedule.after(0), BASE);
    assert_eq!(schedule.after(u32::MAX), LONGEST);
}

#[test]
fn a_final_outcome_is_its_status_whatever_came_before() {
    let mut worn = History { tries: 40, spent: 7, ..History::default() };
    for (outcome, status) in [
        (Outcome::Delivered { provider_id: None }, AckStatus::Delivered),
        (Outcome::Bounced, AckStatus::Bounced),
        (Outcome::Complained, AckStatus::Complaint),
        (Outcome::Suppressed, AckStatus::Suppressed),
        (Outcome::Failed, AckStatus::Failed),
    ] {
        let attempt = failing(outcome, Cause::Refused);
        let reason = Refusal::new(Cause::Refused, Detail::fixed("what it said"));
        assert_eq!(judge(&mut worn, &attempt, facts(start())), Verdict::Settle(status, reason));
    }
}

#[test]
fn a_cause_that_always_costs_ends_with_the_last_attempt_and_says_why() {
    let mut history = History::default();
    for _ in 1..8 {
        assert!(is_again(&judge(&mut history, &retry(Cause::ServerError), facts(start()))));
    }
    let Verdict::Settle(AckStatus::Failed, reason) =
        judge(&mut history, &retry(Cause::Reset), facts(start()))
    else {
        panic!("eight attempts are enough")
    };
    assert_eq!(reason.cause, Cause::Reset);
    assert_eq!(reason.detail.as_str(), "given up after 8 attempts: what it said");
}

#[test]
fn an_outage_costs_nothing_until_something_else_passes() {
    let mut history = History::default();
    let outage = retry(Cause::Unavailable);
    for _ in 0..100 {
        assert!(is_again(&judge(&mut history, &outage, Circumstances { passed: 5, ..facts(start()) })));
    }
    assert_eq!(history.spent, 0);
    let passed = |n: u64| Circumstances { passed: 5 + n, ..facts(start()) };
    for n in 1..8 {
        assert!(is_again(&judge(&mut history, &outage, passed(n))));
    }
    assert_eq!(failed(&judge(&mut history, &outage, passed(8))), Some(Cause::Unavailable));
}

#[test]
fn what_passed_before_the_last_failure_does_not_count() {
    let mut history = History::default();
    let passing = |passed| Circumstances { passed, ..facts(start()) };
    for passed in [1_000, 1_000, 1_001, 1_001, 1_001, 1_001] {
        judge(&mut history, &retry(Cause::Timeout), passing(passed));
    }
    assert_eq!(history.spent, 1, "an outage that began just after something passed is one all the same");
}

#[test]
fn a_probe_that_meets_the_outage_again_costs_nothing() {
    let mut history = History::default();
    let probe = Circumstances { probed: Some(Streak::Outage), passed: 3, ..facts(start()) };
    for _ in 0..100 {
        assert!(is_again(&judge(&mut history, &retry(Cause::ServerError), probe)));
    }
    assert_eq!(history.spent, 0);
    judge(&mut history, &retry(Cause::ResourceLocked), probe);
    assert_eq!(history.spent, 1, "what is no outage costs a probe what it costs everybody");
}

#[test]
fn a_pause_that_says_nothing_of_the_envelope_never_costs() {
    for cause in Cause::ALL.into_iter().filter(|cause| cause.cost() == Cost::Never) {
        for scope in [Scope::Provider, Scope::Destination] {
            let mut history = History::default();
            for _ in 0..50 {
                let facts = Circumstances { passed: 9, accepted: true, ..facts(start()) };
                assert!(is_again(&judge(&mut history, &pause(scope, cause, None), facts)), "{cause}");
            }
            assert_eq!(history.spent, 0, "{cause}");
        }
    }
}

#[test]
fn a_refused_credential_costs_only_once_the_origin_has_accepted_something() {
    let attempt = pause(Scope::Destination, Cause::PushCredential, None);
    let mut history = History::default();
    for _ in 0..50 {
        assert!(is_again(&judge(&mut history, &attempt, facts(start()))));
        assert!(history.paused);
    }
    let accepted = Circumstances { accepted: true, ..facts(start()) };
    for _ in 1..8 {
        assert!(is_again(&judge(&mut history, &attempt, accepted)));
        assert!(!history.paused, "its attempts will end it");
    }
    assert_eq!(failed(&judge(&mut history, &attempt, accepted)), Some(Cause::PushCredential));
}

#[test]
fn a_probe_that_meets_the_refused_credential_again_costs_nothing() {
    let mut history = History::default();
    let refused = pause(Scope::Destination, Cause::PushCredential, None);
    let probe = Circumstances { probed: Some(Streak::Credential), accepted: true, ..facts(start()) };
    for _ in 0..100 {
        assert!(is_again(&judge(&mut history, &refused, probe)));
    }
    assert_eq!(history.spent, 0);
    let of_an_outage = Circumstances { probed: Some(Streak::Outage), ..probe };
    judge(&mut history, &refused, of_an_outage);
    assert_eq!(history.spent, 1, "its gate is closed for something else");
}

#[test]
fn an_answer_that_nobody_documents_is_asked_for_three_times() {
    let mut history = History::default();
    let unexpected = retry(Cause::UnexpectedAnswer);
    assert!(is_again(&judge(&mut history, &unexpected, facts(start()))));
    assert!(is_again(&judge(&mut history, &retry(Cause::RateLimited), facts(start()))));
    assert!(is_again(&judge(&mut history, &unexpected, facts(start()))));
    assert_eq!(failed(&judge(&mut history, &unexpected, facts(start()))), Some(Cause::UnexpectedAnswer));
}

#[test]
fn a_pause_of_the_provider_comes_back_soon_for_its_gate_to_decide() {
    let mut history = History { tries: 6, ..History::default() };
    let attempt = pause(Scope::Provider, Cause::ApiKey, Some(LONGEST));
    assert_eq!(judge(&mut history, &attempt, facts(start())), Verdict::Again(BASE));
}

#[test]
fn a_pause_of_a_destination_waits_as_long_as_it_is_asked_and_longer_each_time() {
    let mut history = History::default();
    let paused = |after| pause(Scope::Destination, Cause::RateLimited, after);
    assert_eq!(
        judge(&mut history, &paused(Some(seconds(120))), facts(start())),
        Verdict::Again(seconds(120))
    );
    assert_eq!(judge(&mut history, &paused(None), facts(start())), Verdict::Again(seconds(8)));
    assert_eq!(judge(&mut history, &paused(Some(seconds(1))), facts(start())), Verdict::Again(seconds(32)));
    assert!(!history.paused, "time ends a rate limit");
}

#[test]
fn a_wait_is_never_asked_for_beyond_an_hour() {
    let day = asking(seconds(86_400));
    assert_eq!(first(&day, facts(start())), Verdict::Again(RETRY_AFTER_CAP));
}

#[test]
fn a_wait_past_the_end_becomes_one_last_try_before_it() {
    let mut history = History { tries: 4, ..History::default() };
    let now = start();
    let attempt = retry(Cause::ServerError);
    let wait = seconds(298);
    assert_eq!(judge(&mut history, &attempt, lives(now, seconds(300))), Verdict::Again(wait));
    let later = now.after(wait);
    let end = Circumstances { at: Moment { now: later, random: 0.0 }, ..lives(now, seconds(300)) };
    assert_eq!(failed(&judge(&mut history, &attempt, end)), Some(Cause::ServerError));
}

#[test]
fn a_probe_that_comes_in_before_the_last_try_does_not_take_its_place() {
    let (mut history, now) = (History { tries: 6, ..History::default() }, start());
    let outage = retry(Cause::Unavailable);
    assert_eq!(judge(&mut history, &outage, lives(now, seconds(300))), Verdict::Again(seconds(298)));
    let probed =
        Circumstances { at: Moment { now: now.after(seconds(30)), random: 0.0 }, ..lives(now, seconds(300)) };
    assert_eq!(judge(&mut history, &outage, probed), Verdict::Again(seconds(268)));
    let last = Circumstances {
        at: Moment { now: now.after(seconds(298)), random: 0.0 },
        ..lives(now, seconds(300))
    };
    assert_eq!(failed(&judge(&mut history, &outage, last)), Some(Cause::Unavailable));
}

#[test]
fn only_a_retry_after_past_the_end_fails_now() {
    let now = start();
    assert_eq!(first(&asking(seconds(297)), lives(now, seconds(300))), Verdict::Again(seconds(297)));
    assert_eq!(failed(&first(&asking(seconds(301)), lives(now, seconds(300)))), Some(Cause::ServerError));
}

#[test]
fn a_wait_within_life_is_left_as_it_is() {
    assert_eq!(first(&retry(Cause::ServerError), lives(start(), seconds(60))), Verdict::Again(BASE));
}

#[test]
fn no_try_is_left_for_an_envelope_at_its_end() {
    for life in [0, 1] {
        let verdict = first(&retry(Cause::Unavailable), lives(start(), seconds(life)));
        assert_eq!(failed(&verdict), Some(Cause::Unavailable));
    }
}

#[test]
fn after_23_hours_an_unclear_attempt_is_not_repeated() {
    let now = start();
    let mut history = History::default();
    let unclear = failing(Outcome::Unclear { after: None }, Cause::Timeout);
    assert!(is_again(&judge(&mut history, &unclear, facts(now))));
    let almost = now.after(WINDOW - seconds(1));
    assert!(is_again(&judge(&mut history, &unclear, facts(almost))));
    assert!(!policy().is_unprotected(&history, almost));
    let over = now.after(WINDOW);
    assert!(policy().is_unprotected(&history, over), "counted from the first unclear attempt");
    for attempt in [unclear, retry(Cause::Unavailable), pause(Scope::Provider, Cause::ApiKey, None)] {
        assert_eq!(failed(&judge(&mut history, &attempt, facts(over))), Some(Cause::OutcomeUnknown));
    }
    let known = failing(Outcome::Delivered { provider_id: None }, Cause::Accepted);
    assert!(matches!(judge(&mut history, &known, facts(over)), Verdict::Settle(AckStatus::Delivered, _)));
}

#[test]
fn what_is_plainly_refused_may_be_repeated_for_ever() {
    let now = start();
    let mut history = History::default();
    judge(&mut history, &retry(Cause::Unavailable), facts(now));
    assert!(!policy().is_unprotected(&history, now.after(WINDOW * 10)));
    let forever = Policy { redelivery_window: None, ..policy() };
    history.unclear_since = Some(now.mono);
    assert!(!forever.is_unprotected(&history, now.after(WINDOW * 10)));
}

#[test]
fn only_a_no_to_the_message_itself_refuses_plainly() {
    let refused = |attempt: &Attempt| {
        let mut history = History::default();
        judge(&mut history, attempt, facts(start()));
        history.refused
    };
    assert!(refused(&retry(Cause::UnexpectedAnswer)));
    for says_nothing in [Cause::RateLimited, Cause::Unavailable, Cause::ResourceLocked] {
        assert!(!refused(&retry(says_nothing)), "{says_nothing}: an earlier process may have sent it");
    }
    assert!(refused(&pause(Scope::Provider, Cause::SenderSettings, None)));
    assert!(!refused(&failing(Outcome::Unclear { after: None }, Cause::ServerError)));
    let unsent = Attempt::unanswered(Outcome::Retry { after: None }, Cause::Connect, Detail::default());
    assert!(!refused(&unsent));
}

fn trouble() -> impl Strategy<Value = Attempt> {
    let after = proptest::option::of((0_u64..10_000).prop_map(seconds));
    let cause = proptest::sample::select(&Cause::ALL[..]);
    (0_usize..4, cause, after, any::<bool>()).prop_map(|(outcome, cause, after, answered)| {
        let outcome = match outcome {
            0 => Outcome::Retry { after },
            1 => Outcome::Unclear { after },
            2 => Outcome::Pause { scope: Scope::Destination, after },
            _ => Outcome::Pause { scope: Scope::Provider, after },
        };
        Attempt { answered, ..failing(outcome, cause) }
    })
}

fn asked(attempt: &Attempt) -> Option<Duration> {
    match attempt.outcome {
        Outcome::Retry { after } | Outcome::Unclear { after } => after,
        Outcome::Pause { scope: Scope::Destination, after } => after,
        _ => None,
    }
}

fn is_pause(attempt: &Attempt) -> bool {
    matches!(attempt.outcome, Outcome::Pause { .. })
}

proptest! {
    #[test]
    fn honouring_retry_after_only_ever_delays(
        tries in 0_u32..12, after in 0_u64..10_000, random in 0.0_f64..1.0, life in proptest::option::of(0_u64..10_000)
    ) {
        let now = start();
        let history = || History { tries, ..History::default() };
        let facts = Circumstances { at: Moment { now, random }, ..facts(now) };
        let mortal = Circumstances { expires_at: life.map(|life| now.after(seconds(life)).wall), ..facts };
        let plain = judge(&mut history(), &retry(Cause::ServerError), facts);
        let honoured = judge(&mut history(), &asking(seconds(after)), facts);
        let (Verdict::Again(plain), Verdict::Again(honoured)) = (plain, honoured) else {
            return Err(TestCaseError::fail("nothing ends it"));
        };
        prop_assert!(honoured >= plain);
        if let Verdict::Again(wait) = judge(&mut history(), &asking(seconds(after)), mortal) {
            prop_assert!(wait >= seconds(after).min(RETRY_AFTER_CAP), "{wait:?}");
        }
    }

    #[test]
    fn whatever_happens_no_wait_is_shorter_than_asked_nor_ends_after_the_envelope(
        attempts in proptest::collection::vec((trouble(), 0_u64..3), 1..30), life in 0_u64..5_000, random in 0.0_f64..1.0
    ) {
        let mut now = start();
        let expires_at = Some(now.after(seconds(life)).wall);
        let mut history = History::default();
        let mut passed = 0;
        for (attempt, others) in attempts {
            passed += others;
            let facts = Circumstances { at: Moment { now, random }, passed, accepted: passed > 3, probed: None, expires_at };
            let Verdict::Again(wait) = judge(&mut history, &attempt, facts) else { return Ok(()) };
            prop_assert!(wait >= asked(&attempt).unwrap_or_default().min(RETRY_AFTER_CAP));
            prop_assert!(is_pause(&attempt) || Some(now.after(wait).wall) < expires_at);
            now = now.after(wait);
        }
    }

    #[test]
    fn there_is_at_most_one_last_try(
        causes in proptest::collection::vec(trouble(), 1..40), life in 2_u64..5_000, random in 0.0_f64..1.0
    ) {
        let mut now = start();
        let expires_at = Some(now.after(seconds(life)).wall);
        let mut history = History::default();
        let mut last_tries = 0;
        for attempt in causes.into_iter().filter(|attempt| !is_pause(attempt)) {
            let facts = Circumstances { at: Moment { now, random }, expires_at, ..facts(now) };
            let had = history.last_try.is_some();
            let Verdict::Again(wait) = judge(&mut history, &attempt, facts) else { return Ok(()) };
            last_tries += u32::from(history.last_try.is_some() && !had);
            let unbounded = spread(policy().schedule.after(history.tries), random);
            prop_assert!(wait >= unbounded || (history.last_try.is_some() && !had), "only the last try comes early");
            now = now.after(wait);
        }
        prop_assert!(last_tries <= 1);
    }

    #[test]
    fn attempts_that_cost_are_bounded(attempts in proptest::collection::vec(trouble(), 8)) {
        let mut history = History::default();
        for (index, attempt) in attempts.into_iter().enumerate() {
            let costly = Attempt { cause: Cause::ServerError, ..attempt };
            let verdict = judge(&mut history, &costly, facts(start()));
            prop_assert_eq!(is_again(&verdict), index < 7, "attempt {}", index + 1);
        }
    }

    #[test]
    fn jitter_adds_up_to_a_quarter_and_takes_nothing(millis in 0_u64..4_000_000, random in 0.0_f64..1.0) {
        let wait = Duration::from_millis(millis);
        let jittered = spread(wait, random);
        prop_assert!(wait <= jittered && jittered <= wait + wait / 4 + Duration::from_nanos(1));
    }

    #[test]
    fn any_schedule_grows_by_four_and_is_capped(first in 1_u64..100_000, longest in 1_u64..10_000_000) {
        let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
        let schedule = Schedule::new(first, longest);
        let longest = longest.max(first);
        let mut expected = first;
        for failures in 1..20 {
            let wait = schedule.after(failures);
            prop_assert!(wait.abs_diff(expected) <= Duration::from_micros(1), "{wait:?} for {expected:?}");
            prop_assert!(wait <= longest);
            expected = (expected * 4).min(longest);
        }
        prop_assert_eq!(schedule.after(20), longest);
    }
}
