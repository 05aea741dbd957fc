"""Two connections to a real PostgreSQL, in either order, at every place where the older process may be stopped."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from typing import Callable

import sessions
from both import FIRST, LAST, AnOlderExecutionOnEither, PublishingOnEither, finish
from interleaving import Chances, Violation, interleave
from sessions import JOB, MONDAY, TUESDAY, Attempt, Conflict, Misused, PostgresSession, Refused

WAIT_SECONDS = 30

OLDER = Attempt(token=8)
NEWER = Attempt(token=9)

READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = PostgresSession.BEGINNINGS

SEEDS = 20
SEEDS_TO_BREAK = 100

# Each a way to break the script, and what is then no longer so.
LEFT_OUT = {
    "the shard is held": (r"(s.shard = hold.shard\n) +FOR SHARE;", r"\1;"),
    "the job is held": (r"(j.job = hold_job.job) FOR SHARE;", r"\1;"),
    "an older token is refused": (r"IF newest_token > token THEN.*?ELSIF newest_token IS DISTINCT FROM token",
                                  "IF newest_token IS NULL"),
    "a claim takes the mark back": (r", done_of = NULL", ""),
    "all shards are done": (r"IF shards_done IS DISTINCT FROM shards THEN", "IF false THEN"),
    "published as it is now": (r" AND p.token_sum <> done_token_sum;", ";"),
}

address: str


def setUpModule() -> None:
    global address
    server = sessions.postgres_for_tests()
    address = server.__enter__()
    unittest.addModuleCleanup(server.__exit__, None, None, None)


class PostgresTest(unittest.TestCase):
    def setUp(self) -> None:
        self.watcher = self.connect()
        self.watcher.run("SET client_min_messages = warning")
        self.watcher.run("DROP SCHEMA IF EXISTS matins CASCADE")
        self.watcher.run("DROP TABLE IF EXISTS results, published")
        self.watcher.run(sessions.POSTGRES_SCRIPT)
        self.watcher.run(sessions.TABLES)
        self.older, self.newer = self.connect(), self.connect()

    def connect(self, *settings: str) -> PostgresSession:
        session = PostgresSession(address, *settings)
        self.addCleanup(session.close)
        return session

    def wait_until_it_waits(self, session: PostgresSession) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        waits = "SELECT 1 FROM pg_stat_activity WHERE pid = ? AND wait_event_type = 'Lock'"
        while not self.watcher.run(waits, (session.pid,)):
            self.assertLess(time.monotonic(), deadline, f"it does not wait for a lock within {WAIT_SECONDS} s")
            time.sleep(0.01)

    def in_background(self, work: Callable[[], object]) -> Waiting:
        return Waiting(self, work)


class Waiting:
    """A statement that is not expected to come back yet."""

    def __init__(self, test: PostgresTest, work: Callable[[], object]) -> None:
        self.test = test
        self.outcome: object = None
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self.do, args=(work,), daemon=True)
        self.thread.start()

    def do(self, work: Callable[[], object]) -> None:
        try:
            self.outcome = work()
        except Exception as error:
            self.error = error

    def result(self) -> object:
        self.thread.join(WAIT_SECONDS)
        self.test.assertFalse(self.thread.is_alive(), "it still waits")
        if self.error:
            raise self.error
        return self.outcome


class AtEveryIsolationLevel:
    """An older writer, stopped at each place in turn."""

    beginning: str

    def replace(self) -> None:
        """What the newer process does, all of it."""
        self.newer.claim(NEWER)
        self.newer.begin(self.beginning)
        self.newer.guard(NEWER)
        self.newer.recompute(NEWER)
        self.newer.done(NEWER)
        self.newer.commit()

    def check_refused(self) -> None:
        self.older.begin(self.beginning)
        with self.assertRaises(Refused):
            self.older.guard(OLDER)
        self.older.rollback()

    def test_stopped_before_the_guard_it_fails_with_all_it_wrote(self) -> None:
        self.older.claim(OLDER)
        self.older.begin(self.beginning)
        self.older.run("SELECT * FROM results")
        self.replace()

        with self.assertRaises((Refused, Conflict)):
            self.older.run("INSERT INTO results VALUES (?, 0, 8, 77)", (MONDAY,))
            self.older.guard(OLDER)
        self.older.commit()  # which PostgreSQL makes a rollback
        self.assertEqual(self.watcher.tokens(), {9})
        # Where it was told of a conflict, the same transaction once more is told why.
        self.check_refused()

    def test_stopped_between_guard_and_write_it_is_waited_for(self) -> None:
        self.older.claim(OLDER)
        self.older.begin(self.beginning)
        self.older.guard(OLDER)

        replacing = self.in_background(self.replace)
        self.wait_until_it_waits(self.newer)
        self.older.recompute(OLDER)
        self.older.commit()
        replacing.result()
        self.assertEqual(self.watcher.tokens(), {9})
        self.check_refused()

    def test_stopped_between_write_and_commit_it_is_waited_for(self) -> None:
        self.older.claim(OLDER)
        self.older.begin(self.beginning)
        self.older.guard(OLDER)
        self.older.recompute(OLDER, rows=50)

        replacing = self.in_background(self.replace)
        self.wait_until_it_waits(self.newer)
        self.older.commit()
        replacing.result()
        self.assertEqual(self.watcher.tokens(), {9})
        self.check_refused()

    def test_ended_in_mid_transaction_it_leaves_nothing_and_holds_nobody(self) -> None:
        self.older.claim(OLDER)
        self.older.begin(self.beginning)
        self.older.guard(OLDER)
        self.older.recompute(OLDER)

        replacing = self.in_background(self.replace)
        self.wait_until_it_waits(self.newer)
        self.older.close()
        replacing.result()
        self.assertEqual(self.watcher.tokens(), {9})

    def test_of_an_older_execution_it_is_waited_for_too(self) -> None:
        monday, tuesday = OLDER, Attempt(token=20, fence=2, shard=1, fire_time=TUESDAY)
        self.older.claim(monday)
        self.older.begin(self.beginning)
        self.older.guard(monday)
        self.older.run("INSERT INTO results VALUES ('balance', 0, 8, 0)")

        def settle_tuesday() -> None:
            self.newer.claim(tuesday)
            self.newer.begin(self.beginning)
            self.newer.guard(tuesday)
            # Rows that all fires share: it must see what Monday committed last.
            self.newer.run("DELETE FROM results WHERE fire_time = 'balance'")
            self.newer.run("INSERT INTO results VALUES ('balance', 0, 20, 0)")
            self.newer.commit()

        settling = self.in_background(settle_tuesday)
        self.wait_until_it_waits(self.newer)
        self.older.commit()
        settling.result()
        self.assertEqual(self.watcher.tokens("balance"), {20})
        self.check_refused()

    def test_the_claim_belongs_before_the_transaction(self) -> None:
        self.newer.begin(self.beginning)
        self.newer.claim(NEWER)
        if self.beginning == READ_COMMITTED:
            self.newer.guard(NEWER)  # every statement sees what was committed before it
        else:
            with self.assertRaisesRegex(Misused, "claimed in the transaction that writes"):
                self.newer.guard(NEWER)
        self.newer.rollback()

    def test_of_two_last_shards_at_once_one_publishes(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        # Each has a snapshot of before, and holds its own shard, as a program does that calls the guard out of habit.
        for session, attempt in ((self.older, FIRST), (self.newer, LAST)):
            session.begin(self.beginning)
            session.guard(attempt)
        self.assertTrue(self.older.publish(FIRST))
        other = self.in_background(lambda: self.newer.publish(LAST))
        self.wait_until_it_waits(self.newer)
        self.older.commit()
        if self.beginning == READ_COMMITTED:
            self.assertFalse(other.result())
            self.newer.commit()
        else:
            self.assertRaises(Conflict, other.result)
            self.newer.rollback()
            self.assertFalse(self.newer.publish(LAST))
        self.assertEqual(self.watcher.run("SELECT times FROM matins.publications"), [(1,)])

    def test_a_shard_claimed_since_its_snapshot_is_not_published(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        self.older.begin(self.beginning)
        self.older.rows()
        self.newer.claim(LAST._replace(token=99))
        if self.beginning == READ_COMMITTED:
            self.assertFalse(self.older.publish(FIRST))
        else:
            with self.assertRaises(Conflict):
                self.older.publish(FIRST)
        self.older.rollback()


class UnderReadCommitted(AtEveryIsolationLevel, PostgresTest):
    beginning = READ_COMMITTED


class UnderRepeatableRead(AtEveryIsolationLevel, PostgresTest):
    beginning = REPEATABLE_READ


class UnderSerializable(AtEveryIsolationLevel, PostgresTest):
    beginning = SERIALIZABLE


class AStalledWriter(PostgresTest):
    def test_does_not_block_longer_than_a_lock_timeout(self) -> None:
        self.older.claim(OLDER)
        self.older.begin()
        self.older.guard(OLDER)
        hasty = self.connect("lock_timeout=50ms")
        with self.assertRaises(Conflict):
            hasty.claim(NEWER)
        # And has not been replaced by an attempt that could not get in.
        self.older.recompute(OLDER)
        self.older.commit()
        self.assertEqual(self.watcher.tokens(), {8})

    def test_that_is_a_stopped_process_is_thrown_out_by_the_idle_timeout(self) -> None:
        stopped = subprocess.Popen(
            [sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(stopped.communicate)
        self.addCleanup(stopped.kill)
        self.assertEqual(stopped.stdout.readline(), "written, not committed\n")
        stopped.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))

        finish(self.newer, NEWER)
        stopped.send_signal(signal.SIGCONT)
        _, errors = stopped.communicate("commit\n", timeout=WAIT_SECONDS)
        self.assertEqual(stopped.returncode, 1)
        self.assertIn("psycopg2.OperationalError", errors)
        self.assertEqual(self.watcher.tokens(), {9})


class TheClaim(PostgresTest):
    def test_that_comes_too_late_is_refused(self) -> None:
        self.newer.claim(NEWER)
        with self.assertRaises(Refused) as refusal:
            self.older.claim(OLDER)
        self.assertEqual(
            str(refusal.exception),
            f"{JOB} {MONDAY} shard 0: token 8 was replaced by 9: this process was replaced; stop",
        )

    def test_is_demanded(self) -> None:
        with self.assertRaisesRegex(Misused, "token 9 has not claimed this shard"):
            self.newer.guard(NEWER)
        self.older.claim(OLDER)
        with self.assertRaisesRegex(Misused, "token 9 has not claimed this shard"):
            self.newer.guard(NEWER)
        self.newer.claim(NEWER._replace(fence=None))
        with self.assertRaisesRegex(Misused, "has not claimed"):
            self.newer.guard(NEWER._replace(fence=2))

    def test_twice_is_as_good_as_once(self) -> None:
        self.newer.claim(NEWER)
        self.newer.done(NEWER)
        self.newer.claim(NEWER)
        self.assertEqual(self.watcher.run("SELECT token, done_of FROM matins.shards"), [(9, 2)])

    def test_of_two_that_come_at_once_on_a_new_shard_the_higher_holds(self) -> None:
        for first, second, expected in ((OLDER, NEWER, None), (NEWER, OLDER, Refused)):
            with self.subTest(first=first.token):
                self.older.begin()
                self.older.claim(first)
                claiming = self.in_background(lambda: self.newer.claim(second))
                self.wait_until_it_waits(self.newer)
                self.older.commit()
                if expected:
                    self.assertRaises(expected, claiming.result)
                else:
                    claiming.result()
                self.assertEqual(self.watcher.run("SELECT token FROM matins.shards"), [(9,)])
                self.watcher.run("DELETE FROM matins.shards")

    def test_takes_no_null_but_the_fence(self) -> None:
        for field in ("job", "fire_time", "shard", "token"):
            for call in (self.newer.claim, self.newer.guard):
                with self.subTest(field), self.assertRaisesRegex(Misused, "is null"):
                    call(NEWER._replace(**{field: None}))


class ShardsOfOneExecution(PostgresTest):
    def test_do_not_wait_for_each_other(self) -> None:
        shards = [Attempt(token=10 + shard, fence=5, shard=shard, shards=4) for shard in range(4)]
        writers = [self.connect("lock_timeout=5s") for _ in shards]
        for writer, attempt in zip(writers, shards):
            writer.claim(attempt)
        for writer, attempt in zip(writers, shards):
            writer.begin()
            writer.guard(attempt)
            writer.recompute(attempt)
            writer.done(attempt)
        for writer in writers:
            writer.commit()
        self.assertEqual(len(self.watcher.rows()), 12)

    def test_of_one_attempt_may_use_several_connections(self) -> None:
        self.newer.claim(NEWER)
        for writer in (self.older, self.newer):
            writer.begin()
            writer.guard(NEWER)
        for writer in (self.older, self.newer):
            writer.commit()


class AnOlderExecution(AnOlderExecutionOnEither, PostgresTest):
    def test_is_refused_on_every_shard_once_a_later_one_has_claimed_any(self) -> None:
        self.older.claim(self.monday)
        self.newer.claim(self.tuesday)
        for call in (self.older.guard, self.older.claim, self.older.done, self.older.publish):
            with self.assertRaises(Refused) as refusal:
                call(self.monday)
        self.assertEqual(
            str(refusal.exception),
            f"{JOB} {MONDAY} shard 0: fence 1 was replaced by 2: this process was replaced; stop",
        )


class Publishing(PublishingOnEither, PostgresTest):
    def test_is_for_the_last_shard_and_once(self) -> None:
        finish(self.older, FIRST)
        self.assertFalse(self.older.publish(FIRST))
        finish(self.newer, LAST)
        self.assertTrue(self.newer.publish(LAST))
        self.assertFalse(self.newer.publish(LAST))
        self.assertFalse(self.older.publish(FIRST))
        self.assertEqual(self.watcher.run("SELECT times FROM matins.publications"), [(1,)])

    def test_holds_off_who_would_recompute_a_shard(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        self.older.begin()
        self.assertTrue(self.older.publish(FIRST))
        claiming = self.in_background(lambda: self.newer.claim(LAST._replace(token=99)))
        self.wait_until_it_waits(self.newer)
        self.older.replace_published(MONDAY)
        self.older.commit()
        claiming.result()
        self.assertEqual(self.watcher.rows(table="published"), self.watcher.rows())

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
        self.assertEqual(self.watcher.run("SELECT times FROM matins.publications"), [(2,)])

    def test_in_the_transaction_that_marked_the_shard_done_is_misuse(self) -> None:
        self.newer.claim(LAST)
        self.newer.begin()
        self.newer.done(LAST)
        with self.assertRaisesRegex(Misused, "published in the transaction that claimed it or marked it done"):
            self.newer.publish(LAST)
        self.newer.rollback()

    def test_of_a_shard_that_is_none_is_misuse(self) -> None:
        attempt = FIRST._replace(shard=2)
        self.newer.claim(attempt)
        with self.assertRaisesRegex(Misused, "there is no shard 2 of 2"):
            self.newer.done(attempt)


class TheScript(PostgresTest):
    def test_applied_again_changes_nothing(self) -> None:
        self.older.claim(OLDER)
        self.older.done(OLDER)
        tables = ("jobs", "shards", "publications")
        before = [self.watcher.run(f"SELECT * FROM matins.{table}") for table in tables]
        self.older.begin()
        self.older.guard(OLDER)
        self.watcher.run("SET lock_timeout = '5s'")
        self.watcher.run(sessions.POSTGRES_SCRIPT)  # while a job is at work
        self.older.commit()
        self.assertEqual([self.watcher.run(f"SELECT * FROM matins.{table}") for table in tables], before)
        self.older.guard(OLDER)

    def test_applied_by_two_at_once_is_applied(self) -> None:
        self.watcher.run("DROP SCHEMA matins CASCADE")
        appliers = [self.in_background(lambda s=s: s.run(sessions.POSTGRES_SCRIPT)) for s in (self.older, self.newer)]
        for applier in appliers:
            applier.result()
        self.newer.claim(NEWER)

    def test_is_called_as_the_guide_has_it(self) -> None:
        self.watcher.run("DROP TABLE IF EXISTS differences")
        self.watcher.run("CREATE TABLE differences (fire_time text, shard bigint)")
        statements = sessions.statements_of_guide("matins.")
        for statement in statements:
            self.newer.run(statement)
        for function in ("redo", "claim", "guard", "done", "publish"):
            self.assertTrue(any(f"matins.{function}(" in statement for statement in statements), function)

    @unittest.skipUnless(shutil.which("psql"), "psql is not installed here")
    def test_is_read_by_psql(self) -> None:
        command = ["psql", "-X", "-v", "ON_ERROR_STOP=1", address]
        outcome = subprocess.run(command, input=sessions.POSTGRES_SCRIPT, text=True, capture_output=True)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))

    def test_serves_another_role_with_the_rights_that_the_guide_names(self) -> None:
        self.watcher.run("DROP ROLE IF EXISTS batch")
        self.watcher.run("CREATE ROLE batch")
        self.watcher.run("GRANT USAGE ON SCHEMA matins TO batch")
        self.watcher.run("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA matins TO batch")
        self.newer.run("SET ROLE batch")
        one = NEWER._replace(shards=1)
        self.newer.claim(one)
        self.newer.guard(one)
        self.newer.done(one)
        self.assertTrue(self.newer.publish(one))
        self.newer.run("RESET ROLE")
        self.watcher.run("DROP OWNED BY batch")
        self.watcher.run("DROP ROLE batch")


class ACrowd(PostgresTest):
    """Many at once, each waiting for whom it must: nobody may wait in a circle, and nobody's rows may be left."""

    SHARDS = 4
    THREADS = 8
    ATTEMPTS = 50  # of each thread

    def test_at_every_isolation_level_comes_to_its_end(self) -> None:
        self.positions = itertools.count(1)
        self.fence = 0
        for beginning in PostgresSession.BEGINNINGS:
            with self.subTest(beginning):
                threads = [self.in_background(lambda seed=seed: self.work(random.Random(seed), beginning))
                           for seed in range(self.THREADS)]
                done = sum(thread.result() for thread in threads)
                self.assertGreater(done, self.ATTEMPTS)
                for shard in range(self.SHARDS):
                    self.assertLessEqual(len(self.watcher.tokens(shard=shard)), 1)

    def work(self, source: random.Random, beginning: str) -> int:
        session = PostgresSession(address)
        with contextlib.closing(session):
            return sum(self.attempt(session, source, beginning) for _ in range(self.ATTEMPTS))

    def attempt(self, session: PostgresSession, source: random.Random, beginning: str) -> bool:
        """Whether it got as far as marking its shard done."""
        if source.random() < 0.1:
            self.fence = next(self.positions)
        fence, shard = self.fence or None, source.randrange(self.SHARDS)
        attempt = Attempt(next(self.positions), fence, shard, self.SHARDS)

        def write() -> None:
            session.guard(attempt)
            session.recompute(attempt)
            session.done(attempt)

        def publish() -> None:
            session.guard(attempt)  # out of habit: publishing asks itself
            if session.publish(attempt):
                session.replace_published(attempt.fire_time)

        try:
            session.claim(attempt)
            self.insist(session, beginning, write)
        except Refused:
            session.rollback()
            return False
        with contextlib.suppress(Refused):
            self.insist(session, beginning, publish)
        session.rollback()
        return True

    def insist(self, session: PostgresSession, beginning: str, transaction: Callable[[], None]) -> None:
        while True:
            with contextlib.suppress(Conflict):
                session.begin(beginning)
                transaction()
                session.commit()
                return
            session.rollback()


class AnyInterleaving(PostgresTest):
    def run_seed(self, seed: int) -> Chances:
        self.watcher.run("TRUNCATE matins.jobs, matins.shards, matins.publications, results, published")
        # One thread interleaves them, so that who has to wait must come back later.
        return interleave(seed, PostgresSession.BEGINNINGS, lambda: PostgresSession(address, "lock_timeout=1ms"), self.watcher)

    def test_keeps_the_rules(self) -> None:
        chances = [self.run_seed(seed) for seed in range(SEEDS)]
        for field in Chances._fields:
            # Nothing is shown by worlds in which nothing happens.
            self.assertGreater(sum(getattr(chance, field) for chance in chances), SEEDS // 2, field)

    def test_breaks_them_where_a_check_is_left_out(self) -> None:
        for what, (pattern, replacement) in LEFT_OUT.items():
            script, times = re.subn(pattern, replacement, sessions.POSTGRES_SCRIPT, flags=re.DOTALL)
            self.assertEqual(times, 1, pattern)
            self.watcher.run(script)
            with self.subTest(what), self.assertRaises(Violation):
                for seed in range(SEEDS_TO_BREAK):
                    self.run_seed(seed)


def write_and_wait() -> None:
    """The program that is stopped in mid-transaction: writes, waits for a word, commits."""
    session = PostgresSession(sys.argv[1], "idle_in_transaction_session_timeout=300ms")
    session.claim(OLDER)
    session.begin()
    session.guard(OLDER)
    session.recompute(OLDER)
    print("written, not committed", flush=True)
    sys.stdin.readline()
    session.commit()


if __name__ == "__main__":
    write_and_wait()
