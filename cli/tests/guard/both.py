"""What holds on either database: parts of test cases whose sessions are `older` and `newer`."""

from __future__ import annotations

from sessions import TUESDAY, Attempt, Misused, Refused

FIRST, LAST = Attempt(token=10, shard=0), Attempt(token=11, shard=1)


def finish(session, attempt: Attempt) -> None:
    """All that a shard does, but publishing."""
    session.claim(attempt)
    session.begin()
    session.guard(attempt)
    session.recompute(attempt)
    session.done(attempt)
    session.commit()


class AnOlderExecutionOnEither:
    monday = Attempt(token=8, fence=1)
    tuesday = Attempt(token=20, fence=2, shard=1, fire_time=TUESDAY)

    def test_may_be_rerun_under_a_higher_fence(self) -> None:
        self.older.claim(self.monday)
        self.newer.claim(self.tuesday)
        rerun = self.monday._replace(token=30, fence=3)
        self.newer.claim(rerun)
        self.newer.guard(rerun)
        with self.assertRaises(Refused):
            self.older.guard(self.monday)

    def test_of_another_job_is_not_asked(self) -> None:
        self.newer.claim(self.tuesday)
        self.older.claim(self.monday._replace(job="other/job"))

    def test_without_fences_is_judged_by_its_token_alone(self) -> None:
        self.newer.claim(self.tuesday._replace(fence=None))
        self.older.claim(self.monday._replace(fence=None))
        self.older.guard(self.monday._replace(fence=None))


class PublishingOnEither:
    def test_that_is_rolled_back_is_still_to_come(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        self.older.begin()
        self.assertTrue(self.older.publish(FIRST))
        self.older.rollback()
        self.assertTrue(self.newer.publish(LAST))

    def test_of_a_redo_waits_for_all_its_shards(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        self.assertTrue(self.newer.publish(LAST))
        first, last = FIRST._replace(token=50, fence=2), LAST._replace(token=51, fence=2)
        self.older.redo(first, 49)
        finish(self.older, first)
        self.assertFalse(self.older.publish(first))  # the other shard's work is of before
        self.newer.redo(last, 49)
        finish(self.newer, last)
        self.assertTrue(self.newer.publish(last))
        self.assertFalse(self.older.publish(first))

    def test_of_a_rerun_after_a_redo_goes_on_with_what_the_redo_has_done(self) -> None:
        finish(self.older, FIRST)
        finish(self.newer, LAST)
        first = FIRST._replace(token=50, fence=2)
        self.older.redo(first, 49)
        finish(self.older, first)
        rerun = LAST._replace(token=60, fence=3)
        self.newer.redo(rerun, 49)
        self.newer.redo(rerun, 40)  # a process of before that wakes late
        finish(self.newer, rerun)
        self.assertTrue(self.newer.publish(rerun))

    def test_without_a_redo_is_as_it_was(self) -> None:
        finish(self.older, FIRST)
        self.newer.redo(LAST, None)
        finish(self.newer, LAST)
        self.assertTrue(self.newer.publish(LAST))
        with self.assertRaises(Misused):
            self.newer.redo(LAST._replace(fire_time=None), 49)

    def test_does_not_count_shards_of_another_cut(self) -> None:
        finish(self.older, FIRST._replace(shards=3))
        finish(self.newer, LAST)
        self.assertFalse(self.newer.publish(LAST))
