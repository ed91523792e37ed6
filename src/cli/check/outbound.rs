//! Whether this machine gets out to the push services, and what their clocks say.
//!
//! A user's browser chooses the service, so all of the large ones are asked. Any answer at all is enough: the
//! question is whether name server, firewall and certificates let one through.

use chrono::{DateTime, Utc};

use super::clock;
use super::report::Line;
use crate::http::{self, Trouble};

const TOPIC: &str = "outbound";

/// The push services of Chrome, Firefox and Safari, by the origins of their endpoints. Those of Windows have no
/// name that is always there.
pub(super) const PUSH_SERVICES: [(&str, &str); 3] = [
    ("Chrome's push service", "https://fcm.googleapis.com/"),
    ("Firefox's push service", "https://updates.push.services.mozilla.com/"),
    ("Safari's push service", "https://web.push.apple.com/"),
];

/// Asks each of `services` for no more than its headers.
pub(super) async fn check(services: &[(&str, &str)]) -> Vec<Line> {
    let client = match http::client_builder().build() {
        Ok(client) => client,
        Err(_) => return vec![no_client()],
    };
    let asked = services.iter().map(|(name, url)| {
        let sent = client.head(*url).send();
        async move {
            (
                *name,
                sent.await.map(|answer| http::date(answer.headers())).map_err(|error| Trouble::of(&error)),
            )
        }
    });
    let answers = futures_util::future::join_all(asked).await;
    let now = Utc::now();
    let mut lines: Vec<Line> = answers.iter().map(|(name, answer)| reached(name, answer)).collect();
    lines.extend(clocks(&answers, now));
    lines
}

fn no_client() -> Line {
    Line::fail(
        TOPIC,
        "no HTTPS client can be built: the system's CA certificates are missing",
        "install ca-certificates",
    )
}

type Answer<'a> = (&'a str, Result<Option<DateTime<Utc>>, Trouble>);

fn reached(name: &str, answer: &Result<Option<DateTime<Utc>>, Trouble>) -> Line {
    match answer {
        Ok(_) => Line::ok(TOPIC, format!("{name} answers")),
        Err(trouble) => Line::fail(
            TOPIC,
            format!("{name} is out of reach ({})", trouble.cause.label()),
            "see that this machine may connect to port 443: name server, firewall, a proxy that rewrites TLS",
        ),
    }
}

/// The clock that is furthest off: a token that a push service takes for expired, or for valid too long, is refused.
fn clocks(answers: &[Answer<'_>], now: DateTime<Utc>) -> Option<Line> {
    let dates = answers.iter().filter_map(|(name, answer)| Some((*name, (*answer.as_ref().ok()?)?)));
    let (name, date) = dates.max_by_key(|(_, date)| (now - *date).num_seconds().abs())?;
    Some(clock::compare(&format!("that of {name}"), date, now))
}

#[cfg(test)]
mod tests {
    use wiremock::{Mock, MockServer, ResponseTemplate, matchers::any};

    use super::super::report::Level;
    use super::*;

    async fn answering(date: &str) -> MockServer {
        let server = MockServer::start().await;
        let answer = ResponseTemplate::new(404).insert_header("date", date);
        Mock::given(any()).respond_with(answer).mount(&server).await;
        server
    }

    #[tokio::test]
    async fn any_answer_is_one_and_no_answer_says_why() {
        let there = answering(&httpdate::fmt_http_date(std::time::SystemTime::now())).await;
        let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nowhere = format!("http://{}/", away.local_addr().unwrap());
        drop(away);
        let lines = check(&[("A", &there.uri()), ("B", &nowhere)]).await;
        let told: Vec<_> = lines.iter().map(|line| (line.topic, line.level)).collect();
        assert_eq!(told, [("outbound", Level::Ok), ("outbound", Level::Fail), ("clock", Level::Ok)]);
        assert_eq!(lines[1].what, "B is out of reach (connect)");
    }

    #[tokio::test]
    async fn a_push_services_clock_is_compared() {
        let off = answering("Mon, 03 Aug 2026 06:00:00 GMT").await;
        let lines = check(&[("A", &off.uri())]).await;
        assert_eq!((lines[1].topic, lines[1].level), ("clock", Level::Fail));
        assert!(lines[1].what.contains("ahead of that of A"), "{lines:#?}");
    }
}
