#!/usr/bin/env python3
"""Record the SHA-256 of every regular file below a tree; one process hashes one shard of it.

The obvious program appends a row for each file as it goes, and is wrong twice as soon as something goes wrong. An
attempt that is retried adds its files a second time. Worse, an attempt that was given up for dead (its machine was
paused by the hypervisor, its process hung in the kernel) may wake after its successor has finished and write over it.
No scheduler can prevent the second: the process is out of reach until it runs again. The database can, because every
write passes through it.

So this program does two things that any job can copy:

* It recomputes instead of adding. A row is unique by (job, fire time, path), so an attempt replaces what an earlier
  one left, and at its end it removes the rows that it did not write itself.
* It shows its papers on every write. Each batch is one transaction that first compares the token and the fence it was
  given with the highest ones seen, and is refused as a whole when a newer attempt, or a newer execution of the job, has
  been there.

There is nothing to clean up on SIGTERM: what is committed is complete, and what is not committed never happened.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import os
import signal
import sqlite3
import stat
import sys
import time
from dataclasses import dataclass, field
from typing import Iterator, Mapping, NamedTuple, Optional

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 75

# A batch bounds what an attempt loses when it is killed, and how long it hashes between two looks at the guard.
BATCH_FILES = 500
BATCH_BYTES = 64 * 1024 * 1024

READ_BYTES = 256 * 1024
BUSY_TIMEOUT_SECONDS = 30

# What opening a path answers when the file that was listed there is gone, or something else has taken its name.
VANISHED_ERRNOS = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}

SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS guard_tokens (
    job TEXT NOT NULL, fire_time TEXT NOT NULL, shard INTEGER NOT NULL, token INTEGER NOT NULL,
    PRIMARY KEY (job, fire_time, shard)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS guard_fences (
    job TEXT PRIMARY KEY, fence INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (
    job TEXT NOT NULL, fire_time TEXT NOT NULL, path BLOB NOT NULL,
    sha256 TEXT NOT NULL, size_bytes INTEGER NOT NULL, shard INTEGER NOT NULL, token INTEGER NOT NULL,
    PRIMARY KEY (job, fire_time, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS not_hashed (
    job TEXT NOT NULL, fire_time TEXT NOT NULL, path BLOB NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('vanished', 'unreadable')), reason TEXT NOT NULL,
    shard INTEGER NOT NULL, token INTEGER NOT NULL,
    PRIMARY KEY (job, fire_time, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shards_done (
    job TEXT NOT NULL, fire_time TEXT NOT NULL, shard INTEGER NOT NULL, shards INTEGER NOT NULL,
    token INTEGER NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (job, fire_time, shard)
) WITHOUT ROWID;
COMMIT;
"""


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


class Hashed(NamedTuple):
    path: bytes
    sha256: str
    size_bytes: int


class NotHashed(NamedTuple):
    path: bytes
    kind: str
    reason: str


@dataclass
class Batch:
    hashed: list[Hashed] = field(default_factory=list)
    not_hashed: list[NotHashed] = field(default_factory=list)
    bytes_hashed: int = 0

    def add(self, outcome: Hashed | NotHashed) -> None:
        if isinstance(outcome, Hashed):
            self.hashed.append(outcome)
            self.bytes_hashed += outcome.size_bytes
        else:
            self.not_hashed.append(outcome)

    def is_full(self) -> bool:
        return len(self.hashed) + len(self.not_hashed) >= BATCH_FILES or self.bytes_hashed >= BATCH_BYTES


class Totals:
    """What this attempt has written so far."""

    def __init__(self) -> None:
        self.files = self.bytes = self.vanished = self.unreadable = 0

    def add(self, batch: Batch) -> None:
        self.files += len(batch.hashed)
        self.bytes += batch.bytes_hashed
        vanished = sum(1 for entry in batch.not_hashed if entry.kind == "vanished")
        self.vanished += vanished
        self.unreadable += len(batch.not_hashed) - vanished

    def __str__(self) -> str:
        return f"{self.files} files, {self.bytes / 1e6:.1f} MB"


class Refused(Exception):
    """A newer attempt or execution has written; nothing of this transaction was kept."""


def main() -> int:
    # The default action, even where a parent left the signal ignored: see the last paragraph above.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tree, results_path, attempt = parse_command(os.environ)
    try:
        with contextlib.closing(open_results(results_path)) as connection:
            record_shard(tree, Results(connection, attempt))
    except Refused as refusal:
        print(f"baseline: refused: {attempt}: {refusal}", file=sys.stderr)
        return EXIT_REFUSED
    except (OSError, sqlite3.Error) as error:
        print(f"baseline: failed: {attempt}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_DONE


def record_shard(tree: bytes, results: Results) -> None:
    attempt = results.attempt
    totals = Totals()
    results.claim()
    for batch in hash_shard(tree, attempt.shard, attempt.shards):
        results.write(batch)
        totals.add(batch)
        report_unreadable(batch)
        print(f"baseline: {attempt}: {totals} so far", flush=True)
    results.finish(totals)
    print(
        f"baseline: {attempt}: done, {totals}, {totals.vanished} vanished, "
        f"{totals.unreadable} unreadable, token {attempt.token}",
        flush=True,
    )


def report_unreadable(batch: Batch) -> None:
    for path, kind, reason in batch.not_hashed:
        if kind == "unreadable":
            name = path.decode("utf-8", "backslashreplace")
            print(f"baseline: unreadable: {name!r}: {reason}", file=sys.stderr)


# The tree


def hash_shard(tree: bytes, shard: int, shards: int) -> Iterator[Batch]:
    """Hash this shard's part of the tree; every batch but the last is full, none is empty."""
    batch = Batch()
    for path, error in walk(tree):
        if shard_of(path, shards) != shard:
            continue
        batch.add(explain(path, error) if error else hash_file(tree, path))
        if batch.is_full():
            yield batch
            batch = Batch()
    if batch.hashed or batch.not_hashed:
        yield batch


def shard_of(path: bytes, shards: int) -> int:
    """The same on every host and in every process, which Python's own hash() is not."""
    return int.from_bytes(hashlib.sha256(path).digest()[:8], "big") % shards


def walk(tree: bytes) -> Iterator[tuple[bytes, Optional[OSError]]]:
    """Yield, relative to the tree, what `find TREE -xdev -type f` prints; and, with the error, directories it cannot.

    Fails when the tree itself cannot be listed: a tree that is not mounted is not an empty one.
    """
    device = os.lstat(tree).st_dev
    directories = [b""]
    while directories:
        directory = directories.pop()
        try:
            files, below = list_directory(tree, directory, device)
        except OSError as error:
            if not directory:
                raise
            yield directory, error
            continue
        for path in files:
            yield path, None
        directories.extend(reversed(below))


def list_directory(tree: bytes, directory: bytes, device: int) -> tuple[list[bytes], list[bytes]]:
    """Regular files and directories in it, sorted; nothing for the root of another filesystem."""
    absolute = os.path.join(tree, directory)
    files: list[bytes] = []
    below: list[bytes] = []
    if os.lstat(absolute).st_dev != device:
        return files, below
    with os.scandir(absolute) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_file(follow_symlinks=False):
                files.append(os.path.join(directory, entry.name))
            elif entry.is_dir(follow_symlinks=False):
                below.append(os.path.join(directory, entry.name))
    return files, below


def hash_file(tree: bytes, path: bytes) -> Hashed | NotHashed:
    try:
        # Neither follow a link nor wait for a pipe's writer, should one have taken the file's name since it was listed.
        descriptor = os.open(os.path.join(tree, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return NotHashed(path, "vanished", "no longer a regular file")
            return hash_descriptor(path, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return explain(path, error)


def hash_descriptor(path: bytes, descriptor: int) -> Hashed:
    digest = hashlib.sha256()
    size_bytes = 0
    while chunk := os.read(descriptor, READ_BYTES):
        digest.update(chunk)
        size_bytes += len(chunk)
    return Hashed(path, digest.hexdigest(), size_bytes)


def explain(path: bytes, error: OSError) -> NotHashed:
    kind = "vanished" if error.errno in VANISHED_ERRNOS else "unreadable"
    return NotHashed(path, kind, error.strerror or str(error))


# The results database


class Results:
    """The results database as one attempt may change it: only through the guard."""

    def __init__(self, connection: sqlite3.Connection, attempt: Attempt) -> None:
        self.connection = connection
        self.attempt = attempt
        self.fire = (attempt.job, attempt.fire_time)
        self.author = (attempt.shard, attempt.token)

    def claim(self) -> None:
        """Shut out older attempts before the first file is read, and say that this shard is being recomputed."""
        with self.guarded():
            self.delete_older("shards_done")

    def write(self, batch: Batch) -> None:
        with self.guarded():
            self.connection.executemany(
                "INSERT INTO results (job, fire_time, path, sha256, size_bytes, shard, token)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (job, fire_time, path) DO UPDATE SET sha256 = excluded.sha256,"
                " size_bytes = excluded.size_bytes, shard = excluded.shard, token = excluded.token",
                [self.fire + tuple(row) + self.author for row in batch.hashed],
            )
            self.connection.executemany(
                "INSERT INTO not_hashed (job, fire_time, path, kind, reason, shard, token)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (job, fire_time, path) DO UPDATE SET kind = excluded.kind,"
                " reason = excluded.reason, shard = excluded.shard, token = excluded.token",
                [self.fire + tuple(row) + self.author for row in batch.not_hashed],
            )

    def finish(self, totals: Totals) -> None:
        """Drop what earlier attempts at this shard wrote and this one did not, and mark the shard done."""
        attempt = self.attempt
        with self.guarded():
            self.delete_older("results")
            self.delete_older("not_hashed")
            self.connection.execute(
                "INSERT OR REPLACE INTO shards_done (job, fire_time, shard, shards, token, files, bytes)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*self.fire, attempt.shard, attempt.shards, attempt.token, totals.files, totals.bytes),
            )

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """One write transaction. It locks first, so that nobody newer slips in between the check and the write."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            self.check_guard()
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            # SQLite has already rolled back by itself after some errors, a full disk among them.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def check_guard(self) -> None:
        attempt = self.attempt
        shard = (*self.fire, attempt.shard)
        token_seen = self.read_number("SELECT token FROM guard_tokens WHERE (job, fire_time, shard) = (?, ?, ?)", shard)
        if token_seen is not None and token_seen > attempt.token:
            raise Refused(f"token {attempt.token} is stale, a later attempt holds token {token_seen}")
        self.connection.execute("INSERT OR REPLACE INTO guard_tokens VALUES (?, ?, ?, ?)", (*shard, attempt.token))
        if attempt.fence is None:
            return
        fence_seen = self.read_number("SELECT fence FROM guard_fences WHERE job = ?", (attempt.job,))
        if fence_seen is not None and fence_seen > attempt.fence:
            raise Refused(f"fence {attempt.fence} is stale, a later execution of the job holds fence {fence_seen}")
        self.connection.execute("INSERT OR REPLACE INTO guard_fences VALUES (?, ?)", (attempt.job, attempt.fence))

    def read_number(self, query: str, parameters: tuple) -> Optional[int]:
        row = self.connection.execute(query, parameters).fetchone()
        return row and row[0]

    def delete_older(self, table: str) -> None:
        self.connection.execute(
            f"DELETE FROM {table} WHERE job = ? AND fire_time = ? AND shard = ? AND token < ?",
            self.fire + self.author,
        )


def open_results(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
    switch_to_wal(connection)
    # A shard that exits with 0 is not run again, so what it wrote must be on the disk by then.
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(SCHEMA)
    return connection


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Shards that start together on a new file all try this, and here SQLite does not honour its busy timeout."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.02)


# The command line


def parse_command(environment: Mapping[str, str]) -> tuple[bytes, str, Attempt]:
    parser = argparse.ArgumentParser(
        prog="baseline.py",
        description="Record the SHA-256 of one shard of the regular files below a tree.",
        epilog="MATINS_JOB_ID, MATINS_FIRE_TIME, MATINS_TOKEN and, where set, MATINS_FENCE say on whose behalf."
        f" Exit status: {EXIT_DONE} done; {EXIT_FAILED} failed, try again; {EXIT_USAGE} usage;"
        f" {EXIT_REFUSED} refused, because a later attempt or execution has written.",
    )
    parser.add_argument("--tree", metavar="DIR", required=True)
    parser.add_argument("--results", metavar="FILE.db", required=True, help="SQLite database, on a local disk")
    for option, metavar in (("shard", "K"), ("shards", "N")):
        variable = f"MATINS_{option.upper()}"
        given = environment.get(variable)
        parser.add_argument(
            f"--{option}", metavar=metavar, type=int,
            default=given, required=given is None, help=f"default: ${variable}",
        )
    options = parser.parse_args()

    tree = os.fsencode(options.tree)
    if not is_directory(tree):
        parser.error(f"--tree {options.tree}: not a directory; a symbolic link is not followed, as find would not")
    if is_below(options.results, options.tree):
        parser.error(f"--results {options.results}: lies below the tree, and would change while it is hashed")
    if not 0 <= options.shard < options.shards:
        parser.error(f"--shard {options.shard} --shards {options.shards}: shards count from 0")
    try:
        return tree, options.results, parse_attempt(environment, options.shard, options.shards)
    except KeyError as missing:
        parser.error(f"{missing.args[0]} is not set; by hand, set it to stand for an attempt")
    except ValueError as error:
        parser.error(f"MATINS_TOKEN or MATINS_FENCE: {error}")


def parse_attempt(environment: Mapping[str, str], shard: int, shards: int) -> Attempt:
    fence = environment.get("MATINS_FENCE")
    return Attempt(
        job=environment["MATINS_JOB_ID"],
        fire_time=environment["MATINS_FIRE_TIME"],
        shard=shard,
        shards=shards,
        token=int(environment["MATINS_TOKEN"]),
        fence=int(fence) if fence else None,
    )


def is_directory(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_below(path: str, directory: str) -> bool:
    directory = os.path.realpath(directory)
    return os.path.commonpath([os.path.realpath(path), directory]) == directory


if __name__ == "__main__":
    sys.exit(main())
