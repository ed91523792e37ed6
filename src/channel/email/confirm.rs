//! Asking Resend what became of accepted mails (<https://resend.com/docs/api-reference/emails/list-emails>).
//!
//! Owns the request and the reading of its answer. It must not know who waits, nor what is done about it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::classify;
use crate::channel::confirm::{Confirmer, Fate, LISTED, Question, Reply, Said, Told};
use crate::http::{self, BaseUrl, BodyError, Trouble};
use crate::outcome::{Cause, MessageId};

/// A hundred mails, each with its subject and recipients, and room to spare.
const LIST_CAP: usize = 1024 * 1024;

/// Reads from Resend, with the key that mails are sent with.
#[derive(Debug)]
pub(super) struct Reader {
    http: Client,
    base: BaseUrl,
    authorization: HeaderValue,
    window: Duration,
    may_read: AtomicBool,
}

impl Reader {
    pub(super) fn new(http: Client, base: BaseUrl, authorization: HeaderValue, window: Duration) -> Reader {
        Reader { http, base, authorization, window, may_read: AtomicBool::new(true) }
    }

    /// Whether asking is of use: not once Resend has said that this key may only send.
    pub(super) fn may_read(&self) -> bool {
        self.may_read.load(Ordering::Relaxed)
    }

    async fn exchange(&self, question: &Question) -> Result<Reply, Cause> {
        let mut url = match question {
            Question::Newest { .. } => self.base.join("/emails"),
            Question::One(message) => self.base.join(&format!("/emails/{}", message.as_str())),
        };
        if let Question::Newest { after } = question {
            url.query_pairs_mut().append_pair("limit", &LISTED.to_string());
            if let Some(after) = after {
                url.query_pairs_mut().append_pair("after", after.as_str());
            }
        }
        let sent = self.http.get(url).header(AUTHORIZATION, self.authorization.clone()).send().await;
        let answer = sent.map_err(|error| Trouble::of(&error).cause)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = http::read_capped(answer, LIST_CAP).await.map_err(|error| match error {
            BodyError::TooLarge(_) => Cause::UnreadableAnswer,
            BodyError::Cut(trouble) => trouble.cause,
        })?;
        let said = read(question, status, &headers, &body, Utc::now());
        Ok(Reply { said, pace: classify::pace(&headers) })
    }
}

#[async_trait]
impl Confirmer for Reader {
    fn window(&self) -> Duration {
        self.window
    }

    async fn ask(&self, question: &Question) -> Reply {
        let reply = self.exchange(question).await;
        let reply = reply.unwrap_or_else(|cause| Reply { said: Said::Nothing(cause), pace: None });
        if reply.said == Said::MayNot {
            self.may_read.store(false, Ordering::Relaxed);
        }
        reply
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct Mail {
    id: String,
    created_at: Option<String>,
    last_event: Option<String>,
}

#[derive(Deserialize, Default)]
struct Refusal {
    #[serde(default)]
    name: String,
}

/// What the answer to `question` says.
fn read(
    question: &Question,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: DateTime<Utc>,
) -> Said {
    let name = || serde_json::from_slice::<Refusal>(body).unwrap_or_default().name;
    match status.as_u16() {
        200 => success(question, body).unwrap_or(Said::Nothing(Cause::UnreadableAnswer)),
        401 | 403 if name() == "restricted_api_key" => Said::MayNot,
        401 | 403 => Said::Nothing(Cause::ApiKey),
        404 if matches!(question, Question::One(_)) => Said::Messages { listed: Vec::new(), more: false },
        429 => Said::Later { after: http::retry_after(headers, now) },
        300..=399 | 404 | 405 => Said::Nothing(Cause::WrongUrl),
        500..=599 => Said::Nothing(Cause::ServerError),
        _ => Said::Nothing(Cause::UnexpectedAnswer),
    }
}

/// Element by element: one that cannot be read costs itself alone.
fn success(question: &Question, body: &[u8]) -> Option<Said> {
    match question {
        Question::One(_) => {
            let mail: Mail = serde_json::from_slice(body).ok()?;
            Some(Said::Messages { listed: vec![told(mail)], more: false })
        }
        Question::Newest { .. } => {
            let List { data, has_more } = serde_json::from_slice(body).ok()?;
            let mails = data.iter().filter_map(|raw| serde_json::from_str::<Mail>(raw.get()).ok());
            Some(Said::Messages { listed: mails.map(told).collect(), more: has_more })
        }
    }
}

fn told(mail: Mail) -> Told {
    Told {
        message: MessageId::new(&mail.id),
        accepted_at: mail.created_at.as_deref().and_then(instant),
        fate: mail.last_event.as_deref().map_or(Fate::Open, fate),
    }
}

/// `last_event` in the API's words, and what it means.
pub(in crate::channel) const EVENTS: [(&str, Fate); 12] = [
    ("delivered", Fate::Delivered),
    ("opened", Fate::Delivered),
    ("clicked", Fate::Delivered),
    ("bounced", Fate::Bounced),
    ("complained", Fate::Complained),
    ("suppressed", Fate::Suppressed),
    ("failed", Fate::Failed),
    ("canceled", Fate::Failed),
    ("queued", Fate::Open),
    ("scheduled", Fate::Open),
    ("sent", Fate::Open),
    ("delivery_delayed", Fate::Open),
];

/// A word that this build does not know decides nothing.
fn fate(last_event: &str) -> Fate {
    EVENTS.iter().find(|(event, _)| *event == last_event).map_or(Fate::Open, |(_, fate)| *fate)
}

/// RFC 3339, or as PostgreSQL writes it: `2026-08-03 06:00:00.123456+00`.
fn instant(text: &str) -> Option<DateTime<Utc>> {
    let read = DateTime::parse_from_rfc3339(text);
    let read = read.or_else(|_| DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f%#z"));
    read.ok().map(|instant| instant.to_utc())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NEWEST: Question = Question::Newest { after: None };

    fn said(question: &Question, status: u16, body: &str) -> Said {
        let status = StatusCode::from_u16(status).unwrap();
        read(question, status, &HeaderMap::new(), body.as_bytes(), Utc::now())
    }

    fn one() -> Question {
        Question::One(MessageId::new("m-1"))
    }

    #[test]
    fn each_event_has_its_meaning_and_a_new_word_has_none() {
        for (events, expected) in [
            (&["delivered", "opened", "clicked"][..], Fate::Delivered),
            (&["bounced"], Fate::Bounced),
            (&["complained"], Fate::Complained),
            (&["suppressed"], Fate::Suppressed),
            (&["failed", "canceled"], Fate::Failed),
            (
                &["queued", "scheduled", "sent", "delivery_delayed", "", "Bounced", "a word of tomorrow"],
                Fate::Open,
            ),
        ] {
            for event in events {
                let body = json!({"object": "email", "id": "m-1", "last_event": event}).to_string();
                let Said::Messages { listed, more: false } = said(&one(), 200, &body) else {
                    panic!("{event}")
                };
                assert_eq!(listed[0].fate, expected, "{event}");
            }
        }
    }

    #[test]
    fn a_list_is_read_mail_by_mail() {
        let body = json!({"object": "list", "has_more": true, "data": [
            {"id": "a", "to": ["x@y.test"], "created_at": "2026-08-03T06:00:00.5+00:00", "last_event": "sent"},
            {"id": 7, "last_event": "bounced"},
            null,
            {"id": "b", "created_at": "2026-08-03 05:59:00.123456+00", "last_event": "bounced"},
            {"id": "c", "last_event": null},
        ]});
        let Said::Messages { listed, more: true } = said(&NEWEST, 200, &body.to_string()) else {
            panic!("no list")
        };
        let told: Vec<_> = listed.iter().map(|it| (it.message.as_str(), it.fate)).collect();
        assert_eq!(told, [("a", Fate::Open), ("b", Fate::Bounced), ("c", Fate::Open)]);
        assert_eq!(listed[1].accepted_at.unwrap().to_rfc3339(), "2026-08-03T05:59:00.123456+00:00");
        assert_eq!(listed[2].accepted_at, None);
    }

    #[test]
    fn every_other_answer_says_why_there_is_nothing_to_learn() {
        let restricted = r#"{"statusCode":401,"name":"restricted_api_key"}"#;
        assert_eq!(said(&NEWEST, 401, restricted), Said::MayNot);
        assert_eq!(said(&one(), 404, "{}"), Said::Messages { listed: Vec::new(), more: false });
        for (status, body, cause) in [
            (200, "<html>", Cause::UnreadableAnswer),
            (200, r#"{"data":7}"#, Cause::UnreadableAnswer),
            (401, r#"{"name":"validation_error"}"#, Cause::ApiKey),
            (403, "error code: 1010", Cause::ApiKey),
            (404, "", Cause::WrongUrl),
            (302, "", Cause::WrongUrl),
            (500, "", Cause::ServerError),
            (418, "", Cause::UnexpectedAnswer),
        ] {
            assert_eq!(said(&NEWEST, status, body), Said::Nothing(cause), "{status} {body}");
        }
        assert_eq!(said(&NEWEST, 429, ""), Said::Later { after: None });
    }

    proptest! {
        #[test]
        fn no_body_panics(status in 200u16..600, body in prop_oneof!["\\PC{0,80}", r#"\{"data":\[[a-z{}\[\]":,0-9]{0,60}"#]) {
            for question in [NEWEST, one()] {
                drop(said(&question, status, &body));
            }
        }
    }
}
