//! What the preflight found: one line for each thing that was looked at.
//!
//! Owns the levels and both forms of the output. It must not know how anything is looked at.

use std::io::Write;

use anyhow::Context;
use serde::Serialize;

/// How it stands with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It could not be looked at, which is nobody's fault.
    Skip,
    /// It works, and deserves a look.
    Warn,
    /// The worker will not deliver as it is.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) topic: &'static str,
    pub(super) level: Level,
    pub(super) what: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
}

impl Line {
    pub(super) fn ok(topic: &'static str, what: impl Into<String>) -> Line {
        Line { topic, level: Level::Ok, what: what.into(), mend: None }
    }

    pub(super) fn skip(topic: &'static str, what: impl Into<String>) -> Line {
        Line { topic, level: Level::Skip, what: what.into(), mend: None }
    }

    pub(super) fn warn(topic: &'static str, what: impl Into<String>, mend: impl Into<String>) -> Line {
        Line { topic, level: Level::Warn, what: what.into(), mend: Some(mend.into()) }
    }

    pub(super) fn fail(topic: &'static str, what: impl Into<String>, mend: impl Into<String>) -> Line {
        Line { topic, level: Level::Fail, what: what.into(), mend: Some(mend.into()) }
    }
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Skip => "skip",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        }
    }
}

/// The worst of all lines.
pub(super) fn worst(lines: &[Line]) -> Level {
    lines.iter().map(|line| line.level).max().unwrap_or(Level::Ok)
}

/// Writes the lines for a reader, or as one JSON document for a script.
pub(super) fn write(lines: &[Line], json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    if json {
        let document = serde_json::json!({"ok": worst(lines) < Level::Fail, "lines": lines});
        return writeln!(out, "{document:#}").context("writing the report");
    }
    for Line { topic, level, what, mend } in lines {
        writeln!(out, "{:<5}{topic:<15}{what}", level.word()).context("writing the report")?;
        if let Some(mend) = mend {
            writeln!(out, "{:<20}→ {mend}", "").context("writing the report")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: bool) -> String {
        let lines = [Line::ok("seam", "42 pending"), Line::fail("resend", "the key is refused", "make one")];
        let mut out = Vec::new();
        write(&lines, json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_reader_sees_what_to_do_under_what_is_wrong() {
        assert_eq!(
            written(false),
            "ok   seam           42 pending\nFAIL resend         the key is refused\n                    → make one\n"
        );
    }

    #[test]
    fn a_script_gets_one_document() {
        let document: serde_json::Value = serde_json::from_str(&written(true)).unwrap();
        assert_eq!(document["ok"], false);
        assert_eq!(document["lines"][1]["level"], "fail");
        assert_eq!(document["lines"][0].get("mend"), None);
    }
}
