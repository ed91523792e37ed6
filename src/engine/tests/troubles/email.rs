//! The mail provider's troubles: four workers, two requests a second until the provider tells its rate.

use std::time::Duration;

use super::super::outbox::mail;
use super::*;
use crate::channel::{Gating, Rate};
use crate::outcome::Cause;

/// Five hundred mails at two a second.
const DRAIN: u64 = 250;

fn setup() -> Setup {
    Setup::email_at(Gating::OneProvider(Rate::Follow { start: 2.try_into().unwrap() }), 4).slow_polls()
}

fn letter(n: usize) -> Draft {
    mail(format!("m{n}"))
}

/// Trouble that people must mend.
fn account(trouble: &'static str, cause: Cause) -> Row {
    Row {
        trouble,
        answer: after_latency(Answer::pause(cause)),
        one: (exactly(2), 9..=10),
        many: (exactly(2), 9..=10),
        delivered_in: (secs(751), secs(751 + DRAIN)),
        because: "one closes it before the rate admits a second; probes 30 s later, then 60, 120, 240, 480, \
                  then every 600 s: at 30, 90, 210, 450, 930, 1530, 2130, 2730 and 3330 s, with all jitter at \
                  37, 112, 262, 562, 1162, 1912, 2662 and 3412 s",
    }
}

#[tokio::test(start_paused = true)]
async fn what_people_must_mend_is_asked_about_ten_times_an_hour() {
    let rows = vec![
        account("a bad key", Cause::ApiKey),
        account("an unverified domain", Cause::Account),
        account("a reply_to that is refused", Cause::SenderSettings),
        account("a wrong URL that redirects or answers 404", Cause::WrongUrl),
    ];
    play(rows, setup, letter).await;
}

fn quota(trouble: &'static str, cause: Cause) -> Row {
    Row {
        trouble,
        answer: after_latency(Answer::pause(cause)),
        one: (exactly(1), exactly(1)),
        many: (exactly(1), exactly(1)),
        delivered_in: (secs(901), secs(901 + DRAIN)),
        because: "one closes it; the first probe is 60 to 75 minutes later",
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_asked_about_once_an_hour() {
    let rows = vec![
        quota("the daily quota at six in the morning", Cause::QuotaDaily),
        quota("the monthly quota", Cause::QuotaMonthly),
    ];
    play(rows, setup, letter).await;
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_for_and_never_undercut() {
    let limited = |wait| after_latency(Answer::slow_down(wait));
    let rows = vec![
        Row {
            trouble: "429 without Retry-After",
            answer: limited(secs(1)),
            one: (23..=28, 1334..=1637),
            many: (42..=50, 2483..=3000),
            delivered_in: (secs(3), secs(3 + DRAIN)),
            because: "the answer takes 0.2 s and the gate then waits 1 to 1.25 s: one every 1.2 to 1.45 s; one \
                      mail alone waits 2 to 2.5 s itself: one every 2.2 to 2.7 s",
        },
        Row {
            trouble: "429 with Retry-After: 120",
            answer: limited(secs(120)),
            one: (exactly(1), 24..=30),
            many: (exactly(1), 24..=30),
            delivered_in: (secs(151), secs(151 + DRAIN)),
            because: "the gate waits 120 to 150 s after each: one every 120.2 to 150.2 s",
        },
        Row {
            trouble: "429 with Retry-After: 999999",
            answer: limited(hours(1)),
            one: (exactly(1), exactly(1)),
            many: (exactly(1), exactly(1)),
            delivered_in: (secs(31), secs(31 + DRAIN)),
            because: "it is capped at an hour, and the gate is spread by no more than 30 s",
        },
    ];
    play(rows, setup, letter).await;
}

/// An outage that shows within a moment.
fn outage(trouble: &'static str, answer: Answer) -> Row {
    Row {
        trouble,
        answer,
        one: (exactly(4), 8..=9),
        many: (exactly(6), 10..=11),
        delivered_in: (secs(1126), secs(1126 + DRAIN)),
        because: "three close it, at 0, 0.5 and 1 s; probes wait 2, 8, 32, 128, 512, then 900 s: at 3, 11, 44, \
                  172, 684, 1584, 2484 and 3385 s, with all jitter at 4, 14, 54, 214, 855, 1980 and 3105 s; one \
                  mail alone waits the same from its first failure at once",
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_asked_about_eleven_times_an_hour() {
    let unanswered = |answer: Answer| answer.after(Duration::from_millis(10));
    let rows = vec![
        outage("503 without Retry-After", after_latency(Answer::unavailable())),
        outage("refused connections", unanswered(Answer::connection_refused())),
        outage("a name that does not resolve", unanswered(Answer::unresolved())),
        Row {
            trouble: "503 with Retry-After: 300",
            one: (exactly(1), 7..=8),
            many: (exactly(3), 9..=10),
            because: "no wait is below 300 s, to which five hundred add up to 30 s and one adds up to 75 s: \
                      probes at 301, 601, 902, 1202, 1714, 2614 and 3514 s, with all jitter at 331, 661, 992, \
                      1322, 1962 and 3087 s; one at 0, 300, 600, 901, 1201, 1713, 2613 and 3513 s, with all \
                      jitter at 0, 375, 750, 1126, 1501, 2141 and 3266 s",
            ..outage("", after_latency(Answer::unavailable_for(secs(300))))
        },
        Row {
            trouble: "timeouts of 15 s on all workers",
            one: (exactly(3), 8..=9),
            many: (exactly(8), 13..=14),
            delivered_in: (secs(1141), secs(1141 + DRAIN)),
            because: "four are on their way when the first fails; two more begin before the third has failed, \
                      at 16 s; probes begin 2, 8, 32, 128, 512, then 900 s after the end of the last: at 18, 41, \
                      88, 231, 758, 1673, 2588 and 3503 s, with all jitter at 18, 43, 98, 273, 928, 2068 and \
                      3208 s; one at 0, 17, 40, 87, 230, 757, 1672, 2587 and 3502 s, with all jitter eight",
            ..outage("", Answer::timeout().after(secs(15)))
        },
    ];
    play(rows, setup, letter).await;
}

/// 500 costs an attempt each time, so one mail alone does not outlive it: the one exception.
#[tokio::test(start_paused = true)]
async fn five_hundred_outlive_an_hour_of_500_and_one_alone_has_eight_attempts() {
    let answer = after_latency(Answer::server_error());
    for count in [1, 500] {
        let trouble = answer.clone();
        let world = setup().start(|w| {
            w.carrier().rule(move |call| match call.at < hours(1) {
                true => trouble.clone(),
                false => after_latency(Answer::accepted()),
            });
            w.outbox.add_all((0..count).map(letter));
        });
        world.pass(hours(1)).await;
        let (minute, hour) = (
            world.carrier().tries_within(secs(0), secs(60)),
            world.carrier().tries_within(secs(0), hours(1)),
        );
        if count == 1 {
            assert_eq!((minute, hour), (4, 8));
            assert_eq!(world.outbox.status("m0"), Some(AckStatus::Failed));
        } else {
            assert!(minute == 6 && (10..=11).contains(&hour), "{minute} {hour}");
            all_delivered(&world, count, hours(1) + secs(1126 + DRAIN), "500").await;
        }
    }
}
