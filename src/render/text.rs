//! What happens to data on its way into a message: escaping, collapsing, shortening.
//!
//! Pure functions over text. It must not know a template or a payload. Nothing here depends on a locale.

use std::borrow::Cow;

use chrono::{Days, NaiveDate};

/// What could leave its place in HTML.
const SPECIAL: [char; 5] = ['&', '<', '>', '"', '\''];

/// Data on its way into HTML: clean, and safe in element content and in quoted attributes.
pub(super) fn escape_html(data: &str) -> String {
    let mut out = String::with_capacity(data.len() + data.len() / 8);
    for piece in cleaned(data).split_inclusive(SPECIAL) {
        out.push_str(piece.strip_suffix(SPECIAL).unwrap_or(piece));
        out.push_str(match piece.bytes().last() {
            Some(b'&') => "&amp;",
            Some(b'<') => "&lt;",
            Some(b'>') => "&gt;",
            Some(b'"') => "&quot;",
            Some(b'\'') => "&#39;",
            _ => "",
        });
    }
    out
}

/// Data on its way into plain text: as typed, but for control characters, which no mail may carry.
/// Line ends of any kind become `\n`; tabs stay.
pub(super) fn clean(data: &str) -> String {
    cleaned(data).into_owned()
}

fn cleaned(data: &str) -> Cow<'_, str> {
    // Most data is clean. What need not be begins with one of these bytes: C0, DEL, and in UTF-8 C1 and the separators.
    let clean = |byte: u8| !matches!(byte, 0..=8 | 11..=31 | 127 | 0xC2 | 0xE2);
    if data.bytes().all(clean) {
        return data.into();
    }
    let kept = data.replace("\r\n", "\n");
    let kept = kept.chars().filter_map(|c| match c {
        '\r' | '\u{0B}' | '\u{0C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Some('\n'),
        '\n' | '\t' => Some(c),
        c if c.is_control() => None,
        c => Some(c),
    });
    kept.collect()
}

/// The most characters of a line of plain text that is our own (RFC 5322, 2.1.1).
pub(super) const LINE: usize = 78;

/// One line: each run of control characters, line and paragraph separators and white space becomes one
/// space, and none is left at either end. A header cannot be broken with it.
pub(super) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The beginning of `text` in one line of at most `most` characters. A cut falls between words where a
/// space is near, and an ellipsis marks it.
pub(super) fn excerpt(text: &str, most: usize) -> String {
    let line = one_line(text);
    let Some((end, _)) = line.char_indices().nth(most) else { return line };
    let Some(room) = most.checked_sub(1) else { return String::new() };
    let last = line.char_indices().nth(room).map_or(end, |(last, _)| last);
    let head = line.get(..last).unwrap_or_default();
    let whole_words = match line.get(..end).and_then(|s| s.rfind(' ')) {
        Some(space) if space >= end / 2 => line.get(..space.min(last)).unwrap_or(head),
        _ => head,
    };
    // A joiner, a space or punctuation just before the ellipsis would only look torn.
    let kept = whole_words.trim_end_matches(['\u{200D}', ' ', ',', ';']);
    format!("{kept}…")
}

/// A position in an episode, `m:ss` or `h:mm:ss`.
pub(super) fn timecode(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// So many days, the last of which is `last`, as one writes them: `Aug 3`, `Jul 28 – Aug 3`, `Aug 3 – 9`. The
/// years stand there where there are two.
pub(super) fn days(last: NaiveDate, count: u64) -> String {
    let first = last.checked_sub_days(Days::new(count.saturating_sub(1))).unwrap_or(last);
    let (from, to) = match (first.format("%Y").to_string(), first.format("%b %Y").to_string()) {
        _ if first == last => return last.format("%b %-d").to_string(),
        (year, _) if year != last.format("%Y").to_string() => ("%b %-d, %Y", "%b %-d, %Y"),
        (_, month) if month == last.format("%b %Y").to_string() => ("%b %-d", "%-d"),
        _ => ("%b %-d", "%b %-d"),
    };
    format!("{} – {}", first.format(from), last.format(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn html_escapes_what_could_leave_its_place_and_nothing_else() {
        assert_eq!(
            escape_html("O'Neil & <b>\"Sons\"</b> = 1"),
            "O&#39;Neil &amp; &lt;b&gt;&quot;Sons&quot;&lt;/b&gt; = 1"
        );
    }

    #[test]
    fn a_header_injection_becomes_one_line() {
        assert_eq!(one_line("a\r\nBcc: x@y.test"), "a Bcc: x@y.test");
        assert_eq!(one_line("\u{2028}a\t\t b\u{2029}\0c\u{85}d \u{A0} e\n"), "a b c d e");
    }

    #[test]
    fn plain_text_keeps_its_lines_and_loses_its_control_characters() {
        assert_eq!(clean("a\r\nb\rc\u{2028}d\te\0\u{1B}[31mf"), "a\nb\nc\nd\te[31mf");
    }

    #[test]
    fn a_short_text_is_its_own_excerpt_and_a_long_one_ends_between_words() {
        assert_eq!(excerpt("four words of text", 18), "four words of text");
        assert_eq!(excerpt("four words of text", 17), "four words of…");
        assert_eq!(excerpt("unbroken", 4), "unb…");
        assert_eq!(excerpt("x", 0), "");
    }

    #[test]
    fn a_position_reads_as_a_player_shows_it() {
        assert_eq!(timecode(0), "0:00");
        assert_eq!(timecode(754_999), "12:34");
        assert_eq!(timecode(3_723_000), "1:02:03");
    }

    #[test]
    fn days_are_written_as_one_writes_them() {
        let days = |last: &str, count| days(last.parse().unwrap(), count);
        assert_eq!(days("2026-08-03", 7), "Jul 28 – Aug 3");
        assert_eq!(days("2026-08-09", 7), "Aug 3 – 9");
        assert_eq!(days("2026-08-03", 1), "Aug 3");
        assert_eq!(days("2026-01-04", 7), "Dec 29, 2025 – Jan 4, 2026");
        assert_eq!(days("2028-03-01", 2), "Feb 29 – Mar 1");
        assert_eq!(
            days("2026-08-03", u64::MAX),
            "Aug 3",
            "before the calendar begins there is nothing to name"
        );
    }

    proptest! {
        #[test]
        fn a_timecode_reads_back_whatever_the_number(milliseconds: u64) {
            let read = timecode(milliseconds).split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap());
            prop_assert_eq!(read, milliseconds / 1000);
        }

        #[test]
        fn an_excerpt_is_one_line_and_never_longer_than_asked(text in "[\\s\\S]{0,80}", most in 1usize..60) {
            let cut = excerpt(&text, most);
            prop_assert!(cut.chars().count() <= most, "{cut:?}");
            prop_assert_eq!(one_line(&cut), cut);
        }

        #[test]
        fn one_line_is_one_line_and_stays_so(text in "[\\s\\S]{0,120}") {
            let line = one_line(&text);
            let broken = line.contains("  ") || line.chars().any(|c| c.is_control() || c == '\u{2028}');
            prop_assert!(!broken, "{line:?}");
            prop_assert_eq!(one_line(&line), line);
        }

        #[test]
        fn clean_text_stays_as_it_is_and_other_text_becomes_clean(text in "[\\s\\S]{0,120}", plain in "[[\\PC\n\t]--[\\p{Zl}\\p{Zp}]]{0,120}") {
            prop_assert_eq!(clean(&plain), &*plain);
            let cleaned = clean(&text);
            let unclean = |c: char| matches!(c, '\u{2028}' | '\u{2029}') || c.is_control() && !matches!(c, '\n' | '\t');
            prop_assert!(!cleaned.contains(unclean), "{cleaned:?}");
            prop_assert_eq!(clean(&cleaned), cleaned);
        }

        #[test]
        fn escaped_text_holds_no_markup(text in "[\\s\\S]{0,120}") {
            let escaped = escape_html(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
        }
    }
}
