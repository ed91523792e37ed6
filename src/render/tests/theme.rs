//! The theme: all that makes the messages one product's, and how another takes its place.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn themed(theme: &str) -> Result<Arc<Templates>, TemplateErrors> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("partials")).unwrap();
    fs::write(directory.path().join("partials/theme.toml"), theme).unwrap();
    Library::load(Some(directory.path().to_owned()), links()).map(|library| library.current())
}

#[test]
fn a_theme_alone_makes_the_messages_another_products() {
    let set = themed(
        "[names]\nlanguage = \"de\"\napp = \"Hörbar\"\n[dark]\naccent = \"#aabbcc\"\n[light]\naccent = \"#112233\"\n\
         [words]\nunsubscribe = \"Abmelden\"\nopen_app = \"{} öffnen\"\nquoted = \"„{}“\"\nweek = \"<Woche> & mehr\"\n",
    )
    .unwrap();
    let mail = set.mail(&read(&digest())).unwrap();
    for changed in
        ["lang=\"de\"", ">Abmelden<", ">Hörbar öffnen<", "„A city", "#aabbcc", "#112233", "walk through.“"]
    {
        assert!(mail.html.contains(changed), "{changed}");
    }
    assert!(!mail.html.contains("#f2c078") && !mail.html.contains("Unsubscribe"));
    assert!(mail.html.contains("Worth revisiting"), "what it does not name stays");
    assert!(mail.text.contains("\nAbmelden:\n") && mail.subject.starts_with("<Woche> & mehr: 4 moments"));
    assert!(set.notification(&read(&nudge())).unwrap().body.contains("„You do not rise"));
}

#[test]
fn words_are_escaped_like_data_and_hold_what_they_are_called_with_once() {
    let set = themed("[words]\nsource_user = \"<b>&\"\nquoted = \"{} {}\"\n").unwrap();
    let mail = set.mail(&read(&digest_of(vec![item_with("quote", json!("{} <i>"))]))).unwrap();
    assert!(
        mail.html.contains("&lt;b&gt;&amp;</p>") && mail.html.contains(">{} &lt;i&gt; {}</p>"),
        "{}",
        mail.html
    );
}

#[test]
fn everything_wrong_with_a_theme_is_told_by_line_and_nothing_of_it_is_taken() {
    let errors = themed("[dark]\naccent = \"gold\"\n\n[words]\nunsubscribe = 1\n").unwrap_err();
    let told: Vec<_> = errors.0.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "partials/theme.toml:2: dark.accent must be a colour such as \"#9cc4ff\"",
            "partials/theme.toml:5: words.unsubscribe must be a text in quotation marks",
        ]
    );
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "hbs") {
            found.push(path);
        }
    }
}

/// What a reader would see of a template's own: without expressions, tags and what only a client reads.
fn wording(source: &str) -> String {
    let without = |text: &str, from: &str, to: &str| {
        let mut parts = text.split(from);
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |kept, part| kept + part.split_once(to).map_or("", |(_, rest)| rest))
    };
    let text = without(&without(source, "<style>", "</style>"), "{{", "}}");
    without(&without(&text, "<!--", "-->"), "<", ">").replace("&#847;", "").replace("&#8199;", "")
}

#[test]
fn no_word_and_no_colour_stands_in_a_template_but_by_way_of_the_theme() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("templates"), &mut files);
    assert!(files.len() > 15);
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let name = file.display();
        let words = wording(&source);
        assert!(!words.contains(char::is_alphabetic), "{name}: {words}");
        let plain = source.replace("{{#", "{{");
        let color = plain.split('#').skip(1).find(|rest| {
            rest.get(..3).is_some_and(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()))
                && !rest.starts_with("847;")
                && !rest.starts_with("8199;")
        });
        assert_eq!(color, None, "{name}");
        // A text in an expression is a name of the theme, a field's name, a rule of a heading or a class.
        for text in source
            .split("{{")
            .skip(1)
            .filter_map(|rest| rest.split_once("}}"))
            .flat_map(|(it, _)| it.split('"').skip(1).step_by(2))
        {
            let is_name = text
                .split(' ')
                .all(|part| part.chars().all(|c| c.is_ascii_lowercase() || "._-=".contains(c)));
            assert!(is_name && !text.contains(' '), "{name}: {text}");
        }
    }
    assert_eq!(wording("<p>{{theme \"words.x\"}} Hello</p>").trim(), "Hello", "the check itself can fail");
}
