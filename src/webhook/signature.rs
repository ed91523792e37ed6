//! Who speaks: the signature over an event as Svix makes it for Resend
//! (<https://docs.svix.com/receiving/verifying-payloads/how-manual>).
//!
//! Owns [`Key`]. Pure but for the cryptography: the caller passes the time. It must not know what is signed.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use openssl::hash::MessageDigest;
use openssl::memcmp;
use openssl::pkey::{PKey, Private};
use openssl::sign::Signer;
use secrecy::{ExposeSecret, SecretString};

/// What stands before the key in the form that Resend shows.
const PREFIX: &str = "whsec_";
/// An older or younger event is not believed: somebody may have kept it.
const TOLERANCE: TimeDelta = TimeDelta::minutes(5);

/// The secret that events are signed with. `Debug` does not show it.
pub struct Key(PKey<Private>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// What an event says of itself, in its headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp<'a> {
    /// `svix-id`: the same for every time that this event is sent.
    pub(super) id: &'a str,
    /// `svix-timestamp`: seconds since 1970.
    pub(super) timestamp: &'a str,
    /// `svix-signature`: one or more of `v1,` and base64, with spaces between them.
    pub(super) signatures: &'a str,
}

/// Why an event is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Disbelief {
    /// None of its signatures is ours.
    #[error("its signature is not ours")]
    Signature,
    /// It is too old, or of the future.
    #[error("its time is too far from now")]
    Time,
}

impl Key {
    /// Reads `whsec_` and base64, with or without the former.
    ///
    /// # Errors
    /// It is not that, with the form that it must have.
    pub fn parse(secret: &SecretString) -> Result<Key, &'static str> {
        const WRONG: &str = "must be what Resend shows as the webhook's signing secret: whsec_ and base64";
        let text = secret.expose_secret().trim();
        let bytes = BASE64_STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).map_err(|_| WRONG)?;
        if bytes.len() < 16 {
            return Err(WRONG);
        }
        PKey::hmac(&bytes).map(Key).map_err(|_| WRONG)
    }

    /// Whether `body` comes from who has the key, and from now.
    pub(super) fn verify(&self, stamp: Stamp<'_>, body: &[u8], now: DateTime<Utc>) -> Result<(), Disbelief> {
        let expected = self.sign(stamp.id, stamp.timestamp, body).ok_or(Disbelief::Signature)?;
        let is_ours = |signature: &str| {
            let given = signature.strip_prefix("v1,").and_then(|text| BASE64_STANDARD.decode(text).ok());
            given.is_some_and(|given| given.len() == expected.len() && memcmp::eq(&given, &expected))
        };
        if !stamp.signatures.split(' ').any(is_ours) {
            return Err(Disbelief::Signature);
        }
        let sent = stamp.timestamp.parse().ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
        match sent.map(|sent| (now - sent).abs()) {
            Some(off) if off <= TOLERANCE => Ok(()),
            _ => Err(Disbelief::Time),
        }
    }

    /// HMAC-SHA256 over id, timestamp and body with dots between them.
    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<Vec<u8>> {
        let mut signer = Signer::new(MessageDigest::sha256(), &self.0).ok()?;
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            signer.update(part).ok()?;
        }
        signer.sign_to_vec().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with Python's hmac and hashlib, not with this code.
    const SECRET: &str = "whsec_YW4gaW5kZXBlbmRlbnQgdGVzdCBzZWNyZXQgMDEyMyE=";
    const BODY: &str = r#"{"type":"email.bounced","created_at":"2026-08-03T06:00:00.000Z","data":{"email_id":"56761188-7520-42d8-8898-ff6fc54ce618"}}"#;
    const ID: &str = "msg_2b";
    const TIMESTAMP: &str = "1785736800";
    const SIGNATURE: &str = "v1,+waRXLejoOcpsD784T+64xfb/Bz96hBXQvK6qXOPUFo=";

    fn key() -> Key {
        Key::parse(&SECRET.into()).unwrap()
    }

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_785_736_800, 0).unwrap()
    }

    fn verified(stamp: Stamp<'_>, body: &str, later: i64) -> Result<(), Disbelief> {
        key().verify(stamp, body.as_bytes(), now() + TimeDelta::seconds(later))
    }

    const STAMP: Stamp<'_> = Stamp { id: ID, timestamp: TIMESTAMP, signatures: SIGNATURE };

    #[test]
    fn a_signature_that_another_program_made_is_taken() {
        assert_eq!(verified(STAMP, BODY, 0), Ok(()));
        let several = format!("v1,AAAA v1a,x {SIGNATURE}");
        assert_eq!(verified(Stamp { signatures: &several, ..STAMP }, BODY, 0), Ok(()));
    }

    #[test]
    fn whatever_is_changed_is_not_believed() {
        let other = SIGNATURE.replace("v1,", "v2,");
        for (stamp, body) in [
            (STAMP, "{}"),
            (Stamp { id: "msg_2c", ..STAMP }, BODY),
            (Stamp { timestamp: "1785736801", ..STAMP }, BODY),
            (Stamp { signatures: "", ..STAMP }, BODY),
            (Stamp { signatures: "v1,", ..STAMP }, BODY),
            (Stamp { signatures: "v1,not base64", ..STAMP }, BODY),
            (Stamp { signatures: &other, ..STAMP }, BODY),
        ] {
            assert_eq!(verified(stamp, body, 0), Err(Disbelief::Signature), "{stamp:?}");
        }
        let stranger = Key::parse(&"whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldA==".into()).unwrap();
        assert_eq!(stranger.verify(STAMP, BODY.as_bytes(), now()), Err(Disbelief::Signature));
    }

    #[test]
    fn an_event_of_another_time_is_not_believed() {
        for (later, expected) in
            [(300, Ok(())), (-300, Ok(())), (301, Err(Disbelief::Time)), (-301, Err(Disbelief::Time))]
        {
            assert_eq!(verified(STAMP, BODY, later), expected, "{later}");
        }
    }

    #[test]
    fn a_secret_that_is_none_is_told_without_being_shown() {
        for wrong in ["", "whsec_", "whsec_###", "whsec_c2hvcnQ="] {
            assert!(Key::parse(&wrong.into()).unwrap_err().contains("whsec_ and base64"), "{wrong}");
        }
        assert_eq!(format!("{:?}", key()), "Key(…)");
    }
}
