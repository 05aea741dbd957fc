//! The side of everybody who only looks: a read-only connection beside the writer's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::Manifest;
use protocol::{
    AgentId, AgentName, AlertId, JobName, JoinTokenId, ResourceName, RunId, TokenName, WallMs, api,
};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::answers::Answers;
use crate::lease_times::{self, LeaseTimes};
use crate::outcome::Refusal;
use crate::pages::{
    AlertFilter, AuditFilter, JobFilter, Page, RegisteredProfile, RunCursor, RunFilter,
    USAGE_ATTEMPTS_MAX,
};
use crate::preview::{PutPreview, Standing};
use crate::schema::SCHEMA_VERSION;
use crate::seen::JobSeen;
use crate::tables::job::find_job_named;
use crate::tables::token::{TokenRow, find_token_by_secret};

/// Steps of SQLite's machine between two looks at the budget.
const STEPS_A_LOOK: i32 = 10_000;

/// Looks that one query may live through: 100 million steps are seconds on a slow machine. A
/// reader that goes on for longer would hold back the checkpoints of the writer's log.
const LOOKS_MAX: u32 = 10_000;

/// Reads the ledger while its one writer writes, each answer from one moment.
pub struct Reader {
    conn: Connection,
    looks_left: Arc<AtomicU32>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    #[error("opening the ledger {path} to read")]
    Open {
        path: String,
        source: rusqlite::Error,
    },
    #[error(
        "the ledger {path} has schema version {found}, and this program knows version {known}: use the version of matins that wrote it"
    )]
    Schema {
        path: String,
        found: i64,
        known: i64,
    },
    #[error("{doing} took too long and was given up: ask for less, for example for one job")]
    TooLong { doing: &'static str },
    #[error("{doing}")]
    Query {
        doing: &'static str,
        source: rusqlite::Error,
    },
}

impl Reader {
    /// Opens a ledger that its writer has created.
    pub fn open(path: &Path) -> Result<Reader, ReaderError> {
        let mut conn = open_to_read(path)?;
        let looks_left = budget(&mut conn).map_err(|source| ReaderError::Open {
            path: path.display().to_string(),
            source,
        })?;
        Ok(Reader { conn, looks_left })
    }

    /// Jobs in force, by name.
    pub fn jobs(&self, filter: &JobFilter) -> Result<Page<api::Job, JobName>, ReaderError> {
        self.answer("listing jobs", |answers| answers.jobs(filter))
    }

    /// A job in force, under its present name or one that it had before.
    pub fn job(&self, name: &JobName) -> Result<Option<api::JobDetail>, ReaderError> {
        self.answer("reading a job", |answers| answers.job(name))
    }

    /// What the newest runs of a job have used, under its present name or one that it had before.
    pub fn seen(&self, name: &JobName) -> Result<Option<JobSeen>, ReaderError> {
        self.answer("reading what a job has used", |answers| answers.seen(name))
    }

    /// What is known of one instant of a job, under any name that it ever had.
    pub fn expectation(
        &self,
        name: &JobName,
        at: WallMs,
    ) -> Result<Option<api::Expectation>, ReaderError> {
        self.answer("reading what was expected", |answers| {
            answers.expectation(name, at)
        })
    }

    /// What a put of this manifest would come to now.
    pub fn preview_put(
        &self,
        manifest: &Manifest,
    ) -> Result<Result<PutPreview, Refusal>, ReaderError> {
        self.answer("judging a manifest", |answers| {
            PutPreview::read(answers.conn, manifest)
        })
    }

    /// A job in force, under its present name or one that it had before, and what of it is open.
    pub fn standing(&self, name: &JobName) -> Result<Option<Standing>, ReaderError> {
        self.answer("reading a job", |answers| {
            Standing::read(answers.conn, name)
        })
    }

    /// Runs, newest first: those of one job by fire time, all others as they were admitted.
    pub fn runs(&self, filter: &RunFilter) -> Result<Page<api::Run, RunCursor>, ReaderError> {
        self.answer("listing runs", |answers| answers.runs(filter))
    }

    /// The same runs, each with what its attempts took.
    pub fn run_usages(
        &self,
        filter: &RunFilter,
    ) -> Result<Page<api::RunUsage, RunCursor>, ReaderError> {
        self.answer("listing what runs took", |answers| {
            answers.run_usages(filter, USAGE_ATTEMPTS_MAX)
        })
    }

    pub fn run(&self, run_id: RunId) -> Result<Option<api::RunDetail>, ReaderError> {
        self.answer("reading a run", |answers| answers.run(run_id))
    }

    /// Gaps of a job under any name it ever had, newest first; `None` where it never was. Places are
    /// by gap.
    pub fn gaps(
        &self,
        job: &JobName,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Option<Page<api::Gap, i64>>, ReaderError> {
        self.answer("listing gaps", |answers| {
            answers.gaps_of(job, before, limit)
        })
    }

    /// What people did, newest first. Places are by entry.
    pub fn audit(&self, filter: &AuditFilter) -> Result<Page<api::AuditEntry, i64>, ReaderError> {
        self.answer("listing the audit", |answers| answers.audit(filter))
    }

    /// The run of an instant, or else the manual run of exactly that time.
    pub fn find_run(
        &self,
        name: &JobName,
        fire_time: WallMs,
    ) -> Result<Option<RunId>, ReaderError> {
        self.answer("looking for a run", |answers| {
            answers.find_run(name, fire_time)
        })
    }

    /// Resources by name.
    pub fn resources(
        &self,
        after: Option<&ResourceName>,
        limit: u32,
    ) -> Result<Page<api::Resource, ResourceName>, ReaderError> {
        self.answer("listing resources", |answers| {
            answers.resources(after, limit)
        })
    }

    /// The token with the secret of this SHA-256, one that is over too.
    pub fn token_by_secret(&self, secret: &str) -> Result<Option<TokenRow>, ReaderError> {
        self.answer("looking for a token", |answers| {
            find_token_by_secret(answers.conn, secret)
        })
    }

    /// API tokens by name, those that are over too.
    pub fn tokens(
        &self,
        after: Option<&TokenName>,
        limit: u32,
    ) -> Result<Page<api::ApiToken, TokenName>, ReaderError> {
        self.answer("listing the tokens", |answers| answers.tokens(after, limit))
    }

    /// Join tokens, newest first, those that are over too.
    pub fn join_tokens(
        &self,
        before: Option<JoinTokenId>,
        limit: u32,
    ) -> Result<Page<api::JoinToken, JoinTokenId>, ReaderError> {
        self.answer("listing the join tokens", |answers| {
            answers.join_tokens(before, limit)
        })
    }

    /// The present name of a run's job.
    pub fn job_of_run(&self, run_id: RunId) -> Result<Option<JobName>, ReaderError> {
        self.answer("looking for a run's job", |answers| {
            answers.job_of_run(run_id)
        })
    }

    /// The present name of the job that has this name, or had it.
    pub fn present_name(&self, name: &JobName) -> Result<Option<JobName>, ReaderError> {
        self.answer("looking for a job", |answers| {
            let job = find_job_named(answers.conn, name)?;
            Ok(job.map(|job| job.name))
        })
    }

    /// The present name of the job that an alert is about; `None` where it is about none.
    pub fn job_of_alert(&self, alert: AlertId) -> Result<Option<JobName>, ReaderError> {
        self.answer("looking for an alert's job", |answers| {
            answers.job_of_alert(alert)
        })
    }

    /// What an agent holds, by token.
    pub fn leases_of(&self, agent_id: AgentId) -> Result<Vec<api::AgentLease>, ReaderError> {
        self.answer("listing what an agent holds", |answers| {
            answers.leases_of(agent_id)
        })
    }

    /// Agents by name, `ready` where they have a session: whether one is silent the leader knows.
    pub fn agents(
        &self,
        after: Option<&AgentName>,
        limit: u32,
    ) -> Result<Page<api::Agent, AgentName>, ReaderError> {
        self.answer("listing agents", |answers| answers.agents(after, limit))
    }

    /// One agent, as [`Reader::agents`] shows it.
    pub fn agent(&self, name: &AgentName) -> Result<Option<api::Agent>, ReaderError> {
        self.answer("reading an agent", |answers| answers.agent(name))
    }

    /// What a host last registered, if it has.
    pub fn host_profile(&self, name: &AgentName) -> Result<Option<RegisteredProfile>, ReaderError> {
        self.answer("reading a host's profile", |answers| {
            answers.host_profile(name)
        })
    }

    /// How a host's profiles differed from the ones before, the newest first.
    pub fn host_changes(
        &self,
        name: &AgentName,
        limit: u32,
    ) -> Result<Vec<api::HostChange>, ReaderError> {
        self.answer("reading the changes of a host", |answers| {
            answers.host_changes(name, limit)
        })
    }

    /// Alerts, those opened last first.
    pub fn alerts(&self, filter: &AlertFilter) -> Result<Page<api::Alert, AlertId>, ReaderError> {
        self.answer("listing alerts", |answers| answers.alerts(filter))
    }

    /// When the leases were granted, told and ended that ended in [`from`, `until`).
    pub fn leases_ended(
        &self,
        from: WallMs,
        until: WallMs,
    ) -> Result<Vec<LeaseTimes>, ReaderError> {
        self.answer("reading leases", |answers| {
            lease_times::ended(answers.conn, from, until)
        })
    }

    /// Who attached at this moment or later, and when, by the clock of the leader.
    pub fn attached(&self, from: WallMs) -> Result<Vec<(AgentId, WallMs)>, ReaderError> {
        self.answer("reading sessions", |answers| {
            lease_times::attached(answers.conn, from)
        })
    }

    /// How many alerts of each kind are open.
    #[allow(clippy::redundant_closure_for_method_calls)] // the method fits one lifetime only
    pub fn open_alerts_by_kind(&self) -> Result<BTreeMap<&'static str, u64>, ReaderError> {
        self.answer("counting the open alerts", |answers| {
            answers.open_alerts_by_kind()
        })
    }

    /// Answers from one moment of the ledger, within the budget.
    fn answer<T>(
        &self,
        doing: &'static str,
        ask: impl FnOnce(&Answers<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, ReaderError> {
        self.looks_left.store(LOOKS_MAX, Ordering::Relaxed);
        self.conn
            .unchecked_transaction()
            .and_then(|moment| {
                let answer = ask(&Answers { conn: &moment })?;
                moment.commit()?;
                Ok(answer)
            })
            .map_err(|source| match source.sqlite_error_code() {
                Some(ErrorCode::OperationInterrupted) => ReaderError::TooLong { doing },
                _ => ReaderError::Query { doing, source },
            })
    }
}

/// A connection that only reads, to a ledger whose tables this program knows.
pub(crate) fn open_to_read(path: &Path) -> Result<Connection, ReaderError> {
    let named = path.display().to_string();
    let opened = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .and_then(|conn| {
        conn.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = ON;")?;
        let found = conn.query_row("SELECT schema_version FROM meta", [], |row| row.get(0))?;
        Ok((conn, found))
    });
    let (conn, found) = opened.map_err(|source| ReaderError::Open {
        path: named.clone(),
        source,
    })?;
    if found != SCHEMA_VERSION {
        return Err(ReaderError::Schema {
            path: named,
            found,
            known: SCHEMA_VERSION,
        });
    }
    Ok(conn)
}

/// Stops a query that has used up its looks.
fn budget(conn: &mut Connection) -> rusqlite::Result<Arc<AtomicU32>> {
    let looks_left = Arc::new(AtomicU32::new(LOOKS_MAX));
    let left = Arc::clone(&looks_left);
    let spend = move || {
        let spent = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        spent.is_err()
    };
    conn.progress_handler(STEPS_A_LOOK, Some(spend))?;
    Ok(looks_left)
}

#[cfg(test)]
mod tests {
    use protocol::Rules;

    use super::*;
    use crate::Store;

    #[test]
    fn a_query_without_end_is_given_up_and_the_reader_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let _writer = Store::open(&path, Rules::all()).unwrap();
        let reader = Reader::open(&path).unwrap();
        let endless = reader.answer("counting for ever", |answers| {
            answers.conn.query_row(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                 SELECT count(*) FROM n",
                [],
                |row| row.get::<_, i64>(0),
            )
        });
        assert!(matches!(endless, Err(ReaderError::TooLong { .. })));
        let all = JobFilter {
            limit: 1,
            ..JobFilter::default()
        };
        assert_eq!(reader.jobs(&all).unwrap().rows, []);
    }

    #[test]
    fn a_reader_cannot_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let _writer = Store::open(&path, Rules::all()).unwrap();
        let reader = Reader::open(&path).unwrap();
        let written = reader.answer("writing", |answers| {
            answers.conn.execute("UPDATE meta SET position = 0", [])
        });
        assert!(matches!(written, Err(ReaderError::Query { .. })));
    }
}
