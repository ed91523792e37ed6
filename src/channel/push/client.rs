//! Posts messages to push services.
//!
//! Owns the HTTP client with its guarded resolver and the form of a request (RFC 8030, 5). It sends once
//! and never retries. It must not know what an answer means: [`super::classify`] does.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{ClientBuilder, StatusCode};

use super::classify::Answer;
use super::endpoint::{Endpoint, Service};
use super::resolver::{ForbiddenAddress, Guard, Lookup};
use crate::channel::Attempt;
use crate::http::{BODY_CAP, Trouble, read_capped};
use crate::outcome::{Cause, Detail, Outcome, Scope};

/// How much of one answer an HTTP/2 peer may send unasked (RFC 9113, 6.9): more would be held in memory,
/// and is read of no answer. Whoever names an endpoint chooses the peer, so the library's 2 MiB, made for
/// downloads, would be that for each push worker.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same of all answers on one connection. Push services answer in a few bytes.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;

/// The one client of the channel; its connections are pooled.
#[derive(Clone)]
pub(super) struct Client {
    http: reqwest::Client,
}

/// One message, encrypted and signed.
pub(super) struct Request {
    /// `vapid t=…, k=…`.
    pub(super) authorization: HeaderValue,
    /// How long the service may keep it, in seconds.
    pub(super) ttl: u32,
    /// What it replaces and is replaced by.
    pub(super) topic: String,
    /// The aes128gcm body.
    pub(super) body: Vec<u8>,
}

impl Client {
    /// Builds on `builder` a client that connects to public addresses over TLS alone, unless
    /// `allow_private`.
    ///
    /// # Errors
    /// The TLS library cannot be set up.
    pub(super) fn over(
        builder: ClientBuilder,
        lookup: Arc<dyn Lookup>,
        allow_private: bool,
    ) -> Result<Client, reqwest::Error> {
        let http = builder
            .https_only(!allow_private)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .dns_resolver(Arc::new(Guard::new(lookup, allow_private)))
            .build()?;
        Ok(Client { http })
    }

    /// Sends `request` to `endpoint`.
    ///
    /// # Errors
    /// No answer came; the attempt says why. A body that fails is no error: the status has said it all.
    pub(super) async fn post(&self, endpoint: &Endpoint, request: Request) -> Result<Answer, Attempt> {
        let Request { authorization, ttl, topic, body } = request;
        let sent = self
            .http
            .post(endpoint.url().clone())
            .header("ttl", ttl)
            .header("urgency", "normal")
            .header("topic", topic)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(AUTHORIZATION, authorization)
            .body(body)
            .send()
            .await;
        let mut response = sent.map_err(|error| unanswered(&error, endpoint.service()))?;
        let status: StatusCode = response.status();
        let reason = response.extensions().get::<hyper::ext::ReasonPhrase>();
        let reason = reason.map(|reason| String::from_utf8_lossy(reason.as_bytes()).into_owned());
        let headers = std::mem::take(response.headers_mut());
        let body = read_capped(response, BODY_CAP).await.unwrap_or_default();
        Ok(Answer { status, reason, headers, body })
    }
}

/// What a request without an answer means. The error's own text holds the endpoint and is never shown.
fn unanswered(error: &reqwest::Error, service: Service) -> Attempt {
    if ForbiddenAddress::is_behind(error) {
        return forbidden(service);
    }
    if error.is_builder() {
        let detail = Detail::fixed("recipient.push_subscription.endpoint: is no URL that can be requested");
        return Attempt::unanswered(Outcome::Failed, Cause::RecipientInvalid, detail);
    }
    let Trouble { cause, may_have_arrived } = Trouble::of(error);
    let outcome =
        if may_have_arrived { Outcome::Unclear { after: None } } else { Outcome::Retry { after: None } };
    Attempt::unanswered(outcome, cause, Detail::default())
}

/// Nobody but its owner says what a known service's name resolves to: there it is the resolver's fault, of
/// the whole origin, and nobody's message fails for it.
pub(super) fn forbidden(service: Service) -> Attempt {
    if service.is_known() {
        let outcome = Outcome::Pause { scope: Scope::Provider, after: None };
        let detail = Detail::fixed("the push service's name resolves to an address that is not public");
        return Attempt::unanswered(outcome, Cause::ResolverFault, detail);
    }
    let detail =
        Detail::fixed("recipient.push_subscription.endpoint: resolves to an address that is not public");
    Attempt::unanswered(Outcome::Failed, Cause::EndpointForbidden, detail)
}
