"""Every ending of the table in docs/endings.md, under the host's own runner and strategies, on a
virtual clock.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.clock import run
from support.endings import (
    ADD,
    ENDINGS,
    GROUP_ENDINGS,
    HOUR,
    Ending,
    Fragile,
    cells,
    limits_of,
    never,
    policy_of,
    rows,
)
from support.scripted import DONE, ByTask, call
from tinker_cookbook.rl.rollout_limits import RolloutLimits, TerminationRewardPolicy
from tinker_cookbook.rl.rollout_runner import run_rollout
from tinker_cookbook.rl.rollout_strategy import (
    FailFast,
    MinViableGroup,
    RetryOnFailure,
    RolloutStrategy,
)
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import Env, Trajectory, TrajectoryGroup

from tinker_episodes import EpisodeDatasetBuilder, EpisodeFailed, loopback
from tinker_episodes.cookbook import EpisodeGroupBuilder
from tinker_episodes.cookbook.env import EpisodeEnv
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.slots import slots_of
from tinker_episodes.episode import State
from tinker_episodes.index import Split
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer

Read = Callable[[], IndexReader]
DOCS = Path(__file__).parents[2] / "docs" / "endings.md"
BY_ITSELF = {row.name: row for row in ENDINGS}
IN_A_GROUP = {row.name: row for row in GROUP_ENDINGS}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    Fragile.opened = Fragile.closed = 0
    yield
    Fragile.first_open = ""


# ---------------------------------------------------------------- what is seen of a rollout


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
            bundle="support.endings:FRAGILE",
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


# ---------------------------------------------------------------- what ends one rollout


@pytest.mark.parametrize("name", BY_ITSELF)
def test_ending_is_as_the_table_says(
    name: str, tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    row = BY_ITSELF[name]
    group = group_of(tmp_path, slots=row.slots, limits=limits_of(row), parse_errors=policy_of(row))
    Fragile.first_open = row.first_open
    own = [row.said()] if row.asks else []
    others = [] if row.limits.get("max_trajectory_tokens") == 20 else [[ADD, DONE]] * 2
    played = play(group, rendering, [*own, *others], row.strategy)
    reader, first = read(), group.seen[0]
    assert seen_as(played, first, reader, row) == cells(row)
    assert row_of(reader, first.env)["reward"] == pytest.approx(row.reward)
    if row.slots == 1:  # its sibling could not have begun before
        assert first.over_at < group.seen[1].over_at
    if played.result is not None and row.trained == "yes":
        assert totals(played.result, first.env) == pytest.approx(row.reward + row.extra)
    if row.trained == "no, retried":
        assert played.result is not None and len(played.result.trajectories_G) == 2
        assert played.result.get_total_rewards() == pytest.approx([0.1, 0.1])
    assert isinstance(played.error, EpisodeFailed) == row.group_lost
    assert slots_of(str(tmp_path / "run"), row.slots).taken == 0
    assert Fragile.opened == Fragile.closed
    assert len({r["key"] for r in filed(reader)}) == len(filed(reader)) == Fragile.opened


@pytest.mark.parametrize("name", [row.name for row in ENDINGS if row.trained == "yes"])
def test_metrics_of_an_ending_agree_with_its_stop_reason(
    name: str, tmp_path: Path, rendering: Rendering
) -> None:
    row = BY_ITSELF[name]
    group = group_of(
        tmp_path,
        group_size=1,
        slots=1,
        limits=limits_of(row),
        parse_errors=policy_of(row),
    )
    result = play(group, rendering, [row.said()], row.strategy).result
    assert result is not None
    ((trajectory,), (metrics,)) = result.trajectories_G, result.metrics_G
    stops = [key for t in trajectory.transitions for key in t.metrics if key.startswith("stop/")]
    assert stops == [f"stop/{row.stop_reason}"]
    assert metrics["cut"] == (row.cut != "—")
    ones = [key for key, value in metrics.items() if key.startswith("cut/") and value]
    assert ones == ([] if row.cut == "—" else [f"cut/{row.cut}"])


# ---------------------------------------------------------------- what needs more than one


def in_a_group(name: str) -> list[str]:
    return cells(IN_A_GROUP[name])


def test_end_that_only_the_runner_knows_is_scored_when_its_task_ends(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, slots=1)

    async def main() -> Played:
        envs = await group.make_envs()
        policy = ByTask(rendering, [[ADD] * 3, [ADD, DONE]])
        runs = [run_rollout(policy, env, limits=RolloutLimits(max_turns=2)) for env in envs]
        trajectories = list(await asyncio.gather(*runs))
        group.seen[0].scored = "when its task ends"  # its sibling had its slot after that
        assert envs[0].ending.trajectory is trajectories[0]
        rewards = await group.compute_group_rewards(trajectories, envs)
        await group.cleanup()
        paid, metrics = zip(*rewards, strict=True)
        return Played(group, TrajectoryGroup(trajectories, list(paid), list(metrics)), None)

    played = run(main())
    assert played.result is not None
    row = IN_A_GROUP["the runner's own limit, which the env is not told"]
    assert seen_as(played, group.seen[0], read(), row) == cells(row)
    assert played.result.get_total_rewards() == pytest.approx([row.reward, 0.1])


def test_envs_driven_one_after_another_in_one_task_end_when_the_next_begins(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, slots=1)

    async def main() -> Played:
        envs = await group.make_envs()
        trajectories = []
        for env in envs:
            policy = ByTask(rendering, [[ADD] * 3])
            limits = RolloutLimits(max_turns=2)
            trajectories.append(await run_rollout(policy, env, limits=limits))
        assert envs[0].episode.outcome is not None and envs[1].episode.state is State.OPEN
        group.seen[0].scored = "when the next begins"
        rewards = await group.compute_group_rewards(trajectories, envs)
        await group.cleanup()
        paid, metrics = zip(*rewards, strict=True)
        return Played(group, TrajectoryGroup(trajectories, list(paid), list(metrics)), None)

    played = run(main())
    assert played.result is not None
    row = IN_A_GROUP["the next env begins in the same task"]
    for seen in group.seen:
        seen.scored = "when the next begins"
        assert seen_as(played, seen, read(), row) == cells(row)
    assert played.result.get_total_rewards() == pytest.approx([0.2, 0.2])
    assert played.result.metrics_G[0]["cut/max_turns"] == 1.0
    assert slots_of(str(tmp_path / "run"), 1).taken == 0


_SKIP = TerminationRewardPolicy(zero_reward_on_limit=True, skip_grading_on_timeout=True)


def test_group_that_the_host_does_not_grade_is_scored_and_filed_with_its_tokens(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    limits = RolloutLimits(rollout_timeout_seconds=HOUR)
    group = group_of(tmp_path, limits=limits)
    played = play(group, rendering, [[ADD, never()] for _ in range(2)], FailFast(), _SKIP)
    assert played.result is not None and played.result.get_total_rewards() == [0.0, 0.0]
    row = IN_A_GROUP["`skip_grading_on_timeout`, where the whole group ran out of time"]
    reader = read()
    for seen in group.seen:
        found = seen_as(played, seen, reader, row)
        found[3], found[6] = "—", f"{found[6]}, with 0"  # the host gave 0 itself
        assert found == cells(row)
        body = reader.transcript(seen.env.episode.id)
        assert body is not None and len(body["turns"]) == 1
        assert row_of(reader, seen.env)["reward"] == 0.1


def test_group_that_the_host_does_not_grade_stays_where_it_can_not_be_filed(
    tmp_path: Path, rendering: Rendering
) -> None:
    from tinker_episodes import RunIndexError

    blocked = tmp_path / "blocked"
    limits = RolloutLimits(rollout_timeout_seconds=HOUR)
    group = group_of(tmp_path, limits=limits, index=f"sqlite:///{blocked}/episodes.db")
    blocked.write_text("a file where the folder would be")
    played = play(group, rendering, [[ADD, never()] for _ in range(2)], FailFast(), _SKIP)
    assert played.result is None and isinstance(played.error, RunIndexError)
    index_writer(f"sqlite:///{blocked}/episodes.db").close()


def test_wait_for_a_slot_costs_none_of_the_rollouts_time(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    limits = RolloutLimits(rollout_timeout_seconds=HOUR)
    group = group_of(tmp_path, slots=1, group_size=4, limits=limits)
    hanging = [[ADD, never()] for _ in range(3)]
    played = play(group, rendering, [*hanging, [ADD, DONE]], FailFast())
    row = IN_A_GROUP["a wait for its slot that takes longer than `rollout_timeout_seconds`"]
    reader = read()
    assert seen_as(played, group.seen[3], reader, row) == cells(row)
    assert [row_of(reader, seen.env)["cut"] for seen in group.seen[:3]] == ["rollout_timeout"] * 3
    assert played.result is not None
    assert played.result.get_total_rewards() == pytest.approx([0.1] * 4)


def test_failfast_abandons_what_still_plays_and_its_env_refuses_to_go_on(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path)

    async def main() -> list[str]:
        goes_on = asyncio.Event()
        policy = ByTask(rendering, [[ADD, call("crash")], [ADD, goes_on.wait(), ADD]])
        with pytest.raises(EpisodeFailed, match="a bug"):
            await do_group_rollout(group, policy, FailFast())
        (sibling,) = asyncio.all_tasks() - {asyncio.current_task()}  # the host leaves it
        goes_on.set()
        with pytest.raises(Exception, match="no more steps"):
            await sibling
        return ["—", "never", "—", "—"]

    seen = run(main())
    found = row_of(read(), group.seen[1].env)
    index = f"{found['status']}: {found['reason']}"
    row = IN_A_GROUP["`FailFast`, while it plays"]
    assert [row.name, *seen, index, "no, the run stops"] == cells(row)
    assert found["reward"] is None and Fragile.opened == Fragile.closed == 2


def test_retries_that_are_used_up_abandon_what_still_plays(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path)
    scripts = [[ADD, never()], [call("crash")], [call("crash")]]
    played = play(group, rendering, scripts, RetryOnFailure(max_retries=1))
    assert isinstance(played.error, EpisodeFailed)
    row = IN_A_GROUP["retries are used up, while it plays"]
    assert seen_as(played, group.seen[0], read(), row) == cells(row)


def test_cancelled_group_is_abandoned_also_while_it_is_cleaned_up(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, slots=1)

    async def main() -> None:
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            await asyncio.Event().wait()

        policy = ByTask(rendering, [[ADD, hang()], [DONE]])
        task = asyncio.create_task(do_group_rollout(group, policy, FailFast()))
        await begun.wait()
        while not task.done():  # and once more in every step of its unwinding
            task.cancel()
            await asyncio.sleep(0)
        assert task.cancelled()

    run(main())
    reader = read()
    playing, waiting = (row_of(reader, seen.env) for seen in group.seen)
    for name, found in (
        ("its group is cancelled, while it plays", playing),
        ("cancelled before it had a slot", waiting),
    ):
        index = f"{found['status']}: {found['reason']}"
        assert [name, "—", "never", "—", "—", index, "no"] == in_a_group(name)
        assert found["reward"] is None
    assert slots_of(str(tmp_path / "run"), 1).taken == 0
    assert Fragile.opened == Fragile.closed == 1


def test_rollout_whose_task_is_lost_is_abandoned_with_its_group(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, slots=1)

    async def main() -> None:
        envs = await group.make_envs()
        policy = ByTask(rendering, [[ADD, never()]])
        task = asyncio.create_task(run_rollout(policy, envs[0]))
        for _ in range(100):  # until it waits for its second reply
            await asyncio.sleep(0)
        assert envs[0].turns.count == 1
        task._log_destroy_pending = False  # nobody holds it any more, which is the point
        del task, policy
        gc.collect()
        await group.cleanup()

    run(main())
    found = row_of(read(), group.seen[0].env)
    name = "its task is lost"
    index = f"{found['status']}: {found['reason']}"
    assert [name, "—", "never", "—", "—", index, "no"] == in_a_group(name)
    assert slots_of(str(tmp_path / "run"), 1).taken == 0 and Fragile.closed == 1


def test_surplus_envs_of_a_retry_never_open_and_are_not_filed(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, group_size=3)
    scripts = [[call("crash")], [DONE], [DONE], [DONE]]
    played = play(group, rendering, scripts, RetryOnFailure())
    assert played.result is not None and len(group.seen) == 6
    surplus = {seen.env.episode.id for seen in group.seen[4:]}
    assert not surplus & {r["key"] for r in filed(read())}
    assert Fragile.opened == Fragile.closed == 4
    assert in_a_group("made for a retry and not needed")[5] == "not there"


def test_rewards_of_a_retried_group_are_those_of_their_trajectories_in_any_order(
    tmp_path: Path, rendering: Rendering
) -> None:
    group = group_of(tmp_path, group_size=3)
    scripts = [[ADD, call("crash")], [ADD, ADD, ADD, DONE], [ADD, ADD, DONE], [ADD, DONE]]
    result = play(group, rendering, scripts, RetryOnFailure()).result
    assert result is not None
    calls = [len(tr.transitions) - 1 for tr in result.trajectories_G]
    assert result.get_total_rewards() == pytest.approx([n / 10 for n in calls])
    assert sorted(calls) == [1, 2, 3]


def test_partial_group_is_paid_and_its_failures_are_filed_as_failed(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, group_size=4, slots=2)
    scripts = [[call("crash")], [ADD, DONE], [ADD, ("x", "length")], [call("leave")]]
    strategy = MinViableGroup(min_successful=2, max_retries=0)
    result = play(group, rendering, scripts, strategy).result
    assert result is not None and result.get_total_rewards() == pytest.approx([0.1, 0.1])
    found = sorted((r["status"], r["reward"]) for r in filed(read()) if r["status"] != "failed")
    assert found == [("cut", pytest.approx(0.1)), ("finished", pytest.approx(0.1))]
    assert [r["reward"] for r in filed(read()) if r["status"] == "failed"] == [None, None]


# ---------------------------------------------------------------- the docs


def test_table_in_the_docs_is_what_the_tests_play() -> None:
    lines = DOCS.read_text("utf-8").splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("|---"))
    table = list(itertools.takewhile(lambda line: line.startswith("|"), lines[at + 1 :]))
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert found == rows()
