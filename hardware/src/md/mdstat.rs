//! `/proc/mdstat`.
//!
//! ```text
//! md7 : active raid6 sdb1[0] sde1[3] sdd1[2] sdc1[1](F)
//!       7813735424 blocks super 1.2 level 6, 512k chunk, algorithm 2 [4/3] [U_UU]
//!       [=>...................]  recovery =  8.5% (16775552/195310144) finish=17.0min
//! ```
//!
//! A line without colon belongs to the array above it. What is told twice, the count `[4/3]` and the
//! map `[U_UU]`, must agree; where it does not, the worse counts.

use super::Told;
use crate::facts::Action;
use crate::lines::{Line, decimal, level, lines, number, plain};
use crate::report::{Health, Report};

const NOT_TOLD: &str = "/proc/mdstat does not tell";

/// Reads `/proc/mdstat`.
pub fn parse_mdstat(text: &str) -> Report {
    let mut report = Report::default();
    let mut current: Option<(String, Told)> = None;
    let mut strangers = 0_usize;
    // Between the list of personalities and that of devices without an array stand all that there are.
    let (mut begun, mut ended) = (false, false);
    for line in lines(text) {
        if let Some((name, head)) = array_line(line) {
            finish(&mut report, current.take());
            current = Some((name, head));
            continue;
        }
        let said = plain(line.text);
        if said.starts_with("personalities") || said.starts_with("unused devices") {
            finish(&mut report, current.take());
            begun = true;
            ended = said.starts_with("unused devices");
            continue;
        }
        // Of old kernels.
        if said.starts_with("read_ahead") || said.starts_with("event:") {
            continue;
        }
        match &mut current {
            Some((_, told)) => detail_line(told, line, &said),
            None if strangers < 3 => {
                strangers += 1;
                report.problem(line.place(), format!("{:?} belongs to no array", line.text));
            }
            None => strangers += 1,
        }
    }
    if let Some((_, told)) = &mut current {
        told.judgement.say(
            Health::Unknown,
            "the file ends here, and more may have been said of it",
        );
    }
    finish(&mut report, current);
    if strangers > 3 {
        report.problem(
            "all lines",
            format!("{strangers} of them are not in the form of the kernel's /proc/mdstat"),
        );
    }
    if report.items.is_empty() && text.trim().is_empty() {
        report.problem("the file", "it is empty");
    } else if begun && !ended && report.items.is_empty() {
        report.problem("the file", "it ends before the list of arrays does");
    }
    report
}

fn finish(report: &mut Report, array: Option<(String, Told)>) {
    let Some((name, mut told)) = array else {
        return;
    };
    // Where nothing is said of an action, there is none; a file that was cut says so by what else
    // is missing.
    told.action.get_or_insert(Action::Idle);
    report.items.push(told.item(name, NOT_TOLD));
}

/// `NAME : STATE [(FLAG)] [LEVEL] MEMBER...`, which is the only line with a colon behind a name.
fn array_line(line: Line<'_>) -> Option<(String, Told)> {
    let (name, rest) = line
        .text
        .split_once(" :")
        .or_else(|| line.text.split_once("\t:"))?;
    let name = name.trim();
    if name.is_empty()
        || name.contains(char::is_whitespace)
        || name.eq_ignore_ascii_case("personalities")
    {
        return None;
    }
    let mut told = Told::default();
    let mut words = rest.split_whitespace();
    match words.next() {
        Some("active") => told.runs = Some(true),
        Some("inactive") => told.runs = Some(false),
        Some("broken") => {
            told.judgement
                .say(Health::Failed, "broken: a member is gone");
            told.runs = Some(false);
        }
        Some(word) => told.judgement.say(
            Health::Unknown,
            format!("its state {word:?} is no word known here"),
        ),
        None => {}
    }
    for word in words {
        match word {
            "(read-only)" => told.judgement.note("read-only"),
            "(auto-read-only)" => told.judgement.note("read-only until it is first written"),
            "(broken)" => told
                .judgement
                .say(Health::Failed, "broken: a member is gone"),
            _ if word.contains('[') => member(&mut told, word),
            _ if told.level.is_none() && level(word).is_some() => told.level = level(word),
            _ => told.judgement.say(
                Health::Unknown,
                format!("{word:?} is no level, flag or member known here"),
            ),
        }
    }
    Some((name.to_owned(), told))
}

/// `sdb2[2](F)`: a name, its number, flags.
fn member(told: &mut Told, word: &str) {
    let parsed = word.split_once('[').and_then(|(name, rest)| {
        let (number, flags) = rest.split_once(']')?;
        number.parse::<u32>().ok().map(|_| (name, flags))
    });
    let Some((name, flags)) = parsed else {
        told.judgement.say(
            Health::Unknown,
            format!("{word:?} is no member as md writes them"),
        );
        return;
    };
    let mut in_use = true;
    for flag in flags.split(['(', ')']).filter(|flag| !flag.is_empty()) {
        match flag {
            "F" => {
                told.fail(name, flags.contains("(J)"));
                in_use = false;
            }
            "S" => {
                told.spares.push(name.to_owned());
                in_use = false;
            }
            // Written late, a replacement under way, a journal: all of them work.
            "W" | "R" | "J" => {}
            _ => told.judgement.say(
                Health::Unknown,
                format!("the flag ({flag}) of {name} is not known here"),
            ),
        }
    }
    // Both failed and spare: the worse of the two.
    if told.failed.last().is_some_and(|last| last == name) {
        told.spares.retain(|spare| spare != name);
    }
    told.in_use += u64::from(in_use);
}

fn detail_line(told: &mut Told, line: Line<'_>, said: &str) {
    let mut understood = [
        "bitmap:", "resync", "recovery", "reshape", "check", "repair", "super ",
    ]
    .iter()
    .any(|word| said.contains(word))
        || said.contains("blocks")
        || said.contains("near-copies")
        || said.contains("chunk");
    if said.contains("external:") && told.runs == Some(false) {
        told.container = said.contains("external:imsm") || said.contains("external:ddf");
    }
    if let Some((blocks, _)) = said.split_once(" blocks") {
        told.size_kib = told.size_kib.or(number(blocks));
    }
    for bracket in brackets(line.text) {
        if let Some((required, active)) = count(bracket) {
            count_members(told, required, active);
            understood = true;
        } else if !bracket.is_empty() && bracket.chars().all(|c| matches!(c, 'U' | '_')) {
            let active = bracket.chars().filter(|c| *c == 'U').count() as u64;
            count_members(told, bracket.len() as u64, active);
            understood = true;
        } else if bracket.chars().any(|c| matches!(c, 'U' | '_')) && !bracket.contains("KB") {
            told.judgement
                .say(Health::Unknown, format!("[{bracket}] is no map of members"));
        }
    }
    if let Some((action, percent)) = action(said) {
        told.action = Some(match told.action {
            // Two actions on one array are not in the format: the one that is work counts.
            Some(known) if known != Action::Idle && action == Action::Check => known,
            _ => action,
        });
        told.percent = percent;
        understood = true;
    }
    if !understood {
        told.judgement.say(
            Health::Unknown,
            format!("line {} is not understood: {:?}", line.number, line.text),
        );
    }
}

/// What is told twice must agree; where it does not, the fewest members and the greatest need count.
fn count_members(told: &mut Told, required: u64, active: u64) {
    if let (Some(before_required), Some(before_active)) = (told.required, told.active)
        && (before_required, before_active) != (required, active)
    {
        told.judgement.say(
            Health::Unknown,
            format!("members are told twice and differ: {before_active} of {before_required}, {active} of {required}"),
        );
    }
    told.required = Some(told.required.unwrap_or(0).max(required));
    told.active = Some(told.active.unwrap_or(u64::MAX).min(active));
}

fn brackets(text: &str) -> impl Iterator<Item = &str> {
    text.split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']').map(|(inside, _)| inside))
}

/// `4/3`: needed and there.
fn count(text: &str) -> Option<(u64, u64)> {
    let (required, active) = text.split_once('/')?;
    Some((required.parse().ok()?, active.parse().ok()?))
}

/// `recovery = 8.5% (...)`, `resync=DELAYED`.
fn action(said: &str) -> Option<(Action, Option<f64>)> {
    const ACTIONS: [(&str, Action); 5] = [
        ("recovery", Action::Recovery),
        ("resync", Action::Resync),
        ("reshape", Action::Reshape),
        ("check", Action::Check),
        ("repair", Action::Resync),
    ];
    let (action, rest) = ACTIONS.iter().find_map(|(word, action)| {
        let (_, rest) = said.split_once(word)?;
        Some((*action, rest.trim_start().strip_prefix('=')?.trim_start()))
    })?;
    if rest.starts_with("delayed") || rest.starts_with("pending") {
        return Some((Action::Delayed, None));
    }
    let percent = decimal(rest).filter(|percent| (0.0..=100.0).contains(percent));
    Some((action, percent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;

    fn one(text: &str) -> (Health, crate::facts::ArrayFacts) {
        let report = parse_mdstat(text);
        assert_eq!(report.items.len(), 1, "{report:?}");
        let item = report.items.into_iter().next().unwrap();
        let Facts::Array(facts) = item.facts else {
            panic!("{:?}", item.facts)
        };
        (item.health, facts)
    }

    #[test]
    fn health_is_in_the_members_not_in_the_word_active() {
        let head = "md0 : active raid1 sda1[0] sdb1[1]\n      1 blocks ";
        for (rest, expected) in [
            ("[2/2] [UU]", Health::Ok),
            ("[2/1] [U_]", Health::Degraded),
            ("[2/1] [U_]\n  recovery = 3.6% (1/2)", Health::Rebuilding),
            ("[2/1] [U_]\n  recovery=DELAYED", Health::Degraded),
            ("[2/1] [U_]\n  reshape = 3.6% (1/2)", Health::Degraded),
            ("[2/2] [UU]\n  resync = 3.6% (1/2)", Health::Rebuilding),
            ("[2/2] [UU]\n  check = 3.6% (1/2)", Health::Ok),
            // The two differ: something is broken, and it is not for us to choose the better.
            ("[2/2] [U_]", Health::Degraded),
            ("[2/2] [UX]", Health::Unknown),
            ("[2/2", Health::Unknown),
            ("", Health::Unknown),
        ] {
            assert_eq!(
                one(&format!("{head}{rest}\nunused devices: <none>")).0,
                expected,
                "{rest:?}"
            );
        }
    }

    #[test]
    fn what_is_inactive_has_failed_but_for_the_containers_of_firmware() {
        let inactive = "md1 : inactive raid1 sda3[0](F) sdb3[1](S)\n 48 blocks [2/2] [UU]\n";
        let (health, facts) = one(inactive);
        assert_eq!(health, Health::Failed);
        assert_eq!(facts.members_failed, 1.into());
        let container = "md127 : inactive sdb[1](S) sdc[0](S)\n 5288 blocks super external:imsm\nunused devices: <none>\n";
        let (health, facts) = one(container);
        assert_eq!(health, Health::Ok);
        assert_eq!(facts.level, "container".to_owned().into());
        let stopped = "md5 : inactive sdb[1](S) sdc[0](S)\n 5288 blocks super 1.2\n";
        assert_eq!(one(stopped).0, Health::Failed);
    }

    #[test]
    fn another_grammar_costs_a_few_problems_and_no_more() {
        let unraid = "diskState.3=7\n".repeat(50);
        let report = parse_mdstat(&unraid);
        assert!(report.items.is_empty());
        assert_eq!(report.problems.len(), 4);
    }

    #[test]
    fn names_and_lines_of_old_kernels() {
        let text = "Personalities : [raid1]\nread_ahead 1024 sectors\nEvent: 5\n\
                    md_d0 : active raid1 cciss/c0d1p1[1] cciss!c0d0p1[0](W)\n      104320 blocks [2/2] [UU]\n      \n\
                    unused devices: <none>\n";
        let report = parse_mdstat(text);
        assert!(report.problems.is_empty(), "{report:?}");
        assert_eq!(one(text).0, Health::Ok);
    }

    #[test]
    fn layouts_and_what_stands_below_them() {
        for (array, expected) in [
            (
                "active raid10 sdd1[3] sdc1[2] sdb1[1] sda1[0]\n 2096128 blocks super 1.2 512K chunks 2 far-copies [4/4] [UUUU]\n bitmap: 0/8 pages [0KB], 65536KB chunk",
                Health::Ok,
            ),
            (
                "active raid10 sdd1[3] sdc1[2](F) sdb1[1] sda1[0]\n 2096128 blocks super 1.2 512K chunks 2 offset-copies [4/3] [UU_U]",
                Health::Degraded,
            ),
            (
                "active raid5 sde1[4](J) sdc1[3] sdb1[1] sda1[0]\n 2093056 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/3] [UUU]",
                Health::Ok,
            ),
            // Counted by nobody, and whatever is written now has no journal.
            (
                "active raid5 sde1[4](J)(F) sdc1[3] sdb1[1] sda1[0]\n 2093056 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/3] [UUU]",
                Health::Degraded,
            ),
            (
                "active raid5 sdd1[4] sdc1[3] sdb1[1] sda1[0]\n 2093056 blocks super 1.2 level 5, 512k chunk, algorithm 2 [4/4] [UUUU]\n [=====>....]  reshape = 26.3% (275456/1046528) finish=0.1min speed=68864K/sec",
                Health::Ok,
            ),
            (
                "active raid1 sdb1[2] sda1[0]\n 2093056 blocks super 1.2 [2/1] [U_]\n resync=PENDING",
                Health::Degraded,
            ),
            (
                "active (read-only) raid1 sdb1[1] sda1[0](W)\n 2093056 blocks super 1.2 [2/2] [UU]\n resync=REMOTE",
                Health::Rebuilding,
            ),
            (
                "active linear sdb1[1] sda1[0]\n 4186112 blocks super 1.2 0k rounding",
                Health::Ok,
            ),
            (
                "broken linear sdb1[1](F) sda1[0]\n 4186112 blocks super 1.2 0k rounding",
                Health::Failed,
            ),
            (
                "active raid0 sdb1[1](F) sda1[0]\n 4186112 blocks super 1.2 512k chunks",
                Health::Failed,
            ),
            (
                "active multipath sdb[1](F) sda[0]\n 4186112 blocks super 1.2 [2/1] [U_]",
                Health::Degraded,
            ),
            (
                "active raid1 sdb1[1](X) sda1[0]\n 2093056 blocks super 1.2 [2/2] [UU]",
                Health::Unknown,
            ),
        ] {
            let (health, facts) = one(&format!("md0 : {array}\n\nunused devices: <none>\n"));
            assert_eq!(health, expected, "{array}");
            assert!(
                facts.size_bytes.known() >= Some(&(2_093_056 << 10)),
                "{array}"
            );
        }
    }

    #[test]
    fn a_file_that_was_cut_before_its_arrays_says_so() {
        let report = parse_mdstat("Personalities : [raid1] [raid6]\n");
        assert!(report.items.is_empty() && report.problems.len() == 1);
    }

    #[test]
    fn no_arrays_are_no_problem() {
        let report = parse_mdstat("Personalities :\r\nunused devices: <none>\r\n");
        assert_eq!(report, Report::default());
    }
}
