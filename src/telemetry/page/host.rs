//! By which names the status page may be opened.
//!
//! Owns that rule alone. A site whose own name leads to this machine (DNS rebinding) could have a browser in the
//! same network read the page and send it home. What monitors ask for stays open under any name.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Endings that nobody can register in the public DNS: RFC 6761, RFC 6762, RFC 8375, and `internal`, which ICANN
/// has set aside for private use (2024).
const PRIVATE: [&str; 4] = ["localhost", "local", "home.arpa", "internal"];

const REFUSED: &str = "this name could be a public one: open the page by the machine's address or its name without \
                       a domain, or through a tunnel: ssh -L 9110:127.0.0.1:9110 MACHINE\n";

/// Answers only who asks by an address, or by a name that cannot be somebody else's.
pub(in crate::telemetry) async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_ours) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, REFUSED).into_response()
}

fn is_ours(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_single = !name.is_empty() && !name.contains('.');
    is_single || PRIVATE.iter().any(|end| name.strip_suffix(end).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_somebody_can_register_is_refused() {
        for host in [
            "evil.test",
            "nas.evil.com:9110",
            "nas.evil.com.",
            "127.0.0.1.evil.com",
            "evillocal.com",
            "local.evil",
            "a.b",
            "",
            ".",
            "x.local.com",
            "127.0.0.1@evil.com",
            "1.2.3.4.5",
            "evil.xn--local",
        ] {
            assert!(!is_ours(host), "{host}");
        }
    }

    #[test]
    fn an_address_and_a_name_of_the_own_network_are_taken() {
        for host in [
            "127.0.0.1:9110",
            "100.64.1.2",
            "[::1]:9110",
            "[fd7a::1]",
            "localhost:9110",
            "nas",
            "NAS:9110",
            "nas.",
            "nas.local",
            "nas.home.arpa:9110",
            "worker.nas.internal",
            "a.localhost",
        ] {
            assert!(is_ours(host), "{host}");
        }
    }
}
