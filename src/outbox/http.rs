//! The seam over HTTP.
//!
//! Owns the two requests of the contract and what each answer means. Statuses are told apart so that the
//! operator can: a refused token, an app that is not ready and a wrong URL each have their own mend.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use reqwest::{ClientBuilder, RequestBuilder, Response, StatusCode};
use secrecy::SecretString;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use url::Url;

use super::{Ack, Acked, Element, Page, Seam, SeamError};
use crate::envelope::{ChannelName, EnvelopeId};
use crate::http::{self, BODY_CAP, BaseUrl, BodyError, SetupError, Trouble};
use crate::outcome::AckStatus;
use crate::trace;

/// The most that is read of a page: 500 envelopes of 32 KiB, several times what a full digest takes.
const PAGE_CAP: usize = 16 * 1024 * 1024;
/// The most elements that are kept of a page: the contract's largest `limit`. An app that ignores the
/// limit cannot fill the memory; what is cut off is the newest and comes again.
const PAGE_ELEMENTS: usize = 500;

/// What stands as itself in a path segment: the unreserved characters of RFC 3986, 2.3. Everything else
/// is encoded, also what `url` would let stand, so that it finds nothing to normalise.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where the seam is and what opens it.
#[derive(Debug)]
pub struct Settings {
    /// OUTBOX_BASE_URL; a path prefix is kept.
    pub base_url: Url,
    /// INTERNAL_OUTBOX_TOKEN.
    pub token: SecretString,
    /// OUTBOX_TOKEN_HEADER; with `Authorization` the token is sent as a bearer token (RFC 6750, 2.1).
    pub token_header: HeaderName,
}

/// The client of an app's two endpoints.
#[derive(Debug)]
pub struct HttpSeam {
    /// Pages have a client of their own: a connection that has read one keeps a buffer of up to 400 kB (hyper's largest),
    /// and acks have many connections.
    pages: reqwest::Client,
    acks: reqwest::Client,
    base: BaseUrl,
    token_header: HeaderName,
    token: HeaderValue,
}

impl HttpSeam {
    /// Builds the client; nothing is sent yet.
    ///
    /// # Errors
    /// The base URL is none, or the token cannot stand in a header.
    pub fn new(settings: Settings) -> Result<HttpSeam, SetupError> {
        HttpSeam::over(http::client_builder, settings)
    }

    /// The same over other HTTP clients, so that a test need not wait for the real deadlines.
    fn over(builder: fn() -> ClientBuilder, settings: Settings) -> Result<HttpSeam, SetupError> {
        // In a private network the seam is mostly plain HTTP, and no redirect leads out of it: the system's
        // certificates would be read and held for nothing.
        let builder = || match settings.base_url.scheme() {
            "http" => builder().tls_certs_only([]),
            _ => builder(),
        };
        let prefix = if settings.token_header == AUTHORIZATION { "Bearer " } else { "" };
        Ok(HttpSeam {
            pages: builder().build()?,
            acks: builder().build()?,
            base: BaseUrl::new(settings.base_url)?,
            token: http::secret_header(prefix, &settings.token)?,
            token_header: settings.token_header,
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, SeamError> {
        let mut request = request.header(self.token_header.clone(), self.token.clone());
        if let Some(parent) = trace::parent() {
            request = request.header("traceparent", parent);
        }
        request.send().await.map_err(|error| SeamError::Unreachable(Trouble::of(&error).cause))
    }
}

#[async_trait]
impl Seam for HttpSeam {
    async fn pending(&self, channel: &ChannelName, limit: u16) -> Result<Page, SeamError> {
        let mut url = self.base.join("/internal/outbox/pending");
        url.query_pairs_mut()
            .append_pair("channel", channel.as_str())
            .append_pair("limit", &limit.to_string());
        let response = self.send(self.pages.get(url)).await?;
        if response.status() != StatusCode::OK {
            return Err(named(&response).unwrap_or(SeamError::Status(response.status().as_u16())));
        }
        let date = http::date(response.headers());
        Page::decode(read(response, PAGE_CAP).await?, date)
    }

    async fn ack(&self, id: &EnvelopeId, ack: &Ack) -> Result<Acked, SeamError> {
        let request = self
            .acks
            .post(self.base.join(&status_path(id)))
            .header(CONTENT_TYPE, "application/json")
            .body(report(ack));
        let response = self.send(request).await?;
        if response.status() != StatusCode::OK {
            return Err(named(&response).unwrap_or_else(|| ack_refusal(response.status())));
        }
        acked(&read(response, BODY_CAP).await?, ack.status)
    }
}

#[expect(clippy::expect_used, reason = "two texts always have a JSON form")]
fn report(ack: &Ack) -> String {
    #[derive(Serialize)]
    struct Wire<'a> {
        status: &'static str,
        #[serde(skip_serializing_if = "str::is_empty")]
        detail: &'a str,
    }
    let wire = Wire { status: ack.status.as_str(), detail: ack.detail.as_str() };
    serde_json::to_string(&wire).expect("two texts")
}

/// The path of an envelope's status, its id one segment whatever it holds.
fn status_path(id: &EnvelopeId) -> String {
    format!("/internal/outbox/{}/status", utf8_percent_encode(id.as_str(), SEGMENT))
}

/// What the answers mean that mean the same for both endpoints.
fn named(response: &Response) -> Option<SeamError> {
    match response.status().as_u16() {
        401 => Some(SeamError::TokenRefused),
        403 => Some(SeamError::Forbidden),
        503 => Some(SeamError::NotReady),
        300..=399 => Some(SeamError::Redirected { to: redirect_origin(response).map(Into::into) }),
        _ => None,
    }
}

/// Where a redirect points, without the path and query, which may hold a token.
fn redirect_origin(response: &Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let origin = response.url().join(location).ok()?.origin();
    origin.is_tuple().then(|| origin.ascii_serialization())
}

fn ack_refusal(status: StatusCode) -> SeamError {
    let passing = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    if status.is_client_error() && !passing {
        SeamError::Refused(status.as_u16())
    } else {
        SeamError::Status(status.as_u16())
    }
}

async fn read(response: Response, cap: usize) -> Result<Vec<u8>, SeamError> {
    http::read_capped(response, cap).await.map_err(|error| match error {
        BodyError::TooLarge(cap) => SeamError::TooLarge(cap),
        BodyError::Cut(trouble) => SeamError::Unreachable(trouble.cause),
    })
}

impl Page {
    /// Takes an answer's body apart without reading its elements, so that one that cannot be read costs only itself.
    /// Bytes that are no UTF-8 are replaced for the same reason: strictly they spoil the whole page.
    ///
    /// # Errors
    /// It is no page: [`SeamError::Unreadable`].
    pub fn decode(body: Vec<u8>, date: Option<DateTime<Utc>>) -> Result<Page, SeamError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow)]
            envelopes: FirstElements<'a>,
        }
        let page = String::from_utf8(body)
            .unwrap_or_else(|bytes| String::from_utf8_lossy(bytes.as_bytes()).into_owned());
        let page = Arc::new(page);
        let wire: Wire<'_> = serde_json::from_str(&page).map_err(|_| SeamError::Unreadable)?;
        let place = |element: &RawValue| {
            let begin = element.get().as_ptr().addr() - page.as_ptr().addr();
            begin..begin + element.get().len()
        };
        let elements = wire.envelopes.0.into_iter().map(|element| Element::within(&page, place(element)));
        Ok(Page { elements: elements.collect(), date })
    }
}

/// The first [`PAGE_ELEMENTS`] of an array; the others are passed over, not collected.
struct FirstElements<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for FirstElements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct First;
        impl<'de> Visitor<'de> for First {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of envelopes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut first = Vec::new();
                while first.len() < PAGE_ELEMENTS {
                    let Some(element) = array.next_element()? else { return Ok(first) };
                    first.push(element);
                }
                while array.next_element::<IgnoredAny>()?.is_some() {}
                Ok(first)
            }
        }
        deserializer.deserialize_seq(First).map(FirstElements)
    }
}

fn acked(body: &[u8], posted: AckStatus) -> Result<Acked, SeamError> {
    #[derive(Deserialize)]
    struct Wire {
        status: String,
    }
    let wire: Wire = serde_json::from_slice(body).map_err(|_| SeamError::Unreadable)?;
    match AckStatus::parse(&wire.status) {
        Some(effective) if effective == posted => Ok(Acked::Stored),
        Some(effective) => Ok(Acked::Differs(effective)),
        None if wire.status == "unknown" => Ok(Acked::Unknown),
        None => Err(SeamError::Unreadable),
    }
}

#[cfg(test)]
mod tests;
