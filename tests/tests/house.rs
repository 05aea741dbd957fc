//! The house as `docs/ARCHITECTURE.md` draws it, held against `cargo metadata`: which crate may
//! depend on which, and which may name what.
//!
//! `docs/house.dot` is written from the metadata by `make house`, which also draws it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Every arrow between crates of the workspace: (crate, what it may depend on).
/// A new arrow is a decision.
const ARROWS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("transport", &["protocol"]),
    ("jobs", &["protocol"]),
    ("profiles", &["protocol", "jobs"]),
    ("ledger", &["protocol", "jobs"]),
    (
        "coordinator-core",
        &["protocol", "jobs", "profiles", "ledger"],
    ),
    (
        "coordinator",
        &[
            "protocol",
            "jobs",
            "profiles",
            "ledger",
            "coordinator-core",
            "hardware",
            "probes",
            "transport",
        ],
    ),
    (
        "sizing",
        &["protocol", "jobs", "profiles", "ledger", "coordinator-core"],
    ),
    ("agent-core", &["protocol"]),
    ("hardware", &["protocol"]),
    ("probes", &["protocol", "hardware"]),
    (
        "agent",
        &[
            "protocol",
            "agent-core",
            "hardware",
            "probes",
            "profiles",
            "transport",
        ],
    ),
    (
        "matins",
        &[
            "protocol",
            "jobs",
            "ledger",
            "coordinator",
            "agent",
            "hardware",
            "probes",
            "profiles",
            "sizing",
            "transport",
        ],
    ),
    ("tests", &[]),
];

/// Crates that decide and never act.
const PURE: &[&str] = &[
    "protocol",
    "jobs",
    "profiles",
    "coordinator-core",
    "sizing",
    "agent-core",
];

/// Crates that keep the rules of the pure ones but for one thing: they read files, in one module, below
/// a root that is handed in.
const READING: &[&str] = &["hardware"];

/// What no pure crate may name, directly.
const NOT_PURE: &[&str] = &[
    "tokio",
    "quinn",
    "rustls",
    "openraft",
    "rusqlite",
    "nix",
    "getrandom",
    "axum",
    "tracing",
];

/// Dependencies that one crate alone may name.
const CONFINED: &[(&str, &[&str])] = &[
    ("quinn", &["transport"]),
    ("rustls", &["transport"]),
    ("rcgen", &["transport"]),
    ("openraft", &["coordinator"]),
    ("rusqlite", &["ledger"]),
    ("axum", &["coordinator"]),
    ("clap", &["matins"]),
    ("anyhow", &["tests"]),
];

fn workspace() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo metadata runs here");
    metadata.workspace_packages().into_iter().cloned().collect()
}

fn keeps_pure_rules(package: &Package) -> bool {
    [PURE, READING].concat().contains(&package.name.as_str())
}

/// Names of what a crate depends on; what only its tests use does not count.
fn dependencies(package: &Package) -> BTreeSet<String> {
    package
        .dependencies
        .iter()
        .filter(|d| d.kind != DependencyKind::Development)
        .map(|d| d.name.clone())
        .collect()
}

#[test]
fn only_the_arrows_of_the_house() {
    let packages = workspace();
    let members: BTreeSet<String> = packages.iter().map(|p| p.name.to_string()).collect();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for package in &packages {
        let name = package.name.as_str();
        let Some(arrows) = allowed.get(name) else {
            panic!("{name} is not in the house: draw it in ARROWS and in docs/ARCHITECTURE.md");
        };
        for dependency in dependencies(package).intersection(&members) {
            assert!(
                arrows.contains(&dependency.as_str()),
                "{name} -> {dependency} is no arrow of the house; a new one is a decision"
            );
        }
    }
    for name in allowed.keys() {
        assert!(
            members.contains(*name),
            "{name} is drawn but does not exist"
        );
    }
}

#[test]
fn pure_crates_name_nothing_that_acts() {
    for package in workspace().iter().filter(|p| keeps_pure_rules(p)) {
        for dependency in dependencies(package) {
            assert!(
                !NOT_PURE.contains(&dependency.as_str()),
                "{} is pure and must not name {dependency}",
                package.name
            );
        }
    }
}

#[test]
fn pure_crates_carry_the_rules_that_keep_them_so() {
    for package in workspace().iter().filter(|p| keeps_pure_rules(p)) {
        let rules = package.manifest_path.with_file_name("clippy.toml");
        let text = std::fs::read_to_string(&rules).unwrap_or_else(|e| panic!("{rules}: {e}"));
        for forbidden in ["Instant::now", "SystemTime::now", "env::var", "HashMap"] {
            assert!(
                text.contains(forbidden),
                "{rules} does not forbid {forbidden}"
            );
        }
    }
}

#[test]
fn confined_dependencies_stay_where_they_belong() {
    for package in workspace() {
        for dependency in dependencies(&package) {
            for (confined, homes) in CONFINED {
                assert!(
                    dependency != *confined || homes.contains(&package.name.as_str()),
                    "{} names {dependency}, which only {homes:?} may",
                    package.name
                );
            }
        }
    }
}

/// A crate may be confined further, to one module.
#[test]
fn consensus_is_the_only_module_that_names_openraft() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../coordinator"));
    let mut waiting = vec![root.join("src"), root.join("tests")];
    let (mut looked_at, mut named) = (0, Vec::new());
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).expect("the coordinator's sources are there") {
            let path = entry.expect("a directory can be read to its end").path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("sources are text");
            looked_at += 1;
            if text.contains("openraft::") {
                named.push(path);
            }
        }
    }
    assert!(looked_at > 20 && !named.is_empty(), "{looked_at} files");
    let home = root.join("src/consensus");
    for path in named {
        assert!(path.starts_with(&home), "{} names openraft", path.display());
    }
}

/// The switch that turns a safety rule off, and the door for what is no message, must not exist in
/// what people run.
#[test]
fn nothing_but_tests_can_switch_a_rule_off_or_send_what_is_no_frame() {
    const FOR_TESTS: [&str; 3] = ["switchable-rules", "unframed", "next-version"];
    for package in workspace() {
        for dependency in &package.dependencies {
            let mut enabled = dependency.features.iter();
            let enabled = enabled.find(|feature| FOR_TESTS.contains(&feature.as_str()));
            assert!(
                enabled.is_none() || dependency.kind == DependencyKind::Development,
                "{} enables {enabled:?} outside its tests",
                package.name
            );
        }
    }
}

/// The picture in the documents is of the house that stands.
#[test]
fn the_drawing_is_true() {
    let drawing = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/house.dot");
    let drawn = draw();
    if std::env::var_os("MATINS_DRAW_HOUSE").is_some() {
        std::fs::write(drawing, &drawn).expect("docs/ can be written");
    }
    let stands = std::fs::read_to_string(drawing).expect("docs/house.dot can be read");
    assert_eq!(stands, drawn, "docs/house.dot is out of date: make house");
}

/// Crates as boxes, pure ones rounded; an arrow from each crate to what depends on it. Arrows that
/// another path implies are left out, as are `matins` and `tests`, which know everything.
fn draw() -> String {
    let packages = workspace();
    let members: BTreeSet<String> = packages
        .iter()
        .map(|p| p.name.to_string())
        .filter(|name| name != "tests" && name != "matins")
        .collect();
    let below: BTreeMap<String, BTreeSet<String>> = packages
        .iter()
        .filter(|p| members.contains(p.name.as_str()))
        .map(|p| {
            (
                p.name.to_string(),
                dependencies(p).intersection(&members).cloned().collect(),
            )
        })
        .collect();
    let mut dot =
        String::from("digraph house {\n  rankdir=LR;\n  node [fontname=\"Helvetica\"];\n");
    for name in &members {
        let pure = PURE.contains(&name.as_str());
        let style = if pure { "rounded,filled" } else { "filled" };
        let fill = if pure { "#e8f1e4" } else { "#f3ead9" };
        writeln!(
            dot,
            r#"  "{name}" [shape=box, style="{style}", fillcolor="{fill}"];"#
        )
        .expect("text takes text");
    }
    for (name, direct) in &below {
        for dependency in direct {
            let implied = direct
                .iter()
                .any(|other| other != dependency && reaches(&below, other, dependency));
            if !implied {
                writeln!(dot, r#"  "{dependency}" -> "{name}";"#).expect("text takes text");
            }
        }
    }
    dot + "}\n"
}

fn reaches(below: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    below.get(from).is_some_and(|direct| {
        direct.contains(to) || direct.iter().any(|next| reaches(below, next, to))
    })
}
