//! `matins guard`: the SQL by which a job's own database refuses what no lease can stop.
//!
//! A lease ends on a host that is reached. A process that was paused with its machine, or that
//! hung in the kernel, wakes whenever it does, and writes. Its writes pass through the database of
//! its job, so that is where it must show its token. The scripts are plain SQL, to be read before
//! they are applied; `docs/GUARD.md` says what they promise.

use crate::args::{Database, Guard};
use crate::failure::Failure;
use crate::output::print;

const SQLITE: &str = include_str!("../guard/sqlite.sql");
const POSTGRES: &str = include_str!("../guard/postgres.sql");

pub(crate) fn guard(options: &Guard) -> Result<(), Failure> {
    print(match options.database {
        Database::Sqlite => SQLITE,
        Database::Postgres => POSTGRES,
    })
}
