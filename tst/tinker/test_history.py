"""A conversation whose past changes: the oldest exchanges dropped, other instructions, messages put
in by hooks.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted import Counter
from support.talk import Said, Talk, flat, reasons
from support.tokenizers import renderer_for
from tinker_cookbook.renderers import Message, Renderer
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_runner import run_rollout
from tinker_cookbook.rl.types import Trajectory

from tinker_episodes import EpisodeEnv, Prompt, Task
from tinker_episodes.cookbook.history import History, fewest
from tinker_episodes.cookbook.prompts import Cause

ONE = Task.of("one", "Count.")
WINDOW = 900
NAMES = ("qwen3_5_preserve_thinking", "qwen3_5", "kimi_k25", "deepseekv4_1", "glm5_3_max_reasoning")
NAMES = (*NAMES, "tml_v0", "gpt_oss_low_reasoning", "qwen3_instruct")
pytestmark = pytest.mark.filterwarnings("ignore:.*o200k:DeprecationWarning")  # the host's own call


class Windowed(Talk):
    """Also keeps the conversation at each turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.histories: list[tuple[list[Message], list[Message]]] = []

    async def __call__(self, model_input: Any, stop: Any, *, max_tokens: int | None = None) -> Any:
        history = self.env.conversation.history
        self.histories.append((list(history.prefix), list(history.body)))
        return await super().__call__(model_input, stop, max_tokens=max_tokens)


async def play(
    renderer: Renderer, said: list[Said], task: Task = ONE, **more: Any
) -> tuple[Windowed, Trajectory]:
    env = EpisodeEnv(environment=Counter, task=task, renderer=renderer, **more)
    policy = Windowed(env, renderer, said)
    return policy, await run_rollout(policy, env)


def calls(renderer: Renderer, count: int) -> list[Said]:
    thought = "a thought" if reasons(renderer) else ""
    text = '{"text": "' + "word " * 20 + '"}'
    return [*[Said("on", thought, (text,))] * count, Said("done", thought)]


@pytest.mark.parametrize("name", NAMES)
async def test_window_drops_the_oldest_exchanges_and_renders_the_rest_anew(name: str) -> None:
    renderer = renderer_for(name)
    policy, trajectory = await play(renderer, calls(renderer, 24), history_tokens=WINDOW)
    rewrites = [r for r in policy.env.rewrites if r.cause is Cause.WINDOW]
    assert rewrites and rewrites[0].dropped > 0
    assert [r.dropped for r in rewrites] == sorted({r.dropped for r in rewrites})
    assert all(len(shown) <= WINDOW for shown in policy.shown)
    for rewrite in rewrites:
        prefix, body = policy.histories[rewrite.turn]
        # The prompt and the instructions stay; an exchange is a call and its result.
        kept = [*prefix, body[0], *body[1 + 2 * rewrite.dropped :]]
        assert policy.shown[rewrite.turn] == flat(renderer.build_generation_prompt(kept))
    assert len(trajectory_to_data(trajectory, 1.0)) == policy.env.rewritten + 1


async def test_window_is_filled_again_before_history_is_rewritten_again() -> None:
    renderer = renderer_for("qwen3_5_preserve_thinking")
    policy, trajectory = await play(renderer, calls(renderer, 60), history_tokens=2 * WINDOW)
    turns = [rewrite.turn for rewrite in policy.env.rewrites]
    gaps = {later - earlier for earlier, later in itertools.pairwise(turns)}
    assert len(turns) >= 3 and min(gaps) >= 5
    assert len(trajectory_to_data(trajectory, 1.0)) == len(turns) + 1


async def test_window_smaller_than_the_newest_exchange_keeps_that_exchange() -> None:
    renderer = renderer_for("qwen3_5_preserve_thinking")
    policy, _ = await play(renderer, calls(renderer, 4), history_tokens=1)
    prefix, body = policy.histories[-1]
    kept = [*prefix, body[0], *body[-2:]]
    assert policy.shown[-1] == flat(renderer.build_generation_prompt(kept))


def test_prompt_goes_with_the_last_of_its_exchanges() -> None:
    body = [
        *(Message(role="user", content="one"), Message(role="assistant", content="a")),
        *(Message(role="tool", content="r"), Message(role="user", content="a note")),
        Message(role="assistant", content="b"),
        *(Message(role="user", content="two"), Message(role="assistant", content="c")),
        Message(role="tool", content="r"),
    ]
    history = History([], body, [0, 5])
    assert history.exchanges() == 2
    left = [[m["content"] for m in history.without(n)] for n in range(3)]
    assert left == [[m["content"] for m in body], ["one", "b", "two", "c", "r"], ["two", "c", "r"]]
    asked = History([], [*body, Message(role="user", content="three")], [0, 5, 8])
    assert asked.exchanges() == 3
    assert [m["content"] for m in asked.without(3)] == ["three"]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 60))
def test_fewest_is_the_first_that_fits(low: int, high: int, limit: int) -> None:
    found = fewest(lambda n: n >= limit, low, high)
    assert found == next((n for n in range(low, high + 1) if n >= limit), None)


CHANGES = Task(
    id="changes",
    prompts=(
        Prompt("first"),
        Prompt("second", system_prompt="Be terse."),
        Prompt("third", system_prompt="Be terse.", tools=("say",)),
        Prompt("fourth", system_prompt="Be terse.", tools=("say",)),
        Prompt("fifth", tools=()),
    ),
)


@pytest.mark.parametrize("name", NAMES)
async def test_other_instructions_are_rendered_anew_as_the_host_does(name: str) -> None:
    renderer = renderer_for(name)
    thought = "a thought" if reasons(renderer) else ""
    said = [Said("done", thought)] * 5
    policy, trajectory = await play(renderer, said, CHANGES)
    assert policy.shown == policy.hosts
    changed = [r.turn for r in policy.env.rewrites if r.cause is Cause.INSTRUCTIONS]
    assert changed == [1, 2, 4]
    assert len(trajectory_to_data(trajectory, 1.0)) == policy.env.rewritten + 1


@pytest.mark.parametrize("name", NAMES[:-1])  # the last one's host writes a call otherwise
async def test_messages_that_hooks_put_in_follow_what_was_sampled(name: str) -> None:
    renderer = renderer_for(name)
    thought = "a thought" if reasons(renderer) else ""
    env = EpisodeEnv(environment=Counter, task=ONE, renderer=renderer)
    await env.initial_observation()
    policy = Talk(env, renderer, [Said("on", thought, ('{"text": "x"}',))])
    first = await env.inject_messages([Message(role="user", content="hurry")])
    reply = await policy(first[0], first[1])
    await env.step(reply.tokens)
    shown, _ = await env.inject_messages([Message(role="user", content="now")])
    host = renderer.build_generation_prompt(list(env.conversation.messages))
    assert flat(shown) == flat(host)
    past = [*policy.shown[0], *reply.tokens]
    assert env.rewritten == (flat(shown)[: len(past)] != past)
    await env.ending.drop("over")
