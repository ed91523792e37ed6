//! The terminal, where log lines and a progress line must not write over each other.
//!
//! Owns the one line that moves. It must not know what it says, nor what is logged.

use std::io::{self, IsTerminal, Stderr, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

/// Often enough to look alive, seldom enough to cost nothing.
const REDRAW: Duration = Duration::from_millis(120);

/// Where a person looks on, or a plain stream. Clones share the line.
#[derive(Debug, Clone)]
pub struct Screen(ProgressBar);

impl Screen {
    /// No line that moves.
    pub fn plain() -> Screen {
        Screen(ProgressBar::hidden())
    }

    /// One on stderr, if that is a terminal which can move its cursor.
    pub fn of_stderr() -> Screen {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if dumb || !io::stderr().is_terminal() {
            return Screen::plain();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // A style that cannot be read would be a defect that shows at once: the default one.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(REDRAW);
        Screen(bar)
    }

    /// Whether anybody sees the line.
    pub fn shows(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Lets the line say this.
    pub fn show(&self, line: String) {
        self.0.set_message(line);
    }

    /// Takes the line away, for good.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }

    /// A stream to the same terminal: each whole line that is written there comes above the line.
    pub fn above<W: Write>(&self, stream: W) -> Above<W> {
        Above { screen: self.clone(), stream, begun: Vec::new() }
    }
}

/// A stream that moves the line out of the way.
#[derive(Debug)]
pub struct Above<W: Write> {
    screen: Screen,
    stream: W,
    /// A line without its end: the cursor must not be left in the middle of one.
    begun: Vec<u8>,
}

impl<W: Write> Write for Above<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        if let Some(last) = self.begun.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.begun.split_off(last + 1);
            let lines = std::mem::replace(&mut self.begun, rest);
            self.screen.0.suspend(|| self.stream.write_all(&lines))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        self.screen.0.suspend(|| self.stream.write_all(&begun).and_then(|()| self.stream.flush()))
    }
}

impl<W: Write> Drop for Above<W> {
    fn drop(&mut self) {
        // A stream that is closed leaves nobody to tell.
        self.flush().ok();
    }
}

impl<'w> MakeWriter<'w> for Screen {
    type Writer = Above<Stderr>;

    fn make_writer(&'w self) -> Above<Stderr> {
        self.above(io::stderr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_leave_whole_and_the_rest_at_the_end() {
        let mut stream = Vec::new();
        let mut above = Screen::plain().above(&mut stream);
        write!(above, "a {}", 1).unwrap();
        assert!(above.stream.is_empty(), "half a line waits");
        write!(above, " b\nc").unwrap();
        assert_eq!(above.stream.as_slice(), b"a 1 b\n");
        drop(above);
        assert_eq!(stream, b"a 1 b\nc");
    }
}
