//! Every link of every message.
//!
//! Owns [`Links`], which builds them from APP_ORIGIN with the `url` crate. What goes in comes from
//! outside; what comes out has APP_ORIGIN's scheme, host and port whatever went in. It must not know a
//! template.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::{Position, Url};

use crate::envelope::UnsubscribeRef;

/// The kinds of graph references that the app has pages for. Another kind is skipped, not an error.
pub(super) const GRAPH_KINDS: [&str; 2] = ["person", "topic"];

/// One whole path segment or query value: everything but RFC 3986's unreserved characters is encoded.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Builds the links of messages.
#[derive(Debug, Clone)]
pub struct Links {
    /// APP_ORIGIN with the path `/`.
    origin: Url,
    /// APP_ORIGIN with UNSUBSCRIBE_PATH, still without its query.
    unsubscribe: Url,
}

/// Settings that no link can be built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinksError {
    /// APP_ORIGIN is more than an origin, or none.
    #[error(
        "APP_ORIGIN must be http or https, a host and perhaps a port, and nothing more, \
         such as https://app.example.com"
    )]
    Origin,
    /// UNSUBSCRIBE_PATH is no path on that origin.
    #[error(
        "UNSUBSCRIBE_PATH must be a path that begins with one /, without ? and #, \
         such as /api/app/comms/unsubscribe"
    )]
    UnsubscribePath,
}

/// A link that must not be in a message. Says nothing of what was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadLink {
    #[error("must begin with exactly one / and hold no control characters")]
    NotAPath,
    #[error("leads off APP_ORIGIN")]
    OffOrigin,
    #[error("is of a kind that has no page")]
    UnknownKind,
    #[error("has an id that no link can hold")]
    NoId,
}

impl Links {
    /// Links below `app_origin`; `unsubscribe_path` is the app's RFC 8058 endpoint there.
    ///
    /// # Errors
    /// The setting that does not fit, named by its variable.
    pub fn new(app_origin: &Url, unsubscribe_path: &str) -> Result<Links, LinksError> {
        let bare = app_origin.path() == "/"
            && app_origin.query().is_none()
            && app_origin.fragment().is_none()
            && app_origin.username().is_empty()
            && app_origin.password().is_none();
        if !bare || !app_origin.has_host() || !matches!(app_origin.scheme(), "http" | "https") {
            return Err(LinksError::Origin);
        }
        if unsubscribe_path.contains(['?', '#']) {
            return Err(LinksError::UnsubscribePath);
        }
        let unsubscribe =
            below(app_origin, unsubscribe_path).map_err(|_: BadLink| LinksError::UnsubscribePath)?;
        Ok(Links { origin: app_origin.clone(), unsubscribe })
    }

    /// The app's front page.
    pub(super) fn home(&self) -> &Url {
        &self.origin
    }

    /// A page of the app by its path, query and fragment: a `deep_link`.
    pub(super) fn app(&self, path: &str) -> Result<Url, BadLink> {
        below(&self.origin, path)
    }

    /// The page of a graph reference: `{APP_ORIGIN}/{kind}/{id, percent-encoded whole}`.
    pub(super) fn graph(&self, kind: &str, id: &str) -> Result<String, BadLink> {
        if !GRAPH_KINDS.contains(&kind) {
            return Err(BadLink::UnknownKind);
        }
        // Encoded or not, these two are steps in a path and never a segment (WHATWG URL, 4.4).
        if matches!(id, "" | "." | "..") {
            return Err(BadLink::NoId);
        }
        // A word and an encoded segment: nothing for the URL standard to read in any other way.
        Ok(format!("{}{kind}/{}", self.origin, utf8_percent_encode(id, SEGMENT)))
    }

    /// The one-click unsubscribe link: `{APP_ORIGIN}{UNSUBSCRIBE_PATH}?ref={reference}`.
    pub(super) fn unsubscribe(&self, reference: &UnsubscribeRef) -> Url {
        let mut link = self.unsubscribe.clone();
        link.set_query(Some(&format!("ref={}", utf8_percent_encode(reference.expose(), SEGMENT))));
        link
    }

    /// Whether `link` has APP_ORIGIN's scheme, host and port, and no credentials before them.
    pub(super) fn holds(&self, link: &Url) -> bool {
        same_origin(&self.origin, link)
    }
}

/// `path` on `origin`. The rule about the beginning comes first, because the URL standard reads `//`
/// and `/\` as the start of a host; control characters are refused because it drops tabs and line ends,
/// so that `/<tab>/host` would become such a start.
fn below(origin: &Url, path: &str) -> Result<Url, BadLink> {
    let mut beginning = path.chars();
    let one_slash = beginning.next() == Some('/') && !matches!(beginning.next(), Some('/' | '\\'));
    if !one_slash || path.chars().any(char::is_control) {
        return Err(BadLink::NotAPath);
    }
    match origin.join(path) {
        Ok(link) if same_origin(origin, &link) => Ok(link),
        _ => Err(BadLink::OffOrigin),
    }
}

/// Scheme, host and port, and what would stand before the host: credentials, of which an origin has none.
fn same_origin(origin: &Url, link: &Url) -> bool {
    origin[..Position::BeforePath] == link[..Position::BeforePath]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn links() -> Links {
        Links::new(&Url::parse("https://app.test:8443").unwrap(), "/api/unsubscribe").unwrap()
    }

    #[test]
    fn a_deep_link_keeps_its_query_and_stays_on_the_origin() {
        let links = links();
        for (path, link) in [
            ("/", "https://app.test:8443/"),
            ("/player/slug?t=123", "https://app.test:8443/player/slug?t=123"),
            ("/ok?x=\" onclick=\"", "https://app.test:8443/ok?x=%22%20onclick=%22"),
            ("/a/../..//evil.test/x", "https://app.test:8443//evil.test/x"),
            ("/ok?a=1&b=2#part", "https://app.test:8443/ok?a=1&b=2#part"),
        ] {
            assert_eq!(links.app(path).unwrap().as_str(), link);
        }
    }

    /// Case 12: more spellings of elsewhere.
    #[test]
    fn a_deep_link_that_could_lead_elsewhere_is_refused() {
        for path in [
            "",
            "player/x",
            " /player",
            "@evil.test/x",
            "//evil.test/x",
            "\\\\evil.test\\x",
            "/\\evil.test/x",
            "\\/evil.test/x",
            "/\t/evil.test/x",
            "/\n/evil.test",
            "\t//evil.test",
            "https://evil.test/x",
            "https:/evil.test",
            "javascript:alert(1)",
            "data:text/html,x",
            ":8443/x",
            ".evil.test/",
            "?x",
            "#x",
        ] {
            assert_eq!(links().app(path), Err(BadLink::NotAPath), "{path:?}");
        }
    }

    #[test]
    fn a_graph_link_holds_the_id_as_one_segment() {
        let links = links();
        let link = |kind, id| links.graph(kind, id);
        assert_eq!(link("person", "person:ann-b").unwrap(), "https://app.test:8443/person/person%3Aann-b");
        assert_eq!(
            link("topic", "topic:a/b?c#d&é \\..").unwrap(),
            "https://app.test:8443/topic/topic%3Aa%2Fb%3Fc%23d%26%C3%A9%20%5C.."
        );
        assert_eq!(link("show", "show:x"), Err(BadLink::UnknownKind));
        assert_eq!(link("topic", ".."), Err(BadLink::NoId));
    }

    #[test]
    fn settings_that_no_link_can_be_built_from_are_named() {
        let new = |origin: &str, path: &str| Links::new(&Url::parse(origin).unwrap(), path).err();
        for origin in
            ["ftp://a.test", "mailto:a@b.test", "https://u:p@a.test", "https://a.test/x", "https://a.test/?q"]
        {
            assert_eq!(new(origin, "/u"), Some(LinksError::Origin), "{origin}");
        }
        for path in ["", "u", "//u", "/u?x=1", "/u#x", "https://b.test/u"] {
            assert_eq!(new("https://a.test", path), Some(LinksError::UnsubscribePath), "{path}");
        }
        assert_eq!(new("http://a.test:8080", "/u"), None);
    }

    proptest! {
        /// Case 12: whatever a link is.
        #[test]
        fn no_deep_link_leads_off_the_origin(path in "[/\\\\@:.?#\\t\\n ]{0,6}(evil\\.test)?[\\s\\S]{0,20}") {
            for path in [path.clone(), format!("/{path}")] {
                if let Ok(link) = links().app(&path) {
                    prop_assert!(link.as_str().starts_with("https://app.test:8443/"), "{link}");
                    // What a reader's browser makes of the text is the same place.
                    prop_assert_eq!(Url::parse(link.as_str()).unwrap().origin(), links().origin.origin());
                }
            }
        }

        #[test]
        fn any_graph_id_comes_back_whole(id in "[\\s\\S]{3,30}") {
            let link = Url::parse(&links().graph("topic", &id).unwrap()).unwrap();
            prop_assert!(links().holds(&link));
            let segments: Vec<_> = link.path_segments().unwrap().collect();
            prop_assert_eq!(segments.len(), 2);
            let decoded = percent_encoding::percent_decode_str(segments[1]).decode_utf8().unwrap();
            prop_assert_eq!(decoded, id);
        }
    }
}
