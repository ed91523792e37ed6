//! What the preflight asks of the seam: one page of each channel, as large as the worker would ask for.
//!
//! Owns the reading of the answer. A page changes nothing at the app, and nothing is acked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chrono::Utc;

use super::clock;
use super::report::Line;
use crate::envelope::{ChannelName, Reading};
use crate::outbox::{HttpSeam, Page, Seam, SeamError};

const TOPIC: &str = "seam";
/// An app that writes everything wrong need not be told so five hundred times.
const PROBLEMS: usize = 5;

/// Asks for a page of each of `channels`.
pub(super) async fn check(seam: &HttpSeam, channels: &[ChannelName], limit: u16) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut clock = None;
    for channel in channels {
        let began = Instant::now();
        let answer = seam.pending(channel, limit).await;
        match &answer {
            Ok(page) => {
                lines.extend(page_lines(channel, page, limit, began.elapsed()));
                clock = page.date.map(|date| clock::compare("the seam's", date, Utc::now())).or(clock);
            }
            Err(error) => {
                lines.push(Line::fail(TOPIC, format!("{channel}: {error}"), mend(error)));
                // Another channel's page would fail alike.
                break;
            }
        }
    }
    lines.extend(clock);
    lines
}

fn page_lines(channel: &ChannelName, page: &Page, limit: u16, took: Duration) -> Vec<Line> {
    let count = page.elements.len();
    let more = if count >= usize::from(limit) { " or more" } else { "" };
    let mut lines = vec![Line::ok(
        TOPIC,
        format!("{channel}: {count}{more} pending, answered in {} ms", took.as_millis()),
    )];
    let readings: Vec<Reading> = page.elements.iter().map(|element| element.read()).collect();
    let versions = readings.iter().filter(|r| matches!(r, Reading::Unreadable { .. })).count();
    if versions > 0 {
        let what = format!("{channel}: {versions} of a schema version that this build does not read");
        lines.push(Line::warn(TOPIC, what, "upgrade the worker: they wait until then"));
    }
    for (problem, count) in malformed(&readings) {
        let what = format!("{channel}: {count} malformed: {problem}");
        lines.push(Line::warn(
            TOPIC,
            what,
            "mend what the app writes: the worker fails them, or passes them over",
        ));
    }
    lines
}

/// How many have which problem, the most frequent first.
fn malformed(readings: &[Reading]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for reading in readings {
        let problem = match reading {
            Reading::Malformed { error, .. } => error.to_string(),
            Reading::Unnamed { problem } => (*problem).to_owned(),
            Reading::Envelope(_) | Reading::Unreadable { .. } => continue,
        };
        *counts.entry(problem).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(PROBLEMS);
    counts
}

fn mend(error: &SeamError) -> &'static str {
    match error {
        SeamError::Unreachable(_) => "see that the app runs, and that OUTBOX_BASE_URL leads to it from here",
        SeamError::TokenRefused => "give INTERNAL_OUTBOX_TOKEN the app's own value",
        SeamError::Forbidden => "let this machine through whatever stands before the app",
        SeamError::NotReady => "configure the token at the app",
        SeamError::Redirected { .. } => "set OUTBOX_BASE_URL to where the redirect leads, if that is the app",
        SeamError::Status(422) => "lower OUTBOX_PAGE_LIMIT: the app takes no page as large",
        SeamError::Status(_) | SeamError::Refused(_) => "look at the app's log",
        SeamError::Unreadable => "see that OUTBOX_BASE_URL is the app's, with its path prefix",
        SeamError::TooLarge(_) => "lower OUTBOX_PAGE_LIMIT",
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::super::report::Level;
    use super::*;
    use crate::outbox::Settings;
    use crate::sandbox::{Fault, Options, Sandbox, examples};

    async fn lines(sandbox: &Sandbox, token: &str, limit: u16) -> Vec<Line> {
        let settings = Settings {
            base_url: sandbox.seam.server().url().parse().unwrap(),
            token: SecretString::from(token.to_owned()),
            token_header: "x-internal-token".parse().unwrap(),
        };
        check(
            &HttpSeam::new(settings).unwrap(),
            &[ChannelName::new("email"), ChannelName::new("push")],
            limit,
        )
        .await
    }

    fn levels(lines: &[Line]) -> Vec<Level> {
        lines.iter().map(|line| line.level).collect()
    }

    #[tokio::test]
    async fn what_is_pending_is_counted_by_channel_and_nothing_is_acked() {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        sandbox.seam.enqueue(examples::digest("a", "a@example.com"));
        let lines = lines(&sandbox, "sandbox-token", 1).await;
        assert_eq!(levels(&lines), [Level::Ok, Level::Ok, Level::Ok], "{lines:#?}");
        assert!(lines[0].what.starts_with("email: 1 or more pending"), "{lines:#?}");
        assert!(lines[1].what.starts_with("push: 0 pending"), "{lines:#?}");
        assert_eq!(lines[2].topic, "clock");
        assert_eq!(sandbox.journal.log().acks().count(), 0);
    }

    #[tokio::test]
    async fn what_the_worker_could_not_read_is_a_warning() {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        sandbox.seam.enqueue(examples::digest("a", "a@example.com").set("/schema_version", "2"));
        sandbox.seam.enqueue(json!({"id": "x", "channel": "email", "kind": 42}));
        let lines = lines(&sandbox, "sandbox-token", 500).await;
        assert_eq!(levels(&lines)[..3], [Level::Ok, Level::Warn, Level::Warn], "{lines:#?}");
    }

    #[tokio::test]
    async fn each_trouble_is_one_line_with_its_mend() {
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let refused = lines(&sandbox, "another", 500).await;
        assert_eq!(levels(&refused), [Level::Fail]);
        assert!(refused[0].mend.as_deref().unwrap().contains("INTERNAL_OUTBOX_TOKEN"));
        sandbox.seam.page_faults().add(Fault::redirect("https://elsewhere.test/"));
        let redirected = lines(&sandbox, "sandbox-token", 500).await;
        assert!(redirected[0].what.contains("https://elsewhere.test"), "{redirected:#?}");
        sandbox.seam.page_faults().add(Fault::answer(axum::http::StatusCode::UNPROCESSABLE_ENTITY));
        let limited = lines(&sandbox, "sandbox-token", 500).await;
        assert!(limited[0].mend.as_deref().unwrap().contains("OUTBOX_PAGE_LIMIT"), "{limited:#?}");
        sandbox.seam.server().stop().await;
        let away = lines(&sandbox, "sandbox-token", 500).await;
        assert!(away[0].what.contains("out of reach (connect)"), "{away:#?}");
    }
}
