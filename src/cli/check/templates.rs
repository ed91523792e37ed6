//! Whether the templates render, and stay well below what a mail may have.

use super::super::{Failure, library};
use super::report::Line;
use crate::config::Rendering;
use crate::render::{Library, MAX_MAIL_BYTES, Templates};

const TOPIC: &str = "templates";

/// Loads the set as the worker would, and says how that went; with the set, where there is one.
pub(super) fn check(rendering: Rendering) -> (Vec<Line>, Option<Library>) {
    let problems = match library(rendering) {
        Ok(library) => {
            let lines = loaded(&library.current());
            return (lines, Some(library));
        }
        Err(Failure::Configuration(problems)) => problems,
        Err(Failure::Other(error)) => vec![format!("{error:#}")],
    };
    let mend = "mend the file: the worker does not start with it, and a reload keeps the old set";
    (problems.into_iter().map(|problem| Line::fail(TOPIC, problem, mend)).collect(), None)
}

fn loaded(templates: &Templates) -> Vec<Line> {
    let names: Vec<&str> = templates.names().collect();
    let mut lines = vec![Line::ok(TOPIC, format!("each renders its example: {}", names.join(", ")))];
    for example in templates.mail_examples() {
        let bytes = templates.mail(example).ok().and_then(|mail| mail.nearly_too_large());
        lines.extend(bytes.map(|bytes| {
            let name = example.template.as_str();
            let what = format!(
                "the example of {name} makes a mail of {bytes} bytes: from {MAX_MAIL_BYTES} on it fails"
            );
            Line::warn(
                TOPIC,
                what,
                "make the template say it in less: Gmail cuts what is longer, footer and all",
            )
        }));
    }
    lines
}
