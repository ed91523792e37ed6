//! The forms of single values: addresses, origins, names. Pure, and what is wrong is said in words.

use std::net::SocketAddr;
use std::path::PathBuf;

use reqwest::header::HeaderName;
use url::Url;

use crate::channel::Rate;

/// Headers that the client itself sets, or that no proxy may pass on.
const TAKEN_HEADERS: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "user-agent",
];

/// The base of an API: a path prefix is kept, anything after it has no meaning.
pub(super) fn base_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "must be a whole URL")?;
    match url.scheme() {
        "http" | "https" => {}
        _ => return Err("must begin with http:// or https://"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold credentials");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end before any ? or #");
    }
    Ok(url)
}

/// An origin: scheme, host and port, nothing else.
pub(super) fn origin(text: &str) -> Result<Url, &'static str> {
    let url = base_url(text)?;
    match url.path() {
        "/" => Ok(url),
        _ => Err("must end after host and port: the links bring their own paths"),
    }
}

/// An absolute path of a URL, which stays on whatever origin it is put behind.
pub(super) fn absolute_path(text: &str) -> Result<String, &'static str> {
    if !text.starts_with('/') || text.starts_with("//") || text.contains('\\') {
        return Err("must begin with exactly one /");
    }
    if text.contains(['?', '#']) || text.contains(char::is_whitespace) {
        return Err("must be a path alone, without ?, # or spaces");
    }
    Ok(text.to_owned())
}

/// A header that a secret can travel in.
pub(super) fn header_name(text: &str) -> Result<HeaderName, &'static str> {
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| "is not a header's name")?;
    match TAKEN_HEADERS.contains(&name.as_str()) {
        true => Err("is a header that means something else"),
        false => Ok(name),
    }
}

/// A mailbox as Resend takes it: `a@b` or `Name <a@b>`.
pub(super) fn mailbox(text: &str) -> Result<String, &'static str> {
    const FORM: &str = "must be an address, alone or as Name <address>";
    let address = match text.strip_suffix('>') {
        Some(inner) => inner.split_once('<').map(|(_, address)| address).ok_or(FORM)?,
        None => text,
    };
    let (local, domain) = address.split_once('@').ok_or(FORM)?;
    let plain = |part: &str| {
        !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>()[],;:\\\"@".contains(c))
    };
    let labels = domain.split('.').all(|label| !label.is_empty());
    if plain(local) && plain(domain) && labels { Ok(text.to_owned()) } else { Err(FORM) }
}

/// `DELIVERY_EMAIL_ACK`: whether it is `confirmed`.
pub(super) fn confirmed(text: &str) -> Result<bool, &'static str> {
    match text {
        "confirmed" => Ok(true),
        "accepted" => Ok(false),
        _ => Err("must be confirmed or accepted"),
    }
}

/// The rate of `RESEND_MAX_RPS`: 0 switches the cap off.
pub(super) fn rate(text: &str) -> Result<Rate, &'static str> {
    const MOST: u32 = 1000;
    match text.parse::<u32>() {
        Ok(number) if number <= MOST => {
            Ok(std::num::NonZeroU32::new(number).map_or(Rate::Unlimited, Rate::Fixed))
        }
        _ => Err("must be a whole number from 0 to 1000"),
    }
}

/// Where the admin server listens; `off` is nowhere.
pub(super) fn listen_address(text: &str) -> Result<Option<SocketAddr>, &'static str> {
    match text {
        "off" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| "must be an IP address with its port, or off"),
    }
}

/// A directory that is there.
pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err("does not name a directory".to_owned()),
        Err(error) => Err(format!("names a directory that cannot be opened ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_keeps_its_prefix_and_holds_nothing_more() {
        assert_eq!(base_url("http://100.64.1.2:8099/app").unwrap().path(), "/app");
        for bad in [
            "",
            "app.test",
            "/x",
            "ftp://a.test",
            "http://",
            "https://u:p@a.test",
            "http://a/?x",
            "http://a/#x",
        ] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_origin_has_no_path() {
        for good in ["https://app.test", "https://app.test/", "http://localhost:3000"] {
            assert!(origin(good).is_ok(), "{good}");
        }
        for bad in ["https://app.test/x", "https://app.test?x", "app.test:443"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_stays_on_its_origin() {
        let origin = Url::parse("https://app.test").unwrap();
        let path = absolute_path("/api/app/comms/unsubscribe").unwrap();
        assert_eq!(origin.join(&path).unwrap().host_str(), Some("app.test"));
        for bad in ["x", "//evil.test", "/\\evil.test", "/a?b", "/a#b", "/a b", "https://evil.test"] {
            assert!(absolute_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_header_that_the_client_sets_itself_is_refused() {
        assert_eq!(header_name("Authorization").unwrap(), "authorization");
        for bad in ["Host", "content-length", "X Token", "", "X:"] {
            assert!(header_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mailbox_is_an_address_with_or_without_a_name() {
        for good in
            ["a@b.test", "a+b@mail.b.test", "Your Week <a@b.test>", "Größe, gut <a@b.test>", "a@localhost"]
        {
            assert_eq!(mailbox(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "a",
            "a@",
            "@b",
            "a@b@c",
            "a@b.test>",
            "<a@b.test",
            "A <a@b> <c@d>",
            "a@b..c",
            "a b@c",
            "a@b,c@d",
        ] {
            assert!(mailbox(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_of_zero_is_no_cap() {
        assert_eq!(rate("0"), Ok(Rate::Unlimited));
        assert!(matches!(rate("7"), Ok(Rate::Fixed(n)) if n.get() == 7));
        assert!(rate("-1").is_err() && rate("1.5").is_err() && rate("fast").is_err());
    }

    #[test]
    fn the_admin_server_can_be_off() {
        assert_eq!(listen_address("off"), Ok(None));
        assert!(listen_address("127.0.0.1:0").unwrap().is_some());
        assert!(listen_address("localhost").is_err() && listen_address("9110").is_err());
    }
}
