//! Real outputs of tools with what is true of them.
//!
//! They lie outside of the repository (`MATINS_CORPUS`, or `../shared/corpus` beside it), and these
//! tests say so in one line where they are not. Samples of our own stand beside each parser.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test reads what lies outside, and stops where that is not in order"
)]

mod answers;
mod mutilate;
mod samples;
mod truths;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use hardware::{Report, Tool};

/// Where the hosts' outputs lie, if they do.
fn hosts() -> Option<PathBuf> {
    let corpus = match std::env::var_os("MATINS_CORPUS") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus")),
    };
    let hosts = corpus.join("hosts");
    if hosts.join("TRUTH.tsv").is_file() {
        return Some(hosts);
    }
    eprintln!("skipped: no corpus of outputs at {}", hosts.display());
    None
}

/// The tool that a file of the corpus is of, by its folder and name.
fn tool_of(file: &str) -> Option<Tool> {
    let (folder, name) = file.split_once('/')?;
    match folder {
        "smart" => Some(Tool::Smartctl),
        "ecc" => Some(Tool::Edac),
        "ipmi" => Some(Tool::Sensors),
        "cpu" if !name.contains(".console.") => Some(Tool::CpuRoot),
        "clock" | "clock-captured" => {
            if name.contains("timedatectl")
                || name.contains("sourcestats")
                || name.contains("activity")
            {
                None
            } else if name.contains("tracking") {
                Some(Tool::ChronyTracking)
            } else if name.contains("source") || name.starts_with("candm") {
                Some(Tool::ChronySources)
            } else {
                None
            }
        }
        _ => Tool::of_name(folder),
    }
}

/// A file's bytes; what is compressed is unpacked by the program that packed it.
fn bytes_of(path: &std::path::Path) -> Vec<u8> {
    let program = match path.extension().and_then(|end| end.to_str()) {
        Some("gz") => "gzip",
        Some("bz2") => "bzip2",
        Some("xz") => "xz",
        _ => return std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
    };
    let unpacked = Command::new(program)
        .arg("-dc")
        .arg(path)
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|e| panic!("{program} unpacks {}: {e}", path.display()));
    unpacked.stdout
}

fn report_of(hosts: &std::path::Path, file: &str, tool: Tool) -> Report {
    tool.parse(&bytes_of(&hosts.join(file)))
}
