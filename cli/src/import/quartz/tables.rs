//! Dumps of the tables `QRTZ_*`, of Quartz 1.x and 2.x.

use std::collections::BTreeMap;

use protocol::WallMs;

use super::super::account::{Account, Entry, Kind};
use super::super::names::Names;
use super::super::sql::{Columns, Dump, ROWS_MAX, Row, Value, What, text};
use super::super::{Asked, Undecided, some_schedule_in};
use super::trigger::{Fires, GROUP, Job, Trigger, draft};

const CRON: [&[&str]; 2] = [
    &[
        "trigger_name",
        "trigger_group",
        "cron_expression",
        "time_zone_id",
    ],
    &[
        "sched_name",
        "trigger_name",
        "trigger_group",
        "cron_expression",
        "time_zone_id",
    ],
];

const SIMPLE: [&[&str]; 2] = [
    &[
        "trigger_name",
        "trigger_group",
        "repeat_count",
        "repeat_interval",
        "times_triggered",
    ],
    &[
        "sched_name",
        "trigger_name",
        "trigger_group",
        "repeat_count",
        "repeat_interval",
        "times_triggered",
    ],
];

const SIMPROP: [&[&str]; 2] = [
    &[
        "sched_name",
        "trigger_name",
        "trigger_group",
        "str_prop_1",
        "str_prop_2",
        "str_prop_3",
        "int_prop_1",
        "int_prop_2",
        "long_prop_1",
        "long_prop_2",
        "dec_prop_1",
        "dec_prop_2",
        "bool_prop_1",
        "bool_prop_2",
    ],
    &[
        "sched_name",
        "trigger_name",
        "trigger_group",
        "str_prop_1",
        "str_prop_2",
        "str_prop_3",
        "int_prop_1",
        "int_prop_2",
        "long_prop_1",
        "long_prop_2",
        "dec_prop_1",
        "dec_prop_2",
        "bool_prop_1",
        "bool_prop_2",
        "time_zone_id",
    ],
];

/// Both versions have sixteen columns, and not the same.
const TRIGGERS_1: [&[&str]; 1] = [&[
    "trigger_name",
    "trigger_group",
    "job_name",
    "job_group",
    "is_volatile",
    "description",
    "next_fire_time",
    "prev_fire_time",
    "priority",
    "trigger_state",
    "trigger_type",
    "start_time",
    "end_time",
    "calendar_name",
    "misfire_instr",
    "job_data",
]];
const TRIGGERS_2: [&[&str]; 1] = [&[
    "sched_name",
    "trigger_name",
    "trigger_group",
    "job_name",
    "job_group",
    "description",
    "next_fire_time",
    "prev_fire_time",
    "priority",
    "trigger_state",
    "trigger_type",
    "start_time",
    "end_time",
    "calendar_name",
    "misfire_instr",
    "job_data",
]];

const JOBS: [&[&str]; 2] = [
    &[
        "job_name",
        "job_group",
        "description",
        "job_class_name",
        "is_durable",
        "is_volatile",
        "is_stateful",
        "requests_recovery",
        "job_data",
    ],
    &[
        "sched_name",
        "job_name",
        "job_group",
        "description",
        "job_class_name",
        "is_durable",
        "is_nonconcurrent",
        "is_update_data",
        "requests_recovery",
        "job_data",
    ],
];

/// What to do about rows of which no columns are known.
const NAME_COLUMNS: &str = "dump with the names of columns, or with the CREATE TABLE before it";

/// A row and the lines that it takes.
struct Placed {
    line: u32,
    through: u32,
    columns: Columns,
}

/// Scheduler, group and name.
type Key = (String, String, String);

/// What a table holds, by the end of its name: prefixes other than `QRTZ_` are common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Cron,
    Simple,
    Simprop,
    Triggers,
    Jobs,
}

fn table_of(name: &str) -> Option<Table> {
    let ends = |end: &str| name == end || name.ends_with(&format!("_{end}"));
    if ends("cron_triggers") {
        Some(Table::Cron)
    } else if ends("simple_triggers") {
        Some(Table::Simple)
    } else if ends("simprop_triggers") {
        Some(Table::Simprop)
    } else if ends("job_details") {
        Some(Table::Jobs)
    } else if ends("triggers")
        && !["blob", "fired"]
            .iter()
            .any(|kind| ends(&format!("{kind}_triggers")))
    {
        Some(Table::Triggers)
    } else {
        None
    }
}

fn why_left(table: &str) -> String {
    let said = [
        ("fired_triggers", "what was running when the dump was made"),
        ("blob_triggers", "triggers of a site's own class"),
        ("calendars", "calendars of days that triggers leave out"),
        (
            "paused_trigger_grps",
            "groups of triggers that are switched off",
        ),
        ("scheduler_state", "schedulers that were alive"),
        ("locks", "locks of Quartz"),
    ];
    said.iter()
        .find(|(end, _)| table.ends_with(end))
        .map_or_else(
            || format!("`{table}` holds no triggers"),
            |(_, why)| (*why).to_owned(),
        )
}

/// The rows of all tables, as they were met.
#[derive(Default)]
struct Tables {
    cron: BTreeMap<Key, Placed>,
    simple: BTreeMap<Key, Columns>,
    simprop: BTreeMap<Key, Columns>,
    jobs: BTreeMap<Key, Columns>,
    triggers: Vec<Placed>,
}

pub(super) fn import(
    bytes: &[u8],
    asked: &Asked,
    names: &mut Names,
    account: &mut Account,
) -> Result<(), Undecided> {
    let wanted = |table: &str| table_of(table).is_some();
    let mut dump = Dump::new(bytes, has_backslashes(bytes), &wanted);
    let mut tables = Tables::default();
    let mut unnamed: Vec<Row> = Vec::new();
    let mut is_of_quartz = false;
    for piece in dump.by_ref() {
        let (line, through) = (piece.line, piece.through);
        is_of_quartz |= matches!(&piece.what, What::Create { table } | What::Rows { table, .. } if wanted(table));
        match piece.what {
            What::Rows { table, rows } => {
                account.push(Entry::new(
                    Kind::Frame,
                    line,
                    through,
                    &format!("INSERT {table}"),
                ));
                let kind = table_of(&table).expect("only rows of wanted tables are kept");
                for row in rows {
                    tables.take(kind, row, account, &mut unnamed);
                }
            }
            what => account.push_piece(line, through, what, why_left),
        }
        if account.is_overfull() {
            return Ok(());
        }
    }
    if !is_of_quartz && account.bad().next().is_none() {
        account.refuse_whole(
            "there is neither a table of Quartz in it nor its XML",
            "dump QRTZ_TRIGGERS, QRTZ_CRON_TRIGGERS, QRTZ_SIMPLE_TRIGGERS and QRTZ_JOB_DETAILS",
        );
        return Ok(());
    }
    if dump.is_full() {
        account.refuse_whole(
            format!("it has more than {ROWS_MAX} rows"),
            "dump the triggers in several files",
        );
        return Ok(());
    }
    tables.settle_versions(unnamed, account);
    tables.read(asked, names, account)?;
    account.settle();
    Ok(())
}

/// MySQL's dumps escape with backslashes, and are known by their backticks.
fn has_backslashes(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(64 << 10)];
    memchr::memchr(b'`', head).is_some() || memchr::memmem::find(head, b"MySQL").is_some()
}

fn placed(row: &Row, columns: Columns) -> Placed {
    Placed {
        line: row.line,
        through: row.through,
        columns,
    }
}

fn owned(columns: &Columns, name: &str) -> String {
    text(columns, name).unwrap_or_default().to_owned()
}

fn key_of(columns: &Columns, group: &str, name: &str) -> Key {
    (
        owned(columns, "sched_name"),
        owned(columns, group),
        owned(columns, name),
    )
}

/// `1`, `Y`, `true` and their like.
fn is_true(columns: &Columns, name: &str) -> Option<bool> {
    let value = text(columns, name)?.to_ascii_lowercase();
    Some(matches!(value.as_str(), "1" | "y" | "t" | "true" | "\u{1}"))
}

impl Tables {
    fn take(&mut self, kind: Table, row: Row, account: &mut Account, unnamed: &mut Vec<Row>) {
        let forms: &[&[&str]] = match kind {
            Table::Cron => &CRON,
            Table::Simple => &SIMPLE,
            Table::Simprop => &SIMPROP,
            Table::Jobs => &JOBS,
            Table::Triggers if row.columns.is_none() => {
                unnamed.push(row);
                return;
            }
            Table::Triggers => &[],
        };
        let Some(columns) = row.named(forms) else {
            account.push_nameless(&row, "a row", NAME_COLUMNS);
            return;
        };
        let key = key_of(&columns, "trigger_group", "trigger_name");
        match kind {
            Table::Cron => {
                self.cron.insert(key, placed(&row, columns));
            }
            Table::Simple => {
                self.simple.insert(key, columns);
            }
            Table::Simprop => {
                self.simprop.insert(key, columns);
            }
            Table::Jobs => {
                self.jobs
                    .insert(key_of(&columns, "job_group", "job_name"), columns);
            }
            Table::Triggers => self.triggers.push(placed(&row, columns)),
        }
    }

    /// Rows of triggers of which only their number of values is known, the same in both versions:
    /// where other tables name a scheduler, it is the newer one.
    fn settle_versions(&mut self, unnamed: Vec<Row>, account: &mut Account) {
        for row in unnamed {
            let name = |at: usize| row.values.get(at).and_then(Value::text).unwrap_or_default();
            let key_2 = (name(0).to_owned(), name(2).to_owned(), name(1).to_owned());
            let key_1 = (String::new(), name(1).to_owned(), name(0).to_owned());
            let knows = |key: &Key| {
                self.cron.contains_key(key)
                    || self.simple.contains_key(key)
                    || self.simprop.contains_key(key)
            };
            let is_flag = matches!(
                name(4),
                "0" | "1" | "Y" | "N" | "t" | "f" | "true" | "false"
            );
            let is_old = knows(&key_1) || !knows(&key_2) && is_flag;
            let forms = if is_old { &TRIGGERS_1 } else { &TRIGGERS_2 };
            match row.named(forms) {
                Some(columns) => self.triggers.push(placed(&row, columns)),
                None => account.push_nameless(&row, "a row of triggers", NAME_COLUMNS),
            }
        }
    }

    fn read(
        &self,
        asked: &Asked,
        names: &mut Names,
        account: &mut Account,
    ) -> Result<(), Undecided> {
        let mut told: Vec<Key> = Vec::new();
        for row in &self.triggers {
            let key = key_of(&row.columns, "trigger_group", "trigger_name");
            self.trigger(row, &key, asked, names, account)?;
            told.push(key);
        }
        told.sort();
        let mut is_alone = false;
        for (key, row) in &self.cron {
            if told.binary_search(key).is_err() {
                is_alone = true;
                self.trigger(row, key, asked, names, account)?;
            }
        }
        if is_alone {
            account.notes.push(
                "QRTZ_TRIGGERS does not have all of its cron triggers: whether they were paused and \
                 what they run is not known"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn trigger(
        &self,
        row: &Placed,
        key: &Key,
        asked: &Asked,
        names: &mut Names,
        account: &mut Account,
    ) -> Result<(), Undecided> {
        let columns = &row.columns;
        let (fires, zone) = self.fires(columns, key);
        let shown = format!("trigger {}.{}", key.1, key.2);
        let entry = |kind| {
            let entry = Entry::new(kind, row.line, row.through, &shown)
                .reading("trigger", key.2.as_str())
                .reading("group", key.1.as_str())
                .reading("state", text(columns, "trigger_state"));
            match &fires {
                Some(Fires::Cron(cron)) => entry.reading("cron_expression", cron.as_str()),
                _ => entry,
            }
        };
        let Some(fires) = fires.clone() else {
            account.push(entry(Kind::Bad).because(
                "its hours are in another table, and that has no row for it",
                "dump QRTZ_CRON_TRIGGERS, QRTZ_SIMPLE_TRIGGERS and QRTZ_SIMPROP_TRIGGERS too",
            ));
            return Ok(());
        };
        let start = text(columns, "start_time")
            .and_then(|ms| local(ms, zone.as_deref().or(asked.timezone.as_deref())?));
        let end = text(columns, "end_time")
            .filter(|end| !matches!(*end, "0" | "-1"))
            .map(|ms| {
                ms.parse()
                    .map_or_else(|_| ms.to_owned(), |ms| WallMs(ms).to_rfc3339())
            });
        let job = self.jobs.get(&(
            key.0.clone(),
            owned(columns, "job_group"),
            owned(columns, "job_name"),
        ));
        let trigger = Trigger {
            line: row.line,
            name: key.2.clone(),
            group: match key.1.as_str() {
                "" => GROUP.to_owned(),
                group => group.to_owned(),
            },
            job: (owned(columns, "job_name"), owned(columns, "job_group")),
            description: owned(columns, "description"),
            data: BTreeMap::new(),
            fires,
            misfire: owned(columns, "misfire_instr"),
            zone,
            start,
            end,
            calendar: text(columns, "calendar_name").map(ToOwned::to_owned),
            is_off: matches!(
                text(columns, "trigger_state"),
                Some("PAUSED" | "PAUSED_BLOCKED" | "ERROR" | "COMPLETE")
            ),
        };
        let job = job.map(job_of);
        match draft(&trigger, job.as_ref(), &account.file, asked, names) {
            Ok(draft) => account.push_job(entry(Kind::Job), draft),
            Err(misses) => account.push_missed(entry, misses)?,
        }
        Ok(())
    }

    /// When a trigger fires, and its zone.
    fn fires(&self, columns: &Columns, key: &Key) -> (Option<Fires>, Option<String>) {
        if let Some(Placed { columns: cron, .. }) = self.cron.get(key) {
            let zone = text(cron, "time_zone_id").map(ToOwned::to_owned);
            return (Some(Fires::Cron(owned(cron, "cron_expression"))), zone);
        }
        let number = |columns: &Columns, name| text(columns, name).and_then(|n| n.parse().ok());
        if let Some(simple) = self.simple.get(key) {
            let fires = Fires::Simple {
                repeat: number(simple, "repeat_count").unwrap_or(0),
                interval_ms: number(simple, "repeat_interval").unwrap_or(0),
            };
            return (Some(fires), None);
        }
        let kind = text(columns, "trigger_type").unwrap_or_default();
        if let Some(properties) = self.simprop.get(key) {
            let zone = ["time_zone_id", "str_prop_2"]
                .iter()
                .find_map(|name| text(properties, name))
                .map(ToOwned::to_owned);
            let fires = match kind {
                "CAL_INT" => Fires::Calendar {
                    interval: number(properties, "int_prop_1").unwrap_or(0),
                    unit: owned(properties, "str_prop_1"),
                },
                kind => Fires::Other(kind.to_owned()),
            };
            return (Some(fires), zone);
        }
        match kind {
            "CRON" | "SIMPLE" | "CAL_INT" | "DAILY_I" | "" => (None, None),
            kind => (Some(Fires::Other(kind.to_owned())), None),
        }
    }
}

fn job_of(columns: &Columns) -> Job {
    Job {
        name: owned(columns, "job_name"),
        group: owned(columns, "job_group"),
        class: owned(columns, "job_class_name"),
        description: owned(columns, "description"),
        data: BTreeMap::new(),
        is_alone: is_true(columns, "is_nonconcurrent").or_else(|| is_true(columns, "is_stateful")),
        has_object: match columns.get("job_data") {
            Some(Value::Bytes) => true,
            Some(value) => value.text().is_some_and(|text| !text.trim().is_empty()),
            None => false,
        },
    }
}

/// An instant in milliseconds as the local time of a zone.
fn local(ms: &str, zone: &str) -> Option<String> {
    let schedule = some_schedule_in(zone).ok()?;
    Some(schedule.local_time(WallMs(ms.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flag of a dump's one row of job details.
    fn flag(value: &str) -> Option<bool> {
        let dump = format!("INSERT INTO `QRTZ_JOB_DETAILS` (`IS_NONCONCURRENT`) VALUES ({value});");
        let rows = Dump::new(dump.as_bytes(), true, &|_| true)
            .filter_map(|piece| match piece.what {
                What::Rows { rows, .. } => Some(rows),
                _ => None,
            })
            .flatten();
        let columns: Vec<Columns> = rows.map(|row| row.named(&[]).unwrap()).collect();
        assert_eq!(columns.len(), 1, "{value}");
        is_true(&columns[0], "is_nonconcurrent")
    }

    #[test]
    fn a_flag_is_read_however_its_database_dumps_it() {
        for value in [
            "1",
            "'1'",
            "'Y'",
            "'y'",
            "'t'",
            "true",
            "TRUE",
            "b'1'",
            "B'1'",
            "x'01'",
            "X'01'",
            "0x01",
            "'\u{1}'",
            "_binary '\u{1}'",
        ] {
            assert_eq!(flag(value), Some(true), "{value}");
        }
        for value in [
            "0",
            "'0'",
            "'N'",
            "'f'",
            "false",
            "b'0'",
            "B'0'",
            "x'00'",
            "0x00",
            "'\\0'",
            "_binary '\\0'",
        ] {
            assert_eq!(flag(value), Some(false), "{value}");
        }
        for value in ["NULL", "''", "x'ACED'"] {
            assert_eq!(flag(value), None, "{value}");
        }
    }
}
