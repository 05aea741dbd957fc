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
    ("", "alert", "what needs a person is in `matins get alerts`"),
    ("repeatable", "on_failure", "write it into `how`"),
];

/// Words of other programs for a value, in lower case without `_`, `-` and `.`: the field, the
/// words, and ours.
const FOREIGN_VALUES: &[(&str, &str, &str)] = &[
    (
        "overlap",
        "concurrent parallel parallelexecution true yes always",
        "allow",
    ),
    (
        "overlap",
        "serialexecution serial wait queued enqueue delay bufferone bufferall",
        "queue",
    ),
    (
        "overlap",
        "discardlater discard skip skipped drop ignore reject false no never none single",
        "forbid",
    ),
    (
        "overlap",
        "coverearly cover cancel cancelother cancelrunning terminate terminateother kill restart",
        "replace",
    ),
    (
        "policy",
        "fireonce fireoncenow firenow fireandproceed smartpolicy runonce once immediate runlate",
        "run_now",
    ),
    ("policy", "donothing ignore none drop skipped", "skip"),
    (
        "previous",
        "success successful completed complete ok true yes",
        "succeeded",
    ),
    (
        "previous",
        "done finished finish final terminal any always",
        "ended",
    ),
    ("match", "fire sametime fireequal instant", "same_fire"),
    ("match", "date day sameday today", "same_date"),
    ("serial", "true yes on always", "strict"),
    ("serial", "false no off never", "relaxed"),
    (
        "begins",
        "suspended suspend disabled stopped inactive false no off",
        "paused",
    ),
    (
        "begins",
        "enabled running started resumed true yes on",
        "active",
    ),
];

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
        "startingdeadlineseconds misfirethreshold misfireinstruction misfirehandling misfirestrategy misfiregracetime persistent coalesce",
        "misfire policy",
        "write `misfire: { within: 2h }` for a fire that still helps that late, `misfire: { policy: run_now }` or `misfire: { policy: skip }`",
    ),
    (
        "catchup backfill",
        "misfire policy",
        "write `misfire: { policy: run_now }`, and `catch_up: { at_most: 3 }` where more than the newest late fire is to run; or `misfire: { policy: skip }` for none",
    ),
    (
        "concurrencypolicy concurrency maxactiveruns maxinstances maxconcurrency maxconcurrentruns prohibitoverlap preventoverlap allowconcurrent allowconcurrency disallowconcurrentexecution executorblockstrategy blockstrategy overlappolicy singleton flock lock nooverlap withoutoverlapping",
        "overlap",
        "write `overlap: forbid` (a fire during a run is skipped), `overlap: queue` (it waits), `overlap: replace` (the run is cancelled for it) or `overlap: allow` (both run)",
    ),
    (
        "dependsonpast waitfordownstream waitforprevious previousrun afterprevious",
        "",
        "write `previous: succeeded`: a fire then waits until the job's own fire before has succeeded",
    ),
    (
        "dependson depends dependencies dependency upstream upstreams requires requisite wants waitfor waitson parent parents predecessor predecessors triggerrule trigger triggers",
        "",
        "write `after: [{ job: settlement/import, match: same_date }]`: a fire then waits until the other job's run of the same day has succeeded",
    ),
    (
        "childjobid childjobids children downstream downstreams successor successors before next triggerdag",
        "",
        "leave it out: the later job names this one, `after: [{ job: settlement/import, match: same_fire }]`",
    ),
    (
        "priorityclassname priorityweight weight nice importance jobpriority",
        "",
        "write `priority: 80`: from 0 to 100, the higher number goes first, and 50 is that of a job which says nothing",
    ),
    (
        "parameters parameter param inputs vars variables jobdata jobdatamap executorparam jobparameters",
        "",
        "write `params: { region: east }`, and `{params.region}` in `run.exec`",
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
        "parallelism completions partitions count parallel replicas shardcount shardnum shardtotal instances",
        "",
        "write `shards: 4`, or `shards: { of: 90m, target: 3m }` to have the number computed",
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
        "env environment envvars envfile environmentfile path",
        "",
        "leave it out: an attempt's environment is the same for all; give values as arguments in `run.exec`, and what a run by hand may change as `params: { region: east }`",
    ),
    (
        "cwd workdir workingdir workingdirectory chdir dir",
        "",
        "leave it out: each attempt gets a directory of its own; name files by their full paths",
    ),
    (
        "resources resource requests mem ram memorylimit memorymax tasksmax cpus cpushares ulimit",
        "",
        "write `needs: { cpu: 1, memory: 2GiB }` for what is set aside on a host, and `limits: { memory: 2GiB, pids: 500, cpu_weight: 100 }` for what it may not exceed, any of them",
    ),
    (
        "uid runas runasuser username serviceaccount serviceaccountname group gid",
        "",
        "write `run: { exec: [...], user: batch }`, the name of a user of the hosts",
    ),
    (
        "suspend enabled disabled active paused ispaused ispauseduponcreation triggerstatus",
        "",
        "write `begins: paused` for a job that is to be created so; one that exists is paused and resumed with `matins pause` and `matins resume`",
    ),
    (
        "startdate enddate startat starttime endtime validfrom validuntil",
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
        "nodeselector affinity tolerations host hosts node nodes runson on queue executorroutestrategy routestrategy executorhandler jobgroup constraints",
        "",
        "write `needs: { labels: [jdk17] }`: hosts whose agents have these labels take it, any host where there are none",
    ),
    (
        "pool pools poolslots semaphore mutex throttle ratelimit",
        "",
        "write `needs: { uses: { ledger-db: 1 } }`: units of something that all jobs share, given with `matins resource set ledger-db 16`",
    ),
    (
        "annotations tags meta version namespace with",
        "",
        "leave it out: the namespace is part of `name`",
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
    let foreign = FOREIGN
        .iter()
        .find(|(words, ..)| words.split(' ').any(|word| word == plain));
    if let Some(&(_, stands_for, remedy)) = foreign {
        return Some(Answer {
            what: UNKNOWN,
            remedy: remedy.to_owned(),
            stands_for,
        });
    }
    let (section, field) = at_home(path, &plain)?;
    let remedy = if section.is_empty() {
        format!("it stands at the top of the manifest: write `{field}:` without indentation")
    } else {
        format!(
            "it stands in `{section}`: indent it below that, or write `{section}: {{ {field}: ... }}`"
        )
    };
    Some(Answer {
        what: if path.is_empty() {
            "is not a field of the manifest itself"
        } else {
            "is not a field of this mapping"
        },
        remedy,
        stands_for: section,
    })
}

/// Our word for a value that another program has a word for.
pub(super) fn our_word(field: &str, word: &str) -> Option<&'static str> {
    let plain = plain(word);
    FOREIGN_VALUES
        .iter()
        .find(|(of, words, _)| *of == field && words.split(' ').any(|word| word == plain))
        .map(|&(_, _, ours)| ours)
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
            // What another program means by it at the top is no part of our `catch_up`.
            let is_ours = at_home("", word).is_some() && word != "concurrency";
            assert!(!is_ours, "{word} is a field of a mapping");
        }
        for name in FOREIGN
            .iter()
            .flat_map(|(_, names, _)| names.split_whitespace())
        {
            let known = MANIFEST.position(name).is_some() || at_home("", name).is_some();
            assert!(known, "{name} is no field");
        }
        for (field, words, ours) in FOREIGN_VALUES {
            for word in words.split(' ') {
                assert_eq!(word, plain(word));
                assert_eq!(our_word(field, word), Some(*ours), "{word} twice");
                assert_ne!(word, plain(ours));
            }
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
