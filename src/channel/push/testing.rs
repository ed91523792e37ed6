//! What the tests of this channel share: a receiver that decrypts by itself, and envelopes for it.
//!
//! The decryption is written after RFC 8188 and 8291 on OpenSSL alone, so that it proves the encryption
//! and does not merely agree with it. The RFC's own example proves the decryption.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openssl::bn::{BigNum, BigNumContext};
use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey, EcPoint, PointConversionForm};
use openssl::ecdsa::EcdsaSig;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::sign::Signer;
use openssl::symm::{Cipher, decrypt_aead};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use url::Url;

use super::{Settings, VapidKey, VapidSubject};
use crate::envelope::{self, Envelope, Reading};
use crate::render::Notification;

/// A browser, as far as it has keys.
pub(super) struct Receiver {
    key: EcKey<Private>,
    auth: Vec<u8>,
}

fn curve() -> EcGroup {
    EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap()
}

pub(super) fn bytes(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

impl Receiver {
    pub(super) fn new() -> Receiver {
        let mut auth = vec![0; 16];
        openssl::rand::rand_bytes(&mut auth).unwrap();
        Receiver { key: EcKey::generate(&curve()).unwrap(), auth }
    }

    /// The user agent of RFC 8291, section 5.
    pub(super) fn rfc8291() -> Receiver {
        let scalar = BigNum::from_slice(&bytes("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")).unwrap();
        let mut point = EcPoint::new(&curve()).unwrap();
        point.mul_generator2(&curve(), &scalar, &mut BigNumContext::new().unwrap()).unwrap();
        let key = EcKey::from_private_components(&curve(), &scalar, &point).unwrap();
        Receiver { key, auth: bytes("BTBZMqHH6r4Tts7J_aSIgg") }
    }

    pub(super) fn public(&self) -> Vec<u8> {
        let mut context = BigNumContext::new().unwrap();
        self.key.public_key().to_bytes(&curve(), PointConversionForm::UNCOMPRESSED, &mut context).unwrap()
    }

    pub(super) fn auth(&self) -> Vec<u8> {
        self.auth.clone()
    }

    pub(super) fn subscription(&self, endpoint: &str) -> Value {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        json!({"endpoint": endpoint, "keys": {"p256dh": encode(&self.public()), "auth": encode(&self.auth)}})
    }

    /// The plaintext of a body of one record; `None` if it is not for this receiver.
    pub(super) fn decrypt(&self, body: &[u8]) -> Option<Vec<u8>> {
        let (salt, rest) = body.split_at_checked(16)?;
        let (record_size, rest) = rest.split_at_checked(4)?;
        let (length, rest) = rest.split_at_checked(1)?;
        let (sender, record) = rest.split_at_checked(usize::from(length[0]))?;
        assert!(record.len() <= u32::from_be_bytes(record_size.try_into().unwrap()) as usize, "one record");

        let mut context = BigNumContext::new().unwrap();
        let point = EcPoint::from_bytes(&curve(), sender, &mut context).ok()?;
        let theirs = PKey::from_ec_key(EcKey::from_public_key(&curve(), &point).unwrap()).unwrap();
        let ours = PKey::from_ec_key(self.key.clone()).unwrap();
        let mut deriver = Deriver::new(&ours).unwrap();
        deriver.set_peer(&theirs).unwrap();
        let secret = deriver.derive_to_vec().unwrap();

        let info = [b"WebPush: info\0".as_slice(), &self.public(), sender].concat();
        let ikm = hkdf(&self.auth, &secret, &info, 32);
        let key = hkdf(salt, &ikm, b"Content-Encoding: aes128gcm\0", 16);
        let nonce = hkdf(salt, &ikm, b"Content-Encoding: nonce\0", 12);
        let (sealed, tag) = record.split_at_checked(record.len().checked_sub(16)?)?;
        let mut text = decrypt_aead(Cipher::aes_128_gcm(), &key, Some(&nonce), &[], sealed, tag).ok()?;
        while text.last() == Some(&0) {
            text.pop();
        }
        assert_eq!(text.pop(), Some(2), "the delimiter of the last record");
        Some(text)
    }
}

/// HKDF-SHA-256 (RFC 5869) of at most one block.
fn hkdf(salt: &[u8], ikm: &[u8], info: &[u8], length: usize) -> Vec<u8> {
    let mut key = hmac(&hmac(salt, ikm), &[info, &[1]].concat());
    key.truncate(length);
    key
}

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let key = PKey::hmac(key).unwrap();
    let mut signer = Signer::new(MessageDigest::sha256(), &key).unwrap();
    signer.sign_oneshot_to_vec(data).unwrap()
}

/// Settings with a new key, for strict endpoints.
pub(super) fn settings() -> Settings {
    Settings {
        key: VapidKey::generate().unwrap(),
        subject: VapidSubject::parse("mailto:ops@example.com").unwrap(),
        allow_private_endpoints: false,
    }
}

/// The claims of a VAPID header, after its signature has been checked against the key beside it.
pub(super) fn claims(header: &HeaderValue) -> Value {
    let (token, key) = header.to_str().unwrap().strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let point = EcPoint::from_bytes(&curve(), &bytes(key), &mut BigNumContext::new().unwrap()).unwrap();
    let key = EcKey::from_public_key(&curve(), &point).unwrap();
    let signature = bytes(signature);
    let (r, s) = signature.split_at(32);
    let number = |bytes| BigNum::from_slice(bytes).unwrap();
    let signature = EcdsaSig::from_private_components(number(r), number(s)).unwrap();
    assert!(signature.verify(&openssl::sha::sha256(signed.as_bytes()), &key).unwrap(), "the signature holds");
    let (head, claims) = signed.split_once('.').unwrap();
    let head: Value = serde_json::from_slice(&bytes(head)).unwrap();
    assert_eq!((&head["alg"], &head["typ"]), (&json!("ES256"), &json!("JWT")));
    serde_json::from_slice(&bytes(claims)).unwrap()
}

pub(super) fn notification() -> Notification {
    Notification {
        title: "O'Neil & <b>Sons</b>".to_owned(),
        body: "Three highlights wait \u{1F4DA}".to_owned(),
        url: Url::parse("https://app.test/player/x?t=1&u=2").unwrap(),
    }
}

pub(super) fn envelope_for(subscription: &Value) -> Envelope {
    envelope_with(subscription, &json!({}))
}

/// An envelope for `subscription`, with `fields` in place of its own.
pub(super) fn envelope_with(subscription: &Value, fields: &Value) -> Envelope {
    let mut whole = json!({
        "schema_version": "1", "id": "e-1", "user_id": "u-1", "channel": "push",
        "template": "resurface-nudge.v1", "recipient": {"push_subscription": subscription},
        "consent_snapshot": {"unsubscribe_ref": "r-1"}, "payload": {},
        "created_at": "2026-08-03T06:00:00Z", "expires_at": "2026-08-03T08:00:00Z"
    });
    for (name, value) in fields.as_object().unwrap() {
        whole[name] = value.clone();
    }
    match envelope::read(&whole.to_string()) {
        Reading::Envelope(envelope) => *envelope,
        other => panic!("not an envelope: {other:?}"),
    }
}

/// What only a push comes to without an answer, in words, as the code has it.
pub(in crate::channel) fn without_answer() -> [(&'static str, super::Attempt); 3] {
    [
        (
            "an unknown push service's endpoint is not public",
            super::client::forbidden(super::endpoint::Service::Other),
        ),
        (
            "a known push service's name resolves to an address that is not public",
            super::client::forbidden(super::endpoint::Service::Fcm),
        ),
        ("a push could not be encrypted or signed", super::crypto_failed()),
    ]
}

#[test]
fn the_receiver_reads_the_example_of_rfc_8291() {
    let body = bytes(concat!(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz",
        "AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
    ));
    let text = Receiver::rfc8291().decrypt(&body).unwrap();
    assert_eq!(text, b"When I grow up, I want to be a watermelon");
}
