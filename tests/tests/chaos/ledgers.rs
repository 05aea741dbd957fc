//! The ledgers of a group, held against each other row by row.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use crate::site::{PATIENCE, Site};

/// One member's ledger, held at one position.
struct Held {
    name: String,
    connection: Connection,
    position: i64,
}

impl Held {
    fn of(site: &Site, name: &str) -> Result<Held> {
        let directory = site.directory().join(name);
        site.grounds(name).inside(|| Held::open(name, &directory))
    }

    fn open(name: &str, directory: &Path) -> Result<Held> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(directory.join("ledger.db"), flags)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        // What is read first decides what is seen until the end.
        connection.execute_batch("BEGIN")?;
        let position = connection.query_row("SELECT last_applied FROM meta", [], |r| r.get(0))?;
        Ok(Held {
            name: name.to_owned(),
            connection,
            position,
        })
    }

    /// Every row of every table, in words.
    fn rows(&self) -> Result<BTreeMap<String, Vec<String>>> {
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' \
                      AND name NOT LIKE 'sqlite_%'";
        let mut tables = self.connection.prepare(tables)?;
        let names = tables.query_map([], |row| row.get(0))?;
        let mut all = BTreeMap::new();
        for name in names {
            let name: String = name?;
            let rows = self.rows_of(&name)?;
            all.insert(name, rows);
        }
        Ok(all)
    }

    fn rows_of(&self, table: &str) -> Result<Vec<String>> {
        let mut select = self
            .connection
            .prepare(&format!("SELECT * FROM \"{table}\""))?;
        let columns = select.column_count();
        let rows = select.query_map([], |row| {
            let values = (0..columns).map(|column| row.get::<_, Value>(column));
            Ok(format!(
                "{:?}",
                values.collect::<rusqlite::Result<Vec<_>>>()?
            ))
        })?;
        let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        rows.sort_unstable();
        Ok(rows)
    }
}

/// Every control machine's ledger, once all have applied the same.
fn hold_all(site: &Site) -> Result<Vec<Held>> {
    let begun = Instant::now();
    loop {
        let mut all = Vec::new();
        for name in site.control_names() {
            all.push(Held::of(site, &name)?);
        }
        if all.windows(2).all(|two| two[0].position == two[1].position) {
            return Ok(all);
        }
        let positions: Vec<(String, i64)> =
            all.iter().map(|h| (h.name.clone(), h.position)).collect();
        ensure!(
            begun.elapsed() < PATIENCE,
            "the ledgers do not meet: {positions:?}"
        );
        sleep(Duration::from_millis(20));
    }
}

/// Waits until all ledgers stand at one position, and demands that they are equal there.
pub(crate) fn check_equal(site: &Site) -> Result<()> {
    let all = hold_all(site)?;
    let (first, others) = all.split_first().context("there is a ledger")?;
    let expected = first.rows()?;
    for other in others {
        let found = other.rows()?;
        for (table, rows) in &expected {
            let theirs = found.get(table).context("every ledger has every table")?;
            let apart: Vec<_> = rows.iter().zip(theirs).filter(|(a, b)| a != b).collect();
            ensure!(
                rows.len() == theirs.len() && apart.is_empty(),
                "at {}, {table} of {} has {} rows and that of {} {}; apart: {:#?}",
                first.position,
                first.name,
                rows.len(),
                other.name,
                theirs.len(),
                apart.iter().take(5).collect::<Vec<_>>()
            );
        }
    }
    let rows: usize = expected.values().map(Vec::len).sum();
    println!(
        "{} ledgers are equal at {}: {rows} rows",
        all.len(),
        first.position
    );
    Ok(())
}

/// What this query answers, of one column, on the ledger of one machine.
pub(crate) fn ask(site: &Site, name: &str, query: &str) -> Result<Vec<String>> {
    let held = Held::of(site, name)?;
    let mut select = held.connection.prepare(query)?;
    let rows = select.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
