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


def open_database(address: str) -> Sqlite | Postgres:
    """`sqlite:FILE`, or `postgresql:` and how libpq is to connect, such as `postgresql:host=db user=batch`."""
    if address.startswith(SQLITE_SCHEME):
        return Sqlite(address[len(SQLITE_SCHEME):])
    if address.startswith(POSTGRES_SCHEME):
        return Postgres(address[len(POSTGRES_SCHEME):])
    raise ValueError(f"{address}: neither {SQLITE_SCHEME}FILE nor {POSTGRES_SCHEME}CONNECTION")


class Sqlite:
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

    def claim(self, attempt: Attempt) -> None:
        with self.explained(attempt):
            self.connection.execute("INSERT INTO matins_claim VALUES (?, ?, ?, ?, ?)", attempt.author())

    @contextlib.contextmanager
    def guarded(self, attempt: Attempt) -> Iterator[None]:
        """One transaction that writes."""
        with self.explained(attempt), self.transaction():
            self.connection.execute("INSERT INTO matins_guard VALUES (?, ?, ?, ?, ?)", attempt.author())
            yield

    def mark_done(self, attempt: Attempt) -> None:
        self.connection.execute("INSERT INTO matins_done VALUES (?, ?, ?, ?, ?, ?)", attempt.author_of())

    @contextlib.contextmanager
    def publishing(self, attempt: Attempt) -> Iterator[bool]:
        """One transaction; with True, in which the caller replaces what is published."""
        with self.explained(attempt), self.transaction():
            due = self.connection.execute(
                "SELECT 1 FROM matins_publishable WHERE job = ? AND fire_time = ? AND shards = ?",
                (attempt.job, attempt.fire_time, attempt.shards),
            ).fetchone()
            if due:
                self.connection.execute("INSERT INTO matins_publish VALUES (?, ?, ?, ?, ?, ?)", attempt.author_of())
            yield bool(due)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            # SQLite has already rolled back by itself after some errors, a full disk among them.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def explained(self, attempt: Attempt) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            if "this process was replaced" in str(error):
                raise Refused(self.explain(attempt, str(error))) from error
            raise Unusable(str(error)) from error
        except sqlite3.Error as error:
            raise Unusable(str(error)) from error

    def explain(self, attempt: Attempt, refusal: str) -> str:
        """SQLite cannot compose a message; this says who holds the shard and the job now."""
        holders = self.rows(
            "SELECT token, fence FROM matins_guard WHERE job = ? AND fire_time = ? AND shard = ?", attempt.author()[:3]
        ) or self.rows("SELECT NULL, fence FROM matins_jobs WHERE job = ?", (attempt.job,))
        token, fence = holders[0]
        return f"token {attempt.token}, fence {attempt.fence}; in force: token {token}, fence {fence}; {refusal}"

    def write(self, sql: str, parameters: tuple) -> None:
        self.connection.execute(sql, parameters)

    def write_many(self, sql: str, rows: Iterable[tuple]) -> None:
        self.connection.executemany(sql, rows)

    def rows(self, sql: str, parameters: tuple = ()) -> list[tuple]:
        return self.connection.execute(sql, parameters).fetchall()

    def close(self) -> None:
        self.connection.close()


class Postgres:
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

    def prepare(self, guard: str, schema: str) -> None:
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(guard)
            cursor.execute(schema)

    def claim(self, attempt: Attempt) -> None:
        with self.explained(), self.connection:
            self.write("SELECT matins.claim(?, ?, ?, ?, ?)", attempt.author())

    @contextlib.contextmanager
    def guarded(self, attempt: Attempt) -> Iterator[None]:
        """One transaction that writes."""
        with self.explained(), self.connection:
            self.write("SELECT matins.guard(?, ?, ?, ?, ?)", attempt.author())
            yield

    def mark_done(self, attempt: Attempt) -> None:
        self.write("SELECT matins.done(?, ?, ?, ?, ?, ?)", attempt.author_of())

    @contextlib.contextmanager
    def publishing(self, attempt: Attempt) -> Iterator[bool]:
        """One transaction; with True, in which the caller replaces what is published."""
        with self.explained(), self.connection:
            yield self.rows("SELECT matins.publish(?, ?, ?, ?, ?, ?)", attempt.author_of())[0][0]

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except self.driver.Error as error:
            message = error.diag.message_primary or str(error).strip()
            raise (Refused if error.pgcode == "MT001" else Unusable)(message) from error

    def write(self, sql: str, parameters: tuple) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), parameters)

    def write_many(self, sql: str, rows: Iterable[tuple]) -> None:
        with self.connection.cursor() as cursor:
            self.driver.extras.execute_batch(cursor, sql.replace("?", "%s"), rows)

    def rows(self, sql: str, parameters: tuple = ()) -> list[tuple]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), parameters)
            return cursor.fetchall()

    def close(self) -> None:
        self.connection.close()
