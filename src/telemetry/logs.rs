//! How log lines leave the process.
//!
//! Owns format, filter and stream. Logs go to stderr: stdout belongs to what a command makes. It must not
//! know what is logged.

use std::any::Any;
use std::fmt::{self, Display};
use std::io::{IsTerminal, Write};
use std::panic::PanicHookInfo;

use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

use super::screen::Screen;

/// How logs are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// For machines or for people.
    pub format: Format,
    /// Which lines.
    pub filter: Filter,
}

/// The form of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object.
    Json,
    /// Words, for a terminal.
    Text,
}

impl Format {
    /// Reads the setting's word.
    pub fn parse(word: &str) -> Option<Format> {
        match word {
            "json" => Some(Format::Json),
            "text" => Some(Format::Text),
            _ => None,
        }
    }

    /// Text where a person looks on, JSON everywhere else.
    pub fn of_stderr() -> Format {
        if std::io::stderr().is_terminal() { Format::Text } else { Format::Json }
    }
}

/// Directives of `RUST_LOG` that have been found to be readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(String);

impl Filter {
    /// Takes directives such as `info` or `warn,delivery_worker=debug`.
    ///
    /// # Errors
    /// They are not readable.
    pub fn parse(directives: &str) -> Result<Filter, impl Display + use<>> {
        // A word that is no level would be taken for the name of a module, and silence all others.
        let bare = |word: &&str| !word.contains(['=', '[']) && !word.trim().is_empty();
        let levels =
            directives.split(',').filter(bare).all(|word| word.trim().parse::<LevelFilter>().is_ok());
        match EnvFilter::builder().parse(directives) {
            Ok(_) if levels => Ok(Filter(directives.to_owned())),
            _ => Err("must be a level (error, warn, info, debug, trace) or a list of target=level"),
        }
    }

    fn env_filter(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }
}

/// From now on a panic is told like everything else: in the log, or on stderr while there is none. The
/// standard hook would print its message, whatever that quotes: this is for before anything is read.
pub fn guard_panics() {
    std::panic::set_hook(Box::new(tell_panic));
}

/// Whoever listens beside the log.
pub type Listener = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts logging for the whole process, on stderr, above the line of `screen`; spans go to `spans`.
///
/// # Errors
/// Logging has been started before.
pub fn start(settings: &Settings, screen: &Screen, spans: Option<Listener>) -> Result<(), AlreadyStarted> {
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = subscriber(settings, ansi, screen.clone(), spans);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| AlreadyStarted)
}

/// Logging can be started once in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("logging has been started before")]
pub struct AlreadyStarted;

fn subscriber<W>(
    settings: &Settings,
    ansi: bool,
    writer: W,
    spans: Option<Listener>,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A closed stderr must not become a panic, which telling of it there would be.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(ansi)
        .with_target(false)
        .log_internal_errors(false);
    let lines: Listener = match settings.format {
        Format::Json => {
            Box::new(lines.json().flatten_event(true).with_current_span(false).with_span_list(false))
        }
        Format::Text => Box::new(lines),
    };
    let filter = settings.filter.env_filter().and(filter_fn(may_be_shown));
    let layers: Vec<Listener> = [lines.with_filter(filter).boxed()].into_iter().chain(spans).collect();
    Box::new(tracing_subscriber::registry().with(layers))
}

/// Below a warning, HTTP libraries tell URLs and headers, and an endpoint or a key is in those. No
/// setting brings them into a log.
fn may_be_shown(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let ours = target == "delivery_worker" || target.starts_with("delivery_worker::");
    ours || *metadata.level() <= LevelFilter::WARN
}

fn tell_panic(info: &PanicHookInfo<'_>) {
    let (at, message) = (info.location().map(ToString::to_string), message(info.payload()));
    if tracing::dispatcher::has_been_set() {
        tracing::error!(at, "panic: {message}");
    } else {
        // A closed stderr leaves nobody to tell.
        writeln!(std::io::stderr(), "panic at {}: {message}", at.unwrap_or_default()).ok();
    }
}

/// What may be shown of a panic: a literal message. One that was put together may quote data.
fn message(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("(not shown: its message may hold data)")
}

/// Longer words than this come from nowhere good.
const LONGEST_WORD: usize = 128;

/// A word that the app chose (an id, a name), as it may stand in a line: cut where it is too long, and
/// without control characters, which could forge a line.
pub(super) struct Word<'a>(pub(super) &'a str);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let forges = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202E}');
        if self.0.len() <= LONGEST_WORD && !self.0.contains(forges) {
            return f.write_str(self.0);
        }
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(LONGEST_WORD) {
            f.write_char(if forges(c) { '\u{FFFD}' } else { c })?;
        }
        if chars.next().is_some() { f.write_char('…') } else { Ok(()) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Where the lines of one test go.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What `work` logs, as it would be written.
    pub(crate) fn logged(format: Format, filter: &str, work: impl FnOnce()) -> String {
        let lines = Lines::default();
        let settings = Settings { format, filter: Filter(filter.to_owned()) };
        let writer = lines.clone();
        tracing::subscriber::with_default(subscriber(&settings, false, move || writer.clone(), None), work);
        lines.text()
    }

    #[test]
    fn a_json_line_is_one_flat_object() {
        let line = logged(Format::Json, "info", || tracing::info!(channel = "email", "acked"));
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["message"], &object["channel"]), (&"acked".into(), &"email".into()));
        assert_eq!(object["level"], "INFO");
    }

    #[test]
    fn the_chatter_of_libraries_is_never_shown_below_a_warning() {
        let lines = logged(Format::Text, "trace", || {
            tracing::debug!(target: "hyper_util::client", "connecting to https://push.example/secret");
            tracing::info!(target: "delivery_workers_of_others", "theirs");
            tracing::warn!(target: "hyper_util::client", "theirs, urgent");
            tracing::trace!("ours");
        });
        assert!(lines.contains("ours") && lines.contains("theirs, urgent"), "{lines}");
        assert_eq!(lines.lines().count(), 2, "{lines}");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused() {
        for good in ["info", "warn,delivery_worker=debug", "off"] {
            assert!(Filter::parse(good).is_ok(), "{good}");
        }
        for bad in ["delivery_worker=loud", "loud", "verbose,delivery_worker=debug"] {
            assert!(Filter::parse(bad).is_err(), "{bad}: it would silence everything");
        }
    }

    #[test]
    fn a_panics_message_is_shown_only_where_it_cannot_hold_data() {
        let payload = |work: fn()| std::panic::catch_unwind(work).unwrap_err();
        assert_eq!(message(&*payload(|| panic!("a table is empty"))), "a table is empty");
        let quoting = payload(|| panic!("no {}", String::from("marker@example.test")));
        assert!(!message(&*quoting).contains("marker"));
    }

    #[test]
    fn a_word_of_the_app_cannot_forge_a_line() {
        assert_eq!(Word("a\nb\u{2028}c\u{1b}[2J").to_string(), "a\u{FFFD}b\u{FFFD}c\u{FFFD}[2J");
        assert_eq!(Word(&"x".repeat(129)).to_string(), format!("{}…", "x".repeat(128)));
        assert_eq!(Word("Größe/1").to_string(), "Größe/1");
    }
}
