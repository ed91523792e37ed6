//! How a mail is put to Resend: one request, the same bytes each time.
//!
//! Owns the request of `POST /emails` (<https://resend.com/docs/api-reference/emails/send-email>) and what
//! it means when no answer comes. What an answer means is `classify`'s.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{ClientBuilder, Response};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use sha2::{Digest, Sha256};
use url::Url;

use super::Settings;
use super::address::Address;
use super::classify::{Answer, Context, classify};
use super::confirm::Reader;
use crate::channel::{Attempt, Delivery};
use crate::envelope::EnvelopeId;
use crate::http::{self, BODY_CAP, BaseUrl, BodyError, SetupError, Trouble};
use crate::outcome::{Detail, Outcome};
use crate::render::Mail;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest idempotency key that Resend takes.
const KEY_MAX: usize = 256;
/// Begins every hashed key, and no other: an id that begins so is hashed itself.
const HASHED_KEY: &str = "sha256:";

/// The longest name or value of a tag that Resend takes.
const TAG_MAX: usize = 256;
/// Begins every hashed tag: in the plain form `_` is followed by two hex digits.
const HASHED_TAG: &str = "__";
/// What stands as itself in a tag.
const TAG: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-');

/// A mail on its way.
pub(super) struct Letter<'a> {
    /// Whose mail it is.
    pub(super) delivery: &'a Delivery,
    /// Whom it goes to.
    pub(super) to: &'a Address,
    /// What it says.
    pub(super) mail: &'a Mail,
}

/// The client of Resend's `/emails`.
pub(super) struct Client {
    http: reqwest::Client,
    base: BaseUrl,
    emails: Url,
    authorization: HeaderValue,
    api_key: SecretString,
    from: String,
    reply_to: Option<String>,
}

impl Client {
    /// Builds the client; nothing is sent yet.
    pub(super) fn new(settings: Settings) -> Result<Client, SetupError> {
        Client::over(http::client_builder(), settings)
    }

    /// The same over another HTTP client, so that a test need not wait for the real deadlines.
    pub(super) fn over(builder: ClientBuilder, settings: Settings) -> Result<Client, SetupError> {
        let base = BaseUrl::new(settings.base_url)?;
        Ok(Client {
            http: builder.build()?,
            emails: base.join("/emails"),
            base,
            authorization: http::secret_header("Bearer ", &settings.api_key)?,
            api_key: settings.api_key,
            from: settings.from,
            reply_to: settings.reply_to,
        })
    }

    /// Who asks Resend with the same key over the same connections.
    pub(super) fn reader(&self, window: Duration) -> Reader {
        Reader::new(self.http.clone(), self.base.clone(), self.authorization.clone(), window)
    }

    /// Sends a mail once and says what came of it.
    pub(super) async fn send(&self, letter: &Letter<'_>) -> Attempt {
        let request = self
            .http
            .post(self.emails.clone())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(IDEMPOTENCY_KEY, idempotency_key(&letter.delivery.envelope.id))
            .header(CONTENT_TYPE, "application/json")
            .body(self.body(letter));
        match request.send().await {
            Ok(response) => self.answer(response, letter).await,
            Err(error) => no_answer(Trouble::of(&error)),
        }
    }

    async fn answer(&self, response: Response, letter: &Letter<'_>) -> Attempt {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = match http::read_capped(response, BODY_CAP).await {
            Ok(body) => body,
            // Nothing of Resend's is that long: its status is all that counts of it.
            Err(BodyError::TooLarge(_)) => Vec::new(),
            Err(BodyError::Cut(trouble)) => return no_answer(trouble),
        };
        let reply_to = self.reply_to.as_deref().unwrap_or_default();
        let private =
            [letter.to.expose(), self.api_key.expose_secret(), &self.from, reply_to, &letter.mail.subject];
        let Delivery { now, refused_before, .. } = *letter.delivery;
        classify(
            &Answer { status, headers: &headers, body: &body },
            &Context { now, refused_before, private: &private },
        )
    }

    /// The request's body. Resend binds the idempotency key to it, so for one envelope it is always the
    /// same: fields in the order of their declaration, none from a map.
    #[expect(clippy::expect_used, reason = "strings and arrays of strings always have a JSON form")]
    fn body(&self, letter: &Letter<'_>) -> String {
        let Letter { delivery, to, mail } = letter;
        let envelope = &delivery.envelope;
        let body = Body {
            from: &self.from,
            to: [to.expose()],
            subject: &mail.subject,
            html: &mail.html,
            text: &mail.text,
            reply_to: self.reply_to.as_deref(),
            headers: unsubscribe_headers(&mail.unsubscribe),
            tags: [
                Tag { name: "envelope", value: tag(envelope.id.as_str()) },
                Tag { name: "template", value: tag(envelope.template.as_str()) },
            ],
        };
        serde_json::to_string(&body).expect("a body of strings")
    }
}

#[derive(Serialize)]
struct Body<'a> {
    from: &'a str,
    to: [&'a str; 1],
    subject: &'a str,
    html: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<UnsubscribeHeaders>,
    tags: [Tag; 2],
}

#[derive(Serialize)]
struct UnsubscribeHeaders {
    #[serde(rename = "List-Unsubscribe")]
    link: String,
    #[serde(rename = "List-Unsubscribe-Post")]
    post: &'static str,
}

#[derive(Serialize)]
struct Tag {
    name: &'static str,
    value: String,
}

/// One-click unsubscription (RFC 8058, 3.1) needs both headers and an https link.
fn unsubscribe_headers(link: &Url) -> Option<UnsubscribeHeaders> {
    (link.scheme() == "https")
        .then(|| UnsubscribeHeaders { link: format!("<{link}>"), post: "List-Unsubscribe=One-Click" })
}

/// The key under which Resend knows an envelope for 24 hours: its id where that can stand in a header,
/// else `sha256:` and the id's SHA-256 in hex.
#[expect(clippy::expect_used, reason = "visible ASCII is a header value")]
fn idempotency_key(id: &EnvelopeId) -> HeaderValue {
    let id = id.as_str();
    let fits = id.len() <= KEY_MAX && id.bytes().all(|b| b.is_ascii_graphic()) && !id.starts_with(HASHED_KEY);
    let key = if fits { id.to_owned() } else { format!("{HASHED_KEY}{:x}", Sha256::digest(id)) };
    HeaderValue::from_str(&key).expect("a key of visible ASCII")
}

/// `text` as a tag's value, of which Resend takes `[A-Za-z0-9_-]` alone.
///
/// Letters, digits and `-` stand as themselves, every other byte as `_` and two hex digits: a UUID is
/// found under itself, and whoever reads a tag (a webhook of the app) gets the text back by
/// percent-decoding with `_` in the place of `%`. What is too long for that is `__` and the text's
/// SHA-256 in hex.
fn tag(text: &str) -> String {
    let plain = utf8_percent_encode(text, TAG).to_string().replace('%', "_");
    if plain.len() <= TAG_MAX { plain } else { format!("{HASHED_TAG}{:x}", Sha256::digest(text)) }
}

/// The envelope that a tag of this worker's names; `None` where it is none, or the hash of one.
pub fn envelope_of_tag(value: &str) -> Option<EnvelopeId> {
    let percent = value.replace('_', "%");
    let text = percent_decode_str(&percent).decode_utf8().ok()?;
    EnvelopeId::new(text).ok().filter(|id| tag(id.as_str()) == value)
}

/// No answer came, or only the beginning of one.
pub(in crate::channel) fn no_answer(trouble: Trouble) -> Attempt {
    let Trouble { cause, may_have_arrived } = trouble;
    if may_have_arrived {
        let detail = Detail::fixed("no whole answer after the request was sent");
        Attempt::unanswered(Outcome::Unclear { after: None }, cause, detail)
    } else {
        let detail = Detail::fixed("no connection to the mail provider");
        Attempt::unanswered(Outcome::Retry { after: None }, cause, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    fn key(text: &str) -> String {
        idempotency_key(&EnvelopeId::new(text).unwrap()).to_str().unwrap().to_owned()
    }

    #[test]
    fn an_id_that_fits_is_its_own_key_and_any_other_is_hashed() {
        let longest = "x".repeat(256);
        for id in ["0192f1c2-7b1e-7c3a", "a/b?c#d%e", "sha256", &longest] {
            assert_eq!(key(id), id);
        }
        for id in ["a b", "ä", "a\r\nX-Evil: 1", "sha256:x", &format!("{longest}x")] {
            assert!(key(id).starts_with("sha256:") && key(id).len() == 71, "{id}");
        }
        assert_ne!(key(&key("a b")), key("a b"), "a hash is no other id's key");
        assert_eq!(key("a b"), "sha256:c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65");
    }

    #[test]
    fn a_tag_is_readable_and_can_be_read_back() {
        assert_eq!(tag("0192f1c2-7b1e-7c3a"), "0192f1c2-7b1e-7c3a");
        assert_eq!(tag("your-week-digest.v1"), "your-week-digest_2Ev1");
        assert_eq!(tag("a_b ä"), "a_5Fb_20_C3_A4");
        assert_eq!(tag(&"x".repeat(256)).len(), 256);
        assert_eq!(tag(&"x".repeat(257)).len(), 2 + 64);
    }

    #[test]
    fn without_an_https_link_there_is_neither_unsubscribe_header() {
        assert!(unsubscribe_headers(&"http://app.test/u?ref=r".parse().unwrap()).is_none());
    }

    proptest! {
        #[test]
        fn a_key_is_always_one_that_resend_takes_and_its_own(a in "[\\s\\S]{1,300}", b in "[\\s\\S]{1,9}") {
            prop_assume!(EnvelopeId::new(a.clone()).is_ok() && EnvelopeId::new(b.clone()).is_ok());
            prop_assert!((1..=KEY_MAX).contains(&key(&a).len()));
            prop_assert_eq!(key(&a) == key(&b), a == b);
        }

        #[test]
        fn a_tag_is_always_one_that_resend_takes_and_decodes(text in "[\\s\\S]{0,300}|[_%A-F0-9]{0,9}") {
            let tag = tag(&text);
            prop_assert!(tag.len() <= TAG_MAX);
            prop_assert!(tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            if !tag.starts_with(HASHED_TAG) {
                let encoded = tag.replace('_', "%");
                prop_assert_eq!(percent_decode_str(&encoded).decode_utf8().unwrap(), text);
            }
        }
    }
}
