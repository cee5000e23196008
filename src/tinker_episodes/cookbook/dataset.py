"""The host's dataset over a split of a bundle: which task stands in which batch.

It has no effects but one on itself: it sees in which order its batches are asked for.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence

from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset

from tinker_episodes.cookbook.group import EpisodeGroupBuilder, GroupSettings
from tinker_episodes.cookbook.process import clock_of, trains
from tinker_episodes.cookbook.steps import BatchSteps
from tinker_episodes.index import Split


class EpisodeDataset(RLDataset):
    """Groups of one task each, in batches of `groups_per_batch`.

    Training tasks are shuffled by the seed, anew in each epoch, and batches run across the ends of
    epochs. The last batch is filled with the tasks that would come next: every training batch is
    full, since the host's streamed mode waits for a full one. An eval has every task once, in the
    bundle's order, and a last batch that may be smaller.
    """

    def __init__(
        self,
        settings: GroupSettings,
        tasks: Sequence[str],
        split: Split,
        *,
        groups_per_batch: int,
        num_epochs: int = 1,
        seed: int = 0,
    ) -> None:
        self._settings = settings
        self._tasks = tuple(tasks)
        self._split = split
        self._size = groups_per_batch
        self._epochs = num_epochs
        self._seed = seed
        self._steps = BatchSteps(settings.run.attempt.start_step)

    def __len__(self) -> int:
        return math.ceil(len(self._tasks) * self._epochs / self._size)

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """The groups of a batch.

        Raises:
            IndexError: there is no such batch.
            ConfigError: the run's earlier rollouts are of other bundles.
            RunIndexError: an earlier rollout could not be filed, and no strategy of the host may
            swallow that.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"there is no batch {index}: there are {len(self)}")
        run = self._settings.run
        run.check_bundles()
        trains(run)
        at = clock_of(run).step()
        step = self._steps.step(index, at) if self._split is Split.TRAIN else None
        places = range(index * self._size, (index + 1) * self._size)
        return [
            EpisodeGroupBuilder(self._settings, task, self._split, step)
            for task in map(self._task_at, places)
            if task is not None
        ]

    def _task_at(self, place: int) -> str | None:
        epoch, at = divmod(place, len(self._tasks))
        if self._split is Split.EVAL:
            return self._tasks[at] if epoch == 0 else None
        return self._tasks[_order(len(self._tasks), self._seed, epoch)[at]]


@functools.lru_cache(maxsize=8)
def _order(size: int, seed: int, epoch: int) -> tuple[int, ...]:
    """The shuffle of one epoch: of the seed and the epoch alone, so that a resumed run sees the
    same.
    """
    order = list(range(size))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    return tuple(order)
