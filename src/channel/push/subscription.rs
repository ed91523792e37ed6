//! The browser's PushSubscription as the envelope carries it, checked.
//!
//! Owns [`Subscription`]: an endpoint that may be sent to and keys that can be encrypted for. What is wrong
//! names its field and never its value. It must not encrypt or send.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openssl::bn::BigNumContext;
use openssl::ec::{EcGroup, EcPoint};
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use serde::Deserialize;
use web_push::SubscriptionKeys;

use super::endpoint::Endpoint;
use super::vapid::{POINT, UNCOMPRESSED, decode_base64};
use crate::envelope::{Envelope, FieldError};
use crate::outcome::{Cause, Detail, Refusal};

/// The length of the authentication secret, in bytes (RFC 8291, 3.2).
const AUTH: usize = 16;

/// P-256, set up once and not for every key.
static CURVE: LazyLock<Result<EcGroup, ErrorStack>> =
    LazyLock::new(|| EcGroup::from_curve_name(Nid::X9_62_PRIME256V1));

/// A subscription that can be sent to. `Debug` shows nothing of its keys.
#[derive(Clone)]
pub(super) struct Subscription {
    /// Where to.
    pub(super) endpoint: Endpoint,
    /// For whom, in base64url without padding.
    keys: SubscriptionKeys,
    /// The keys as the app wrote them.
    as_written: [String; 2],
}

#[derive(Deserialize)]
struct WireRecipient {
    push_subscription: WireSubscription,
}

#[derive(Deserialize)]
struct WireSubscription {
    endpoint: String,
    keys: WireKeys,
}

#[derive(Deserialize)]
struct WireKeys {
    p256dh: String,
    auth: String,
}

impl Subscription {
    /// Reads the recipient of `envelope`.
    ///
    /// # Errors
    /// A field that is missing or wrong ([`Cause::RecipientInvalid`]), or an endpoint that leads where the
    /// worker must not go ([`Cause::EndpointForbidden`]).
    pub(super) fn of(envelope: &Envelope, allow_private: bool) -> Result<Subscription, Refusal> {
        let invalid = |error: FieldError| error.refusal(Cause::RecipientInvalid);
        let wire: WireRecipient = envelope.recipient.decode().map_err(invalid)?;
        let WireSubscription { endpoint, keys: WireKeys { p256dh, auth } } = wire.push_subscription;
        let endpoint = Endpoint::parse(&endpoint, allow_private)?;
        let keys = SubscriptionKeys {
            p256dh: read_point(&p256dh).map_err(|problem| invalid(key_error("p256dh", problem)))?,
            auth: read_auth(&auth).map_err(|problem| invalid(key_error("auth", problem)))?,
        };
        Ok(Subscription { endpoint, keys, as_written: [p256dh, auth] })
    }

    /// The keys in the form that the encryption takes.
    pub(super) fn keys(&self) -> &SubscriptionKeys {
        &self.keys
    }

    /// Text from outside as a detail, without anything of this subscription.
    pub(super) fn scrub(&self, text: &str) -> Detail {
        let mut private = self.endpoint.private_parts();
        private.extend([self.keys.p256dh.as_str(), self.keys.auth.as_str()]);
        private.extend(self.as_written.iter().map(String::as_str));
        Detail::scrub(text, &private)
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({:?})", self.endpoint)
    }
}

fn key_error(key: &str, problem: &str) -> FieldError {
    FieldError::new(format!("recipient.push_subscription.keys.{key}"), problem)
}

fn read_point(text: &str) -> Result<String, &'static str> {
    let bytes = decode_base64(text).ok_or("is not base64")?;
    if bytes.len() != POINT || bytes.first() != Some(&UNCOMPRESSED) {
        return Err("is not an uncompressed point of 65 bytes");
    }
    let curve = CURVE.as_ref().map_err(|_| "cannot be checked: the cryptographic library lacks P-256")?;
    // The point is checked to lie on the curve as it is read.
    BigNumContext::new()
        .and_then(|mut context| EcPoint::from_bytes(curve, &bytes, &mut context))
        .map_err(|_| "is not a point on the curve P-256")?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn read_auth(text: &str) -> Result<String, &'static str> {
    let bytes = decode_base64(text).ok_or("is not base64")?;
    if bytes.len() != AUTH {
        return Err("is not 16 bytes");
    }
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::testing::{Receiver, envelope_for};
    use super::*;

    fn with_keys(p256dh: &Value, auth: &Value) -> Result<Subscription, Refusal> {
        let keys = json!({"p256dh": p256dh, "auth": auth});
        read(&json!({"endpoint": "https://push.example.net/x", "expirationTime": null, "keys": keys}))
    }

    fn read(subscription: &Value) -> Result<Subscription, Refusal> {
        Subscription::of(&envelope_for(subscription), false)
    }

    #[test]
    fn keys_are_read_in_either_alphabet_padded_or_not() {
        // Chosen so that both keys hold both of the letters in which the alphabets differ.
        let receiver = Receiver::rfc8291();
        let (point, auth) = (receiver.public(), receiver.auth());
        let expected = BASE64_URL_SAFE_NO_PAD.encode(&point);
        for encode in [
            |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes),
            |bytes: &[u8]| BASE64_URL_SAFE.encode(bytes),
            |bytes: &[u8]| BASE64_STANDARD.encode(bytes),
            |bytes: &[u8]| BASE64_STANDARD.encode(bytes).trim_end_matches('=').to_owned(),
        ] {
            let subscription = with_keys(&encode(&point).into(), &encode(&auth).into()).unwrap();
            assert_eq!(subscription.keys().p256dh, expected);
            assert_eq!(subscription.keys().auth, BASE64_URL_SAFE_NO_PAD.encode(&auth));
        }
    }

    #[test]
    fn a_wrong_key_is_an_invalid_recipient_that_names_the_field() {
        let receiver = Receiver::rfc8291();
        let good = BASE64_URL_SAFE_NO_PAD.encode(receiver.public());
        let auth = BASE64_URL_SAFE_NO_PAD.encode(receiver.auth());
        let point = |change: fn(&mut Vec<u8>)| {
            let mut point = receiver.public();
            change(&mut point);
            Value::from(BASE64_URL_SAFE_NO_PAD.encode(point))
        };
        for p256dh in [
            json!(""),
            json!("@@@@"),
            json!(7),
            Value::Null,
            point(|p| p[0] = 5),
            point(|p| p[64] ^= 1),
            point(|p| p[1..].fill(0)),
            point(|p| p.truncate(64)),
            point(|p| p.push(0)),
            point(|p| {
                p.truncate(33);
                p[0] = 2;
            }),
        ] {
            let refusal = with_keys(&p256dh, &auth.clone().into()).unwrap_err();
            assert_eq!(refusal.cause, Cause::RecipientInvalid);
            assert!(
                refusal.detail.as_str().starts_with("recipient.push_subscription.keys.p256dh"),
                "{refusal:?}"
            );
        }
        for auth in [json!(""), json!("AAAA"), json!("*"), json!([1]), json!("AAAAAAAAAAAAAAAAAAAAAAA")] {
            let refusal = with_keys(&good.clone().into(), &auth).unwrap_err();
            assert_eq!(refusal.cause, Cause::RecipientInvalid);
            assert!(
                refusal.detail.as_str().starts_with("recipient.push_subscription.keys.auth"),
                "{refusal:?}"
            );
        }
    }

    #[test]
    fn nothing_of_a_subscription_gets_into_a_detail_or_debug() {
        let receiver = Receiver::rfc8291();
        let p256dh = BASE64_STANDARD.encode(receiver.public());
        let auth = BASE64_STANDARD.encode(receiver.auth());
        let subscription = read(&json!({
            "endpoint": "https://push.example.net/send/cAfeBabe01?token=s3cr3t",
            "keys": {"p256dh": p256dh, "auth": auth},
        }))
        .unwrap();
        let said = format!(
            "no {} at push.example.net: cafebabe01, token=s3cr3t, {} {} {auth} {p256dh}",
            subscription.endpoint.url(),
            subscription.keys().auth,
            subscription.keys().p256dh,
        );
        let shown = format!("{} {subscription:?}", subscription.scrub(&said)).to_lowercase();
        for private in ["example.net", "cafebabe", "s3cr3t", &auth.to_lowercase(), &p256dh.to_lowercase()] {
            assert!(!shown.contains(private), "{shown}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~]{0,90}".prop_map(Value::from),
            "https://[a-z0-9.:@/]{0,30}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            let field = prop_oneof![Just("endpoint"), Just("keys"), Just("p256dh"), Just("auth"), Just("x")];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(field.prop_map(String::from), inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_subscription_makes_the_reader_panic(subscription in any_json()) {
            let _subscription = read(&subscription);
        }

        #[test]
        fn no_keys_make_the_reader_panic(p256dh: Vec<u8>, auth: Vec<u8>) {
            let encode = |bytes: &[u8]| Value::from(BASE64_URL_SAFE_NO_PAD.encode(bytes));
            let _subscription = with_keys(&encode(&p256dh), &encode(&auth));
        }

        #[test]
        fn no_65_bytes_are_taken_unless_they_can_be_encrypted_for(mut bytes in prop::collection::vec(any::<u8>(), 64)) {
            bytes.insert(0, UNCOMPRESSED);
            let refused = read_point(&BASE64_URL_SAFE_NO_PAD.encode(&bytes)).is_err();
            prop_assert!(refused, "random coordinates do not lie on the curve");
        }
    }
}
