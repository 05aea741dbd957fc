//! The tables, and the views in which people read them.
//!
//! Tables hold integers: ids, codes of states, milliseconds. Views show names, words and RFC 3339.
//! Every table has an explicit key, so that a copy made in any way has the same rows in the same
//! places. The only indexes beside the keys are the one that makes (job, namespace, fire time)
//! unique, the small ones over open runs and open alerts, which granting and finishing a shard do not
//! touch but for the first grant and the last end of a run, the one over shards that are leased, by
//! agent: an attach asks for them, and after an outage a thousand agents attach at once; the one
//! over versions that use resources, which only a put writes; and the one by which the secret of a
//! token is found.

use protocol::attempt::{AttemptOutcome, Trigger};
use protocol::host::Turn;
use protocol::{ApiRole, Health, Role, Rule, Rules};
use rusqlite::Connection;

use crate::admission::waiting_words;
use crate::codes::{BlockerKind, Coded, FIRST_FINAL_RUN_STATE, ShardKind};
use crate::command::{AlertKind, GapReason};
use crate::rows::{Bar, Cordon, Namespace, RunState};

/// Raised with every change of what follows; a ledger of another version is not opened.
pub(crate) const SCHEMA_VERSION: i64 = 8;

const TABLES: &str = "
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    schema_version INTEGER NOT NULL,
    last_applied INTEGER NOT NULL,
    position INTEGER NOT NULL,
    epoch INTEGER,
    tzdata TEXT,
    jobs INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    executions INTEGER NOT NULL,
    agents INTEGER NOT NULL,
    alerts INTEGER NOT NULL,
    gaps INTEGER NOT NULL,
    audits INTEGER NOT NULL,
    open_alerts INTEGER NOT NULL,
    restored INTEGER,
    held INTEGER NOT NULL
) STRICT;

CREATE TABLE reigns (
    epoch INTEGER PRIMARY KEY,
    node TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    at INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    boot_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE restores (
    position INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    taken_at INTEGER NOT NULL,
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    released_at INTEGER
) STRICT;

CREATE TABLE backups (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    every_ms INTEGER NOT NULL,
    good_at INTEGER,
    node TEXT,
    file TEXT,
    bytes INTEGER,
    failed_at INTEGER,
    problem TEXT
) STRICT;

CREATE TABLE jobs (
    job_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    fired_through INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    first_name TEXT,
    paused_at INTEGER,
    paused_by TEXT,
    paused_reason TEXT,
    in_doubt INTEGER NOT NULL
) STRICT;

CREATE TABLE names (
    name TEXT PRIMARY KEY,
    job_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE versions (
    job_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    starts INTEGER NOT NULL,
    ends INTEGER,
    manifest TEXT NOT NULL,
    shards INTEGER NOT NULL,
    overlap INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    previous INTEGER,
    after TEXT NOT NULL,
    catch_up_concurrency INTEGER NOT NULL,
    safe INTEGER NOT NULL,
    retry_at_most INTEGER NOT NULL,
    backoff_ms TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL,
    put_at INTEGER NOT NULL,
    put_by TEXT NOT NULL,
    uses TEXT,
    PRIMARY KEY (job_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    run_id INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    namespace INTEGER NOT NULL,
    fire_time INTEGER NOT NULL,
    nominal TEXT NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT,
    execution INTEGER NOT NULL,
    execution_id INTEGER NOT NULL,
    trigger INTEGER NOT NULL,
    fence INTEGER,
    admitted_at INTEGER NOT NULL,
    start_deadline_ms INTEGER,
    shards INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    leased INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    needs_confirmation INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    ended_at INTEGER,
    params TEXT,
    asked_at INTEGER,
    redo INTEGER,
    waits_on INTEGER,
    waits_job INTEGER,
    waits_run INTEGER,
    waits_since INTEGER
) STRICT;

CREATE TABLE executions (
    run_id INTEGER NOT NULL,
    execution INTEGER NOT NULL,
    execution_id INTEGER NOT NULL,
    trigger INTEGER NOT NULL,
    asked_by TEXT,
    reason TEXT,
    admitted_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, execution)
) STRICT, WITHOUT ROWID;

CREATE TABLE shards (
    run_id INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT,
    since INTEGER NOT NULL,
    delay_ms INTEGER NOT NULL,
    token INTEGER,
    agent_id INTEGER,
    cancelling INTEGER NOT NULL,
    again INTEGER NOT NULL,
    retries_used INTEGER NOT NULL,
    free_ends INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    holds TEXT,
    PRIMARY KEY (run_id, shard)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    token INTEGER PRIMARY KEY,
    earlier INTEGER,
    run_id INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    execution INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,
    session INTEGER NOT NULL,
    granted_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    outcome INTEGER,
    receipt INTEGER NOT NULL,
    exit_code INTEGER,
    exit_signal INTEGER,
    cpu_ms INTEGER,
    memory_bytes_peak INTEGER,
    out_of_memory INTEGER NOT NULL DEFAULT 0,
    memory_cache_bytes INTEGER,
    read_bytes INTEGER,
    write_bytes INTEGER,
    read_operations INTEGER,
    write_operations INTEGER,
    stall_cpu_ms INTEGER,
    stall_memory_ms INTEGER,
    stall_memory_full_ms INTEGER,
    stall_io_ms INTEGER,
    partial TEXT,
    not_enforced TEXT,
    reason TEXT,
    tail TEXT,
    stale_outcome INTEGER
) STRICT;

CREATE TABLE agents (
    agent_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    session INTEGER,
    boot_id TEXT NOT NULL,
    supervisor INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    labels TEXT NOT NULL,
    barred INTEGER,
    barred_reason TEXT,
    cordon INTEGER,
    cordon_by TEXT,
    cordon_reason TEXT,
    silent_reigns INTEGER NOT NULL,
    noted_health INTEGER
) STRICT;

CREATE TABLE host_profiles (
    agent_id INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    digest TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    since INTEGER NOT NULL,
    facts TEXT NOT NULL,
    report TEXT NOT NULL
) STRICT;

CREATE TABLE host_changes (
    agent_id INTEGER NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    about TEXT NOT NULL,
    before TEXT,
    after TEXT,
    PRIMARY KEY (agent_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE resources (
    name TEXT PRIMARY KEY,
    capacity INTEGER NOT NULL,
    in_use INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    session INTEGER PRIMARY KEY,
    agent_id INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    agent INTEGER NOT NULL,
    supervisor INTEGER NOT NULL,
    swept INTEGER NOT NULL,
    attached_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

CREATE TABLE gaps (
    job_id INTEGER NOT NULL,
    gap_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    after INTEGER NOT NULL,
    through INTEGER NOT NULL,
    count INTEGER NOT NULL,
    reason INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (job_id, gap_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE alerts (
    alert_id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    about INTEGER NOT NULL,
    job_id INTEGER,
    run_id INTEGER,
    agent_id INTEGER,
    text TEXT NOT NULL,
    at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    count INTEGER NOT NULL,
    cleared_at INTEGER,
    cleared_by TEXT
) STRICT;

CREATE TABLE audit (
    audit_id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    by TEXT NOT NULL,
    action TEXT NOT NULL,
    job_id INTEGER,
    run_id INTEGER,
    agent_id INTEGER,
    reason TEXT,
    source TEXT
) STRICT;

CREATE TABLE join_tokens (
    join_token_id INTEGER PRIMARY KEY,
    secret TEXT NOT NULL UNIQUE,
    role INTEGER NOT NULL,
    name_prefix TEXT NOT NULL,
    uses INTEGER NOT NULL,
    uses_left INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    revoked_by TEXT
) STRICT;

CREATE TABLE enrolments (
    key TEXT PRIMARY KEY,
    role INTEGER NOT NULL,
    name TEXT NOT NULL,
    node INTEGER UNIQUE,
    join_token_id INTEGER,
    at INTEGER NOT NULL,
    good_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- A host has one key; control machines are told apart by their numbers.
CREATE UNIQUE INDEX enrolments_hosts ON enrolments (name) WHERE role = 0;

CREATE TABLE api_tokens (
    name TEXT PRIMARY KEY,
    secret TEXT NOT NULL UNIQUE,
    role INTEGER NOT NULL,
    namespaces TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE control_machines (
    node INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    store TEXT NOT NULL,
    at INTEGER NOT NULL,
    by TEXT NOT NULL,
    removed_at INTEGER,
    removed_by TEXT
) STRICT;
";

/// Makes the tables and views of an empty database.
pub(crate) fn create(conn: &Connection, rules: Rules) -> rusqlite::Result<()> {
    conn.execute_batch(TABLES)?;
    // Without the rule a fire may come twice, as it does to schedulers that note the run and the
    // watermark apart; the index must then not save what the rule no longer does.
    let unique = if rules.on(Rule::RunAndWatermarkTogether) {
        "UNIQUE"
    } else {
        ""
    };
    conn.execute_batch(&format!(
        "CREATE {unique} INDEX runs_by_fire ON runs (job_id, namespace, fire_time);
         CREATE INDEX shards_leased ON shards (agent_id) WHERE agent_id IS NOT NULL;
         CREATE INDEX versions_using ON versions (job_id, version) WHERE uses IS NOT NULL;
         CREATE INDEX runs_open ON runs (job_id, state) WHERE state < {FIRST_FINAL_RUN_STATE};
         CREATE UNIQUE INDEX alerts_open ON alerts (kind, about) WHERE cleared_at IS NULL;
         INSERT INTO meta VALUES (1, {SCHEMA_VERSION}, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0);"
    ))?;
    conn.execute_batch(&views())
}

/// `column`, in milliseconds, as RFC 3339 in UTC. NULL beyond the years that it can write.
fn rfc3339(column: &str) -> String {
    format!(
        "strftime('%Y-%m-%dT%H:%M:%S', ({column} - ({column} % 1000 + 1000) % 1000) / 1000, 'unixepoch')
            || printf('.%03dZ', ({column} % 1000 + 1000) % 1000)"
    )
}

fn word<T: Coded>(column: &str) -> String {
    let cases: Vec<String> = T::ALL
        .iter()
        .map(|value| format!("WHEN {} THEN '{}'", value.code(), value.word()))
        .collect();
    format!("CASE {column} {} END", cases.join(" "))
}

fn views() -> String {
    let views = [
        job_views(),
        run_views(),
        attempt_views(),
        agent_views(),
        record_views(),
    ]
    .concat();
    views
        .into_iter()
        .map(|(name, columns, from)| {
            let columns = columns.join(", ");
            format!("CREATE VIEW {name} AS SELECT {columns} FROM {from};")
        })
        .collect::<Vec<_>>()
        .join("\n")
}

type View = (&'static str, Vec<String>, &'static str);

fn job_views() -> Vec<View> {
    let job = vec![
        "'job-' || job_id AS job".to_owned(),
        "name".to_owned(),
        "version".to_owned(),
        format!("{} AS fired_through", rfc3339("fired_through")),
        "CASE WHEN deleted THEN 'deleted' WHEN paused_at IS NULL THEN 'in force' \
         ELSE 'paused' END AS state"
            .to_owned(),
        format!("{} AS paused_at", rfc3339("paused_at")),
        "paused_by".to_owned(),
        "paused_reason".to_owned(),
        "iif(in_doubt, 'yes', NULL) AS in_doubt".to_owned(),
    ];
    let version = vec![
        "j.name AS name".to_owned(),
        "v.version AS version".to_owned(),
        format!("{} AS starts", rfc3339("v.starts")),
        format!("{} AS ends", rfc3339("v.ends")),
        format!("{} AS put_at", rfc3339("v.put_at")),
        "v.put_by AS put_by".to_owned(),
        "v.manifest AS manifest".to_owned(),
    ];
    let gap = vec![
        "j.name AS name".to_owned(),
        "g.version AS version".to_owned(),
        format!("{} AS after", rfc3339("g.after")),
        format!("{} AS through", rfc3339("g.through")),
        "g.count AS count".to_owned(),
        format!("{} AS reason", word::<GapReason>("g.reason")),
        format!("{} AS at", rfc3339("g.at")),
    ];
    vec![
        ("job_view", job, "jobs"),
        (
            "version_view",
            version,
            "versions v JOIN jobs j USING (job_id)",
        ),
        ("gap_view", gap, "gaps g JOIN jobs j USING (job_id)"),
    ]
}

fn run_views() -> Vec<View> {
    let run = vec![
        "'run-' || r.run_id AS run".to_owned(),
        "j.name AS name".to_owned(),
        "r.version AS version".to_owned(),
        format!("{} AS namespace", word::<Namespace>("r.namespace")),
        format!("{} AS fire_time", rfc3339("r.fire_time")),
        "r.nominal AS nominal".to_owned(),
        format!("{} AS state", word::<RunState>("r.state")),
        format!("coalesce(r.reason, {}) AS reason", waiting_words("r")),
        "r.execution AS execution".to_owned(),
        format!("{} AS trigger", word::<Trigger>("r.trigger")),
        "r.params AS params".to_owned(),
        "r.fence AS fence".to_owned(),
        format!("{} AS admitted_at", rfc3339("r.admitted_at")),
        format!("{} AS waits_for", word::<BlockerKind>("r.waits_on")),
        format!("{} AS waits_since", rfc3339("r.waits_since")),
        format!("{} AS ended_at", rfc3339("r.ended_at")),
        "r.shards AS shards".to_owned(),
        "r.pending AS pending".to_owned(),
        "r.leased AS leased".to_owned(),
        "r.succeeded AS succeeded".to_owned(),
        "r.needs_confirmation AS needs_confirmation".to_owned(),
        "r.cancelled AS cancelled".to_owned(),
    ];
    let execution = vec![
        "'run-' || e.run_id AS run".to_owned(),
        "j.name AS name".to_owned(),
        "e.execution AS execution".to_owned(),
        "'exec-' || e.execution_id AS id".to_owned(),
        format!("{} AS trigger", word::<Trigger>("e.trigger")),
        "e.asked_by AS asked_by".to_owned(),
        "e.reason AS reason".to_owned(),
        format!("{} AS admitted_at", rfc3339("e.admitted_at")),
    ];
    let shard = vec![
        "'run-' || s.run_id AS run".to_owned(),
        "j.name AS name".to_owned(),
        "s.shard AS shard".to_owned(),
        format!("{} AS state", word::<ShardKind>("s.state")),
        "iif(s.cancelling, 'yes', NULL) AS cancelling".to_owned(),
        "s.reason AS reason".to_owned(),
        format!("{} AS since", rfc3339("s.since")),
        "s.delay_ms AS delay_ms".to_owned(),
        "'token-' || s.token AS newest_token".to_owned(),
        "a.name AS agent".to_owned(),
        "s.retries_used AS retries_used".to_owned(),
        "s.free_ends AS free_ends".to_owned(),
        "s.attempts AS attempts".to_owned(),
        "s.holds AS holds".to_owned(),
    ];
    vec![
        ("run_view", run, "runs r JOIN jobs j USING (job_id)"),
        (
            "execution_view",
            execution,
            "executions e JOIN runs r USING (run_id) JOIN jobs j USING (job_id)",
        ),
        (
            "shard_view",
            shard,
            "shards s JOIN runs r USING (run_id) JOIN jobs j USING (job_id)
             LEFT JOIN agents a ON a.agent_id = s.agent_id",
        ),
    ]
}

fn attempt_views() -> Vec<View> {
    let attempt = vec![
        "'token-' || t.token AS token".to_owned(),
        "j.name AS name".to_owned(),
        "'run-' || t.run_id AS run".to_owned(),
        "t.shard AS shard".to_owned(),
        "t.execution AS execution".to_owned(),
        "t.attempt AS attempt".to_owned(),
        "a.name AS agent".to_owned(),
        format!("{} AS granted_at", rfc3339("t.granted_at")),
        format!("{} AS started_at", rfc3339("t.started_at")),
        format!("{} AS ended_at", rfc3339("t.ended_at")),
        format!("{} AS outcome", word::<AttemptOutcome>("t.outcome")),
        "iif(t.receipt, 'yes', NULL) AS receipt".to_owned(),
        "t.exit_code AS exit_code".to_owned(),
        "t.exit_signal AS exit_signal".to_owned(),
        "t.cpu_ms AS cpu_ms".to_owned(),
        "t.memory_bytes_peak AS memory_bytes_peak".to_owned(),
        "iif(t.out_of_memory, 'yes', NULL) AS out_of_memory".to_owned(),
        "t.memory_cache_bytes AS memory_cache_bytes".to_owned(),
        "t.read_bytes AS read_bytes".to_owned(),
        "t.write_bytes AS write_bytes".to_owned(),
        "t.read_operations AS read_operations".to_owned(),
        "t.write_operations AS write_operations".to_owned(),
        "t.stall_cpu_ms AS stall_cpu_ms".to_owned(),
        "t.stall_memory_ms AS stall_memory_ms".to_owned(),
        "t.stall_memory_full_ms AS stall_memory_full_ms".to_owned(),
        "t.stall_io_ms AS stall_io_ms".to_owned(),
        "nullif(t.partial, '') AS counted_in_part".to_owned(),
        "t.not_enforced AS limits_not_enforced".to_owned(),
        "t.reason AS reason".to_owned(),
        "t.tail AS tail".to_owned(),
        format!(
            "{} AS stale_outcome",
            word::<AttemptOutcome>("t.stale_outcome")
        ),
    ];
    vec![(
        "attempt_view",
        attempt,
        "attempts t JOIN runs r USING (run_id) JOIN jobs j USING (job_id)
         JOIN agents a ON a.agent_id = t.agent_id",
    )]
}

fn agent_views() -> Vec<View> {
    let agent = vec![
        "name".to_owned(),
        "'agent-' || agent_id AS agent".to_owned(),
        "'session-' || session AS session".to_owned(),
        "slots".to_owned(),
        "labels".to_owned(),
        format!("{} AS barred", word::<Bar>("barred")),
        "barred_reason".to_owned(),
        format!("{} AS cordon", word::<Cordon>("cordon")),
        "cordon_by".to_owned(),
        "cordon_reason".to_owned(),
        "silent_reigns".to_owned(),
        format!("{} AS noted_health", word::<Health>("noted_health")),
    ];
    let session = vec![
        "'session-' || s.session AS session".to_owned(),
        "a.name AS agent".to_owned(),
        "s.boot_id AS boot_id".to_owned(),
        "iif(s.swept, 'yes', NULL) AS swept".to_owned(),
        format!("{} AS attached_at", rfc3339("s.attached_at")),
        format!("{} AS ended_at", rfc3339("s.ended_at")),
    ];
    let profile = vec![
        "a.name AS agent".to_owned(),
        "p.generation AS generation".to_owned(),
        format!("{} AS since", rfc3339("p.since")),
        format!("{} AS registered_at", rfc3339("p.registered_at")),
        "p.facts AS facts".to_owned(),
        "p.report AS report".to_owned(),
    ];
    let change = vec![
        "a.name AS agent".to_owned(),
        format!("{} AS at", rfc3339("c.at")),
        "c.generation AS generation".to_owned(),
        format!("{} AS turn", word::<Turn>("c.turn")),
        "c.about AS about".to_owned(),
        "c.before AS before".to_owned(),
        "c.after AS after".to_owned(),
    ];
    let resource = ["name", "capacity", "in_use"].map(str::to_owned).into();
    vec![
        ("agent_view", agent, "agents"),
        ("resource_view", resource, "resources"),
        (
            "host_profile_view",
            profile,
            "host_profiles p JOIN agents a USING (agent_id)",
        ),
        (
            "host_change_view",
            change,
            "host_changes c JOIN agents a USING (agent_id)",
        ),
        (
            "session_view",
            session,
            "sessions s JOIN agents a USING (agent_id)",
        ),
    ]
}

fn record_views() -> Vec<View> {
    let alert = vec![
        "'alert-' || l.alert_id AS alert".to_owned(),
        format!("{} AS at", rfc3339("l.at")),
        format!("{} AS kind", word::<AlertKind>("l.kind")),
        "j.name AS name".to_owned(),
        "'run-' || l.run_id AS run".to_owned(),
        "a.name AS agent".to_owned(),
        "l.text AS text".to_owned(),
        "l.count AS count".to_owned(),
        format!("{} AS last_at", rfc3339("l.last_at")),
        format!("{} AS cleared_at", rfc3339("l.cleared_at")),
        "l.cleared_by AS cleared_by".to_owned(),
    ];
    let audit = vec![
        "u.audit_id AS audit".to_owned(),
        format!("{} AS at", rfc3339("u.at")),
        "u.by AS by".to_owned(),
        "u.source AS source".to_owned(),
        "u.action AS action".to_owned(),
        "j.name AS name".to_owned(),
        "'run-' || u.run_id AS run".to_owned(),
        "a.name AS agent".to_owned(),
        "u.reason AS reason".to_owned(),
    ];
    let token = vec![
        "name".to_owned(),
        format!("{} AS role", word::<ApiRole>("role")),
        "nullif(namespaces, 'null') AS namespaces".to_owned(),
        format!("{} AS created_at", rfc3339("created_at")),
        "created_by".to_owned(),
        format!("{} AS expires_at", rfc3339("expires_at")),
        format!("{} AS revoked_at", rfc3339("revoked_at")),
        "revoked_by".to_owned(),
    ];
    let join_token = vec![
        "'join-' || join_token_id AS join_token".to_owned(),
        format!("{} AS role", word::<Role>("role")),
        "nullif(name_prefix, '') AS name_prefix".to_owned(),
        "uses".to_owned(),
        "uses_left".to_owned(),
        format!("{} AS created_at", rfc3339("created_at")),
        "created_by".to_owned(),
        format!("{} AS expires_at", rfc3339("expires_at")),
        format!("{} AS revoked_at", rfc3339("revoked_at")),
        "revoked_by".to_owned(),
    ];
    let enrolment = vec![
        "name".to_owned(),
        format!("{} AS role", word::<Role>("role")),
        "node".to_owned(),
        "'join-' || join_token_id AS join_token".to_owned(),
        format!("{} AS at", rfc3339("at")),
        // Control machines renew theirs without asking the ledger.
        format!(
            "iif(role = 0, {}, NULL) AS certificate_until",
            rfc3339("good_until")
        ),
    ];
    let control_machine = vec![
        "node".to_owned(),
        "name".to_owned(),
        "store".to_owned(),
        format!("{} AS at", rfc3339("at")),
        "by".to_owned(),
        format!("{} AS removed_at", rfc3339("removed_at")),
        "removed_by".to_owned(),
    ];
    let reign = vec![
        "'epoch-' || epoch AS epoch".to_owned(),
        "node".to_owned(),
        format!("{} AS at", rfc3339("at")),
    ];
    let backup = vec![
        format!("{} AS good_at", rfc3339("good_at")),
        "node".to_owned(),
        "file".to_owned(),
        "bytes".to_owned(),
        format!("{} AS failed_at", rfc3339("failed_at")),
        "problem".to_owned(),
    ];
    let restore = vec![
        "position".to_owned(),
        format!("{} AS at", rfc3339("at")),
        format!("{} AS taken_at", rfc3339("taken_at")),
        "by".to_owned(),
        "reason".to_owned(),
        format!("{} AS released_at", rfc3339("released_at")),
    ];
    vec![
        (
            "alert_view",
            alert,
            "alerts l LEFT JOIN jobs j USING (job_id) LEFT JOIN agents a USING (agent_id)",
        ),
        (
            "audit_view",
            audit,
            "audit u LEFT JOIN jobs j USING (job_id) LEFT JOIN agents a USING (agent_id)",
        ),
        ("reign_view", reign, "reigns"),
        ("token_view", token, "api_tokens"),
        ("join_token_view", join_token, "join_tokens"),
        ("enrolment_view", enrolment, "enrolments"),
        ("control_machine_view", control_machine, "control_machines"),
        ("backup_view", backup, "backups"),
        ("restore_view", restore, "restores"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bed, attach};

    #[test]
    fn every_view_can_be_read_and_shows_a_run_with_what_belongs_to_it() {
        let mut bed = Bed::new();
        let job = bed.job("");
        let (_, session) = bed.attach(attach("h1"));
        let (run, _) = bed.fire(job, 1);
        let token = bed.grant(run, 0, session);
        let views = bed.view("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name");
        assert_eq!(views.len(), 21);
        for view in views {
            bed.view(&format!("SELECT * FROM {view}"));
        }
        assert_eq!(
            bed.view("SELECT run, name, state, newest_token, agent FROM shard_view"),
            [format!("{run}|team/job|leased|{token}|h1")]
        );
    }

    #[test]
    fn times_are_rfc_3339_before_and_after_1970() {
        let conn = Connection::open_in_memory().unwrap();
        for (ms, expected) in [
            (Some(0), Some("1970-01-01T00:00:00.000Z")),
            (Some(1_764_381_600_123), Some("2025-11-29T02:00:00.123Z")),
            (Some(-1), Some("1969-12-31T23:59:59.999Z")),
            (Some(-1000), Some("1969-12-31T23:59:59.000Z")),
            (Some(i64::MAX), None),
            (Some(i64::MIN), None),
            (None, None),
        ] {
            let shown: Option<String> = conn
                .query_row(
                    &format!("SELECT {} FROM (SELECT ?1 AS t)", rfc3339("t")),
                    [ms],
                    |row| row.get(0),
                )
                .unwrap();
            assert_eq!(shown.as_deref(), expected, "{ms:?}");
        }
    }
}
