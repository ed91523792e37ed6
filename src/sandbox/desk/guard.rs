//! Who may talk to the page.
//!
//! Owns one rule for every request and one set of headers for every answer. The page listens on loopback, where
//! every other page in the operator's browser can send requests too, and where a site whose name leads to
//! 127.0.0.1 could read the answers. It must not know what is served.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Nothing comes from elsewhere, and no other page may frame this one. A mail is shown in a frame without rights
/// that inherits this: its inline styles are all that it gets.
const POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; \
                      style-src 'self' 'unsafe-inline'; frame-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The names of the page's server, as a browser on this machine writes them.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    hosts: [String; 2],
}

impl Guard {
    pub(super) fn new(port: u16) -> Guard {
        Guard { hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")] }
    }

    /// Whether such a request may be answered; if not, why.
    ///
    /// A wrong Host is a site that lets its own name lead here (DNS rebinding). Sec-Fetch-Site is the browser's
    /// word about where a request comes from (Fetch Metadata, W3C); Origin is the same for those that do not
    /// send it. What sends neither is no browser.
    fn objection(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<&'static str> {
        let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("\0"));
        let Some(host) = text(&HOST).filter(|host| self.hosts.iter().any(|own| own == host)) else {
            return Some("open the page by the address that was printed");
        };
        let site = text(&HeaderName::from_static("sec-fetch-site"));
        // A link from elsewhere may open the page; it may read and do nothing.
        let is_door = *method == Method::GET && path == "/";
        let from_here = match site {
            None | Some("same-origin") => true,
            Some("none") => *method == Method::GET,
            Some(_) => is_door,
        };
        let own = text(&ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host));
        (!from_here || !own).then_some("another page must not talk to this one")
    }
}

pub(super) async fn stand(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let objection = guard.objection(request.method(), request.uri().path(), request.headers());
    let mut response = match objection {
        Some(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(method: &Method, path: &str, more: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("127.0.0.1:8400"))]);
        for (name, value) in more {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        Guard::new(8400).objection(method, path, &headers).is_none()
    }

    #[test]
    fn a_name_that_only_leads_here_is_refused_whatever_it_asks() {
        for host in ["evil.test", "evil.test:8400", "127.0.0.1", "127.0.0.1:8401", "127.0.0.1:8400.evil.test"]
        {
            for (method, path) in [(Method::GET, "/"), (Method::GET, "/events"), (Method::POST, "/fault")] {
                assert!(!allows(&method, path, &[("host", host)]), "{method} {path} of {host}");
            }
        }
        assert!(allows(&Method::GET, "/", &[("host", "localhost:8400")]));
        assert!(Guard::new(8400).objection(&Method::GET, "/", &HeaderMap::new()).is_some());
    }

    #[test]
    fn another_page_can_open_this_one_and_no_more() {
        for site in ["cross-site", "same-site", "none-such"] {
            assert!(allows(&Method::GET, "/", &[("sec-fetch-site", site)]), "{site}");
            for path in ["/events", "/setup", "/message/e1", "/desk.js"] {
                assert!(!allows(&Method::GET, path, &[("sec-fetch-site", site)]), "{path} from {site}");
            }
            assert!(!allows(&Method::POST, "/", &[("sec-fetch-site", site)]), "{site}");
        }
        assert!(!allows(&Method::POST, "/enqueue", &[("sec-fetch-site", "none")]));
        for origin in ["http://evil.test", "null", "https://127.0.0.1:8400", "http://127.0.0.1:8401"] {
            assert!(!allows(&Method::POST, "/enqueue", &[("origin", origin)]), "{origin}");
        }
        assert!(!allows(
            &Method::POST,
            "/enqueue",
            &[("host", "localhost:8400"), ("origin", "http://127.0.0.1:8400")]
        ));
    }

    #[test]
    fn the_page_itself_and_a_script_in_a_terminal_may_do_everything() {
        let own = [("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:8400")];
        assert!(allows(&Method::POST, "/enqueue", &own) && allows(&Method::GET, "/events", &own[..1]));
        assert!(allows(&Method::POST, "/enqueue", &[]) && allows(&Method::GET, "/events", &[]));
    }
}
