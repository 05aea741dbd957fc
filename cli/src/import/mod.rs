//! `matins import`: manifests from what other schedulers keep, and an account of every line.
//!
//! Nothing is guessed and nothing is dropped unseen. A source is read into an [`Account`] whose
//! entries cover it from the first line to the last; each job in it is a [`Draft`], which is
//! written as a manifest that begins paused and is read back by the parser of manifests before it
//! counts. What no manifest can say is reported with the reason, what cannot be read is bad.
//!
//! A file for each source, and in each the same three steps: `parse_*` reads text, the importer
//! makes drafts of it, and [`plan`] and [`write`] put them down without overwriting what a person
//! wrote.

mod account;
mod crontab;
mod draft;
mod k8s;
mod names;
mod plan;
mod quartz;
mod report;
pub(crate) mod source;
mod sql;
mod tree;
mod write;
mod xxl;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use jobs::{Dialect, Schedule, ScheduleError, ScheduleSpec, parse_manifests};
use protocol::JobName;

use self::account::{Account, Kind};
use self::draft::{Draft, Said};
use self::names::Names;
use self::plan::{Planned, Step};
use crate::args::{Import, ImportFrom, UserField};
use crate::failure::Failure;
use crate::output::{print, talk};
use crate::text::{LINE_WIDTH, count, wrap_prose};

/// Longest source read. A dump holds years of history beside its jobs, the others hold jobs alone.
const DUMP_BYTES_MAX: usize = 512 << 20;
const OBJECTS_BYTES_MAX: usize = 16 << 20;
const CRONTAB_BYTES_MAX: usize = 1 << 20;

/// What the person said on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Zone of what names none itself; known to be one.
    pub(crate) timezone: Option<String>,
    /// `None` is: by evidence.
    pub(crate) user_field: Option<bool>,
    /// Whose crontab it is.
    pub(crate) user: Option<String>,
    pub(crate) owner: Option<String>,
    /// Of jobs of which the source names none; known to be one.
    pub(crate) namespace: Option<String>,
}

impl Asked {
    /// The owner that was asked for, else whom the source names, else a mark for a person.
    fn owner(&self, named: Option<Said>) -> Said {
        match (&self.owner, named) {
            (Some(owner), _) => Said::new(owner, ""),
            (None, Some(named)) => named,
            (None, None) => Said::new("unknown", "put the team that is asked"),
        }
    }
}

/// Why something of a source is no job of Matins.
#[derive(Debug)]
pub(crate) enum Misses {
    Told {
        kind: Kind,
        why: String,
        remedy: String,
    },
    Undecided(Undecided),
}

/// What to do with a job whose hours are no expression.
const WRITE_HOURS: &str = "write a manifest with the hours you want";

impl Misses {
    fn bad(why: impl Into<String>, remedy: impl Into<String>) -> Misses {
        Misses::told(Kind::Bad, why, remedy)
    }

    fn not_carried_over(why: impl Into<String>, remedy: impl Into<String>) -> Misses {
        Misses::told(Kind::NotCarriedOver, why, remedy)
    }

    fn told(kind: Kind, why: impl Into<String>, remedy: impl Into<String>) -> Misses {
        Misses::Told {
            kind,
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

/// What the source does not say and nobody may guess: the person must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undecided {
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl Undecided {
    fn timezone(file: &str, line: u32, why: &str) -> Undecided {
        Undecided {
            what: format!("finding the time zone of {file}:{line}"),
            why: why.to_owned(),
            remedy: "say it with `--timezone`, for example `--timezone Asia/Shanghai`".to_owned(),
        }
    }
}

/// Judges an expression as the manifest's reader will.
fn judge_schedule(cron: &str, timezone: &str, dialect: Dialect) -> Result<(), Misses> {
    let spec = ScheduleSpec {
        cron: cron.to_owned(),
        timezone: timezone.to_owned(),
        dialect,
    };
    match Schedule::parse(&spec) {
        Ok(_) => Ok(()),
        Err(error) => Err(Misses::bad(
            format!("{} `{}` {}", error.field, error.text, error.reason),
            error.remedies(|name, value| format!("{name}: {value}")),
        )),
    }
}

/// Any schedule of this zone, for what is asked of the zone alone.
fn some_schedule_in(timezone: &str) -> Result<Schedule, ScheduleError> {
    Schedule::parse(&ScheduleSpec {
        cron: "@daily".to_owned(),
        timezone: timezone.to_owned(),
        dialect: Dialect::Vixie,
    })
}

pub(crate) fn import(options: &Import) -> Result<(), Failure> {
    let asked = judge(options)?;
    let mut names = Names::default();
    let mut accounts = Vec::new();
    for path in &options.files {
        let mut account = read(options.from, path, &asked, &mut names)?;
        accept(&mut account);
        accounts.push(account);
    }
    let drafts: Vec<&Draft> = accounts
        .iter()
        .flat_map(|account| &account.drafts)
        .collect();
    let found = write::read_existing(&options.out)?;
    let planned = plan::plan(&drafts, &found, options.force);
    refuse_to_overwrite(&options.out, &planned)?;
    let report = report::Report::new(options.from.name(), &accounts, &planned, &found);
    write::execute(&options.out, &planned, &report, options.force)?;
    print(&report::show(&accounts))?;
    tell(&options.out, &report);
    let bad: usize = accounts.iter().map(|account| account.bad().count()).sum();
    if bad > 0 {
        return Err(Failure::failed(
            format!("importing {}", subject(&accounts)),
            format!(
                "{bad} {} could not be read, said above; no manifest is of {}",
                if bad == 1 { "entry" } else { "entries" },
                if bad == 1 { "it" } else { "them" }
            ),
            "mend the source and import again: jobs that are right keep their names",
        ));
    }
    Ok(())
}

/// What the command line says, where all of it can be used.
fn judge(options: &Import) -> Result<Asked, Failure> {
    if let Some(zone) = &options.timezone {
        some_schedule_in(zone).map_err(|error| {
            Failure::bad_input(
                "reading --timezone",
                format!("`{}` {}", error.text, error.reason),
                error.remedies(|_, value| format!("--timezone {value}")),
            )
        })?;
    }
    if let Some(namespace) = &options.namespace {
        let name = format!("{namespace}/job");
        name.parse::<JobName>().map_err(|error| {
            Failure::bad_input(
                "reading --namespace",
                error.to_string(),
                "write one word, such as `finance`",
            )
        })?;
    }
    if options
        .files
        .iter()
        .filter(|file| file.as_os_str() == "-")
        .count()
        > 1
    {
        return Err(Failure::bad_input(
            "reading standard input",
            "`-` stands there more than once",
            "name it once",
        ));
    }
    Ok(Asked {
        timezone: options.timezone.clone(),
        user_field: match options.user_field {
            UserField::Yes => Some(true),
            UserField::No => Some(false),
            UserField::Detect => None,
        },
        user: options.user.clone(),
        owner: options.owner.clone(),
        namespace: options.namespace.clone(),
    })
}

fn read(
    from: ImportFrom,
    path: &Path,
    asked: &Asked,
    names: &mut Names,
) -> Result<Account, Failure> {
    let bytes_max = match from {
        ImportFrom::Xxl | ImportFrom::Quartz => DUMP_BYTES_MAX,
        ImportFrom::K8s => OBJECTS_BYTES_MAX,
        ImportFrom::Crontab => CRONTAB_BYTES_MAX,
    };
    let source = source::read_source(path, bytes_max).map_err(|error| {
        Failure::bad_input(
            format!("reading {}", path.display()),
            error.to_string(),
            "name a file that you may read, or `-` for standard input",
        )
    })?;
    if source.bytes.len() > bytes_max {
        return Err(Failure::bad_input(
            format!("reading {}", source.name),
            format!("it has more than {} MiB", bytes_max >> 20),
            match from {
                ImportFrom::Xxl | ImportFrom::Quartz => {
                    "dump only the tables that hold jobs: xxl_job_info and xxl_job_group, or \
                     QRTZ_JOB_DETAILS and QRTZ_*TRIGGERS"
                }
                ImportFrom::Crontab | ImportFrom::K8s => {
                    "split it, and see that it is the right file"
                }
            },
        ));
    }
    let (name, bytes) = (source.name.as_str(), source.bytes.as_slice());
    let account = match from {
        ImportFrom::Crontab => crontab::import_crontab(name, bytes, asked, names),
        ImportFrom::K8s => k8s::import_k8s(name, bytes, asked, names),
        ImportFrom::Xxl => xxl::import_xxl(name, bytes, asked, names),
        ImportFrom::Quartz => quartz::import_quartz(name, bytes, asked, names),
    };
    account.map_err(|undecided| Failure::bad_input(undecided.what, undecided.why, undecided.remedy))
}

/// Holds every draft against the parser of manifests. What it refuses is no job.
fn accept(account: &mut Account) {
    let refused: BTreeMap<String, (String, String)> = account
        .drafts
        .iter()
        .filter_map(|draft| {
            let problems = parse_manifests(&draft.name, draft.render()).err()?;
            let first = problems.first()?;
            let why = match first.field.as_str() {
                "" => first.what.clone(),
                field => format!("{field} {}", first.what),
            };
            Some((draft.name.clone(), (why, first.remedy.clone())))
        })
        .collect();
    account.refuse_jobs(&refused);
}

fn refuse_to_overwrite(out: &Path, planned: &[Planned]) -> Result<(), Failure> {
    let mut refused = 0;
    for file in planned {
        let why = match file.step {
            Step::Edited => "edited since it was imported, and its source says something else now",
            Step::Foreign => "not written by `matins import`",
            Step::New | Step::Updated | Step::Unchanged | Step::Kept => continue,
        };
        refused += 1;
        talk(&format!("{}:\n    {why}", out.join(&file.path).display()));
    }
    if refused == 0 {
        return Ok(());
    }
    Err(Failure::failed(
        format!("writing to {}", out.display()),
        format!(
            "{} would be overwritten, said above; nothing was written",
            count(refused, "file")
        ),
        "import into another directory and carry over what is new, or overwrite with `--force`",
    ))
}

fn subject(accounts: &[Account]) -> String {
    match accounts {
        [account] => account.file.clone(),
        accounts => count(accounts.len() as u64, "file"),
    }
}

/// What was done and what to do now.
fn tell(out: &Path, report: &report::Report) {
    let place = out.display();
    let say = |text: &str| talk(&wrap_prose(text, LINE_WIDTH).join("\n"));
    if report.manifests() == 0 {
        say(&format!(
            "no manifest was written; every line is accounted for in {place}/report.json"
        ));
    } else {
        say(&format!(
            "{} in {place} ({}); every line is accounted for in {place}/report.json",
            count(report.manifests() as u64, "manifest"),
            report.steps()
        ));
    }
    for path in report.left_over() {
        talk(&format!(
            "{place}/{path}:\n    its source has it no more: delete file and job, or see that \
             both may stay"
        ));
    }
    if report.manifests() > 0 {
        say(&format!(
            "all begin paused: look them through, `matins apply -f {place}`, then `matins resume \
             JOB`"
        ));
    }
}
