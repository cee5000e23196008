"""How a rollout's end is learnt, told or not, and dealt with once: scored or abandoned. Its slot is
free when its episode is over.

The host ends rollouts in a dozen ways and tells the env of few. The end is learnt at the earliest
of: the env's own step; the end of the rollout's time; the end of the task that runs the rollout,
whose result is the trajectory; a second rollout in the same task; `compute_group_rewards`;
`cleanup`. docs/endings.md has them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tinker_cookbook.rl.types import Trajectory

from tinker_episodes.cookbook.limits import cut_of
from tinker_episodes.cookbook.slots import Slots
from tinker_episodes.episode import State
from tinker_episodes.errors import EpisodeClosed, EpisodeFailed
from tinker_episodes.outcome import Cut, Outcome

if TYPE_CHECKING:
    from tinker_episodes.cookbook.env import EpisodeEnv

T = TypeVar("T")

_live: weakref.WeakKeyDictionary[asyncio.Task[object], Ending]
_live = weakref.WeakKeyDictionary()
"""The rollout that each task runs now."""


class Ending:
    """The end of one rollout."""

    def __init__(self, env: EpisodeEnv) -> None:
        self._env = env
        self._learning: set[asyncio.Task[None]] = set()
        self._stepping = False
        self.started = False
        """Whether the rollout asked for its first observation."""
        self.expired = False
        """Whether its time ended it between two steps: a step that still comes gets the end."""
        self.trajectory: Trajectory | None = None
        """What the host made of it, where that is known."""

    async def begin(self, slots: Slots, *, hold_s: float) -> None:
        """Watch the task that runs the rollout, and wait for a slot.

        Args:
            hold_s: Seconds that the rollout may keep its slot.

        Raises:
            EpisodeClosed: the rollout was dropped while it waited.
        """
        self.started = True
        task = asyncio.current_task()
        if task is not None:
            before = _live.get(task)
            _live[task] = self
            task.add_done_callback(self._on_done)
            if before is not None:
                task.remove_done_callback(before._on_done)  # or a long task would keep them all
                await before.lapse()
        episode = self._env.episode
        try:
            slot = await slots.take(hold_s)
        except BaseException:
            await episode.abandon("dropped while it waited for a slot")
            raise
        if episode.state is not State.NEW:
            slot.release()
            raise EpisodeClosed(f"episode {episode.id} was dropped before it opened")
        episode.when_over(slot.release)

    async def stepping(self, work: Awaitable[T]) -> T:
        """Do the env's own work. A cancelled step decides nothing."""
        self._stepping = True
        try:
            return await work
        except Exception as error:
            await self._env.episode.abandon(f"a step raised {type(error).__name__}")
            raise
        finally:
            self._stepping = False

    def end_at(self, deadline: float) -> None:
        """End the rollout at a time of its event loop, where it is not in a step: a step looks at
        the time itself.
        """
        timer = asyncio.get_running_loop().call_at(
            deadline, lambda: self._learn(self._expire()) if self._waits() else None
        )
        self._env.episode.when_over(timer.cancel)

    async def settle(self, trajectory: Trajectory) -> Outcome:
        """Score the episode if nothing did yet, and tell how it ended.

        Raises:
            EpisodeFailed: it has no reward: its own code failed, or it never opened.
        """
        self.trajectory = trajectory
        await self._learnt()
        await self._take_end(trajectory)
        episode = self._env.episode
        if episode.outcome is None:
            raise EpisodeFailed(
                f"episode {episode.id} of task {episode.task.id!r} has no reward: "
                f"it is {episode.state}: {episode.reason or 'it never opened'}"
            )
        return episode.outcome

    async def drop(self, reason: str) -> None:
        """Abandon the episode if it has not ended; wait for an end that has begun."""
        await self._learnt()
        await self._env.episode.settled()
        await self._env.episode.abandon(reason)

    async def lapse(self) -> None:
        """Score an episode whose task went on to another rollout.

        Why it ended, its trajectory says later.
        """
        await self._close(Cut.OTHER)

    # ------------------------------------------------------------ learnt from the task or the time

    def _on_done(self, task: asyncio.Task[object]) -> None:
        if _live.get(task) is self and not self._env.episode.over:
            self._learn(self._learn_from(task))
        elif not task.cancelled() and task.exception() is None:
            self._know(task.result())

    def _learn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def _learn_from(self, task: asyncio.Task[object]) -> None:
        if task.cancelled():
            await self._env.episode.abandon("the rollout was cancelled")
        elif (error := task.exception()) is not None:
            await self._env.episode.abandon(f"the rollout raised {type(error).__name__}")
        else:
            self._know(task.result())
            if self.trajectory is not None:
                await self._take_end(self.trajectory)
            # Any other task drives envs by itself: its group or its user ends them.

    def _know(self, result: object) -> None:
        if isinstance(result, Trajectory):
            self.trajectory = result

    async def _learnt(self) -> None:
        while self._learning:
            await asyncio.wait(self._learning)

    def _waits(self) -> bool:
        return self._env.episode.state is State.OPEN and not self._stepping

    async def _expire(self) -> None:
        if self._waits():
            self.expired = True
            await self._close(Cut.ROLLOUT_TIMEOUT)

    # ------------------------------------------------------------ scored

    async def _take_end(self, trajectory: Trajectory) -> None:
        """Score an episode that its trajectory ended. What no step paid ended as the trajectory
        says.
        """
        episode, cut = self._env.episode, cut_of(trajectory.stop_reason)
        await self._close(cut)
        await episode.settled()
        if episode.outcome is not None and not self._env.paid:
            episode.outcome = replace(episode.outcome, cut=cut)

    async def _close(self, cut: Cut | None) -> None:
        if self._env.episode.state is State.OPEN:
            with contextlib.suppress(EpisodeFailed, EpisodeClosed):
                await self._env.episode.close(cut)  # raised where the reward is asked for
