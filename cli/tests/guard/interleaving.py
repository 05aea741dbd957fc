"""Several attempts at the shards of several executions, their statements interleaved at random.

Each attempt is a program that goes statement by statement: claim; one or two transactions that write, the last of which
marks the shard done; a transaction that publishes. After every statement somebody else may be next, for as long as it
pleases: that is what a stopped process is. One thread does it all, so the order in which transactions commit is known,
and three rules can be checked that are stated here without the guard:

* When a transaction that writes commits, no other attempt at its shard and no later execution has claimed since.
* What stands in the table then for its shard is what it wrote, and nothing else.
* A publishing transaction finds all shards done and copies what they wrote, and between two of them a shard was done.
"""

from __future__ import annotations

import contextlib
import random
from typing import Callable, Iterator, NamedTuple, Optional

from sessions import MONDAY, TUESDAY, Attempt, Conflict, Refused, Session

SHARDS = 2
ATTEMPTS = 7
AT_ONCE = 4


class Violation(AssertionError):
    """One of the rules above does not hold."""


class World:
    """What has been committed, in order, as whoever interleaves the statements knows it."""

    def __init__(self) -> None:
        self.newest_token: dict[tuple[str, int], int] = {}
        self.newest_fence = 0
        self.done: set[tuple[str, int]] = set()
        self.news: set[str] = set()  # fires of which a shard was done since they were published
        self.publications = 0

    def shard(self, attempt: Attempt) -> tuple[str, int]:
        return (attempt.fire_time, attempt.shard)

    def is_replaced(self, attempt: Attempt) -> bool:
        later_execution = attempt.fence is not None and self.newest_fence > attempt.fence
        return later_execution or self.newest_token.get(self.shard(attempt), 0) > attempt.token

    def claimed(self, attempt: Attempt) -> None:
        self.demand(not self.is_replaced(attempt), f"{attempt} claimed after it was replaced")
        self.newest_fence = max(self.newest_fence, attempt.fence or 0)
        if self.newest_token.get(self.shard(attempt)) != attempt.token:
            self.done.discard(self.shard(attempt))
        self.newest_token[self.shard(attempt)] = attempt.token

    def wrote(self, attempt: Attempt, tokens: set[int], is_done: bool) -> None:
        self.demand(not self.is_replaced(attempt), f"{attempt} committed a write after it was replaced")
        self.demand(tokens == {attempt.token}, f"{attempt} committed, and there are rows of {tokens}")
        if is_done:
            self.done.add(self.shard(attempt))
            self.news.add(attempt.fire_time)

    def is_due(self, fire_time: str) -> bool:
        return fire_time in self.news and all((fire_time, shard) in self.done for shard in range(SHARDS))

    def published(self, attempt: Attempt, copy: list, rows: list) -> None:
        self.demand(self.is_due(attempt.fire_time), f"{attempt} published what was not due")
        self.demand(copy == rows, f"{attempt} published {copy}, and there is {rows}")
        self.news.discard(attempt.fire_time)
        self.publications += 1

    def demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise Violation(otherwise)


class Chances(NamedTuple):
    attempts: int
    refusals: int
    conflicts: int
    publications: int


class Process:
    """One attempt on its way; each `next` is one statement."""

    def __init__(self, attempt: Attempt, session: Session, reader: Session, world: World, source: random.Random,
                 beginning: str) -> None:
        self.attempt, self.session, self.reader, self.world = attempt, session, reader, world
        self.source, self.beginning = source, beginning
        self.conflicts = 0
        self.refused = False
        self.steps = self.live()

    def live(self) -> Iterator[None]:
        try:
            yield from self.repeat(self.claim)
            for is_last in self.source.choice(((True,), (False, True))):
                yield from self.repeat(lambda last=is_last: self.write(last))
            yield from self.repeat(self.publish)
        except Refused:
            self.session.rollback()
            self.refused = True
            self.world.demand(self.world.is_replaced(self.attempt), f"{self.attempt} was refused, and is the newest")

    def repeat(self, transaction: Callable[[], Iterator[None]]) -> Iterator[None]:
        while True:
            try:
                yield from transaction()
                return
            except Conflict:
                self.session.rollback()
                self.conflicts += 1
                yield

    def claim(self) -> Iterator[None]:
        self.session.claim(self.attempt)
        self.world.claimed(self.attempt)
        yield

    def write(self, is_last: bool) -> Iterator[None]:
        self.session.begin(self.beginning)
        yield
        self.session.guard(self.attempt)
        yield
        for _ in self.recompute():
            yield
        if is_last:
            self.session.done(self.attempt)
            yield
        self.session.commit()
        tokens = self.reader.tokens(self.attempt.fire_time, self.attempt.shard)
        self.world.wrote(self.attempt, tokens, is_last)
        yield

    def recompute(self) -> Iterator[None]:
        here = (self.attempt.fire_time, self.attempt.shard)
        self.session.run("DELETE FROM results WHERE fire_time = ? AND shard = ?", here)
        yield
        for n in range(2):
            self.session.run("INSERT INTO results VALUES (?, ?, ?, ?)", (*here, self.attempt.token, n))
            yield

    def publish(self) -> Iterator[None]:
        fire_time = self.attempt.fire_time
        self.session.begin(self.beginning)
        yield
        was_due = True
        if self.source.random() < 0.5:
            self.session.rows(fire_time)  # what it sees from here on may be how it was now
            was_due = self.world.is_due(fire_time)
            yield
        published = self.session.publish(self.attempt)
        due_all_along = was_due and self.world.is_due(fire_time)
        self.world.demand(published or not due_all_along, f"{self.attempt} was told not to publish what was due")
        yield
        if published:
            self.session.replace_published(fire_time)
            yield
        self.session.commit()
        if published:
            copy, rows = self.reader.rows(fire_time, "published"), self.reader.rows(fire_time)
            self.world.published(self.attempt, copy, rows)
        yield


def interleave(seed: int, beginnings: tuple[str, ...], connect: Callable[[], Session], reader: Session) -> Chances:
    """Run one world to its end; raises Violation, or returns how much has happened in it."""
    source = random.Random(seed)
    world = World()
    waiting = attempts_in_order(source)
    living: list[Process] = []
    ended: list[Process] = []
    with contextlib.ExitStack() as connections:
        while waiting or living:
            if waiting and len(living) < AT_ONCE and (not living or source.random() < 0.15):
                session = connections.enter_context(contextlib.closing(connect()))
                living.append(Process(waiting.pop(0), session, reader, world, source, source.choice(beginnings)))
            process = source.choice(living)
            try:
                # Often the same one goes on for a while, so that transactions also come to an end.
                for _ in range(source.choice((1, 1, 2, 8))):
                    next(process.steps)
            except StopIteration:
                living.remove(process)
                ended.append(process)
    return Chances(
        attempts=len(ended),
        refusals=sum(process.refused for process in ended),
        conflicts=sum(process.conflicts for process in ended),
        publications=world.publications,
    )


def attempts_in_order(source: random.Random) -> list[Attempt]:
    """As leases are granted: tokens rise, fences with each execution, and shards are tried again."""
    position = 0
    attempts: list[Attempt] = []
    with_fences = source.random() < 0.8
    while len(attempts) < ATTEMPTS:
        position += 1
        fence: Optional[int] = position if with_fences else None
        fire_time = source.choice((MONDAY, TUESDAY))
        for _ in range(source.randrange(2, 5)):
            position += 1
            shard = source.randrange(SHARDS)
            attempts.append(Attempt(position, fence, shard, SHARDS, fire_time))
    return attempts
