"""What one process keeps of a run: its clock and its writer. Builders are pickled without them."""

from __future__ import annotations

import functools

from tinker_episodes.cookbook.steps import Clock, RunRef
from tinker_episodes.cookbook.summaries import Follower
from tinker_episodes.index import IndexWriter, index_writer


@functools.lru_cache(maxsize=64)
def clock_of(run: RunRef) -> Clock:
    """This process's clock of a run."""
    return Clock(run)


@functools.lru_cache(maxsize=64)
def writer_of(run: RunRef) -> IndexWriter:
    """This process's writer to a run's index, which also takes over what the trainer writes about
    the run.
    """
    writer = index_writer(run.index)
    writer.follow(run.attempt.log_path, Follower(run.attempt.log_path))
    return writer
