//! What the demo prints.
//!
//! Owns the words and the columns, the same for a terminal and for a pipe. It must not know how anything
//! came about.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;

use super::OUTPUT;
use super::cast::Role;
use super::ending::{Ending, How};
use crate::sandbox::journal::Log;

/// One envelope in the table.
pub(super) struct Row<'a> {
    /// Which.
    pub(super) role: &'a Role,
    /// How it ended.
    pub(super) ending: Ending,
    /// What is wrong with that.
    pub(super) objection: Option<String>,
}

/// What there is to see, and at which address there is more.
pub(super) fn opening(out: &mut impl Write, envelopes: usize, page: Option<String>) -> anyhow::Result<()> {
    writeln!(
        out,
        "An app's outbox with {envelopes} envelopes, Resend and a push service, all of them stand-ins on this \
         machine."
    )
    .context(OUTPUT)?;
    if let Some(page) = page {
        writeln!(out, "The outbox and the messages, as their readers see them: {page}/").context(OUTPUT)?;
    }
    writeln!(out, "The worker drains the outbox. Each envelope as it ends:\n").context(OUTPUT)
}

/// One envelope has ended; `lines` say what became of it.
pub(super) fn ended(out: &mut impl Write, id: &str, how: How, lines: &[String]) -> anyhow::Result<()> {
    let mut lines = lines.iter().map(String::as_str);
    let first = lines.next().unwrap_or_default();
    let line = format!("{how:<11} {id:<16} {first}");
    writeln!(out, "{}", line.trim_end()).context(OUTPUT)?;
    lines.try_for_each(|line| writeln!(out, "{:28} {line}", "")).context(OUTPUT)
}

/// Every envelope, with what was done to it and how it ended.
pub(super) fn table(out: &mut impl Write, rows: &[Row<'_>]) -> anyhow::Result<()> {
    let columns = ["envelope", "channel", "template", "should be", "is", "attempts"];
    writeln!(out).context(OUTPUT)?;
    line(out, columns.map(str::to_owned)).context(OUTPUT)?;
    for Row { role, ending, objection } in rows {
        let envelope = role.envelope();
        let field = |name: &str| envelope.get(name).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
        let (should, is) = (role.expected.how().to_string(), ending.how.to_string());
        let columns = [
            role.id.to_owned(),
            field("channel"),
            field("template"),
            should,
            is,
            ending.attempts.to_string(),
        ];
        line(out, columns).context(OUTPUT)?;
        writeln!(out, "    done to it: {}", role.story).context(OUTPUT)?;
        if let Some(detail) = &ending.detail {
            writeln!(out, "    told the app: {detail}").context(OUTPUT)?;
        }
        if let Some(objection) = objection {
            writeln!(out, "    WRONG: {objection}").context(OUTPUT)?;
        }
    }
    Ok(())
}

fn line(
    out: &mut impl Write,
    [id, channel, template, should, is, attempts]: [String; 6],
) -> std::io::Result<()> {
    writeln!(out, "{id:<16} {channel:<8} {template:<20} {should:<11} {is:<11} {attempts}")
}

/// The numbers.
pub(super) fn summary(out: &mut impl Write, log: &Log, rows: &[Row<'_>], mails: &Path) -> anyhow::Result<()> {
    let mut ways: Vec<(How, usize)> = Vec::new();
    for how in rows.iter().map(|row| row.ending.how) {
        match ways.iter_mut().find(|(way, _)| *way == how) {
            Some((_, count)) => *count += 1,
            None => ways.push((how, 1)),
        }
    }
    let ways: Vec<String> = ways.iter().map(|(how, count)| format!("{count} {how}")).collect();
    let attempts: usize = rows.iter().map(|row| row.ending.attempts).sum();
    writeln!(
        out,
        "\n{} envelopes: {}.\n{attempts} attempts made {} mails and {} notifications; {} pages and {} acks at the \
         seam.\nThe mails, as HTML and as text: {}",
        rows.len(),
        ways.join(", "),
        log.mails().count(),
        log.pushes().count(),
        log.pages(),
        log.acks().count(),
        mails.display()
    )
    .context(OUTPUT)
}

/// Stands before what differs.
pub(super) const NOT_AS_IT_SHOULD_BE: &str = "Not as it should be:";

/// Whether all is well, and if not, what differs.
pub(super) fn verdict(out: &mut impl Write, wrong: &[String]) -> anyhow::Result<()> {
    if wrong.is_empty() {
        let good =
            "Each envelope ended as it should, and the stand-ins found nothing wrong with any request.";
        return writeln!(out, "{good}").context(OUTPUT);
    }
    writeln!(out, "\n{NOT_AS_IT_SHOULD_BE}").context(OUTPUT)?;
    wrong.iter().try_for_each(|what| writeln!(out, "  {what}")).context(OUTPUT)
}

/// What happens after the table.
pub(super) fn going_on(out: &mut impl Write, admin: Option<SocketAddr>) -> anyhow::Result<()> {
    writeln!(out, "\nThe worker stays up, with a fresh envelope every few seconds. Ctrl-C ends it.")
        .context(OUTPUT)?;
    if let Some(address) = admin {
        writeln!(
            out,
            "Look at http://{address}/ for what it is doing; it is not ready because of mail-version-2. Its \
             metrics are at http://{address}/metrics.",
        )
        .context(OUTPUT)?;
    }
    writeln!(out).context(OUTPUT)
}
