"""The rollouts of one task as the host's `EnvGroupBuilder`: picklable, and without effects until
its rollouts begin.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, Trajectory

from tinker_episodes.bundle import Bundle
from tinker_episodes.cookbook.env import EpisodeEnv
from tinker_episodes.cookbook.filing import rollout_record
from tinker_episodes.cookbook.process import clock_of, writer_of
from tinker_episodes.cookbook.rendering import rendering_of
from tinker_episodes.cookbook.slots import slots_of
from tinker_episodes.cookbook.starts import RunRef
from tinker_episodes.errors import EpisodeFailed, RunIndexError
from tinker_episodes.index import BundleRecord, Group, Split
from tinker_episodes.outcome import Cut, Outcome
from tinker_episodes.task import Task


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What all groups of a dataset share."""

    bundle: Bundle
    run: RunRef
    model_name: str
    renderer_name: str
    group_size: int
    reward: str | None
    limits: RolloutLimits
    parse_errors: ParseErrorPolicy | None
    max_concurrent_episodes: int | None
    history_tokens: int | None = None


class EpisodeGroupBuilder(EnvGroupBuilder):
    """One group.

    It may be played many times, one after the other: evals are, and retries make more envs.
    """

    def __init__(self, settings: GroupSettings, task: str, split: Split, step: int | None) -> None:
        """
        Args:
            task: The task's id.
            step: The batch index that the trainer asked for; None for an eval.
        """
        self._settings = settings
        self._task = task
        self._split = split
        self._step = step
        self._group: Group | None = None
        self._made: list[EpisodeEnv] = []
        self._filed: set[str] = set()
        self._graded = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._settings, self._task, self._split, self._step)

    @property
    def task(self) -> Task:
        """The task that its rollouts play."""
        return self._settings.bundle.tasks[self._task]

    # ------------------------------------------------------------ the host's interface

    async def make_envs(self) -> Sequence[Env]:
        """A whole group of envs. None is open yet: a retry asks for a group to use one of it."""
        if self._group is None:
            self._group = self._new_group()
        envs = [self._new_env() for _ in range(self._settings.group_size)]
        self._made += envs
        return envs

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        """Settle every rollout, file the group, and give what no step has paid.

        Raises:
            EpisodeFailed: a rollout has no reward. It is filed; the group's rewards are not used.
            RunIndexError: the group could not be filed: its rewards don't leave.
        """
        envs = [_own(env) for env in env_group]
        settled = await asyncio.gather(
            *(env.ending.settle(t) for env, t in zip(envs, trajectory_group, strict=True)),
            return_exceptions=True,
        )
        for outcome in settled:
            if isinstance(outcome, BaseException):
                raise outcome
        await self._file(envs, self._made)
        self._graded = True
        return [(_unpaid(env), _metrics(env)) for env in envs]

    async def cleanup(self) -> None:
        """Drop what still plays, and file every rollout that began and is not filed yet.

        It comes to its end where it is cancelled meanwhile.

        Raises:
            RunIndexError: a whole group that the host did not have graded could not be filed.
        """
        await _to_the_end(self._clean_up())

    def logging_tags(self) -> list[str]:
        return [self._settings.bundle.name, *self.task.tags]

    # ------------------------------------------------------------ its parts

    async def _clean_up(self) -> None:
        made, self._made = self._made, []
        begun = [env for env in made if env.ending.started]
        await asyncio.gather(*(env.ending.drop("its group ended") for env in begun))
        try:
            await self._file(begun, made)
        except RunIndexError:
            # The host asks that nothing is raised here, where it would hide why a group ended; the
            # next batch raises it. With `skip_grading_on_timeout` a group ends well ungraded: then
            # this alone keeps its rewards from leaving.
            if not self._graded and all(env.episode.outcome is not None for env in begun):
                raise
        finally:
            self._group = None
            self._graded = False
            self._filed.clear()

    def _new_group(self) -> Group:
        run = self._settings.run
        run.played()
        bundle = self._settings.bundle
        return Group(
            attempt=run.attempt,
            key=uuid.uuid4().hex,
            split=self._split,
            step=clock_of(run).step() if self._step is None else self._step,
            bundle=BundleRecord(bundle.name, bundle.version, bundle.content_hash),
            task=self._task,
            tags=self.task.tags,
        )

    def _new_env(self) -> EpisodeEnv:
        s = self._settings
        return EpisodeEnv(
            environment=s.bundle.environment,
            task=self.task,
            renderer=rendering_of(s.model_name, s.renderer_name),
            data=s.bundle.universe,
            reward=s.reward or s.bundle.reward,
            limits=s.limits,
            parse_errors=s.parse_errors,
            history_tokens=s.history_tokens,
            slots=slots_of(s.run.attempt.log_path, s.max_concurrent_episodes),
        )

    async def _file(self, envs: Sequence[EpisodeEnv], made: Sequence[EpisodeEnv]) -> None:
        places = {id(env): at for at, env in enumerate(made)}
        new = [env for env in envs if env.episode.id not in self._filed]
        if new and self._group is not None:
            records = (rollout_record(env, places[id(env)]) for env in new)
            await writer_of(self._settings.run).file(self._group, records)
            self._filed.update(env.episode.id for env in new)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end; a cancellation meanwhile is raised after it."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    task.result()


def _own(env: Env) -> EpisodeEnv:
    if not isinstance(env, EpisodeEnv):
        raise TypeError(f"{type(env).__name__} is no env of this group")
    return env


def _outcome(env: EpisodeEnv) -> Outcome:
    if env.episode.outcome is None:
        raise EpisodeFailed(f"episode {env.episode.id} has no reward")
    return env.episode.outcome


def _unpaid(env: EpisodeEnv) -> float:
    return 0.0 if env.paid else _outcome(env).reward


def _metrics(env: EpisodeEnv) -> Metrics:
    """Counts and scores of one rollout: every key, zeros included, since the host averages over
    those that hold it.
    """
    outcome = _outcome(env)
    counts = outcome.counts
    return {
        **{f"score/{name}": score.value for name, score in outcome.scores.items()},
        "cut": float(outcome.cut is not None),
        **{f"cut/{cut}": float(outcome.cut is cut) for cut in Cut},
        "messages": counts.messages,
        "tool_calls": counts.tool_calls,
        "tool_errors": counts.tool_errors,
        "format_errors": counts.format_errors,
        "rewritten": env.rewritten,
    }
