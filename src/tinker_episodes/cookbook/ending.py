"""How a rollout's end is learnt, told or not, and dealt with once: scored or abandoned, and its
slot given back.

The host ends rollouts in a dozen ways and tells the env of few. The end is learnt at the earliest
of: the env's own step; the end of the task that runs the rollout, whose result is the trajectory; a
second rollout in the same task; `compute_group_rewards`; `cleanup`.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tinker_cookbook.rl.types import Trajectory

from tinker_episodes.cookbook.limits import cut_of
from tinker_episodes.cookbook.slots import Slot, Slots
from tinker_episodes.episode import State
from tinker_episodes.errors import EpisodeClosed, EpisodeFailed
from tinker_episodes.outcome import Outcome

if TYPE_CHECKING:
    from tinker_episodes.cookbook.env import EpisodeEnv

_UNKNOWN = "unknown"
"""The stop reason of a rollout whose trajectory is not known yet."""

_live: weakref.WeakKeyDictionary[asyncio.Task[object], Ending]
_live = weakref.WeakKeyDictionary()
"""The rollout that each task runs now."""


class Ending:
    """The end of one rollout."""

    def __init__(self, env: EpisodeEnv) -> None:
        self._env = env
        self._slot: Slot | None = None
        self._learning: asyncio.Task[None] | None = None
        self._lapsed = False
        self.started = False
        """Whether the rollout asked for its first observation."""

    async def begin(self, slots: Slots) -> None:
        """Watch the task that runs the rollout, and wait for a slot.

        Raises:
            EpisodeClosed: the rollout was dropped while it waited.
        """
        self.started = True
        task = asyncio.current_task()
        if task is not None:
            before = _live.get(task)
            if before is not None:
                task.remove_done_callback(before._on_done)  # or a long task would keep them all
                await before.lapse()
            _live[task] = self
            task.add_done_callback(self._on_done)
        try:
            slot = await slots.take()
        except BaseException:
            await self._env.episode.abandon("dropped while it waited for a slot")
            raise
        if self._env.episode.state is not State.NEW:
            slot.release()
            raise EpisodeClosed(f"episode {self._env.episode.id} was dropped before it opened")
        self._slot = slot

    @asynccontextmanager
    async def releasing(self) -> AsyncGenerator[None]:
        """Give the slot back once the episode is over. A cancelled step decides nothing."""
        try:
            yield
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if self._env.episode.state in (State.NEW, State.OPEN):
                await self._env.episode.abandon(f"a step raised {type(error).__name__}")
            raise
        finally:
            self._release_if_over()

    async def settle(self, stop_reason: str | None) -> Outcome:
        """Score the episode if nothing did yet, and tell how it ended.

        Args:
            stop_reason: Of its trajectory.

        Raises:
            EpisodeFailed: it has no reward: its own code failed, or it never opened.
        """
        if self._learning is not None:
            await self._learning
        episode = self._env.episode
        try:
            if episode.state is State.OPEN:
                await self._env.close(stop_reason)
        finally:
            self._release_if_over()
        if self._lapsed and episode.outcome is not None:
            episode.outcome = replace(episode.outcome, cut=cut_of(stop_reason))
        if episode.outcome is None:
            raise EpisodeFailed(
                f"episode {episode.id} of task {episode.task.id!r} has no reward: "
                f"it is {episode.state}: {episode.reason or 'it never opened'}"
            )
        return episode.outcome

    async def drop(self, reason: str) -> None:
        """Abandon the episode if it is not over yet."""
        if self._learning is not None:
            await self._learning
        try:
            await self._env.episode.abandon(reason)
        finally:
            self._release_if_over()

    async def lapse(self) -> None:
        """Score an episode whose task went on to another rollout.

        Why it ended, its trajectory says later.
        """
        if self._env.episode.state is not State.OPEN:
            return
        self._lapsed = True
        with contextlib.suppress(EpisodeFailed):  # raised where the reward is asked for
            await self._env.close(_UNKNOWN)
        self._release_if_over()

    # ------------------------------------------------------------ learnt from the task

    def _on_done(self, task: asyncio.Task[object]) -> None:
        if self._env.episode.state not in (State.NEW, State.OPEN) or _live.get(task) is not self:
            self._release_if_over()
            return
        self._learning = task.get_loop().create_task(self._learn(task))

    async def _learn(self, task: asyncio.Task[object]) -> None:
        episode = self._env.episode
        try:
            if task.cancelled():
                await episode.abandon("the rollout was cancelled")
            elif (error := task.exception()) is not None:
                await episode.abandon(f"the rollout raised {type(error).__name__}")
            elif isinstance(trajectory := task.result(), Trajectory):
                await self._env.close(trajectory.stop_reason)
            # Any other task drives envs by itself: its group or its user ends them.
        except EpisodeFailed:
            pass  # it stands in the episode, and is raised where the reward is asked for
        finally:
            self._release_if_over()

    def _release_if_over(self) -> None:
        if self._slot is not None and self._env.episode.state not in (State.NEW, State.OPEN):
            self._slot.release()
