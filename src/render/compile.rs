//! From files to a checked set of templates.
//!
//! Owns [`compile`]: every file compiles, every template is whole, and each renders its own example for
//! every channel that it serves; otherwise there is no set, and every problem is named at once. It must not
//! know where the files came from.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use handlebars::Handlebars;

use super::fold::fold;
use super::helpers;
use super::inline::{self, inline};
use super::inspect::{Rules, circle, inspect};
use super::links::Links;
use super::payload::PayloadSchema;
use super::source::{self, EXAMPLE, Files, PARTIALS, Part, SCHEMA, THEME, TemplateError, TemplateErrors};
use super::template::{Engine, Template};
use super::text;
use super::theme::Theme;
use crate::envelope::{self, Envelope, Reading};

/// Compiles and checks a whole set.
///
/// # Errors
/// Every problem that was found: file, line, and the field if it is about one.
pub(super) fn compile(files: &Files, links: &Links) -> Result<BTreeMap<String, Template>, TemplateErrors> {
    let mut errors = Vec::new();
    let own = files.get(THEME).map(String::as_str).unwrap_or_default();
    // Each use of a name that is not in a broken theme would only say the same thing twice.
    let theme = Theme::read(&source::built_in_theme(), own).map_err(TemplateErrors)?;
    let engine = Arc::new(build_engine(files, links, theme, &mut errors));
    let mut templates = BTreeMap::new();
    for name in folders(files) {
        if let Some(template) = assemble(name, files, &engine, &mut errors) {
            templates.insert(name.to_owned(), template);
        }
    }
    // An example that fails because of a broken partial would only say the same thing twice.
    if errors.is_empty() {
        for template in templates.values() {
            try_example(template, &mut errors);
        }
    }
    if errors.is_empty() { Ok(templates) } else { Err(TemplateErrors(errors)) }
}

/// The templates' names, each once.
fn folders(files: &Files) -> Vec<&str> {
    let mut names: Vec<_> =
        files.keys().filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
    names.dedup();
    names.retain(|name| *name != PARTIALS);
    names
}

fn build_engine(files: &Files, links: &Links, theme: Theme, errors: &mut Vec<TemplateError>) -> Engine {
    let (links, theme) = (Arc::new(links.clone()), Arc::new(theme));
    let mut html = registry(&links, &theme);
    helpers::register_html(&mut html);
    html.register_escape_fn(text::escape_html);
    let mut plain = registry(&links, &theme);
    helpers::register_plain(&mut plain);
    plain.register_escape_fn(text::clean);
    for (path, source) in files.iter().filter(|(path, _)| *path != THEME) {
        let parts: Vec<_> = path.split('/').collect();
        let (registry, name) = match parts.as_slice() {
            [PARTIALS, "html", file] => (&mut html, file.strip_suffix(".hbs")),
            [PARTIALS, "text", file] => (&mut plain, file.strip_suffix(".hbs")),
            [folder, file] if *folder != PARTIALS => match Part::in_file(file) {
                Some(Part::Html) => (&mut html, Some(path.as_str())),
                Some(_) => (&mut plain, Some(path.as_str())),
                None if [SCHEMA, EXAMPLE].contains(file) => continue,
                None => (&mut plain, None),
            },
            _ => (&mut plain, None),
        };
        match name {
            Some(name) => register(registry, name, path, source, errors),
            None => errors.push(TemplateError::new(path, None, misplaced())),
        }
    }
    inspect_all(&html, Kind::Html, &theme, errors);
    inspect_all(&plain, Kind::Text, &theme, errors);
    // A partial that includes itself has no end, and only a set without errors is rendered.
    if errors.is_empty() {
        ease_all(&mut html, Kind::Html, &theme);
        ease_all(&mut plain, Kind::Text, &theme);
    }
    Engine { html, plain, links }
}

fn registry(links: &Arc<Links>, theme: &Arc<Theme>) -> Handlebars<'static> {
    let mut registry = Handlebars::new();
    registry.set_strict_mode(true);
    // Otherwise the white space before a partial's tag would get into multi-line data.
    registry.set_prevent_indent(true);
    // It would write personal data to the log.
    registry.unregister_helper("log");
    helpers::register(&mut registry, links, theme);
    inline::register(&mut registry);
    registry
}

fn register(
    registry: &mut Handlebars<'static>,
    name: &str,
    path: &str,
    source: &str,
    errors: &mut Vec<TemplateError>,
) {
    if let Err(error) = registry.register_template_string(name, source) {
        let line = error.pos().map(|(line, _)| line);
        errors.push(TemplateError::new(path, line, error.reason().to_string()));
    }
}

fn misplaced() -> String {
    let parts: Vec<_> = Part::MAIL.into_iter().chain(Part::NOTIFICATION).map(Part::file).collect();
    format!(
        "has no place in a template set: a template's folder holds {}, {SCHEMA} and {EXAMPLE}; \
         partials are {PARTIALS}/html/NAME.hbs, {PARTIALS}/text/NAME.hbs and {THEME}",
        parts.join(", ")
    )
}

/// What a registry's templates write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Text,
}

impl Kind {
    /// The file of a template by its name in the registry: a part is called by its path, a partial by its bare name.
    fn file(self, name: &str) -> String {
        let folder = if self == Kind::Html { "html" } else { "text" };
        if is_partial(name) { format!("{PARTIALS}/{folder}/{name}.hbs") } else { name.to_owned() }
    }

    fn escape(self) -> fn(&str) -> String {
        if self == Kind::Html { text::escape_html } else { text::clean }
    }
}

fn is_partial(name: &str) -> bool {
    !name.contains('/')
}

fn inspect_all(registry: &Handlebars<'static>, kind: Kind, theme: &Theme, errors: &mut Vec<TemplateError>) {
    let has_partial = |name: &str| is_partial(name) && registry.has_template(name);
    let mut found = Vec::new();
    for (name, template) in registry.get_templates() {
        let file = kind.file(name);
        let rules = Rules { html: kind == Kind::Html, theme, has_partial: &has_partial };
        let mut problems = inspect(template, rules);
        let via = is_partial(name).then(|| circle(name, registry.get_templates())).flatten();
        problems.extend(via.map(|via| match via == name {
            true => (None, "includes itself".to_owned()),
            false => (None, format!("includes itself by way of {via}")),
        }));
        found.extend(problems.into_iter().map(|(line, problem)| TemplateError::new(&file, line, problem)));
    }
    found.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    errors.append(&mut found);
}

/// Does once what would be done for each message. After the inspection, which reads the templates as they are written.
fn ease_all(registry: &mut Handlebars<'static>, kind: Kind, theme: &Theme) {
    let (mut partials, parts): (HashMap<String, _>, HashMap<String, _>) =
        registry.get_templates().clone().into_iter().partition(|(name, _)| is_partial(name));
    registry.clear_templates();
    for (name, partial) in &mut partials {
        partial.name = Some(kind.file(name));
    }
    for (name, mut part) in parts {
        inline(&mut part, &name, &partials);
        fold(&mut part, theme, kind.escape());
        registry.register_template(&name, part);
    }
}

/// Puts a folder together, or says what it lacks.
fn assemble(
    name: &str,
    files: &Files,
    engine: &Arc<Engine>,
    errors: &mut Vec<TemplateError>,
) -> Option<Template> {
    let path = |file: &str| format!("{name}/{file}");
    let served = |parts: [Part; 3]| parts.iter().any(|part| files.contains_key(&path(part.file())));
    let (serves_mail, serves_notifications) = (served(Part::MAIL), served(Part::NOTIFICATION));
    let mut lacks = |file: &str, why: &str| errors.push(TemplateError::new(path(file), None, why));
    if !serves_mail && !serves_notifications {
        lacks(Part::Subject.file(), "is missing, and so is every other part: the template serves no channel");
    }
    for (serves, parts, why) in [
        (serves_mail, Part::MAIL, "is missing: a mail has subject, html and text"),
        (serves_notifications, Part::NOTIFICATION, "is missing: a notification has title, body and url"),
    ] {
        for part in parts.iter().filter(|part| serves && !files.contains_key(&path(part.file()))) {
            lacks(part.file(), why);
        }
    }
    let schema = files.get(&path(SCHEMA)).ok_or_else(|| "is missing".to_owned());
    let schema = schema
        .and_then(|text| PayloadSchema::compile(text))
        .map_err(|problem| errors.push(TemplateError::new(path(SCHEMA), None, problem)))
        .ok();
    let example = files.get(&path(EXAMPLE)).ok_or_else(|| "is missing".to_owned());
    let example = example
        .and_then(|text| read_example(text))
        .map_err(|problem| errors.push(TemplateError::new(path(EXAMPLE), None, problem)))
        .ok();
    let engine = Arc::clone(engine);
    let (name, schema, example) = (name.to_owned(), schema?, example?);
    Some(Template { name, serves_mail, serves_notifications, schema, example, engine })
}

fn read_example(text: &str) -> Result<Envelope, String> {
    match envelope::read(text) {
        Reading::Envelope(envelope) => Ok(*envelope),
        Reading::Malformed { error, .. } => Err(error.to_string()),
        Reading::Unreadable { version, .. } => Err(format!("schema_version: {version} is not read here")),
        Reading::Unnamed { problem } => Err(problem.to_owned()),
    }
}

/// Renders the example for each channel that the template serves, whichever channel it names.
fn try_example(template: &Template, errors: &mut Vec<TemplateError>) {
    let mail = template.serves_mail.then(|| template.mail(&template.example).err()).flatten();
    let notification =
        template.serves_notifications.then(|| template.notification(&template.example).err()).flatten();
    errors.extend(mail.into_iter().chain(notification).map(|failure| failure.of_example(&template.name)));
}
