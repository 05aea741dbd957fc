//! Public reports about other schedulers, and the tests that replay them: `docs/REPORTS.md` has a row for
//! each report of the corpus, and what it names is there.

#![allow(clippy::unwrap_used)] // a test fails by panic

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What each report is met by, as its row says.
fn rows() -> BTreeMap<String, String> {
    let page = fs::read_to_string(root().join("docs/REPORTS.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [id, _, tests] = cells[..] else { continue };
        let Some(id) = id.strip_prefix("| ").filter(|id| id.starts_with('b')) else {
            continue;
        };
        let before = rows.insert(id.to_owned(), tests.to_owned());
        assert!(before.is_none(), "{id} has two rows");
    }
    rows
}

/// Whether a file has a function of this name that is a test: a sequence is one by its list.
fn has_test(file: &str, test: &str) -> bool {
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = |line: &str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ").is_some_and(|rest| {
            rest.strip_prefix(test)
                .is_some_and(|rest| rest.starts_with('('))
        })
    };
    let Some(at) = lines.iter().position(|line| begins(line)) else {
        return false;
    };
    let attributes = lines[..at].iter().rev();
    let mut attributes =
        attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let listed = lines
        .iter()
        .any(|line| line.starts_with(&format!("{test} breaks without ")));
    let in_property = text.contains("proptest!");
    listed || in_property || attributes.any(|line| line.contains("test"))
}

#[test]
fn every_test_that_a_report_names_is_there() {
    let rows = rows();
    assert!(!rows.is_empty());
    let mut missing = Vec::new();
    for (id, tests) in &rows {
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{id} names no test");
        for name in named {
            match name.split_once(": ") {
                Some((file, test)) if has_test(file, test) => {}
                _ => missing.push(format!("{id}: {name}")),
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
#[allow(clippy::print_stdout)] // on behalf of a test, which may
fn every_report_of_the_corpus_has_its_row() {
    let corpus = std::env::var_os("MATINS_CORPUS")
        .map_or_else(|| root().join("../shared/corpus"), PathBuf::from);
    let Ok(reports) = fs::read_to_string(corpus.join("reports.jsonl")) else {
        println!("skipped: there is no {}", corpus.display());
        return;
    };
    let rows = rows();
    let ids = reports.lines().map(|line| {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        report["id"].as_str().unwrap().to_owned()
    });
    let ids: Vec<String> = ids.collect();
    assert!(!ids.is_empty());
    let missing: Vec<&String> = ids.iter().filter(|id| !rows.contains_key(*id)).collect();
    assert!(
        missing.is_empty(),
        "docs/REPORTS.md has no row for {missing:?}"
    );
}
