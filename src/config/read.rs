//! Reading one variable at a time, and keeping every problem for the end.
//!
//! Owns [`Reader`]: presence, files of secrets, and the forms of values. It must not know what a value
//! is for. No problem quotes the value it is about: someone may have put a secret into the wrong place.

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

use super::environment::Environment;
use super::variables::Variable;

/// One thing that keeps the worker from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The variable's name.
    pub variable: &'static str,
    /// What is wrong with it; never its value.
    pub what: String,
    /// A value that would be taken.
    pub example: &'static str,
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { variable, what, example } = self;
        write!(f, "{variable} {what} (e.g. {variable}={example})")
    }
}

/// A secret is never longer: a larger file is some other file.
const SECRET_FILE_CAP: u64 = 64 * 1024;

/// What control characters a secret may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// None: it travels in a header, which takes visible ASCII.
    Header,
    /// Line breaks: it may be a PEM file.
    Lines,
}

/// Reads variables and collects what is wrong with them.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    env: &'a Environment,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: &'a Environment) -> Reader<'a> {
        Reader { env, problems: Vec::new() }
    }

    /// Whether nothing has been wrong so far.
    pub(super) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Everything that was wrong.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Notes a problem; the `None` is the value that could not be had.
    pub(super) fn problem<T>(&mut self, variable: &Variable, what: impl Into<String>) -> Option<T> {
        let Variable { name, example, .. } = *variable;
        self.problems.push(Problem { variable: name, what: what.into(), example });
        None
    }

    /// Whether the variable, or its file, is set at all.
    pub(super) fn is_set(&self, variable: &Variable) -> bool {
        self.env.get(variable.name).is_some()
            || (variable.secret && self.env.get(&file_of(variable)).is_some())
    }

    /// The value, trimmed; `Ok(None)` where it is not set.
    fn text(&mut self, variable: &Variable) -> Result<Option<String>, Noted> {
        match self.env.get(variable.name).map(|value| value.to_str()) {
            None => Ok(None),
            Some(None) => self.noted(variable, "is not UTF-8"),
            Some(Some(text)) if text.trim().is_empty() => Ok(None),
            Some(Some(text)) if text.trim().chars().any(char::is_control) => {
                self.noted(variable, "holds a line break or another control character")
            }
            Some(Some(text)) => Ok(Some(text.trim().to_owned())),
        }
    }

    fn noted<T>(&mut self, variable: &Variable, what: impl Into<String>) -> Result<T, Noted> {
        self.problem::<T>(variable, what);
        Err(Noted)
    }

    /// An optional value, read by `parse`; what is wrong with it is noted.
    pub(super) fn optional<T, E: Display>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(variable).ok()??;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(what) => self.problem(variable, what.to_string()),
        }
    }

    /// The same where a value must be there.
    pub(super) fn required<T, E: Display>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match self.text(variable) {
            Ok(None) => self.problem(variable, "is not set"),
            Ok(Some(text)) => match parse(&text) {
                Ok(value) => Some(value),
                Err(what) => self.problem(variable, what.to_string()),
            },
            Err(Noted) => None,
        }
    }

    /// A value or the variable's default, which is a value.
    pub(super) fn or_default<T, E: Display>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(variable).ok()?.unwrap_or_else(|| variable.default.to_owned());
        match parse(&text) {
            Ok(value) => Some(value),
            Err(what) => self.problem(variable, what.to_string()),
        }
    }

    /// A secret that must be there, from the variable or from the file that `{name}_FILE` names.
    pub(super) fn secret(&mut self, variable: &Variable, shape: Shape) -> Option<SecretString> {
        let text = match (self.env.get(variable.name), self.env.get(&file_of(variable))) {
            (None, None) => return self.problem(variable, "is not set"),
            (Some(_), Some(_)) => {
                return self.problem(variable, "is set, and so is its _FILE: set one of them");
            }
            (Some(value), None) => value.to_str().ok_or_else(|| "is not UTF-8".to_owned()).map(str::to_owned),
            (None, Some(path)) => read_file(path),
        };
        match text.and_then(|text| shaped(&text, shape)) {
            Ok(secret) => Some(secret),
            Err(what) => self.problem(variable, what),
        }
    }
}

/// The problem is noted; there is no value.
struct Noted;

fn file_of(variable: &Variable) -> String {
    format!("{}_FILE", variable.name)
}

fn read_file(path: &OsStr) -> Result<String, String> {
    let mut text = String::new();
    let read =
        File::open(Path::new(path)).and_then(|file| file.take(SECRET_FILE_CAP + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(format!("cannot be read from the file that its _FILE names ({error})")),
        Ok(length) if length as u64 > SECRET_FILE_CAP => {
            Err("comes from a file too large to be a secret".to_owned())
        }
        Ok(_) => Ok(text),
    }
}

fn shaped(text: &str, shape: Shape) -> Result<SecretString, String> {
    let text = text.trim();
    let fits = |c: char| match shape {
        Shape::Header => c == ' ' || c.is_ascii_graphic(),
        Shape::Lines => !c.is_control() || matches!(c, '\n' | '\r'),
    };
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if !text.chars().all(fits) {
        return Err("holds a character that cannot be part of it: was it copied whole, and alone?".to_owned());
    }
    Ok(SecretString::from(text))
}

/// A whole number within `range`.
pub(super) fn whole<T>(range: RangeInclusive<T>) -> impl FnOnce(&str) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    move |text| match text.parse::<T>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("must be a whole number from {} to {}", range.start(), range.end())),
    }
}

/// A length of time within `range`, as humantime writes it: `200ms`, `5s`, `15m`.
pub(super) fn duration(range: RangeInclusive<Duration>) -> impl FnOnce(&str) -> Result<Duration, String> {
    move |text| match humantime::parse_duration(text) {
        Ok(duration) if range.contains(&duration) => Ok(duration),
        Ok(_) => Err(format!(
            "must be between {} and {}",
            humantime::format_duration(*range.start()),
            humantime::format_duration(*range.end())
        )),
        Err(_) => Err("must be a length of time with its unit".to_owned()),
    }
}

/// `true` or `false`.
pub(super) fn switch(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false"),
    }
}
