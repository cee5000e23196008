"""Endings that need a group: the rest of the table in docs/endings.md, and what its group pays and
files.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.clock import run
from support.endings import (
    ADD,
    GROUP_ENDINGS,
    HOUR,
    Fragile,
    cells,
    never,
)
from support.played import Played, filed, group_of, play, row_of, seen_as
from support.scripted import DONE, ByTask, call
from tinker_cookbook.rl.rollout_limits import RolloutLimits, TerminationRewardPolicy
from tinker_cookbook.rl.rollout_runner import run_rollout
from tinker_cookbook.rl.rollout_strategy import (
    FailFast,
    MinViableGroup,
    RetryOnFailure,
)
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import TrajectoryGroup

from tinker_episodes import EpisodeFailed
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.slots import slots_of
from tinker_episodes.episode import State
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer

Read = Callable[[], IndexReader]
IN_A_GROUP = {row.name: row for row in GROUP_ENDINGS}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    Fragile.opened = Fragile.closed = 0
    yield
    Fragile.first_open = ""


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


def test_environment_that_can_not_be_made_fails_its_rollout_and_not_make_envs(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, slots=1, bundle="support.endings:UNMAKEABLE")
    played = play(group, rendering, [], RetryOnFailure(max_retries=1))
    assert isinstance(played.error, EpisodeFailed) and len(group.seen) == 4
    failed = [r for r in filed(read()) if r["status"] == "failed"]
    assert {r["reason"] for r in failed} == {"the environment: no room"}
    assert slots_of(str(tmp_path / "run"), 1).taken == 0


def test_all_rollouts_of_a_group_play_one_task_also_those_of_retries(
    tmp_path: Path, rendering: Rendering
) -> None:
    group = group_of(tmp_path, group_size=3, bundle="support.scripted:COUNTING")
    play(group, rendering, [[call("crash")], [DONE], [DONE], [DONE]], RetryOnFailure())
    assert all(seen.env.episode.task == group.task for seen in group.seen)


def test_cleaning_up_again_changes_nothing(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path)
    play(group, rendering, [[ADD, DONE], [DONE]], FailFast())
    before = filed(read())
    run(group.cleanup())
    assert filed(read()) == before and len(before) == Fragile.closed == 2


def test_group_whose_rewards_are_all_equal_is_filed_all_the_same(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, group_size=4)
    play(group, rendering, [[ADD, DONE]] * 4, FailFast())
    assert [r["reward"] for r in filed(read())] == [0.1] * 4


def test_cut_rollout_is_filed_with_the_full_length_of_every_turn(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = group_of(tmp_path, group_size=1)
    long = ("word " * 300, "length")
    result = play(group, rendering, [[ADD, ADD, long]], FailFast()).result
    assert result is not None
    (trajectory,), reader = result.trajectories_G, read()
    (found,), (seen,) = filed(reader), group.seen
    body = reader.transcript(seen.env.episode.id)
    assert body is not None
    sampled = [t.ac.tokens for t in trajectory.transitions]
    assert [turn["sampled"] for turn in body["turns"]] == sampled and len(sampled[-1]) >= 300
    assert found["sampled_tokens"] == sum(map(len, sampled))
    assert (found["cut"], found["turns"]) == ("length", 3)
