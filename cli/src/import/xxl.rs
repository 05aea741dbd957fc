//! `matins import xxl`: the jobs of xxl-job, from a dump of its database.
//!
//! The table `xxl_job_info` says when and how; what runs is a method of a Java process, of which
//! only the name is there. Scripts are there whole (`GLUE_SHELL` and its like) and come along.

use std::collections::BTreeMap;

use jobs::Dialect;

use super::account::{Account, Entry, Kind, cut};
use super::draft::{
    Draft, RETRIES_MAX, SECONDS_MAX, Said, expected_duration_unsaid, literal, timeout_unsaid,
    user_unsaid,
};
use super::names::{Names, slug, with_digest};
use super::quartz::judged;
use super::sql::{Columns, Dump, ROWS_MAX, Row, What, text};
use super::{Asked, Misses, Undecided, WRITE_HOURS};

/// Columns of `xxl_job_info` where a dump does not name them: from 2.3 on, and before.
const JOB_INFO: [&[&str]; 2] = [
    &[
        "id",
        "job_group",
        "job_desc",
        "add_time",
        "update_time",
        "author",
        "alarm_email",
        "schedule_type",
        "schedule_conf",
        "misfire_strategy",
        "executor_route_strategy",
        "executor_handler",
        "executor_param",
        "executor_block_strategy",
        "executor_timeout",
        "executor_fail_retry_count",
        "glue_type",
        "glue_source",
        "glue_remark",
        "glue_updatetime",
        "child_jobid",
        "trigger_status",
        "trigger_last_time",
        "trigger_next_time",
    ],
    &[
        "id",
        "job_group",
        "job_cron",
        "job_desc",
        "add_time",
        "update_time",
        "author",
        "alarm_email",
        "executor_route_strategy",
        "executor_handler",
        "executor_param",
        "executor_block_strategy",
        "executor_timeout",
        "executor_fail_retry_count",
        "glue_type",
        "glue_source",
        "glue_remark",
        "glue_updatetime",
        "child_jobid",
        "trigger_status",
        "trigger_last_time",
        "trigger_next_time",
    ],
];

const JOB_GROUP: [&[&str]; 2] = [
    &[
        "id",
        "app_name",
        "title",
        "address_type",
        "address_list",
        "update_time",
    ],
    &[
        "id",
        "app_name",
        "title",
        "order",
        "address_type",
        "address_list",
    ],
];

fn is_job_info(table: &str) -> bool {
    table == "xxl_job_info" || table.ends_with("xxl_job_qrtz_trigger_info")
}

fn is_job_group(table: &str) -> bool {
    table == "xxl_job_group" || table.ends_with("xxl_job_qrtz_trigger_group")
}

pub(crate) fn import_xxl(
    file: &str,
    bytes: &[u8],
    asked: &Asked,
    names: &mut Names,
) -> Result<Account, Undecided> {
    let mut account = Account::of(file, bytes);
    let wanted = |table: &str| is_job_info(table) || is_job_group(table);
    let mut dump = Dump::new(bytes, true, &wanted);
    let mut jobs: Vec<Row> = Vec::new();
    let mut groups: BTreeMap<String, String> = BTreeMap::new();
    let mut is_of_xxl = false;
    for piece in dump.by_ref() {
        let (line, through) = (piece.line, piece.through);
        is_of_xxl |= matches!(&piece.what, What::Create { table } | What::Rows { table, .. } if is_job_info(table));
        match piece.what {
            What::Rows { table, rows } if is_job_info(&table) => {
                account.push(Entry::new(Kind::Frame, line, through, "INSERT"));
                jobs.extend(rows);
            }
            What::Rows { table, rows } => {
                account.push(
                    Entry::new(Kind::NotCarriedOver, line, through, &table)
                        .because("an executor: its hosts are Matins's agents", ""),
                );
                for row in rows {
                    let columns = row.named(&JOB_GROUP).unwrap_or_default();
                    if let (Some(id), Some(name)) =
                        (text(&columns, "id"), text(&columns, "app_name"))
                    {
                        groups.insert(id.to_owned(), name.to_owned());
                    }
                }
            }
            what => account.push_piece(line, through, what, history),
        }
        if account.is_overfull() {
            return Ok(account);
        }
    }
    if !is_of_xxl && account.bad().next().is_none() {
        account.refuse_whole(
            "there is no table xxl_job_info in it",
            "dump it: `mysqldump xxl_job xxl_job_info xxl_job_group`",
        );
        return Ok(account);
    }
    if dump.is_full() {
        account.refuse_whole(
            format!("it has more than {ROWS_MAX} jobs"),
            "dump the jobs in several files",
        );
        return Ok(account);
    }
    let ids: BTreeMap<String, String> = jobs
        .iter()
        .filter_map(|row| {
            let columns = row.named(&JOB_INFO)?;
            Some((text(&columns, "id")?.to_owned(), name_of(&columns)))
        })
        .collect();
    let reader = Reader {
        file,
        asked,
        groups,
        ids,
    };
    for row in &jobs {
        reader.read(row, names, &mut account)?;
    }
    account.settle();
    Ok(account)
}

/// Why rows of another table are left behind.
fn history(table: &str) -> String {
    match table {
        "xxl_job_log" | "xxl_job_log_report" => "history of runs".to_owned(),
        "xxl_job_logglue" => "earlier texts of scripts".to_owned(),
        "xxl_job_registry" => "executors that were alive".to_owned(),
        "xxl_job_user" => "users of xxl-job".to_owned(),
        "xxl_job_lock" => "a lock of xxl-job".to_owned(),
        table => format!("`{table}` holds no jobs"),
    }
}

/// What the job is called: its handler, or what describes it, and its id, which never changes.
fn name_of(columns: &Columns) -> String {
    let id = text(columns, "id").unwrap_or_default();
    let word = text(columns, "executor_handler")
        .map(|handler| slug(handler, 40))
        .filter(|word| !word.is_empty())
        .or_else(|| text(columns, "job_desc").map(|desc| slug(desc, 40)))
        .unwrap_or_default();
    let is_number = !id.is_empty() && id.len() <= 18 && id.bytes().all(|b| b.is_ascii_digit());
    match (word.as_str(), is_number) {
        ("", true) => format!("job-{id}"),
        (word, true) => format!("{word}-{id}"),
        (word, false) => with_digest(word, &[id, &format!("{columns:?}")]),
    }
}

struct Reader<'a> {
    file: &'a str,
    asked: &'a Asked,
    /// Names of executors by their ids.
    groups: BTreeMap<String, String>,
    /// Names of jobs by their ids.
    ids: BTreeMap<String, String>,
}

impl Reader<'_> {
    fn read(&self, row: &Row, names: &mut Names, account: &mut Account) -> Result<(), Undecided> {
        let Some(columns) = row.named(&JOB_INFO) else {
            account.push_nameless(
                row,
                "a row of xxl_job_info",
                "dump with `mysqldump --complete-insert`, or with the CREATE TABLE before it",
            );
            return Ok(());
        };
        let shown = format!(
            "{} {}",
            text(&columns, "id").unwrap_or("?"),
            text(&columns, "job_desc").unwrap_or("")
        );
        let entry = |kind| {
            Entry::new(kind, row.line, row.through, &shown)
                .reading("id", text(&columns, "id"))
                .reading("schedule_type", kind_of(&columns))
                .reading("schedule_conf", conf_of(&columns))
                .reading("misfire_strategy", text(&columns, "misfire_strategy"))
                .reading(
                    "executor_route_strategy",
                    text(&columns, "executor_route_strategy"),
                )
                .reading(
                    "executor_block_strategy",
                    text(&columns, "executor_block_strategy"),
                )
                .reading("trigger_status", text(&columns, "trigger_status"))
        };
        match self.draft(row, &columns, names) {
            Ok(draft) => account.push_job(entry(Kind::Job), draft),
            Err(misses) => account.push_missed(entry, misses)?,
        }
        Ok(())
    }

    fn draft(&self, row: &Row, columns: &Columns, names: &mut Names) -> Result<Draft, Misses> {
        let get = |name| text(columns, name);
        let (cron, dialect) = schedule_of(columns)?;
        let Some(timezone) = &self.asked.timezone else {
            return Err(Misses::Undecided(Undecided::timezone(
                self.file,
                row.line,
                "xxl-job keeps no zone: its hours are of the zone of the scheduler's JVM",
            )));
        };
        let mut decide = Vec::new();
        let cron = judged(&cron, dialect, timezone, &mut decide)?;
        let (exec, exec_remark) = self.exec(columns, timezone, &mut decide);
        self.note_what_stays(columns, &mut decide);
        let namespace = self.asked.namespace.as_deref().unwrap_or("xxl");
        let desc = get("job_desc").unwrap_or("");
        let number = |name| {
            get(name)
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let author = get("author").map(|who| Said::new(cut(who, 60), "author in xxl-job"));
        let mail = get("alarm_email").map(|to| Said::new(cut(to, 60), "alarm_email in xxl-job"));
        Ok(Draft {
            name: names.take(namespace, &name_of(columns)),
            source: format!("xxl {}", self.file),
            line: row.line,
            original: format!(
                "xxl_job_info {}: {desc}",
                get("id").unwrap_or("without an id")
            ),
            purpose: match desc {
                "" => "Imported from xxl-job".to_owned(),
                desc => cut(desc, 400),
            },
            owner: self.asked.owner(author.or(mail)),
            cron,
            timezone: Said::new(timezone, "--timezone: of the scheduler's JVM"),
            dialect,
            misfire: match get("misfire_strategy") {
                Some("FIRE_ONCE_NOW") => {
                    Said::new("{ policy: run_now, after: 60s }", "FIRE_ONCE_NOW")
                }
                Some(strategy) => Said::new("{ policy: skip, after: 60s }", strategy),
                None => Said::new("{ policy: skip, after: 60s }", "as before 2.3: dropped"),
            },
            overlap: match get("executor_block_strategy") {
                Some("DISCARD_LATER") => Said::new("forbid", "DISCARD_LATER"),
                Some("COVER_EARLY") => Said::new("replace", "COVER_EARLY"),
                Some(strategy) => Said::new("queue", strategy),
                None => Said::new("queue", "as SERIAL_EXECUTION, the first choice of xxl-job"),
            },
            expected_duration: expected_duration_unsaid(),
            timeout: match number("executor_timeout") {
                0 => timeout_unsaid(),
                seconds => Said::new(format!("{}s", seconds.min(SECONDS_MAX)), "executor_timeout"),
            },
            retry: match number("executor_fail_retry_count") {
                0 => Said::new("{ at_most: 0 }", "executor_fail_retry_count: 0"),
                n => Said::new(
                    format!("{{ at_most: {}, backoff: [1s] }}", n.min(RETRIES_MAX)),
                    format!(
                        "executor_fail_retry_count: {n}{}",
                        if n > RETRIES_MAX {
                            "; 5 is the most here"
                        } else {
                            ""
                        }
                    ),
                ),
            },
            exec,
            exec_remark,
            user_remark: user_unsaid(),
            was_off: get("trigger_status").is_some_and(|status| status != "1"),
            decide,
            ..Draft::default()
        })
    }

    /// What the executor would have done.
    fn exec(
        &self,
        columns: &Columns,
        timezone: &str,
        decide: &mut Vec<String>,
    ) -> (Vec<String>, String) {
        let get = |name| text(columns, name);
        let kind = get("glue_type").unwrap_or("BEAN");
        let param = get("executor_param").unwrap_or_default();
        // A script is given its parameter, its shard and how many there are.
        let script = get("glue_source").map(|source| source.replace("\r\n", "\n"));
        let program: Option<&[&str]> = match kind {
            "GLUE_SHELL" => Some(&["/bin/bash", "-c"]),
            "GLUE_PYTHON" => Some(&["python3", "-c"]),
            "GLUE_NODEJS" => Some(&["node", "-e"]),
            _ => None,
        };
        if let (Some(program), Some(script)) = (program, script) {
            let mut exec = vec!["/usr/bin/env".to_owned(), format!("TZ={timezone}")];
            exec.extend(program.iter().map(|&word| word.to_owned()));
            exec.push(literal(script.trim()));
            // `bash -c` and `node -e` differ in whether a name comes first.
            if kind == "GLUE_SHELL" {
                exec.push("script".to_owned());
            }
            exec.extend([literal(param), "{shard}".to_owned(), "{shards}".to_owned()]);
            decide.push("The script stood in xxl-job's database: put it into a file of its own, under version control.".to_owned());
            return (
                exec,
                "the script, its parameter, shard and shards".to_owned(),
            );
        }
        let (place, what) = match kind {
            "BEAN" => (
                "/PUT-HERE/what-runs-the-handler",
                "a method of an executor, by its handler",
            ),
            _ => ("/PUT-HERE/what-runs-the-script", "a script of the executor"),
        };
        let handler = get("executor_handler").unwrap_or(kind);
        let executor = get("job_group").and_then(|id| self.groups.get(id));
        decide.push(format!(
            "It called `{handler}` of the executor {}: put in its place a program that does the work.",
            executor.map_or("of the same group", String::as_str)
        ));
        let mut exec = vec![place.to_owned(), literal(handler)];
        if !param.is_empty() {
            exec.push(literal(param));
        }
        (exec, what.to_owned())
    }

    fn note_what_stays(&self, columns: &Columns, decide: &mut Vec<String>) {
        let get = |name| text(columns, name);
        match get("executor_route_strategy") {
            Some("SHARDING_BROADCAST") => decide.push(
                "It ran on every executor at once (SHARDING_BROADCAST): set `shards` to how many \
                 pieces it is cut into, and hand it {shard} and {shards}."
                    .to_owned(),
            ),
            Some(route) => decide.push(format!(
                "The route {route} is not carried over: Matins chooses among the hosts that may run it."
            )),
            None => {}
        }
        if let Some(children) = get("child_jobid") {
            let children: Vec<&str> = children
                .split(',')
                .map(|id| self.ids.get(id.trim()).map_or(id.trim(), String::as_str))
                .collect();
            decide.push(format!(
                "After success it started {}: write `after` into those.",
                children.join(", ")
            ));
        }
        if let Some(mail) = get("alarm_email") {
            decide.push(format!("Failures were mailed to {}.", cut(mail, 200)));
        }
    }
}

/// The expression, and how it is read.
fn schedule_of(columns: &Columns) -> Result<(String, Dialect), Misses> {
    let conf = conf_of(columns).unwrap_or_default();
    match kind_of(columns) {
        "CRON" => Ok((conf.to_owned(), Dialect::Quartz)),
        "FIX_RATE" => Ok((format!("@every {conf}s"), Dialect::Vixie)),
        "NONE" => Err(Misses::not_carried_over(
            "it has no schedule and is only started by hand or by another job",
            "a manifest needs an hour; keep it as a script, or give it one",
        )),
        other => Err(Misses::not_carried_over(
            format!("its schedule type is `{other}`, which no manifest can say"),
            WRITE_HOURS,
        )),
    }
}

fn kind_of(columns: &Columns) -> &str {
    match text(columns, "schedule_type") {
        Some(kind) => kind,
        // Before 2.3 there was only this.
        None if text(columns, "job_cron").is_some() => "CRON",
        None => "NONE",
    }
}

fn conf_of(columns: &Columns) -> Option<&str> {
    text(columns, "schedule_conf").or_else(|| text(columns, "job_cron"))
}
