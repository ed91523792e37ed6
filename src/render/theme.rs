//! What makes the messages one product's own: its names, colours and words.
//!
//! Owns [`Theme`], read from `partials/theme.toml`, and what a value there may be. A theme of the operator's
//! changes what it names; every name is one of the built-in theme, so that a slip of the pen is an
//! error and not a colour that never shows. It must not know which template uses what.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::source::{THEME, TemplateError};

/// Where in a word what it is called with goes.
pub(super) const PLACE: &str = "{}";

/// Values by `section.name`. Every value is of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Theme(BTreeMap<String, String>);

impl Theme {
    /// The values of `built_in`, with those of `own` in their place.
    ///
    /// # Errors
    /// Everything that is wrong with `own`, by its line: it is no TOML, a name is not in `built_in`, or a value
    /// does not fit its section.
    pub(super) fn read(built_in: &str, own: &str) -> Result<Theme, Vec<TemplateError>> {
        let mut values = entries(built_in, &mut Vec::new());
        let mut errors = Vec::new();
        for (name, (line, value)) in entries(own, &mut errors) {
            let problem = match values.get(&name) {
                Some((_, built_in)) => unfit(&name, &value, built_in).map(|why| format!("{name} {why}")),
                None => Some(format!("there is no {name} in a theme{}", nearest(&name, values.keys()))),
            };
            match problem {
                Some(problem) => errors.push(TemplateError::new(THEME, Some(line), problem)),
                None => drop(values.insert(name, (line, value))),
            }
        }
        errors.sort_by_key(|error| error.line);
        match errors.is_empty() {
            true => Ok(Theme(values.into_iter().map(|(name, (_, value))| (name, value)).collect())),
            false => Err(errors),
        }
    }

    /// The value of `section.name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

type Entries = BTreeMap<String, (usize, String)>;

/// The values of `text` with their lines.
fn entries(text: &str, errors: &mut Vec<TemplateError>) -> Entries {
    let mut found = Entries::new();
    let mut refuse = |at: Range<usize>, problem: String| {
        errors.push(TemplateError::new(THEME, Some(line_at(text, at.start)), problem));
    };
    let sections = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            refuse(error.span().unwrap_or_default(), error.message().to_owned());
            return found;
        }
    };
    for (section, content) in sections {
        let DeValue::Table(names) = content.get_ref() else {
            refuse(section.span(), format!("{} stands in no section, such as [words]", section.get_ref()));
            continue;
        };
        for (name, value) in names {
            let full = format!("{}.{}", section.get_ref(), name.get_ref());
            match value.get_ref() {
                DeValue::String(value) => {
                    found.insert(full, (line_at(text, name.span().start), value.to_string()));
                }
                _ => refuse(name.span(), format!("{full} must be a text in quotation marks")),
            }
        }
    }
    found
}

fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

/// Why `value` cannot stand for `name`, in the place of `built_in`.
fn unfit(name: &str, value: &str, built_in: &str) -> Option<&'static str> {
    let is_color = |value: &str| {
        value.len() == 7
            && value.strip_prefix('#').is_some_and(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()))
    };
    let all = |allowed: fn(char) -> bool| !value.is_empty() && value.chars().all(allowed);
    match name.split_once('.') {
        Some(("dark" | "light", _)) if !is_color(value) => Some("must be a colour such as \"#9cc4ff\""),
        Some(("type", _)) if !all(|c| c.is_alphanumeric() || " ,-_".contains(c)) => {
            Some("must be names of fonts with commas between them, such as \"Georgia,serif\"")
        }
        Some(("names", "language")) if !all(|c| c.is_ascii_alphanumeric() || c == '-') => {
            Some("must be a language tag such as \"en\"")
        }
        _ if value.chars().any(char::is_control) => Some("must be one line"),
        // A link without words could not be found, nor its page opened.
        _ if value.trim().is_empty() => Some("must not be empty"),
        // One may be said in words; nothing else may get lost, least of all a quote.
        _ if built_in.contains(PLACE) && !value.contains(PLACE) && !name.ends_with("_one") => {
            Some("must hold {}, which stands for what is filled in")
        }
        _ => None,
    }
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let near = known.map(|known| (strsim::damerau_levenshtein(name, known), known)).min();
    near.filter(|(edits, _)| *edits <= 3).map(|(_, known)| format!(": {known} is meant?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: &str = "[names]\nlanguage = \"en\"\n[type]\nfont = \"Arial\"\n[dark]\ncard = \"#000000\"\n\
                            [words]\nunsubscribe = \"Unsubscribe\"\nquoted = \"“{}”\"\nmoments_one = \"{} moment\"\n";

    fn problems(own: &str) -> Vec<String> {
        Theme::read(BUILT_IN, own).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_theme_changes_what_it_names_and_leaves_the_rest() {
        let theme = Theme::read(BUILT_IN, "[words]\nunsubscribe = \"Abmelden\"\n").unwrap();
        assert_eq!(theme.get("words.unsubscribe"), Some("Abmelden"));
        assert_eq!(theme.get("dark.card"), Some("#000000"));
        assert!(Theme::read(BUILT_IN, "[words]\nmoments_one = \"one moment\"").is_ok());
        assert_eq!(Theme::read(BUILT_IN, "").unwrap(), Theme::read(BUILT_IN, BUILT_IN).unwrap());
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_line() {
        for (own, problem) in [
            (
                "[words]\n\nunsubscrib = \"x\"",
                "3: there is no words.unsubscrib in a theme: words.unsubscribe is meant?",
            ),
            ("[colours]\ncard = \"#000000\"", "2: there is no colours.card in a theme"),
            ("[dark]\ncard = \"black\"", "2: dark.card must be a colour such as \"#9cc4ff\""),
            ("[dark]\ncard = \"#00000é\"", "2: dark.card must be a colour such as \"#9cc4ff\""),
            (
                "[type]\nfont = \"a;} b{\"",
                "2: type.font must be names of fonts with commas between them, such as \"Georgia,serif\"",
            ),
            ("[names]\nlanguage = \"\"", "2: names.language must be a language tag such as \"en\""),
            ("[words]\nunsubscribe = \"a\\nb\"", "2: words.unsubscribe must be one line"),
            ("[words]\nunsubscribe = \" \"", "2: words.unsubscribe must not be empty"),
            (
                "[words]\nquoted = \"a quote\"",
                "2: words.quoted must hold {}, which stands for what is filled in",
            ),
            ("[words]\nunsubscribe = 7", "2: words.unsubscribe must be a text in quotation marks"),
            ("[words.unsubscribe]\na = \"b\"", "1: words.unsubscribe must be a text in quotation marks"),
            ("card = \"#000000\"", "1: card stands in no section, such as [words]"),
        ] {
            assert_eq!(problems(own), [format!("partials/theme.toml:{problem}")]);
        }
        assert!(problems("[words]\nunsubscribe = \"")[0].starts_with("partials/theme.toml:2: "));
        assert_eq!(problems("[dark]\ncard = \"red\"\ncart = \"\"").len(), 2, "all at once");
    }
}
