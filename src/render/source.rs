//! Where templates come from: the ones compiled in, and a directory over them.
//!
//! Owns [`Part`], the files that make a template, and [`gather`], which collects a set's files by their
//! path. The directory wins file by file: a file there replaces the built-in one of the same path, and
//! any other adds to the set, so that one subject line can be changed, a partial replaced, or a whole
//! new template brought in, without a build. It must not know what is in a file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rust_embed::RustEmbed;

/// The folder beside the templates that holds what they share: `partials/html`, `partials/text`.
pub(super) const PARTIALS: &str = "partials";

/// The JSON Schema of the payload, in each template's folder.
pub(super) const SCHEMA: &str = "payload.schema.json";

/// The names, colours and words that the templates share.
pub(super) const THEME: &str = "partials/theme.toml";

/// The sample envelope, in each template's folder.
pub(super) const EXAMPLE: &str = "example.json";

/// The most bytes of a file: ten times what a mail may have.
const FILE_CAP: u64 = 1024 * 1024;

/// `partials/html/name.hbs`: nothing lies deeper.
const DEEPEST: usize = 3;

#[derive(RustEmbed)]
#[folder = "templates/"]
struct BuiltIn;

/// One output of a template, each in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Subject,
    Html,
    Text,
    Title,
    Body,
    Url,
}

impl Part {
    /// What a mail is made of.
    pub(super) const MAIL: [Part; 3] = [Part::Subject, Part::Html, Part::Text];

    /// What a notification is made of.
    pub(super) const NOTIFICATION: [Part; 3] = [Part::Title, Part::Body, Part::Url];

    /// Its file in the template's folder.
    pub(super) fn file(self) -> &'static str {
        match self {
            Part::Subject => "email.subject.hbs",
            Part::Html => "email.html.hbs",
            Part::Text => "email.text.hbs",
            Part::Title => "push.title.hbs",
            Part::Body => "push.body.hbs",
            Part::Url => "push.url.hbs",
        }
    }

    /// The part that is in `file`.
    pub(super) fn in_file(file: &str) -> Option<Part> {
        Part::MAIL.into_iter().chain(Part::NOTIFICATION).find(|part| part.file() == file)
    }
}

/// The files of a set by their path, parts joined by `/`.
pub(super) type Files = BTreeMap<String, String>;

/// What is wrong with a file of a template set, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The file's path in the set, such as `resurface-nudge.v1/email.html.hbs`.
    pub file: String,
    /// The line, counted from 1, where one is to blame.
    pub line: Option<usize>,
    /// What is wrong, and the field if it is about one.
    pub problem: String,
}

impl TemplateError {
    pub(super) fn new(
        file: impl Into<String>,
        line: Option<usize>,
        problem: impl Into<String>,
    ) -> TemplateError {
        TemplateError { file: file.into(), line, problem: problem.into() }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.problem),
            None => write!(f, "{}: {}", self.file, self.problem),
        }
    }
}

/// Everything that keeps a set of templates from being used. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the templates cannot be used: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct TemplateErrors(pub Vec<TemplateError>);

/// The files of the set: those compiled in, with those of `directory` over them.
///
/// # Errors
/// What of the directory cannot be read.
pub(super) fn gather(directory: Option<&Path>) -> Result<Files, TemplateErrors> {
    let mut files = Files::new();
    let mut errors = Vec::new();
    for path in BuiltIn::iter().filter(|path| is_of_a_template(path)) {
        let content = built_in(&path);
        insert(path.into_owned(), content, &mut files, &mut errors);
    }
    if let Some(directory) = directory {
        read_folder(directory, "", DEEPEST, &mut files, &mut errors);
    }
    if errors.is_empty() { Ok(files) } else { Err(TemplateErrors(errors)) }
}

/// The theme that is compiled in, which every other is read over.
pub(super) fn built_in_theme() -> String {
    String::from_utf8(built_in(THEME)).unwrap_or_default()
}

fn built_in(path: &str) -> Vec<u8> {
    BuiltIn::get(path).map(|file| file.data.into_owned()).unwrap_or_default()
}

/// Collects the templates' files below `folder`. Others (notes, an editor's backups, hidden ones) are
/// let be. A symbolic link is followed: that is how mounted configuration arrives.
fn read_folder(
    folder: &Path,
    prefix: &str,
    depth: usize,
    files: &mut Files,
    errors: &mut Vec<TemplateError>,
) {
    let entries = match fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()) {
        Ok(entries) => entries,
        Err(error) => return errors.push(unreadable(folder, &error)),
    };
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        let is_folder = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata.is_dir(),
            Err(error) => {
                errors.push(unreadable(&entry.path(), &error));
                continue;
            }
        };
        if is_folder {
            if depth > 1 {
                read_folder(&entry.path(), &format!("{path}/"), depth - 1, files, errors);
            }
        } else if is_of_a_template(&path) {
            match read_file(&entry.path()) {
                Ok(content) => insert(path, content, files, errors),
                Err(error) => errors.push(unreadable(&entry.path(), &error)),
            }
        }
    }
}

/// Reads no further than the cap, whatever the size is said to be: a device may have no end.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(FILE_CAP + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_CAP {
        return Err(io::Error::other(format!("it is larger than {FILE_CAP} bytes")));
    }
    Ok(content)
}

fn is_of_a_template(path: &str) -> bool {
    path.ends_with(".hbs") || path.ends_with(".json") || path == THEME
}

fn unreadable(path: &Path, error: &io::Error) -> TemplateError {
    TemplateError::new(path.display().to_string(), None, format!("cannot be read: {error}"))
}

fn insert(path: String, content: Vec<u8>, files: &mut Files, errors: &mut Vec<TemplateError>) {
    match String::from_utf8(content) {
        Ok(text) => {
            files.insert(path, text);
        }
        Err(_) => errors.push(TemplateError::new(path, None, "is not UTF-8")),
    }
}
