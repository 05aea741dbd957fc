#!/usr/bin/env python3
"""Reconcile one shard of a day's payments: find where our ledger and the bank's file do not say the same.

An attempt recomputes its shard in full and replaces what is there, in one transaction under the guard. Whoever finishes
the last shard of the fire publishes the result of the day, once. It may be killed or stopped at any moment: what is
committed is complete, what is not never happened, and a process that wakes after it was replaced is refused.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import sys
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Iterator, Mapping, NamedTuple, Optional

from books import BadBook, Line, path_of, read_book
from database import Attempt, Database, Refused, Unusable, open_database

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 75

# A difference so small is how the two sides round, not what they paid.
ROUNDING = Decimal("0.01")


class Difference(NamedTuple):
    kind: str
    reference: str
    bank: str
    ledger: str


class Outcome(NamedTuple):
    differences: list[Difference]
    bank_lines: int
    ledger_lines: int


def main() -> int:
    # The default action, even where a parent left the signal ignored: there is nothing to clean up.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    options, attempt = parse_command(os.environ)
    try:
        with contextlib.closing(open_database(options.database)) as database:
            run_shard(options.books, options.date, database, attempt)
    except Refused as refusal:
        print(f"reconcile: refused: {attempt}: {refusal}", file=sys.stderr)
        return EXIT_REFUSED
    except (OSError, BadBook, Unusable) as error:
        print(f"reconcile: failed: {attempt}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_DONE


def run_shard(books: pathlib.Path, day: str, database: Database, attempt: Attempt) -> None:
    database.claim(attempt)
    # All reading is done before the transaction begins: it is open for as long as the writing takes, and no longer.
    outcome = reconcile(
        read_book(path_of(books, day, "bank"), attempt.shard, attempt.shards),
        read_book(path_of(books, day, "ledger"), attempt.shard, attempt.shards),
    )
    replace_shard(database, attempt, outcome)
    published = publish_if_last(database, attempt, day)
    print(
        f"reconcile: {attempt}: {outcome.bank_lines} lines of the bank, {outcome.ledger_lines} of the ledger,"
        f" {len(outcome.differences)} differences, token {attempt.token}{', published the day' if published else ''}",
        flush=True,
    )


# Comparing


def reconcile(bank: Iterator[Line], ledger: Iterator[Line]) -> Outcome:
    """Of both books' lines with one reference, the first counts; further ones are duplicates."""
    ours: dict[str, Line] = {}
    times_ours: Counter[str] = Counter()
    for line in ledger:
        ours.setdefault(line.reference, line)
        times_ours[line.reference] += 1

    differences: list[Difference] = []
    times_theirs: Counter[str] = Counter()
    for line in bank:
        times_theirs[line.reference] += 1
        if times_theirs[line.reference] == 1:
            differences.extend(compare(line, ours.get(line.reference)))
    for reference, line in ours.items():
        if reference not in times_theirs:
            differences.append(Difference("missing_in_bank", reference, "", describe(line)))
    for kind, times in (("duplicate_in_bank", times_theirs), ("duplicate_in_ledger", times_ours)):
        for reference, count in times.items():
            if count > 1:
                differences.append(
                    Difference(kind, reference, str(times_theirs[reference]), str(times_ours[reference]))
                )
    return Outcome(differences, sum(times_theirs.values()), sum(times_ours.values()))


def compare(theirs: Line, ours: Optional[Line]) -> Iterator[Difference]:
    if ours is None:
        yield Difference("missing_in_ledger", theirs.reference, describe(theirs), "")
        return
    if theirs.currency != ours.currency:
        yield Difference("currency", theirs.reference, theirs.currency, ours.currency)
    if theirs.date != ours.date:
        yield Difference("date", theirs.reference, theirs.date, ours.date)
    if theirs.amount != ours.amount:
        kind = "rounding" if abs(theirs.amount - ours.amount) <= ROUNDING else "amount"
        yield Difference(kind, theirs.reference, str(theirs.amount), str(ours.amount))


def describe(line: Line) -> str:
    return f"{line.date} {line.amount} {line.currency}"


# Writing


def replace_shard(database: Database, attempt: Attempt, outcome: Outcome) -> None:
    shard = (attempt.job, attempt.fire_time, attempt.shard)
    with database.guarded(attempt):
        for table in ("differences", "lines_read"):
            database.write(f"DELETE FROM {table} WHERE job = ? AND fire_time = ? AND shard = ?", shard)
        database.write_many(
            "INSERT INTO differences (kind, reference, bank, ledger, job, fire_time, shard, token)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((*difference, *shard, attempt.token) for difference in outcome.differences),
        )
        database.write(
            "INSERT INTO lines_read (bank, ledger, job, fire_time, shard, token) VALUES (?, ?, ?, ?, ?, ?)",
            (outcome.bank_lines, outcome.ledger_lines, *shard, attempt.token),
        )
        database.mark_done(attempt)


def publish_if_last(database: Database, attempt: Attempt, day: str) -> bool:
    """Replaces what was published of the day, where all shards of this fire are done and that is news."""
    with database.publishing(attempt) as due:
        if due:
            database.write("DELETE FROM settlements WHERE job = ? AND business_date = ?", (attempt.job, day))
            database.write(
                "INSERT INTO settlements (job, business_date, kind, differences, fire_time, token)"
                " SELECT job, ?, kind, count(*), fire_time, CAST(? AS BIGINT) FROM differences"
                " WHERE job = ? AND fire_time = ? GROUP BY job, kind, fire_time",
                (day, attempt.token, attempt.job, attempt.fire_time),
            )
    return due


# The command line


def parse_command(environment: Mapping[str, str]) -> tuple[argparse.Namespace, Attempt]:
    parser = argparse.ArgumentParser(
        prog="reconcile.py",
        description="Find the differences between the bank's file and our ledger in one shard of a day's payments.",
        epilog="MATINS_JOB_ID, MATINS_FIRE_TIME, MATINS_TOKEN and, where set, MATINS_FENCE and MATINS_REDO say on whose"
        " behalf."
        f" Exit status: {EXIT_DONE} done; {EXIT_FAILED} failed, try again; {EXIT_USAGE} usage;"
        f" {EXIT_REFUSED} refused, because this process was replaced.",
    )
    parser.add_argument(
        "--books", metavar="DIR", type=pathlib.Path, required=True, help="holds DATE/bank.csv and DATE/ledger.csv"
    )
    parser.add_argument("--date", metavar="DATE", type=parse_date, required=True, help="such as 2026-11-28")
    parser.add_argument("--shard", metavar="K/N", type=parse_shard, required=True, help="counted from 0: 0/12 to 11/12")
    parser.add_argument(
        "--database", metavar="ADDRESS", required=True,
        help="sqlite:FILE, or postgresql: and how libpq is to connect; with the guard and schema.sql applied",
    )
    options = parser.parse_args()
    if not options.database.startswith(("sqlite:", "postgresql:")):
        parser.error(f"--database {options.database}: begins neither with sqlite: nor with postgresql:")
    try:
        return options, parse_attempt(environment, *options.shard)
    except KeyError as missing:
        parser.error(f"{missing.args[0]} is not set; by hand, set it to stand for an attempt")
    except ValueError as error:
        parser.error(f"MATINS_TOKEN, MATINS_FENCE or MATINS_REDO: {error}")


def parse_attempt(environment: Mapping[str, str], shard: int, shards: int) -> Attempt:
    fence, redo = environment.get("MATINS_FENCE"), environment.get("MATINS_REDO")
    return Attempt(
        job=environment["MATINS_JOB_ID"],
        fire_time=environment["MATINS_FIRE_TIME"],
        shard=shard,
        shards=shards,
        token=int(environment["MATINS_TOKEN"]),
        fence=None if fence is None else int(fence),
        redo=None if redo is None else int(redo),
    )


def parse_date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no date such as 2026-11-28") from None


def parse_shard(text: str) -> tuple[int, int]:
    shard, separator, shards = text.partition("/")
    if not (separator and shard.isdecimal() and shards.isdecimal() and int(shard) < int(shards)):
        raise argparse.ArgumentTypeError(f"{text} is no shard such as 0/12; shards count from 0")
    return int(shard), int(shards)


if __name__ == "__main__":
    sys.exit(main())
