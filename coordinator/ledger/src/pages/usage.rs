//! Runs with what their attempts took, many to a page.
//!
//! A run may have ten thousand attempts, so a page is bounded by them too: it ends with the run with
//! which it has [`USAGE_ATTEMPTS_MAX`]. An attempt is a few hundred bytes, for none of its texts is in
//! it.

use protocol::{RunId, Token, WallMs, api};
use rusqlite::{OptionalExtension, Row};

use super::{Page, RunCursor, RunFilter};
use crate::answers::Answers;
use crate::codes::{coded_option, named};
use crate::tables::attempt::{USAGE_COLUMNS, read_usage};
use crate::tables::job::name_of;
use crate::tables::run::find_run;

/// A page ends with the run with which it has so many attempts.
pub(crate) const USAGE_ATTEMPTS_MAX: usize = 5_000;

impl Answers<'_> {
    /// The runs of a filter; a page ends with the run with which it has `attempts_max`.
    pub(crate) fn run_usages(
        &self,
        filter: &RunFilter,
        attempts_max: usize,
    ) -> rusqlite::Result<Page<api::RunUsage, RunCursor>> {
        let mut page = Page {
            rows: Vec::new(),
            next: None,
        };
        let Some(walk) = filter.walk(self.conn)? else {
            return Ok(page);
        };
        let found = walk.go(self.conn, |row| {
            let run_id = RunId(row.get(0)?);
            let fire_time = WallMs(row.get(1)?);
            let place = RunCursor { fire_time, run_id };
            Ok((place, row.get::<_, bool>(2)?.then_some(place)))
        })?;
        page.next = found.next;
        let mut attempts = 0;
        let mut places = found.rows.into_iter().peekable();
        while let Some(place) = places.next() {
            if let Some(usage) = self.run_usage(place.run_id)? {
                attempts += usage.attempts.len();
                page.rows.push(usage);
            }
            if attempts >= attempts_max && places.peek().is_some() {
                page.next = Some(place);
                break;
            }
        }
        Ok(page)
    }

    fn run_usage(&self, run_id: RunId) -> rusqlite::Result<Option<api::RunUsage>> {
        let Some(run) = find_run(self.conn, run_id)? else {
            return Ok(None);
        };
        let row = &run.row;
        Ok(Some(api::RunUsage {
            run: run_id,
            job: name_of(self.conn, row.job_id)?,
            version: row.version,
            fire_time: row.fire_time,
            nominal: row.nominal.clone(),
            state: row.state,
            execution: row.execution,
            shards: row.shards,
            admitted_at: row.admitted_at,
            ended_at: run.ended_at,
            attempts: self.attempt_usages(run_id)?,
        }))
    }

    fn attempt_usages(&self, run_id: RunId) -> rusqlite::Result<Vec<api::AttemptUsage>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT token FROM shards WHERE run_id = ?1 AND token IS NOT NULL ORDER BY shard",
        )?;
        let mut rows = statement.query([run_id.0])?;
        let mut usages = Vec::new();
        while let Some(row) = rows.next()? {
            let of_shard = usages.len();
            let mut next = Some(Token(row.get(0)?));
            while let Some(token) = next {
                let Some((usage, earlier)) = self.attempt_usage(token)? else {
                    break;
                };
                usages.push(usage);
                // Tokens rise, so the list ends; a damaged one must not hold a reader for ever.
                next = earlier.filter(|earlier| *earlier < token);
            }
            usages[of_shard..].reverse();
        }
        Ok(usages)
    }

    fn attempt_usage(
        &self,
        token: Token,
    ) -> rusqlite::Result<Option<(api::AttemptUsage, Option<Token>)>> {
        self.conn
            .prepare_cached(&format!(
                "SELECT t.earlier, t.shard, t.execution, a.name, t.granted_at, t.started_at,
                    t.ended_at, t.outcome, t.cpu_ms, t.memory_bytes_peak,
                    ifnull(length(CAST(t.reason AS BLOB)), 0)
                        + ifnull(length(CAST(t.tail AS BLOB)), 0),
                    {USAGE_COLUMNS}
                 FROM attempts t JOIN agents a USING (agent_id) WHERE t.token = ?1"
            ))?
            .query_row([token.0], |row| {
                let earlier = row.get::<_, Option<i64>>(0)?.map(Token);
                Ok((read_attempt_usage(row)?, earlier))
            })
            .optional()
    }
}

fn read_attempt_usage(row: &Row<'_>) -> rusqlite::Result<api::AttemptUsage> {
    Ok(api::AttemptUsage {
        shard: row.get(1)?,
        execution: row.get(2)?,
        agent: named(row, 3)?,
        granted_at: WallMs(row.get(4)?),
        started_at: row.get::<_, Option<i64>>(5)?.map(WallMs),
        ended_at: row.get::<_, Option<i64>>(6)?.map(WallMs),
        outcome: coded_option(row, 7)?,
        cpu_ms: row.get(8)?,
        memory_bytes_peak: row.get::<_, Option<i64>>(9)?.map(i64::cast_unsigned),
        usage: read_usage(row, 11)?,
        text_bytes: row.get::<_, i64>(10)?.cast_unsigned(),
    })
}

#[cfg(test)]
mod tests {
    use protocol::attempt::AttemptOutcome;

    use super::*;
    use crate::testing::{Bed, attach, end, finish};

    #[test]
    fn a_page_ends_with_the_run_that_fills_it() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: allow\nshards: 3\nretry: { at_most: 1 }");
        let (agent, session) = bed.attach(attach("h1"));
        let runs: Vec<RunId> = (1..=3).map(|minute| bed.fire(job, minute).0).collect();
        for &run in &runs {
            for shard in 0..3 {
                let token = bed.grant(run, shard, session);
                let mut ended = end(AttemptOutcome::Failed);
                ended.tail = "oh ü".to_owned();
                bed.ok(finish(agent, token, ended));
            }
        }
        // A second attempt, of the newest run's first shard alone.
        bed.grant(runs[2], 0, session);
        let pages = |attempts_max| {
            let (mut pages, mut before) = (Vec::new(), None);
            loop {
                let filter = RunFilter {
                    before,
                    limit: 10,
                    ..RunFilter::default()
                };
                let page = bed.store.answers().run_usages(&filter, attempts_max);
                let page = page.unwrap();
                pages.push(page.rows);
                before = page.next;
                if before.is_none() {
                    return pages;
                }
            }
        };
        let shape = |attempts_max| {
            let pages = pages(attempts_max);
            let of_page = |rows: &Vec<api::RunUsage>| {
                let row = |row: &api::RunUsage| (row.run.0, row.attempts.len());
                rows.iter().map(row).collect::<Vec<_>>()
            };
            pages.iter().map(of_page).collect::<Vec<_>>()
        };
        assert_eq!(shape(100), [[(3, 4), (2, 3), (1, 3)]]);
        assert_eq!(shape(5), [vec![(3, 4), (2, 3)], vec![(1, 3)]]);
        assert_eq!(shape(1), [vec![(3, 4)], vec![(2, 3)], vec![(1, 3)]]);
        let whole = pages(100).remove(0).remove(0);
        let of: Vec<_> = whole
            .attempts
            .iter()
            .map(|it| (it.shard, it.outcome))
            .collect();
        let failed = Some(AttemptOutcome::Failed);
        assert_eq!(of, [(0, failed), (0, None), (1, failed), (2, failed)]);
        assert_eq!(whole.attempts[1].text_bytes, 0);
        assert!(whole.attempts[0].text_bytes >= 5, "{whole:?}");
        assert_eq!(whole.attempts[0].agent.as_str(), "h1");
    }
}
