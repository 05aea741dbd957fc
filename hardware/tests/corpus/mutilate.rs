//! Outputs as they arrive in practice: cut off, mixed up, garbled, of a version that says it otherwise.
//!
//! Whatever is done to an output, nothing panics, and nothing that was bad is well afterwards. What is
//! done is chosen by position and by a generator with a fixed seed, so that a failure comes again.
//!
//! Left out on purpose: a number that becomes another number. `1` error that reads `0` is another truth, and
//! no reader can see it. And where one line alone tells of something that most outputs do not have, nobody
//! misses it: see [`ALONE`].

use std::collections::{BTreeMap, BTreeSet};

use hardware::{Health, Report, Tool};

use super::samples::SAMPLES;
use super::{bytes_of, hosts, tool_of};

/// Bytes that are parsed for one file under one kind of damage; what is longer is damaged at fewer places.
const BYTES_EACH: usize = 60_000;

/// Items whose only bad word is in a line that other outputs of their tool do not have at all, and which
/// are not missed therefore: the cache of a controller that may have none, a resync that may not run.
const ALONE: &[(&str, &str)] = &[
    ("ssacli/status-recharging.txt", "slot0"),
    ("ssacli in short", "slot0"),
    ("mdstat/procfs-mixed.txt", "md8"),
    // Sensors without a reading have rows that end so.
    ("ipmitool", "Power Supply 1"),
];

struct Output {
    name: String,
    tool: Tool,
    bytes: Vec<u8>,
}

/// Our own samples, and the corpus where it is.
fn outputs() -> Vec<Output> {
    let mut outputs: Vec<Output> = SAMPLES
        .iter()
        .map(|(name, tool, text)| Output {
            name: (*name).to_owned(),
            tool: *tool,
            bytes: text.as_bytes().to_vec(),
        })
        .collect();
    let Some(hosts) = hosts() else {
        return outputs;
    };
    let sources = std::fs::read_to_string(hosts.join("SOURCES.tsv")).unwrap();
    for file in sources
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').next())
    {
        if let Some(tool) = tool_of(file) {
            outputs.push(Output {
                name: file.to_owned(),
                tool,
                bytes: bytes_of(&hosts.join(file)),
            });
        }
    }
    outputs
}

/// A generator of numbers that are the same every time (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Kind and id of what is known to be bad.
fn bad(report: &Report) -> BTreeSet<(&'static str, String)> {
    let items = report.items.iter().filter(|item| item.health.is_bad());
    items
        .map(|item| (item.facts.kind(), item.id.clone()))
        .collect()
}

/// What a damage is held against.
#[derive(Clone, Copy)]
enum Promise {
    /// Nothing of what was bad is well under its name.
    StillBad,
    /// The same, but for items that are [`ALONE`].
    StillBadUnlessAlone,
    /// Something bad is still somewhere, or something is unknown: nobody is told that all is well.
    NotAllWell,
}

/// Says what broke the promise.
fn broken(
    promise: Promise,
    output: &Output,
    before: &BTreeSet<(&'static str, String)>,
    report: &Report,
) -> Option<String> {
    match promise {
        Promise::StillBad | Promise::StillBadUnlessAlone => {
            // An item may be there twice: one that is still bad speaks for both.
            let still = bad(report);
            let item = report.items.iter().find(|item| {
                let key = (item.facts.kind(), item.id.clone());
                let alone = matches!(promise, Promise::StillBadUnlessAlone)
                    && ALONE.contains(&(output.name.as_str(), item.id.as_str()));
                item.health == Health::Ok
                    && !alone
                    && before.contains(&key)
                    && !still.contains(&key)
            })?;
            Some(format!(
                "{} {} was bad and is well: {}",
                item.facts.kind(),
                item.id,
                item.reason
            ))
        }
        Promise::NotAllWell => (!before.is_empty() && report.worst() == Health::Ok)
            .then(|| "it was bad and all is well".to_owned()),
    }
}

/// Damages every output at many places, or at all of them, and says of each promise that is broken
/// where, once for each output and each way.
fn each_damage(
    all: bool,
    promise: Promise,
    places: impl Fn(&Output) -> usize,
    damage: impl Fn(&Output, usize) -> Option<(Vec<u8>, String)>,
) {
    let mut tried = 0_usize;
    let mut failures: BTreeMap<(String, String), String> = BTreeMap::new();
    for output in outputs() {
        let before = bad(&output.tool.parse(&output.bytes));
        let places = places(&output);
        let length = output.bytes.len();
        let tries = if all && length < 64 << 10 {
            places
        } else if length > 1 << 20 {
            // An archive of a machine has millions of places, and most mean nothing.
            places.min(2)
        } else {
            places.min(BYTES_EACH / length.max(1) + 8)
        };
        for at in 0..tries {
            let Some((bytes, what)) = damage(&output, at * places / tries) else {
                continue;
            };
            tried += 1;
            if let Some(how) = broken(promise, &output, &before, &output.tool.parse(&bytes)) {
                failures.entry((output.name.clone(), how)).or_insert(what);
            }
        }
    }
    assert!(tried > 200, "only {tried} were tried");
    let failures: Vec<String> = failures
        .into_iter()
        .map(|((name, how), what)| format!("{name}: {what}: {how}"))
        .collect();
    assert!(
        failures.is_empty(),
        "{tried} damaged outputs:\n{}",
        failures.join("\n")
    );
}

fn line_count(output: &Output) -> usize {
    output.bytes.split(|byte| *byte == b'\n').count()
}

fn lines(output: &Output) -> Vec<&[u8]> {
    output.bytes.split(|byte| *byte == b'\n').collect()
}

fn cuts(all: bool) {
    each_damage(
        all,
        Promise::StillBadUnlessAlone,
        |output| output.bytes.len(),
        |output, at| {
            let kept = &output.bytes[..at];
            // A number that is cut, and a list, are another number and another list.
            let other = kept.last().is_some_and(u8::is_ascii_digit) || output.bytes[at] == b',';
            (!other).then(|| (kept.to_vec(), format!("cut at {at}")))
        },
    );
}

fn lost_lines(all: bool) {
    each_damage(
        all,
        Promise::StillBadUnlessAlone,
        line_count,
        |output, at| {
            let mut lines = lines(output);
            let lost = String::from_utf8_lossy(lines.remove(at)).into_owned();
            Some((
                lines.join(&b'\n'),
                format!("without line {}: {lost:?}", at + 1),
            ))
        },
    );
}

/// Words are what is not blank, colon, comma or quote around.
fn words(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, byte) in bytes.iter().enumerate() {
        let is_word = !byte.is_ascii_whitespace()
            && !matches!(byte, b':' | b',' | b'"' | b'(' | b')' | b'=' | b'|');
        match (is_word, start) {
            (true, None) => start = Some(at),
            (false, Some(begun)) => {
                words.push((begun, at));
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|begun| (begun, bytes.len())));
    words
}

fn unknown_words(all: bool) {
    each_damage(
        all,
        Promise::StillBad,
        |output| words(&output.bytes).len(),
        |output, at| {
            let (start, end) = words(&output.bytes)[at];
            let word = String::from_utf8_lossy(&output.bytes[start..end]).into_owned();
            let bytes = [&output.bytes[..start], b"xyzzy", &output.bytes[end..]].concat();
            Some((
                bytes,
                format!("{word:?} at {start} replaced by an unknown word"),
            ))
        },
    );
}

fn doubled_lines(all: bool) {
    each_damage(all, Promise::StillBad, line_count, |output, at| {
        let mut lines = lines(output);
        lines.insert(at, lines[at]);
        Some((lines.join(&b'\n'), format!("line {} twice", at + 1)))
    });
}

#[test]
fn cut_anywhere() {
    cuts(false);
}

#[test]
fn without_any_line() {
    lost_lines(false);
}

#[test]
fn with_an_unknown_word_anywhere() {
    unknown_words(false);
}

#[test]
fn with_any_line_twice() {
    doubled_lines(false);
}

#[test]
#[ignore = "make test-full: every place of every output but the largest"]
fn damaged_at_every_place() {
    cuts(true);
    lost_lines(true);
    unknown_words(true);
    doubled_lines(true);
}

#[test]
fn with_lines_in_another_order() {
    each_damage(
        false,
        Promise::NotAllWell,
        |output| line_count(output) * 2,
        |output, at| {
            let mut lines = lines(output);
            if at % 2 == 0 {
                let first = (at / 2).min(lines.len().checked_sub(2)?);
                lines.swap(first, first + 1);
            } else {
                let mut random = Random(at as u64);
                for last in (1..lines.len()).rev() {
                    lines.swap(last, random.below(last + 1));
                }
            }
            Some((lines.join(&b'\n'), format!("lines in another order ({at})")))
        },
    );
}

#[test]
fn with_bytes_garbled() {
    each_damage(
        false,
        Promise::StillBad,
        |output| output.bytes.len(),
        |output, at| {
            let mut random = Random(at as u64);
            let old = output.bytes[at];
            let new = if random.below(2) == 0 {
                old ^ (1 << random.below(8))
            } else {
                random.next() as u8
            };
            // Another number is another truth; a packet is nothing but numbers.
            if new.is_ascii_digit() || output.name.contains(".hex") {
                return None;
            }
            let mut bytes = output.bytes.clone();
            bytes[at] = new;
            Some((bytes, format!("byte {at}: {old:#x} is {new:#x}")))
        },
    );
}

/// What must be the same however an output was carried: who fares how, and every fact.
fn facts(report: &Report) -> Vec<(String, Health, hardware::Facts)> {
    let items = report.items.iter();
    items
        .map(|item| (item.id.clone(), item.health, item.facts.clone()))
        .collect()
}

/// Outputs that are text; an archive has no lines.
fn texts() -> Vec<(Output, String)> {
    let texts = outputs().into_iter().filter_map(|output| {
        let text = String::from_utf8(output.bytes.clone()).ok()?;
        (!text.contains('\0')).then_some((output, text))
    });
    texts.collect()
}

/// Spacing, line ends and the bytes of letters differ between terminals, versions, systems and mail programs,
/// and mean nothing.
#[test]
fn carried_otherwise_nothing_changes() {
    let wide = |bytes: fn(u16) -> [u8; 2]| {
        move |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(bytes).collect() }
    };
    let little = wide(u16::to_le_bytes);
    let big = wide(u16::to_be_bytes);
    for (output, text) in texts() {
        let before = output.tool.parse(&output.bytes);
        let coloured = |line: &str| format!("\u{1b}[0;33m{line}\u{1b}[0m\u{1b}[K");
        let lines: Vec<String> = text.split('\n').map(coloured).collect();
        let others: [(&str, Vec<u8>); 9] = [
            (
                "CRLF",
                text.replace("\r\n", "\n")
                    .replace('\n', "\r\n")
                    .into_bytes(),
            ),
            (
                "CR alone",
                text.replace("\r\n", "\n").replace('\n', "\r").into_bytes(),
            ),
            (
                "blanks at the ends",
                text.replace('\n', "  \n").into_bytes(),
            ),
            ("indented by a tab", text.replace('\n', "\n\t").into_bytes()),
            (
                "a mark of the byte order",
                format!("\u{feff}{text}").into_bytes(),
            ),
            (
                "blanks that do not break",
                text.replace(' ', "\u{a0}").into_bytes(),
            ),
            ("colours", lines.join("\n").into_bytes()),
            ("UTF-16", little(&format!("\u{feff}{text}"))),
            ("UTF-16, big end first", big(&format!("\u{feff}{text}"))),
        ];
        for (what, other) in others {
            let after = output.tool.parse(&other);
            assert_eq!(facts(&before), facts(&after), "{}: {what}", output.name);
            assert_eq!(
                before.problems.len(),
                after.problems.len(),
                "{}: {what}",
                output.name
            );
        }
    }
}

/// Shells and their prompts write before and behind an output, and into its file.
#[test]
fn between_lines_of_a_shell_nothing_is_lost() {
    for (output, text) in texts() {
        // A line of its own is no packet.
        if output.name.contains(".hex") {
            continue;
        }
        let before = facts(&output.tool.parse(&output.bytes));
        for (what, other) in [
            (
                "behind a warning",
                format!("sudo: unable to resolve host a: {{Name}} [or service] not known\n{text}"),
            ),
            (
                "behind a prompt",
                format!("[sudo] password for operator: \nroot@a:~# tool show all\n{text}"),
            ),
            (
                "before a prompt",
                format!("{text}\nConnection to a closed.\n"),
            ),
        ] {
            let after = output.tool.parse(other.as_bytes());
            // What stands behind the last line may belong to the last item.
            let of = |(id, health, _): &(String, Health, hardware::Facts)| (id.clone(), *health);
            let (all, now): (Vec<_>, Vec<_>) = (
                before.iter().map(of).collect(),
                facts(&after).iter().map(of).collect(),
            );
            assert_eq!(all, now, "{}: {what}: {:?}", output.name, after.problems);
        }
    }
}

/// A fraction behind a comma, as half of the world writes it, is the same number or none: nothing bad is well,
/// and nothing is well that was not told.
#[test]
fn with_commas_for_points() {
    for (output, text) in texts() {
        let before = bad(&output.tool.parse(&output.bytes));
        let mut bytes = text.into_bytes();
        for at in 1..bytes.len().saturating_sub(1) {
            let is_between = bytes[at - 1].is_ascii_digit() && bytes[at + 1].is_ascii_digit();
            if bytes[at] == b'.' && is_between {
                bytes[at] = b',';
            }
        }
        let how = broken(
            Promise::StillBad,
            &output,
            &before,
            &output.tool.parse(&bytes),
        );
        assert_eq!(how, None, "{}", output.name);
    }
}

/// Outputs that somebody put into one file: what was bad in either is bad in it, and nobody is lost.
#[test]
fn behind_another_output_of_the_same_tool() {
    let mut texts = texts();
    // Packets stand alone.
    texts.retain(|(output, _)| !output.name.contains(".hex"));
    for (first, a) in &texts {
        let others = texts
            .iter()
            .filter(|(second, _)| second.tool == first.tool && second.name != first.name);
        for (second, b) in others.take(4) {
            let both = first.tool.parse(format!("{a}\n{b}").as_bytes());
            let known = bad(&both);
            let parts = [
                first.tool.parse(a.as_bytes()),
                second.tool.parse(b.as_bytes()),
            ];
            let were_bad = parts.iter().any(|part| !bad(part).is_empty());
            let name = format!("{} behind {}", second.name, first.name);
            assert!(!were_bad || !known.is_empty(), "{name}: {both:?}");
            let silent = both.items.is_empty() && both.problems.is_empty();
            let told = parts.iter().any(|part| *part != Report::default());
            assert!(!(silent && told), "{name} tells of nothing");
        }
    }
}

/// A head that every line has makes it another text: somebody is told so.
#[test]
fn behind_marks_of_a_log_it_is_said() {
    for (output, text) in texts() {
        for (what, mark) in [
            ("quoted", "> "),
            ("dated", "2026-11-30T23:00:01Z host tool: "),
        ] {
            let lines: Vec<String> = text
                .split('\n')
                .map(|line| format!("{mark}{line}"))
                .collect();
            let report = output.tool.parse(lines.join("\n").as_bytes());
            let well = report.items.iter().any(|item| item.health == Health::Ok);
            assert!(
                !report.problems.is_empty() || !report.items.is_empty(),
                "{}: {what}: silent",
                output.name
            );
            let before = bad(&output.tool.parse(&output.bytes));
            assert!(
                before.is_empty() || !well || report.worst() != Health::Ok,
                "{}: {what}: all is well",
                output.name
            );
        }
    }
}

/// A number in place of any other, the largest that there is among them: nothing counts beyond its end.
#[test]
fn with_enormous_numbers() {
    const NUMBERS: [&str; 4] = [
        "18446744073709551615",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
    ];
    let mut random = Random(3);
    for output in outputs() {
        let text = String::from_utf8_lossy(&output.bytes);
        if text.len() > 64 << 10 {
            continue;
        }
        for number in NUMBERS {
            let mut all = String::new();
            let mut some = String::new();
            let mut rest = text.as_ref();
            while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
                let (before, from) = rest.split_at(start);
                let end = from
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(from.len());
                let (digits, behind) = from.split_at(end);
                all.extend([before, number]);
                some.extend([before, if random.below(4) == 0 { number } else { digits }]);
                rest = behind;
            }
            all.push_str(rest);
            output.tool.parse(all.as_bytes());
            some.push_str(rest);
            output.tool.parse(some.as_bytes());
        }
    }
}

/// Words of all outputs in no order, handed to every parser; and bytes that are nothing.
#[test]
fn no_soup_of_words_makes_a_parser_panic() {
    let outputs = outputs();
    let mut dictionary: Vec<&[u8]> = Vec::new();
    for output in &outputs {
        let words = words(&output.bytes);
        dictionary.extend(
            words
                .iter()
                .take(400)
                .map(|(start, end)| &output.bytes[*start..*end]),
        );
    }
    const GLUE: [&[u8]; 14] = [
        b" ", b"\n", b": ", b" : ", b"\t", b"[", b"]", b"(", b")", b",", b"/", b"=", b"\n\n", b"-",
    ];
    let mut random = Random(7);
    for tool in Tool::ALL {
        for _ in 0..100 {
            let mut soup: Vec<u8> = Vec::new();
            for _ in 0..random.below(120) {
                soup.extend(dictionary[random.below(dictionary.len())]);
                soup.extend(GLUE[random.below(GLUE.len())]);
            }
            tool.parse(&soup);
            let noise: Vec<u8> = (0..random.below(300))
                .map(|_| random.next() as u8)
                .collect();
            tool.parse(&noise);
        }
        // The output of every other tool.
        for output in &outputs {
            tool.parse(&output.bytes[..output.bytes.len().min(20_000)]);
        }
    }
}
