//! Runs by page.
//!
//! Those of one job come in the order of their fire times, by the key that makes them unique. All
//! others come in the order in which they were admitted, by their ids.

use protocol::{AgentName, JobName, NamespaceName, Reach, RunId, WallMs, api};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::{Conditions, EXAMINED_MAX, Page, ROWS_MAX, Walk};
use crate::answers::Answers;
use crate::codes::Coded;
use crate::rows::{Namespace, RunState};
use crate::tables::job::find_job_named;
use crate::tables::run::find_run;

/// Most runs that are looked at for a page of those that an agent worked on: for each, its shards
/// and their attempts are.
const EXAMINED_MAX_OF_AGENT: u32 = 2_000;

/// Which runs to list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Under its present name or one that it had before; of deleted jobs too.
    pub job: Option<JobName>,
    /// Of jobs whose present names are in this namespace.
    pub namespace: Option<NamespaceName>,
    /// Of these jobs only.
    pub within: Reach,
    pub state: Option<RunState>,
    /// With a fire time not before this.
    pub from: Option<WallMs>,
    /// With a fire time before this.
    pub to: Option<WallMs>,
    /// Of which at least one attempt was this agent's.
    pub agent: Option<AgentName>,
    /// Only runs admitted after this one, oldest first.
    pub after_id: Option<RunId>,
    /// Only these runs.
    pub ids: Option<Vec<RunId>>,
    /// Where the page before this one ended.
    pub before: Option<RunCursor>,
    /// At most [`ROWS_MAX`].
    pub limit: u32,
}

/// A place in a list of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCursor {
    pub fire_time: WallMs,
    pub run_id: RunId,
}

impl Answers<'_> {
    pub(crate) fn runs(&self, filter: &RunFilter) -> rusqlite::Result<Page<api::Run, RunCursor>> {
        let Some(walk) = filter.walk(self.conn)? else {
            return Ok(Page {
                rows: Vec::new(),
                next: None,
            });
        };
        let found = walk.go(self.conn, |row| {
            let run_id = RunId(row.get(0)?);
            let fire_time = WallMs(row.get(1)?);
            let wanted: bool = row.get(2)?;
            Ok((RunCursor { fire_time, run_id }, wanted.then_some(run_id)))
        })?;
        let mut rows = Vec::with_capacity(found.rows.len());
        for run_id in found.rows {
            if let Some(run) = find_run(self.conn, run_id)? {
                rows.push(self.show_run(&run)?);
            }
        }
        let next = found.next;
        Ok(Page { rows, next })
    }
}

impl RunFilter {
    /// The way through the table; `None` where the filter's job never was.
    pub(super) fn walk(&self, conn: &Connection) -> rusqlite::Result<Option<Walk>> {
        let mut wanted = self.wanted();
        let mut of_job = None;
        if let Some(name) = &self.job {
            let Some(job) = find_job_named(conn, name)? else {
                return Ok(None);
            };
            of_job = Some(job.job_id.0);
        }
        let (sql, values) = match of_job {
            Some(job_id) if self.after_id.is_none() && self.ids.is_none() => {
                self.of_job(job_id, &wanted)
            }
            Some(job_id) => {
                wanted.and("job_id = ?", [job_id.into()]);
                self.by_id(&wanted)
            }
            None => self.by_id(&wanted),
        };
        let examined_max = match self.agent {
            Some(_) => EXAMINED_MAX_OF_AGENT,
            None => EXAMINED_MAX,
        };
        Ok(Some(Walk {
            sql,
            values,
            limit: self.limit,
            examined_max,
        }))
    }

    /// What no key finds: judged of each run that is looked at.
    fn wanted(&self) -> Conditions {
        let mut wanted = Conditions::default();
        if let Some(state) = self.state {
            wanted.and(format!("state = {}", state.code()), []);
        }
        if let Some(from) = self.from {
            wanted.and("fire_time >= ?", [from.0.into()]);
        }
        if let Some(to) = self.to {
            wanted.and("fire_time < ?", [to.0.into()]);
        }
        let mut named = Conditions::default();
        if let Some(namespace) = &self.namespace {
            named.of_namespace("j.name", namespace.as_str());
        }
        named.within("j.name", &self.within);
        if !named.sql.is_empty() {
            wanted.and(
                format!(
                    "EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = runs.job_id AND {})",
                    named.sql()
                ),
                named.values,
            );
        }
        if let Some(agent) = &self.agent {
            wanted.and(
                "EXISTS (
                    WITH RECURSIVE tried(token) AS (
                        SELECT s.token FROM shards s
                        WHERE s.run_id = runs.run_id AND s.token IS NOT NULL
                        UNION ALL
                        SELECT t.earlier FROM tried JOIN attempts t USING (token)
                        WHERE t.earlier < t.token)
                    SELECT 1 FROM tried JOIN attempts t USING (token)
                    WHERE t.agent_id = (SELECT agent_id FROM agents WHERE name = ?))",
                [agent.as_str().to_owned().into()],
            );
        }
        wanted
    }

    /// By fire time, along the key of the job's runs: one way for those of its schedule and one for
    /// those that people asked for, merged.
    fn of_job(&self, job_id: i64, wanted: &Conditions) -> (String, Vec<Value>) {
        let mut ways = Vec::new();
        let mut values = Vec::new();
        for namespace in Namespace::ALL {
            let mut key = Conditions::default();
            key.and("job_id = ?", [job_id.into()]);
            key.and(format!("namespace = {}", namespace.code()), []);
            if let Some(from) = self.from {
                key.and("fire_time >= ?", [from.0.into()]);
            }
            if let Some(to) = self.to {
                key.and("fire_time < ?", [to.0.into()]);
            }
            if let Some(RunCursor { fire_time, run_id }) = self.before {
                let place = [fire_time.0.into(), run_id.0.into()];
                key.and("(fire_time, run_id) < (?, ?)", place);
            }
            ways.push(format!(
                "SELECT run_id, fire_time, {} FROM runs INDEXED BY runs_by_fire WHERE {}",
                wanted.sql(),
                key.sql()
            ));
            values.extend(wanted.values.clone());
            values.extend(key.values);
        }
        let ways = ways.join(" UNION ALL ");
        (format!("{ways} ORDER BY 2 DESC, 1 DESC"), values)
    }

    fn by_id(&self, wanted: &Conditions) -> (String, Vec<Value>) {
        let mut key = Conditions::default();
        let mut index = "NOT INDEXED";
        let mut order = "DESC";
        if let Some(after) = self.after_id {
            order = "ASC";
            key.and("run_id > ?", [after.0.into()]);
        }
        if let Some(ids) = &self.ids {
            let ids = ids.iter().take(ROWS_MAX as usize);
            let marks = vec!["?"; ids.len()].join(", ");
            key.and(
                format!("run_id IN ({marks})"),
                ids.map(|id| Value::from(id.0)),
            );
        } else if self.state.is_some_and(|state| !state.is_final()) {
            // Few are open, and the partial index has them all.
            index = "INDEXED BY runs_open";
            key.and("state < 4", []);
            key.and(wanted.sql(), wanted.values.clone());
        }
        if let Some(cursor) = self.before {
            key.and("run_id < ?", [cursor.run_id.0.into()]);
        }
        let sql = format!(
            "SELECT run_id, fire_time, {} FROM runs {index} WHERE {} ORDER BY run_id {order}",
            wanted.sql(),
            key.sql()
        );
        let mut values = wanted.values.clone();
        values.extend(key.values);
        (sql, values)
    }
}
