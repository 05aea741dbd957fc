//! Attempts: one row for each lease that was ever granted.

use std::collections::BTreeSet;

use protocol::attempt::{
    AttemptEnd, AttemptOutcome, Counted, Exit, Limit, OUTPUT_TAIL_BYTES_MAX, Usage,
};
use protocol::{AgentId, RunId, SessionId, Token, WallMs};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::{Context, Stop, clip};
use crate::codes::{Coded, ShardKind, coded_option};
use crate::outcome::{Owed, Refusal};

/// What the commands ask about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) token: Token,
    pub(crate) run_id: RunId,
    pub(crate) shard: u32,
    pub(crate) agent_id: AgentId,
    pub(crate) session: SessionId,
    pub(crate) started_at: Option<WallMs>,
    pub(crate) ended_at: Option<WallMs>,
    /// Its host has spoken: ended by a receipt, or a receipt came too late.
    pub(crate) heard: bool,
}

/// A lease as it is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewAttempt {
    pub(crate) token: Token,
    /// Of the shard's lease before this one.
    pub(crate) earlier: Option<Token>,
    pub(crate) run_id: RunId,
    pub(crate) shard: u32,
    pub(crate) execution: u32,
    pub(crate) attempt: u32,
    pub(crate) agent_id: AgentId,
    pub(crate) session: SessionId,
}

pub(crate) fn find_attempt(conn: &Connection, token: Token) -> rusqlite::Result<Option<Attempt>> {
    conn.prepare_cached(
        "SELECT token, run_id, shard, agent_id, session, started_at, ended_at, receipt,
            stale_outcome
         FROM attempts WHERE token = ?1",
    )?
    .query_row([token.0], |row| {
        let stale: Option<AttemptOutcome> = coded_option(row, 8)?;
        Ok(Attempt {
            token: Token(row.get(0)?),
            run_id: RunId(row.get(1)?),
            shard: row.get(2)?,
            agent_id: AgentId(row.get(3)?),
            session: SessionId(row.get(4)?),
            started_at: row.get::<_, Option<i64>>(5)?.map(WallMs),
            ended_at: row.get::<_, Option<i64>>(6)?.map(WallMs),
            heard: row.get::<_, bool>(7)? || stale.is_some(),
        })
    })
    .optional()
}

impl Context<'_> {
    /// The attempt of a token, for the agent that it was granted to.
    pub(crate) fn attempt_of(&self, token: Token, agent_id: AgentId) -> Result<Attempt, Stop> {
        let attempt = find_attempt(self.conn, token)?.ok_or(Refusal::NoSuchToken { token })?;
        if attempt.agent_id == agent_id {
            Ok(attempt)
        } else {
            Err(Refusal::NotYourToken { token }.into())
        }
    }

    /// What an agent's attempt, whose lease has ended unheard, may still finish: its shard, while
    /// it is pending and no later lease was granted.
    pub(crate) fn owed_receipt(
        &self,
        token: Token,
        agent_id: AgentId,
    ) -> Result<Option<Owed>, Stop> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT s.run_id, s.shard
                 FROM attempts a JOIN shards s ON s.run_id = a.run_id AND s.shard = a.shard
                 WHERE a.token = ?1 AND a.agent_id = ?2 AND a.receipt = 0
                    AND s.token = a.token AND s.state = ?3",
            )?
            .query_row(
                params![token.0, agent_id.0, ShardKind::Pending.code()],
                |row| {
                    Ok(Owed {
                        token,
                        run_id: RunId(row.get(0)?),
                        shard: row.get(1)?,
                    })
                },
            )
            .optional()?)
    }

    pub(crate) fn insert_attempt(&mut self, new: NewAttempt) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "INSERT INTO attempts (token, earlier, run_id, shard, execution, attempt,
                    agent_id, session, granted_at, receipt)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0)",
            )?
            .execute(params![
                new.token.0,
                new.earlier.map(|token| token.0),
                new.run_id.0,
                new.shard,
                new.execution,
                new.attempt,
                new.agent_id.0,
                new.session.0,
                self.at.0,
            ])?;
        Ok(())
    }

    pub(crate) fn mark_attempt_started(&mut self, token: Token, at: WallMs) -> Result<(), Stop> {
        self.conn
            .prepare_cached("UPDATE attempts SET started_at = ?2 WHERE token = ?1")?
            .execute(params![token.0, at.0])?;
        Ok(())
    }

    /// Ends an attempt that its host did not report.
    pub(crate) fn end_attempt_unheard(
        &mut self,
        token: Token,
        outcome: AttemptOutcome,
        reason: &str,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached(
                "UPDATE attempts SET ended_at = ?2, outcome = ?3, reason = ?4 WHERE token = ?1",
            )?
            .execute(params![token.0, self.at.0, outcome.code(), reason])?;
        Ok(())
    }

    /// Ends an attempt as its host reported it, or corrects an end that was only presumed.
    pub(crate) fn end_attempt_by_receipt(
        &mut self,
        token: Token,
        end: &AttemptEnd,
    ) -> Result<(), Stop> {
        let (code, signal) = match end.exit {
            None => (None, None),
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
        };
        let usage = end.usage.as_deref();
        let of = |pick: fn(&Usage) -> Option<u64>| usage.and_then(pick).map(clip_number);
        self.conn
            .prepare_cached(
                "UPDATE attempts SET started_at = coalesce(?2, started_at), ended_at = ?3,
                    outcome = ?4, receipt = 1, exit_code = ?5, exit_signal = ?6, cpu_ms = ?7,
                    memory_bytes_peak = ?8, reason = ?9, tail = ?10, out_of_memory = ?11,
                    not_enforced = ?12, memory_cache_bytes = ?13, read_bytes = ?14,
                    write_bytes = ?15, read_operations = ?16, write_operations = ?17,
                    stall_cpu_ms = ?18, stall_memory_ms = ?19, stall_memory_full_ms = ?20,
                    stall_io_ms = ?21, partial = ?22
                 WHERE token = ?1",
            )?
            .execute(params![
                token.0,
                end.started_at.map(|at| at.0),
                end.ended_at.0,
                end.outcome.code(),
                code,
                signal,
                end.cpu.0,
                clip_number(end.memory_bytes_peak),
                end.reason.as_deref().map(clip),
                tail_of(&end.tail),
                end.out_of_memory,
                names_of(&end.not_enforced),
                of(|u| u.memory_cache_bytes),
                of(|u| u.read_bytes),
                of(|u| u.write_bytes),
                of(|u| u.read_operations),
                of(|u| u.write_operations),
                of(|u| u.stall_cpu_ms),
                of(|u| u.stall_memory_ms),
                of(|u| u.stall_memory_full_ms),
                of(|u| u.stall_io_ms),
                usage.map(partial_words),
            ])?;
        Ok(())
    }

    /// Notes what a receipt said that came after a later grant.
    pub(crate) fn note_stale_receipt(
        &mut self,
        token: Token,
        outcome: AttemptOutcome,
    ) -> Result<(), Stop> {
        self.conn
            .prepare_cached("UPDATE attempts SET stale_outcome = ?2 WHERE token = ?1")?
            .execute(params![token.0, outcome.code()])?;
        Ok(())
    }
}

/// Columns that [`read_usage`] reads, in its order.
pub(crate) const USAGE_COLUMNS: &str =
    "t.partial, t.memory_cache_bytes, t.read_bytes, t.write_bytes, t.read_operations,
     t.write_operations, t.stall_cpu_ms, t.stall_memory_ms, t.stall_memory_full_ms, t.stall_io_ms";

/// `None` where nobody has measured it.
pub(crate) fn read_usage(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Usage>> {
    let Some(words) = row.get::<_, Option<String>>(first)? else {
        return Ok(None);
    };
    let number = |place: usize| {
        let number: Option<i64> = row.get(first + place)?;
        Ok::<_, rusqlite::Error>(number.map(i64::cast_unsigned))
    };
    let is = |counted: &Counted| words.split(", ").any(|word| word == counted.as_str());
    Ok(Some(Usage {
        memory_cache_bytes: number(1)?,
        read_bytes: number(2)?,
        write_bytes: number(3)?,
        read_operations: number(4)?,
        write_operations: number(5)?,
        stall_cpu_ms: number(6)?,
        stall_memory_ms: number(7)?,
        stall_memory_full_ms: number(8)?,
        stall_io_ms: number(9)?,
        partial: Counted::ALL.into_iter().filter(is).collect(),
    }))
}

/// Empty where all is counted in full: then somebody has measured, and nothing is missing.
fn partial_words(usage: &Usage) -> String {
    let is = |counted: &Counted| usage.partial.contains(counted);
    let words = Counted::ALL.into_iter().filter(is).map(Counted::as_str);
    words.collect::<Vec<_>>().join(", ")
}

fn clip_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// As a person reads them in a view, `memory, pids`; `None` where there is none.
fn names_of(limits: &[Limit]) -> Option<String> {
    // A host can repeat what it says; the ledger keeps each name once.
    let limits: BTreeSet<&str> = limits.iter().map(|limit| limit.as_str()).collect();
    let names: Vec<&str> = limits.into_iter().collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The last of the output that the ledger keeps; `None` where there is none.
fn tail_of(output: &str) -> Option<&str> {
    let start = output.len().saturating_sub(OUTPUT_TAIL_BYTES_MAX);
    let start = output.ceil_char_boundary(start);
    (!output.is_empty()).then(|| &output[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_end_and_cuts_no_character() {
        assert_eq!(tail_of(""), None);
        assert_eq!(tail_of("short"), Some("short"));
        let long = format!("{}{}", "ä".repeat(3000), "z");
        let tail = tail_of(&long).unwrap();
        assert!(tail.len() <= OUTPUT_TAIL_BYTES_MAX && tail.len() > OUTPUT_TAIL_BYTES_MAX - 4);
        assert!(long.ends_with(tail));
    }
}
