//! The key that this worker proves itself to push services with (VAPID, RFC 8292).
//!
//! Owns reading, making and showing [`VapidKey`]. The private scalar leaves it in one place, for the
//! operator who asks for a new key; no error holds any part of it. It must not know where the key was
//! configured.

use std::fmt;

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openssl::ec::{EcGroup, EcKey};
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use secrecy::{ExposeSecret, SecretString};
use web_push::{PartialVapidSignatureBuilder, VapidSignatureBuilder};

/// The length of a private scalar of P-256, in bytes.
const SCALAR: usize = 32;
/// The length of an uncompressed point of P-256, in bytes: what browsers call the public key.
pub(super) const POINT: usize = 65;
/// The first byte of an uncompressed point (SEC 1, 2.3.3).
pub(super) const UNCOMPRESSED: u8 = 4;

/// A P-256 key pair. `Debug` shows the public half alone.
#[derive(Clone)]
pub struct VapidKey {
    scalar: SecretString,
    public: String,
    signer: PartialVapidSignatureBuilder,
}

/// Why a text is no VAPID key. No part of the text is in the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VapidKeyError {
    /// Neither base64 nor PEM.
    #[error(
        "is neither base64url of a private key nor PEM; `delivery-worker vapid generate` makes one that fits"
    )]
    Unreadable,
    /// The public key was given.
    #[error(
        "holds the public half of a key pair; give the private half (32 bytes, 43 characters of base64url)"
    )]
    PublicHalf,
    /// Base64 of something of another length, in bytes.
    #[error("decodes to {0} bytes; a private key has 32 (43 characters of base64url)")]
    Length(usize),
    /// Zero, or beyond the order of the curve.
    #[error(
        "is not a number that P-256 takes as a private key; make a new one with `delivery-worker vapid generate`"
    )]
    OutOfRange,
    /// PEM that is protected by a passphrase.
    #[error("is an encrypted PEM; take the passphrase off with `openssl pkcs8 -topk8 -nocrypt`")]
    Encrypted,
    /// PEM of no private key.
    #[error("is PEM, but not a whole private key of the form `EC PRIVATE KEY` or `PRIVATE KEY`")]
    Pem,
    /// A key of another algorithm or curve.
    #[error("is a private key of another kind; VAPID needs one on the curve P-256 (prime256v1)")]
    Curve,
    /// The cryptographic library failed.
    #[error("no key could be made: the system's random numbers are not to be had")]
    Random,
}

impl VapidKey {
    /// Reads a private key: 32 bytes in either base64 alphabet, padded or not, or PEM (SEC 1 or PKCS#8).
    /// Environment files write the line ends of a PEM as `\n`; that is read too.
    ///
    /// # Errors
    /// What is wrong and how to mend it, without the text.
    pub fn parse(text: &SecretString) -> Result<VapidKey, VapidKeyError> {
        let text = text.expose_secret().trim();
        if text.starts_with("-----BEGIN") {
            return VapidKey::of_pem(&text.replace("\\n", "\n"));
        }
        let bytes = decode_base64(text).ok_or(VapidKeyError::Unreadable)?;
        match (bytes.len(), bytes.first()) {
            (SCALAR, _) => VapidKey::of_scalar(&bytes),
            (POINT, Some(&UNCOMPRESSED)) => Err(VapidKeyError::PublicHalf),
            (length, _) => Err(VapidKeyError::Length(length)),
        }
    }

    /// Makes a new key pair.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<VapidKey, VapidKeyError> {
        let key = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)
            .and_then(|curve| EcKey::generate(&curve))
            .map_err(|_| VapidKeyError::Random)?;
        VapidKey::of_ec_key(&key)
    }

    /// The public half, as browsers take it for `applicationServerKey`: the uncompressed point of 65
    /// bytes in base64url without padding (RFC 8292, 3.2).
    pub fn public_base64url(&self) -> &str {
        &self.public
    }

    /// The private half in base64url without padding, for the one command that makes keys.
    pub fn private_base64url(&self) -> &SecretString {
        &self.scalar
    }

    pub(super) fn signer(&self) -> PartialVapidSignatureBuilder {
        self.signer.clone()
    }

    fn of_pem(pem: &str) -> Result<VapidKey, VapidKeyError> {
        if pem.contains("ENCRYPTED") {
            return Err(VapidKeyError::Encrypted);
        }
        // Without a callback of ours OpenSSL asks for a passphrase at the terminal.
        let key = PKey::private_key_from_pem_callback(pem.as_bytes(), |_| Ok(0)).map_err(|_| {
            if pem.contains("PUBLIC KEY") { VapidKeyError::PublicHalf } else { VapidKeyError::Pem }
        })?;
        let key = key.ec_key().map_err(|_| VapidKeyError::Curve)?;
        if key.group().curve_name() != Some(Nid::X9_62_PRIME256V1) {
            return Err(VapidKeyError::Curve);
        }
        VapidKey::of_ec_key(&key)
    }

    fn of_ec_key(key: &EcKey<Private>) -> Result<VapidKey, VapidKeyError> {
        let length = i32::try_from(SCALAR).map_err(|_| VapidKeyError::OutOfRange)?;
        let scalar = key.private_key().to_vec_padded(length).map_err(|_| VapidKeyError::OutOfRange)?;
        VapidKey::of_scalar(&scalar)
    }

    /// `scalar` must be 32 bytes long: the signing crate panics on any other length.
    fn of_scalar(scalar: &[u8]) -> Result<VapidKey, VapidKeyError> {
        let scalar = BASE64_URL_SAFE_NO_PAD.encode(scalar);
        let signer =
            VapidSignatureBuilder::from_base64_no_sub(&scalar).map_err(|_| VapidKeyError::OutOfRange)?;
        let public = BASE64_URL_SAFE_NO_PAD.encode(signer.get_public_key());
        Ok(VapidKey { scalar: scalar.into(), public, signer })
    }
}

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VapidKey({}, …)", self.public)
    }
}

/// Decodes either base64 alphabet, padded or not: apps and browsers write all four.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let decode = |alphabet: &Alphabet| {
        let config = GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true);
        GeneralPurpose::new(alphabet, config).decode(text).ok()
    };
    decode(&URL_SAFE).or_else(|| decode(&STANDARD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sender's key pair of RFC 8291, section 5.
    const SCALAR_TEXT: &str = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
    const PUBLIC_TEXT: &str =
        "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";

    fn parse(text: &str) -> Result<VapidKey, VapidKeyError> {
        VapidKey::parse(&SecretString::from(text))
    }

    fn ec_key(curve: Nid) -> EcKey<Private> {
        EcKey::generate(&EcGroup::from_curve_name(curve).unwrap()).unwrap()
    }

    fn text(pem: Vec<u8>) -> String {
        String::from_utf8(pem).unwrap()
    }

    #[test]
    fn a_key_is_read_in_either_alphabet_padded_or_not() {
        let standard = SCALAR_TEXT.replace('-', "+").replace('_', "/");
        for spelling in
            [SCALAR_TEXT.to_owned(), format!("{SCALAR_TEXT}="), standard.clone(), standard + "=\n"]
        {
            assert_eq!(parse(&spelling).unwrap().public_base64url(), PUBLIC_TEXT);
        }
    }

    #[test]
    fn a_key_is_read_from_both_kinds_of_pem_also_with_escaped_line_ends() {
        let key = ec_key(Nid::X9_62_PRIME256V1);
        let public = VapidKey::of_ec_key(&key).unwrap().public_base64url().to_owned();
        let sec1 = text(key.private_key_to_pem().unwrap());
        let pkcs8 = text(PKey::from_ec_key(key).unwrap().private_key_to_pem_pkcs8().unwrap());
        for pem in [&sec1, &pkcs8, &sec1.replace('\n', "\\n"), &pkcs8.replace('\n', "\r\n")] {
            assert_eq!(parse(pem).unwrap().public_base64url(), public);
        }
    }

    #[test]
    fn what_is_no_key_says_what_is_wrong() {
        let key = PKey::from_ec_key(ec_key(Nid::X9_62_PRIME256V1)).unwrap();
        let cipher = openssl::symm::Cipher::aes_128_cbc();
        let encrypted = text(key.private_key_to_pem_pkcs8_passphrase(cipher, b"secret").unwrap());
        let old = text(key.ec_key().unwrap().private_key_to_pem_passphrase(cipher, b"secret").unwrap());
        let other = text(ec_key(Nid::SECP384R1).private_key_to_pem().unwrap());
        let rsa = openssl::rsa::Rsa::generate(1024).unwrap();
        let rsa = text(PKey::from_rsa(rsa).unwrap().private_key_to_pem_pkcs8().unwrap());
        for (given, error) in [
            ("", VapidKeyError::Length(0)),
            ("not base64!", VapidKeyError::Unreadable),
            ("AAAA", VapidKeyError::Length(3)),
            (PUBLIC_TEXT, VapidKeyError::PublicHalf),
            (&BASE64_URL_SAFE_NO_PAD.encode([0; SCALAR]), VapidKeyError::OutOfRange),
            (&BASE64_URL_SAFE_NO_PAD.encode([0xff; SCALAR]), VapidKeyError::OutOfRange),
            (&text(key.public_key_to_pem().unwrap()), VapidKeyError::PublicHalf),
            ("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----", VapidKeyError::Pem),
            ("-----BEGIN", VapidKeyError::Pem),
            (&encrypted, VapidKeyError::Encrypted),
            (&old, VapidKeyError::Encrypted),
            (&other, VapidKeyError::Curve),
            (&rsa, VapidKeyError::Curve),
        ] {
            assert_eq!(parse(given).unwrap_err(), error);
        }
    }

    #[test]
    fn a_new_key_is_read_back_and_debug_hides_its_private_half() {
        let key = VapidKey::generate().unwrap();
        let again = VapidKey::parse(key.private_base64url()).unwrap();
        assert_eq!(again.public_base64url(), key.public_base64url());
        assert_eq!(decode_base64(key.public_base64url()).unwrap().len(), POINT);
        assert!(!format!("{key:?}").contains(key.private_base64url().expose_secret()));
        assert_ne!(VapidKey::generate().unwrap().public_base64url(), key.public_base64url());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(-----BEGIN [A-Z ]{0,20}-----)?[\\s\\S]{0,100}") {
            let _key = parse(&text);
        }
    }
}
