//! What every HTTP client of the worker has in common, and how it reads answers.
//!
//! Owns the client builder (User-Agent, deadlines, no redirects, no proxy), base URLs, secret headers, the
//! capped body and Retry-After. It must not know what an answer means to anyone.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::outcome::Cause;

/// A peer that has not completed TCP and TLS by then is unreachable.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// One whole exchange, body included: longer than any healthy provider takes, short enough that a
/// hanging one costs a worker seconds.
pub const EXCHANGE_DEADLINE: Duration = Duration::from_secs(15);
/// Kept below the five seconds after which common servers close idle connections, so that a request
/// does not race the close.
pub const IDLE_BELOW_SERVERS: Duration = Duration::from_secs(4);
/// The most that is read of any body but a page.
pub const BODY_CAP: usize = 64 * 1024;
/// The longest wait that a provider may ask for: a typo there must not hold an envelope for days.
pub const RETRY_AFTER_CAP: Duration = Duration::from_secs(3600);

/// What the worker calls itself: Resend's edge refuses requests without a User-Agent.
pub const USER_AGENT: &str = concat!("delivery-worker/", env!("CARGO_PKG_VERSION"));

/// The start of every client. Redirects are never followed: a redirected POST becomes a GET, and a
/// landing page's 200 would read as success. Proxies from the environment are ignored.
#[expect(clippy::disallowed_methods, reason = "the one place where a client's building begins")]
pub fn client_builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_DEADLINE)
        .timeout(EXCHANGE_DEADLINE)
        .pool_idle_timeout(IDLE_BELOW_SERVERS)
}

/// Why a client cannot be built from what the operator set.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The base URL is not one.
    #[error("the base URL must be http or https, with a host and without credentials, query or fragment")]
    BaseUrl,
    /// The secret cannot stand in a header.
    #[error("the secret holds a character that no HTTP header can carry")]
    Secret,
    /// The machine's TLS or its settings.
    #[error("the HTTP client cannot be built: does the system have its CA certificates (ca-certificates)?")]
    Client(#[from] reqwest::Error),
}

/// Where an API lives. Its path prefix is kept, with or without a slash at its end.
#[derive(Debug, Clone)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Takes the URL below which an API's paths are.
    ///
    /// # Errors
    /// It is not http(s), or holds what no base does. Credentials in it would become a header of their
    /// own, so they are refused too.
    pub fn new(url: Url) -> Result<BaseUrl, SetupError> {
        let plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if plain { Ok(BaseUrl(url)) } else { Err(SetupError::BaseUrl) }
    }

    /// The URL of `path` below the base. `path` begins with `/` and is percent-encoded already.
    pub fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        url
    }
}

/// A header's value with a secret in it, after `prefix`. `Debug` does not show it, and HTTP/2 does not
/// index it.
///
/// # Errors
/// The secret holds a character that no header can carry.
pub fn secret_header(prefix: &str, secret: &SecretString) -> Result<HeaderValue, SetupError> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", secret.expose_secret()))
        .map_err(|_| SetupError::Secret)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why a body could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is larger than its cap, in bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The connection failed before its end.
    #[error("the body was cut off")]
    Cut(Trouble),
}

/// Reads a body of at most `cap` bytes. The length that the peer claims is not believed, but room that is never filled
/// costs nothing.
///
/// # Errors
/// The body is larger, or the connection fails before its end.
pub async fn read_capped(mut response: reqwest::Response, cap: usize) -> Result<Vec<u8>, BodyError> {
    let claimed = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = Vec::with_capacity(claimed.unwrap_or_default().min(cap));
    while let Some(chunk) = response.chunk().await.map_err(|error| BodyError::Cut(Trouble::of(&error)))? {
        let length = body.len() + chunk.len();
        if length > cap {
            return Err(BodyError::TooLarge(cap));
        }
        if length > body.capacity() {
            // As a vector grows by itself, but never beyond the cap.
            body.reserve_exact((2 * length).min(cap) - body.len());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The wait that a Retry-After header asks for (RFC 9110, 10.2.3: seconds or an HTTP date), at most
/// [`RETRY_AFTER_CAP`]. Absent, unreadable or past: `None`.
pub fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => RETRY_AFTER_CAP,
        Err(_) => (http_date(value)? - now).to_std().ok()?,
    };
    Some(wait.min(RETRY_AFTER_CAP))
}

/// The Date header of an answer, where there is a readable one.
pub fn date(headers: &HeaderMap) -> Option<DateTime<Utc>> {
    http_date(headers.get(DATE)?.to_str().ok()?)
}

fn http_date(text: &str) -> Option<DateTime<Utc>> {
    httpdate::parse_http_date(text).ok().map(DateTime::from)
}

/// How an exchange failed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trouble {
    /// The class: `Connect`, `Dns`, `Tls`, `Timeout` or `Reset`.
    pub cause: Cause,
    /// Whether the request may have reached the peer.
    pub may_have_arrived: bool,
}

impl Trouble {
    /// Reads an error of the client. Only a failure to connect proves that nothing was sent.
    pub fn of(error: &reqwest::Error) -> Trouble {
        if error.is_connect() {
            return Trouble { cause: connect_cause(error), may_have_arrived: false };
        }
        let cause = if error.is_timeout() { Cause::Timeout } else { Cause::Reset };
        Trouble { cause, may_have_arrived: true }
    }
}

/// Words of which one stands in each error of a TLS handshake.
const TLS_WORDS: [&str; 5] = ["certificate", "tls", "handshake", "fatal alert", "corrupt message"];

/// The client has no types for these classes; the words of its inner errors are all there is to tell
/// them by, and the class is for the operator's eyes: each of them is handled alike.
fn connect_cause(error: &reqwest::Error) -> Cause {
    if error.is_timeout() {
        return Cause::Timeout;
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let text = inner.to_string().to_ascii_lowercase();
        if text.contains("dns") || text.contains("lookup address") {
            return Cause::Dns;
        }
        if TLS_WORDS.iter().any(|word| text.contains(word)) {
            return Cause::Tls;
        }
        source = inner.source();
    }
    Cause::Connect
}

#[cfg(test)]
pub(crate) mod hostile;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_base_keeps_its_path_prefix() {
        for (base, joined) in [
            ("http://app.test:8099", "http://app.test:8099/a/b"),
            ("http://app.test:8099/", "http://app.test:8099/a/b"),
            ("https://app.test/pre%2Ffix/x", "https://app.test/pre%2Ffix/x/a/b"),
            ("https://app.test/prefix//", "https://app.test/prefix/a/b"),
        ] {
            assert_eq!(BaseUrl::new(base.parse().unwrap()).unwrap().join("/a/b").as_str(), joined);
        }
    }

    #[test]
    fn what_is_no_base_is_refused() {
        for url in [
            "mailto:a@b.test",
            "ftp://app.test",
            "http://u:p@app.test",
            "http://app.test/?a=1",
            "http://app.test/#x",
        ] {
            assert!(matches!(BaseUrl::new(url.parse().unwrap()), Err(SetupError::BaseUrl)), "{url}");
        }
    }

    #[test]
    fn a_secret_is_in_the_header_and_not_in_debug() {
        let header = secret_header("Bearer ", &"s3cret".into()).unwrap();
        assert_eq!(header, "Bearer s3cret");
        assert!(!format!("{header:?}").contains("s3cret"));
        assert!(matches!(secret_header("", &"line\nbreak".into()), Err(SetupError::Secret)));
    }

    fn asked(value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        retry_after(&headers, "2026-08-03T06:00:00Z".parse().unwrap())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_is_capped() {
        assert_eq!(asked("120"), Some(Duration::from_secs(120)));
        assert_eq!(asked("0"), Some(Duration::ZERO));
        assert_eq!(asked("Mon, 03 Aug 2026 06:02:00 GMT"), Some(Duration::from_secs(120)));
        assert_eq!(asked("Mon, 03 Aug 2026 05:00:00 GMT"), None, "past");
        assert_eq!(asked("999999"), Some(RETRY_AFTER_CAP));
        assert_eq!(asked("99999999999999999999999"), Some(RETRY_AFTER_CAP));
        for nonsense in ["", "-5", "soon", "1.5"] {
            assert_eq!(asked(nonsense), None, "{nonsense}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), Utc::now()), None);
    }

    /// A chunk holds one byte and takes six on the wire.
    static CRUMBS: hostile::Flood = hostile::Flood {
        what: "a byte a chunk",
        head: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        again: "1\r\n \r\n",
    };

    #[tokio::test]
    async fn a_body_that_comes_a_byte_a_chunk_is_cut_at_its_cap_too() {
        let peer = hostile::Peer::flooding(&CRUMBS).await;
        let client = client_builder().build().unwrap();
        let response = client.get(&peer.base).send().await.unwrap();
        assert!(matches!(read_capped(response, BODY_CAP).await, Err(BodyError::TooLarge(BODY_CAP))));
        peer.was_cut_at(6 * BODY_CAP, CRUMBS.what).await;
    }

    proptest! {
        #[test]
        fn no_bytes_in_a_header_panic_or_wait_longer_than_the_cap(
            value in proptest::collection::vec(any::<u8>(), 0..40),
            dated in "(Sun|Mon|Fri), [0-9]{2} (Jan|Feb|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
            now in any::<i64>(),
        ) {
            let now = DateTime::from_timestamp_millis(now).unwrap_or(DateTime::<Utc>::MAX_UTC);
            for value in [&value[..], dated.as_bytes()] {
                let Ok(value) = HeaderValue::from_bytes(value) else { continue };
                let headers = HeaderMap::from_iter([(RETRY_AFTER, value.clone()), (DATE, value)]);
                prop_assert!(retry_after(&headers, now).unwrap_or_default() <= RETRY_AFTER_CAP);
                if let Some(date) = date(&headers) {
                    // Whoever compares clocks takes it from the time.
                    prop_assert_eq!(date + (now - date), now);
                }
            }
        }

        #[test]
        fn no_retry_after_waits_longer_than_the_cap(value in "[ -~]{0,40}") {
            prop_assert!(asked(&value).unwrap_or_default() <= RETRY_AFTER_CAP);
        }
    }
}
