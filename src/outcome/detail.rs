//! Text from outside, made fit to be told.
//!
//! Owns [`Detail`], the only form in which foreign text gets into a log line or an ack.

use std::collections::BTreeSet;
use std::fmt;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Stands for what must not be told.
const PRIVATE: &str = "[private]";

/// Text that may stand in a log line or an ack: at most [`Detail::MAX_CHARS`] characters, one line,
/// without recipient, endpoint, secret or anything like an address.
///
/// There is no way to make one from outside text but [`Detail::scrub`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detail(pub(super) String);

impl Detail {
    /// The most characters a detail holds.
    pub const MAX_CHARS: usize = 200;

    /// A sentence of our own that holds nothing from outside.
    pub fn fixed(text: &'static str) -> Detail {
        Detail(text.to_owned())
    }

    /// Cleans text from outside. Each of `private` (recipient, endpoint, keys …) is replaced wherever it
    /// stands, in any letter case; so is every word that looks like an address, a URL or a long token.
    pub fn scrub(text: &str, private: &[&str]) -> Detail {
        let text = without(text, private);
        let words = text
            .split(|c: char| c.is_whitespace() || is_invisible(c))
            .filter(|word| !word.is_empty())
            .map(|word| if looks_private(word) { PRIVATE } else { word });
        let line = words.collect::<Vec<_>>().join(" ");
        Detail(line.chars().take(Detail::MAX_CHARS).collect())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Longer runs of token characters than this are keys or capabilities, not words.
const LONGEST_PLAIN_WORD: usize = 40;

fn looks_private(word: &str) -> bool {
    word.contains('@')
        || word.contains("%40")
        || word.contains("://")
        || word.chars().count() > LONGEST_PLAIN_WORD
}

/// Control characters, and the marks that reorder or break a line without being white space.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// `text` with each of `private` replaced, in one pass: how long that takes and what it yields depends on
/// the lengths alone, and not on how often whoever wrote both has one thing stand in the other.
fn without(text: &str, private: &[&str]) -> String {
    let needles: BTreeSet<_> = private.iter().filter(|needle| !needle.trim().is_empty()).collect();
    if needles.is_empty() {
        return text.to_owned();
    }
    let search = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        // Searched once, so that building it is what costs.
        .kind(Some(AhoCorasickKind::NoncontiguousNFA))
        .build(needles);
    // There are more needles than can be looked for: nothing of the text may be told.
    let Ok(search) = search else { return PRIVATE.to_owned() };
    let mut out = String::with_capacity(text.len());
    search.replace_all_with(text, &mut out, |_, _, out| {
        out.push_str(PRIVATE);
        true
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_scrubbed_detail_keeps_the_sentence_and_loses_the_private_parts() {
        let detail = Detail::scrub(
            "Invalid `to`: Ann@Example.test (https://push.test/abc)\r\nBcc: x@y.test\u{2028}see key-1",
            &["ann@example.test", "key-1"],
        );
        assert_eq!(detail.as_str(), "Invalid `to`: [private] [private] Bcc: [private] see [private]");
    }

    #[test]
    fn of_two_private_parts_that_begin_alike_the_longer_one_goes() {
        let detail = Detail::scrub("no /send/abc/def of abc", &["/send", "abc", "/send/abc/def"]);
        assert_eq!(detail.as_str(), "no [private] of [private]");
    }

    #[test]
    fn what_stands_for_a_private_part_is_not_searched_again() {
        let detail = Detail::scrub("a private word", &["private", "private", "[private]"]);
        assert_eq!(detail.as_str(), "a [private] word");
    }

    #[test]
    fn a_thousand_private_parts_in_a_long_text_cost_one_pass() {
        // One pass for each part, each of which the text grows by, would take hours.
        let text = "private ".repeat(8_192);
        let parts = vec!["private"; 8_000];
        assert_eq!(Detail::scrub(&text, &parts).as_str().chars().count(), Detail::MAX_CHARS);
    }

    proptest! {
        #[test]
        fn a_detail_is_always_one_short_line_without_an_address(text in "\\PC{0,300}[\\s\\S]{0,100}") {
            let detail = Detail::scrub(&text, &["needle"]);
            prop_assert!(detail.as_str().chars().count() <= Detail::MAX_CHARS);
            prop_assert!(!detail.as_str().chars().any(char::is_control));
            prop_assert!(!detail.as_str().contains('@'));
        }

        #[test]
        fn what_is_named_private_never_stays(before in "[ a-z]{0,20}", after in "[ a-z]{0,20}") {
            let detail = Detail::scrub(&format!("{before}S3cret{after}"), &["s3CRET"]);
            prop_assert!(!detail.as_str().to_lowercase().contains("s3cret"));
        }
    }
}
