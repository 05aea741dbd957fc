//! Fields that are not ours: of Matins to come, and of what people come from.
//!
//! Somebody who writes `concurrencyPolicy` knows exactly what he wants and only lacks our word for
//! it. So the words of crontabs, Kubernetes, Airflow, systemd and their like are answered with ours.

use super::form::{Form, MANIFEST};

/// Where a name that the form does not have comes from, and what to do about it.
pub(super) struct Answer {
    /// Continues a sentence that begins with the field.
    pub(super) what: &'static str,
    pub(super) remedy: String,
    /// Fields, with a blank between, that are not missing where this one is.
    pub(super) stands_for: &'static str,
}

/// Said of a field that nobody knows.
pub(super) const UNKNOWN: &str = "there is no such field";
const LATER: &str = "is not acted on by this version of Matins, which therefore refuses it";

/// Fields that the form of a manifest provides for and that nothing acts on yet, with what stands
/// today. The path of the mapping that they belong to, and their name.
const LATER_FIELDS: &[(&str, &str, &str)] = &[
    (
        "",
        "catch_up",
        "of the fires that an outage left out, `misfire` runs the newest or none",
    ),
    (
        "",
        "previous",
        "`overlap: queue` waits for the run before to end, however it ends",
    ),
    (
        "",
        "after",
        "give this job an hour by which the other has ended",
    ),
    (
        "",
        "needs",
        "every host takes every job; `limits` bounds what an attempt uses",
    ),
    ("", "priority", "what has been due longest goes first"),
    ("", "params", "write the values into `run.exec`"),
    ("", "alert", "what needs a person is in `matins get alerts`"),
    ("repeatable", "on_failure", "write it into `how`"),
    (
        "limits",
        "io_weight",
        "memory, pids and cpu_weight can be limited",
    ),
];

/// Words that the form provides for and that nothing acts on yet, and their fields.
const LATER_WORDS: &[(&str, &str)] = &[("overlap", "allow"), ("overlap", "replace")];

/// Words of other programs, in lower case without `_` and `-` and with a blank between, the
/// demanded fields that they stand for, and what to write here instead.
const FOREIGN: &[(&str, &str, &str)] = &[
    (
        "apiversion kind metadata spec jobtemplate template",
        "",
        "leave it out: this is no Kubernetes object; name, schedule, run and the other fields stand at the top of the document",
    ),
    (
        "jobs job dags periodic task tasks steps stages",
        "",
        "leave it out: each job is a document of its own, its fields at the top, with a line `---` between two jobs",
    ),
    (
        "id jobname jobid dagid taskid displayname title label",
        "name",
        "write `name: namespace/name`",
    ),
    (
        "description desc comment doc docmd summary about notes",
        "purpose",
        "write `purpose: <one sentence>`",
    ),
    (
        "owners team contact email emails mailto maintainer responsible",
        "owner",
        "write `owner: <team or person>`",
    ),
    (
        "idempotent rerunnable restartable repeat",
        "repeatable safe",
        "write `repeatable: { safe: true, how: \"...\" }` or `repeatable: { safe: false }`",
    ),
    (
        "cronschedule crontab cronexpression expression expr schedules scheduleinterval timetable oncalendar calendar when every interval at minute hour dayofmonth dayofweek onunitactivesec period",
        "schedule cron",
        "write `schedule: { cron: \"30 23 * * *\", timezone: Asia/Shanghai }`, or `cron: \"@every 10m\"` for an interval",
    ),
    (
        "tz zone crontz timezoneid location",
        "timezone",
        "write the zone as `schedule: { timezone: Asia/Shanghai }`",
    ),
    (
        "startingdeadlineseconds misfirethreshold misfireinstruction misfirehandling misfiregracetime catchup persistent coalesce",
        "misfire policy",
        "write `misfire: { within: 2h }` for a fire that still helps that late, `misfire: { policy: run_now }` or `misfire: { policy: skip }`",
    ),
    (
        "concurrencypolicy concurrency maxactiveruns maxinstances maxconcurrency prohibitoverlap allowconcurrent singleton serial flock lock",
        "overlap",
        "write `overlap: forbid` (a fire during a run is skipped) or `overlap: queue` (it waits)",
    ),
    (
        "dependsonpast waitfordownstream",
        "",
        "leave it out: this version of Matins does not wait for success; `overlap: queue` waits for the run before to end",
    ),
    (
        "dependson depends dependencies upstream requires triggerrule trigger triggers",
        "",
        "leave it out: this version of Matins knows no order between jobs; give this job an hour by which the other has ended",
    ),
    (
        "duration estimatedduration expectedruntime runtime sla estimate",
        "expected_duration",
        "write `expected_duration: 40m`",
    ),
    (
        "activedeadlineseconds executiontimeout dagruntimeout timeoutseconds timeoutminutes timeoutstartsec runtimemaxsec maxruntime deadline ttl",
        "timeout",
        "write `timeout: 15m`, for one attempt of one shard",
    ),
    (
        "parallelism completions partitions count parallel replicas shardcount shardnum instances",
        "",
        "write `shards: 4`",
    ),
    (
        "retries backofflimit maxretries retrycount restartpolicy restart attempts maxattempts max",
        "",
        "write `retry: { at_most: 3, backoff: [1m] }`: up to 3 further attempts, a minute apart; 0 for none",
    ),
    (
        "retrydelay retryinterval delay retryexponentialbackoff restartsec",
        "",
        "write `retry: { backoff: [1m, 5m, 30m] }`",
    ),
    (
        "command commands cmd args arguments argv script shell bash bashcommand entrypoint execstart program executable executor executorconfig pythoncallable callable glue code",
        "run exec",
        "write `run: { exec: [\"/opt/jobs/report\", \"--date\", \"{fire_date}\"] }`, a list of the program and its arguments; what needs a shell goes into a script of its own",
    ),
    (
        "image container containers initcontainers docker volumes volumemounts imagepullpolicy",
        "",
        "leave it out: Matins starts a program that is on the host, `run: { exec: [...] }`",
    ),
    (
        "env environment envvars variables vars envfile environmentfile path",
        "",
        "leave it out: an attempt's environment is the same for all; give values as arguments in `run.exec`",
    ),
    (
        "cwd workdir workingdir workingdirectory chdir dir",
        "",
        "leave it out: each attempt gets a directory of its own; name files by their full paths",
    ),
    (
        "resources resource requests mem ram memorylimit memorymax tasksmax cpu cpus cpushares ulimit",
        "",
        "write `limits: { memory: 2GiB, pids: 500, cpu_weight: 100 }`, any of them; a number of CPUs cannot be set, `cpu_weight: 200` is twice the usual share",
    ),
    (
        "uid runas runasuser username serviceaccount serviceaccountname group gid",
        "",
        "write `run: { exec: [...], user: batch }`, the name of a user of the hosts",
    ),
    (
        "suspend enabled disabled active paused ispaused ispauseduponcreation",
        "",
        "leave it out: a job is in force from `matins apply` until its manifest is gone and `matins apply --prune` ran",
    ),
    (
        "startdate enddate startat starttime endtime validfrom validuntil priorityclassname",
        "",
        "leave it out: a job is due from the moment it is applied",
    ),
    (
        "successfuljobshistorylimit failedjobshistorylimit ttlsecondsafterfinished history historylimit retention logs logging stdout stderr output logfile",
        "",
        "leave it out: history and output are kept without being asked for; look with `matins get runs` and `matins logs`",
    ),
    (
        "emailonfailure emailonretry onfailure onsuccess onfailurecallback onsuccesscallback notify notification notifications alerts alerting slack webhook",
        "",
        "leave it out: what needs a person is in `matins get alerts`",
    ),
    (
        "labels annotations tags meta version namespace pool queue nodeselector affinity tolerations host hosts node runson on uses with",
        "",
        "leave it out: the namespace is part of `name`, and any host may run any job",
    ),
];

/// What to say of `name` in the mapping at `path`, where it is a word from elsewhere.
pub(super) fn answer(path: &str, name: &str) -> Option<Answer> {
    let later = LATER_FIELDS
        .iter()
        .find(|&&(at, later, _)| at == path && later == name);
    if let Some(&(_, _, today)) = later {
        return Some(Answer {
            what: LATER,
            remedy: format!("leave it out; {today}"),
            stands_for: "",
        });
    }
    let plain = plain(name);
    if let Some((section, field)) = at_home(path, &plain) {
        let remedy = if section.is_empty() {
            format!("it stands at the top of the manifest: write `{field}:` without indentation")
        } else {
            format!(
                "it stands in `{section}`: indent it below that, or write `{section}: {{ {field}: ... }}`"
            )
        };
        return Some(Answer {
            what: if path.is_empty() {
                "is not a field of the manifest itself"
            } else {
                "is not a field of this mapping"
            },
            remedy,
            stands_for: section,
        });
    }
    let (_, stands_for, remedy) = FOREIGN
        .iter()
        .find(|(words, ..)| words.split(' ').any(|word| word == plain))?;
    Some(Answer {
        what: UNKNOWN,
        remedy: (*remedy).to_owned(),
        stands_for,
    })
}

/// Whether a field will know this word, in a version to come.
pub(super) fn is_later_word(field: &str, word: &str) -> bool {
    LATER_WORDS.contains(&(field, word.to_ascii_lowercase().as_str()))
}

/// The mapping, other than that at `path`, that has a field of this name, and the field's name.
fn at_home(path: &str, plain_name: &str) -> Option<(&'static str, &'static str)> {
    let has = |form: &'static Form| form.names().find(|name| plain(name) == plain_name);
    if !path.is_empty()
        && let Some(field) = has(&MANIFEST)
    {
        return Some(("", field));
    }
    MANIFEST
        .inner()
        .filter(|&(section, _)| section != path)
        .find_map(|(section, form)| Some((section, has(form)?)))
}

/// In lower case, without what joins words. Long names are nobody's.
fn plain(name: &str) -> String {
    name.chars()
        .take(64)
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_answered_twice_or_is_our_own() {
        let mut seen = std::collections::BTreeSet::new();
        for word in FOREIGN.iter().flat_map(|(words, ..)| words.split(' ')) {
            assert_eq!(word, plain(word));
            assert!(seen.insert(word), "{word} twice");
            assert!(MANIFEST.position(word).is_none(), "{word} is a field");
            assert!(
                at_home("", word).is_none(),
                "{word} is a field of a mapping"
            );
        }
        for name in FOREIGN
            .iter()
            .flat_map(|(_, names, _)| names.split_whitespace())
        {
            let known = MANIFEST.position(name).is_some() || at_home("", name).is_some();
            assert!(known, "{name} is no field");
        }
        for &(path, name, _) in LATER_FIELDS {
            let form = match path {
                "" => &MANIFEST,
                path => MANIFEST.inner().find(|&(name, _)| name == path).unwrap().1,
            };
            assert!(form.position(name).is_none(), "{name} is acted on");
        }
    }
}
