"""The baseline as Matins would run it: real processes on a small tree, sharing one results database."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import baseline

HERE = pathlib.Path(__file__).resolve().parent
JOB = "test/baseline"
FIRE = "2026-11-29T02:00:00Z"
NEXT_FIRE = "2026-11-29T02:01:00Z"
WAIT_SECONDS = 30

ODD_FILES = {
    b"plain": b"content",
    b"empty": b"",
    b"new\nline": b"1",
    b"trailing newline\n": b"2",
    b"-dash": b"3",
    b"not utf-8 \xff\xfe": b"4",
    "grüße 早課".encode(): b"5",
    b" spaces \t and 'quotes\" \\n": b"6",
    b"below/-rf": b"7",
    b"below/\xff/deep": b"8",
    b"below/.hidden": b"9" * 1_000_000,
}


class BaselineTest(unittest.TestCase):
    def setUp(self) -> None:
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="baseline-test-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.tree = self.home / "tree"
        self.tree.mkdir()
        self.results = self.home / "results.db"

    # What a test does

    def write_files(self, files: dict[bytes, bytes]) -> None:
        for path, content in files.items():
            absolute = os.path.join(os.fsencode(self.tree), path)
            os.makedirs(os.path.dirname(absolute), exist_ok=True)
            with open(absolute, "wb") as file:
                file.write(content)

    def write_many_files(self) -> None:
        """More than one batch of them, so that an attempt can be met half way."""
        self.write_files({b"%04d" % n: b"%d" % n for n in range(600)})

    def write_file_with_too_long_a_path(self) -> str:
        """A path beyond PATH_MAX, which no user can open by its name, root included."""
        names = ["d" * 250] * 15 + ["d" * 100, "f" * 250]
        directory = os.open(self.tree, os.O_RDONLY)
        for name in names[:-1]:
            os.mkdir(name, dir_fd=directory)
            below = os.open(name, os.O_RDONLY, dir_fd=directory)
            os.close(directory)
            directory = below
        os.close(os.open(names[-1], os.O_CREAT | os.O_WRONLY, dir_fd=directory))
        os.close(directory)
        return "/".join(names)

    def start(self, shard: int = 0, shards: int = 1, token: int = 1, fence: int | None = 1, fire_time: str = FIRE,
              stdout: int = subprocess.PIPE) -> subprocess.Popen:
        environment = {**os.environ, "MATINS_JOB_ID": JOB, "MATINS_FIRE_TIME": fire_time, "MATINS_TOKEN": str(token),
                       "MATINS_SHARD": str(shard), "MATINS_SHARDS": str(shards)}
        environment.pop("MATINS_FENCE", None)
        if fence is not None:
            environment["MATINS_FENCE"] = str(fence)
        process = subprocess.Popen(
            [sys.executable, str(HERE / "baseline.py"), "--tree", str(self.tree), "--results", str(self.results)],
            env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(end, process)
        return process

    def attempt(self, expected: int = baseline.EXIT_DONE, **attempt) -> str:
        """Run one attempt to its end; return what it said on standard error."""
        process = self.start(**attempt)
        _, errors = process.communicate(timeout=WAIT_SECONDS)
        self.assertEqual(process.returncode, expected, errors)
        return errors

    def verify(self, *options: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(HERE / "verify"), "--tree", str(self.tree), "--results", str(self.results)]
        return subprocess.run(
            [*command, "--job", JOB, *options], capture_output=True, text=True, timeout=WAIT_SECONDS
        )

    def assert_verifies(self, files: int) -> None:
        outcome = self.verify()
        self.assertEqual(outcome.returncode, 0, outcome.stdout + outcome.stderr)
        self.assertIn(f"all agree: {files} files", outcome.stdout)

    def query(self, sql: str, *parameters) -> list[tuple]:
        with contextlib.closing(sqlite3.connect(self.results, timeout=WAIT_SECONDS)) as connection, connection:
            return connection.execute(sql, parameters).fetchall()

    def dump(self) -> list[str]:
        """Every row of every table."""
        with contextlib.closing(sqlite3.connect(self.results)) as connection:
            return list(connection.iterdump())

    def wait_for_rows(self, token: int) -> None:
        """Wait until an attempt has committed its first batch and let go of the database."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(sqlite3.OperationalError):  # no such table yet
                if self.query("SELECT 1 FROM results WHERE token = ? LIMIT 1", token):
                    self.query("BEGIN IMMEDIATE")
                    return
            time.sleep(0.01)
        self.fail(f"no row with token {token} within {WAIT_SECONDS} s")


class AnOrdinaryFire(BaselineTest):
    def test_shards_in_parallel_record_every_file_once(self) -> None:
        self.write_files(ODD_FILES)
        os.symlink("plain", self.tree / "link to a file")
        os.symlink("below", self.tree / "link to a directory")
        os.mkfifo(self.tree / "pipe")
        shards = 4
        for process in [self.start(shard=shard, shards=shards, token=10 + shard) for shard in range(shards)]:
            _, errors = process.communicate(timeout=WAIT_SECONDS)
            self.assertEqual((process.returncode, errors), (0, ""))

        rows = self.query("SELECT path, sha256, size_bytes FROM results")
        recorded = {path: (digest, size_bytes) for path, digest, size_bytes in rows}
        expected = {path: (hashlib.sha256(content).hexdigest(), len(content)) for path, content in ODD_FILES.items()}
        self.assertEqual(recorded, expected)
        self.assertEqual(self.query("SELECT * FROM not_hashed"), [])
        self.assertEqual(self.query("SELECT shard, shards, token FROM shards_done"), [(k, 4, 10 + k) for k in range(4)])
        self.assertEqual(
            self.query("SELECT sum(files), sum(bytes) FROM shards_done"),
            [(len(ODD_FILES), sum(map(len, ODD_FILES.values())))],
        )
        self.assert_verifies(len(ODD_FILES))

    def test_the_shard_of_a_path_never_changes(self) -> None:
        # Worked out with sha256sum: the first 16 hex digits, modulo 12.
        for path, shard in ((b"plain", 3), (b"not utf-8 \xff\xfe", 4)):
            self.assertEqual(baseline.shard_of(path, 12), shard)

    def test_a_file_that_vanishes_is_recorded_and_is_no_error(self) -> None:
        self.write_many_files()
        with FullPipe() as pipe:
            process = self.start(stdout=pipe.writer)
            self.wait_for_rows(token=1)
            os.remove(self.tree / "0598")
            os.remove(self.tree / "0599")
            os.mkfifo(self.tree / "0599")
            pipe.drain(process)
        self.assertEqual(process.wait(WAIT_SECONDS), 0)
        self.assertEqual(
            self.query("SELECT path, kind, reason FROM not_hashed"),
            [(b"0598", "vanished", "No such file or directory"), (b"0599", "vanished", "no longer a regular file")],
        )
        self.assert_verifies(598)

    def test_an_unreadable_file_is_recorded_printed_and_agrees_with_sha256sum(self) -> None:
        self.write_files({b"plain": b"content"})
        path = self.write_file_with_too_long_a_path()
        errors = self.attempt()
        self.assertIn("unreadable: '" + path[:20], errors)
        self.assertEqual(
            self.query("SELECT path, kind, reason FROM not_hashed"),
            [(os.fsencode(path), "unreadable", "File name too long")],
        )
        outcome = self.verify()
        self.assertEqual(outcome.returncode, 0, outcome.stdout)
        self.assertRegex(outcome.stdout, r"matching +1\n")
        self.assertRegex(outcome.stdout, r"unreadable +1 ")

class ARetry(BaselineTest):
    def test_replaces_the_rows_of_its_shard(self) -> None:
        self.write_files(ODD_FILES)
        self.attempt(shard=0, shards=2, token=5)
        self.attempt(shard=1, shards=2, token=6)
        other_shard = self.query("SELECT * FROM results WHERE shard = 1")
        changed, removed = self.query("SELECT path FROM results WHERE shard = 0 LIMIT 2")
        self.write_files({changed[0]: b"changed"})
        os.remove(os.path.join(os.fsencode(self.tree), removed[0]))

        self.attempt(shard=0, shards=2, token=7)

        self.assertEqual(self.query("SELECT DISTINCT token FROM results WHERE shard = 0"), [(7,)])
        self.assertEqual(self.query("SELECT * FROM results WHERE shard = 1"), other_shard)
        self.assertEqual(
            self.query("SELECT sha256, size_bytes FROM results WHERE path = ?", changed[0]),
            [(hashlib.sha256(b"changed").hexdigest(), 7)],
        )
        self.assert_verifies(len(ODD_FILES) - 1)

    def test_takes_back_the_mark_of_the_attempt_it_replaces(self) -> None:
        self.write_many_files()
        self.attempt(token=1)
        with FullPipe() as pipe:
            process = self.start(token=2, stdout=pipe.writer)
            self.wait_for_rows(token=2)
            process.kill()
            process.wait(WAIT_SECONDS)
        self.assertEqual(self.query("SELECT * FROM shards_done"), [])
        self.assertEqual(self.verify().returncode, 1)
        self.attempt(token=3)
        self.assert_verifies(600)

    def test_finds_a_consistent_database_after_sigterm(self) -> None:
        self.write_many_files()
        with FullPipe() as pipe:
            process = self.start(token=1, stdout=pipe.writer)
            self.wait_for_rows(token=1)
            process.terminate()
            self.assertEqual(process.wait(WAIT_SECONDS), -signal.SIGTERM)
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(self.query("SELECT count(*) FROM results"), [(baseline.BATCH_FILES,)])
        self.assertEqual(self.query("SELECT * FROM shards_done"), [])
        self.attempt(token=2)
        self.assert_verifies(600)


class AStaleAttempt(BaselineTest):
    def test_with_a_lower_token_changes_nothing(self) -> None:
        self.write_files(ODD_FILES)
        self.attempt(token=9)
        self.write_files({b"plain": b"changed since"})
        before = self.dump()
        errors = self.attempt(token=8, expected=baseline.EXIT_REFUSED)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertIn("token 8 is stale, a later attempt holds token 9", errors)
        self.assertEqual(self.dump(), before)

    def test_of_an_older_execution_changes_nothing(self) -> None:
        self.write_files(ODD_FILES)
        self.attempt(fire_time=NEXT_FIRE, token=1, fence=20)
        before = self.dump()
        errors = self.attempt(fire_time=FIRE, token=5, fence=19, expected=baseline.EXIT_REFUSED)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertIn("fence 19 is stale, a later execution of the job holds fence 20", errors)
        self.assertEqual(self.dump(), before)

    def test_is_judged_by_its_own_shard_and_fire(self) -> None:
        self.write_files(ODD_FILES)
        self.attempt(shard=0, shards=2, token=9)
        self.attempt(shard=1, shards=2, token=3)
        self.attempt(shard=0, shards=2, token=4, fire_time=NEXT_FIRE)

    def test_without_a_fence_is_judged_by_its_token_alone(self) -> None:
        self.write_files(ODD_FILES)
        self.attempt(fire_time=NEXT_FIRE, fence=20)
        self.attempt(fire_time=FIRE, fence=None)

    def test_that_was_stopped_and_overtaken_leaves_no_row(self) -> None:
        self.write_many_files()
        with FullPipe() as pipe:
            stale = self.start(token=1, stdout=pipe.writer)
            self.wait_for_rows(token=1)
            stale.send_signal(signal.SIGSTOP)
            _, status = os.waitpid(stale.pid, os.WUNTRACED)
            self.assertTrue(os.WIFSTOPPED(status))

            self.attempt(token=2)
            before = self.dump()
            stale.send_signal(signal.SIGCONT)
            pipe.drain(stale)
        self.assertEqual(stale.wait(WAIT_SECONDS), baseline.EXIT_REFUSED)
        self.assertIn("token 1 is stale", stale.stderr.read())
        self.assertEqual(self.dump(), before)
        self.assertEqual(self.query("SELECT DISTINCT token FROM results"), [(2,)])
        self.assert_verifies(600)


class Verify(BaselineTest):
    def setUp(self) -> None:
        super().setUp()
        self.write_files(ODD_FILES)
        self.attempt(shard=0, shards=2)
        self.attempt(shard=1, shards=2)

    def test_fails_when_the_results_are_not_those_of_the_tree(self) -> None:
        pristine = self.results
        for change, verdict in (
            ("UPDATE results SET sha256 = lower(hex(randomblob(32))) WHERE path = x'706c61696e'", "different"),
            ("DELETE FROM results WHERE path = x'706c61696e'", "missing"),
            ("INSERT INTO results VALUES (?, ?, x'6e6f6e65', hex(randomblob(32)), 1, 0, 1)", "extra"),
        ):
            with self.subTest(verdict):
                self.results = self.home / f"{verdict}.db"
                shutil.copyfile(pristine, self.results)
                self.query(change, *(JOB, FIRE)[: change.count("?")])
                outcome = self.verify()
                self.assertEqual(outcome.returncode, 1)
                self.assertRegex(outcome.stdout, rf"{verdict} +1\n")

    def test_fails_when_the_tree_has_changed(self) -> None:
        self.write_files({b"new": b""})
        outcome = self.verify()
        self.assertEqual(outcome.returncode, 1)
        self.assertRegex(outcome.stdout, r"missing +1\n")

    def test_fails_while_a_shard_is_not_done(self) -> None:
        self.query("DELETE FROM shards_done WHERE shard = 1")
        outcome = self.verify()
        self.assertEqual((outcome.returncode, outcome.stdout), (1, ""))
        self.assertIn("no fire of test/baseline has all of its shards done", outcome.stderr)
        outcome = self.verify("--fire-time", FIRE)
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("1 of 2 shards done", outcome.stdout)

    def test_takes_the_latest_fire_that_is_complete(self) -> None:
        self.attempt(shard=0, shards=2, fire_time=NEXT_FIRE)
        self.assertIn(FIRE, self.verify().stdout)
        self.attempt(shard=1, shards=2, fire_time=NEXT_FIRE)
        self.assertIn(NEXT_FIRE, self.verify().stdout)


class BadUsage(BaselineTest):
    def check(self, program: str, message: str, *arguments: str, **environment: str) -> None:
        command = [sys.executable, str(HERE / program), *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MATINS_")}
        outcome = subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True)
        self.assertEqual(outcome.returncode, 2, outcome.stderr)
        self.assertIn(message, outcome.stderr)
        self.assertEqual(list(self.home.iterdir()), [self.tree])

    def test_is_explained_and_changes_nothing(self) -> None:
        tree, results = ("--tree", str(self.tree)), ("--results", str(self.results))
        shard = ("--shard", "0", "--shards", "1")
        self.check("baseline.py", "the following arguments are required: --shard, --shards", *tree, *results)
        self.check("baseline.py", "MATINS_JOB_ID is not set", *tree, *results, *shard)
        self.check("baseline.py", "MATINS_TOKEN or MATINS_FENCE", *tree, *results, *shard, MATINS_JOB_ID=JOB,
                   MATINS_FIRE_TIME=FIRE, MATINS_TOKEN="seven")
        self.check("baseline.py", "shards count from 0", *tree, *results, "--shard", "1", "--shards", "1")
        self.check("baseline.py", "not a directory", "--tree", str(self.home / "none"), *results, *shard)
        self.check("baseline.py", "not followed", "--tree", "/proc/self", *results, *shard)
        self.check("baseline.py", "below the tree", *tree, "--results", str(self.tree / "results.db"), *shard)
        self.check("verify", "no such file", *tree, *results, "--job", JOB)
        self.check("verify", "required: --job", *tree, *results)


class FullPipe(contextlib.AbstractContextManager):
    """A full pipe. A process that reports its progress into it is held there: in mid-run, outside of a transaction."""

    def __enter__(self) -> FullPipe:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.writer, bytes(4096))
        os.set_blocking(self.writer, True)
        return self

    def drain(self, process: subprocess.Popen) -> None:
        """Let the process go on, to its end."""
        os.close(self.writer)
        self.writer = None
        while os.read(self.reader, 65536):
            pass
        process.wait(WAIT_SECONDS)

    def __exit__(self, *_) -> None:
        os.close(self.reader)
        if self.writer is not None:
            os.close(self.writer)


def end(process: subprocess.Popen) -> None:
    """For a test that failed half way; SIGKILL also ends a stopped process."""
    process.kill()
    process.communicate()


if __name__ == "__main__":
    unittest.main()
