"""The results database as one attempt may change it: only through the guard. SQLite or PostgreSQL.

What differs between the two stands side by side here. The program above it writes the same SQL to both.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from typing import Iterable, Iterator, Optional

BUSY_TIMEOUT_SECONDS = 30
SQLITE_SCHEME = "sqlite:"
POSTGRES_SCHEME = "postgresql:"

# Longer than a sound shard ever pauses between two statements, and than a claim waits for a sound one to end.
IDLE_IN_TRANSACTION_TIMEOUT = "20s"
LOCK_TIMEOUT = "30s"


@dataclass(frozen=True)
class Attempt:
    """Who is writing: one attempt at one shard of one fire."""

    job: str
    fire_time: str
    shard: int
    shards: int
    token: int
    fence: Optional[int]  # not given to jobs whose executions may overlap
    redo: Optional[int] = None  # given where a person wants all of the fire anew

    def __str__(self) -> str:
        return f"{self.job} {self.fire_time} shard {self.shard} of {self.shards}"

    def author(self) -> tuple:
        return (self.job, self.fire_time, self.shard, self.token, self.fence)

    def author_of(self) -> tuple:
        return (self.job, self.fire_time, self.shard, self.shards, self.token, self.fence)


class Refused(Exception):
    """This process was replaced; nothing of the transaction was kept."""


class Unusable(Exception):
    """The database cannot be reached, or failed: another try may succeed."""


def open_database(address: str) -> Database:
    """`sqlite:FILE`, or `postgresql:` and how libpq is to connect, such as `postgresql:host=db user=batch`."""
    if address.startswith(SQLITE_SCHEME):
        return Sqlite(address[len(SQLITE_SCHEME):])
    if address.startswith(POSTGRES_SCHEME):
        return Postgres(address[len(POSTGRES_SCHEME):])
    raise ValueError(f"{address}: neither {SQLITE_SCHEME}FILE nor {POSTGRES_SCHEME}CONNECTION")


class Database:
    """When the guard is called, which is the same in both; what is said, and how, is in the two below."""

    BEGIN: str
    REDO: str
    CLAIM: str
    GUARD: str
    DONE: str

    def claim(self, attempt: Attempt) -> None:
        """Replaces older attempts from now on; committed as it returns."""
        with self.explained(attempt):
            self.write(self.REDO, (attempt.job, attempt.fire_time, attempt.redo))
            self.write(self.CLAIM, attempt.author())

    @contextlib.contextmanager
    def guarded(self, attempt: Attempt) -> Iterator[None]:
        """One transaction that writes."""
        with self.explained(attempt), self.transaction():
            self.write(self.GUARD, attempt.author())
            yield

    def mark_done(self, attempt: Attempt) -> None:
        """With the last write, in its transaction."""
        self.write(self.DONE, attempt.author_of())

    @contextlib.contextmanager
    def publishing(self, attempt: Attempt) -> Iterator[bool]:
        """One transaction; with True, the caller replaces in it what is published."""
        with self.explained(attempt), self.transaction():
            yield self.is_to_publish(attempt)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.write(self.BEGIN)
        try:
            yield
            self.write("COMMIT")
        except BaseException:
            self.roll_back()
            raise


class Sqlite(Database):
    BEGIN = "BEGIN IMMEDIATE"
    REDO = "INSERT INTO matins_redo VALUES (?, ?, ?)"
    CLAIM = "INSERT INTO matins_claim VALUES (?, ?, ?, ?, ?)"
    GUARD = "INSERT INTO matins_guard VALUES (?, ?, ?, ?, ?)"
    DONE = "INSERT INTO matins_done VALUES (?, ?, ?, ?, ?, ?)"
    IS_DUE = "SELECT 1 FROM matins_publishable WHERE job = ? AND fire_time = ? AND shards = ?"
    PUBLISH = "INSERT INTO matins_publish VALUES (?, ?, ?, ?, ?, ?)"

    GUARD_NAME = "sqlite"
    PUBLICATIONS = "matins_publications"
    SHARDS = "matins_shards"

    def __init__(self, path: str) -> None:
        # A job does not make its database: a path with a mistake in it would be an empty one.
        if not os.path.isfile(path):
            raise Unusable(f"{path}: no such file; make it with: matins guard sqlite | sqlite3 -bail {path}")
        self.connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)

    def prepare(self, guard: str, schema: str) -> None:
        # Readers then do not wait for writers; it holds for the file from now on.
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.executescript(guard)
        self.connection.executescript(schema)

    def is_to_publish(self, attempt: Attempt) -> bool:
        due = self.rows(self.IS_DUE, (attempt.job, attempt.fire_time, attempt.shards))
        if due:
            self.write(self.PUBLISH, attempt.author_of())
        return bool(due)

    @contextlib.contextmanager
    def explained(self, attempt: Attempt) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "this process was replaced" in str(error):
                raise Refused(self.explain(attempt, str(error))) from error
            raise Unusable(str(error)) from error

    def explain(self, attempt: Attempt, refusal: str) -> str:
        """SQLite cannot compose a message; this says who holds the shard and the job now."""
        holders = self.rows(
            "SELECT token, fence FROM matins_guard WHERE job = ? AND fire_time = ? AND shard = ?", attempt.author()[:3]
        ) or self.rows("SELECT NULL, fence FROM matins_jobs WHERE job = ?", (attempt.job,))
        token, fence = holders[0]
        return f"token {attempt.token}, fence {attempt.fence}; in force: token {token}, fence {fence}; {refusal}"

    def roll_back(self) -> None:
        # SQLite has already rolled back by itself after some errors, a full disk among them.
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def write(self, sql: str, parameters: tuple = ()) -> None:
        self.connection.execute(sql, parameters)

    def write_many(self, sql: str, rows: Iterable[tuple]) -> None:
        self.connection.executemany(sql, rows)

    def rows(self, sql: str, parameters: tuple = ()) -> list[tuple]:
        return self.connection.execute(sql, parameters).fetchall()

    def close(self) -> None:
        self.connection.close()


class Postgres(Database):
    BEGIN = "BEGIN"
    REDO = "SELECT matins.redo(?, ?, ?)"
    CLAIM = "SELECT matins.claim(?, ?, ?, ?, ?)"
    GUARD = "SELECT matins.guard(?, ?, ?, ?, ?)"
    DONE = "SELECT matins.done(?, ?, ?, ?, ?, ?)"
    PUBLISH = "SELECT matins.publish(?, ?, ?, ?, ?, ?)"

    GUARD_NAME = "postgres"
    PUBLICATIONS = "matins.publications"
    SHARDS = "matins.shards"

    def __init__(self, connection: str) -> None:
        try:
            import psycopg2
            import psycopg2.extras
        except ImportError:
            raise Unusable(
                "Python's driver for PostgreSQL is not installed; install the package python3-psycopg2"
            ) from None
        self.driver = psycopg2
        try:
            self.connection = psycopg2.connect(
                connection,
                options=f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_TIMEOUT}"
                f" -c lock_timeout={LOCK_TIMEOUT} -c client_min_messages=warning",
            )
        except psycopg2.Error as error:
            raise Unusable(str(error).strip()) from error
        # Transactions begin and end where they are said to above.
        self.connection.autocommit = True

    def prepare(self, guard: str, schema: str) -> None:
        self.write(guard)
        self.write(schema)

    def is_to_publish(self, attempt: Attempt) -> bool:
        return self.rows(self.PUBLISH, attempt.author_of())[0][0]

    @contextlib.contextmanager
    def explained(self, attempt: Attempt) -> Iterator[None]:
        try:
            yield
        except self.driver.Error as error:
            message = error.diag.message_primary or str(error).strip()
            raise (Refused if error.pgcode == "MT001" else Unusable)(message) from error

    def roll_back(self) -> None:
        # Where the connection is gone, so is the transaction.
        if not self.connection.closed:
            self.write("ROLLBACK")

    def write(self, sql: str, parameters: tuple = ()) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(*self.in_words_of_driver(sql, parameters))

    def write_many(self, sql: str, rows: Iterable[tuple]) -> None:
        with self.connection.cursor() as cursor:
            self.driver.extras.execute_batch(cursor, sql.replace("?", "%s"), rows)

    def rows(self, sql: str, parameters: tuple = ()) -> list[tuple]:
        with self.connection.cursor() as cursor:
            cursor.execute(*self.in_words_of_driver(sql, parameters))
            return cursor.fetchall()

    def in_words_of_driver(self, sql: str, parameters: tuple) -> tuple:
        """Without parameters it takes the text as it is, per cent signs and all."""
        return (sql.replace("?", "%s"), parameters) if parameters else (sql, None)

    def close(self) -> None:
        self.connection.close()
