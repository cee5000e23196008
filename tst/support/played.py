"""A group that is played under the host's strategies, and what is seen of its rollouts, in words
of the table of endings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinker_cookbook.rl.rollout_limits import TerminationRewardPolicy
from tinker_cookbook.rl.rollout_strategy import (
    RolloutStrategy,
)
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import Env, Trajectory, TrajectoryGroup

from support.clock import run
from support.endings import (
    Ending,
)
from support.scripted import ByTask
from tinker_episodes import EpisodeDatasetBuilder, loopback
from tinker_episodes.cookbook import EpisodeGroupBuilder
from tinker_episodes.cookbook.env import EpisodeEnv
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.index import Split
from tinker_episodes.index.reading import IndexReader


class Group(EpisodeGroupBuilder):
    """The group, and what became of its envs in order."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[Seen] = []

    async def make_envs(self) -> Sequence[Env]:
        envs = await super().make_envs()
        self.seen += [Seen(env) for env in envs if isinstance(env, EpisodeEnv)]
        return envs


class Seen:
    """One env, and when its episode was over."""

    def __init__(self, env: EpisodeEnv) -> None:
        self.env = env
        self.scored = ""
        self.over_at = 0
        env.episode.when_over(self._over)

    def _over(self) -> None:
        Seen.clock += 1
        self.over_at = Seen.clock
        if self.env.episode.outcome is None:
            self.scored = "never"
        elif self.env.ending.expired:
            self.scored = "at its time"
        else:
            self.scored = "in its step" if self.env.ending._stepping else "later"

    clock = 0


def group_of(tmp_path: Path, *, slots: int | None = None, **settings: Any) -> Group:
    async def build() -> Group:
        builder = EpisodeDatasetBuilder(
            bundle=settings.pop("bundle", "support.endings:FRAGILE"),
            model_name=loopback.model_name(),
            renderer_name="qwen3_instruct",
            groups_per_batch=1,
            log_path=str(tmp_path / "run"),
            max_concurrent_episodes=slots,
            **{"group_size": 2, **settings},
        )
        train, _ = await builder()
        (group,) = train.get_batch(0)
        return Group(*group.__reduce__()[1])

    return asyncio.run(build())


@dataclass
class Played:
    """A group that was played, and the error that it ended with."""

    group: Group
    result: TrajectoryGroup | None
    error: BaseException | None


def play(
    group: Group,
    rendering: Rendering,
    scripts: Sequence[Sequence[Any]],
    strategy: RolloutStrategy,
    termination: TerminationRewardPolicy | None = None,
) -> Played:
    async def main() -> Played:
        policy = ByTask(rendering, scripts)
        try:
            result = await do_group_rollout(group, policy, strategy, termination)
        except Exception as error:  # noqa: BLE001 - what the host's caller gets
            return Played(group, None, error)
        return Played(group, result, None)

    return run(main())


def row_of(reader: IndexReader, env: EpisodeEnv) -> dict[str, Any]:
    (found,) = [r for r in filed(reader) if r["key"] == env.episode.id]
    return found


def filed(reader: IndexReader) -> list[dict[str, Any]]:
    return reader.rollouts("run", Split.TRAIN, 0)


def seen_as(played: Played, seen: Seen, reader: IndexReader, row: Ending) -> list[str]:
    """The cells of the table, as they are seen."""
    env, trajectory = seen.env, seen.env.ending.trajectory
    found = row_of(reader, env)
    reason = found["reason"].replace(
        "raised TimeoutError", "was cancelled"
    )  # Python 3.12's wait_for
    return [
        row.name,
        "—" if trajectory is None else str(trajectory.stop_reason),
        seen.scored,
        _paid(env, trajectory),
        found["cut"] or "—",
        ": ".join(filter(None, [found["status"], reason])),
        _trained(played, trajectory),
    ]


def _paid(env: EpisodeEnv, trajectory: Trajectory | None) -> str:
    if env.episode.outcome is None or trajectory is None:
        return "—"
    return "step" if env.paid else "group"


def _trained(played: Played, trajectory: Trajectory | None) -> str:
    if played.result is None:
        return "no, its group is lost"
    if any(t is trajectory for t in played.result.trajectories_G):
        return "yes"
    return "no, retried"


def totals(result: TrajectoryGroup, env: EpisodeEnv) -> float:
    at = [t is env.ending.trajectory for t in result.trajectories_G].index(True)
    return result.get_total_rewards()[at]
