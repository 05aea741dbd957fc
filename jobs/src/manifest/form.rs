//! What a manifest may say: one table.
//!
//! Everything that must agree on the fields comes from here: the reader takes names, limits,
//! defaults and the words for what is missing; `matins schema` prints it for editors; the table in
//! `docs/MANIFEST.md` is its copy, and a test holds it. A field is added here, and in
//! [`read`](super::read), which will not find it otherwise.

use protocol::{DurationMs, lease};

/// The fields of a mapping.
pub(super) struct Form {
    pub(super) fields: &'static [Field],
    /// How to write it where somebody wrote a single value instead; `{}` stands for that value.
    pub(super) short: &'static str,
    /// What a JSON Schema must say beside the fields: how they go together. A JSON object.
    pub(super) together: &'static str,
}

pub(super) struct Field {
    pub(super) name: &'static str,
    /// For people who write a manifest: Markdown, without a full stop at the end.
    pub(super) says: &'static str,
    pub(super) left_out: LeftOut,
    pub(super) holds: Holds,
}

/// What it means that a field is not there.
pub(super) enum LeftOut {
    /// It is refused: what to write, and why Matins does not choose.
    Demanded {
        write: &'static str,
        why: &'static str,
    },
    /// As though this were written: one value, or the items of a list.
    Default(&'static [&'static str]),
    /// As though its mapping were empty; in words, what that means.
    Empty(&'static str),
    /// The job goes without; in words, what that means.
    Without(&'static str),
}

/// What a value is and within which limits. Durations in milliseconds, sizes in bytes.
pub(super) enum Holds {
    JobName,
    /// Of at most so many bytes.
    Text(usize),
    Truth,
    /// One of these; the meaning of each is for editors.
    Word(&'static [(&'static str, &'static str)]),
    Integer(u32, u32),
    /// A whole number, or how it is computed.
    IntegerOr(u32, u32, &'static Form),
    Duration(DurationMs, DurationMs),
    /// A list of 1 to so many durations.
    Durations(usize, DurationMs, DurationMs),
    Size(u64, u64),
    /// Processors, to the thousandth; the limits in thousandths.
    Processors(u32, u32),
    /// The name of a class of hosts.
    Class,
    /// A cron expression.
    Cron,
    /// The IANA name of a time zone.
    Timezone,
    /// The name of a user of the hosts.
    User,
    /// A program and its arguments.
    Command,
    Fields(&'static Form),
    /// A list of at most so many mappings.
    List(usize, &'static Form),
    /// A list of at most so many labels.
    Labels(usize),
    /// Names of resources, each once and at most so many, with the units of each.
    Units(usize, u32, u32),
    /// Names, each once and at most so many, with a text of at most so many bytes each.
    Params(usize, usize),
}

const SECOND: DurationMs = DurationMs(1000);
const DAY: DurationMs = DurationMs(86_400_000);
const MONTH: DurationMs = DurationMs(31 * DAY.0);
const BACKOFF_MIN: DurationMs = DurationMs(100);

/// Most runs that may be caught up at once.
const CATCH_UP_MAX: u32 = 100;

/// Longest text of a purpose or a reason, and of an owner, in bytes.
const SENTENCES_BYTES_MAX: usize = 2000;
const OWNER_BYTES_MAX: usize = 200;

/// Jobs that one may wait for.
const AFTER_MAX: usize = 16;
const LABELS_MAX: usize = 16;
const USES_MAX: usize = 16;
const UNITS_MAX: u32 = 1_000_000;

/// Most shards of a job.
pub(super) const SHARDS_MAX: u32 = 1024;

/// Most parameters of a job, and the longest value of one, in bytes.
pub(super) const PARAMS_MAX: usize = 50;
pub(super) const PARAM_BYTES_MAX: usize = 1000;

pub(super) static MANIFEST: Form = Form {
    fields: &[
        Field {
            name: "name",
            says: "`namespace/name`, each of `a-z 0-9 - _ .`, beginning and ending with a letter or digit",
            left_out: LeftOut::Demanded {
                write: "`name: namespace/name`",
                why: "it is how people and other jobs refer to it",
            },
            holds: Holds::JobName,
        },
        Field {
            name: "renamed_from",
            says: "the name until now; the job keeps its past",
            left_out: LeftOut::Without("a job of its own"),
            holds: Holds::JobName,
        },
        Field {
            name: "purpose",
            says: "what the job is for, in a sentence",
            left_out: LeftOut::Demanded {
                write: "`purpose: <one sentence>`",
                why: "whoever is called at night must know what the job is for",
            },
            holds: Holds::Text(SENTENCES_BYTES_MAX),
        },
        Field {
            name: "owner",
            says: "the team or person who is asked",
            left_out: LeftOut::Demanded {
                write: "`owner: <team or person>`",
                why: "somebody must answer when a run needs a person",
            },
            holds: Holds::Text(OWNER_BYTES_MAX),
        },
        Field {
            name: "repeatable",
            says: "whether a second run does harm; where it may, an end that nobody knows goes to a person",
            left_out: LeftOut::Demanded {
                write: "`repeatable: { safe: true, how: \"full recompute, replaces the day\" }`, with your own reason in `how`, where running twice for the same fire does no harm,\nor `repeatable: { safe: false }` where it may do harm",
                why: "when nobody knows whether a run came to its end, with `true` it is simply run again, with `false` a person is asked first",
            },
            holds: Holds::Fields(&REPEATABLE),
        },
        Field {
            name: "schedule",
            says: "when it is due",
            left_out: LeftOut::Demanded {
                write: "`schedule: { cron: \"30 23 * * *\", timezone: Asia/Shanghai }`",
                why: "a job without an hour is never due",
            },
            holds: Holds::Fields(&SCHEDULE),
        },
        Field {
            name: "misfire",
            says: "what becomes of a fire that comes late",
            left_out: LeftOut::Demanded {
                write: "`misfire: { policy: run_now, after: 60s }` (a late fire runs all the same), `misfire: { policy: skip, after: 60s }` (it is dropped) or `misfire: { within: 2h, after: 60s }` (it runs if less than 2h late); below `after` a fire is not yet late",
                why: "only you know whether a late run still helps or does harm",
            },
            holds: Holds::Fields(&MISFIRE),
        },
        Field {
            name: "catch_up",
            says: "which late fires run after an outage; no `catch_up` beside `policy: skip`",
            left_out: LeftOut::Empty("as its fields say"),
            holds: Holds::Fields(&CATCH_UP),
        },
        Field {
            name: "overlap",
            says: "what becomes of a fire while a run of the job is live: `forbid` skips it, `queue` lets it wait, `replace` cancels the run, `allow` runs both",
            left_out: LeftOut::Demanded {
                write: "`overlap: forbid` (a fire during a run is skipped), `overlap: queue` (it waits), `overlap: replace` (the run is cancelled for it) or `overlap: allow` (both run)",
                why: "only you know whether two runs that follow each other do the work of one, and whether two at once do harm",
            },
            holds: Holds::Word(&[
                ("forbid", "a fire during a run is skipped"),
                ("queue", "a fire during a run waits for its end"),
                (
                    "replace",
                    "a fire during a run cancels it, and starts when nothing of it is left",
                ),
                ("allow", "a fire during a run starts beside it"),
            ]),
        },
        Field {
            name: "serial",
            says: "whether a run that waits for a person's word holds up those after it, like one that is live",
            left_out: LeftOut::Default(&["relaxed"]),
            holds: Holds::Word(&[
                ("relaxed", "it holds up nothing"),
                ("strict", "it counts as live until a person has decided"),
            ]),
        },
        Field {
            name: "previous",
            says: "what the job's own fire before must have come to before a fire starts",
            left_out: LeftOut::Without("it is not asked about"),
            holds: Holds::Word(&[
                ("succeeded", "it has succeeded"),
                ("ended", "it has ended, however that was"),
            ]),
        },
        Field {
            name: "after",
            says: "other jobs whose run must have succeeded before a fire starts; each with `match` or `latest_within`",
            left_out: LeftOut::Without("it waits for no other job"),
            holds: Holds::List(AFTER_MAX, &AFTER),
        },
        Field {
            name: "expected_duration",
            says: "how long a run takes, for people; nothing is ended by it",
            left_out: LeftOut::Demanded {
                write: "for example `expected_duration: 40m`",
                why: "without it nobody can tell a slow run from a stuck one",
            },
            holds: Holds::Duration(SECOND, MONTH),
        },
        Field {
            name: "timeout",
            says: "after how long one attempt of one shard is ended",
            left_out: LeftOut::Demanded {
                write: "for example `timeout: 15m`, for one attempt of one shard",
                why: "without it a hung attempt holds its shard for ever",
            },
            holds: Holds::Duration(SECOND, MONTH),
        },
        Field {
            name: "start_deadline",
            says: "how long a shard may wait for a host, before it goes to a person",
            left_out: LeftOut::Without(
                "until the next fire, not less than `misfire.after`, at most 24h",
            ),
            holds: Holds::Duration(SECOND, MONTH),
        },
        Field {
            name: "shards",
            says: "pieces that a run is cut into: a number, or how it is computed",
            left_out: LeftOut::Default(&["1"]),
            holds: Holds::IntegerOr(1, SHARDS_MAX, &SIZED),
        },
        Field {
            name: "retry",
            says: "how a shard that failed is tried again",
            left_out: LeftOut::Empty("as its fields say"),
            holds: Holds::Fields(&RETRY),
        },
        Field {
            name: "takeover_after",
            says: "silence of a host after which its shards start elsewhere",
            // The shape that `DurationMs` has for `lease::TAKEOVER_DEFAULT`; a test compares.
            left_out: LeftOut::Default(&["1m"]),
            holds: Holds::Duration(lease::TAKEOVER_MIN, lease::TAKEOVER_MAX),
        },
        Field {
            name: "needs",
            says: "what a host must have to be given a shard",
            left_out: LeftOut::Empty("any host will do"),
            holds: Holds::Fields(&NEEDS),
        },
        Field {
            name: "priority",
            says: "which shards go first where hosts are short: those of the higher number",
            left_out: LeftOut::Default(&["50"]),
            holds: Holds::Integer(0, 100),
        },
        Field {
            name: "limits",
            says: "what one attempt may use of its host",
            left_out: LeftOut::Empty("no limit"),
            holds: Holds::Fields(&LIMITS),
        },
        Field {
            name: "params",
            says: "values for `{params.NAME}` in `run.exec`, which a run by hand may replace; names of `a-z 0-9 _`, values in quotes",
            left_out: LeftOut::Without("none"),
            holds: Holds::Params(PARAMS_MAX, PARAM_BYTES_MAX),
        },
        Field {
            name: "begins",
            says: "how a job stands that this manifest creates; nothing to one that exists",
            left_out: LeftOut::Default(&["active"]),
            holds: Holds::Word(&[
                ("active", "it is due from the start"),
                ("paused", "nothing of it is due until `matins resume`"),
            ]),
        },
        Field {
            name: "run",
            says: "what is run",
            left_out: LeftOut::Demanded {
                write: RUN_EXAMPLE,
                why: "a job is a program and its arguments, never a line for a shell",
            },
            holds: Holds::Fields(&RUN),
        },
    ],
    short: "",
    together: "{}",
};

/// A whole `run`, as messages show it.
pub(super) const RUN_EXAMPLE: &str =
    "`run: { exec: [\"/opt/jobs/report\", \"--date\", \"{fire_date}\"] }`";

static REPEATABLE: Form = Form {
    fields: &[
        Field {
            name: "safe",
            says: "`true` where a second run does no harm",
            left_out: LeftOut::Demanded {
                write: "`safe: true` where a second run does no harm, else `safe: false`",
                why: "Matins cannot know what your program does to its data",
            },
            holds: Holds::Truth,
        },
        Field {
            name: "how",
            says: "why a second run does no harm",
            left_out: LeftOut::Without("demanded beside `safe: true`"),
            holds: Holds::Text(SENTENCES_BYTES_MAX),
        },
    ],
    short: "`repeatable: { safe: true, how: \"full recompute, replaces the day\" }` or `repeatable: { safe: false }`",
    together: r#"{"if": {"properties": {"safe": {"const": true}}, "required": ["safe"]}, "then": {"required": ["how"]}}"#,
};

static SCHEDULE: Form = Form {
    fields: &[
        Field {
            name: "cron",
            says: "five fields as in a crontab, `@daily` and its like, or `@every 5s`",
            left_out: LeftOut::Demanded {
                write: "five fields in quotes, for example `cron: \"30 23 * * *\"`, or `cron: \"@every 1h30m\"`",
                why: "a job without an hour is never due",
            },
            holds: Holds::Cron,
        },
        Field {
            name: "timezone",
            says: "the IANA name of the zone that the hours are of, as `Asia/Shanghai`",
            left_out: LeftOut::Demanded {
                write: "for example `timezone: Asia/Shanghai`",
                why: "the same hour is another instant in another zone, and machines' own zones differ",
            },
            holds: Holds::Timezone,
        },
        Field {
            name: "dialect",
            says: "how `cron` is read: `vixie`, `quartz` or `kubernetes`",
            left_out: LeftOut::Default(&["vixie"]),
            holds: Holds::Word(&[
                ("vixie", "five fields, as in a crontab"),
                (
                    "quartz",
                    "six or seven fields, seconds first and 1 for Sunday",
                ),
                ("kubernetes", "five fields, as in a CronJob"),
            ]),
        },
    ],
    short: "`schedule: { cron: \"{}\", timezone: Asia/Shanghai }`, with the zone that the hours are of",
    together: "{}",
};

static MISFIRE: Form = Form {
    fields: &[
        Field {
            name: "policy",
            says: "`run_now` runs the newest late fires, as many as `catch_up.at_most`, `skip` none, `within` those of them that are no later than the field `within`",
            left_out: LeftOut::Without("demanded where there is no `within`"),
            holds: Holds::Word(&[
                (
                    "run_now",
                    "the newest of the late fires run, as many as `catch_up.at_most`",
                ),
                ("skip", "no late fire runs"),
                (
                    "within",
                    "as `run_now`, but none that is later than the field `within`",
                ),
            ]),
        },
        Field {
            name: "within",
            says: "how late is not too late; means `policy: within`",
            left_out: LeftOut::Without("demanded beside `policy: within`"),
            holds: Holds::Duration(SECOND, MONTH),
        },
        Field {
            name: "after",
            says: "below this a fire is merely late, and runs under every policy",
            left_out: LeftOut::Default(&["1m"]),
            holds: Holds::Duration(SECOND, DAY),
        },
    ],
    short: "`misfire: { policy: run_now, after: 60s }`, `misfire: { policy: skip, after: 60s }` or `misfire: { within: 2h, after: 60s }`; below `after` a fire is not yet late and runs under every policy",
    together: r#"{"anyOf": [{"required": ["policy"]}, {"required": ["within"]}],
        "if": {"properties": {"policy": {"const": "within"}}, "required": ["policy"]}, "then": {"required": ["within"]},
        "else": {"if": {"required": ["policy"]}, "then": {"properties": {"within": false}}}}"#,
};

static CATCH_UP: Form = Form {
    fields: &[
        Field {
            name: "at_most",
            says: "so many of the late fires run, the newest ones, oldest first; the rest is recorded as a gap",
            left_out: LeftOut::Default(&["1"]),
            holds: Holds::Integer(1, CATCH_UP_MAX),
        },
        Field {
            name: "window",
            says: "a fire later than this does not run",
            left_out: LeftOut::Default(&["31d"]),
            holds: Holds::Duration(SECOND, MONTH),
        },
        Field {
            name: "concurrency",
            says: "so many of them at once",
            left_out: LeftOut::Default(&["1"]),
            holds: Holds::Integer(1, CATCH_UP_MAX),
        },
    ],
    short: "`catch_up: { at_most: {}, window: 3d }`",
    together: "{}",
};

static AFTER: Form = Form {
    fields: &[
        Field {
            name: "job",
            says: "the other job's name",
            left_out: LeftOut::Demanded {
                write: "`job: namespace/name`, the job whose run must have succeeded",
                why: "without it there is nothing to wait for",
            },
            holds: Holds::JobName,
        },
        Field {
            name: "match",
            says: "which of its runs: `same_fire` is due at the same instant, `same_date` on the same day, each in its own zone",
            left_out: LeftOut::Without("demanded where there is no `latest_within`"),
            holds: Holds::Word(&[
                ("same_fire", "the one that is due at the same instant"),
                ("same_date", "the one that is due on the same day"),
            ]),
        },
        Field {
            name: "latest_within",
            says: "the newest of its runs that is due no longer than this before",
            left_out: LeftOut::Without("demanded where there is no `match`"),
            holds: Holds::Duration(SECOND, MONTH),
        },
    ],
    short: AFTER_EXAMPLE,
    together: r#"{"oneOf": [{"required": ["match"]}, {"required": ["latest_within"]}]}"#,
};

/// A whole `after`, as messages show it.
pub(super) const AFTER_EXAMPLE: &str = "`after: [{ job: settlement/import, match: same_date }]`, with `match: same_fire` or `latest_within: 6h` where that is meant";

static SIZED: Form = Form {
    fields: &[
        Field {
            name: "of",
            says: "how long the whole work takes one host",
            left_out: LeftOut::Demanded {
                write: "`of: 90m`, how long the whole work takes one host",
                why: "from it and `target` comes the number",
            },
            holds: Holds::Duration(SECOND, MONTH),
        },
        Field {
            name: "target",
            says: "how long one shard is to take; the number is `of` through `target`, made to go evenly into the hosts there are, and stays as it is",
            left_out: LeftOut::Demanded {
                write: "`target: 3m`, how long one shard is to take",
                why: "from it and `of` comes the number",
            },
            holds: Holds::Duration(SECOND, DAY),
        },
    ],
    short: "`shards: 32` or `shards: { of: 90m, target: 3m }`",
    together: "{}",
};

static NEEDS: Form = Form {
    fields: &[
        Field {
            name: "class",
            says: "the class of hosts that it is for, by name: `cpu`, `memory`, `io`, `general` or one of your own",
            left_out: LeftOut::Without("any host"),
            holds: Holds::Class,
        },
        Field {
            name: "labels",
            says: "labels that its agent has, all of them",
            left_out: LeftOut::Without("any host"),
            holds: Holds::Labels(LABELS_MAX),
        },
        Field {
            name: "cpu",
            says: "processors that one shard keeps busy, as `1`, `0.5` or `2.25`; they are set aside for it",
            left_out: LeftOut::Without("one beside `class: cpu`, else none is set aside"),
            holds: Holds::Processors(1, 1_024_000),
        },
        Field {
            name: "memory",
            says: "memory that one shard takes; it is set aside for it, and `limits.memory` is what it may not exceed",
            left_out: LeftOut::Without("none is set aside"),
            // As for `limits.memory`.
            holds: Holds::Size(4 << 20, 16 << 40),
        },
        Field {
            name: "uses",
            says: "units that one shard takes of what all share, by the name of the resource",
            left_out: LeftOut::Without("nothing"),
            holds: Holds::Units(USES_MAX, 1, UNITS_MAX),
        },
    ],
    short: "`needs: { class: io, labels: [jdk17], cpu: 1, memory: 2GiB, uses: { ledger-db: 4 } }`, any of them",
    together: "{}",
};

static RETRY: Form = Form {
    fields: &[
        Field {
            name: "at_most",
            says: "retries of each shard; then it goes to a person",
            left_out: LeftOut::Default(&["3"]),
            holds: Holds::Integer(0, 5),
        },
        Field {
            name: "backoff",
            says: "the wait before each retry; the last is repeated",
            left_out: LeftOut::Default(&["1m", "5m", "30m"]),
            holds: Holds::Durations(16, BACKOFF_MIN, DAY),
        },
    ],
    short: "`retry: { at_most: {} }`",
    together: "{}",
};

static LIMITS: Form = Form {
    fields: &[
        Field {
            name: "memory",
            says: "memory of all its processes together",
            left_out: LeftOut::Without("no limit"),
            // Below this no program starts; above it there is no machine.
            holds: Holds::Size(4 << 20, 16 << 40),
        },
        Field {
            name: "pids",
            says: "processes and threads",
            left_out: LeftOut::Without("no limit"),
            holds: Holds::Integer(1, 1_000_000),
        },
        Field {
            name: "cpu_weight",
            says: "share of a busy CPU beside others' 100",
            left_out: LeftOut::Without("as others'"),
            // The scale of cgroup v2.
            holds: Holds::Integer(1, 10_000),
        },
        Field {
            name: "io_weight",
            says: "share of a busy disk beside others' 100, where the host's disks are shared by weight",
            left_out: LeftOut::Without("as others'"),
            holds: Holds::Integer(1, 10_000),
        },
    ],
    short: "`limits: { memory: 2GiB, pids: 500, cpu_weight: 100, io_weight: 100 }`, any of them",
    together: "{}",
};

static RUN: Form = Form {
    fields: &[
        Field {
            name: "exec",
            says: "the program and its arguments, a list; never through a shell",
            left_out: LeftOut::Demanded {
                write: RUN_EXAMPLE,
                why: "a job is a program and its arguments, never a line for a shell",
            },
            holds: Holds::Command,
        },
        Field {
            name: "user",
            says: "name of the user of the host that it runs as",
            left_out: LeftOut::Without("the user whom the agent runs as"),
            holds: Holds::User,
        },
    ],
    short: RUN_EXAMPLE,
    together: "{}",
};

impl Form {
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }

    /// The forms of the mappings in this one, by the name of their field.
    pub(super) fn inner(&self) -> impl Iterator<Item = (&'static str, &'static Form)> {
        self.fields.iter().filter_map(|field| match field.holds {
            Holds::Fields(form) => Some((field.name, form)),
            _ => None,
        })
    }
}

impl Field {
    /// The reader takes the field for something that it is not, here in the form: a defect that
    /// stops at the first manifest, rather than a manifest that is half read.
    pub(super) fn misread(&self, as_what: &str) -> ! {
        panic!("the field `{}` is read as {as_what}", self.name)
    }
}
