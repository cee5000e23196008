"""Groups under the host's strategies: rewards, metrics, filing, and no deadlock at a cut."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripted import COUNTING, DONE, JSON_END, ByTask, Counter, call
from tinker_cookbook.rl.rollout_limits import RolloutLimits, TerminationRewardPolicy
from tinker_cookbook.rl.rollout_strategy import FailFast, MinViableGroup, RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset, TrajectoryGroup

from tinker_episodes import EpisodeDatasetBuilder, EpisodeFailed, loopback
from tinker_episodes.cookbook import EpisodeGroupBuilder
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.slots import slots_of
from tinker_episodes.environment import read_environment
from tinker_episodes.index import Split
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.outcome import Cut

Read = Callable[[], IndexReader]


async def dataset_of(tmp_path: Path, **settings: Any) -> RLDataset:
    builder = EpisodeDatasetBuilder(
        bundle=settings.pop("bundle", "support.scripted:COUNTING"),
        model_name=loopback.model_name(),
        renderer_name="qwen3_instruct",
        groups_per_batch=1,
        log_path=str(tmp_path / "run"),
        **{"group_size": 4, **settings},
    )
    train, _ = await builder()
    return train


async def group_of(tmp_path: Path, **settings: Any) -> EpisodeGroupBuilder:
    (group,) = (await dataset_of(tmp_path, **settings)).get_batch(0)
    assert isinstance(group, EpisodeGroupBuilder)
    return group


async def play(
    group: EnvGroupBuilder, rendering: Rendering, scripts: list[list[Any]], **how: Any
) -> TrajectoryGroup:
    return await do_group_rollout(group, ByTask(rendering, scripts), **how)


def taken(tmp_path: Path, count: int | None) -> int:
    return slots_of(str(tmp_path / "run"), count).taken


async def test_group_pays_every_reward_once(tmp_path: Path, rendering: Rendering) -> None:
    group = await group_of(tmp_path, limits=RolloutLimits(max_turns=3))
    scripts = [[DONE], [call("add"), DONE], [call("add"), call("stop")], [call("add")] * 4]
    result = await play(group, rendering, scripts)
    assert result.get_total_rewards() == pytest.approx([0.0, 0.1, 0.1, 0.3])
    assert result.final_rewards_G == [0.0] * 4


async def test_end_that_only_the_runner_knows_is_paid_by_the_group(
    tmp_path: Path, rendering: Rendering
) -> None:
    group = await group_of(tmp_path, group_size=2)
    envs = await group.make_envs()
    from tinker_cookbook.rl.rollout_runner import run_rollout

    policy = ByTask(rendering, [[call("add")] * 3, [call("add"), DONE]])
    limits = RolloutLimits(max_turns=2)
    rollouts = [asyncio.create_task(run_rollout(policy, env, limits=limits)) for env in envs]
    trajectories = list(await asyncio.gather(*rollouts))
    rewards = await group.compute_group_rewards(trajectories, envs)
    await group.cleanup()
    assert [reward for reward, _ in rewards] == pytest.approx([0.2, 0.0])
    paid = [sum(t.reward for t in trajectory.transitions) for trajectory in trajectories]
    assert paid == pytest.approx([0.0, 0.1])
    assert rewards[0][1]["cut/max_turns"] == 1.0


async def test_every_metric_is_there_once_a_rollout_zeros_included(
    tmp_path: Path, rendering: Rendering
) -> None:
    group = await group_of(tmp_path, group_size=2)
    two_calls = call("add").removesuffix(JSON_END) + call("missing")
    result = await play(group, rendering, [[two_calls, DONE], [("x", "length")]])
    expected = {"score/counted", "cut", "messages", "tool_calls", "tool_errors", "format_errors"}
    expected |= {f"cut/{cut}" for cut in Cut} | {"rewritten"}
    first, second = result.metrics_G
    assert set(first) == set(second) == expected
    assert (first["tool_calls"], first["tool_errors"], first["cut"]) == (2, 1, 0.0)
    assert (second["cut"], second["cut/length"], second["tool_calls"]) == (1.0, 1.0, 0)
    steps = [t.metrics for trajectory in result.trajectories_G for t in trajectory.transitions]
    assert not any(key in expected for metrics in steps for key in metrics)


async def test_group_of_16_with_8_slots_whose_first_8_are_cut_finishes(
    tmp_path: Path, rendering: Rendering
) -> None:
    group = await group_of(tmp_path, group_size=16, max_concurrent_episodes=8)
    scripts = [[("cut", "length")]] * 8 + [[call("add"), DONE]] * 8
    result = await asyncio.wait_for(play(group, rendering, scripts), 60)
    assert sorted(result.get_total_rewards()) == pytest.approx([0.0] * 8 + [0.1] * 8)
    assert taken(tmp_path, 8) == 0 and Counter.opened == Counter.closed == 16


async def test_cut_rollout_is_scored_and_gives_its_slot_while_its_siblings_play(
    tmp_path: Path, rendering: Rendering
) -> None:
    group = await group_of(tmp_path, group_size=2, max_concurrent_episodes=1)
    others_turn = asyncio.Event()

    async def tell() -> None:
        others_turn.set()

    scripts = [[call("add"), ("cut", "length")], [tell(), call("add"), DONE]]
    result = await asyncio.wait_for(play(group, rendering, scripts), 60)
    assert others_turn.is_set()  # the second got the slot before the group's rewards
    assert result.get_total_rewards() == pytest.approx([0.1, 0.1])


async def test_rollouts_are_filed_with_scores_tokens_and_reasons(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, group_size=2)
    await play(group, rendering, [[call("add"), DONE], [("cut", "length")]])
    reader = read()
    finished, cut = reader.rollouts("run", Split.TRAIN, 0)
    assert (finished["status"], finished["reward"], finished["cut"]) == ("finished", 0.1, None)
    assert (cut["status"], cut["reward"], cut["cut"]) == ("cut", 0.0, "length")
    assert finished["task"] == group.task.id and finished["turns"] == 2
    assert reader.scores(finished["key"])[0].value == 0.1
    body = reader.transcript(finished["key"])
    assert body is not None
    kinds = [entry["kind"] for entry in body["entries"]]
    assert kinds == ["prompt", "reply", "result", "reply"]
    sampled = [turn["sampled"] for turn in body["turns"]]
    assert rendering.renderer.tokenizer.decode(sampled[1]) == DONE
    assert [turn["extends"] for turn in body["turns"]] == [True, True]
    assert all(len(turn["logprobs"]) == len(turn["sampled"]) for turn in body["turns"])
    assert finished["sampled_tokens"] == sum(len(tokens) for tokens in sampled)


async def test_filed_tools_are_those_that_the_model_read_prompt_by_prompt(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, bundle="support.scripted:RETOOLED", group_size=1)
    await play(group, rendering, [[call("add"), DONE, call("say", text="x"), DONE, DONE]])
    (row,) = read().rollouts("run", Split.TRAIN, 0)
    page, tokens = read().rollout(row["key"]), read().tokens(row["key"])
    assert page is not None and tokens is not None
    prompts = [entry for entry in page.entries if entry["kind"] == "prompt"]
    filed = [list(page.tool_sets[prompt["tool_set"]]) for prompt in prompts]
    every = [tool.name for tool in read_environment(Counter).tools.values()]
    assert [prompt["tools"] for prompt in prompts] == [["add"], ["say", "stop"], every]
    assert [[spec["name"] for spec in specs] for specs in filed] == [
        ["add"],
        ["say", "stop"],
        every,
    ]
    first, *later = tokens.turns
    afresh = [first, *(turn for turn in later if not turn["extends"])]
    decode = rendering.renderer.tokenizer.decode
    assert filed == [tools_in(decode(turn["observation"])) for turn in afresh]


def tools_in(shown: str) -> list[dict[str, Any]]:
    """The tools that a text of the renderer `qwen3_instruct` tells of."""
    written = shown.split("<tools>\n", 1)[1].split("\n</tools>", 1)[0]
    return [json.loads(line)["function"] for line in written.splitlines()]


async def test_retry_plays_a_fresh_env_and_files_the_failed_one(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, group_size=2)
    scripts = [[call("add"), call("crash")], [call("add"), DONE], [call("add", amount=3), DONE]]
    result = await play(group, rendering, scripts, strategy=RetryOnFailure(max_retries=1))
    assert sorted(result.get_total_rewards()) == pytest.approx([0.1, 0.3])
    rows = read().rollouts("run", Split.TRAIN, 0)
    assert sorted(row["status"] for row in rows) == ["failed", "finished", "finished"]
    failed = next(row for row in rows if row["status"] == "failed")
    assert failed["reward"] is None and "a bug" in failed["reason"]
    assert Counter.opened == Counter.closed == 3  # the retry's surplus env never opens


async def test_scorer_that_fails_in_a_step_is_retried_and_never_a_zero(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, bundle="support.scripted:BREAKING", group_size=2)
    scripts = [[call("add"), DONE], [DONE], [DONE]]
    result = await play(group, rendering, scripts, strategy=RetryOnFailure(max_retries=1))
    assert result.get_total_rewards() == [0.0, 0.0]
    rows = read().rollouts("run", Split.TRAIN, 0)
    assert sorted((row["status"], row["reward"]) for row in rows if row["reward"] is None) == [
        ("failed", None)
    ]


async def test_partial_group_keeps_what_succeeded(tmp_path: Path, rendering: Rendering) -> None:
    group = await group_of(tmp_path)
    scripts = [[call("crash")], [DONE], [call("add"), DONE], [DONE]]
    strategy = MinViableGroup(min_successful=3, max_retries=0)
    result = await play(group, rendering, scripts, strategy=strategy)
    assert sorted(result.get_total_rewards()) == pytest.approx([0.0, 0.0, 0.1])


async def test_failed_group_drops_its_siblings_and_files_all_that_began(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, group_size=3, max_concurrent_episodes=2)
    forever = asyncio.Event()
    scripts = [[call("add"), forever.wait(), DONE], [call("crash")], [forever.wait(), DONE]]
    with pytest.raises(EpisodeFailed, match="a bug"):
        await play(group, rendering, scripts, strategy=FailFast())
    assert taken(tmp_path, 2) == 0 and Counter.opened == Counter.closed
    rows = read().rollouts("run", Split.TRAIN, 0)
    assert all(row["reward"] is None for row in rows)
    assert sorted({row["status"] for row in rows}) == ["abandoned", "failed"]
    forever.set()


async def test_cancelled_group_is_abandoned_and_frees_its_slots(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, group_size=2, max_concurrent_episodes=1)
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(play(group, rendering, [[call("add"), hang()], [DONE]]))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert taken(tmp_path, 1) == 0
    rows = read().rollouts("run", Split.TRAIN, 0)
    assert [row["status"] for row in rows] == ["abandoned", "abandoned"]


async def test_hosts_clamp_composes_on_top_of_the_score(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, group_size=2)
    termination = TerminationRewardPolicy(zero_reward_on_limit=True)
    scripts = [[call("add"), ("x", "length")], [call("add"), DONE]]
    result = await play(group, rendering, scripts, termination=termination)
    assert result.get_total_rewards() == pytest.approx([0.0, 0.1])
    assert [row["reward"] for row in read().rollouts("run", Split.TRAIN, 0)] == [0.1, 0.1]


async def test_group_can_be_played_again_and_is_filed_anew(
    tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    group = await group_of(tmp_path, group_size=1)
    for _ in range(3):
        await play(group, rendering, [[call("add"), DONE]])
    rows = read().rollouts("run", Split.TRAIN, 0)
    assert len({row["key"] for row in rows}) == 3 and len({row["group"] for row in rows}) == 3


async def test_making_envs_and_pickling_open_nothing(tmp_path: Path) -> None:
    group = await group_of(tmp_path)
    await group.make_envs()
    again = pickle.loads(pickle.dumps(group))
    assert Counter.opened == 0 and not (tmp_path / "episodes.db").exists()
    assert again.task == group.task and again.logging_tags() == group.logging_tags()
    assert again.logging_tags()[0] == "counting"
    assert COUNTING.tasks[again.task.id].tags == tuple(again.logging_tags()[1:])
    await group.cleanup()


async def test_rewards_do_not_leave_where_they_can_not_be_filed(
    tmp_path: Path, rendering: Rendering
) -> None:
    from tinker_episodes import RunIndexError

    blocked = tmp_path / "blocked"
    index = f"sqlite:///{blocked}/episodes.db"
    dataset = await dataset_of(tmp_path, group_size=1, index=index)
    (group,) = dataset.get_batch(0)
    blocked.write_text("a file where the folder would be")
    with pytest.raises(RunIndexError, match="can't be opened"):
        await play(group, rendering, [[DONE]])
    with pytest.raises(RunIndexError, match="can't be opened"):
        dataset.get_batch(0)  # where no strategy of the host can swallow it
    other = await dataset_of(tmp_path, index=f"sqlite:///{tmp_path}/elsewhere.db")
    other.get_batch(0)
