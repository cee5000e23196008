"""What the model is shown, held against the host's own rendering, for every renderer of the host
that takes tools, on its models' own vocabulary.

EPISODES_SEARCH=2000 makes the random search long; by default it is a seeded share.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from support.scripted import Counter
from support.talk import Said, Talk, calls_of, reasons
from support.tokenizers import model_for, renderer_for, renderer_names
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits
from tinker_cookbook.rl.rollout_runner import run_rollout
from tinker_cookbook.rl.types import Trajectory

from tinker_episodes import EpisodeEnv, Prompt, Task
from tinker_episodes.cookbook.extension import TOOL, USER, extends
from tinker_episodes.cookbook.rendering import rendering_of

pytestmark = pytest.mark.filterwarnings("ignore:.*o200k:DeprecationWarning")  # the host's own call

SEARCH = int(os.environ.get("EPISODES_SEARCH", "6"))
NAMES = renderer_names()
PROMPTS = Task(id="three", prompts=(Prompt("first"), Prompt("second"), Prompt("third")))
DONE = Said("done")
DOUBLED = ("qwen3_instruct", "qwen3_vl_instruct", "nemotron3")
"""The host reads the newline beside a call as text, and writes it twice."""
RETRIES = ParseErrorPolicy(max_consecutive=100)


FAMILIES = (
    "qwen3",
    "qwen3_5",
    "deepseekv3",
    "glm5_3_max_reasoning",
    "kimi_k2",
    "gpt_oss_low_reasoning",
    "nemotron3",
    "tml_v0",
)
"""A renderer of each vocabulary that is unlike the others."""


@pytest.mark.parametrize("name", FAMILIES)
async def test_renderer_that_a_builder_names_plays(name: str) -> None:
    rendering = rendering_of(model_for(name), name)
    policy, trajectory = await talk(rendering.renderer, [Said("", calls=say("x"))])
    assert policy.env.episode.counts.tool_calls == 1
    assert trajectory.transitions[-1].episode_done


def say(*texts: str) -> tuple[str, ...]:
    return tuple(json.dumps({"text": text}, ensure_ascii=False) for text in texts)


async def talk(
    renderer: Renderer, said: list[Said], *, task: Task = PROMPTS, **more: Any
) -> tuple[Talk, Trajectory]:
    """The rollout of these replies, and plain ones after them."""
    env = EpisodeEnv(environment=Counter, task=task, renderer=renderer, **more)
    policy = Talk(env, renderer, [*said, *[DONE] * 10])
    return policy, await run_rollout(policy, env)


def held_against_the_host(policy: Talk) -> int:
    """Check every observation; how many are the host's own."""
    own = 0
    for at, (ours, host) in enumerate(zip(policy.shown, policy.hosts, strict=True)):
        past = [*policy.shown[at - 1], *policy.actions[at - 1]] if at else []
        if ours == host:
            own += 1
            continue
        # The host would write the reply otherwise, or was given one that was cut. Ours stays as it
        # was sampled, and what follows it is what the host has there.
        assert ours[: len(past)] == past
        assert host[: len(past)] != past or policy.was_cut(at - 1)
        tail = ours[len(past) :]
        lacking = next(n for n in range(4) if host[-len(tail[n:]) :] == tail[n:])
        assert lacking == 0 or policy.was_cut(at - 1) or policy.ended_otherwise(at - 1)
    return own


@pytest.mark.parametrize("name", NAMES)
async def test_observations_are_the_hosts_own(name: str) -> None:
    renderer = renderer_for(name)
    thought = "a thought" if reasons(renderer) else ""
    both = say("x y", "z")[: calls_of(renderer)]
    replies = [Said("a", thought, both), Said("b", thought, say("p")), Said("done", thought)]
    if name.startswith(DOUBLED):
        replies = [Said(text, thought) for text in "abc"]
    policy, trajectory = await talk(renderer, replies * 3)
    assert len(policy.shown) == (3 if name.startswith(DOUBLED) else 9)
    own = held_against_the_host(policy)
    assert own == len(policy.shown)
    data = len(trajectory_to_data(trajectory, 1.0))
    assert data == policy.env.rewritten + 1
    if extends(renderer, TOOL) and extends(renderer, USER):
        assert data == 1


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ODD = st.sampled_from("| \n a \n\n|\n|0|é漢🙂|</think>|<think>|<tool_call>|</tool_call>".split("|"))  # noqa: SIM905
SPECIAL = st.sampled_from(["im_end", "end", "user", "call", "end_message", "im_start"])
TEXT = st.lists(WORDS | ODD | SPECIAL.map("<|{}|>".format), max_size=4).map("".join)


@st.composite
def conversations(draw: st.DrawFn) -> list[Said]:
    """Replies with any text, calls, cuts and format errors."""
    texts = st.lists(TEXT, max_size=2).map(lambda texts: say(*texts))
    reply = st.builds(Said, TEXT, TEXT, texts)
    raw = st.builds(Said, TEXT, raw=st.just(True), length=st.booleans())
    cut = st.builds(Said, TEXT, length=st.just(True))
    return draw(st.lists(reply | reply | raw | cut, min_size=1, max_size=8))


@pytest.mark.parametrize("name", NAMES)
@seed(5)
@settings(max_examples=SEARCH, deadline=None, suppress_health_check=list(HealthCheck))
@given(said=conversations())
async def test_rollout_of_any_text_is_one_datum_where_history_extends(
    name: str, said: list[Said]
) -> None:
    renderer = renderer_for(name)
    if not reasons(renderer):
        said = [Said(s.text, "", s.calls, s.raw, s.length) for s in said]
    said = [Said(s.text, s.thought, s.calls[: calls_of(renderer)], s.raw, s.length) for s in said]
    policy, trajectory = await talk(
        renderer,
        said,
        limits=RolloutLimits(max_turn_tokens=10_000, max_turns=12),
        parse_errors=RETRIES,
    )
    held_against_the_host(policy)
    data = len(trajectory_to_data(trajectory, 1.0))
    assert data == policy.env.rewritten + 1
    if extends(renderer, TOOL) and extends(renderer, USER):
        assert data == 1
