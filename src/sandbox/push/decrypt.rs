//! A browser's end of push encryption: its keys, and the opening of what was sealed for them.
//!
//! Owns RFC 8291 and the part of RFC 8188 that it uses (one record). Written apart from the worker's
//! own encryption, on OpenSSL alone, so that a mistake there cannot hide behind the same one here.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openssl::bn::BigNumContext;
use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey, EcPoint, PointConversionForm};
use openssl::error::ErrorStack;
use openssl::md::Md;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private, Public};
use openssl::pkey_ctx::PkeyCtx;
use openssl::symm::{Cipher, decrypt_aead};

/// The first bytes of a body: salt, record size, length of the key id (RFC 8188, 2.1).
const SALT: usize = 16;
const HEADER: usize = SALT + 4 + 1;
/// An uncompressed point of P-256.
const POINT: usize = 65;
const TAG: usize = 16;
/// The smallest record size that RFC 8188 allows: a tag, the delimiter and one byte.
const MIN_RECORD: u32 = 18;

/// Why a body cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecryptError {
    #[error("the body is shorter than its header")]
    TooShort,
    #[error("the key id is not an uncompressed P-256 point")]
    KeyId,
    #[error("the record size is too small, or the body has more than one record")]
    RecordSize,
    #[error("the ciphertext is not sealed for this subscription")]
    NotForUs,
    #[error("the padding delimiter of a last record is missing")]
    Padding,
}

impl From<ErrorStack> for DecryptError {
    fn from(_: ErrorStack) -> DecryptError {
        DecryptError::NotForUs
    }
}

/// What a subscription keeps to itself, and the halves that it gives away.
#[derive(Debug)]
pub(super) struct Receiver {
    key: EcKey<Private>,
    public: Vec<u8>,
    auth: Vec<u8>,
}

impl Receiver {
    /// New random keys.
    pub(super) fn generate() -> Result<Receiver, ErrorStack> {
        let key = EcKey::generate(&*p256()?)?;
        let mut auth = vec![0; 16];
        openssl::rand::rand_bytes(&mut auth)?;
        Ok(Receiver { public: point_bytes(&key)?, key, auth })
    }

    /// The public key as a PushSubscription writes it.
    pub(super) fn p256dh(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&self.public)
    }

    /// The authentication secret as a PushSubscription writes it.
    pub(super) fn auth(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&self.auth)
    }

    /// Opens an aes128gcm body.
    pub(super) fn decrypt(&self, body: &[u8]) -> Result<Vec<u8>, DecryptError> {
        let (header, rest) = body.split_at_checked(HEADER).ok_or(DecryptError::TooShort)?;
        let (salt, sizes) = header.split_at(SALT);
        let [r0, r1, r2, r3, key_length] = sizes else { return Err(DecryptError::TooShort) };
        let record_size = u32::from_be_bytes([*r0, *r1, *r2, *r3]);
        let (sender, record) =
            rest.split_at_checked(usize::from(*key_length)).ok_or(DecryptError::TooShort)?;
        if record_size < MIN_RECORD || u32::try_from(record.len()).is_ok_and(|length| length > record_size) {
            return Err(DecryptError::RecordSize);
        }
        let (content_key, nonce) = self.keys(sender, salt)?;
        let (sealed, tag) = record
            .len()
            .checked_sub(TAG)
            .and_then(|at| record.split_at_checked(at))
            .ok_or(DecryptError::TooShort)?;
        let padded = decrypt_aead(Cipher::aes_128_gcm(), &content_key, Some(&nonce), &[], sealed, tag)?;
        unpad(padded)
    }

    /// The content key and the nonce of the first record (RFC 8291, 3.4).
    fn keys(&self, sender: &[u8], salt: &[u8]) -> Result<([u8; 16], [u8; 12]), DecryptError> {
        let sender_key = public_key(sender).ok_or(DecryptError::KeyId)?;
        let own = PKey::from_ec_key(self.key.clone())?;
        let peer = PKey::from_ec_key(sender_key)?;
        let mut deriver = Deriver::new(&own)?;
        deriver.set_peer(&peer)?;
        let shared = deriver.derive_to_vec()?;
        let info = [b"WebPush: info\0".as_slice(), &self.public, sender].concat();
        let ikm: [u8; 32] = hkdf(&self.auth, &shared, &info)?;
        let content_key = hkdf(salt, &ikm, b"Content-Encoding: aes128gcm\0")?;
        let nonce = hkdf(salt, &ikm, b"Content-Encoding: nonce\0")?;
        Ok((content_key, nonce))
    }
}

/// A key from an uncompressed point; `None` for anything else, also off the curve.
pub(super) fn public_key(point: &[u8]) -> Option<EcKey<Public>> {
    if point.len() != POINT || point.first() != Some(&4) {
        return None;
    }
    let group = p256().ok()?;
    let mut context = BigNumContext::new().ok()?;
    let point = EcPoint::from_bytes(&group, point, &mut context).ok()?;
    let key = EcKey::from_public_key(&group, &point).ok()?;
    key.check_key().ok()?;
    Some(key)
}

/// The public half as an uncompressed point.
pub(super) fn point_bytes(key: &EcKey<Private>) -> Result<Vec<u8>, ErrorStack> {
    let mut context = BigNumContext::new()?;
    key.public_key().to_bytes(key.group(), PointConversionForm::UNCOMPRESSED, &mut context)
}

/// The curve of Web Push.
pub(super) fn p256() -> Result<EcGroup, ErrorStack> {
    EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)
}

/// HKDF with SHA-256 (RFC 5869).
fn hkdf<const N: usize>(salt: &[u8], ikm: &[u8], info: &[u8]) -> Result<[u8; N], ErrorStack> {
    let mut context = PkeyCtx::new_id(Id::HKDF)?;
    context.derive_init()?;
    context.set_hkdf_md(Md::sha256())?;
    context.set_hkdf_salt(salt)?;
    context.set_hkdf_key(ikm)?;
    context.add_hkdf_info(info)?;
    let mut out = [0; N];
    context.derive(Some(&mut out))?;
    Ok(out)
}

/// A last record ends in the delimiter 2 and any number of zeros (RFC 8188, 2).
fn unpad(mut padded: Vec<u8>) -> Result<Vec<u8>, DecryptError> {
    while padded.last() == Some(&0) {
        padded.pop();
    }
    match padded.pop() {
        Some(2) => Ok(padded),
        _ => Err(DecryptError::Padding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::bn::BigNum;

    fn bytes(base64url: &str) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(base64url).unwrap()
    }

    /// The receiver of RFC 8291, section 5.
    fn receiver() -> Receiver {
        let public =
            bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4");
        let secret = BigNum::from_slice(&bytes("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")).unwrap();
        let point = public_key(&public).unwrap();
        let key = EcKey::from_private_components(&p256().unwrap(), &secret, point.public_key()).unwrap();
        key.check_key().unwrap();
        Receiver { key, public, auth: bytes("BTBZMqHH6r4Tts7J_aSIgg") }
    }

    fn example() -> Vec<u8> {
        bytes(concat!(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml",
            "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT",
            "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
        ))
    }

    #[test]
    fn the_example_of_rfc_8291_opens() {
        let plain = receiver().decrypt(&example()).unwrap();
        assert_eq!(plain, b"When I grow up, I want to be a watermelon");
    }

    #[test]
    fn one_changed_bit_anywhere_opens_nothing() {
        let (receiver, example) = (receiver(), example());
        // Bytes 16 to 19 are the record size: no part of what is sealed.
        for at in (0..example.len()).filter(|at| !(SALT..SALT + 4).contains(at)) {
            let mut changed = example.clone();
            changed[at] ^= 1;
            assert!(receiver.decrypt(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_body_that_is_cut_anywhere_is_an_error() {
        let (receiver, example) = (receiver(), example());
        for length in 0..example.len() {
            assert!(receiver.decrypt(&example[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn another_subscription_cannot_open_it() {
        let other = Receiver::generate().unwrap();
        assert!(matches!(other.decrypt(&example()), Err(DecryptError::NotForUs)));
    }

    #[test]
    fn a_body_of_more_than_one_record_is_refused() {
        let mut small = example();
        small[SALT..SALT + 4].copy_from_slice(&57_u32.to_be_bytes());
        assert!(matches!(receiver().decrypt(&small), Err(DecryptError::RecordSize)));
    }

    #[test]
    fn padding_goes_and_its_delimiter_is_needed() {
        assert_eq!(unpad(vec![7, 0, 2, 0, 0]).unwrap(), [7, 0]);
        assert!(unpad(vec![7, 1]).is_err(), "the delimiter of a record that is not the last");
        assert!(unpad(vec![0, 0]).is_err());
    }
}
