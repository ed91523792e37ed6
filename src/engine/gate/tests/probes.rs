//! When a closed gate is probed next.

use super::*;

#[test]
fn account_probes_come_after_30_seconds_doubling_to_10_minutes() {
    let mut now = start();
    let mut gate = closed(EMAIL, now);
    let mut waits = Vec::new();
    for _ in 0..7 {
        waits.push(next_probe(&gate, now).as_secs());
        now = now.after(next_probe(&gate, now));
        attempt(&mut gate, &bad_key(), &who(1), now);
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
}

#[test]
fn outage_probes_follow_the_retry_schedule() {
    let mut now = start();
    let mut gate = gate(EMAIL, 8);
    for n in 0..3 {
        attempt(&mut gate, &timeout(), &who(n), now);
    }
    let mut waits = Vec::new();
    for _ in 0..7 {
        waits.push(next_probe(&gate, now).as_secs());
        now = now.after(next_probe(&gate, now));
        attempt(&mut gate, &timeout(), &who(0), now);
    }
    assert_eq!(waits, [2, 8, 32, 128, 512, 900, 900]);
}

#[test]
fn a_daily_quota_is_probed_hourly_and_just_after_midnight_utc() {
    let quota = pause(Scope::Provider, Cause::QuotaDaily, None);
    let mut gate = gate(EMAIL, 8);
    let evening = Now { wall: "2026-08-03T22:30:00Z".parse().unwrap(), ..start() };
    attempt(&mut gate, &quota, &who(0), evening);
    assert_eq!(next_probe(&gate, evening), seconds(3600));
    let late = evening.after(seconds(3600));
    let at = Moment { now: late, random: 0.5 };
    let ticket = gate.begin(late);
    gate.end(ticket, &quota, &who(1), at);
    assert_eq!(next_probe(&gate, late), seconds(30 * 60 + 15), "15 s after midnight");
    let day = late.after(next_probe(&gate, late));
    attempt(&mut gate, &quota, &who(1), day);
    assert_eq!(next_probe(&gate, day), seconds(60), "the provider's midnight may be a little later");
    let day = day.after(seconds(60));
    attempt(&mut gate, &quota, &who(1), day);
    assert_eq!(next_probe(&gate, day), seconds(3600), "not back to doubling");
}

#[test]
fn a_monthly_quota_is_probed_hourly() {
    let mut now = start();
    let mut gate = gate(EMAIL, 8);
    for _ in 0..3 {
        attempt(&mut gate, &pause(Scope::Provider, Cause::QuotaMonthly, None), &who(0), now);
        assert_eq!(next_probe(&gate, now), seconds(3600));
        now = now.after(seconds(3600));
    }
}

#[test]
fn a_probe_waits_as_long_as_the_provider_asks() {
    let now = start();
    let mut gate = gate(EMAIL, 8);
    attempt(&mut gate, &pause(Scope::Provider, Cause::Account, Some(LONGEST)), &who(0), now);
    assert_eq!(next_probe(&gate, now), LONGEST);
    let unavailable = Outcome::Retry { after: Some(seconds(1800)) };
    attempt(
        &mut gate,
        &Attempt::answered(unavailable, Cause::Unavailable, Detail::default()),
        &who(0),
        now.after(LONGEST),
    );
    assert_eq!(next_probe(&gate, now.after(LONGEST)), seconds(1800));
}

#[test]
fn each_kind_of_trouble_that_probes_meet_has_a_doubling_of_its_own() {
    let mut now = start();
    let mut gate = closed(EMAIL, now);
    let limited = pause(Scope::Provider, Cause::RateLimited, Some(seconds(1)));
    let mut waits = Vec::new();
    for met in [bad_key(), bad_key(), timeout(), limited.clone(), bad_key(), timeout(), limited, timeout()] {
        now = now.after(next_probe(&gate, now));
        attempt(&mut gate, &met, &who(1), now);
        waits.push(next_probe(&gate, now).as_secs());
    }
    assert_eq!(waits, [60, 120, 2, 2, 240, 8, 8, 32]);
}

#[test]
fn a_rate_limit_just_after_midnight_does_not_put_a_quotas_probe_off_for_an_hour() {
    let before = Now { wall: "2026-08-03T23:59:59.900Z".parse().unwrap(), ..start() };
    let mut gate = gate(EMAIL, 8);
    attempt(&mut gate, &pause(Scope::Provider, Cause::QuotaDaily, None), &who(0), before);
    assert_eq!(next_probe(&gate, before), Duration::from_millis(100));
    let after = before.after(next_probe(&gate, before));
    attempt(&mut gate, &pause(Scope::Provider, Cause::RateLimited, Some(seconds(3))), &who(0), after);
    assert_eq!(gate.closed(), Some((Cause::QuotaDaily, after.mono + seconds(3))));
}

#[test]
fn what_one_destination_asks_for_keeps_no_origin_closed() {
    let now = start();
    let mut gate = gate(PUSH, 8);
    for n in 0..3 {
        attempt(&mut gate, &timeout(), &who(n), now);
    }
    let limited = pause(Scope::Destination, Cause::RateLimited, Some(LONGEST));
    for (n, wait) in [(3, BASE), (3, BASE * 4), (4, BASE * 16)] {
        attempt(&mut gate, &limited, &who(n), now);
        assert_eq!(next_probe(&gate, now), wait);
    }
    attempt(&mut gate, &limited, &who(5), now);
    assert_eq!(next_probe(&gate, now), LONGEST, "three different ones are the origin's");
}

#[test]
fn an_operators_signal_makes_the_probe_due_and_begins_the_doubling_anew() {
    let now = start();
    let mut gate = closed(EMAIL, now);
    for n in 0..5 {
        attempt(&mut gate, &bad_key(), &who(n), now);
    }
    gate.probe_now(now);
    assert_eq!(gate.admits(now), Admission::Probe(Some(now.mono)));
    attempt(&mut gate, &bad_key(), &who(0), now);
    assert_eq!(next_probe(&gate, now), seconds(30));
}
