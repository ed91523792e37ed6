//! Whom a push service can turn to about this sender: the `sub` claim of VAPID (RFC 8292, 2.1).
//!
//! Owns the rules by which [`VapidSubject`] is taken. They are Apple's, the strictest: what it refuses is
//! found here, at the start, and not as a 403 on every iPhone. It must not know where the text comes from.

use std::fmt;

use url::{Host, Url};

/// Top-level domains that nobody can be reached at (RFC 2606, 6761, 6762, 9476; ICANN for `internal`).
const RESERVED: [&str; 10] =
    ["test", "example", "invalid", "localhost", "local", "localdomain", "internal", "lan", "onion", "alt"];

/// A `mailto:` or `https:` URL that every push service takes. It may be somebody's address: `Debug` hides
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct VapidSubject(String);

impl fmt::Debug for VapidSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VapidSubject(…)")
    }
}

/// Why a text is no VAPID subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VapidSubjectError {
    /// Another scheme, or none.
    #[error("must begin with `mailto:` or `https:`, such as mailto:ops@your-domain.com")]
    Scheme,
    /// White space or angle brackets.
    #[error("must hold no spaces and no angle brackets, such as mailto:ops@your-domain.com")]
    Characters,
    /// Not one plain address behind `mailto:`.
    #[error("must be `mailto:` and one plain address, such as mailto:ops@your-domain.com")]
    Address,
    /// Not a whole https URL, or one with a name and password.
    #[error("must be an https URL with a host and without credentials, such as https://your-domain.com")]
    Url,
    /// A host that is no public domain.
    #[error(
        "must name a domain of the public internet: localhost, IP addresses and reserved names such as .local are refused by push services"
    )]
    Domain,
}

impl VapidSubject {
    /// Takes a subject that Apple takes too.
    ///
    /// # Errors
    /// The rule that it breaks, with an example.
    pub fn parse(text: &str) -> Result<VapidSubject, VapidSubjectError> {
        let text = text.trim();
        if text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>')) {
            return Err(VapidSubjectError::Characters);
        }
        if let Some(address) = text.strip_prefix("mailto:") {
            check_address(address)?;
        } else if text.starts_with("https:") {
            check_url(text)?;
        } else {
            return Err(VapidSubjectError::Scheme);
        }
        Ok(VapidSubject(text.to_owned()))
    }

    /// The subject as it stands in the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_address(address: &str) -> Result<(), VapidSubjectError> {
    let unusual = |c: char| !c.is_ascii() || ":,;?&\"()[]\\/".contains(c);
    match address.split_once('@') {
        Some((local, domain)) if !local.is_empty() && !domain.contains('@') && !address.contains(unusual) => {
            check_host(&Host::parse(domain).map_err(|_| VapidSubjectError::Domain)?)
        }
        _ => Err(VapidSubjectError::Address),
    }
}

fn check_url(text: &str) -> Result<(), VapidSubjectError> {
    let url = Url::parse(text).map_err(|_| VapidSubjectError::Url)?;
    let authority = text.strip_prefix("https://").is_some_and(|rest| !rest.starts_with('/'));
    if !authority || !url.username().is_empty() || url.password().is_some() {
        return Err(VapidSubjectError::Url);
    }
    check_host(&url.host().ok_or(VapidSubjectError::Url)?.to_owned())
}

/// An IP address is refused whatever it is: it names nobody who could be asked.
fn check_host(host: &Host<String>) -> Result<(), VapidSubjectError> {
    let Host::Domain(domain) = host else { return Err(VapidSubjectError::Domain) };
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    let Some((name, top)) = domain.rsplit_once('.') else { return Err(VapidSubjectError::Domain) };
    let reserved = RESERVED.contains(&top) || domain.ends_with(".home.arpa");
    if reserved || name.is_empty() || domain.split('.').any(str::is_empty) {
        return Err(VapidSubjectError::Domain);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_apple_takes_is_taken_as_written() {
        for subject in [
            "mailto:ops@example.com",
            "mailto:first.last+push@mail.example.co.uk",
            "https://example.com",
            "https://example.com/contact?about=push",
            "https://example.com:8443/",
        ] {
            assert_eq!(VapidSubject::parse(subject).unwrap().as_str(), subject);
        }
        assert_eq!(
            VapidSubject::parse(" mailto:ops@example.com\n").unwrap().as_str(),
            "mailto:ops@example.com"
        );
    }

    #[test]
    fn what_apple_refuses_is_refused_with_the_rule_it_breaks() {
        use VapidSubjectError::{Address, Characters, Domain, Scheme, Url};
        for (subject, error) in [
            ("", Scheme),
            ("ops@example.com", Scheme),
            ("http://example.com", Scheme),
            ("tel:+441632960000", Scheme),
            ("mailto: ops@example.com", Characters),
            ("mailto:<ops@example.com>", Characters),
            ("mailto:Ops <ops@example.com>", Characters),
            ("mailto:mailto:ops@example.com", Address),
            ("mailto:", Address),
            ("mailto:ops", Address),
            ("mailto:@example.com", Address),
            ("mailto:a@b@example.com", Address),
            ("mailto:a@example.com,b@example.com", Address),
            ("mailto:a@example.com?subject=x", Address),
            ("mailto:a@", Domain),
            ("mailto:a@localhost", Domain),
            ("mailto:a@box.local", Domain),
            ("mailto:a@box.LOCAL.", Domain),
            ("mailto:a@127.0.0.1", Domain),
            ("mailto:a@[2001:db8::1]", Address),
            ("mailto:a@example..com", Domain),
            ("https:", Url),
            ("https:example.com", Url),
            ("https:///example.com", Url),
            ("https://user:pass@example.com", Url),
            ("https://localhost", Domain),
            ("https://localhost:8443/x", Domain),
            ("https://app.test", Domain),
            ("https://app.invalid", Domain),
            ("https://app.example", Domain),
            ("https://app.localhost", Domain),
            ("https://app.internal", Domain),
            ("https://nas.home.arpa", Domain),
            ("https://93.184.216.34", Domain),
            ("https://[::1]/", Domain),
            ("https://0x7f.1/", Domain),
        ] {
            assert_eq!(VapidSubject::parse(subject).unwrap_err(), error, "{subject}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(mailto:|https:)?[\\s\\S]{0,60}") {
            let _subject = VapidSubject::parse(&text);
        }
    }
}
