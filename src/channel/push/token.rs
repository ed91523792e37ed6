//! VAPID tokens (RFC 8292): one per audience, signed anew at half life.
//!
//! Owns [`Tokens`], whose size hostile origins cannot grow. The caller passes the time.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use reqwest::header::HeaderValue;
use web_push::{SubscriptionInfo, WebPushError};

use super::message::SAFE_ENDPOINT;
use super::{VapidKey, VapidSubject};

/// How long a token is valid: half of what RFC 8292 (2) allows, so that a clock that is hours ahead does
/// no harm.
const LIFETIME: TimeDelta = TimeDelta::hours(12);
/// A token older than this is signed anew, so that none is near its end when it arrives.
const HALF_LIFE: TimeDelta = TimeDelta::hours(6);
/// Far more origins than there are push services; one pushed out costs a signature.
const KEPT: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Signs and remembers tokens.
pub(super) struct Tokens {
    key: VapidKey,
    subject: VapidSubject,
    kept: Mutex<LruCache<String, Token>>,
}

#[derive(Clone)]
struct Token {
    authorization: HeaderValue,
    signed_at: DateTime<Utc>,
}

impl Token {
    /// A token from the future was signed by a clock that has been set back since: it may expire too late.
    fn is_fresh(&self, now: DateTime<Utc>) -> bool {
        self.signed_at <= now && now < self.signed_at + HALF_LIFE
    }
}

impl Tokens {
    /// Tokens of `key`, in the name of `subject`.
    pub(super) fn new(key: VapidKey, subject: VapidSubject) -> Tokens {
        Tokens { key, subject, kept: Mutex::new(LruCache::new(KEPT)) }
    }

    /// The Authorization header for `audience`, the origin of an endpoint. It is marked sensitive.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(super) fn authorization(
        &self,
        audience: &str,
        now: DateTime<Utc>,
    ) -> Result<HeaderValue, WebPushError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(audience).cloned();
        if let Some(token) = kept.filter(|token| token.is_fresh(now)) {
            return Ok(token.authorization);
        }
        let authorization = self.sign(audience, now)?;
        let token = Token { authorization: authorization.clone(), signed_at: now };
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).put(audience.to_owned(), token);
        Ok(authorization)
    }

    fn sign(&self, audience: &str, now: DateTime<Utc>) -> Result<HeaderValue, WebPushError> {
        // The crate would leave the port out of the audience, so it is given.
        let info = SubscriptionInfo::new(SAFE_ENDPOINT, "", "");
        let mut builder = self.key.signer().add_sub_info(&info);
        builder.add_claim("aud", audience);
        builder.add_claim("exp", (now + LIFETIME).timestamp());
        builder.add_claim("sub", self.subject.as_str());
        let token = builder.build()?.auth_t;
        let header = format!("vapid t={token}, k={}", self.key.public_base64url());
        let mut header = HeaderValue::try_from(header).map_err(|_| WebPushError::InvalidClaims)?;
        header.set_sensitive(true);
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{claims, settings};
    use super::*;

    fn tokens() -> Tokens {
        let settings = settings();
        Tokens::new(settings.key, settings.subject)
    }

    fn now() -> DateTime<Utc> {
        "2026-08-03T06:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_token_names_audience_end_and_subject_and_is_signed_by_the_key_beside_it() {
        let header = tokens().authorization("https://push.example.net:8443", now()).unwrap();
        assert!(header.is_sensitive());
        let claims = claims(&header);
        assert_eq!(claims["aud"], "https://push.example.net:8443");
        assert_eq!(claims["sub"], "mailto:ops@example.com");
        assert_eq!(claims["exp"], (now() + TimeDelta::hours(12)).timestamp());
    }

    #[test]
    fn a_token_is_kept_per_audience_until_half_life() {
        let tokens = tokens();
        let at = |minutes| {
            tokens.authorization("https://a.example.net", now() + TimeDelta::minutes(minutes)).unwrap()
        };
        let first = at(0);
        assert_eq!(at(359), first);
        let second = at(360);
        assert_ne!(second, first);
        assert_eq!(claims(&second)["exp"], (now() + TimeDelta::hours(18)).timestamp());
        assert_ne!(at(0), second, "a token from the future is not used");
        assert_ne!(
            claims(&tokens.authorization("https://b.example.net", now()).unwrap())["aud"],
            "https://a.example.net"
        );
    }

    #[test]
    fn hostile_origins_do_not_grow_the_cache() {
        let tokens = tokens();
        let token = Token { authorization: HeaderValue::from_static("x"), signed_at: now() };
        for origin in 0..1000 {
            tokens.kept.lock().unwrap().put(format!("https://{origin}.example.net"), token.clone());
        }
        tokens.authorization("https://push.example.net", now()).unwrap();
        assert_eq!(tokens.kept.lock().unwrap().len(), 256);
    }
}
