"""One connection of one process to the database of its job, for either database, and what a refusal is there.

The SQL stands here as docs/GUARD.md gives it to job owners; the scripts are the files that `matins guard` prints.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sqlite3
import sys
import unittest
from typing import Iterator, NamedTuple, Optional

ROOT = pathlib.Path(__file__).resolve().parents[3]
SQLITE_SCRIPT = (ROOT / "cli/src/guard/sqlite.sql").read_text(encoding="utf-8")
POSTGRES_SCRIPT = (ROOT / "cli/src/guard/postgres.sql").read_text(encoding="utf-8")

sys.path.insert(0, str(ROOT / "examples/reconcile"))

from private_postgres import NoPostgres, private_postgres  # noqa: E402

try:
    import psycopg2
except ImportError:
    psycopg2 = None

JOB = "settlement/reconcile"
MONDAY = "2026-11-23T15:30:00Z"
TUESDAY = "2026-11-24T15:30:00Z"

# What a job keeps for itself. Nothing but the guard keeps two attempts apart here: their rows do not collide.
TABLES = """
CREATE TABLE IF NOT EXISTS results (fire_time TEXT, shard BIGINT, token BIGINT, n BIGINT);
CREATE TABLE IF NOT EXISTS published (fire_time TEXT, shard BIGINT, token BIGINT, n BIGINT);
"""

GUIDE = (ROOT / "docs/GUARD.md").read_text(encoding="utf-8")


def statements_of_guide(word: str) -> list[str]:
    """Those of the blocks of SQL in docs/GUARD.md in which the word occurs, but what is left to the job."""
    blocks = [block for block in re.findall(r"```sql\n(.*?)```", GUIDE, flags=re.DOTALL) if word in block]
    text = re.sub(r"--.*", "", "\n".join(blocks))
    statements = [statement.strip() for statement in text.split(";")]
    return [statement for statement in statements if statement and "..." not in statement and "?" not in statement]


class Attempt(NamedTuple):
    token: int
    fence: Optional[int] = 1
    shard: int = 0
    shards: int = 2
    fire_time: str = MONDAY
    job: str = JOB

    def author(self) -> tuple:
        return (self.job, self.fire_time, self.shard, self.token, self.fence)

    def author_of(self) -> tuple:
        return (self.job, self.fire_time, self.shard, self.shards, self.token, self.fence)


class Refused(Exception):
    """This process was replaced."""


class Misused(Exception):
    """The statements were called in a way they are not meant to be."""


class Conflict(Exception):
    """Somebody else is in the way: try the transaction again."""


class Session:
    """What is the same in both databases."""

    def recompute(self, attempt: Attempt, rows: int = 3) -> None:
        self.run("DELETE FROM results WHERE fire_time = ? AND shard = ?", (attempt.fire_time, attempt.shard))
        for n in range(rows):
            self.run("INSERT INTO results VALUES (?, ?, ?, ?)", (attempt.fire_time, attempt.shard, attempt.token, n))

    def replace_published(self, fire_time: str) -> None:
        self.run("DELETE FROM published WHERE fire_time = ?", (fire_time,))
        self.run("INSERT INTO published SELECT * FROM results WHERE fire_time = ?", (fire_time,))

    def rows(self, fire_time: str = MONDAY, table: str = "results") -> list[tuple[int, int, int]]:
        found = self.run(f"SELECT shard, token, n FROM {table} WHERE fire_time = ? ORDER BY 1, 2, 3", (fire_time,))
        return [tuple(map(int, row)) for row in found]

    def tokens(self, fire_time: str = MONDAY, shard: int = 0) -> set[int]:
        """Whose rows there are."""
        return {token for row_shard, token, _ in self.rows(fire_time) if row_shard == shard}

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        self.run("ROLLBACK")


class SqliteSession(Session):
    BEGINNINGS = ("BEGIN IMMEDIATE", "BEGIN")

    def __init__(self, path: pathlib.Path, timeout: float = 0) -> None:
        self.connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        # No test here pulls the plug, so none has to wait for the disk.
        self.connection.execute("PRAGMA synchronous = OFF")

    def begin(self, beginning: str = BEGINNINGS[0]) -> None:
        self.run(beginning)

    def claim(self, attempt: Attempt) -> None:
        self.run("INSERT INTO matins_claim VALUES (?, ?, ?, ?, ?)", attempt.author())

    def redo(self, attempt: Attempt, redo: Optional[int]) -> None:
        self.run("INSERT INTO matins_redo VALUES (?, ?, ?)", (attempt.job, attempt.fire_time, redo))

    def guard(self, attempt: Attempt) -> None:
        self.run("INSERT INTO matins_guard VALUES (?, ?, ?, ?, ?)", attempt.author())

    def done(self, attempt: Attempt) -> None:
        self.run("INSERT INTO matins_done VALUES (?, ?, ?, ?, ?, ?)", attempt.author_of())

    def publish(self, attempt: Attempt) -> bool:
        fire = (attempt.job, attempt.fire_time, attempt.shards)
        due = self.run("SELECT 1 FROM matins_publishable WHERE job = ? AND fire_time = ? AND shards = ?", fire)
        if due:
            self.run("INSERT INTO matins_publish VALUES (?, ?, ?, ?, ?, ?)", attempt.author_of())
        return bool(due)

    def rollback(self) -> None:
        if self.connection.in_transaction:
            self.run("ROLLBACK")

    def run(self, sql: str, parameters: tuple = ()) -> list[tuple]:
        try:
            return self.connection.execute(sql, parameters).fetchall()
        except sqlite3.IntegrityError as error:
            raise (Refused if "this process was replaced; stop" in str(error) else Misused)(str(error)) from error
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Conflict(str(error)) from error
            raise

    def close(self) -> None:
        self.connection.close()


class PostgresSession(Session):
    BEGINNINGS = (
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
    )
    CONFLICTS = ("40001", "55P03")  # serialization failure, lock timeout; a deadlock is none of them

    def __init__(self, address: str, *settings: str) -> None:
        self.connection = psycopg2.connect(address, options=" ".join(f"-c {setting}" for setting in settings))
        self.connection.autocommit = True
        self.pid = self.connection.get_backend_pid()

    def begin(self, beginning: str = BEGINNINGS[0]) -> None:
        self.run(beginning)

    def claim(self, attempt: Attempt) -> None:
        self.run("SELECT matins.claim(?, ?, ?, ?, ?)", attempt.author())

    def redo(self, attempt: Attempt, redo: Optional[int]) -> None:
        self.run("SELECT matins.redo(?, ?, ?)", (attempt.job, attempt.fire_time, redo))

    def guard(self, attempt: Attempt) -> None:
        self.run("SELECT matins.guard(?, ?, ?, ?, ?)", attempt.author())

    def done(self, attempt: Attempt) -> None:
        self.run("SELECT matins.done(?, ?, ?, ?, ?, ?)", attempt.author_of())

    def publish(self, attempt: Attempt) -> bool:
        return self.run("SELECT matins.publish(?, ?, ?, ?, ?, ?)", attempt.author_of())[0][0]

    def run(self, sql: str, parameters: tuple = ()) -> list[tuple]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql.replace("?", "%s") if parameters else sql, parameters or None)
                return cursor.fetchall() if cursor.description else []
        except psycopg2.Error as error:
            message = error.diag.message_primary or str(error)
            if error.pgcode == "MT001":
                raise Refused(message) from error
            if error.pgcode == "MT002":
                raise Misused(message) from error
            if error.pgcode in self.CONFLICTS:
                raise Conflict(message) from error
            raise

    def close(self) -> None:
        self.connection.close()


@contextlib.contextmanager
def postgres_for_tests() -> Iterator[str]:
    """Skips where no server can be had, with one line that says what to install; fails there where CI is set."""
    try:
        if psycopg2 is None:
            raise NoPostgres("Python's driver for PostgreSQL is not installed; install the package python3-psycopg2")
        with private_postgres() as address:
            yield address
    except NoPostgres as error:
        if os.environ.get("CI"):
            raise
        print(f"skipped, all tests against PostgreSQL: {error}", file=sys.stderr)
        raise unittest.SkipTest(str(error)) from error
