//! `render`: shows what one envelope becomes, without sending anything.
//!
//! Owns the reading of one envelope file and the formats of its output. It must not know a provider. The page
//! that shows the message anew at each save is `watch`'s.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use serde_json::json;

use super::{Failure, library};
use crate::channel::push::message::{plaintext, topic};
use crate::config::Rendering;
use crate::envelope::{self, Envelope, Reading};
use crate::outcome::Refusal;
use crate::render::Library;

mod watch;

/// Renders one envelope file and prints the message.
#[derive(Debug, Clone, clap::Args)]
pub struct RenderArgs {
    /// A file with one envelope as JSON; `-` reads standard input
    pub file: PathBuf,

    /// Render for this channel instead of the envelope's own
    #[arg(long, value_enum)]
    pub channel: Option<Medium>,

    /// What to print: for email text unless said otherwise, for push json
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Show the message on a page instead, and anew at each save of the envelope or of a template in this
    /// directory, whose files add to the built-in ones and override them
    #[arg(long, value_name = "DIR", conflicts_with = "format")]
    pub watch: Option<PathBuf>,

    /// The page's port on 127.0.0.1; 0 is any free one
    #[arg(long, value_name = "PORT", default_value_t = 9112, requires = "watch")]
    pub port: u16,
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

/// Renders the envelope of `args.file` and writes it to `out`; or shows it on a page until it is stopped.
///
/// # Errors
/// A template is broken, the file cannot be read, holds no envelope (the field is named), cannot be rendered,
/// or the channel has no such format. With `args.watch` the page tells all that; what fails there is a port
/// that is taken, or a directory that cannot be watched.
pub fn run(args: &RenderArgs, rendering: Rendering, out: &mut impl Write) -> Result<(), Failure> {
    match &args.watch {
        Some(directory) => Ok(watch::run(args, directory, rendering, out)?),
        None => Ok(print(args, &library(rendering)?, out)?),
    }
}

fn print(args: &RenderArgs, library: &Library, out: &mut impl Write) -> anyhow::Result<()> {
    let envelope = parse(&read(&args.file)?)?;
    let message = match medium(args, &envelope)? {
        Medium::Email => mail(&envelope, library, args.format.unwrap_or(Format::Text))?,
        Medium::Push => notification(&envelope, library, args.format.unwrap_or(Format::Json))?,
    };
    writeln!(out, "{}", message.trim_end_matches('\n')).context("writing the message")
}

fn medium(args: &RenderArgs, envelope: &Envelope) -> anyhow::Result<Medium> {
    let own = || Medium::from_str(envelope.channel.as_str(), false);
    args.channel
        .map_or_else(own, Ok)
        .map_err(|_| anyhow!("channel: this build renders email and push; choose one with --channel"))
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
    pretty(&payload(envelope, library)?)
}

/// What the app's service worker gets.
fn payload(envelope: &Envelope, library: &Library) -> anyhow::Result<serde_json::Value> {
    let notification = library.current().notification(envelope).map_err(explain)?;
    let payload = plaintext(&notification, &topic(&envelope.id)).map_err(explain)?;
    serde_json::from_slice(&payload).context("reading the notification back")
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

    fn args(file: &Path, channel: Option<Medium>, format: Option<Format>) -> RenderArgs {
        RenderArgs { file: file.to_owned(), channel, format, watch: None, port: 0 }
    }

    fn render(envelope: &str, channel: Option<Medium>, format: Option<Format>) -> anyhow::Result<String> {
        let links = Links::new(&Url::parse("https://app.test").unwrap(), "/unsubscribe").unwrap();
        let library = Library::load(None, links).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), envelope).unwrap();
        let mut out = Vec::new();
        print(&args(file.path(), channel, format), &library, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn example() -> Value {
        serde_json::from_str(include_str!("../../../templates/resurface-nudge.v1/example.json")).unwrap()
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
        let args = args(Path::new("/nowhere/envelope.json"), None, None);
        let links = Links::new(&Url::parse("https://app.test").unwrap(), "/unsubscribe").unwrap();
        let library = Library::load(None, links).unwrap();
        let error = print(&args, &library, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/envelope.json"));
    }
}
