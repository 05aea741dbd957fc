//! The writer's side: one connection, one transaction a batch.

use std::cell::RefCell;
use std::fmt::Write;
use std::path::Path;

use protocol::{BootMs, JobName, Now, Rules, RunId, WallMs, api};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::answers::Answers;
use crate::apply::{Applied, Batch, Undo, clip, is_not_taken};
use crate::command::Proposal;
use crate::meta::Meta;
use crate::outcome::Outcome;
use crate::pages::RunFilter;
use crate::replica::{Entry, advance, is_replica, last_entry};
use crate::rows::SeenClock;
use crate::schema::{self, SCHEMA_VERSION};
use crate::working_set::{WorkingSet, load};

/// Statements that `apply` holds prepared; all of them, with room.
const STATEMENTS_HELD: usize = 128;

/// The ledger, for its one writer.
pub struct Store {
    conn: Connection,
    rules: Rules,
    /// A batch has failed in the database: what is on disk is no longer known.
    failed: bool,
}

/// The database failed. The process must end: after a failed fsync the page cache may have
/// dropped what it was asked to keep, so trying again could answer yes and be wrong.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("opening the ledger {path}")]
    Open {
        path: String,
        source: rusqlite::Error,
    },
    #[error(
        "the ledger {path} has schema version {found}, and this program knows version {known}: run the version of matins that wrote it"
    )]
    Schema {
        path: String,
        found: i64,
        known: i64,
    },
    #[error("applying a batch of commands")]
    Apply { source: rusqlite::Error },
    #[error("reading the ledger")]
    Read { source: rusqlite::Error },
    #[error("an earlier batch failed in the database; nothing is applied after it")]
    AfterFailure,
    #[error(
        "the ledger {path} belongs to a member of a group: it follows the log beside it, and nothing is written to it otherwise"
    )]
    Replica { path: String },
    #[error(
        "the ledger {path} follows its log in format {found}, and this program knows format {known}: run the version of matins that wrote it"
    )]
    ReplicaFormat {
        path: String,
        found: i64,
        known: i64,
    },
    #[error("the log's entry {got} cannot be applied where its entry {next} is due")]
    OutOfOrder { next: u64, got: u64 },
}

impl Store {
    /// Opens the ledger at `path`, or creates it. What a batch wrote is on the disk when
    /// [`Store::propose`] returns.
    pub fn open(path: &Path, rules: Rules) -> Result<Store, StoreError> {
        let named = path.display().to_string();
        let opened = Connection::open(path).and_then(|conn| {
            // No replicated log stands behind this file, so each commit reaches the disk.
            conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
            Ok((is_replica(&conn)?, conn))
        });
        match opened {
            Ok((false, conn)) => Store::prepare(conn, rules, named),
            Ok((true, _)) => Err(StoreError::Replica { path: named }),
            Err(source) => Err(StoreError::Open {
                path: named,
                source,
            }),
        }
    }

    /// A ledger that lives as long as the store.
    pub fn open_in_memory(rules: Rules) -> Result<Store, StoreError> {
        let named = "in memory".to_owned();
        let conn = Connection::open_in_memory().map_err(|source| StoreError::Open {
            path: named.clone(),
            source,
        })?;
        Store::prepare(conn, rules, named)
    }

    pub(crate) fn prepare(
        mut conn: Connection,
        rules: Rules,
        path: String,
    ) -> Result<Store, StoreError> {
        let found = schema_version(&mut conn, rules).map_err(|source| StoreError::Open {
            path: path.clone(),
            source,
        })?;
        if found != SCHEMA_VERSION {
            return Err(StoreError::Schema {
                path,
                found,
                known: SCHEMA_VERSION,
            });
        }
        conn.set_prepared_statement_cache_capacity(STATEMENTS_HELD);
        Ok(Store {
            conn,
            rules,
            failed: false,
        })
    }

    /// Applies a batch in one transaction, in order. On return it is durable and every command
    /// has its outcome; an error is fatal.
    pub fn propose(&mut self, batch: &[Proposal]) -> Result<Vec<Outcome>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.write(batch, None)
    }

    /// Applies a batch and moves on to the log's entry that holds it, if it comes from a log.
    pub(crate) fn write(
        &mut self,
        batch: &[Proposal],
        entry: Option<Entry<'_>>,
    ) -> Result<Vec<Outcome>, StoreError> {
        if self.failed {
            return Err(StoreError::AfterFailure);
        }
        self.failed = true;
        if let Some(entry) = entry {
            self.check_order(entry.at.index)?;
        }
        let outcomes = self
            .apply_batch(batch, entry)
            .map_err(|source| StoreError::Apply { source })?;
        self.failed = false;
        Ok(outcomes)
    }

    /// One entry after the other: what was passed over would be missing here alone.
    fn check_order(&self, got: u64) -> Result<(), StoreError> {
        let last = last_entry(&self.conn).map_err(|source| StoreError::Read { source })?;
        let next = last.map_or(0, |last| last.index + 1);
        if got == next {
            Ok(())
        } else {
            Err(StoreError::OutOfOrder { next, got })
        }
    }

    fn apply_batch(
        &mut self,
        batch: &[Proposal],
        entry: Option<Entry<'_>>,
    ) -> rusqlite::Result<Vec<Outcome>> {
        if let Some(outcomes) = self.try_batch(batch, entry, Undo::Batch)? {
            return Ok(outcomes);
        }
        let outcomes = self.try_batch(batch, entry, Undo::Each)?;
        Ok(outcomes.expect("what each command wrote is taken back by itself"))
    }

    /// `None` where a command was refused half done: then nothing of the batch was done.
    fn try_batch(
        &mut self,
        batch: &[Proposal],
        entry: Option<Entry<'_>>,
        undo: Undo,
    ) -> rusqlite::Result<Option<Vec<Outcome>>> {
        let transaction = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut on_its_way = Batch {
            conn: &transaction,
            rules: self.rules,
            undo,
            meta: Meta::load(&transaction)?,
            held: RefCell::default(),
        };
        let mut outcomes = Vec::with_capacity(batch.len());
        for proposal in batch {
            match on_its_way.apply(proposal)? {
                Applied::Outcome(outcome) => outcomes.push(outcome),
                // Dropping the transaction takes everything back.
                Applied::HalfDone => return Ok(None),
            }
        }
        let written_back = on_its_way.held.borrow_mut().write_back(&transaction);
        match written_back {
            Ok(()) => {}
            Err(error) if is_not_taken(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        on_its_way.meta.save(&transaction)?;
        drop(on_its_way);
        if let Some(entry) = entry {
            advance(&transaction, &entry)?;
        }
        transaction.commit()?;
        Ok(Some(outcomes))
    }

    /// Overwrites a stored manifest, as damage would.
    #[cfg(any(test, feature = "switchable-rules"))]
    pub fn damage_manifest(
        &mut self,
        job_id: protocol::JobId,
        version: u32,
        text: &str,
    ) -> Result<(), StoreError> {
        self.conn
            .execute(
                "UPDATE versions SET manifest = ?3 WHERE job_id = ?1 AND version = ?2",
                rusqlite::params![job_id.0, version, text],
            )
            .map(|_| ())
            .map_err(|source| StoreError::Apply { source })
    }

    /// Everything that is open.
    pub fn working_set(&self) -> Result<WorkingSet, StoreError> {
        load(&self.conn).map_err(|source| StoreError::Read { source })
    }

    /// How the clocks stood when this node last began a reign.
    pub fn last_clock(&self, node: &str) -> Result<Option<SeenClock>, StoreError> {
        let sql = "SELECT boot_id, at, boot_ms FROM reigns WHERE node = ?1 ORDER BY epoch DESC";
        let row = self.conn.query_row(sql, [clip(node)], |row| {
            Ok(SeenClock {
                boot_id: row.get(0)?,
                at: Now {
                    wall: WallMs(row.get(1)?),
                    boot: BootMs(row.get(2)?),
                },
            })
        });
        row.optional().map_err(|source| StoreError::Read { source })
    }

    /// A job in force, as [`crate::Reader::job`] answers. A ledger in memory has no readers.
    pub fn job(&self, name: &JobName) -> Result<Option<api::JobDetail>, StoreError> {
        self.answers()
            .job(name)
            .map_err(|source| StoreError::Read { source })
    }

    /// As [`crate::Reader::runs`].
    pub fn runs(&self, filter: &RunFilter) -> Result<Vec<api::Run>, StoreError> {
        self.answers()
            .runs(filter)
            .map(|page| page.rows)
            .map_err(|source| StoreError::Read { source })
    }

    /// As [`crate::Reader::run`].
    pub fn run(&self, run_id: RunId) -> Result<Option<api::RunDetail>, StoreError> {
        self.answers()
            .run(run_id)
            .map_err(|source| StoreError::Read { source })
    }

    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }

    pub(crate) fn conn_mut(&mut self) -> &mut Connection {
        &mut self.conn
    }

    pub(crate) fn answers(&self) -> Answers<'_> {
        Answers { conn: &self.conn }
    }

    /// How many commands have been applied, refused ones included.
    pub fn last_applied(&self) -> Result<i64, StoreError> {
        Meta::load(&self.conn)
            .map(|meta| meta.last_applied)
            .map_err(|source| StoreError::Read { source })
    }

    /// Rows of a query as text, for tests that look at what people see.
    #[cfg(test)]
    pub(crate) fn query_text(&self, query: &str) -> Vec<String> {
        let mut statement = self.conn.prepare(query).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cells: rusqlite::Result<Vec<String>> = (0..columns)
                .map(|i| Ok(cell(row.get_ref(i)?).trim_matches('"').to_owned()))
                .collect();
            Ok(cells?.join("|"))
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Every table in the order of its key, as text: two ledgers hold the same if and only if
    /// their dumps are equal.
    pub fn dump(&self) -> Result<String, StoreError> {
        dump(&self.conn).map_err(|source| StoreError::Read { source })
    }
}

/// Creates the tables of an empty database; answers the version of the schema.
fn schema_version(conn: &mut Connection, rules: Rules) -> rusqlite::Result<i64> {
    conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = ON;")?;
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        schema::create(&transaction, rules)?;
    }
    let version =
        transaction.query_row("SELECT schema_version FROM meta WHERE id = 1", [], |row| {
            row.get(0)
        })?;
    transaction.commit()?;
    Ok(version)
}

fn dump(conn: &Connection) -> rusqlite::Result<String> {
    let mut text = String::new();
    let tables: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for table in tables {
        writeln!(text, "# {table}").expect("text takes text");
        let key: Option<String> = conn
            .prepare(
                "SELECT group_concat(name ORDER BY pk) FROM pragma_table_info(?1) WHERE pk > 0",
            )?
            .query_row([&table], |row| row.get(0))
            .optional()?
            .flatten();
        let key = key.unwrap_or_else(|| "1".to_owned());
        let mut statement = conn.prepare(&format!("SELECT * FROM {table} ORDER BY {key}"))?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let cells = columns
                .iter()
                .enumerate()
                .map(|(i, column)| Ok(format!("{column}={}", cell(row.get_ref(i)?))))
                .collect::<rusqlite::Result<Vec<_>>>()?;
            text.push_str(&cells.join(" "));
            text.push('\n');
        }
    }
    Ok(text)
}

fn cell(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "-".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => format!("{bytes:?}"),
    }
}

#[cfg(test)]
mod tests {
    use protocol::WallMs;

    use super::*;
    use crate::command::{AlertKind, Command, Fire, On, RaiseAlert};
    use crate::testing::{Bed, MINUTE, fire};
    use crate::{Done, Refusal};

    fn alert() -> Proposal {
        let alert = RaiseAlert {
            kind: AlertKind::GivenUp,
            on: On::All,
            text: String::new(),
        };
        Proposal {
            epoch: None,
            at: WallMs(0),
            source: None,
            command: Command::RaiseAlert(alert),
        }
    }

    #[test]
    fn a_ledger_of_another_schema_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger.db");
        let other = SCHEMA_VERSION + 1;
        drop(Store::open(&path, Rules::all()).unwrap());
        drop(Store::open(&path, Rules::all()).unwrap());
        let conn = Connection::open(&path).unwrap();
        conn.execute("UPDATE meta SET schema_version = ?1", [other])
            .unwrap();
        drop(conn);
        assert!(matches!(
            Store::open(&path, Rules::all()),
            Err(StoreError::Schema { found, .. }) if found == other
        ));
        assert!(matches!(
            crate::Reader::open(&path),
            Err(crate::ReaderError::Schema { found, .. }) if found == other
        ));
    }

    #[test]
    fn what_is_not_a_ledger_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute("CREATE TABLE mine (id INTEGER PRIMARY KEY)", [])
            .unwrap();
        assert!(matches!(
            Store::open(&path, Rules::all()),
            Err(StoreError::Open { .. })
        ));
    }

    #[test]
    fn on_disk_every_commit_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("ledger.db"), Rules::all()).unwrap();
        let full = 2.to_string();
        assert_eq!(store.query_text("PRAGMA journal_mode"), ["wal"]);
        assert_eq!(store.query_text("PRAGMA synchronous"), [full]);
        assert_eq!(store.query_text("PRAGMA foreign_keys"), ["0"]);
    }

    #[test]
    fn after_a_failure_of_the_database_nothing_is_applied() {
        let mut store = Store::open_in_memory(Rules::all()).unwrap();
        store.propose(&[alert()]).unwrap();
        let before = store.dump().unwrap();
        store
            .conn
            .execute_batch("ALTER TABLE alerts RENAME TO gone")
            .unwrap();
        let batch = [alert(), alert()];
        assert!(matches!(
            store.propose(&batch),
            Err(StoreError::Apply { .. })
        ));
        store
            .conn
            .execute_batch("ALTER TABLE gone RENAME TO alerts")
            .unwrap();
        assert!(matches!(
            store.propose(&batch),
            Err(StoreError::AfterFailure)
        ));
        assert_eq!(store.dump().unwrap(), before);
    }

    #[test]
    fn a_command_that_no_table_takes_is_refused_and_the_batch_goes_on() {
        let mut bed = Bed::new();
        let job = bed.job("overlap: queue");
        let trap = "CREATE TEMP TRIGGER trap BEFORE INSERT ON executions WHEN new.run_id = 2
                    BEGIN SELECT raise(ABORT, 'not this one'); END";
        bed.store.conn.execute_batch(trap).unwrap();
        let propose = |fire: Fire| Proposal {
            epoch: None,
            at: WallMs(0),
            source: None,
            command: Command::Fire(fire),
        };
        let batch = [
            propose(fire(job, 1, WallMs(0), MINUTE, [1])),
            propose(fire(job, 1, WallMs(MINUTE), 2 * MINUTE, [2])),
            alert(),
        ];
        let outcomes = bed.store.propose(&batch).unwrap();
        assert!(matches!(outcomes[0].result, Ok(Done::Fired { .. })));
        assert!(
            matches!(&outcomes[1].result, Err(Refusal::Constraint { what }) if what.contains("not this one"))
        );
        assert_eq!(outcomes[2].result, Ok(Done::AlertRaised));
        assert_eq!(
            bed.view("SELECT count(*), max(fire_time) FROM runs"),
            ["1|60000"]
        );
        assert_eq!(bed.view("SELECT runs, last_applied FROM meta"), ["1|4"]);
    }

    #[test]
    fn a_damaged_manifest_is_shown_and_stops_nothing_here() {
        let mut bed = Bed::new();
        let job = bed.job("");
        bed.store.damage_manifest(job, 1, "{ not json").unwrap();
        bed.set = bed.store.working_set().unwrap();
        bed.fire(job, 1);
        let detail = bed
            .store
            .job(&"team/job".parse().unwrap())
            .unwrap()
            .unwrap();
        assert_eq!(detail.manifest, "{ not json");
        assert!(detail.job.problem.is_some());
        assert_eq!(detail.runs.len(), 1);
    }

    #[test]
    fn an_empty_batch_is_no_transaction() {
        let mut store = Store::open_in_memory(Rules::all()).unwrap();
        assert_eq!(store.propose(&[]).unwrap(), []);
        assert_eq!(store.last_applied().unwrap(), 0);
    }
}
