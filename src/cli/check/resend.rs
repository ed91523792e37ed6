//! What the preflight asks of Resend: the account's domains, which also tells what the key may do
//! (<https://resend.com/docs/api-reference/domains/list-domains>).
//!
//! Owns the reading of the answer. It sends no mail.

use reqwest::StatusCode;
use reqwest::header::AUTHORIZATION;
use serde::Deserialize;

use super::report::Line;
use crate::channel::email::{self, AckAt};
use crate::http::{self, BODY_CAP, BaseUrl, Trouble};

const TOPIC: &str = "resend";
const DOMAIN: &str = "domain";

/// Asks with the key of `settings` whether its sender may send.
pub(super) async fn check(settings: &email::Settings) -> Vec<Line> {
    match ask(settings).await {
        Ok((status, body)) => judge(status, &body, &domain(&settings.from), settings.ack),
        Err(why) => vec![Line::fail(
            TOPIC,
            format!("Resend is out of reach ({why})"),
            "see that this machine reaches RESEND_BASE_URL: name server, firewall, outbound port 443",
        )],
    }
}

async fn ask(settings: &email::Settings) -> Result<(StatusCode, Vec<u8>), String> {
    let client = http::client_builder().build().map_err(|_| "no client can be built".to_owned())?;
    let base = BaseUrl::new(settings.base_url.clone()).map_err(|error| error.to_string())?;
    let key = http::secret_header("Bearer ", &settings.api_key).map_err(|error| error.to_string())?;
    let sent = client.get(base.join("/domains")).header(AUTHORIZATION, key).send().await;
    let answer = sent.map_err(|error| Trouble::of(&error).cause.label().to_owned())?;
    let status = answer.status();
    let body = http::read_capped(answer, BODY_CAP).await.map_err(|error| error.to_string())?;
    Ok((status, body))
}

/// The domain of a mailbox that the configuration has taken.
pub(super) fn domain(mailbox: &str) -> String {
    let (_, domain) = mailbox.rsplit_once('@').unwrap_or_default();
    domain.trim_end().trim_end_matches('>').to_ascii_lowercase()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    name: String,
    data: Option<Vec<Domain>>,
    has_more: bool,
}

#[derive(Debug, Deserialize)]
struct Domain {
    name: String,
    status: String,
}

fn judge(status: StatusCode, body: &[u8], domain: &str, ack: AckAt) -> Vec<Line> {
    let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    match status.as_u16() {
        200 => match answer.data {
            Some(domains) => {
                let key = Line::ok(TOPIC, "the key is taken, and has full access");
                vec![key, judge_domain(&domains, answer.has_more, domain)]
            }
            None => vec![unexpected("an answer that is not Resend's")],
        },
        401 if answer.name == "restricted_api_key" => vec![
            sending_only(ack),
            Line::skip(
                DOMAIN,
                "a key that may only send cannot read whether the sender's domain is verified",
            ),
        ],
        403 if answer.name.is_empty() => vec![Line::fail(
            TOPIC,
            "something before Resend's API forbids it (403)",
            "see what stands between: a proxy, a firewall, or RESEND_BASE_URL",
        )],
        400 | 401 | 403 => vec![Line::fail(
            TOPIC,
            format!("Resend refuses the key ({})", status.as_u16()),
            "make a key at Resend and set RESEND_API_KEY to it",
        )],
        429 | 500..=599 => vec![Line::warn(
            TOPIC,
            format!("Resend has no time for this now ({})", status.as_u16()),
            "run the check again later: the worker would wait by itself",
        )],
        other => vec![unexpected(&format!("status {other}"))],
    }
}

/// A key that may not read is no trouble, but where bounces are to be read with it.
fn sending_only(ack: AckAt) -> Line {
    let what = "the key is taken, and may only send";
    match ack {
        AckAt::Acceptance => Line::ok(TOPIC, what),
        AckAt::FinalWord(_) => Line::warn(
            TOPIC,
            format!("{what}: mails are acked as they are accepted, and bounces are not seen"),
            "give it full access, or set DELIVERY_EMAIL_ACK=accepted",
        ),
    }
}

fn unexpected(what: &str) -> Line {
    Line::fail(
        TOPIC,
        format!("RESEND_BASE_URL gives {what}"),
        "set RESEND_BASE_URL to Resend's API, or unset it",
    )
}

fn judge_domain(domains: &[Domain], more: bool, domain: &str) -> Line {
    match domains.iter().find(|known| known.name.eq_ignore_ascii_case(domain)) {
        Some(known) if known.status == "verified" => {
            Line::ok(DOMAIN, format!("{domain} is verified at Resend"))
        }
        Some(known) if known.status == "temporary_failure" => Line::warn(
            DOMAIN,
            format!("{domain}, of MAIL_FROM, was verified, and Resend no longer finds its DNS records"),
            "put the records back that Resend shows for it",
        ),
        Some(known) => Line::fail(
            DOMAIN,
            format!("{domain}, of MAIL_FROM, is not verified at Resend{}", standing(&known.status)),
            "set the DNS records that Resend shows for it, and let Resend look again",
        ),
        None if more => Line::skip(DOMAIN, format!("{domain} is not among the account's first domains")),
        None => Line::fail(
            DOMAIN,
            format!(
                "{domain}, of MAIL_FROM, is no domain of this Resend account; a subdomain counts as its own"
            ),
            "add it at Resend, or send from one of the account's",
        ),
    }
}

/// The states that Resend documents; any other word says no more.
fn standing(status: &str) -> &'static str {
    match status {
        "not_started" => ": it has not been asked to look yet",
        "pending" => ": it has not found the DNS records yet",
        "failed" => ": it has not found the DNS records, and has given up looking",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;

    fn judged(status: u16, body: &str) -> Vec<(Level, &'static str)> {
        let lines = judge(
            StatusCode::from_u16(status).unwrap(),
            body.as_bytes(),
            "mail.example.com",
            AckAt::Acceptance,
        );
        lines.into_iter().map(|line| (line.level, line.topic)).collect()
    }

    #[test]
    fn a_domain_must_be_the_accounts_and_verified() {
        let with = |name: &str, status: &str| {
            judged(200, &format!(r#"{{"data":[{{"id":"1","name":"{name}","status":"{status}"}}]}}"#))[1].0
        };
        assert_eq!(with("Mail.Example.com", "verified"), Level::Ok);
        for status in ["pending", "not_started", "failed", "a word of tomorrow"] {
            assert_eq!(with("mail.example.com", status), Level::Fail, "{status}");
        }
        assert_eq!(with("mail.example.com", "temporary_failure"), Level::Warn);
        assert_eq!(with("example.com", "verified"), Level::Fail, "a subdomain counts as its own");
        assert_eq!(judged(200, r#"{"data":[],"has_more":true}"#)[1].0, Level::Skip);
    }

    #[test]
    fn a_key_that_may_only_send_is_good() {
        let body = r#"{"statusCode":401,"name":"restricted_api_key","message":"This API key is restricted"}"#;
        assert_eq!(judged(401, body), [(Level::Ok, "resend"), (Level::Skip, "domain")]);
        let ack = AckAt::FinalWord(std::time::Duration::from_secs(600));
        let line = judge(StatusCode::UNAUTHORIZED, body.as_bytes(), "mail.example.com", ack).remove(0);
        assert!(line.level == Level::Warn && line.mend.unwrap().contains("DELIVERY_EMAIL_ACK=accepted"));
    }

    #[test]
    fn a_403_that_is_not_resends_is_not_taken_for_the_keys() {
        let mend = |body: &str| {
            judge(StatusCode::FORBIDDEN, body.as_bytes(), "mail.example.com", AckAt::Acceptance)
                .remove(0)
                .mend
                .unwrap()
        };
        assert!(mend("error code: 1010").contains("a proxy"));
        assert!(mend(r#"{"name":"suspended_api_key"}"#).contains("RESEND_API_KEY"));
    }

    #[test]
    fn every_other_answer_is_one_line() {
        for (status, body, level) in [
            (401, r#"{"name":"validation_error","message":"API key is invalid"}"#, Level::Fail),
            (403, "error code: 1010", Level::Fail),
            (200, "<html>", Level::Fail),
            (301, "", Level::Fail),
            (404, "", Level::Fail),
            (429, "", Level::Warn),
            (503, "", Level::Warn),
        ] {
            assert_eq!(judged(status, body), [(level, "resend")], "{status} {body}");
        }
    }

    #[test]
    fn the_senders_domain_is_read_from_either_form() {
        assert_eq!(domain("Digest <digest@Mail.Example.com>"), "mail.example.com");
        assert_eq!(domain("digest@mail.example.com"), "mail.example.com");
    }
}
