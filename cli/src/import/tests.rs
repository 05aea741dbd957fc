//! What holds of every importer, whatever it is given.

use jobs::parse_manifests;
use proptest::prelude::*;

use super::account::{Account, Kind};
use super::draft::{Draft, Said, literal};
use super::names::Names;
use super::{Asked, accept, crontab, k8s, quartz, xxl};
use crate::args::ImportFrom;

fn asked() -> Asked {
    Asked {
        timezone: Some("Asia/Shanghai".to_owned()),
        user_field: Some(true),
        ..Asked::default()
    }
}

/// Imports, and holds what must hold: lines add up, and every manifest is one.
fn check(from: ImportFrom, bytes: &[u8]) -> Account {
    let (asked, mut names) = (asked(), Names::default());
    let account = match from {
        ImportFrom::Crontab => crontab::import_crontab("f", bytes, &asked, &mut names),
        ImportFrom::K8s => k8s::import_k8s("f", bytes, &asked, &mut names),
        ImportFrom::Xxl => xxl::import_xxl("f", bytes, &asked, &mut names),
        ImportFrom::Quartz => quartz::import_quartz("f", bytes, &asked, &mut names),
    };
    let mut account = account.expect("everything that could be asked was said");
    accept(&mut account);
    let lines = account.count();
    let sum = lines.job
        + lines.bad
        + lines.not_carried_over
        + lines.environment
        + lines.frame
        + lines.comment
        + lines.blank;
    assert_eq!(sum, lines.total);
    for draft in &account.drafts {
        let manifests = parse_manifests("f", draft.render()).expect("it was accepted");
        assert_eq!(manifests[0].name.as_str(), draft.name);
    }
    account
}

/// A line of a source is spoken of by some entry: nothing is counted as bad for want of one.
fn is_covered(account: &Account) {
    let spoken = |line: u32| {
        account
            .entries
            .iter()
            .any(|entry| entry.line <= line && line <= entry.through)
    };
    for line in 1..=account.lines {
        assert!(spoken(line), "line {line} of {:#?}", account.entries);
    }
}

/// Pieces of which sources consist, so that more than the first check is reached.
const PIECES: [(ImportFrom, &[&str]); 4] = [
    (
        ImportFrom::Crontab,
        &[
            "* * * * * ",
            "@daily ",
            "root ",
            "/bin/a ",
            "%",
            "\\",
            "\n",
            "\r\n",
            "# c\n",
            "A=b\n",
            "'",
            "\"",
            "{",
            "}",
            "\t",
            "-",
            "对",
            "CRON_TZ=UTC\n",
            "SHELL=/bin/bash\n",
            "*/7 ",
            "1-5/2 ",
            "$(date)",
            "&",
            "HOME=/x\n",
            "\u{85}",
            "\u{2028}",
        ],
    ),
    (
        ImportFrom::K8s,
        &[
            "---\n",
            "apiVersion: batch/v1\n",
            "kind: CronJob\n",
            "metadata: {name: a}\n",
            "spec:\n",
            "  schedule: '* * * * *'\n",
            "  jobTemplate: {spec: {template: {spec: {containers: [{image: i, command: [a, \"{b}\\n\"]}]}}}}\n",
            "  suspend: true\n",
            "kind: List\n",
            "items:\n",
            "- ",
            "&a ",
            "*a ",
            "{{",
            "}}",
            "# c\n",
            "\n",
            "  concurrencyPolicy: Forbid\n",
            ": ",
            "[",
            "|\n",
        ],
    ),
    (
        ImportFrom::Xxl,
        &[
            "INSERT INTO xxl_job_info VALUES (",
            "1,",
            "'CRON',",
            "'0 0 0 * * ?',",
            "'",
            "\\",
            ");\n",
            "),(",
            "-- c\n",
            "/*",
            "*/",
            "\n",
            "CREATE TABLE xxl_job_info (id int, schedule_type text, schedule_conf text);\n",
            "INSERT INTO `xxl_job_info` (`id`,`schedule_type`,`schedule_conf`,`executor_handler`) VALUES (7,'CRON','0 0 1 * * ?','h');\n",
            "NULL",
            ",",
            "`",
            ";",
            "对",
            "DELIMITER $$\n",
            "$$",
        ],
    ),
    (
        ImportFrom::Quartz,
        &[
            "<job-scheduling-data>",
            "</job-scheduling-data>",
            "<schedule>\n",
            "</schedule>",
            "<trigger><cron>",
            "</cron></trigger>\n",
            "<name>a</name>",
            "<cron-expression>0 0 1 * * ?</cron-expression>",
            "<job>",
            "</job>",
            "<!--",
            "-->",
            "\n",
            "&amp;",
            "&x;",
            "<time-zone>UTC</time-zone>",
            "INSERT INTO qrtz_cron_triggers VALUES ('a','b','0/60 * * * * ?','UTC');\n",
            "INSERT INTO qrtz_triggers VALUES (",
            "'a',",
            "NULL",
            ");",
            "<![CDATA[",
            "]]>",
        ],
    ),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_accounted_for(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for (from, _) in PIECES {
            is_covered(&check(from, &bytes));
        }
    }

    #[test]
    fn any_pieces_are_accounted_for(which in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        for (from, pieces) in PIECES {
            let text: String = which.iter().map(|index| *index.get(pieces)).collect();
            is_covered(&check(from, text.as_bytes()));
        }
    }

    /// What is written into a manifest is what is read out of it.
    #[test]
    fn texts_come_back_as_they_were(
        arguments in prop::collection::vec("[ -~\u{e9}\u{5bf9}\u{2028}\n\t]{1,40}", 1..4),
        purpose in "[ -~\u{5bf9}]{1,40}",
        remark in "\\PC{0,200}",
    ) {
        let mut exec = vec!["/bin/a".to_owned()];
        exec.extend(arguments.iter().map(|argument| literal(argument)));
        let draft = Draft {
            name: "a/b".to_owned(),
            source: format!("crontab {remark}\n"),
            original: remark.clone(),
            decide: vec![remark.clone()],
            purpose: format!("x{purpose}"),
            owner: Said::new("y", remark.clone()),
            cron: "@daily".to_owned(),
            timezone: Said::new("Etc/UTC", remark.clone()),
            misfire: Said::new("{ policy: skip }", remark.clone()),
            overlap: Said::new("allow", ""),
            expected_duration: Said::new("1h", ""),
            timeout: Said::new("1h", ""),
            retry: Said::new("{ at_most: 0 }", ""),
            exec: exec.clone(),
            exec_remark: remark,
            ..Draft::default()
        };
        let text = draft.render();
        let manifests = parse_manifests("f", &text)
            .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        prop_assert_eq!(manifests[0].exec().collect::<Vec<_>>(), exec);
        prop_assert_eq!(manifests[0].purpose.trim(), draft.purpose.trim());
        let imprint = super::draft::Imprint::of(&text).expect("it has its stamp");
        prop_assert!(!imprint.is_edited);
    }
}

#[test]
fn lines_that_move_keep_their_names() {
    let names = |text: &str| -> Vec<String> {
        let account = check(ImportFrom::Crontab, text.as_bytes());
        account
            .drafts
            .iter()
            .map(|draft| draft.name.clone())
            .collect()
    };
    let (a, b) = ("1 2 * * * root /bin/a\n", "1 2 * * * root /bin/b\n");
    let first = names(&format!("{a}{b}"));
    let mut moved = names(&format!("# more\nX=y\n3 4 * * * root /bin/a\n{b}{a}"));
    let new = moved.remove(0);
    moved.reverse();
    assert_eq!(moved, first);
    assert!(!first.contains(&new));
    let twice = names(&format!("{a}{a}"));
    assert_eq!(twice, [first[0].clone(), format!("{}-2", first[0])]);
}

#[test]
fn settings_hold_from_their_line_on() {
    let text = "0 1 * * * root date\nCRON_TZ=Europe/Berlin\nSHELL=/bin/bash\nPATH=/opt\n0 1 * * * root date\n";
    let account = check(ImportFrom::Crontab, text.as_bytes());
    let zones: Vec<&str> = account
        .drafts
        .iter()
        .map(|d| d.timezone.value.as_str())
        .collect();
    assert_eq!(zones, ["Asia/Shanghai", "Europe/Berlin"]);
    assert!(account.drafts[0].exec.contains(&"/bin/sh".to_owned()));
    assert!(account.drafts[1].exec.contains(&"/bin/bash".to_owned()));
    assert!(account.drafts[1].exec.contains(&"PATH=/opt".to_owned()));
    assert!(!account.drafts[0].exec.contains(&"PATH=/opt".to_owned()));
    // The machine's zone, as `date` saw it under cron.
    assert!(
        account.drafts[1]
            .exec
            .contains(&"TZ=Asia/Shanghai".to_owned())
    );
}

#[test]
fn policies_of_a_cronjob() {
    let text = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a, namespace: n}\nspec:\n  schedule: '0 1 * * *'\n  timeZone: Europe/Berlin\n  suspend: true\n  startingDeadlineSeconds: 30\n  concurrencyPolicy: Replace\n  jobTemplate:\n    spec:\n      backoffLimit: 2\n      activeDeadlineSeconds: 90\n      template:\n        spec:\n          containers:\n          - {image: i, workingDir: /app, command: [run, $(A)], env: [{name: A, value: '{x}'}], resources: {limits: {memory: 1Gi}}}\n";
    let account = check(ImportFrom::K8s, text.as_bytes());
    let draft = &account.drafts[0];
    assert_eq!(draft.name, "n/a");
    assert_eq!(draft.overlap.value, "replace");
    assert_eq!(draft.misfire.value, "{ within: 30s, after: 30s }");
    assert_eq!(draft.retry.value, "{ at_most: 2, backoff: [10s, 20s] }");
    assert_eq!(draft.timeout.value, "90s");
    assert_eq!(draft.limits.as_ref().unwrap().value, "{ memory: 1024MiB }");
    assert!(draft.was_off);
    let enter = "cd \"$0\" && exec \"$@\"";
    assert_eq!(
        draft.exec,
        [
            "/usr/bin/env",
            "A={{x}}",
            "/bin/sh",
            "-c",
            enter,
            "/app",
            "run",
            "{{x}}"
        ]
    );
}

#[test]
fn policies_of_xxl_job() {
    let columns = "id,job_desc,author,schedule_type,schedule_conf,misfire_strategy,executor_block_strategy,executor_timeout,executor_fail_retry_count,glue_type,glue_source,executor_param,child_jobid,executor_handler,executor_route_strategy";
    let rows = "(1,'a','ann','CRON','0 0 1 * * ?','FIRE_ONCE_NOW','COVER_EARLY',60,9,'GLUE_SHELL','#!/bin/bash\\r\\necho {$1}','p','2','','SHARDING_BROADCAST'),\n(2,'b','','FIX_RATE','30','DO_NOTHING','DISCARD_LATER',0,0,'BEAN','','','','h','FIRST'),\n(3,'c','','NONE','','DO_NOTHING','SERIAL_EXECUTION',0,0,'BEAN','','','','h','FIRST'),\n(4,'d','','CRON','nonsense','DO_NOTHING','SERIAL_EXECUTION',0,0,'BEAN','','','','h','FIRST')";
    let text = format!("INSERT INTO xxl_job_info ({columns}) VALUES {rows};\n");
    let account = check(ImportFrom::Xxl, text.as_bytes());
    let [a, b] = &account.drafts[..] else {
        panic!("{:#?}", account.entries);
    };
    assert_eq!(a.overlap.value, "replace");
    assert_eq!(a.misfire.value, "{ policy: run_now, after: 60s }");
    assert_eq!(a.timeout.value, "60s");
    assert_eq!(a.retry.value, "{ at_most: 5, backoff: [1s] }");
    assert!(a.exec.contains(&"#!/bin/bash\necho {{$1}}".to_owned()));
    assert!(
        a.decide
            .iter()
            .any(|said| said.contains("SHARDING_BROADCAST"))
    );
    assert!(a.decide.iter().any(|said| said.contains("it started h-2")));
    assert_eq!(b.cron, "@every 30s");
    assert_eq!(b.overlap.value, "forbid");
    let lines = account.count();
    assert_eq!(
        (lines.bad, lines.not_carried_over),
        (1, 1),
        "{:#?}",
        account.entries
    );
}

#[test]
fn misfires_of_quartz() {
    for (instruction, policy, catch_up) in [
        ("", "run_now", None),
        ("MISFIRE_INSTRUCTION_DO_NOTHING", "skip", None),
        ("MISFIRE_INSTRUCTION_FIRE_ONCE_NOW", "run_now", None),
        (
            "MISFIRE_INSTRUCTION_IGNORE_MISFIRE_POLICY",
            "run_now",
            Some(100),
        ),
    ] {
        let text = format!(
            "<job-scheduling-data><schedule><trigger><cron><name>a</name><job-name>j</job-name><misfire-instruction>{instruction}</misfire-instruction><cron-expression>0 0 1 * * ?</cron-expression></cron></trigger></schedule></job-scheduling-data>"
        );
        let account = check(ImportFrom::Quartz, text.as_bytes());
        let draft = &account.drafts[0];
        assert_eq!(
            draft.misfire.value,
            format!("{{ policy: {policy}, after: 60s }}")
        );
        assert_eq!(draft.catch_up, catch_up, "{instruction}");
    }
}

#[test]
fn what_kubernetes_does_not_take_for_a_command_is_bad() {
    let cronjob = |name: &str, command: &str| {
        format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{ {name} }}\nspec:\n  \
             schedule: \"0 1 * * *\"\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          \
             containers: [{{ image: x, {command} }}]\n"
        )
    };
    for (command, part) in [
        ("command: [1, a]", "`1` in `command` is no text"),
        ("command: [a, true]", "`true` in `command` is no text"),
        ("command: [a, null]", "`null` in `command` is no text"),
        ("command: [a], args: [0.5]", "`0.5` in `args` is no text"),
        ("command: [a, [b]]", "a list or mapping stands in `command`"),
        ("command: a b", "`command` is no list"),
    ] {
        let account = check(ImportFrom::K8s, cronjob("name: a", command).as_bytes());
        assert!(account.drafts.is_empty(), "{command}");
        let mut entries = account.entries.iter();
        let bad = entries.find(|entry| entry.kind == Kind::Bad).unwrap();
        assert!(bad.why.contains(part), "{command}: {bad:?}");
    }
    let text = cronjob("name: a, name: b", "command: ['1', \"true\", !!str 5]");
    let account = check(ImportFrom::K8s, text.as_bytes());
    let draft = &account.drafts[0];
    assert_eq!(draft.exec, ["1", "true", "5"]);
    let twice = "`metadata.name` stands there twice; the last, b, counts.";
    assert!(
        draft.decide.iter().any(|said| said == twice),
        "{:?}",
        draft.decide
    );
}
