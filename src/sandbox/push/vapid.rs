//! The check of a VAPID token (RFC 8292) as push services do it.
//!
//! Owns the reading of the Authorization header and the rules for the token's claims. It must not know
//! subscriptions. Written apart from the worker's signing, on OpenSSL alone.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use openssl::bn::BigNum;
use openssl::ecdsa::EcdsaSig;
use openssl::sha::sha256;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Refusal;
use super::decrypt::public_key;

/// A token may not outlive this (RFC 8292, section 2).
const MAX_LIFE_SECONDS: i64 = 24 * 3600;

#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
}

#[derive(Debug, Deserialize)]
struct Claims {
    aud: String,
    exp: i64,
    sub: String,
}

/// Checks the value of an Authorization header for a service at `origin`, and returns the public key
/// that signed its token, base64url without padding.
pub(super) fn check(authorization: &str, origin: &str, now: DateTime<Utc>) -> Result<String, Refusal> {
    let (token, key) = parameters(authorization).ok_or(unauthorized("not `vapid t=…, k=…`"))?;
    let claims = verified(token, key)?;
    if claims.aud != origin {
        return Err(forbidden("`aud` is not this service's origin"));
    }
    let left = claims.exp - now.timestamp();
    if left <= 0 {
        return Err(forbidden("the token has expired"));
    }
    if left > MAX_LIFE_SECONDS {
        return Err(forbidden("`exp` is more than 24 hours ahead"));
    }
    if !is_contact(&claims.sub) {
        return Err(forbidden("`sub` is no mailto: or https: URI"));
    }
    Ok(key.to_owned())
}

fn unauthorized(why: &'static str) -> Refusal {
    Refusal { status: StatusCode::UNAUTHORIZED, why }
}

fn forbidden(why: &'static str) -> Refusal {
    Refusal { status: StatusCode::FORBIDDEN, why }
}

fn parameters(authorization: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("vapid") {
        return None;
    }
    let parameter = |name: &str| {
        let mut pairs = rest.split(',').filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(n, _)| *n == name).map(|(_, value)| value)
    };
    Some((parameter("t")?, parameter("k")?))
}

/// The claims of a JWT that `key` signed with ES256 (RFC 7515, RFC 7518 section 3.4).
fn verified(token: &str, key: &str) -> Result<Claims, Refusal> {
    let point = BASE64_URL_SAFE_NO_PAD.decode(key).map_err(|_| unauthorized("`k` is not base64url"))?;
    let key = public_key(&point).ok_or(unauthorized("`k` is not a P-256 point"))?;
    let (signed, signature) = token.rsplit_once('.').ok_or(unauthorized("`t` is not a JWT"))?;
    let (header, claims) = signed.split_once('.').ok_or(unauthorized("`t` is not a JWT"))?;
    let header: Header = part(header).ok_or(unauthorized("the token's header cannot be read"))?;
    if header.alg != "ES256" {
        return Err(unauthorized("the token is not signed with ES256"));
    }
    let signature = signature_of(signature).ok_or(unauthorized("the signature is not 64 bytes"))?;
    match signature.verify(&sha256(signed.as_bytes()), &key) {
        Ok(true) => part(claims).ok_or(forbidden("`aud`, `exp` or `sub` is missing or of another type")),
        _ => Err(forbidden("the signature is not of `k`")),
    }
}

fn part<T: DeserializeOwned>(base64url: &str) -> Option<T> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(base64url).ok()?).ok()
}

fn signature_of(base64url: &str) -> Option<EcdsaSig> {
    let bytes: [u8; 64] = BASE64_URL_SAFE_NO_PAD.decode(base64url).ok()?.try_into().ok()?;
    let (r, s) = bytes.split_at(32);
    EcdsaSig::from_private_components(BigNum::from_slice(r).ok()?, BigNum::from_slice(s).ok()?).ok()
}

/// Apple is the strictest: no spaces, no angle brackets, no doubled scheme.
fn is_contact(sub: &str) -> bool {
    let rest = sub.strip_prefix("mailto:").filter(|rest| rest.contains('@')).or(sub.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.contains(|c: char| c.is_whitespace() || c == '<' || c == '>')
            && !rest.starts_with("mailto:")
    })
}
