//! The cases that operators of such workers have met: each is a test of its kind, and the line above the
//! test names it by its number. A case whose last test goes fails here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How many cases there are. They are numbered from 1 and keep their numbers; whoever adds one raises this
/// together with its first test, so that neither comes without the other.
const CASES: usize = 31;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The number in a line like `/// Case 12.` or `/// Case 12: a link that leads elsewhere.`
fn number(line: &str) -> Option<usize> {
    let rest = line.trim_start().strip_prefix("/// Case ")?;
    rest.split_once(['.', ':'])?.0.parse().ok()
}

/// The cases that tests of `text` name: in the comment right above the test's attribute.
fn named(text: &str) -> BTreeSet<usize> {
    let mut above = BTreeSet::new();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let code = line.trim_start();
        if code == "#[test]" || code.starts_with("#[tokio::test") {
            found.append(&mut above);
        } else if code.starts_with("///") {
            above.extend(number(line));
        } else {
            above.clear();
        }
    }
    found
}

#[test]
fn every_case_is_named_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for folder in ["src", "tests"] {
        sources(&root.join(folder), &mut all);
    }
    let found: BTreeSet<_> = all.iter().flat_map(|file| named(&fs::read_to_string(file).unwrap())).collect();
    let expected: BTreeSet<_> = (1..=CASES).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "no test names the cases {missing:?}");
    let unknown: Vec<_> = found.difference(&expected).collect();
    assert!(unknown.is_empty(), "there are {CASES} cases; tests name {unknown:?}");
}

#[test]
fn a_case_counts_only_above_a_test() {
    let test = |above: &str| named(&format!("{above}\n#[test]\nfn it_holds() {{}}\n")).into_iter().collect();
    let counted: [Vec<usize>; 5] = [
        test("/// Case 12."),
        test("/// Case 1: so.\n/// Case 2: and so."),
        test("/// Case 3.\nfn helper() {}\n"),
        test("// Case 4."),
        test("/// Cases 5 and 6."),
    ];
    assert_eq!(counted, [vec![12], vec![1, 2], vec![], vec![], vec![]]);
}
