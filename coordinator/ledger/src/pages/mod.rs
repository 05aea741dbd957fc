//! Lists that are asked for a page at a time, and stay fast however long they grow.
//!
//! A page begins after the last row of the one before it, found by a key: no page counts the rows
//! before it. Where a filter has no key to go by, a page looks at so many rows and no more, and
//! says where to go on; it may then hold fewer rows than were asked for, or none. So every page
//! costs about the same with a thousand rows and with a million, without an index that every fire
//! would have to keep up.

mod alerts;
mod audit;
mod fleet;
mod gaps;
mod hosts;
mod jobs;
mod join;
mod runs;
mod tokens;
mod usage;

use protocol::{JobName, Reach};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::tables::job::find_job_named;

pub use alerts::AlertFilter;
pub use audit::AuditFilter;
pub use hosts::RegisteredProfile;
pub use jobs::JobFilter;
pub use runs::{RunCursor, RunFilter};
pub(crate) use usage::USAGE_ATTEMPTS_MAX;

/// Most rows that one page lists.
pub const ROWS_MAX: u32 = 1000;

/// Most rows that are looked at for one page.
const EXAMINED_MAX: u32 = 20_000;

/// Some rows of a list, and where the next page begins, if the list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    pub rows: Vec<T>,
    /// The last row that this page has looked at.
    pub next: Option<C>,
}

/// A query whose rows come in the order of the list, and how far it is followed.
struct Walk {
    sql: String,
    values: Vec<Value>,
    /// Rows of the page.
    limit: u32,
    /// Rows that are looked at.
    examined_max: u32,
}

impl Walk {
    /// `read` makes of a row of the query its cursor, and what the page holds of it, if it does.
    fn go<T, C>(
        self,
        conn: &Connection,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<(C, Option<T>)>,
    ) -> rusqlite::Result<Page<T, C>> {
        let limit = self.limit.min(ROWS_MAX) as usize;
        let mut page = Page {
            rows: Vec::new(),
            next: None,
        };
        let mut examined = 0;
        let mut statement = conn.prepare(&self.sql)?;
        let mut rows = statement.query(params_from_iter(self.values))?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            if page.rows.len() == limit || examined == self.examined_max {
                page.next = last;
                break;
            }
            examined += 1;
            let (cursor, kept) = read(row)?;
            last = Some(cursor);
            page.rows.extend(kept);
        }
        Ok(page)
    }
}

/// Conditions in SQL with their values, in the order in which they are written.
#[derive(Clone, Default)]
struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    fn and(&mut self, sql: impl Into<String>, values: impl IntoIterator<Item = Value>) {
        self.sql.push(sql.into());
        self.values.extend(values);
    }

    /// That `name`, of a job, begins with this namespace.
    fn of_namespace(&mut self, name: &str, namespace: &str) {
        // `0` comes right after `/`.
        let bounds = [
            format!("{namespace}/").into(),
            format!("{namespace}0").into(),
        ];
        self.and(format!("{name} > ? AND {name} < ?"), bounds);
    }

    /// That `name`, of a job, is within reach; where not all is, nothing that is no job's.
    fn within(&mut self, name: &str, reach: &Reach) {
        let Some(namespaces) = reach.namespaces() else {
            return;
        };
        let mut ways = Conditions::default();
        for namespace in namespaces {
            ways.of_namespace(name, namespace.as_str());
        }
        let any = ways.sql.join(") OR (");
        self.and(format!("(({any}))"), ways.values);
    }

    /// That `column` is the id of the job that has this name, or had it.
    fn of_job(&mut self, conn: &Connection, column: &str, name: &JobName) -> rusqlite::Result<()> {
        let job = find_job_named(conn, name)?;
        // No job has the id 0.
        let job_id = job.map_or(0, |job| job.job_id.0);
        self.and(format!("{column} IS ?"), [job_id.into()]);
        Ok(())
    }

    fn sql(&self) -> String {
        if self.sql.is_empty() {
            return "TRUE".to_owned();
        }
        self.sql.join(" AND ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_and_at_what_it_may_look_at() {
        let conn = Connection::open_in_memory().unwrap();
        let page = |after: i64, limit, examined_max| {
            let walk = Walk {
                sql: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
                      SELECT i FROM n WHERE i > ?"
                    .to_owned(),
                values: vec![after.into()],
                limit,
                examined_max,
            };
            // Only every third is wanted.
            walk.go(&conn, |row| {
                let i: i64 = row.get(0)?;
                Ok((i, (i % 3 == 0).then_some(i)))
            })
            .unwrap()
        };
        for (after, limit, examined_max, rows, next) in [
            (0, 2, 100, vec![3, 6], Some(6)),
            (6, 2, 100, vec![9, 12], Some(12)),
            (12, 3, 100, vec![15, 18], None),
            (0, 100, 5, vec![3], Some(5)),
            (3, 100, 2, vec![], Some(5)),
            (18, 100, 2, vec![], None),
            (0, 6, 100, vec![3, 6, 9, 12, 15, 18], Some(18)),
        ] {
            let page = page(after, limit, examined_max);
            assert_eq!((page.rows, page.next), (rows, next), "after {after}");
        }
    }
}
