"""The reconciliation as Matins would run it: real processes, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from decimal import Decimal
from typing import BinaryIO, Iterator, Optional

import books
import reconcile
from books import BadBook, Line
from database import Attempt, open_database
from private_postgres import NoPostgres, private_postgres

HERE = pathlib.Path(__file__).resolve().parent
GUARD = HERE.parent.parent / "cli/src/guard"
JOB = "test/reconcile"
DAY = "2026-11-28"
FIRE = "2026-11-29T15:30:00Z"
NEXT_FIRE = "2026-11-30T15:30:00Z"
LINES = 3000
WAIT_SECONDS = 30


class Comparing(unittest.TestCase):
    def check(self, bank: list[tuple], ledger: list[tuple], *expected: tuple) -> None:
        outcome = reconcile.reconcile(iter(map(line, bank)), iter(map(line, ledger)))
        self.assertEqual([tuple(difference) for difference in outcome.differences], list(expected))
        self.assertEqual((outcome.bank_lines, outcome.ledger_lines), (len(bank), len(ledger)))

    def test_names_each_difference(self) -> None:
        same = ("a", DAY, "EUR", "10.00")
        self.check([], [])
        self.check([same], [same])
        self.check([same], [("a", DAY, "EUR", "10")])
        self.check([same], [], ("missing_in_ledger", "a", f"{DAY} 10.00 EUR", ""))
        self.check([], [same], ("missing_in_bank", "a", "", f"{DAY} 10.00 EUR"))
        self.check([same], [("a", DAY, "USD", "10.00")], ("currency", "a", "EUR", "USD"))
        self.check([same], [("a", "2026-11-27", "EUR", "10.00")], ("date", "a", DAY, "2026-11-27"))
        self.check([same], [("a", DAY, "EUR", "10.01")], ("rounding", "a", "10.00", "10.01"))
        self.check([same], [("a", DAY, "EUR", "9.98")], ("amount", "a", "10.00", "9.98"))
        self.check([same], [("a", DAY, "EUR", "-10.00")], ("amount", "a", "10.00", "-10.00"))
        self.check([same, same, same], [same], ("duplicate_in_bank", "a", "3", "1"))
        self.check([same], [same, same], ("duplicate_in_ledger", "a", "1", "2"))

    def test_names_all_of_one_payment(self) -> None:
        self.check(
            [("a", DAY, "EUR", "10.00"), ("a", DAY, "EUR", "10.00")], [("a", "2026-11-29", "USD", "20.00")],
            ("currency", "a", "EUR", "USD"), ("date", "a", DAY, "2026-11-29"), ("amount", "a", "10.00", "20.00"),
            ("duplicate_in_bank", "a", "2", "1"),
        )


def line(fields: tuple) -> Line:
    reference, date, currency, amount = fields
    return Line(reference, date, currency, Decimal(amount))


class Books(unittest.TestCase):
    header = ",".join(books.FIELDS).encode() + b"\n"

    def setUp(self) -> None:
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="reconcile-test-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.book = self.home / "bank.csv"

    def read(self, content: bytes, shard: int = 0, shards: int = 1) -> list[Line]:
        self.book.write_bytes(content)
        return list(books.read_book(self.book, shard, shards))

    def test_are_read_shard_by_shard_and_no_line_twice(self) -> None:
        rows = [b'%d,2026-11-28,0,EUR,1.00,"a, ""b"""\n' % n for n in range(100)]
        read = [row for shard in range(7) for row in self.read(self.header + b"".join(rows), shard, 7)]
        self.assertEqual(sorted(int(row.reference) for row in read), list(range(100)))

    def test_the_shard_of_a_reference_never_changes(self) -> None:
        # Worked out with gzip's CRC-32: 0xcbf43926 for this text, as every table of checksums has it.
        self.assertEqual(books.shard_of(b"123456789", 12), 0xCBF43926 % 12)

    def test_that_are_broken_are_refused_with_their_line(self) -> None:
        good = b"a,2026-11-28,0,EUR,1.00,\n"
        for bad in (b"b,2026-11-28,0,EUR\n", b"b,2026-11-28,0,EUR,1.0.0,\n", b"b,2026-11-28,0,EUR,NaN,\n", b"\n",
                    b",2026-11-28,0,EUR,1.00,\n", b'b,2026-11-28,0,EUR,1.00,"cut off\n',
                    b"b,2026-11-28,0,EUR,1.00,\xff\n"):
            with self.subTest(bad), self.assertRaisesRegex(BadBook, r"bank\.csv:3: not a payment: "):
                self.read(self.header + good + bad + good)
        with self.assertRaisesRegex(BadBook, "the first line does not name the fields"):
            self.read(good)


class Generating(unittest.TestCase):
    def test_makes_the_same_books_from_the_same_arguments(self) -> None:
        with tempfile.TemporaryDirectory(prefix="reconcile-test-") as home:
            for directory, seed in (("a", "1"), ("b", "1"), ("c", "2")):
                generate(pathlib.Path(home, directory), 500, "--seed", seed)
            read = {name: [(pathlib.Path(home, name, DAY) / f"{book}.csv").read_bytes()
                           for book in ("bank", "ledger", "truth")] for name in "abc"}
        self.assertEqual(read["a"], read["b"])
        self.assertNotEqual(read["a"], read["c"])
        self.assertEqual([content.count(b"\n") - 1 for content in read["a"][:2]], [500, 500])


def generate(directory: pathlib.Path, lines: int, *options: str) -> None:
    command = [sys.executable, HERE / "generate", "--dir", directory, "--date", DAY, "--lines", str(lines), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class OnEitherDatabase:
    """What a fire does, whatever it writes to. `address` and `guard` are the database's."""

    address: str
    guard: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.books = pathlib.Path(tempfile.mkdtemp(prefix="reconcile-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.books)
        generate(cls.books, LINES)

    def prepare(self) -> None:
        with contextlib.closing(open_database(self.address)) as database:
            database.prepare(
                (GUARD / f"{self.guard}.sql").read_text(encoding="utf-8"),
                (HERE / "schema.sql").read_text(encoding="utf-8"),
            )

    def start(self, shard: int = 0, shards: int = 2, token: int = 1, fence: Optional[int] = 1, fire_time: str = FIRE,
              books: Optional[pathlib.Path] = None) -> subprocess.Popen:
        environment = {**os.environ, "MATINS_JOB_ID": JOB, "MATINS_FIRE_TIME": fire_time, "MATINS_TOKEN": str(token)}
        for unset in ("MATINS_FENCE", "MATINS_REDO"):
            environment.pop(unset, None)
        if fence is not None:
            environment["MATINS_FENCE"] = str(fence)
        process = subprocess.Popen(
            [sys.executable, HERE / "reconcile.py", "--books", books or self.books, "--date", DAY,
             "--shard", f"{shard}/{shards}", "--database", self.address],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(end, process)
        return process

    def attempt(self, expected: int = reconcile.EXIT_DONE, **attempt) -> str:
        """Run one attempt to its end; return what it said."""
        process = self.start(**attempt)
        output, errors = process.communicate(timeout=WAIT_SECONDS)
        self.assertEqual(process.returncode, expected, errors)
        return output + errors

    def query(self, sql: str, *parameters) -> list[tuple]:
        with contextlib.closing(open_database(self.address)) as database:
            return database.rows(sql, parameters)

    def all_rows(self) -> list[list[tuple]]:
        return [sorted(self.query(f"SELECT * FROM {table}")) for table in ("differences", "lines_read", "settlements")]

    def verify(self) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, HERE / "verify", "--books", self.books, "--date", DAY, "--database", self.address,
             "--job", JOB, "--fire-time", FIRE],
            capture_output=True, text=True, timeout=WAIT_SECONDS,
        )

    def assert_verifies(self) -> None:
        outcome = self.verify()
        self.assertEqual(outcome.returncode, 0, outcome.stdout + outcome.stderr)

    @contextlib.contextmanager
    def halfway(self, token: int, shard: int = 0) -> Iterator[subprocess.Popen]:
        """A process that has claimed its shard and reads a book that has no end yet: a pipe."""
        halfway = pathlib.Path(tempfile.mkdtemp(dir=self.books))
        day = halfway / DAY
        day.mkdir()
        shutil.copy(self.books / DAY / "bank.csv", day)
        os.mkfifo(day / "ledger.csv")
        process = self.start(token=token, shard=shard, books=halfway)
        with open_when_read(day / "ledger.csv") as pipe:
            yield process
            if process.poll() is None:
                pipe.write((self.books / DAY / "ledger.csv").read_bytes())

    # The tests

    def test_all_shards_at_once_find_everything_and_publish_once(self) -> None:
        processes = [self.start(shard=shard, shards=5, token=10 + shard) for shard in range(5)]
        said = []
        for process in processes:
            output, errors = process.communicate(timeout=WAIT_SECONDS)
            self.assertEqual((process.returncode, errors), (0, ""))
            said.append("published the day" in output)
        self.assertEqual(sum(said), 1)
        self.assert_verifies()

    def test_a_retry_replaces_its_shard_and_publishes_anew(self) -> None:
        self.attempt(shard=0, token=5)
        self.attempt(shard=1, token=6)
        before = self.query("SELECT kind, reference FROM differences ORDER BY 1, 2")
        self.assertIn("published the day", self.attempt(shard=0, token=7))
        self.assertEqual(self.query("SELECT kind, reference FROM differences ORDER BY 1, 2"), before)
        self.assertEqual(self.query("SELECT DISTINCT token FROM differences WHERE shard = 0"), [(7,)])
        # Its work was published twice, which verify does not take for once.
        self.assertIn("times published            2  WRONG", self.verify().stdout)

    def test_a_killed_process_leaves_nothing_and_its_shard_is_done_again(self) -> None:
        self.attempt(shard=1, token=1)
        with self.halfway(token=2) as process:
            process.kill()
            process.wait(WAIT_SECONDS)
        self.assertEqual(self.query("SELECT DISTINCT shard FROM differences"), [(1,)])
        self.assertEqual(self.verify().returncode, 1)
        self.assertIn("published the day", self.attempt(shard=0, token=3))
        self.assert_verifies()

    def test_a_stopped_process_that_was_replaced_is_refused_when_it_wakes(self) -> None:
        self.attempt(shard=1, token=1)
        with self.halfway(token=2) as process:
            process.send_signal(signal.SIGSTOP)
            self.attempt(shard=0, token=3)
            before = self.all_rows()
            process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=WAIT_SECONDS)
        self.assertEqual(process.returncode, reconcile.EXIT_REFUSED, errors)
        self.assertRegex(errors, f"refused: {JOB} {FIRE} shard 0 of 2: .*token 2.*3.*this process was replaced; stop\n")
        self.assertEqual(self.all_rows(), before)
        self.assert_verifies()

    def test_an_older_execution_is_refused(self) -> None:
        self.attempt(fire_time=NEXT_FIRE, token=9, fence=8)
        before = self.all_rows()
        errors = self.attempt(token=20, fence=7, expected=reconcile.EXIT_REFUSED)
        self.assertIn("this process was replaced; stop", errors)
        self.assertEqual(self.all_rows(), before)

    def test_without_a_fence_tokens_alone_decide(self) -> None:
        self.attempt(fire_time=NEXT_FIRE, token=9, fence=8)
        self.attempt(token=20, fence=None)

    def test_a_later_fire_for_the_day_replaces_what_was_published(self) -> None:
        self.attempt(shards=1, token=1, fence=1)
        self.attempt(shards=1, token=3, fence=2, fire_time=NEXT_FIRE)
        self.assertEqual(self.query("SELECT DISTINCT fire_time FROM settlements"), [(NEXT_FIRE,)])

    def test_a_broken_book_fails_the_shard_and_loses_nothing(self) -> None:
        self.attempt(shards=1, token=1)
        before = self.all_rows()
        broken = pathlib.Path(tempfile.mkdtemp(dir=self.books))
        shutil.copytree(self.books / DAY, broken / DAY)
        with open(broken / DAY / "bank.csv", "ab") as book:
            book.write(b"cut of")
        errors = self.attempt(shards=1, token=2, books=broken, expected=reconcile.EXIT_FAILED)
        self.assertIn(f"bank.csv:{LINES + 2}: not a payment", errors)
        self.assertEqual(self.all_rows(), before)

    def test_verify_fails_when_the_result_is_not_the_truth(self) -> None:
        self.attempt(shards=1, token=1)
        self.assert_verifies()
        for change, undo, verdict in (
            ("UPDATE differences SET kind = 'x' WHERE kind = 'date'",
             "UPDATE differences SET kind = 'date' WHERE kind = 'x'", "not found"),
            ("UPDATE lines_read SET bank = bank - 1", "UPDATE lines_read SET bank = bank + 1", "lines of the bank"),
            ("UPDATE settlements SET differences = differences + 1 WHERE kind = 'date'",
             "UPDATE settlements SET differences = differences - 1 WHERE kind = 'date'", "published"),
        ):
            with self.subTest(verdict):
                self.change(change)
                outcome = self.verify()
                self.change(undo)
                self.assertEqual(outcome.returncode, 1)
                self.assertRegex(outcome.stdout, rf"{verdict} +\d+  WRONG")

    def change(self, sql: str) -> None:
        attempt = Attempt(JOB, FIRE, 0, 1, 1, 1)
        with contextlib.closing(open_database(self.address)) as database, database.guarded(attempt):
            database.write(sql)


class OnSqlite(OnEitherDatabase, unittest.TestCase):
    guard = "sqlite"

    def setUp(self) -> None:
        file = self.books / f"{self.id()}.db"
        file.touch()
        self.address = f"sqlite:{file}"
        self.prepare()

    def test_a_database_that_is_not_there_is_not_made(self) -> None:
        file = self.books / "none.db"
        self.address = f"sqlite:{file}"
        self.assertIn("matins guard sqlite | sqlite3 -bail", self.attempt(expected=reconcile.EXIT_FAILED))
        self.assertFalse(file.exists())


class OnPostgres(OnEitherDatabase, unittest.TestCase):
    guard = "postgres"

    @classmethod
    def setUpClass(cls) -> None:
        try:
            server = private_postgres()
            cls.address = f"postgresql:{server.__enter__()}"
        except NoPostgres as error:
            if os.environ.get("CI"):
                raise
            print(f"skipped, the reconciliation on PostgreSQL: {error}", file=sys.stderr)
            raise unittest.SkipTest(str(error)) from error
        cls.addClassCleanup(server.__exit__, None, None, None)
        super().setUpClass()

    def setUp(self) -> None:
        self.prepare()
        with contextlib.closing(open_database(self.address)) as database:
            database.write("TRUNCATE differences, lines_read, settlements")
            database.write("TRUNCATE matins.jobs, matins.shards, matins.publications")


class BadUsage(unittest.TestCase):
    def check(self, program: str, message: str, *arguments: str, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MATINS_")}
        outcome = subprocess.run(
            [sys.executable, HERE / program, *arguments], env={**inherited, **environment},
            capture_output=True, text=True,
        )
        self.assertEqual(outcome.returncode, 2, outcome.stderr)
        self.assertIn(message, outcome.stderr)

    def test_is_explained(self) -> None:
        day = ("--books", "/nowhere", "--date", DAY)
        database, shard = ("--database", "sqlite:/nowhere"), ("--shard", "0/2")
        self.check("reconcile.py", "required: --shard", *day, *database)
        self.check("reconcile.py", "MATINS_JOB_ID is not set", *day, *database, *shard)
        self.check("reconcile.py", "MATINS_TOKEN, MATINS_FENCE or MATINS_REDO", *day, *database, *shard, MATINS_JOB_ID=JOB,
                   MATINS_FIRE_TIME=FIRE, MATINS_TOKEN="seven")
        self.check("reconcile.py", "shards count from 0", *day, *database, "--shard", "2/2")
        self.check("reconcile.py", "no date such as", "--books", "/nowhere", "--date", "28.11.", *database, *shard)
        self.check("reconcile.py", "neither with sqlite:", *day, "--database", "/nowhere", *shard)
        self.check("verify", "neither with sqlite:", *day, "--database", "x", "--job", JOB, "--fire-time", FIRE)
        self.check("generate", "no room for all kinds", "--dir", "/nowhere", "--date", DAY, "--lines", "99")


def open_when_read(pipe: pathlib.Path) -> BinaryIO:
    """The reconciliation opens its books after it has claimed its shard."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    os.set_blocking(descriptor, True)
    return open(descriptor, "wb")


def end(process: subprocess.Popen) -> None:
    """For a test that failed half way; SIGKILL also ends a stopped process."""
    process.kill()
    process.communicate()


if __name__ == "__main__":
    unittest.main()
