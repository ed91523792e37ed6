//! Where a push endpoint leads, and whether the worker may go there.
//!
//! Owns [`Endpoint`]: an endpoint is whatever a user's browser said, and the worker sits inside a private
//! network. What can be judged by the URL alone is judged here; names are judged by the resolver, when
//! they are connected to. It must not send anything.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Position, Url};

use super::address::is_public;
use crate::channel::{Destination, GateId};
use crate::envelope::FieldError;
use crate::outcome::{Cause, Refusal};

/// The field that an endpoint is read from.
const FIELD: &str = "recipient.push_subscription.endpoint";

/// Whose push service an endpoint belongs to. Each has its own ways to say no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Chrome and its kin: Firebase Cloud Messaging.
    Fcm,
    /// Firefox: autopush.
    Mozilla,
    /// Safari: the Apple Push Notification service.
    Apple,
    /// Edge on Windows: the Windows Notification Service.
    Windows,
    /// Any other, of which nothing is known.
    Other,
}

impl Service {
    /// The name in logs and metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Service::Fcm => "fcm",
            Service::Mozilla => "mozilla",
            Service::Apple => "apple",
            Service::Windows => "windows",
            Service::Other => "other",
        }
    }

    /// Whether the service's names are its owner's alone, so that what they resolve to says nothing
    /// about whoever wrote the endpoint.
    pub(super) fn is_known(self) -> bool {
        self != Service::Other
    }

    /// A known service by its host; a root's trailing dot is the same host.
    fn of(host: &Host<&str>) -> Service {
        let Host::Domain(name) = host else { return Service::Other };
        let name = name.strip_suffix('.').unwrap_or(name);
        let below = |parent: &str| name.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
        match name {
            "fcm.googleapis.com" => Service::Fcm,
            _ if below("push.services.mozilla.com") => Service::Mozilla,
            _ if below("push.apple.com") => Service::Apple,
            _ if below("notify.windows.com") => Service::Windows,
            _ => Service::Other,
        }
    }
}

/// An endpoint that may be sent to, as far as its URL tells. Whoever knows it can send: `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    url: Url,
    service: Service,
}

impl Endpoint {
    /// Reads an endpoint. With `allow_private` it may also be plain http, and on any address.
    ///
    /// An address is judged as it will be connected to: the parser has turned `0x7f.1`, `127.1` and
    /// decimal forms into the address that they mean. The bare origin of a known service is nobody's
    /// subscription, whatever it answers.
    ///
    /// # Errors
    /// The endpoint is no URL that can be sent to ([`Cause::RecipientInvalid`]), or leads where the
    /// worker must not go ([`Cause::EndpointForbidden`]).
    pub(super) fn parse(text: &str, allow_private: bool) -> Result<Endpoint, Refusal> {
        let invalid = |problem: &str| FieldError::new(FIELD, problem).refusal(Cause::RecipientInvalid);
        let forbidden = |problem: &str| FieldError::new(FIELD, problem).refusal(Cause::EndpointForbidden);

        let mut url = Url::parse(text).map_err(|_| invalid("is not an absolute URL"))?;
        match url.scheme() {
            "https" => {}
            "http" if allow_private => {}
            _ => return Err(forbidden("is not https")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(forbidden("holds credentials"));
        }
        let host = url.host().ok_or_else(|| invalid("has no host"))?;
        let address = match host {
            Host::Domain(_) => None,
            Host::Ipv4(v4) => Some(IpAddr::V4(v4)),
            Host::Ipv6(v6) => Some(IpAddr::V6(v6)),
        };
        if !allow_private && address.is_some_and(|address| !is_public(address)) {
            return Err(forbidden("is not on the public internet"));
        }
        let service = Service::of(&host);
        if service.is_known() && url.path() == "/" {
            return Err(invalid("is the bare origin of a push service"));
        }
        url.set_fragment(None);
        Ok(Endpoint { url, service })
    }

    /// The URL to post to, in its canonical form.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Whose it is.
    pub(super) fn service(&self) -> Service {
        self.service
    }

    /// Scheme, host, and port where it is not the scheme's default (RFC 6454, 6.2): the audience of the
    /// VAPID token (RFC 8292, 2).
    pub(super) fn origin(&self) -> &str {
        &self.url[..Position::BeforePath]
    }

    /// The gate: one per origin.
    pub(super) fn gate(&self) -> GateId {
        GateId::new(self.origin(), self.service.label())
    }

    /// The destination: the endpoint itself.
    pub(super) fn destination(&self) -> Destination {
        Destination::new(self.url.as_str())
    }

    /// What of the endpoint must not be quoted from an answer: all of it, its path and query, each longer
    /// segment or value (Windows' capability is the query's `token`), and the host where it is not a known
    /// service's.
    pub(super) fn private_parts(&self) -> Vec<&str> {
        /// Shorter segments (`wpush`, `v2`, `send`) are words, not capabilities.
        const LONGEST_WORD: usize = 5;
        let host = self.url.host_str().filter(|_| !self.service.is_known());
        let path = self.url.path();
        let values = self.url.query().unwrap_or_default().split(['&', '=']);
        let segments = path.split('/').chain(values).filter(|segment| segment.len() > LONGEST_WORD);
        let whole = Some(path).filter(|path| path.len() > 1);
        [Some(self.url.as_str()), whole, self.url.query(), host]
            .into_iter()
            .flatten()
            .chain(segments)
            .collect()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({}, …)", self.service.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> Cause {
        let refusal = Endpoint::parse(text, false).unwrap_err();
        assert!(refusal.detail.as_str().starts_with(FIELD), "{text}");
        refusal.cause
    }

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::parse(text, false).unwrap()
    }

    /// Case 21: `:8443` with the port, `:443` without.
    #[test]
    fn the_audience_holds_the_port_where_it_is_not_the_default() {
        for (text, origin) in [
            ("https://push.example.net:8443/x", "https://push.example.net:8443"),
            ("https://push.example.net:443/x", "https://push.example.net"),
            ("https://PUSH.example.net/x?y#z", "https://push.example.net"),
            ("https://bücher.example.net/x", "https://xn--bcher-kva.example.net"),
            ("https://[2606:4700::1111]:8443/x", "https://[2606:4700::1111]:8443"),
        ] {
            assert_eq!(endpoint(text).origin(), origin);
        }
        assert_eq!(Endpoint::parse("http://127.0.0.1:80/x", true).unwrap().origin(), "http://127.0.0.1");
    }

    /// Case 21: `/relative` and the empty one.
    #[test]
    fn what_is_no_url_to_send_to_is_an_invalid_recipient() {
        for text in
            ["", "/relative", "//push.example.net/x", "https://", "https:///", "https://exa mple/", "x"]
        {
            assert_eq!(refused(text), Cause::RecipientInvalid, "{text}");
        }
    }

    /// Case 21: `data:x`.
    /// Case 23: literals in any spelling.
    #[test]
    fn another_scheme_credentials_and_private_addresses_in_any_spelling_are_forbidden() {
        for text in [
            "data:x",
            "file:///etc/passwd",
            "http://push.example.net/x",
            "ws://push.example.net/x",
            "https://user@push.example.net/x",
            "https://:pass@push.example.net/x",
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://0x7f.1/x",
            "https://2130706433/x",
            "https://0177.0.0.1/x",
            "https://127.0.0.1./x",
            "https://１２７.0.0.1/x",
            "https://%31%32%37.0.0.1/x",
            "https://[::1]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://[0:0:0:0:0:ffff:a00:1]/x",
            "https://100.64.0.1/x",
            "https://169.254.169.254/x",
            "https://0/x",
        ] {
            assert_eq!(refused(text), Cause::EndpointForbidden, "{text}");
        }
    }

    #[test]
    fn private_endpoints_are_allowed_for_development_but_credentials_and_other_schemes_never() {
        for text in ["http://127.0.0.1:9/x", "https://[::1]/x", "http://localhost/x"] {
            assert!(Endpoint::parse(text, true).is_ok(), "{text}");
        }
        for text in ["http://user@127.0.0.1/x", "file:///x", "ws://localhost/x"] {
            assert_eq!(Endpoint::parse(text, true).unwrap_err().cause, Cause::EndpointForbidden, "{text}");
        }
    }

    #[test]
    fn a_known_service_is_told_by_its_whole_name() {
        for (text, service) in [
            ("https://fcm.googleapis.com/fcm/send/x", Service::Fcm),
            ("https://fcm.googleapis.com./fcm/send/x", Service::Fcm),
            ("https://updates.push.services.mozilla.com/wpush/v2/x", Service::Mozilla),
            ("https://web.push.apple.com/x", Service::Apple),
            ("https://db5p.notify.windows.com/w/?token=x", Service::Windows),
            ("https://xfcm.googleapis.com/x", Service::Other),
            ("https://fcm.googleapis.com.evil.net/x", Service::Other),
            ("https://evilnotify.windows.com/x", Service::Other),
            ("https://notify.windows.com.evil.net/x", Service::Other),
            ("https://8.8.8.8/x", Service::Other),
        ] {
            assert_eq!(endpoint(text).service(), service, "{text}");
        }
    }

    /// Case 20: an endpoint at the bare origin of a real service.
    #[test]
    fn the_bare_origin_of_a_known_service_is_nobodys_subscription() {
        for text in [
            "https://fcm.googleapis.com",
            "https://web.push.apple.com/?x",
            "https://db5p.notify.windows.com/#x",
        ] {
            assert_eq!(refused(text), Cause::RecipientInvalid, "{text}");
        }
        assert!(Endpoint::parse("https://push.example.net", false).is_ok());
    }

    #[test]
    fn two_spellings_of_one_endpoint_are_one_destination_behind_one_gate() {
        let (one, other) =
            (endpoint("https://push.example.net/a"), endpoint("HTTPS://Push.Example.net:443/b/../a#f"));
        assert_eq!(one.destination(), other.destination());
        assert_eq!(one.gate(), other.gate());
        assert_ne!(one.gate(), endpoint("https://push.example.net:8443/a").gate());
        assert_eq!(one.gate().label(), "other");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic_and_no_text_is_in_a_refusal(text in "(https://)?[\\s\\S]{0,60}", allow: bool) {
            if let Err(refusal) = Endpoint::parse(&text, allow) {
                prop_assert!(text.len() < 12 || !refusal.detail.as_str().contains(&text));
            }
        }

        #[test]
        fn an_endpoint_on_an_address_is_taken_if_and_only_if_that_is_public(bits: u32) {
            let text = format!("https://{bits}/x");
            prop_assert_eq!(Endpoint::parse(&text, false).is_ok(), is_public(IpAddr::V4(bits.into())));
        }
    }
}
