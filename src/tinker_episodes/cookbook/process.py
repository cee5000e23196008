"""What one process keeps of a run: its clock and its writer. Builders are pickled without them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from tinker_episodes.cookbook.starts import RunRef
from tinker_episodes.cookbook.steps import Clock
from tinker_episodes.cookbook.summaries import Follower
from tinker_episodes.errors import RunIndexError
from tinker_episodes.index import Group, IndexWriter, Rollout, index_writer


@functools.lru_cache(maxsize=64)
def clock_of(run: RunRef) -> Clock:
    """This process's clock of a run."""
    return Clock(run.attempt, run.metrics_offset)


def goes_on(run: RunRef) -> None:
    """A run that was stopped starts again, in this process: take over what the trainer wrote last.
    One that had come to its end asks for no batch any more.
    """
    if run.attempt.start_step:
        _follow(run).look()


def trains(run: RunRef) -> None:
    """The trainer of a run, in this process, asks for a batch: take over what it wrote since.

    Raises:
        RunIndexError: the index has a fault.
    """
    index_writer(run.index).raise_fault()
    writer = _follow(run)
    if clock_of(run).step() > run.attempt.start_step:
        writer.look()


def _follow(run: RunRef) -> IndexWriter:
    writer = index_writer(run.index)
    writer.follow(run.attempt.log_path, Follower(run.attempt.log_path))
    return writer


class RunWriter:
    """Files the rollouts of one run, in the trainer's process or in one that an executor runs."""

    def __init__(self, run: RunRef) -> None:
        self._run = run

    async def file(self, group: Group, rollouts: Iterable[Rollout]) -> None:
        """File rollouts of a group, and return when they are committed.

        Raises:
            RunIndexError: they could not be written; the trainer's next batch raises it again.
            SystemExit: the same in another process than the trainer's, of which that batch would
            not know: an executor hands it to the trainer, and no strategy of the host swallows it.
        """
        try:
            await index_writer(self._run.index).file(group, rollouts)
        except RunIndexError as error:
            if self._run.begun_here:
                raise
            raise SystemExit(str(error)) from error


@functools.lru_cache(maxsize=64)
def writer_of(run: RunRef) -> RunWriter:
    """This process's writer of a run."""
    return RunWriter(run)
