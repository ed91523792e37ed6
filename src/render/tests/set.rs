//! Template sets: a directory over the built-in ones, reloads, and what is refused at the door.

use super::*;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

fn write(directory: &Path, file: &str, text: &str) {
    let path = directory.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A whole template of one's own, `notice.v1`, that serves both channels.
fn with_notice() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("notice.v1/email.subject.hbs", "{{payload.title}}\n"),
        (
            "notice.v1/email.html.hbs",
            "<p>{{payload.title}}</p>\n{{#if payload.note}}<p>{{payload.note}}</p>{{/if}}\n",
        ),
        ("notice.v1/email.text.hbs", "{{payload.title}}\n{{#each payload.lines}}\n{{this}}\n{{/each}}\n"),
        ("notice.v1/push.title.hbs", "{{payload.title}}"),
        ("notice.v1/push.body.hbs", "{{payload.note}}"),
        ("notice.v1/push.url.hbs", "{{app_link}}"),
        (
            "notice.v1/payload.schema.json",
            r#"{"type": "object", "required": ["title", "lines", "flag"], "properties": {
                "title": {"type": "string"}, "lines": {"type": "array"}, "flag": {"type": "boolean"},
                "note": {"type": "string"}}}"#,
        ),
    ] {
        write(directory.path(), file, text);
    }
    write(directory.path(), "notice.v1/example.json", &notice().to_string());
    directory
}

fn notice() -> Value {
    let mut envelope = nudge();
    envelope["template"] = json!("notice.v1");
    envelope["payload"] = json!({"title": "News & more", "lines": ["a <b>"], "flag": false});
    envelope
}

fn load(directory: &TempDir) -> Result<Library, TemplateErrors> {
    Library::load(Some(directory.path().to_owned()), links())
}

fn errors(directory: &TempDir) -> Vec<String> {
    load(directory).unwrap_err().0.iter().map(ToString::to_string).collect()
}

#[test]
fn a_new_folder_is_a_new_template_without_a_build() {
    let set = load(&with_notice()).unwrap().current();
    let mail = set.mail(&read(&notice())).unwrap();
    assert_eq!(mail.subject, "News & more");
    assert_eq!(mail.html, "<p>News &amp; more</p>\n\n");
    assert_eq!(mail.text, "News & more\na <b>\n");
    let push = set.notification(&read(&notice())).unwrap();
    assert_eq!(
        (push.title.as_str(), push.body.as_str(), push.url.as_str()),
        ("News & more", "", "https://app.test/")
    );
    assert!(set.mail(&read(&digest())).is_ok(), "the built-in ones are still there");
}

#[test]
fn a_file_in_the_directory_replaces_the_built_in_one_alone() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "resurface-nudge.v1/email.subject.hbs", "Hello {{payload.highlight_count}}");
    write(directory.path(), "partials/text/footer.hbs", "Bye: {{unsubscribe_link}}\n");
    write(directory.path(), "README.md", "notes are let be");
    write(directory.path(), ".git/config.json", "hidden things too");
    let set = load(&directory).unwrap().current();
    let mail = set.mail(&read(&nudge())).unwrap();
    assert_eq!(mail.subject, "Hello 7");
    assert!(mail.text.contains("\nBye: https://app.test/api/app/comms/unsubscribe?ref=example-ref\n"));
    assert_eq!(mail.html, super::mail(&nudge()).html);
}

/// Case 9: used in a value, an `if` and an `each`.
#[test]
fn a_required_field_is_named_whatever_the_template_does_with_it() {
    let directory = with_notice();
    write(
        directory.path(),
        "notice.v1/email.html.hbs",
        "{{payload.title}}{{#if payload.flag}}x{{/if}}{{#each payload.lines}}{{this}}{{/each}}",
    );
    let set = load(&directory).unwrap().current();
    for field in ["title", "flag", "lines"] {
        let mut envelope = notice();
        envelope["payload"][field] = Value::Null;
        let refusal = set.mail(&read(&envelope)).unwrap_err();
        assert_eq!(refusal.cause, Cause::PayloadInvalid);
        let sentence = format!("{field}: is missing in the payload (template notice.v1)");
        assert_eq!(refusal.detail.as_str(), sentence);
    }
}

#[test]
fn a_template_that_does_not_exist_or_not_for_this_channel_is_named() {
    let directory = with_notice();
    for file in ["push.title.hbs", "push.body.hbs", "push.url.hbs"] {
        fs::remove_file(directory.path().join("notice.v1").join(file)).unwrap();
    }
    let set = load(&directory).unwrap().current();
    let refusal = set.notification(&read(&notice())).unwrap_err();
    assert_eq!(refusal.cause, Cause::NoTemplate);
    assert_eq!(refusal.detail.as_str(), "template notice.v1 has no parts for this channel");
    let mut envelope = notice();
    envelope["template"] = json!("nothing.v9");
    let refusal = set.mail(&read(&envelope)).unwrap_err();
    assert_eq!(refusal.detail.as_str(), "there is no template nothing.v9");
}

#[test]
fn a_reload_is_all_or_nothing() {
    let directory = with_notice();
    let library = load(&directory).unwrap();
    let first = library.current();
    write(directory.path(), "notice.v1/email.subject.hbs", "Changed");
    write(directory.path(), "notice.v1/email.text.hbs", "fine\n{{#if payload.flag}}\nnever closed");
    let errors = library.reload().unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
    assert_eq!(errors.0[0].file, "notice.v1/email.text.hbs");
    assert!(errors.0[0].line.is_some());
    assert!(Arc::ptr_eq(&first, &library.current()), "the old set stays");

    write(directory.path(), "notice.v1/email.text.hbs", "fine");
    library.reload().unwrap();
    assert_eq!(library.current().mail(&read(&notice())).unwrap().subject, "Changed");
    assert_eq!(
        first.mail(&read(&notice())).unwrap().subject,
        "News & more",
        "who holds the old set keeps it"
    );

    directory.close().unwrap();
    assert!(library.reload().unwrap_err().to_string().contains("cannot be read"));
    assert_eq!(library.current().mail(&read(&notice())).unwrap().subject, "Changed");
}

#[test]
fn a_broken_template_is_named_by_file_line_and_field() {
    for (file, text, error) in [
        (
            "notice.v1/email.html.hbs",
            "<p>\n{{payload.titel}}",
            "notice.v1/email.html.hbs:2: payload.titel is missing (rendering notice.v1/example.json)",
        ),
        (
            "notice.v1/email.text.hbs",
            "a\n\n{{#if payload.titel}}x{{/if}}",
            "notice.v1/email.text.hbs:3: if: payload.titel is missing (rendering notice.v1/example.json)",
        ),
        (
            "notice.v1/email.text.hbs",
            "{{#each payload.lines}}\n{{#each ../payload.lins}}x{{/each}}\n{{/each}}",
            "notice.v1/email.text.hbs:2: ../payload.lins is missing (rendering notice.v1/example.json)",
        ),
        (
            "partials/text/footer.hbs",
            "\n{{payload.nothing}}",
            "partials/text/footer.hbs:2: payload.nothing is missing (rendering resurface-nudge.v1/example.json)",
        ),
        (
            "notice.v1/push.url.hbs",
            "https://elsewhere.test/",
            "notice.v1/push.url.hbs: is no link into the app: use a link helper (rendering notice.v1/example.json)",
        ),
        (
            "notice.v1/push.url.hbs",
            "{{app_link payload.title}}",
            "notice.v1/push.url.hbs:1: app_link: must begin with exactly one / and hold no control characters \
             (rendering notice.v1/example.json)",
        ),
        (
            "notice.v1/email.html.hbs",
            "\n<a href=\"{{payload.title}}\">",
            "notice.v1/email.html.hbs:2: a URL in an attribute must be one link helper and nothing beside it, \
             such as href=\"{{app_link deep_link}}\"",
        ),
        ("notice.v1/example.json", "{}", "notice.v1/example.json: id is missing"),
        (
            "notice.v1/payload.schema.json",
            "{\"type\": 7}",
            "notice.v1/payload.schema.json: is no JSON Schema: ",
        ),
        ("notice.v1/emial.html.hbs", "", "notice.v1/emial.html.hbs: has no place in a template set: "),
        ("partials/footer.hbs", "", "partials/footer.hbs: has no place in a template set: "),
        ("stray.hbs", "", "stray.hbs: has no place in a template set: "),
    ] {
        let directory = with_notice();
        write(directory.path(), file, text);
        let found = errors(&directory);
        assert!(found.iter().any(|it| it.starts_with(error)), "{error}\n{found:#?}");
    }
}

#[test]
fn a_channel_served_in_part_and_a_folder_without_its_papers_are_named() {
    for (file, error) in [
        ("email.html.hbs", "notice.v1/email.html.hbs: is missing: a mail has subject, html and text"),
        ("push.body.hbs", "notice.v1/push.body.hbs: is missing: a notification has title, body and url"),
        ("payload.schema.json", "notice.v1/payload.schema.json: is missing"),
        ("example.json", "notice.v1/example.json: is missing"),
    ] {
        let directory = with_notice();
        fs::remove_file(directory.path().join("notice.v1").join(file)).unwrap();
        assert_eq!(errors(&directory), [error]);
    }
}

/// Tells something only where serde_json keeps the order of arrival, which any dependency may switch on.
/// Case 13: one order, whatever a dependency switches on.
#[test]
fn the_fields_of_an_object_come_in_one_order_however_they_arrive() {
    let directory = with_notice();
    write(
        directory.path(),
        "notice.v1/email.text.hbs",
        "{{#each payload.lines}}{{#each this}}{{@key}} {{/each}}{{/each}}",
    );
    write(
        directory.path(),
        "notice.v1/example.json",
        &notice().to_string().replace("\"a <b>\"", "{\"b\": 1, \"a\": 2}"),
    );
    let set = load(&directory).unwrap().current();
    let text = fs::read_to_string(directory.path().join("notice.v1/example.json")).unwrap();
    let Reading::Envelope(envelope) = envelope::read(&text) else { panic!("no envelope") };
    assert_eq!(set.mail(&envelope).unwrap().text, "a b ");
}

#[test]
fn every_problem_is_reported_at_once() {
    let directory = with_notice();
    write(directory.path(), "notice.v1/email.html.hbs", "{{#if}");
    write(directory.path(), "notice.v1/push.body.hbs", "{{/each}}");
    fs::remove_file(directory.path().join("notice.v1/example.json")).unwrap();
    let mut files: Vec<_> = load(&directory).unwrap_err().0.into_iter().map(|error| error.file).collect();
    files.sort();
    assert_eq!(files, ["notice.v1/email.html.hbs", "notice.v1/example.json", "notice.v1/push.body.hbs"]);
}

#[test]
fn a_template_whose_sample_is_too_large_is_refused_with_its_size() {
    let directory = with_notice();
    write(directory.path(), "notice.v1/email.html.hbs", &"x".repeat(MAX_MAIL_BYTES));
    load(&directory).unwrap();
    write(directory.path(), "notice.v1/email.html.hbs", &"x".repeat(MAX_MAIL_BYTES + 1));
    let error = "notice.v1/email.html.hbs: the HTML part is 102401 bytes, more than 102400 \
                 (rendering notice.v1/example.json)";
    assert_eq!(errors(&directory), [error]);
}

#[test]
fn a_partials_indentation_stays_out_of_the_data() {
    let directory = with_notice();
    write(directory.path(), "partials/text/quote.hbs", "{{payload.title}}\n");
    write(
        directory.path(),
        "notice.v1/email.text.hbs",
        "{{#if payload.lines}}\n      {{> quote}}\n{{/if}}\n",
    );
    let mut envelope = notice();
    envelope["payload"]["title"] = json!("one\ntwo\n  three");
    let mail = load(&directory).unwrap().current().mail(&read(&envelope)).unwrap();
    assert_eq!(mail.text.trim_start(), "one\ntwo\n  three\n");
}

/// Case 9: an optional one that is absent, at any depth.
#[test]
fn optional_fields_are_null_at_every_depth_and_through_every_reference() {
    let directory = with_notice();
    write(
        directory.path(),
        "notice.v1/payload.schema.json",
        r##"{"allOf": [{"$ref": "#/$defs/top"}], "$defs": {
            "top": {"properties": {"lines": {"items": {"anyOf": [{"$ref": "#/$defs/line"}]}}, "title": {}, "note": {},
                                   "self": {"$ref": "#"}}},
            "line": {"properties": {"by": {"$ref": "#/$defs/line"}, "name": {}, "loop": {"$ref": "#/$defs/loop"}}},
            "loop": {"$ref": "#/$defs/loop"}}}"##,
    );
    let text = "{{#each payload.lines}}[{{name}}|{{#if by}}{{by.name}}{{by.by}}{{/if}}]{{/each}}";
    write(directory.path(), "notice.v1/email.text.hbs", text);
    let mut envelope = notice();
    envelope["payload"]["lines"] = json!([{}, {"by": {"name": "B"}}, {"name": "C", "by": {}}]);
    write(directory.path(), "notice.v1/example.json", &envelope.to_string());
    let mail = load(&directory).unwrap().current().mail(&read(&envelope)).unwrap();
    assert_eq!(mail.text, "[|][|B][C|]");
}

#[test]
fn partials_that_include_each_other_are_refused_before_they_are_rendered() {
    let directory = with_notice();
    write(directory.path(), "partials/text/a.hbs", "x{{#if payload.flag}}{{> b}}{{/if}}");
    write(directory.path(), "partials/text/b.hbs", "{{#> c}}{{> a}}{{/c}}");
    write(directory.path(), "partials/text/c.hbs", "{{> @partial-block}}");
    write(directory.path(), "partials/html/a.hbs", "{{> a}}");
    write(directory.path(), "notice.v1/email.text.hbs", "{{> a}}{{> (lookup payload \"title\")}}");
    let expected = [
        "notice.v1/email.text.hbs:1: a partial is called by its name, and no data chooses it",
        "partials/html/a.hbs: includes itself",
        "partials/text/a.hbs: includes itself by way of b",
        "partials/text/b.hbs: includes itself by way of a",
    ];
    let mut found = errors(&directory);
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_file_without_end_is_named_and_not_read() {
    let directory = with_notice();
    std::os::unix::fs::symlink("/dev/zero", directory.path().join("notice.v1/endless.hbs")).unwrap();
    write(directory.path(), "notice.v1/email.text.hbs", &"x".repeat(1024 * 1024 + 1));
    let mut found = errors(&directory);
    found.sort();
    assert_eq!(found.len(), 2, "{found:#?}");
    for (found, file) in found.iter().zip(["email.text.hbs", "endless.hbs"]) {
        let ends = format!("{file}: cannot be read: it is larger than 1048576 bytes");
        assert!(found.ends_with(&ends), "{found}");
    }
}

/// What stands in a file that is almost a template, a schema or a theme.
fn almost() -> impl Strategy<Value = String> {
    let words = [
        "{{",
        "}}",
        "{{{",
        "}}}",
        "{{#if ",
        "{{/if}}",
        "{{#each ",
        "{{/each}}",
        "{{> ",
        "{{!--",
        "payload.title",
        "this",
        "../",
        "@index",
        "(",
        ")",
        "lookup ",
        "raw",
        "{{else}}",
        "\"",
        "<a href=",
        "<",
        ">",
        "\n",
        "~",
        "\\{{",
        "{\"type\":",
        "\"$ref\":\"#\"",
        "}",
        "[",
        "é",
        "\u{2028}",
        "{{timecode -1}}",
        "1e400",
        "|x|",
        "as ",
    ];
    proptest::collection::vec(proptest::sample::select(words.to_vec()), 0..12)
        .prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_file_of_a_directory_panics_and_a_set_that_is_taken_renders_its_sample_or_says_why(
        at in any::<proptest::sample::Index>(),
        text in prop_oneof![almost(), "[\\s\\S]{0,60}"],
    ) {
        let directory = with_notice();
        let folder = directory.path().join("notice.v1");
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        fs::write(at.get(&files), text).unwrap();
        if let Ok(library) = load(&directory) {
            library.current().mail(&read(&notice())).ok();
            library.current().notification(&read(&notice())).ok();
        }
    }
}
