//! `mdadm --detail`, of one array or of several one below the other.

use super::Told;
use crate::facts::Action;
use crate::lines::{Line, decimal, level, lines, number, plain};
use crate::report::{Health, Report};

const NOT_TOLD: &str = "mdadm --detail does not tell";

/// Reads `mdadm --detail`.
pub fn parse_mdadm(text: &str) -> Report {
    let mut report = Report::default();
    let mut current: Option<Detail> = None;
    for line in lines(text) {
        if let Some(name) = array_head(line.text) {
            Detail::finish(current.take(), &mut report);
            current = Some(Detail::of(name));
            continue;
        }
        match &mut current {
            Some(detail) => detail.line(line),
            None => report.problem(line.place(), format!("{:?} belongs to no array", line.text)),
        }
    }
    Detail::finish(current, &mut report);
    if report.items.is_empty() && report.problems.is_empty() {
        report.problem("the file", "it is empty");
    }
    report
}

/// `/dev/md0:` or `/dev/md/name:`, alone on its line.
fn array_head(text: &str) -> Option<&str> {
    let name = text.strip_suffix(':')?.trim();
    (name.starts_with('/') && !name.contains(char::is_whitespace)).then_some(name)
}

struct Detail {
    name: String,
    told: Told,
    state: bool,
    /// Whether the table of members has begun.
    members: bool,
    listed_active: u64,
}

impl Detail {
    fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            told: Told::default(),
            state: false,
            members: false,
            listed_active: 0,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        let said = plain(line.text);
        if said.starts_with("number major minor") {
            self.members = true;
            return;
        }
        match line.pair() {
            Some((key, value)) if !line.text.starts_with('-') && !self.is_member(&said) => {
                self.field(&key, value);
            }
            _ if self.members => self.member(&said),
            _ => self.told.judgement.note(format!(
                "line {} is not understood: {:?}",
                line.number, line.text
            )),
        }
    }

    /// A row of the table: it begins with three numbers, or with a dash for one of them.
    fn is_member(&self, said: &str) -> bool {
        let first = said.split(' ').next().unwrap_or("");
        self.members && (first == "-" || first.parse::<u64>().is_ok())
    }

    fn field(&mut self, key: &str, value: &str) {
        let told = &mut self.told;
        match key {
            "raid level" => match level(value) {
                Some(level) => {
                    told.container |= level == "container";
                    told.level = Some(level);
                }
                None => told.judgement.say(
                    Health::Unknown,
                    format!("its level {value:?} is not known here"),
                ),
            },
            "array size" => told.size_kib = number(value),
            "raid devices" => self.count(value, |told| &mut told.required, u64::max),
            "active devices" => self.count(value, |told| &mut told.active, u64::min),
            "failed devices" => self.count(value, |told| &mut told.failed_count, u64::max),
            "spare devices" => self.count(value, |told| &mut told.spare_count, u64::max),
            "state" => {
                self.state = true;
                for word in value.split(',') {
                    self.state_word(&plain(word));
                }
            }
            "rebuild status" => self.progress(Action::Recovery, value),
            "resync status" => self.progress(Action::Resync, value),
            "check status" => self.progress(Action::Check, value),
            "reshape status" => self.progress(Action::Reshape, value),
            _ => {}
        }
    }

    fn count(
        &mut self,
        value: &str,
        field: fn(&mut Told) -> &mut Option<u64>,
        worse: fn(u64, u64) -> u64,
    ) {
        match number(value) {
            Some(count) => {
                let field = field(&mut self.told);
                *field = Some(field.map_or(count, |before| worse(before, count)));
            }
            None => self
                .told
                .judgement
                .say(Health::Unknown, format!("{value:?} is no count of members")),
        }
    }

    fn progress(&mut self, action: Action, value: &str) {
        self.told.percent = decimal(value).filter(|percent| (0.0..=100.0).contains(percent));
        if self.told.action != Some(Action::Delayed) {
            self.told.action = Some(action);
        }
    }

    fn state_word(&mut self, word: &str) {
        let told = &mut self.told;
        let waits = word.contains("(delayed)") || word.contains("(pending)");
        let bare = word.split(" (").next().unwrap_or("");
        let action = match bare {
            "recovering" => Some(Action::Recovery),
            "resyncing" => Some(Action::Resync),
            "checking" => Some(Action::Check),
            "reshaping" => Some(Action::Reshape),
            _ => None,
        };
        if let Some(action) = action {
            told.action = Some(if waits { Action::Delayed } else { action });
            return;
        }
        match bare {
            // Very old versions: "dirty" is what others call active.
            "clean" | "active" | "active-idle" | "write-pending" | "dirty" => {
                told.runs = told.runs.or(Some(true));
            }
            "readonly" | "read-only" | "read-auto" => {
                told.runs = told.runs.or(Some(true));
                told.judgement.note(word.to_owned());
            }
            "no-errors" => {}
            "degraded" | "errors" => told
                .judgement
                .say(Health::Degraded, format!("state: {word}")),
            "failed" | "broken" => {
                told.runs = Some(false);
                told.judgement.say(Health::Failed, format!("state: {word}"));
            }
            "inactive" | "not started" | "suspended" | "clear" => {
                told.runs = Some(false);
                told.judgement.note(format!("state: {word}"));
            }
            _ => told.judgement.say(
                Health::Unknown,
                format!("state: {word:?} is no word known here"),
            ),
        }
    }

    fn member(&mut self, said: &str) {
        let words: Vec<&str> = said.split(' ').collect();
        let device = words.last().filter(|word| word.starts_with('/')).copied();
        let has = |word: &str| words.contains(&word);
        if has("faulty") {
            let name = device.unwrap_or("a member without a name");
            self.told.fail(name, has("journal"));
        } else if has("removed") {
            // Counted by `Active Devices` too; it may be all that says so where that is cut away.
            self.told
                .judgement
                .say(Health::Degraded, "a member is removed");
        } else if has("active") && has("sync") {
            self.listed_active += 1;
        } else if has("spare") && !has("rebuilding") {
            self.told.spares.push(device.unwrap_or("").to_owned());
        } else if !["rebuilding", "journal", "replacement", "-"]
            .iter()
            .any(|word| has(word))
            && words.len() > 4
        {
            self.told.judgement.say(
                Health::Unknown,
                format!("the state of a member is not known here: {said:?}"),
            );
        }
    }

    fn finish(detail: Option<Self>, report: &mut Report) {
        let Some(mut detail) = detail else {
            return;
        };
        let told = &mut detail.told;
        if told.container {
            // Containers have no state of their own.
            told.runs = Some(false);
        } else {
            told.judgement.require(detail.state, "its state");
        }
        if told.runs == Some(true) {
            told.action.get_or_insert(Action::Idle);
        }
        if told.level.as_deref() == Some("raid0") || told.level.as_deref() == Some("linear") {
            told.in_use = detail.listed_active;
        }
        let name = detail.name.trim_start_matches("/dev/").to_owned();
        report.items.push(detail.told.item(name, NOT_TOLD));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(level: &str, state: &str, required: u64, active: u64, failed: u64) -> String {
        format!(
            "/dev/md0:\n Raid Level : {level}\n Raid Devices : {required}\n State : {state}\n \
             Active Devices : {active}\n Failed Devices : {failed}\n Spare Devices : 0\n"
        )
    }

    #[test]
    fn every_row_of_the_table_counts() {
        for (row, expected) in [
            ("2 8 33 2 active sync writemostly /dev/sdc1", Health::Ok),
            ("2 8 33 2 active sync set-A failfast /dev/sdc1", Health::Ok),
            ("3 8 49 - spare /dev/sdd1", Health::Ok),
            ("3 8 49 - journal /dev/sdd1", Health::Ok),
            (
                "3 8 49 2 spare rebuilding /dev/disk/by-path/pci-0000:00-ata-1",
                Health::Ok,
            ),
            ("3 8 49 - faulty /dev/sdd1", Health::Ok),
            ("3 8 49 - faulty journal /dev/sdd1", Health::Degraded),
            ("- 0 0 2 removed", Health::Degraded),
            ("2 8 33 2 splendid /dev/sdc1", Health::Unknown),
        ] {
            let text = format!(
                "{}\n Number Major Minor RaidDevice State\n 0 8 1 0 active sync /dev/sda1\n {row}\n",
                detail("raid5", "clean", 3, 3, 0)
            );
            let item = &parse_mdadm(&text).items[0];
            assert_eq!(item.health, expected, "{row}: {}", item.reason);
        }
    }

    #[test]
    fn arrays_below_each_other_and_what_is_none() {
        let container = "/dev/md/imsm0:\n Version : imsm\n Raid Level : container\n Total Devices : 2\n\
                         Working Devices : 2\n Number Major Minor RaidDevice\n - 8 0 - /dev/sda\n - 8 16 - /dev/sdb\n";
        let old = "/dev/md9:\n Raid Level : raid1\n Array Size : 1953382400 (1862.89 GiB 2000.26 GB)\n\
                   Raid Devices : 2\n State : dirty, no-errors\n Active Devices : 2\n Failed Devices : 0\n";
        let text = format!(
            "mdadm: cannot open /dev/md7: No such file or directory\n{container}{old}{}",
            detail("raid1", "active, degraded, resyncing (PENDING)", 2, 1, 0)
        );
        let report = parse_mdadm(&text);
        let told: Vec<_> = report
            .items
            .iter()
            .map(|item| (item.id.as_str(), item.health))
            .collect();
        let expected = [
            ("md/imsm0", Health::Ok),
            ("md9", Health::Ok),
            ("md0", Health::Degraded),
        ];
        assert_eq!(told, expected, "{report:?}");
        assert_eq!(report.problems.len(), 1);
        let crate::Facts::Array(facts) = &report.items[1].facts else {
            panic!()
        };
        assert_eq!(facts.size_bytes, (1_953_382_400_u64 << 10).into());
    }

    #[test]
    fn the_worst_of_state_and_counts_is_the_health() {
        for (level, state, required, active, failed, expected) in [
            ("raid5", "clean", 3, 3, 0, Health::Ok),
            ("raid5", "active, checking", 3, 3, 0, Health::Ok),
            ("raid1", "clean", 2, 2, 1, Health::Ok),
            ("raid5", "clean, degraded", 3, 2, 1, Health::Degraded),
            (
                "raid5",
                "clean, degraded, recovering",
                3,
                2,
                0,
                Health::Rebuilding,
            ),
            (
                "raid5",
                "clean, degraded, resyncing (DELAYED)",
                3,
                2,
                0,
                Health::Degraded,
            ),
            ("raid5", "clean", 3, 2, 0, Health::Degraded),
            ("raid5", "clean, degraded", 3, 3, 0, Health::Degraded),
            (
                "raid5",
                "active, FAILED, Not Started",
                3,
                1,
                2,
                Health::Failed,
            ),
            ("raid5", "inactive", 3, 3, 0, Health::Failed),
            ("raid5", "pristine", 3, 3, 0, Health::Unknown),
            ("raid0", "clean", 2, 2, 0, Health::Ok),
            ("raid0", "clean", 2, 1, 1, Health::Failed),
            ("raid0", "broken", 2, 2, 0, Health::Failed),
        ] {
            let report = parse_mdadm(&detail(level, state, required, active, failed));
            let item = &report.items[0];
            assert_eq!(item.health, expected, "{level} {state}: {}", item.reason);
        }
    }
}
