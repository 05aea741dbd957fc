//! From trees to manifests: which fields there are, which are demanded, and what each may hold.

use protocol::attempt::Limits;
use protocol::{DurationMs, JobName, lease};

use super::fields::{Section, duration, integer, size, text, truth, word};
use super::placeholder::Argument;
use super::problem::{Place, Problems};
use super::yaml::{Node, Value};
use super::{Manifest, Misfire, MisfirePolicy, Overlap};
use crate::schedule::{Dialect, Schedule, ScheduleSpec};
use crate::shown::shown;

const SECOND: DurationMs = DurationMs(1000);
const DAY: DurationMs = DurationMs(86_400_000);
const MONTH: DurationMs = DurationMs(31 * DAY.0);

const MISFIRE_AFTER_DEFAULT: DurationMs = DurationMs(60_000);
const SHARDS_MAX: u32 = 1024;
const RETRY_AT_MOST_MAX: u32 = 5;
const RETRY_AT_MOST_DEFAULT: u32 = 3;
const BACKOFF_DEFAULT: [DurationMs; 3] = [
    DurationMs(60_000),
    DurationMs(300_000),
    DurationMs(1_800_000),
];
const BACKOFF_STEPS_MAX: usize = 16;
const BACKOFF_MIN: DurationMs = DurationMs(100);

/// Below this no program starts; above it there is no machine.
const MEMORY_MIN_BYTES: u64 = 4 << 20;
const MEMORY_MAX_BYTES: u64 = 16 << 40;
const PIDS_MAX: u32 = 1_000_000;
/// The scale of cgroup v2, on which 100 is everybody's.
const CPU_WEIGHT_MAX: u32 = 10_000;
const USER_BYTES_MAX: usize = 32;

/// Longest command line with its placeholders filled, in bytes: a quarter of the frame in which
/// it travels, so that it fits however its characters are escaped.
const COMMAND_BYTES_MAX: usize = 16 * 1024;

const FIELDS: [&str; 16] = [
    "name",
    "renamed_from",
    "purpose",
    "owner",
    "repeatable",
    "schedule",
    "misfire",
    "overlap",
    "expected_duration",
    "timeout",
    "start_deadline",
    "shards",
    "retry",
    "takeover_after",
    "limits",
    "run",
];

/// Reads the documents of one file. The manifests are complete only where no problem was found.
pub(super) fn manifests(documents: &[Node], problems: &mut Problems) -> Vec<Manifest> {
    if documents.is_empty() {
        problems.push_if_none(
            Place { line: 1, column: 1 },
            "there is no manifest in this file",
            "write one, beginning with `name: namespace/name`",
        );
    }
    let mut manifests: Vec<Manifest> = Vec::new();
    for document in documents {
        let Some(manifest) = manifest(document, problems) else {
            continue;
        };
        if manifests.iter().any(|other| other.name == manifest.name) {
            problems.push(
                document.at,
                "name",
                format!(
                    "`{}` is the name of an earlier manifest of this file",
                    manifest.name
                ),
                "give each job a name of its own",
            );
        }
        manifests.push(manifest);
    }
    manifests
}

fn manifest(document: &Node, problems: &mut Problems) -> Option<Manifest> {
    let top = Section::read(document, "", &FIELDS, problems)?;
    // Everything is read before anything is missed, so that all problems come at once.
    let name = top
        .demand(
            "name",
            "write `name: namespace/name`, which is how people and other jobs refer to it",
            problems,
        )
        .and_then(|node| job_name(node, "name", problems));
    let renamed_from = match top.get("renamed_from") {
        Some(node) => job_name(node, "renamed_from", problems).map(Some),
        None => Some(None),
    };
    if let (Some(name), Some(Some(old)), Some(node)) =
        (&name, &renamed_from, top.get("renamed_from"))
        && name == old
    {
        problems.push(
            node.at,
            "renamed_from",
            "is the job's own name",
            "write the name it had before, or leave the field out",
        );
    }
    let purpose = top
        .demand("purpose", "write `purpose: <one sentence>`: whoever is called at night must know what the job is for", problems)
        .and_then(|node| text(node, "purpose", 2000, problems));
    let owner = top
        .demand(
            "owner",
            "write `owner: <team or person>`: somebody must answer when a run needs a person",
            problems,
        )
        .and_then(|node| text(node, "owner", 200, problems));
    let repeatable = repeatable(&top, problems);
    let schedule = schedule(&top, problems);
    let misfire = misfire(&top, problems);
    let overlap = overlap(&top, problems);
    let expected_duration = top
        .demand("expected_duration", "write for example `expected_duration: 40m`: without it nobody can tell a slow run from a stuck one", problems)
        .and_then(|node| duration(node, "expected_duration", SECOND, MONTH, problems));
    let timeout = top
        .demand("timeout", "write for example `timeout: 15m`, for one attempt of one shard: without it a hung attempt holds its shard for ever", problems)
        .and_then(|node| duration(node, "timeout", SECOND, MONTH, problems));
    let start_deadline = match top.get("start_deadline") {
        Some(node) => duration(node, "start_deadline", SECOND, MONTH, problems).map(Some),
        None => Some(None),
    };
    let shards = match top.get("shards") {
        Some(node) => integer(node, "shards", 1, SHARDS_MAX, problems),
        None => Some(1),
    };
    let retry = retry(&top, problems);
    let takeover_after = match top.get("takeover_after") {
        Some(node) => duration(
            node,
            "takeover_after",
            lease::TAKEOVER_MIN,
            lease::TAKEOVER_MAX,
            problems,
        ),
        None => Some(lease::TAKEOVER_DEFAULT),
    };
    let limits = limits(&top, problems);
    let run = run(&top, problems);
    let (safe, how) = repeatable?;
    let (retry_at_most, backoff) = retry?;
    let (exec, user) = run?;
    Some(Manifest {
        name: name?,
        renamed_from: renamed_from?,
        purpose: purpose?,
        owner: owner?,
        safe,
        how,
        schedule: schedule?,
        misfire: misfire?,
        overlap: overlap?,
        expected_duration: expected_duration?,
        timeout: timeout?,
        start_deadline: start_deadline?,
        shards: shards?,
        retry_at_most,
        backoff,
        takeover_after: takeover_after?,
        limits: limits?,
        user,
        exec,
    })
}

fn job_name(node: &Node, field: &str, problems: &mut Problems) -> Option<JobName> {
    use protocol::names::NameError;
    const PART: &str =
        "use 1 to 63 of a-z, 0-9, `-`, `_`, `.`, beginning and ending with a letter or digit";
    let name = text(node, field, 1000, problems)?;
    let (what, remedy) = match name.parse() {
        Ok(name) => return Some(name),
        Err(NameError::NoNamespace(name)) => (
            format!("`{}` has no namespace", shown(&name)),
            format!(
                "write it as `namespace/name`, for example `finance/{}`",
                shown(&name)
            ),
        ),
        Err(NameError::TooManyParts(name)) => (
            format!("`{}` has more than one `/`", shown(&name)),
            "write it as `namespace/name`".to_owned(),
        ),
        Err(NameError::Part { part }) => (
            format!("`{}` is not a valid part of a name", shown(&part)),
            PART.to_owned(),
        ),
        Err(_) => (
            format!("`{}` is not a job's name", shown(&name)),
            PART.to_owned(),
        ),
    };
    problems.push(node.at, field, what, remedy);
    None
}

fn repeatable(top: &Section, problems: &mut Problems) -> Option<(bool, Option<String>)> {
    let node = top.demand(
        "repeatable",
        "write `repeatable: { safe: true, how: \"...\" }` or `{ safe: false }`: a run whose end nobody knows is run again only where that does no harm",
        problems,
    )?;
    let section = Section::read(node, "repeatable", &["safe", "how"], problems)?;
    let safe = section
        .demand(
            "safe",
            "write `safe: true` where a second run does no harm, else `safe: false`",
            problems,
        )
        .and_then(|node| truth(node, "repeatable.safe", problems));
    let how = match section.get("how") {
        Some(node) => text(node, "repeatable.how", 2000, problems).map(Some),
        None if safe == Some(true) => section
            .demand("how", "write why a second run does no harm, for example `how: \"full recompute, replaces the day\"`", problems)
            .map(|_| None),
        None => Some(None),
    };
    Some((safe?, how?))
}

fn schedule(top: &Section, problems: &mut Problems) -> Option<Schedule> {
    let node = top.demand(
        "schedule",
        "write `schedule: { cron: \"30 23 * * *\", timezone: Asia/Shanghai }`",
        problems,
    )?;
    let section = Section::read(node, "schedule", &["cron", "timezone", "dialect"], problems)?;
    let cron = section.demand(
        "cron",
        "write five fields in quotes, for example `cron: \"30 23 * * *\"`, or `cron: \"@every 1h30m\"`",
        problems,
    );
    let timezone = section.demand(
        "timezone",
        "write for example `timezone: Asia/Shanghai`: the same hour is another instant in another zone, and machines' own zones differ",
        problems,
    );
    let cron_text = cron.and_then(|node| text(node, "schedule.cron", 2000, problems));
    let timezone_text = timezone.and_then(|node| text(node, "schedule.timezone", 200, problems));
    let dialect = match section.get("dialect") {
        Some(node) => word(
            node,
            "schedule.dialect",
            &Dialect::ALL.map(Dialect::name),
            problems,
        )
        .and_then(|name| name.parse().ok()),
        None => Some(Dialect::default()),
    };
    // Where one part is missing, the others are judged beside a harmless one.
    let complete = cron_text.is_some() && timezone_text.is_some() && dialect.is_some();
    let cron_text = cron_text.filter(|_| dialect.is_some());
    let spec = ScheduleSpec {
        cron: cron_text.unwrap_or_else(|| "@daily".to_owned()),
        timezone: timezone_text.unwrap_or_else(|| "Etc/UTC".to_owned()),
        dialect: dialect.unwrap_or_default(),
    };
    match Schedule::parse_whole(&spec) {
        Ok(schedule) => complete.then_some(schedule),
        Err(errors) => {
            for error in errors {
                let (field, at) = match error.field {
                    "timezone" => ("schedule.timezone", timezone),
                    _ => ("schedule.cron", cron),
                };
                let part = match error.field {
                    "timezone" | "cron" => String::new(),
                    part => format!("{part} "),
                };
                problems.push(
                    at.unwrap_or(node).at,
                    field,
                    format!("{part}`{}` {}", error.text, error.reason),
                    error.remedy,
                );
            }
            None
        }
    }
}

fn misfire(top: &Section, problems: &mut Problems) -> Option<Misfire> {
    const POLICIES: &str = "write `misfire: { policy: run_now }`, `{ policy: skip }` or `{ within: 2h }`: only you know whether a late run still helps or does harm";
    let node = top.demand("misfire", POLICIES, problems)?;
    let section = Section::read(node, "misfire", &["policy", "within", "after"], problems)?;
    let after = match section.get("after") {
        Some(node) => duration(node, "misfire.after", SECOND, DAY, problems),
        None => Some(MISFIRE_AFTER_DEFAULT),
    };
    let within = match section.get("within") {
        Some(node) => duration(node, "misfire.within", SECOND, MONTH, problems).map(Some),
        None => Some(None),
    };
    let policy = match section.get("policy") {
        Some(node) => word(
            node,
            "misfire.policy",
            &["run_now", "skip", "within"],
            problems,
        ),
        None if section.get("within").is_some() => Some("within"),
        None => section.demand("policy", POLICIES, problems).map(|_| ""),
    };
    let policy = match (policy?, section.get("within")) {
        ("within", Some(node)) => {
            let within = within?;
            if let (Some(within), Some(after)) = (within, after)
                && within < after
            {
                problems.push(
                    node.at,
                    "misfire.within",
                    format!("is shorter than `after`, {after}, below which every fire runs"),
                    "write a longer `within` or a shorter `after`",
                );
            }
            MisfirePolicy::Within(within?)
        }
        ("within", None) => {
            section.demand(
                "within",
                "write how late is not too late, for example `within: 2h`",
                problems,
            )?;
            return None;
        }
        (policy, Some(node)) => {
            problems.push(
                node.at,
                "misfire.within",
                format!("does not go with `policy: {policy}`"),
                "leave it out, or write `policy: within`",
            );
            return None;
        }
        ("skip", None) => MisfirePolicy::Skip,
        (_, None) => MisfirePolicy::RunNow,
    };
    Some(Misfire {
        policy,
        after: after?,
    })
}

fn overlap(top: &Section, problems: &mut Problems) -> Option<Overlap> {
    let node = top.demand(
        "overlap",
        "write `overlap: forbid` (a fire during a run is skipped) or `overlap: queue` (it waits)",
        problems,
    )?;
    match word(
        node,
        "overlap",
        &["forbid", "queue", "allow", "replace"],
        problems,
    )? {
        "forbid" => Some(Overlap::Forbid),
        "queue" => Some(Overlap::Queue),
        later => {
            problems.push(
                node.at,
                "overlap",
                format!("`{later}` is not supported yet"),
                "write `forbid` or `queue`",
            );
            None
        }
    }
}

fn retry(top: &Section, problems: &mut Problems) -> Option<(u32, Vec<DurationMs>)> {
    let Some(node) = top.get("retry") else {
        return Some((RETRY_AT_MOST_DEFAULT, BACKOFF_DEFAULT.to_vec()));
    };
    let section = Section::read(node, "retry", &["at_most", "backoff"], problems)?;
    let at_most = match section.get("at_most") {
        Some(node) => integer(node, "retry.at_most", 0, RETRY_AT_MOST_MAX, problems),
        None => Some(RETRY_AT_MOST_DEFAULT),
    };
    let backoff = match section.get("backoff") {
        Some(node) => backoff(node, problems),
        None => Some(BACKOFF_DEFAULT.to_vec()),
    };
    Some((at_most?, backoff?))
}

fn backoff(node: &Node, problems: &mut Problems) -> Option<Vec<DurationMs>> {
    let items = match &node.value {
        Value::List(items) if (1..=BACKOFF_STEPS_MAX).contains(&items.len()) => items,
        Value::Refused => return None,
        _ => {
            problems.push(
                node.at,
                "retry.backoff",
                format!("is not a list of 1 to {BACKOFF_STEPS_MAX} durations"),
                "write for example `backoff: [1m, 5m, 30m]`; the last is repeated",
            );
            return None;
        }
    };
    let steps: Vec<Option<DurationMs>> = items
        .iter()
        .enumerate()
        .map(|(i, item)| {
            duration(
                item,
                &format!("retry.backoff[{i}]"),
                BACKOFF_MIN,
                DAY,
                problems,
            )
        })
        .collect();
    steps.into_iter().collect()
}

fn limits(top: &Section, problems: &mut Problems) -> Option<Limits> {
    let Some(node) = top.get("limits") else {
        return Some(Limits::default());
    };
    let section = Section::read(node, "limits", &["memory", "pids", "cpu_weight"], problems)?;
    let memory_bytes = match section.get("memory") {
        Some(node) => {
            let (low, high) = (MEMORY_MIN_BYTES, MEMORY_MAX_BYTES);
            size(node, "limits.memory", low, high, problems).map(Some)
        }
        None => Some(None),
    };
    let pids = match section.get("pids") {
        Some(node) => integer(node, "limits.pids", 1, PIDS_MAX, problems).map(Some),
        None => Some(None),
    };
    let cpu_weight = match section.get("cpu_weight") {
        Some(node) => integer(node, "limits.cpu_weight", 1, CPU_WEIGHT_MAX, problems)
            .map(|weight| u16::try_from(weight).ok()),
        None => Some(None),
    };
    Some(Limits {
        memory_bytes: memory_bytes?,
        pids: pids?,
        cpu_weight: cpu_weight?,
    })
}

fn run(top: &Section, problems: &mut Problems) -> Option<(Vec<Argument>, Option<String>)> {
    const FORM: &str = "write `run: { exec: [\"/opt/jobs/report\", \"--date\", \"{fire_date}\"] }`: the program and its arguments, never through a shell";
    let node = top.demand("run", FORM, problems)?;
    let section = Section::read(node, "run", &["exec", "user"], problems)?;
    let exec = section
        .demand("exec", FORM, problems)
        .and_then(|node| exec(node, FORM, problems));
    let user = match section.get("user") {
        Some(node) => user(node, problems).map(Some),
        None => Some(None),
    };
    Some((exec?, user?))
}

/// A user's name as Linux distributions allow it.
fn user(node: &Node, problems: &mut Problems) -> Option<String> {
    let name = super::fields::any_text(node, "run.user", problems)?;
    let plain = name.strip_suffix('$').unwrap_or(name);
    let starts = plain.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let goes_on = plain
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if starts && goes_on && name.len() <= USER_BYTES_MAX {
        return Some(name.to_owned());
    }
    problems.push(
        node.at,
        "run.user",
        format!("`{}` is not the name of a user", shown(name)),
        "write the name, not the number, of a user of the hosts: a-z, 0-9, `_` and `-`, beginning with a letter or `_`",
    );
    None
}

fn exec(node: &Node, form: &str, problems: &mut Problems) -> Option<Vec<Argument>> {
    let items = match &node.value {
        Value::List(items) if !items.is_empty() => items,
        Value::Refused => return None,
        _ => {
            problems.push(
                node.at,
                "run.exec",
                "is not a list of texts with the program first",
                form,
            );
            return None;
        }
    };
    let arguments: Vec<Option<Argument>> = items
        .iter()
        .enumerate()
        .map(|(i, item)| argument(item, i, problems))
        .collect();
    let arguments: Vec<Argument> = arguments.into_iter().collect::<Option<_>>()?;
    // A byte more each, for the quotes, commas and terminators it is sent and started with.
    let bytes: usize = arguments
        .iter()
        .map(|argument| argument.filled_bytes_max() + 1)
        .sum();
    if bytes > COMMAND_BYTES_MAX {
        problems.push(
            node.at,
            "run.exec",
            format!(
                "may have {bytes} bytes with its placeholders filled, more than {COMMAND_BYTES_MAX}"
            ),
            "put long input into a file and name the file",
        );
        return None;
    }
    Some(arguments)
}

fn argument(item: &Node, i: usize, problems: &mut Problems) -> Option<Argument> {
    let field = format!("run.exec[{i}]");
    let text = super::fields::any_text(item, &field, problems)?;
    if i == 0 && text.is_empty() {
        problems.push(item.at, &field, "the program is empty", "write its path");
        return None;
    }
    if text
        .chars()
        .any(|c| c.is_control() && c != '\n' && c != '\t')
    {
        problems.push(
            item.at,
            &field,
            format!("`{}` has a control character", shown(text)),
            "leave it out: a terminal or a log may obey it, and NUL ends an argument",
        );
        return None;
    }
    match Argument::parse(text) {
        Ok(argument) => Some(argument),
        Err(refusal) => {
            let what = format!("`{}` {}", shown(text), refusal.what);
            problems.push(item.at, &field, what, refusal.remedy);
            None
        }
    }
}

/// A stored manifest as the tree that its YAML would give; it stands at no place.
pub(super) fn node_of_json(json: serde_json::Value) -> Node {
    use serde_json::Value as Json;
    let value = match json {
        Json::Null => Value::Plain("null".to_owned()),
        Json::Bool(truth) => Value::Plain(truth.to_string()),
        Json::Number(number) => Value::Plain(number.to_string()),
        Json::String(text) => Value::Quoted(text),
        Json::Array(items) => Value::List(items.into_iter().map(node_of_json).collect()),
        Json::Object(fields) => Value::Map(
            fields
                .into_iter()
                .map(|(name, value)| {
                    let key = super::yaml::Key {
                        at: Place::default(),
                        name: Some(name),
                    };
                    (key, node_of_json(value))
                })
                .collect(),
        ),
    };
    Node {
        at: Place::default(),
        value,
    }
}
