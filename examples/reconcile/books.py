"""The two books of a day, as files: what our ledger says was paid, and what the bank says.

One line a payment, `reference,date,account,currency,amount,text`, after a line with these names. A reference holds no
comma and no quote, and no field a line break, so that a reader can pass over the lines of other shards unparsed.
"""

from __future__ import annotations

import csv
import pathlib
import zlib
from decimal import Decimal, InvalidOperation
from typing import Iterator, NamedTuple

FIELDS = ("reference", "date", "account", "currency", "amount", "text")


class BadBook(Exception):
    """A book that cannot be read: nothing is to be concluded from it."""


class Line(NamedTuple):
    reference: str
    date: str
    currency: str
    amount: Decimal


def path_of(books: pathlib.Path, date: str, book: str) -> pathlib.Path:
    return books / date / f"{book}.csv"


def shard_of(reference: bytes, shards: int) -> int:
    """The same on every host and in every language, which Python's own hash() is not."""
    return zlib.crc32(reference) % shards


def read_book(path: pathlib.Path, shard: int, shards: int) -> Iterator[Line]:
    """The lines of one shard, in the order of the file; no others are kept."""
    with open(path, "rb") as file:
        if file.readline().rstrip() != ",".join(FIELDS).encode():
            raise BadBook(f"{path}: the first line does not name the fields {','.join(FIELDS)}")
        for number, line in enumerate(file, start=2):
            if shard_of(line.partition(b",")[0], shards) == shard:
                yield parse_line(path, number, line)


def parse_line(path: pathlib.Path, number: int, line: bytes) -> Line:
    try:
        (fields,) = csv.reader([line.decode("utf-8")], strict=True)
        reference, date, _account, currency, amount, _text = fields
        value = Decimal(amount)
        if not reference or not value.is_finite():
            raise ValueError("no reference, or an amount that is no number")
    except (ValueError, csv.Error, InvalidOperation) as error:
        raise BadBook(f"{path}:{number}: not a payment: {line[:80]!r}: {error}") from error
    return Line(reference, date, currency, value)
