"""Endings of one rollout, each under the host's real runner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.scripted import DONE, JSON_END, Counter, Script, call
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits
from tinker_cookbook.rl.rollout_runner import run_rollout
from tinker_cookbook.rl.types import Trajectory

from tinker_episodes import EpisodeClosed, EpisodeEnv, EpisodeFailed, Prompt, Task
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.slots import Slots
from tinker_episodes.episode import State
from tinker_episodes.outcome import Cut

TASK = Task.of("count", "Count.")


def make(rendering: Rendering, **settings: Any) -> EpisodeEnv:
    task = settings.pop("task", TASK)
    return EpisodeEnv(environment=Counter, task=task, renderer=rendering, **settings)


async def play(
    rendering: Rendering, said: list[Any], **settings: Any
) -> tuple[EpisodeEnv, Trajectory]:
    env = make(rendering, **settings)
    return env, await run_rollout(Script(rendering, said), env)


def total(trajectory: Trajectory) -> float:
    return sum(transition.reward for transition in trajectory.transitions)


async def test_reply_without_a_call_ends_a_task_of_one_prompt(rendering: Rendering) -> None:
    env, trajectory = await play(rendering, [call("add"), call("add", amount=2), DONE])
    assert trajectory.stop_reason == "completed"
    assert total(trajectory) == pytest.approx(0.3)
    assert env.episode.outcome is not None and env.episode.outcome.cut is None
    assert Counter.closed == 1


async def test_tool_ends_the_episode(rendering: Rendering) -> None:
    _, trajectory = await play(rendering, [call("add"), call("stop")])
    assert trajectory.stop_reason == "tool_stopped"
    assert total(trajectory) == pytest.approx(0.1)


async def test_every_transition_holds_the_episodes_id_and_nothing_that_was_said(
    rendering: Rendering,
) -> None:
    env, trajectory = await play(rendering, [call("say", text="a secret"), DONE])
    assert [t.logs for t in trajectory.transitions] == [{"episode": env.episode.id}] * 2
    assert "secret" not in str([t.metrics for t in trajectory.transitions])


async def test_reply_at_its_token_limit_is_cut_and_scored(rendering: Rendering) -> None:
    env, trajectory = await play(rendering, [call("add"), ("<tool_call>\n{", "length")])
    assert trajectory.stop_reason == "max_tokens"
    assert total(trajectory) == pytest.approx(0.1)
    assert env.episode.outcome is not None and env.episode.outcome.cut is Cut.LENGTH


async def test_call_in_a_reply_at_its_token_limit_does_not_run(rendering: Rendering) -> None:
    env, _ = await play(rendering, [(call("add"), "length")])
    assert env.episode.environment.count == 0


async def test_reply_at_its_token_limit_goes_on_under_token_budgets(rendering: Rendering) -> None:
    env, trajectory = await play(
        rendering,
        [("thinking aloud", "length"), call("add"), DONE],
        limits=RolloutLimits(max_turn_tokens=100),
    )
    assert trajectory.stop_reason == "completed"
    assert total(trajectory) == pytest.approx(0.1)
    assert env.rewritten == 0


async def test_reply_without_its_stop_signal_is_cut_and_scored(rendering: Rendering) -> None:
    env, trajectory = await play(rendering, [call("add"), "no end"])
    assert trajectory.stop_reason == "parse_error"
    assert total(trajectory) == pytest.approx(0.1)
    assert env.episode.outcome is not None and env.episode.outcome.cut is Cut.PARSE_ERROR


BROKEN = f"<tool_call>\n{{no json\n</tool_call>{JSON_END}"


async def test_malformed_call_ends_the_episode_without_a_policy(rendering: Rendering) -> None:
    env, trajectory = await play(rendering, [call("add"), BROKEN])
    assert trajectory.stop_reason == "parse_error"
    assert total(trajectory) == pytest.approx(0.1)
    assert env.episode.counts.format_errors == 1


async def test_malformed_call_is_corrected_as_the_policy_says(rendering: Rendering) -> None:
    policy = ParseErrorPolicy(
        max_consecutive=1, penalty_per_error=0.05, terminal_reward=-1.0, mask_error_turns=True
    )
    script = Script(rendering, [BROKEN, call("add"), BROKEN, BROKEN])
    env = make(rendering, parse_errors=policy)
    trajectory = await run_rollout(script, env)
    assert trajectory.stop_reason == "parse_error"
    rewards = [transition.reward for transition in trajectory.transitions]
    assert rewards == pytest.approx([-0.05, 0.0, -0.05, 0.1 - 1.0])
    masked = ["parse_error_masked" in t.metrics for t in trajectory.transitions]
    assert masked == [True, False, True, True]
    assert "formatting issue" in rendering.renderer.tokenizer.decode(script.shown[1].to_ints())


@pytest.mark.parametrize(
    ("limits", "cut", "stop"),
    [
        (RolloutLimits(max_turns=2), Cut.MAX_TURNS, "max_turns"),
        (RolloutLimits(max_tool_calls=1), Cut.MAX_TOOL_CALLS, "max_tool_calls"),
        (RolloutLimits(max_sampled_tokens=30), Cut.MAX_SAMPLED_TOKENS, "max_sampled_tokens"),
        (RolloutLimits(max_trajectory_tokens=640), Cut.MAX_TOKENS, "max_tokens"),
    ],
)
async def test_limit_is_scored_in_the_step_that_reaches_it(
    rendering: Rendering, limits: RolloutLimits, cut: Cut, stop: str
) -> None:
    env, trajectory = await play(rendering, [call("add")] * 30, limits=limits)
    assert trajectory.stop_reason == stop
    assert env.paid and env.episode.outcome is not None
    assert env.episode.outcome.cut is cut
    assert total(trajectory) == pytest.approx(env.episode.environment.count / 10) != 0
    assert trajectory.transitions[-1].episode_done


async def test_calls_beyond_the_limit_are_answered_and_not_run(rendering: Rendering) -> None:
    two = call("add").removesuffix(JSON_END) + call("add", amount=5)
    env, trajectory = await play(rendering, [two], limits=RolloutLimits(max_tool_calls=1))
    assert trajectory.stop_reason == "max_tool_calls"
    assert env.episode.environment.count == 1
    answers = [e for e in env.episode.transcript.to_json() if e["kind"] == "result"]
    assert [a["call_id"] for a in answers] == ["call_1", "call_2"]
    assert "Not run" in answers[1]["content"]


async def test_prompt_that_is_too_long_ends_the_rollout_at_its_start(rendering: Rendering) -> None:
    env, trajectory = await play(rendering, [], limits=RolloutLimits(max_trajectory_tokens=20))
    assert trajectory.stop_reason == "max_tokens"
    assert [len(t.ac.tokens) for t in trajectory.transitions] == [0]
    assert env.episode.outcome is not None and env.episode.outcome.cut is Cut.MAX_TOKENS
    assert trajectory.transitions[0].logs == {"episode": env.episode.id}


async def test_time_runs_from_the_slot_and_ends_the_rollout_at_the_next_step(
    rendering: Rendering,
) -> None:
    env = make(rendering, limits=RolloutLimits(rollout_timeout_seconds=1000))
    await env.initial_observation()
    env.conversation.deadline = 0.0  # long past
    step = await env.step(rendering.renderer.tokenizer.encode(call("add")))
    assert step.episode_done and step.metrics["stop/rollout_timeout"] == 1.0
    assert env.episode.environment.count == 0


async def test_tool_error_is_answered_and_the_episode_goes_on(rendering: Rendering) -> None:
    script = Script(rendering, [call("missing"), call("add", amount="x"), call("nope"), DONE])
    env = make(rendering)
    trajectory = await run_rollout(script, env)
    assert trajectory.stop_reason == "completed"
    assert env.episode.counts.tool_errors == 3
    shown = rendering.renderer.tokenizer.decode(script.shown[-1].to_ints())
    assert "not here" in shown and "there is no tool" in shown


async def test_bug_in_a_tool_fails_the_rollout_and_frees_its_slot(rendering: Rendering) -> None:
    slots = Slots(1)
    with pytest.raises(EpisodeFailed, match="a bug"):
        await play(rendering, [call("crash")], slots=slots)
    assert slots.taken == 0 and Counter.closed == 1


async def test_exception_of_the_policy_abandons_the_episode(rendering: Rendering) -> None:
    slots = Slots(1)
    env = make(rendering, slots=slots)
    task = asyncio.create_task(run_rollout(Script(rendering, [call("add"), ValueError("x")]), env))
    with pytest.raises(ValueError, match="x"):
        await task
    await env.ending.drop("over")
    assert env.episode.state is State.ABANDONED and env.episode.outcome is None
    assert slots.taken == 0 and Counter.closed == 1


async def test_cancelled_rollout_is_abandoned_and_frees_its_slot(rendering: Rendering) -> None:
    slots, begun = Slots(1), asyncio.Event()
    env = make(rendering, slots=slots)

    async def tell() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run_rollout(Script(rendering, [call("add"), tell()]), env))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await env.ending.drop("over")
    assert env.episode.state is State.ABANDONED
    assert slots.taken == 0 and Counter.closed == 1


async def test_end_that_the_env_was_not_told_is_learnt_from_the_task(rendering: Rendering) -> None:
    slots = Slots(1)
    env = make(rendering, slots=slots)
    limits = RolloutLimits(max_turns=1)  # the runner's, unknown to the env
    script = Script(rendering, [call("add")] * 3)
    trajectory = await asyncio.create_task(run_rollout(script, env, limits=limits))
    outcome = await env.settle(trajectory)
    assert outcome.cut is Cut.MAX_TURNS and outcome.reward == 0.1
    assert not env.paid and slots.taken == 0


async def test_second_rollout_in_a_task_ends_the_first(rendering: Rendering) -> None:
    slots = Slots(1)
    first, second = make(rendering, slots=slots), make(rendering, slots=slots)
    limits = RolloutLimits(max_turns=1)
    trajectories = []
    for env in (first, second):  # would wait for ever if the first kept its slot
        script = Script(rendering, [call("add")] * 3)
        trajectories.append(await run_rollout(script, env, limits=limits))
    for env, trajectory in zip((first, second), trajectories, strict=True):
        assert (await env.settle(trajectory)).cut is Cut.MAX_TURNS
    assert slots.taken == 0


async def test_env_refuses_steps_after_its_end(rendering: Rendering) -> None:
    env, _ = await play(rendering, [DONE])
    with pytest.raises(EpisodeClosed, match="no more steps"):
        await env.step([1, 2, 3])


async def test_prompts_open_with_their_own_instructions(rendering: Rendering) -> None:
    task = Task(
        id="two",
        prompts=(
            Prompt("first", system_prompt="You are one."),
            Prompt("second", system_prompt="You are two.", tools=("add",)),
        ),
    )
    script = Script(rendering, [call("add"), DONE, call("stop"), call("add"), DONE])
    env = make(rendering, task=task)
    trajectory = await run_rollout(script, env)
    shown = [rendering.renderer.tokenizer.decode(ob.to_ints()) for ob in script.shown]
    assert "You are one." in shown[0] and '"stop"' in shown[0]
    assert "You are two." in shown[2] and "You are one." not in shown[2]
    assert '"stop"' not in shown[2].split("<|im_start|>user")[0]
    assert "there is no tool" in shown[3]
    assert env.episode.environment.count == 2 and trajectory.stop_reason == "completed"


async def test_rollout_is_one_training_datum_and_shares_its_chunks(rendering: Rendering) -> None:
    script = Script(rendering, [call("say", text="é漢🙂 \\ud800"), call("add"), DONE])
    trajectory = await run_rollout(script, make(rendering))
    assert len(trajectory_to_data(trajectory, 1.0)) == 1
    first, second = script.shown[0].chunks, script.shown[1].chunks
    assert all(a is b for a, b in zip(first, second, strict=False))


async def test_plays_under_the_hosts_own_adapter(rendering: Rendering) -> None:
    from tinker_cookbook.rl.message_env import EnvFromMessageEnv

    from tinker_episodes import Episode
    from tinker_episodes.cookbook import EpisodeMessageEnv

    play = EpisodeMessageEnv(Episode(Counter, TASK), rendering.renderer)
    env = EnvFromMessageEnv(rendering.renderer, play)
    trajectory = await run_rollout(Script(rendering, [call("add"), DONE]), env)
    assert total(trajectory) == pytest.approx(0.1) and trajectory.stop_reason == "completed"


async def test_lone_surrogate_that_a_tool_says_back_renders(rendering: Rendering) -> None:
    said = '<tool_call>\n{"name": "say", "arguments": {"text": "\\ud800"}}\n</tool_call>' + JSON_END
    _, trajectory = await play(rendering, [said, DONE])
    assert trajectory.stop_reason == "completed"
