//! Shards. A shard remembers the token of its newest lease after that lease has ended: a receipt
//! counts while no newer one was granted, and a shard's attempts are a list that begins there.

use protocol::{AgentId, DurationMs, RunId, Token, WallMs};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::apply::{Context, Stop};
use crate::codes::{Coded, ShardKind, coded, damaged};
use crate::outcome::Refusal;
use crate::rows::{Lease, ShardRow, ShardState};
use crate::tables::resource::{Units, read_units, write_units};
use crate::tables::run::Run;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) row: ShardRow,
    /// Of the newest lease, live or ended.
    pub(crate) token: Option<Token>,
    /// A rerun was asked for while the lease was being cancelled: pending again when it ends.
    pub(crate) again: bool,
    /// Of resources, while it is leased.
    pub(crate) holds: Units,
}

impl Shard {
    /// A shard that no lease has been granted for.
    pub(crate) const fn new(run_id: RunId, shard: u32, state: ShardState) -> Shard {
        Shard {
            row: ShardRow {
                run_id,
                shard,
                state,
                reason: None,
                retries_used: 0,
                free_ends: 0,
                attempts: 0,
            },
            token: None,
            again: false,
            holds: Vec::new(),
        }
    }

    pub(crate) const fn lease(&self) -> Option<Lease> {
        self.row.state.lease()
    }

    /// A new start of its counters, for a new execution or a person's "again".
    pub(crate) const fn restore_retries(&mut self) {
        self.row.retries_used = 0;
        self.row.free_ends = 0;
    }

    pub(crate) fn wrong_state(&self, needed: &str) -> Stop {
        Refusal::WrongShardState {
            run: self.row.run_id,
            shard: self.row.shard,
            state: self.row.state.as_str().to_owned(),
            needed: needed.to_owned(),
        }
        .into()
    }
}

/// See `run_columns` of [`super::run`].
macro_rules! shard_columns {
    () => {
        "s.run_id, s.shard, s.state, s.reason, s.since, \
         s.delay_ms, s.token, s.agent_id, s.cancelling, s.again, s.retries_used, s.free_ends, \
         s.attempts, s.holds"
    };
}

pub(crate) const SHARD_COLUMNS: &str = shard_columns!();

/// Reads [`SHARD_COLUMNS`].
pub(crate) fn read_shard(row: &Row<'_>) -> rusqlite::Result<Shard> {
    let token = row.get::<_, Option<i64>>(6)?.map(Token);
    let state = match coded::<ShardKind>(row, 2)? {
        ShardKind::Pending => ShardState::Pending {
            since: WallMs(row.get(4)?),
            delay: DurationMs(row.get(5)?),
        },
        ShardKind::Leased => ShardState::Leased(Lease {
            token: token.ok_or_else(|| damaged(6, Type::Null, "a leased shard has no token"))?,
            agent_id: AgentId(row.get(7)?),
            cancelling: row.get(8)?,
        }),
        ShardKind::Succeeded => ShardState::Succeeded,
        ShardKind::NeedsConfirmation => ShardState::NeedsConfirmation,
        ShardKind::Cancelled => ShardState::Cancelled,
    };
    Ok(Shard {
        row: ShardRow {
            run_id: RunId(row.get(0)?),
            shard: row.get(1)?,
            state,
            reason: row.get(3)?,
            retries_used: row.get(10)?,
            free_ends: row.get(11)?,
            attempts: row.get(12)?,
        },
        token,
        again: row.get(9)?,
        holds: read_units(row, 13)?,
    })
}

/// A run's shards in order; none before it first left `waiting`.
pub(crate) fn list_shards(conn: &Connection, run_id: RunId) -> rusqlite::Result<Vec<Shard>> {
    conn.prepare_cached(&format!(
        "SELECT {SHARD_COLUMNS} FROM shards s WHERE s.run_id = ?1 ORDER BY s.shard"
    ))?
    .query_map([run_id.0], read_shard)?
    .collect()
}

const INSERT: &str =
    "INSERT INTO shards VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

const UPDATE: &str = "UPDATE shards SET state = ?3, reason = ?4, since = ?5, delay_ms = ?6, \
     token = ?7, agent_id = ?8, cancelling = ?9, again = ?10, retries_used = ?11, \
     free_ends = ?12, attempts = ?13, holds = ?14 WHERE run_id = ?1 AND shard = ?2";

/// The columns that a state fills: code, since, delay, agent, cancelling.
fn state_columns(state: &ShardState) -> (ShardKind, i64, i64, Option<i64>, bool) {
    match *state {
        ShardState::Pending { since, delay } => (ShardKind::Pending, since.0, delay.0, None, false),
        ShardState::Leased(lease) => (
            ShardKind::Leased,
            0,
            0,
            Some(lease.agent_id.0),
            lease.cancelling,
        ),
        ShardState::Succeeded => (ShardKind::Succeeded, 0, 0, None, false),
        ShardState::NeedsConfirmation => (ShardKind::NeedsConfirmation, 0, 0, None, false),
        ShardState::Cancelled => (ShardKind::Cancelled, 0, 0, None, false),
    }
}

impl Context<'_> {
    pub(crate) fn shard(&self, run_id: RunId, shard: u32) -> Result<Shard, Stop> {
        self.conn
            .prepare_cached(concat!(
                "SELECT ",
                shard_columns!(),
                " FROM shards s WHERE s.run_id = ?1 AND s.shard = ?2"
            ))?
            .query_row(params![run_id.0, shard], read_shard)
            .optional()?
            .ok_or_else(|| Refusal::NoSuchShard { run: run_id, shard }.into())
    }

    /// A pending shard of a live run: what a host may be given, or what none could take.
    pub(crate) fn placeable(&self, run_id: RunId, shard: u32) -> Result<(Run, Shard), Stop> {
        let run = self.run(run_id)?;
        if !run.row.state.is_live() {
            return Err(run.wrong_state("ready or running"));
        }
        let shard = self.shard(run_id, shard)?;
        if !matches!(shard.row.state, ShardState::Pending { .. }) {
            return Err(shard.wrong_state("pending"));
        }
        Ok((run, shard))
    }

    pub(crate) fn shards(&self, run_id: RunId) -> Result<Vec<Shard>, Stop> {
        Ok(list_shards(self.conn, run_id)?)
    }

    /// The leases that an agent holds.
    pub(crate) fn leases_of(&self, agent_id: AgentId) -> Result<Vec<Shard>, Stop> {
        Ok(self
            .conn
            .prepare_cached(&format!(
                "SELECT {SHARD_COLUMNS} FROM shards s INDEXED BY shards_leased
                 WHERE s.agent_id = ?1 ORDER BY s.run_id, s.shard"
            ))?
            .query_map([agent_id.0], read_shard)?
            .collect::<Result<_, _>>()?)
    }

    /// Writes a new shard and counts it in its run, which the caller then writes.
    pub(crate) fn insert_shard(&mut self, run: &mut Run, shard: &Shard) -> Result<(), Stop> {
        run.tally.add(&shard.row.state);
        self.write_shard(INSERT, shard)
    }

    /// Moves a shard to another state and keeps its run's tally, which the caller then writes.
    pub(crate) fn move_shard(
        &mut self,
        run: &mut Run,
        shard: &mut Shard,
        to: ShardState,
        reason: Option<String>,
    ) -> Result<(), Stop> {
        run.tally.remove(&shard.row.state);
        run.tally.add(&to);
        if to.lease().is_none() && !shard.holds.is_empty() {
            let held = std::mem::take(&mut shard.holds);
            self.give_back_units(&held)?;
        }
        shard.row.state = to;
        shard.row.reason = reason;
        self.write_shard(UPDATE, shard)
    }

    /// By one of two statements with the same parameters.
    fn write_shard(&mut self, statement: &str, shard: &Shard) -> Result<(), Stop> {
        let row = &shard.row;
        let (kind, since, delay, agent, cancelling) = state_columns(&row.state);
        self.conn.prepare_cached(statement)?.execute(params![
            row.run_id.0,
            row.shard,
            kind.code(),
            row.reason,
            since,
            delay,
            shard.token.map(|token| token.0),
            agent,
            cancelling,
            shard.again,
            row.retries_used,
            row.free_ends,
            row.attempts,
            write_units(&shard.holds),
        ])?;
        self.changes.shard(row);
        Ok(())
    }
}
