//! What the preflight asks of DNS: the records by which a receiver knows the sender's mail for genuine.
//!
//! Owns the asking; what the records mean is `records`'. Where they stand is Resend's choice
//! (<https://resend.com/docs/dashboard/domains/introduction>): DKIM below the sender's domain, SPF and the MX of the
//! return-path below a subdomain of it, `send` unless another was chosen.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};

use super::report::Line;

mod records;

/// Where Resend's key stands.
const DKIM_SELECTOR: &str = "resend._domainkey";
/// Where bounces go, and what SPF is asked of.
const RETURN_PATH: &str = "send";
/// A name server answers in milliseconds or, nearly always, not at all.
const DEADLINE: Duration = Duration::from_secs(3);
/// The most names from the sender's up that are asked for a DMARC record (its tree walk asks eight).
const LEVELS: usize = 8;

/// A name server to ask in place of the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameServer(SocketAddr);

impl FromStr for NameServer {
    type Err = String;

    /// `9.9.9.9`, `9.9.9.9:53`, `2620:fe::fe` or `[2620:fe::fe]:53`.
    fn from_str(text: &str) -> Result<NameServer, String> {
        let alone = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        alone.or_else(|_| text.parse()).map(NameServer).map_err(|_| {
            "must be the IP address of a name server, perhaps with its port, such as 9.9.9.9 or [::1]:53"
                .to_owned()
        })
    }
}

/// Asks for every record of `domain` that matters.
pub(super) async fn check(domain: &str, server: Option<NameServer>) -> Vec<Line> {
    let resolver = match resolver(server) {
        Ok(resolver) => resolver,
        Err(error) => return vec![unanswered("dns", "the system's name servers", &error)],
    };
    let return_path = format!("{RETURN_PATH}.{domain}");
    let key = format!("{DKIM_SELECTOR}.{domain}");
    let (dkim, spf, mx, dmarc) = tokio::join!(
        texts(&resolver, &key),
        texts(&resolver, &return_path),
        exchanges(&resolver, &return_path),
        dmarc(&resolver, domain),
    );
    vec![
        dkim.map_or_else(|error| unanswered("dkim", &key, &error), |found| records::dkim(&key, &found)),
        spf.map_or_else(
            |error| unanswered("spf", &return_path, &error),
            |found| records::spf(&return_path, &found),
        ),
        mx.map_or_else(
            |error| unanswered("return-path", &return_path, &error),
            |found| records::return_path(&return_path, &found),
        ),
        dmarc.unwrap_or_else(|error| unanswered("dmarc", domain, &error)),
    ]
}

fn resolver(server: Option<NameServer>) -> Result<TokioResolver, NetError> {
    let mut builder = match server {
        None => TokioResolver::builder_tokio()?,
        Some(NameServer(address)) => {
            let both = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = address.port();
                connection
            });
            let server = NameServerConfig::new(address.ip(), true, both.into());
            let config = ResolverConfig::from_name_servers(vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    builder.options_mut().timeout = DEADLINE;
    builder.options_mut().attempts = 2;
    builder.build()
}

async fn lookup(resolver: &TokioResolver, name: &str, kind: RecordType) -> Result<Vec<RData>, NetError> {
    // The dot at the end keeps the system's search domains out of it.
    match resolver.lookup(format!("{name}."), kind).await {
        Ok(found) => Ok(found.answers().iter().map(|record| record.data.clone()).collect()),
        Err(error) if error.is_no_records_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The texts at `name`, each put together from its strings (RFC 7208, 3.3).
async fn texts(resolver: &TokioResolver, name: &str) -> Result<Vec<String>, NetError> {
    let found = lookup(resolver, name, RecordType::TXT).await?;
    let text = |data| match data {
        RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
        _ => None,
    };
    Ok(found.into_iter().filter_map(text).collect())
}

async fn exchanges(resolver: &TokioResolver, name: &str) -> Result<Vec<String>, NetError> {
    let found = lookup(resolver, name, RecordType::MX).await?;
    let exchange = |data| match data {
        RData::MX(mx) => Some(mx.exchange.to_ascii().trim_end_matches('.').to_ascii_lowercase()),
        _ => None,
    };
    Ok(found.into_iter().filter_map(exchange).collect())
}

/// The record of `domain`, or of the nearest name above that has one (RFC 7489, 6.6.3, without its list of public
/// suffixes).
async fn dmarc(resolver: &TokioResolver, domain: &str) -> Result<Line, NetError> {
    let mut at = domain;
    for _ in 0..LEVELS {
        let found = texts(resolver, &format!("_dmarc.{at}")).await?;
        if let Some(line) = records::dmarc(at, at == domain, &found) {
            return Ok(line);
        }
        match at.split_once('.') {
            Some((_, above)) if above.contains('.') => at = above,
            _ => break,
        }
    }
    Ok(records::no_dmarc(domain))
}

fn unanswered(topic: &'static str, name: &str, error: &NetError) -> Line {
    let why = match error {
        NetError::Timeout => "no answer in time",
        error if error.is_connection_closed() => "no connection",
        _ => "the name server fails",
    };
    Line::warn(
        topic,
        format!("DNS does not tell about {name}: {why}"),
        "ask another name server: --resolver 9.9.9.9; the worker itself needs the system's",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_is_an_address_with_or_without_its_port() {
        for (text, address) in [
            ("9.9.9.9", "9.9.9.9:53"),
            ("9.9.9.9:5353", "9.9.9.9:5353"),
            ("2620:fe::fe", "[2620:fe::fe]:53"),
            ("[::1]:5353", "[::1]:5353"),
        ] {
            assert_eq!(text.parse(), Ok(NameServer(address.parse().unwrap())), "{text}");
        }
        for wrong in ["", "dns.example.com", "9.9.9", "9.9.9.9:x"] {
            assert!(wrong.parse::<NameServer>().is_err(), "{wrong}");
        }
    }
}
