//! `matins hardware`: what a machine is made of and how it fares.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use hardware::{BYTES_MAX, Fact, Item, Report, Root, Tool};
use probes::Probes;
use probes::measure::Scores;
use serde::Serialize;
use serde_json::Value;

use crate::amounts::size;
use crate::args::{AboutHardware, Hardware, Machine};
use crate::failure::Failure;
use crate::import::source::read_source;
use crate::output::{Format, Room};
use crate::paint::in_tone;
use crate::text::{LINE_WIDTH, count, printable, wrap_prose};

mod scores;

pub(crate) fn hardware(options: &Hardware) -> Result<(), Failure> {
    match &options.about {
        None => machine(&options.machine),
        Some(AboutHardware::Parse { kind, file, output }) => {
            let report = read_file(*kind, file)?;
            print(&Answer::of(report), *output)
        }
    }
}

fn machine(options: &Machine) -> Result<(), Failure> {
    // Measured first: whoever looks closely leaves threads behind that Ctrl-C would end the process by.
    let measure = || scores::measure_machine(&options.directory, options.force);
    let scores = options.probe.then(measure).transpose()?;
    let probes = Probes::new(std::env::var_os("PATH").as_deref());
    let report = probes.look_closely(&Root::directory(&options.root), Path::new("/"));
    print(&Answer { report, scores }, options.output)
}

/// The report, and beside it what was measured.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Scores>,
}

impl Answer {
    fn of(report: Report) -> Answer {
        Answer {
            report,
            scores: None,
        }
    }
}

fn read_file(kind: Tool, file: &Path) -> Result<Report, Failure> {
    if file.is_dir() {
        let report = kind.read(&Root::directory(file));
        return report.ok_or_else(|| {
            Failure::bad_input(
                format!("reading {} as {}", file.display(), kind.name()),
                "it is a directory",
                format!("name a file with what {} printed", kind.name()),
            )
        });
    }
    let source = read_source(file, BYTES_MAX).map_err(|error| {
        Failure::bad_input(
            format!("reading {}", file.display()),
            error.to_string(),
            "name a file that can be read, or `-` for standard input",
        )
    })?;
    let bytes = match unpacker(&source.bytes) {
        None => source.bytes,
        Some(program) => unpack(program, &source.bytes).map_err(|why| {
            Failure::bad_input(
                format!("unpacking {} with {program}", source.name),
                why,
                "unpack it yourself, and name what came of it",
            )
        })?,
    };
    Ok(kind.parse(&bytes))
}

/// The program that unpacks what begins so.
fn unpacker(bytes: &[u8]) -> Option<&'static str> {
    const BEGINNINGS: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "gzip"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ];
    let found = BEGINNINGS
        .iter()
        .find(|(begins, _)| bytes.starts_with(begins));
    found.map(|(_, program)| *program)
}

/// Unpacks within the bound of what is read: an archive may hold any number of zeros.
fn unpack(program: &str, packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program} cannot be started: {error}"))?;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("it was asked for above");
    let mut unpacked = Vec::new();
    let read = std::thread::scope(|scope| {
        scope.spawn(move || {
            // That it takes no more, it tells itself.
            let _ = stdin.expect("it was asked for above").write_all(packed);
        });
        // Dropped when enough is read: then the program ends, and with it the thread above.
        stdout.take(BYTES_MAX as u64 + 1).read_to_end(&mut unpacked)
    });
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    read.map_err(|error| error.to_string())?;
    if output.status.success() || unpacked.len() > BYTES_MAX {
        Ok(unpacked)
    } else {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(if said.is_empty() {
            output.status.to_string()
        } else {
            said
        })
    }
}

fn print(answer: &Answer, output: Format) -> Result<(), Failure> {
    output.print(answer, |room| {
        let scores = answer.scores.as_ref();
        let scores = scores.map(|scores| format!("\n{}", scores::for_people(scores, room)));
        for_people(&answer.report, room) + &scores.unwrap_or_default()
    })
}

/// A paragraph for each item: what it is and how it fares, why, and what is known of it.
fn for_people(report: &Report, room: Room) -> String {
    let width = match room {
        Room::Columns80 => LINE_WIDTH,
        Room::Endless => usize::MAX,
    };
    let mut lines = Vec::new();
    for item in &report.items {
        let (kind, id) = (item.facts.kind(), printable(&item.id));
        let name = if kind == id {
            id
        } else {
            format!("{kind} {id}")
        };
        lines.push(format!("{name}: {}", in_tone(item.health.as_str())));
        for said in [printable(&item.reason), writes(item), facts(item)] {
            let said = wrap_prose(&said, width - 2);
            lines.extend(said.iter().map(|line| format!("  {line}")));
        }
    }
    for problem in &report.problems {
        let (place, what) = (printable(&problem.r#where), printable(&problem.what));
        lines.extend(wrap_prose(
            &format!("not understood, {place}: {what}"),
            width,
        ));
    }
    if lines.is_empty() {
        lines.push("there is nothing of it on this machine, or in this file".to_owned());
    }
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n") + "\n"
}

const HONESTY: &str = "write_honesty";
const EVIDENCE: &str = "write_evidence";

/// What is to be thought of its word that a write is durable, and why: a sentence of its own.
fn writes(item: &Item) -> String {
    let entries = item.facts.entries();
    let known = |wanted: &str| {
        let found = entries.iter().find(|(name, _)| *name == wanted);
        found.and_then(|(_, fact)| fact.known())
    };
    let Some(honesty) = known(HONESTY).and_then(Value::as_str) else {
        return String::new();
    };
    let evidence = known(EVIDENCE).and_then(Value::as_array);
    let evidence = evidence.map_or(&[][..], Vec::as_slice);
    let evidence: Vec<String> = evidence
        .iter()
        .filter_map(|sentence| Some(printable(sentence.as_str()?)))
        .collect();
    format!("durable writes: {honesty}: {}", evidence.join("; "))
}

/// What is known, and how much is not.
fn facts(item: &Item) -> String {
    let mut known = Vec::new();
    let mut unknown = 0;
    for (name, fact) in item.facts.entries() {
        match fact {
            _ if name == HONESTY || name == EVIDENCE => {}
            Fact::Known(value) => known.push(said(name, &value)),
            Fact::Unknown(_) => unknown += 1,
            Fact::NotApplicable => {}
        }
    }
    if unknown > 0 {
        known.push(format!("{} unknown", count(unknown, "fact")));
    }
    known.join(", ")
}

/// A fact with its unit, which is the end of its name.
fn said(name: &str, value: &Value) -> String {
    let text = match value {
        Value::String(text) => printable(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) => {
            let texts = values.iter().map(|value| match value {
                Value::String(text) => printable(text),
                other => other.to_string(),
            });
            texts.collect::<Vec<_>>().join(" and ")
        }
        other => other.to_string(),
    };
    if let (Some(name), Some(bytes)) = (name.strip_suffix("_bytes"), value.as_u64()) {
        return format!("{} {}", plain(name), size(bytes));
    }
    // The longer first: the end of one may be the whole of another.
    const UNITS: [(&str, &str); 7] = [
        ("_mbit_per_s", " Mbit/s"),
        ("_mt_per_s", " MT/s"),
        ("_percent", " %"),
        ("_us", " µs"),
        ("_c", " °C"),
        ("_s", " s"),
        ("_w", " W"),
    ];
    for (end, unit) in UNITS {
        if let Some(name) = name.strip_suffix(end) {
            return format!("{} {text}{unit}", plain(name));
        }
    }
    format!("{} {text}", plain(name))
}

pub(super) fn plain(name: &str) -> String {
    name.replace('_', " ").replace("numa", "NUMA")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_for_people() {
        let report = Tool::Mdstat.parse(
            b"md0 : active raid1 sdb2[1](F) sda2[0]\n 1 blocks [2/1] [U_]\nunused devices: <none>\n",
        );
        assert_eq!(
            for_people(&report, Room::Columns80),
            "array md0: degraded\n  1 of 2 members, failed: sdb2\n  level raid1, members required 2, \
             members active 1, members failed 1, spares 0,\n  action idle, size 1.0 KiB, device /dev/md0\n"
        );
    }

    #[test]
    fn facts_have_the_unit_of_their_name() {
        for (name, value, expected) in [
            (
                "speed_mbit_per_s",
                Value::from(10_000),
                "speed 10000 Mbit/s",
            ),
            ("flush_mean_us", Value::from(109.0), "flush mean 109.0 µs"),
            ("bound_s", Value::from(0.5), "bound 0.5 s"),
            ("power_max_w", Value::from(800), "power max 800 W"),
            ("size_bytes", Value::from(2048), "size 2.0 KiB"),
            (
                "drives",
                Value::from(vec!["/dev/sda", "/dev/sdb"]),
                "drives /dev/sda and /dev/sdb",
            ),
        ] {
            assert_eq!(said(name, &value), expected);
        }
    }

    #[test]
    fn what_is_to_be_thought_of_writes_stands_apart() {
        let text = "Smart Array P440ar in Slot 0 (Embedded)\n   Controller Status: OK\n   \
                    Drive Write Cache: Enabled\n   Cache Status: OK\n\n   Array: A\n      Status: OK\n\n      \
                    Logical Drive: 1\n         Size: 279.4 GB\n         Fault Tolerance: 1\n         \
                    Status: OK\n         Caching:  Enabled\n";
        let shown = for_people(&Tool::Ssacli.parse(text.as_bytes()), Room::Columns80);
        assert!(
            shown.contains("durable writes: unsafe: the disks behind"),
            "{shown}"
        );
        assert!(!shown.contains("write evidence"), "{shown}");
    }

    #[test]
    fn what_is_packed_is_told_by_its_beginning() {
        assert_eq!(unpacker(b"\x1f\x8b\x08"), Some("gzip"));
        assert_eq!(unpacker(b"BZh91AY"), Some("bzip2"));
        assert_eq!(unpacker(b"Personalities"), None);
        assert_eq!(unpacker(b""), None);
    }
}
