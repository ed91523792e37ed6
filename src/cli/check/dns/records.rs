//! What the records of a sender's domain mean. Pure: it is handed what DNS told.

use super::super::report::Line;

/// What Resend sends through, and so what its SPF record must include.
const INCLUDED: &str = "include:amazonses.com";
/// Where bounces must go for Resend to see them: `feedback-smtp.{region}.amazonses.com`.
const FEEDBACK: &str = ".amazonses.com";

const AS_RESEND_SHOWS: &str = "set the record that Resend shows for the domain";

/// The key by which a receiver checks the signature (RFC 6376, 3.6.1).
pub(super) fn dkim(name: &str, found: &[String]) -> Line {
    let key = |record: &String| tags(record).find(|(tag, _)| tag == "p").map(|(_, key)| !key.is_empty());
    match found.iter().find_map(key) {
        Some(true) => Line::ok("dkim", format!("{name} has a key")),
        Some(false) => {
            Line::fail("dkim", format!("the key at {name} is revoked: it is empty"), AS_RESEND_SHOWS)
        }
        None => Line::fail(
            "dkim",
            format!("there is no key at {name}: the mail would not be signed for the domain"),
            AS_RESEND_SHOWS,
        ),
    }
}

/// Who may send for the return-path (RFC 7208).
pub(super) fn spf(name: &str, found: &[String]) -> Line {
    let is_spf =
        |record: &&String| record.split(' ').next().is_some_and(|first| first.eq_ignore_ascii_case("v=spf1"));
    let records: Vec<_> = found.iter().filter(is_spf).map(|record| record.to_ascii_lowercase()).collect();
    let [record] = records.as_slice() else {
        return match records.len() {
            0 => Line::warn("spf", format!("there is no SPF record at {name}"), elsewhere()),
            // RFC 7208, 4.5: a permanent error, which is no pass.
            more => Line::fail(
                "spf",
                format!("{more} SPF records at {name}: receivers then heed none"),
                "leave one",
            ),
        };
    };
    let has = |wanted: &str| record.split(' ').any(|term| term.trim_start_matches('+') == wanted);
    match record {
        _ if has("all") => Line::warn(
            "spf",
            format!("the SPF record at {name} lets anybody send (+all)"),
            "end it with ~all",
        ),
        _ if has(INCLUDED) => Line::ok("spf", format!("{name} lets Resend send")),
        _ => Line::fail(
            "spf",
            format!("the SPF record at {name} does not let Resend send"),
            format!("add {INCLUDED} to it"),
        ),
    }
}

/// Where bounces go: without it Resend hears of none, and takes the domain for unverified.
pub(super) fn return_path(name: &str, found: &[String]) -> Line {
    match found {
        [] => Line::warn("return-path", format!("there is no MX record at {name}"), elsewhere()),
        [.., last] if found.iter().all(|exchange| exchange.ends_with(FEEDBACK)) => {
            Line::ok("return-path", format!("bounces to {name} go to {last}"))
        }
        _ => Line::fail(
            "return-path",
            format!("bounces to {name} go elsewhere too, so that Resend does not hear of all"),
            "leave the one MX record that Resend shows for the domain",
        ),
    }
}

fn elsewhere() -> String {
    format!("{AS_RESEND_SHOWS}; if you chose another return-path there, look at that one")
}

/// What receivers shall do with mail that is not the domain's own (RFC 7489, 6.3), if there is a record at `name`, which is
/// the sender's domain or one above it.
pub(super) fn dmarc(name: &str, is_own: bool, found: &[String]) -> Option<Line> {
    let is_dmarc =
        |record: &&String| tags(record).next().is_some_and(|first| first == ("v".into(), "DMARC1".into()));
    let records: Vec<_> = found.iter().filter(is_dmarc).collect();
    let [record] = records.as_slice() else {
        return (records.len() > 1).then(|| {
            let what = format!("{} DMARC records at {name}: receivers then heed none", records.len());
            Line::warn("dmarc", what, "leave one")
        });
    };
    let tag = |wanted: &str| {
        tags(record).find(|(tag, _)| tag == wanted).map(|(_, value)| value.to_ascii_lowercase())
    };
    let inherited = if is_own { None } else { tag("sp") };
    Some(match inherited.or_else(|| tag("p")).as_deref() {
        Some(policy @ ("quarantine" | "reject")) => Line::ok("dmarc", format!("{name} asks for {policy}")),
        Some("none") => {
            Line::ok("dmarc", format!("{name} asks for none: forged mail is let through, and reported"))
        }
        _ => Line::warn(
            "dmarc",
            format!("the DMARC record at {name} has no policy that receivers know"),
            "give it p=none, p=quarantine or p=reject",
        ),
    })
}

pub(super) fn no_dmarc(domain: &str) -> Line {
    Line::warn(
        "dmarc",
        format!("there is no DMARC record for {domain}: Gmail and Yahoo want one of whoever sends in bulk"),
        format!("add the TXT record _dmarc.{domain} with v=DMARC1; p=none; or stricter"),
    )
}

/// `tag=value` pairs with semicolons between them (RFC 6376, 3.2).
fn tags(record: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = record.split(';').filter_map(|pair| pair.split_once('='));
    pairs.map(|(tag, value)| (tag.trim().to_ascii_lowercase(), value.split_whitespace().collect()))
}

#[cfg(test)]
mod tests {
    use super::super::super::report::Level;
    use super::*;

    fn all(records: &[&str]) -> Vec<String> {
        records.iter().map(|record| (*record).to_owned()).collect()
    }

    #[test]
    fn a_key_must_be_there_and_not_revoked() {
        let level = |records: &[&str]| dkim("resend._domainkey.a.test", &all(records)).level;
        assert_eq!(level(&["p=MIGfMA0GCSqGSIb3"]), Level::Ok);
        assert_eq!(level(&["a note", "v=DKIM1; k=rsa; p=MIGf MA0G"]), Level::Ok);
        assert_eq!(level(&["v=DKIM1; p="]), Level::Fail);
        assert_eq!(level(&["v=DKIM1; k=rsa"]), Level::Fail);
        assert_eq!(level(&[]), Level::Fail);
    }

    #[test]
    fn spf_must_be_one_record_that_lets_resend_send() {
        let level = |records: &[&str]| spf("send.a.test", &all(records)).level;
        assert_eq!(level(&["v=spf1 include:amazonses.com ~all"]), Level::Ok);
        assert_eq!(level(&["google-site=1", "V=SPF1 +Include:AmazonSES.com -all"]), Level::Ok);
        assert_eq!(level(&["v=spf1 include:amazonses.com +all"]), Level::Warn);
        assert_eq!(level(&["v=spf1 include:amazonses.com all"]), Level::Warn);
        assert_eq!(level(&["v=spf1 include:_spf.google.com ~all"]), Level::Fail);
        assert_eq!(level(&["v=spf1 -include:amazonses.com ~all"]), Level::Fail);
        assert_eq!(level(&["v=spf1 include:amazonses.com.evil.test ~all"]), Level::Fail);
        assert_eq!(level(&["v=spf1 include:amazonses.com ~all", "v=spf1 mx"]), Level::Fail);
        assert_eq!(level(&["v=spf10 include:amazonses.com ~all"]), Level::Warn);
        assert_eq!(level(&[]), Level::Warn);
    }

    #[test]
    fn bounces_must_go_where_resend_sees_them() {
        let level = |records: &[&str]| return_path("send.a.test", &all(records)).level;
        assert_eq!(level(&["feedback-smtp.eu-west-1.amazonses.com"]), Level::Ok);
        assert_eq!(level(&["mail.a.test"]), Level::Fail);
        assert_eq!(level(&["feedback-smtp.eu-west-1.amazonses.com", "mail.a.test"]), Level::Fail);
        assert_eq!(level(&["amazonses.com.evil.test"]), Level::Fail);
        assert_eq!(level(&[]), Level::Warn);
    }

    #[test]
    fn a_policy_is_one_record_with_a_word_that_receivers_know() {
        let level = |own: bool, records: &[&str]| dmarc("a.test", own, &all(records)).map(|line| line.level);
        assert_eq!(level(true, &["v=DMARC1; p=none; rua=mailto:x@a.test"]), Some(Level::Ok));
        assert_eq!(level(true, &["v=DMARC1;p=Reject"]), Some(Level::Ok));
        assert_eq!(level(true, &["v=DMARC1; p=bounce"]), Some(Level::Warn));
        assert_eq!(level(true, &["v=DMARC1"]), Some(Level::Warn));
        assert_eq!(level(true, &["v=DMARC1; p=none", "v=DMARC1; p=reject"]), Some(Level::Warn));
        assert_eq!(level(true, &["v=spf1 -all", "p=none; v=DMARC1"]), None, "the version comes first");
        let inherited = dmarc("a.test", false, &all(&["v=DMARC1; p=none; sp=reject"])).unwrap();
        assert_eq!(inherited.what, "a.test asks for reject");
        assert_eq!(no_dmarc("a.test").level, Level::Warn);
    }
}
