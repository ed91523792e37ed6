//! `render`: shows what one envelope becomes, without sending anything.
//!
//! Owns the reading of one envelope file and the formats of its output. It must not know a provider.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use serde_json::json;

use crate::channel::push::message::{plaintext, topic};
use crate::envelope::{self, Envelope, Reading};
use crate::outcome::Refusal;
use crate::render::Library;

/// Renders one envelope file and prints the message.
#[derive(Debug, clap::Args)]
pub struct RenderArgs {
    /// A file with one envelope as JSON; `-` reads standard input
    pub file: PathBuf,

    /// Render for this channel instead of the envelope's own
    #[arg(long, value_enum)]
    pub channel: Option<Medium>,

    /// What to print: for email text unless said otherwise, for push json
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

/// A channel that this build renders for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Medium {
    /// A mail
    Email,
    /// A notification
    Push,
}

/// What of a message is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The HTML part of a mail
    Html,
    /// The plain-text part of a mail
    Text,
    /// The subject of a mail
    Subject,
    /// The whole message, its parts as strings
    Json,
}

/// Renders the envelope of `args.file` with the library's current templates and writes it to `out`.
///
/// # Errors
/// The file cannot be read, holds no envelope (the field is named), cannot be rendered, or the channel
/// has no such format.
pub fn run(args: &RenderArgs, library: &Library, out: &mut impl Write) -> anyhow::Result<()> {
    let envelope = parse(&read(&args.file)?)?;
    let medium = match args.channel {
        Some(medium) => medium,
        None => Medium::from_str(envelope.channel.as_str(), false)
            .map_err(|_| anyhow!("channel: this build renders email and push; choose one with --channel"))?,
    };
    let message = match medium {
        Medium::Email => mail(&envelope, library, args.format.unwrap_or(Format::Text))?,
        Medium::Push => notification(&envelope, library, args.format.unwrap_or(Format::Json))?,
    };
    writeln!(out, "{}", message.trim_end_matches('\n')).context("writing the message")
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("reading standard input")?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}

fn parse(text: &str) -> anyhow::Result<Envelope> {
    // Before the contract's reader, because serde_json can say where the JSON breaks off.
    serde_json::from_str::<serde::de::IgnoredAny>(text).context("the file is not one JSON value")?;
    match envelope::read(text) {
        Reading::Envelope(envelope) => Ok(*envelope),
        Reading::Malformed { error, .. } => bail!("the envelope is malformed: {error}"),
        Reading::Unreadable { version, .. } => {
            bail!("schema_version: this build reads \"{}\" and not {version}", envelope::SCHEMA_VERSION)
        }
        Reading::Unnamed { problem } => bail!("the envelope is malformed: {problem}"),
    }
}

fn mail(envelope: &Envelope, library: &Library, format: Format) -> anyhow::Result<String> {
    let mail = library.current().mail(envelope).map_err(explain)?;
    match format {
        Format::Html => Ok(mail.html),
        Format::Text => Ok(mail.text),
        Format::Subject => Ok(mail.subject),
        Format::Json => pretty(&json!({
            "subject": mail.subject,
            "html": mail.html,
            "text": mail.text,
            "unsubscribe": mail.unsubscribe.as_str(),
        })),
    }
}

fn notification(envelope: &Envelope, library: &Library, format: Format) -> anyhow::Result<String> {
    if format != Format::Json {
        bail!("a push message has no such part: the format of push is json");
    }
    let notification = library.current().notification(envelope).map_err(explain)?;
    let payload = plaintext(&notification, &topic(&envelope.id)).map_err(explain)?;
    pretty(&serde_json::from_slice(&payload).context("reading the notification back")?)
}

fn explain(refusal: Refusal) -> anyhow::Error {
    anyhow!("this envelope can never be sent ({}): {}", refusal.cause, refusal.detail)
}

fn pretty(message: &serde_json::Value) -> anyhow::Result<String> {
    serde_json::to_string_pretty(message).context("writing the message as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Links;
    use serde_json::Value;
    use url::Url;

    fn render(envelope: &str, channel: Option<Medium>, format: Option<Format>) -> anyhow::Result<String> {
        let links = Links::new(&Url::parse("https://app.test").unwrap(), "/unsubscribe").unwrap();
        let library = Library::load(None, links).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), envelope).unwrap();
        let mut out = Vec::new();
        run(&RenderArgs { file: file.path().to_owned(), channel, format }, &library, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn example() -> Value {
        serde_json::from_str(include_str!("../../templates/resurface-nudge.v1/example.json")).unwrap()
    }

    fn problem(envelope: &str) -> String {
        format!("{:#}", render(envelope, None, None).unwrap_err())
    }

    #[test]
    fn each_part_of_a_mail_can_be_had_alone_and_the_text_unasked() {
        let envelope = example().to_string();
        let part = |format| render(&envelope, None, format).unwrap();
        assert_eq!(part(Some(Format::Subject)), "Worth returning to: “Practice Rooms”\n");
        assert!(part(Some(Format::Html)).starts_with("<!doctype html>"));
        assert!(part(None).starts_with("Worth returning to\n"));
        let whole: Value = serde_json::from_str(&part(Some(Format::Json))).unwrap();
        assert_eq!(whole["text"].as_str().unwrap().trim_end(), part(Some(Format::Text)).trim_end());
        assert_eq!(whole["unsubscribe"], "https://app.test/unsubscribe?ref=example-ref");
    }

    #[test]
    fn a_notification_is_json_and_nothing_else() {
        let envelope = example().to_string();
        let push: Value =
            serde_json::from_str(&render(&envelope, Some(Medium::Push), None).unwrap()).unwrap();
        assert_eq!(push["url"], "https://app.test/player/practice-rooms?t=308");
        assert_eq!(push["tag"].as_str().map(str::len), Some(32), "what is sent, whole");
        let error = render(&envelope, Some(Medium::Push), Some(Format::Html)).unwrap_err();
        assert!(error.to_string().contains("the format of push is json"));
    }

    #[test]
    fn what_cannot_be_rendered_says_why() {
        let with = |field: &str, value: Value| {
            let mut envelope = example();
            envelope[field] = value;
            problem(&envelope.to_string())
        };
        assert!(problem("{\n\"id\": }").contains("line 2"));
        assert_eq!(problem("[]"), "the envelope is malformed: id is missing");
        assert_eq!(with("recipient", Value::Null), "the envelope is malformed: recipient: is missing");
        assert_eq!(with("schema_version", json!("2")), "schema_version: this build reads \"1\" and not 2");
        assert!(with("channel", json!("sms")).starts_with("channel: "));
        assert_eq!(
            with("payload", json!({"highlight_count": 1})),
            "this envelope can never be sent (payload_invalid): lead: is missing in the payload \
             (template resurface-nudge.v1)"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let args = RenderArgs { file: "/nowhere/envelope.json".into(), channel: None, format: None };
        let links = Links::new(&Url::parse("https://app.test").unwrap(), "/unsubscribe").unwrap();
        let library = Library::load(None, links).unwrap();
        let error = run(&args, &library, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/envelope.json"));
    }
}
