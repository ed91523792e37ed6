//! Who may know whom. A module that names another one that is not listed here fails the test: the order of
//! dependence is a decision, and ARCHITECTURE.md tells it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module, and the modules that it may name.
const MAY_KNOW: [(&str, &[&str]); 16] = [
    ("outcome", &[]),
    ("clock", &[]),
    ("trace", &[]),
    ("envelope", &["outcome"]),
    ("http", &["outcome"]),
    ("outbox", &["envelope", "http", "outcome", "trace"]),
    ("render", &["envelope", "outcome"]),
    ("channel", &["envelope", "http", "outcome", "render", "trace"]),
    ("serve", &[]),
    ("telemetry", &["channel", "envelope", "http", "outbox", "outcome", "serve", "trace"]),
    (
        "engine",
        &["channel", "clock", "envelope", "http", "outbox", "outcome", "render", "telemetry", "trace"],
    ),
    ("webhook", &["channel", "engine", "envelope", "http", "serve", "telemetry"]),
    ("config", &["channel", "engine", "http", "outbox", "telemetry", "webhook"]),
    ("sandbox", &["clock", "envelope", "http", "outcome", "render"]),
    ("worker", &["channel", "clock", "config", "engine", "outbox", "render", "telemetry", "webhook"]),
    (
        "cli",
        &[
            "channel",
            "config",
            "engine",
            "envelope",
            "http",
            "outbox",
            "outcome",
            "render",
            "sandbox",
            "telemetry",
            "worker",
        ],
    ),
];

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            files(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.to_owned());
    }
}

/// The modules of this crate that the text names.
fn named(text: &str) -> BTreeSet<&str> {
    text.split("crate::")
        .skip(1)
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_lowercase()).next().filter(|name| !name.is_empty())
        })
        .collect()
}

#[test]
fn no_module_knows_one_that_it_must_not() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    for file in all {
        let inside = file.strip_prefix(&source).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if ["main", "lib"].contains(&module) {
            continue;
        }
        let (_, may_know) = MAY_KNOW
            .iter()
            .find(|(name, _)| *name == module)
            .unwrap_or_else(|| panic!("{module} has no place in the order of dependence yet"));
        for name in named(&fs::read_to_string(&file).unwrap()) {
            assert!(name == module || may_know.contains(&name), "{} must not know {name}", inside.display());
        }
    }
}

/// What decides does no I/O: these files are handed the time and the dice.
const PURE: [&str; 11] = [
    "outcome/mod.rs",
    "engine/acks.rs",
    "engine/gate.rs",
    "engine/gates.rs",
    "engine/history.rs",
    "engine/leases.rs",
    "engine/leases/page.rs",
    "engine/retry.rs",
    "engine/window.rs",
    "channel/email/classify.rs",
    "channel/push/classify.rs",
];

/// The lines of a source file that are code of the product: all but comments, and but a module of tests,
/// which stands at a file's end. One that is only named, in a file of its own, may stand anywhere.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let tests = text.find("#[cfg(test)]\nmod tests {").or(text.find("#[cfg(test)]\npub(super) mod tests {"));
    let product = text.get(..tests.unwrap_or(text.len())).unwrap();
    product.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_module_of_tests_that_is_only_named_hides_nothing_of_its_file() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in PURE {
        assert!(code(&source.join(file)).contains("pub"), "nothing is read of {file}");
    }
}

#[test]
fn what_decides_does_no_io_and_reads_no_clock() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let effects =
        ["tokio", "async ", "Instant::now", "Utc::now", "fastrand", "reqwest::Client", "std::fs", "std::env"];
    for file in PURE {
        let code = code(&source.join(file));
        for effect in effects {
            assert!(!code.contains(effect), "{file} holds {effect}");
        }
    }
}

#[test]
fn the_engine_knows_no_channel_by_name() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine"), &mut all);
    assert!(!all.is_empty());
    for file in all {
        let code = code(&file);
        for channel in ["channel::email", "channel::push", "EmailChannel", "PushChannel"] {
            assert!(!code.contains(channel), "{} names {channel}", file.display());
        }
    }
}

#[test]
fn the_unmaintained_crate_computes_the_schedule_and_nothing_else() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    all.retain(|file| code(file).contains("use backoff::"));
    assert_eq!(all, [source.join("engine/retry.rs")]);
}

/// Case 13: what does not ask for the hour or the machine's settings cannot depend on them.
#[test]
fn rendering_reads_no_clock_and_no_environment() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render"), &mut all);
    all.retain(|file| !file.iter().any(|part| part == "tests"));
    assert!(all.len() > 5);
    for file in all {
        let code = code(&file);
        for source in ["::now", "Local", "SystemTime", "std::env", "env::var", "fastrand", "locale"] {
            assert!(!code.contains(source), "{} holds {source}", file.display());
        }
    }
}
