"""Two connections to one SQLite file, in either order, at every place where the older process may be stopped."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import sessions
from both import FIRST, LAST, AnOlderExecutionOnEither, PublishingOnEither, finish
from interleaving import Chances, Violation, interleave
from sessions import JOB, MONDAY, Attempt, Conflict, Misused, Refused, SqliteSession

WAIT_SECONDS = 30
SEEDS = 150

OLDER = Attempt(token=8)
NEWER = Attempt(token=9)

# Each a way to break the script, and what is then no longer so.
LEFT_OUT = {
    "the whole check": [(r"    SELECT CASE.*?    END;", "    SELECT 1;")],
    "the fence": [(r"AND fence > CAST\(NEW.fence AS INTEGER\)\)", "AND 0)"),
                  (r"          OR \(NEW.fence IS NOT NULL\n.*?\)\)\n", "")],
    "a claim takes the mark back": [(r", done_of = NULL", "")],
    "all shards are done": [(r"count\(\*\) = s.done_of\n +AND", "")],
    "published as it is now": [(r"AND sum\(s.token\) IS NOT \(.*?\);", ";")],
}


class SqliteTest(unittest.TestCase):
    journal_mode = "WAL"

    def setUp(self) -> None:
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="matins-guard-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.file = self.home / "results.db"
        self.prepare(self.file, sessions.SQLITE_SCRIPT)
        self.older, self.newer, self.watcher = self.connect(), self.connect(), self.connect()

    def prepare(self, file: pathlib.Path, script: str) -> None:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA journal_mode = {self.journal_mode}")
        connection.executescript(script)
        connection.executescript(sessions.TABLES)
        connection.close()

    def connect(self, timeout: float = 0) -> SqliteSession:
        session = SqliteSession(self.file, timeout)
        self.addCleanup(session.close)
        return session


class AStalledWriter(SqliteTest):
    def check_refused(self) -> None:
        self.older.begin()
        with self.assertRaises(Refused):
            self.older.guard(OLDER)
        self.older.rollback()

    def check_waited_for(self) -> None:
        with self.assertRaises(Conflict):
            self.newer.claim(NEWER)

    def test_before_its_claim_is_refused(self) -> None:
        self.newer.claim(NEWER)
        with self.assertRaises(Refused) as refusal:
            self.older.claim(OLDER)
        self.assertEqual(
            str(refusal.exception), "matins: a later attempt has claimed this shard: this process was replaced; stop"
        )
        self.assertEqual(
            self.older.run("SELECT token, fence FROM matins_guard WHERE job = ? AND fire_time = ? AND shard = ?",
                           (JOB, MONDAY, 0)),
            [(9, 1)],
        )

    def test_between_its_transactions_is_refused(self) -> None:
        finish(self.older, OLDER)
        finish(self.newer, NEWER)
        self.check_refused()
        self.assertEqual(self.watcher.tokens(), {9})

    def test_before_the_guard_in_a_transaction_that_has_read_fails(self) -> None:
        self.older.claim(OLDER)
        self.older.begin("BEGIN")
        self.older.rows()
        finish(self.newer, NEWER)
        with self.assertRaises((Refused, Conflict)):
            self.older.guard(OLDER)
        self.older.rollback()
        self.check_refused()

    def test_after_begin_immediate_is_waited_for(self) -> None:
        self.older.claim(OLDER)
        self.older.begin()
        self.check_waited_for()
        self.older.guard(OLDER)
        self.older.recompute(OLDER)
        self.older.commit()
        finish(self.newer, NEWER)
        self.assertEqual(self.watcher.tokens(), {9})
        self.check_refused()

    def test_after_the_guard_is_waited_for_however_it_began(self) -> None:
        for beginning in SqliteSession.BEGINNINGS:
            with self.subTest(beginning):
                self.older.claim(OLDER)
                self.older.begin(beginning)
                self.older.guard(OLDER)
                self.check_waited_for()
                self.older.recompute(OLDER)
                self.check_waited_for()
                self.older.commit()
                self.assertEqual(self.watcher.tokens(), {8})
        finish(self.newer, NEWER)
        self.assertEqual(self.watcher.tokens(), {9})
        self.check_refused()

    def test_that_is_a_stopped_process_is_got_rid_of_by_killing_it(self) -> None:
        stopped = subprocess.Popen(
            [sys.executable, __file__, str(self.file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(stopped.communicate)
        self.addCleanup(stopped.kill)
        self.assertEqual(stopped.stdout.readline(), "written, not committed\n")
        stopped.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        self.check_waited_for()

        stopped.kill()
        stopped.wait(WAIT_SECONDS)
        self.assertEqual(self.watcher.tokens(), set())
        finish(self.newer, NEWER)
        self.assertEqual(self.watcher.tokens(), {9})


class AStalledWriterWithoutWal(AStalledWriter):
    journal_mode = "DELETE"

    def test_before_the_guard_in_a_transaction_that_has_read_fails(self) -> None:
        # Here whoever writes waits for whoever reads.
        self.older.claim(OLDER)
        self.older.begin("BEGIN")
        self.older.rows()
        with self.assertRaises(Conflict):
            finish(self.newer, NEWER)
        self.newer.rollback()
        self.older.guard(OLDER)
        self.older.commit()


class Arguments(SqliteTest):
    def test_are_numbers_also_where_they_are_bound_as_text(self) -> None:
        # As text, 9 would be greater than 10, and any text than any number.
        self.newer.claim(NEWER._replace(token=10, fence=10))
        for token, fence in ((9, 10), ("9", "10"), ("10", "9"), (10, "9")):
            with self.subTest(token=token, fence=fence):
                for call in (self.older.claim, self.older.guard):
                    with self.assertRaises(Refused):
                        call(OLDER._replace(token=token, fence=fence))
        self.older.guard(NEWER._replace(token="10", fence="10", shard="0"))
        self.older.claim(NEWER._replace(token="11", fence="10", shard="0"))
        self.assertEqual(self.watcher.run("SELECT token, typeof(token) FROM matins_shards"), [(11, "integer")])

    def test_that_are_no_numbers_are_refused(self) -> None:
        self.newer.claim(NEWER)
        for field, value in (("token", "nine"), ("token", ""), ("token", "9 "), ("token", 9.5), ("token", None),
                             ("token", str(2**63)), ("fence", ""), ("fence", "x"), ("shard", None), ("shard", "0x1"),
                             ("job", None), ("fire_time", None)):
            for call in (self.newer.claim, self.newer.guard, self.newer.done):
                with self.subTest(field=field, value=value, call=call.__name__), self.assertRaises(Misused):
                    call(NEWER._replace(**{field: value}))
        self.assertEqual(self.watcher.run("SELECT shard, token FROM matins_shards"), [(0, 9)])

    def test_are_judged_whatever_the_conflict_clause(self) -> None:
        self.newer.claim(NEWER._replace(fence=2))
        for clause in ("OR IGNORE", "OR REPLACE", "OR FAIL", "OR ROLLBACK"):
            for view in ("matins_claim", "matins_guard"):
                for attempt in (OLDER._replace(fence=2), NEWER._replace(token=30, fence=1)):
                    with self.subTest(clause, view=view), self.assertRaises(Refused):
                        self.older.run(f"INSERT {clause} INTO {view} VALUES (?, ?, ?, ?, ?)", attempt.author())
        self.assertEqual(self.watcher.run("SELECT token, fence FROM matins_guard"), [(9, 2)])

    def test_of_a_claim_that_was_not_made_are_misuse(self) -> None:
        for prepare in (lambda: None, lambda: self.older.claim(OLDER)):
            prepare()
            with self.assertRaisesRegex(Misused, "has not claimed this shard"):
                self.newer.guard(NEWER)
        self.newer.claim(NEWER)
        with self.assertRaisesRegex(Misused, "has not claimed this shard"):
            self.newer.guard(NEWER._replace(fence=2))


class AnOlderExecution(AnOlderExecutionOnEither, SqliteTest):
    def test_is_refused_on_every_shard_once_a_later_one_has_claimed_any(self) -> None:
        finish(self.older, self.monday._replace(shards=1))
        self.newer.claim(self.tuesday)
        for call in (self.older.guard, self.older.claim, self.older.done):
            with self.assertRaises(Refused) as refusal:
                call(self.monday)
        self.assertEqual(
            str(refusal.exception),
            "matins: a later execution of this job has claimed a shard: this process was replaced; stop",
        )
        with self.assertRaises(Refused):
            self.older.publish(self.monday._replace(shards=1))


class Publishing(PublishingOnEither, SqliteTest):
    def test_is_for_the_last_shard_and_once(self) -> None:
        finish(self.older, FIRST)
        self.assertFalse(self.older.publish(FIRST))
        finish(self.newer, LAST)
        self.assertTrue(self.newer.publish(LAST))
        self.assertFalse(self.newer.publish(LAST))
        self.assertFalse(self.older.publish(FIRST))
        self.assertEqual(self.watcher.run("SELECT times FROM matins_publications"), [(1,)])

    def test_of_two_last_ones_at_once_is_for_one(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        self.newer.begin("BEGIN")
        self.newer.rows()  # has a snapshot of before
        self.older.begin()
        self.assertTrue(self.older.publish(FIRST))
        with self.assertRaises(Conflict):
            self.newer.publish(LAST)
        self.older.commit()
        with self.assertRaises(Conflict):
            self.newer.publish(LAST)
        self.newer.rollback()
        self.assertFalse(self.newer.publish(LAST))

    def test_without_asking_is_misuse_where_there_is_nothing(self) -> None:
        publish = ("INSERT INTO matins_publish VALUES (?, ?, ?, ?, ?, ?)", FIRST.author_of())
        finish(self.older, FIRST)
        with self.assertRaisesRegex(Misused, "nothing to publish"):
            self.older.run(*publish)
        finish(self.newer, LAST)
        self.older.run(*publish)
        with self.assertRaisesRegex(Misused, "nothing to publish"):
            self.older.run(*publish)

    def test_comes_again_when_a_shard_was_done_again(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        self.assertTrue(self.newer.publish(LAST))
        again = FIRST._replace(token=50)
        self.older.claim(again)
        self.assertFalse(self.newer.publish(LAST))  # not while it is being recomputed
        self.older.done(again)
        self.assertTrue(self.newer.publish(LAST))
        self.assertFalse(self.older.publish(again))
        self.assertEqual(self.watcher.run("SELECT times FROM matins_publications"), [(2,)])

    def test_of_a_shard_that_is_none_is_misuse(self) -> None:
        attempt = FIRST._replace(shard=2)
        self.newer.claim(attempt)
        with self.assertRaisesRegex(Misused, "there is no such shard"):
            self.newer.done(attempt)


class TheScript(SqliteTest):
    def test_applied_again_changes_nothing(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        self.newer.publish(LAST)
        before = list(self.watcher.connection.iterdump())
        self.watcher.connection.executescript(sessions.SQLITE_SCRIPT)
        self.assertEqual(sorted(self.watcher.connection.iterdump()), sorted(before))
        self.older.guard(FIRST)  # on a connection that knows the views of before

    def test_is_called_as_the_guide_has_it(self) -> None:
        self.watcher.run("CREATE TABLE differences (fire_time TEXT, shard INTEGER)")
        statements = [statement for statement in sessions.statements_of_guide("matins_")
                      if not statement.startswith("INSERT INTO matins_publish")]  # one shard of twelve is done
        for statement in statements:
            self.newer.run(statement)
        for view in ("redo", "claim", "guard", "done", "publishable"):
            self.assertTrue(any(f"matins_{view}" in statement for statement in statements), view)

    @unittest.skipUnless(shutil.which("sqlite3"), "the sqlite3 shell is not installed here")
    def test_is_read_by_the_sqlite3_shell(self) -> None:
        file = self.home / "by-shell.db"
        for _ in range(2):
            subprocess.run(["sqlite3", "-bail", str(file)], input=sessions.SQLITE_SCRIPT, text=True, check=True)
        session = SqliteSession(file)
        self.addCleanup(session.close)
        session.claim(NEWER)


class AnyInterleaving(SqliteTest):
    def run_seed(self, seed: int, script: str) -> Chances:
        self.file = self.home / f"{seed}.db"
        self.prepare(self.file, script)
        return interleave(seed, SqliteSession.BEGINNINGS, lambda: SqliteSession(self.file), self.connect())

    def test_keeps_the_rules(self) -> None:
        chances = [self.run_seed(seed, sessions.SQLITE_SCRIPT) for seed in range(SEEDS)]
        for field in Chances._fields:
            # Nothing is shown by worlds in which nothing happens.
            self.assertGreater(sum(getattr(chance, field) for chance in chances), SEEDS // 2, field)

    def test_breaks_them_where_a_check_is_left_out(self) -> None:
        for what, mutations in LEFT_OUT.items():
            script = sessions.SQLITE_SCRIPT
            for pattern, replacement in mutations:
                script, times = re.subn(pattern, replacement, script, flags=re.DOTALL)
                self.assertEqual(times, 1, pattern)
            with self.subTest(what), self.assertRaises(Violation):
                for seed in range(SEEDS):
                    self.run_seed(seed, script)


def write_and_wait() -> None:
    """The program that is stopped in mid-transaction."""
    session = SqliteSession(pathlib.Path(sys.argv[1]))
    session.claim(OLDER)
    session.begin()
    session.guard(OLDER)
    session.recompute(OLDER)
    print("written, not committed", flush=True)
    sys.stdin.readline()
    session.commit()


if __name__ == "__main__":
    write_and_wait()
