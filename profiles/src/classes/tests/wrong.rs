//! What is said of a class file that is wrong.

use super::*;

/// Every problem of this file, a line each, in the order of the file.
fn check(file: &str, expected: &[&str]) {
    let problems = Classes::parse("c.toml", file).expect_err(file);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said, expected, "{file}");
}

/// What is said of one rule under `require`.
fn check_rule(rule: &str, expected: &str) {
    let file = format!("[class.x]\nabout = \"a\"\nrequire = [{rule}]\n");
    let problems = Classes::parse("c.toml", &file).expect_err(rule);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [format!("c.toml:3:12: class.x.require: {expected}")],
        "{rule}"
    );
}

#[test]
fn everything_is_said_at_once_with_its_place() {
    check(
        "version = 1\n\
         [class.Big]\n\
         about = \"\"\n\
         require = [\"memory.usable_bytes >= 60GB\",\n  \"cpu.core = 4\"]\n\
         refuses = []\n\
         [class.io]\n\
         warn = \"disk.medium = hdd\"\n\
         [health]\n\
         cordon = \"unknown\"\n\
         alarm = \"faild\"\n\
         cordon_at_most_percent = 200\n",
        &[
            "c.toml:1:1: `version` is no table of a class file; there are class, health",
            "c.toml:2:8: class: `Big` is no name of a class; write 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit",
            "c.toml:3:9: class.Big.about: is empty; write one line of at most 500 bytes in quotes",
            "c.toml:4:12: class.Big.require: `60GB` has no unit of memory.usable_bytes; write a whole number with a unit: TiB, GiB, MiB, KiB",
            "c.toml:5:3: class.Big.require: `cpu.core` is no fact of a host; did you mean `cpu.cores`?",
            "c.toml:6:1: class.Big: `refuses` is no field of a class; did you mean `refuse`?",
            "c.toml:7:8: class.io: has no `about`; write in half a sentence which hosts it means, for those who choose a class",
            "c.toml:8:8: class.io.warn: is a string, not a list of rules; write rules in [ ], each in quotes",
            "c.toml:10:10: health.cordon: `unknown` would be done to hosts of which nothing ill is known; write rebuilding, degraded, failed or never, in quotes",
            "c.toml:11:9: health.alarm: `faild` is no health; did you mean `failed`?",
            "c.toml:12:26: health.cordon_at_most_percent: is no share of the hosts; write a whole number from 0 to 100",
        ],
    );
}

#[test]
fn what_is_no_toml_is_said_with_its_line() {
    for (file, line) in [
        ("[class.x\nabout = \"a\"\n", "c.toml:1:"),
        ("[class.x]\nabout = \"a\nrequire = []\n", "c.toml:2:"),
        ("[class.x]\nabout = \"a\"\nabout = \"b\"\n", "c.toml:3:"),
        ("[class.x]\nabout = \"a\"\n[class.x]\n", "c.toml:3:"),
        (
            "class = 3\n",
            "c.toml:1:9: class: is not a table of classes",
        ),
    ] {
        let problems = Classes::parse("c.toml", file).expect_err(file);
        let said = problems[0].to_string();
        assert!(said.starts_with(line), "{file}: {said}");
    }
}

#[test]
fn a_rule_that_is_wrong_says_what_to_write() {
    const WORDS: &str = "from the best to the worst there are A, B, C, D";
    const SIGNS: &str = "=, !=, >=, <=, >, <, `in`, `not in`, `better than` or `worse than`";
    const EXAMPLE: &str = "write for example \"disk.fsync_grade better than C\", or { rule = \"disk.fsync_grade better than C\", because = \"...\" }";
    for (rule, expected) in [
        (r#""""#, "is empty; write for example \"disk.fsync_grade better than C\"".to_owned()),
        (r#"">= 3""#, "`>= 3` names no fact; write for example \"disk.fsync_grade better than C\"".to_owned()),
        (r#""disk.fsyncgrade = A""#, "`disk.fsyncgrade` is no fact of a host; did you mean `disk.fsync_grade`?".to_owned()),
        (r#""fsync_grade = A""#, "`fsync_grade` is no fact of a host; did you mean `disk.fsync_grade`?".to_owned()),
        (r#""clock.drift = 3""#, "`clock.drift` is no fact of a host; there are clock.verdict, clock.bound_us".to_owned()),
        (r#""disk.fsync_grade >= B""#, format!("disk.fsync_grade is not a number, and `>=` compares numbers; write `better than` or `worse than`; {WORDS}")),
        (r#""disk.fsync_grade = E""#, format!("`E` is no word of disk.fsync_grade; {WORDS}")),
        (r#""disk.fsync_grade = b""#, "`b` is no word of disk.fsync_grade; did you mean `B`?".to_owned()),
        (r#""disk.fsync_grade better than A""#, format!("nothing is better than A, so that it never holds; {WORDS}")),
        (r#""disk.fsync_grade worse than D""#, format!("nothing is worse than D, so that it never holds; {WORDS}")),
        (r#""clock.verdict = synchronized""#, "`synchronized` is no word of clock.verdict; did you mean `synchronised`?".to_owned()),
        (r#""memory.ecc""#, "memory.ecc is compared with nothing; write `memory.ecc = true` or `memory.ecc = false`".to_owned()),
        (r#""memory.ecc = yes""#, "`yes` is neither true nor false; write true or false".to_owned()),
        (r#""cpu.cores""#, format!("cpu.cores is compared with nothing; write {SIGNS} behind cpu.cores")),
        (r#""cpu.cores is 4""#, format!("`is` is no comparison; write {SIGNS} behind cpu.cores")),
        (r#""cpu.cores >=""#, "there is nothing behind `>=`; write a whole number".to_owned()),
        (r#""cpu.cores >= many""#, "`many` is no whole number; write a whole number".to_owned()),
        (r#""cpu.cores >= 1.5""#, "`1.5` is not written as a whole number of plain digits; write a whole number".to_owned()),
        (r#""cpu.cores in 4, 8""#, "cpu.cores is a number, and `in` lists words; write >=, <= or = and a number".to_owned()),
        (r#""cpu.cores better than 4""#, "cpu.cores has no better and worse; write >= or <= and a number".to_owned()),
        (r#""host.kernel > 6""#, "host.kernel is not a number, and `>` compares numbers; write a text, without quotes of its own".to_owned()),
        (r#""disk.fsync_p99_us <= 10min""#, "`10min` has no unit of disk.fsync_p99_us; write a whole number with a unit: s, ms, us".to_owned()),
        (r#""disk.size_bytes > 99999999999TiB""#, "`99999999999TiB` is too large; write a whole number with a unit: TiB, GiB, MiB, KiB".to_owned()),
        (r#""memory.usable_bytes per core > 1GiB""#, "`per core` is not known; write `per cpu`: for each processor that jobs can have".to_owned()),
        (r#""memory.ecc per cpu = true""#, "memory.ecc is not a number, and has no share `per cpu`; leave `per cpu` out; write true or false".to_owned()),
        ("3", format!("holds a integer, which is no rule; {EXAMPLE}")),
        ("{ because = \"x\" }", format!("has a rule without a condition; {EXAMPLE}")),
        (r#"{ rule = "cpu.cores = 1", any = ["cpu.cores = 2"] }"#, "has several of `rule`, `any` and `all` in one rule; write one of them; `all = [...]` takes several conditions".to_owned()),
    ] {
        check_rule(rule, &expected);
    }
}

#[test]
fn lists_in_rules_are_bounded() {
    let file = |rule: &str| format!("[class.x]\nabout = \"a\"\nrequire = [{rule}]\n");
    for (rule, expected) in [
        (
            "{ any = [] }".to_owned(),
            "c.toml:3:20: class.x.require: has an empty list, which says nothing; write rules in it, or leave it out",
        ),
        (
            "{ an = [] }".to_owned(),
            "c.toml:3:14: class.x.require: `an` is no field of a rule; did you mean `any`?",
        ),
        (
            r#"{ any = [{ rule = "cpu.cores = 1", because = "x" }] }"#.to_owned(),
            "c.toml:3:47: class.x.require: has a `because` inside a rule; write it beside the outermost `any` or `all`",
        ),
        (
            r#"{ any = [{ all = [{ any = ["cpu.cores = 1"] }] }] }"#.to_owned(),
            "c.toml:3:38: class.x.require: has lists more than 2 deep; say it with fewer, or make it a class of its own",
        ),
        (
            vec!["\"cpu.cores = 1\""; 33].join(","),
            "c.toml:3:11: class.x.require: has 33 rules; write at most 32",
        ),
    ] {
        let problems = Classes::parse("c.toml", &file(&rule)).expect_err(&rule);
        assert_eq!(problems[0].to_string(), expected);
    }
    let alarm = "[health]\ncordon = \"degraded\"\nalarm = \"failed\"\n";
    let problems = Classes::parse("c.toml", alarm).expect_err(alarm);
    assert_eq!(
        problems[0].to_string(),
        "c.toml:1:1: health: alarms from `failed` and cordons already from `degraded`, which is told anyway; write alarm = \"degraded\", or a health less ill"
    );
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever somebody writes, it is answered.
    #[test]
    fn any_file_is_answered(text in "(\\[(class|health)(\\.[a-z]{1,4})?\\]\n|(about|require|refuse|warn|cordon|alarm) = (\"[a-z_.<>= 0-9GiB]{0,24}\"|\\[\"[a-z_.<>= 0-9]{0,24}\"\\]|[0-9]{1,3})\n|.{0,12}\n){0,8}") {
        let _ = Classes::parse("c.toml", &text);
    }

    #[test]
    fn any_rule_is_answered(rule in "(cpu.cores|disk.fsync_grade|memory.usable_bytes|memory.ecc|[a-z.]{0,8}) ?(per cpu)? ?(=|>=|<|in|not in|better than|worse)? ?(.{0,8})") {
        let _ = condition::parse(&rule);
    }
}
