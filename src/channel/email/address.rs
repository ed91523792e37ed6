//! One plain mail address, as a recipient must be.
//!
//! Owns what counts as plain and the form in which two spellings of one address are equal. It must not
//! know an envelope or a provider.

use std::fmt;

use url::Host;

/// The longest local part (RFC 5321, 4.5.3.1.1), in octets.
const LOCAL_MAX: usize = 64;
/// The longest address: a path of 256 octets less its brackets (RFC 5321, 4.5.3.1.3).
const ADDRESS_MAX: usize = 254;
/// The longest label of a domain (RFC 1035, 2.3.4), in octets.
const LABEL_MAX: usize = 63;

/// `local@domain`, the domain in lower case and, where it is internationalised, in its ASCII form
/// (RFC 5890, A-labels). Personal data: `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address(String);

impl Address {
    /// Reads an address without display name, comment, quoting or company.
    ///
    /// Stricter than RFC 5322 where its freedom only serves mischief (quoted local parts, address
    /// literals), laxer where providers are (dots in odd places): those the provider judges itself.
    ///
    /// # Errors
    /// What keeps it from being one plain address, without the address.
    pub(super) fn parse(text: &str) -> Result<Address, &'static str> {
        if text.is_empty() {
            return Err("is empty");
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("holds white space or a control character: one plain address is needed");
        }
        let (local, domain) = text.split_once('@').ok_or("is not of the form local@domain")?;
        if local.is_empty() || local.len() > LOCAL_MAX {
            return Err("has no local part, or one of more than 64 bytes");
        }
        if !local.chars().all(is_local) {
            return Err("is not one plain address: no name, no list, no quotes");
        }
        let domain = ascii_domain(domain).ok_or("has no valid domain after its @")?;
        let address = format!("{local}@{domain}");
        if address.len() > ADDRESS_MAX { Err("is longer than 254 bytes") } else { Ok(Address(address)) }
    }

    /// The address, for the request and for comparing alone.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(…)")
    }
}

/// The characters of a dot-atom (RFC 5322, 3.2.3) and, for SMTPUTF8, letters and digits of any script
/// (RFC 6531): marks that hide or reorder text are none of them.
fn is_local(c: char) -> bool {
    c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c)
}

/// The domain as DNS knows it; `None` if it cannot be one, or is a bare host or an IP address.
fn ascii_domain(domain: &str) -> Option<String> {
    // The URL standard, which does the conversion, also decodes percent signs; mail does not.
    if domain.contains('%') {
        return None;
    }
    let Ok(Host::Domain(domain)) = Host::parse(domain) else { return None };
    let labels = || domain.split('.');
    let plain = labels().all(|label| {
        (1..=LABEL_MAX).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    });
    (plain && labels().count() > 1).then_some(domain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plain_address_is_taken_with_its_domain_in_canonical_form() {
        for (text, canonical) in [
            ("ann@example.test", "ann@example.test"),
            ("Ann.O'Neil+digest@Example.TEST", "Ann.O'Neil+digest@example.test"),
            ("ann@bücher.example", "ann@xn--bcher-kva.example"),
            ("ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"),
            ("jürgen@example.test", "jürgen@example.test"),
            ("a..b.@mail_1.example.test", "a..b.@mail_1.example.test"),
        ] {
            assert_eq!(Address::parse(text).map(|a| a.0), Ok(canonical.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_not_one_plain_address_is_refused() {
        for text in [
            "",
            "ann",
            "@example.test",
            "ann@",
            "ann@localhost",
            "ann@example.test.",
            "ann@.test",
            "ann@exa%6dple.test",
            "ann@[127.0.0.1]",
            "ann@127.0.0.1",
            "ann@0x7f.1",
            "ann@b@example.test",
            "Ann <ann@example.test>",
            "<ann@example.test>",
            "ann@example.test,bob@example.test",
            "ann@example.test;bob@example.test",
            "bob,ann@example.test",
            "\"ann\"@example.test",
            "ann(x)@example.test",
            " ann@example.test",
            "ann@example.test\r\nBcc: bob@example.test",
            "ann\u{0}@example.test",
            "ann\u{202e}@example.test",
            "ann\u{200b}@example.test",
            "ann@exam ple.test",
            "mailto:ann@example.test",
        ] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
        let at_most = format!("{}@{}.test", "a".repeat(64), "b".repeat(63));
        assert!(Address::parse(&at_most).is_ok());
        assert!(Address::parse(&format!("a{at_most}")).is_err());
        assert!(Address::parse(&format!("a@{}.test", "b".repeat(64))).is_err());
        assert!(Address::parse(&format!("a@{}test", "b.".repeat(125))).is_err());
    }

    proptest! {
        #[test]
        fn what_is_taken_is_one_address_and_stays_as_it_is(text in "[\\s\\S]{0,20}@?[\\s\\S]{0,20}|[a-zA-Z.]{1,9}@[a-zA-Zäß.]{1,9}") {
            if let Ok(address) = Address::parse(&text) {
                prop_assert_eq!(address.expose().matches('@').count(), 1);
                prop_assert!(!address.expose().contains([',', ';', '<', '>', ' ', '\r', '\n']));
                prop_assert_eq!(Address::parse(address.expose()), Ok(address));
            }
        }
    }
}
