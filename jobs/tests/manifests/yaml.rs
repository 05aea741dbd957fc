//! The traps of YAML, and what is no YAML.

use crate::{LEAST, edited, one, refused, with};

#[test]
fn what_is_not_a_manifest_at_all() {
    let nothing = "job.yaml:1:1: there is no manifest in this file; write one, beginning with `name: namespace/name`, or delete the file";
    for (yaml, expected) in [
        ("", nothing),
        ("# nothing\n---\n---\n", nothing),
        ("---\n# nothing\n...\n", nothing),
        ("\u{feff}", nothing),
        ("~", nothing),
        (
            "hello",
            "job.yaml:1:1: the document is a single text, and a manifest is a mapping of fields; write fields, beginning with `name: namespace/name`",
        ),
        (
            "- name: demo/a\n- name: demo/b\n",
            "job.yaml:1:1: the document is a list, and a manifest is a mapping of fields; write each job as a document of its own, its fields at the top, with a line `---` between two jobs",
        ),
        (
            "%TAG ! x\na: 1",
            "job.yaml:2:1: this is not YAML: did not find expected <document start>; look at the indentation, quotes and brackets here and in the line before",
        ),
    ] {
        assert_eq!(
            refused(yaml).first().map(String::as_str),
            Some(expected),
            "{yaml:?}"
        );
    }
}

#[test]
fn what_is_not_text_is_no_manifest() {
    let utf16 = "job.yaml:1:1: the file is in UTF-16, and only UTF-8 is read; save it as UTF-8";
    let of_units = |units: &mut dyn Iterator<Item = [u8; 2]>| units.flatten().collect::<Vec<u8>>();
    for (bytes, expected) in [
        (
            of_units(&mut LEAST.encode_utf16().map(u16::to_le_bytes)),
            utf16,
        ),
        (
            of_units(&mut LEAST.encode_utf16().map(u16::to_be_bytes)),
            utf16,
        ),
        ([&b"\xff\xfe"[..], b"n\0"].concat(), utf16),
        (
            b"name: demo/a\r\nowner: M\xfcller\r\n".to_vec(),
            "job.yaml:2:9: the file is not in UTF-8: here is the byte 0xFC; save it as UTF-8: in another encoding, letters beyond ASCII mean something else",
        ),
        // A NUL ends a text to some programs, and half a manifest is none.
        (
            [LEAST.as_bytes(), b"\0shards: 2"].concat(),
            "job.yaml:11:1: the control character \\u{0} stands here; delete it: a text has no such character",
        ),
        (
            "name: demo/a\nowner: \u{9b}31m".into(),
            "job.yaml:2:8: the control character \\u{9b} stands here; delete it: a text has no such character",
        ),
        (
            format!("{LEAST}---\n\u{feff}{LEAST}").into(),
            "job.yaml:12:1: a byte order mark stands in the middle of the file; delete this invisible character: it comes from putting files together",
        ),
    ] {
        assert_eq!(refused(bytes), [expected]);
    }
}

/// What YAML takes for something else than its writer meant, in every field where it may stand.
#[test]
fn plain_words_mean_what_they_say_or_nothing() {
    for (line, expected) in [
        (
            "owner: on",
            "owner: `on` is not text to every reader of YAML; put it in quotes, \"on\"",
        ),
        (
            "owner: No",
            "owner: `No` is not text to every reader of YAML; put it in quotes, \"No\"",
        ),
        (
            "owner: 007",
            "owner: `007` is not text to every reader of YAML; put it in quotes, \"007\"",
        ),
        (
            "owner: 22:30",
            "owner: `22:30` is not text to every reader of YAML; put it in quotes, \"22:30\"",
        ),
        (
            "owner: 1_000",
            "owner: `1_000` is not text to every reader of YAML; put it in quotes, \"1_000\"",
        ),
        (
            "owner: -.inf",
            "owner: `-.inf` is not text to every reader of YAML; put it in quotes, \"-.inf\"",
        ),
        (
            "owner: 2026-11-29",
            "owner: `2026-11-29` is not text to every reader of YAML; put it in quotes, \"2026-11-29\"",
        ),
        (
            "owner: 0x1F",
            "owner: `0x1F` is not text to every reader of YAML; put it in quotes, \"0x1F\"",
        ),
        (
            "timeout: 22:30",
            "timeout: `22:30` is not a duration; write for example 90s, 1h30m, 2d or 500ms",
        ),
        (
            "shards: 05",
            "shards: `05` begins with 0, octal to some readers; leave the 0 out: 5",
        ),
        (
            "shards: 00",
            "shards: `00` begins with 0, octal to some readers; write 0",
        ),
        (
            "shards: 4.0",
            "shards: `4.0` is not a whole number; write 4",
        ),
        (
            "shards: 40.0",
            "shards: `40.0` is not a whole number; write 40",
        ),
        (
            "shards: 4.5",
            "shards: `4.5` is not a whole number; write a whole number from 1 to 1024",
        ),
        ("shards: +4", "shards: `+4` is not a whole number; write 4"),
        (
            "shards: 1_000",
            "shards: `1_000` is not a whole number; write 1000",
        ),
        (
            "shards: 1e3",
            "shards: `1e3` is not a whole number; write a whole number from 1 to 1024",
        ),
        (
            "shards: .inf",
            "shards: `.inf` is not a whole number; write a whole number from 1 to 1024",
        ),
        (
            "shards: ~",
            "shards: has no value; write one, or leave the field out",
        ),
        (
            "overlap: no",
            "overlap: `no` is not known; here that is `forbid` (a fire during a run is skipped)",
        ),
        (
            "repeatable: { safe: off }",
            "repeatable.safe: `off` is neither true nor false; write `true` or `false`, without quotes",
        ),
        (
            "<<: { owner: a }",
            "a merge key (`<<`) is not read; write the fields out",
        ),
        (
            "? [a]\n: b",
            "a list or mapping stands where a field's name belongs; write `field: value`; text with `{` or `[` goes in quotes",
        ),
        (
            ": b",
            "a field has no name; write `field: value`, or delete the line",
        ),
        (
            "12: b",
            "12: there is no such field; leave it out; known here are name, renamed_from, purpose, owner, repeatable, schedule, misfire, catch_up, overlap, serial, previous, after, expected_duration, timeout, start_deadline, shards, retry, takeover_after, needs, priority, limits, params, begins, run",
        ),
        (
            "true: b",
            "true: there is no such field; leave it out; known here are name, renamed_from, purpose, owner, repeatable, schedule, misfire, catch_up, overlap, serial, previous, after, expected_duration, timeout, start_deadline, shards, retry, takeover_after, needs, priority, limits, params, begins, run",
        ),
        (
            "owner: !!python/object/apply:os.system [ls]",
            "a tag (`!name`) is not read; leave it out; a value that begins with `!` goes in quotes",
        ),
    ] {
        let field = line.split(':').next().unwrap();
        let found = refused(with(field, line));
        let (_, words) = found[0].split_once(": ").unwrap();
        assert_eq!(words, expected, "{line}");
        assert!(found.len() == 1 || line.contains("!!"), "{found:?}");
    }
}

#[test]
fn lines_of_text_come_to_a_program_as_meant_or_not_at_all() {
    let exec = |items: &str| edited(LEAST, "run", &format!("run:\n  exec:\n{items}"));
    for (items, expected) in [
        ("    - /bin/x\n    - |-\n      a\n      b", "a\nb"),
        ("    - /bin/x\n    - >-\n      a\n      b", "a b"),
        ("    - /bin/x\n    - \"a\\nb\\n\"", "a\nb\n"),
        ("    - /bin/x\n    - \"a\n       b\"", "a b"),
    ] {
        let manifest = one(&exec(items));
        assert_eq!(manifest.exec().last(), Some(expected), "{items}");
    }
    for (items, expected) in [
        (
            "    - /bin/x\n    - |\n      a",
            "job.yaml:14:7: run.exec[1]: ends with a line break, which the program would be given; write `|-` or `>-` instead of `|` or `>`, or put it in quotes",
        ),
        (
            "    - /bin/x\n    - a\n      b",
            "job.yaml:13:7: run.exec[1]: `a b` goes over several lines without quotes; write a `,` or a `- ` between two arguments, or put one argument in quotes",
        ),
        (
            "    - /bin/x\n    -\n    - a",
            "job.yaml:13:6: run.exec[1]: has no value; write `\"\"` for an empty argument, or delete it",
        ),
        (
            "    - /bin/x\n    - #5\n    - a",
            "job.yaml:13:9: run.exec[1]: has no value, for what follows ` #` is a comment, unless it is in quotes; write `\"\"` for an empty argument, or delete it",
        ),
    ] {
        assert_eq!(refused(exec(items)), [expected], "{items}");
    }
}

#[test]
fn a_mistake_of_syntax_hides_nothing_of_the_other_documents_nor_what_follows_it() {
    let first = edited(
        LEAST,
        "schedule",
        "schedule: { cron: */5 * * * *, timezone: CEST }",
    );
    let second = edited(LEAST, "timeout", "timeout: [15m");
    let third = edited(LEAST, "purpose", "purpose: Count: all\n\tshards: 2");
    let fourth = edited(LEAST, "owner", "owner: @demo\nshards: 05");
    let found: Vec<String> = refused([first, second, third, fourth].join("---\n"))
        .iter()
        .map(|line| {
            line.splitn(5, ':')
                .skip(1)
                .take(3)
                .collect::<Vec<_>>()
                .join(":")
        })
        .collect();
    assert_eq!(
        found,
        [
            "5:19: schedule.cron",
            "5:42: schedule.timezone",
            "20:10: this `[` is not closed, or what it holds is not separated by commas; write a `,` between two items and a `]` after the last",
            "24:10: purpose",
            "25:1: a tab indents this line; indent with spaces",
            "37:8: owner",
            "38:9: shards",
        ]
    );
}

#[test]
fn a_byte_order_mark_and_other_line_ends_are_nothing() {
    let other = format!("\u{feff}{}", LEAST.replace('\n', "\r\n"));
    assert_eq!(one(&other), one(LEAST));
}

#[test]
fn input_without_end_is_refused_and_not_followed() {
    let deep = format!("a: {}", "[".repeat(100));
    assert!(
        refused(&deep)[0].contains("deeper than 8 levels"),
        "{}",
        refused(&deep)[0]
    );
    // The parser itself stops at 255 brackets, looking for the end of what may be a key.
    let deepest = "[".repeat(500_000);
    assert!(
        refused(&deepest)[0].contains("this is not YAML"),
        "{}",
        refused(&deepest)[0]
    );
    let blocks: Vec<String> = (0..500)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    let blocks = blocks.concat();
    assert!(refused(&blocks)[0].contains("deeper than 8 levels"));
    let long = format!("purpose: {}", "x".repeat(1 << 20));
    assert!(refused(&long)[0].contains("the file has more than 1048576 bytes"));
    let laughs = "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert!(
        refused(laughs)
            .iter()
            .any(|line| line.contains("an alias (`*name`) is not read"))
    );
    // The same field over and over: what looked at all of the rest each time would not end.
    assert_eq!(refused("timeout: 1m\n".repeat(30_000)).len(), 101);
    let documents = "---\n~\n...\n".repeat(1001);
    let excess =
        "job.yaml:3001:1: the file has more than 1000 documents; split it into several files";
    assert_eq!(refused(documents), [excess]);
    let many: Vec<String> = (0..5000).map(|i| format!("f{i}: 1\n")).collect();
    let problems = refused(many.concat());
    assert_eq!(problems.len(), 101);
    assert!(
        problems[100].ends_with("4910 more problems are not listed; correct these first"),
        "{}",
        problems[100]
    );
}
