"""What the model is shown, held against the host's own rendering, on Qwen's real vocabularies."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.qwen import qwen3_5_folder, qwen3_folder
from support.scripted import DONE, JSON_END, Counter, Script, call, xml_call
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_runner import run_rollout

from tinker_episodes import EpisodeEnv, Prompt, Task
from tinker_episodes.cookbook.extension import TOOL, USER, extends
from tinker_episodes.cookbook.rendering import Rendering, rendering_of

JSON_FORM = ("qwen3", "qwen3_disable_thinking", "qwen3_instruct")
XML_FORM = (
    "qwen3_5",
    "qwen3_5_disable_thinking",
    "qwen3_5_preserve_thinking",
    "qwen3_8_xhigh_reasoning",
    "qwen3_8_disable_thinking",
)
EXTENDS = {
    # After a tool result and after a user message: what the host's own rendering shows.
    "qwen3": (False, False),
    "qwen3_disable_thinking": (False, False),
    "qwen3_instruct": (True, True),
    "qwen3_5": (False, False),
    "qwen3_5_disable_thinking": (True, False),
    "qwen3_5_preserve_thinking": (True, True),
    "qwen3_8_xhigh_reasoning": (True, True),
    "qwen3_8_disable_thinking": (True, True),
}
TWO = Task(id="two", prompts=(Prompt("first"), Prompt("second")))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Names of models whose tokenizers are Qwen's own."""
    return {
        "json": qwen3_folder(tmp_path_factory.mktemp("qwen3")),
        "xml": qwen3_5_folder(tmp_path_factory.mktemp("qwen3_5")),
    }


def rendering_for(models: dict[str, str], name: str) -> Rendering:
    return rendering_of(models["json" if name in JSON_FORM else "xml"], name)


class Watching(Script):
    """A script that also asks the host for its own rendering of what it is shown."""

    def __init__(self, rendering: Rendering, said: list[Any], env: EpisodeEnv) -> None:
        super().__init__(rendering, said)
        self._env, self._renderer = env, rendering.renderer
        self.hosts: list[list[int]] = []

    async def __call__(self, model_input: Any, stop: Any, *, max_tokens: int | None = None) -> Any:
        whole = self._renderer.build_generation_prompt(list(self._env.conversation.messages))
        self.hosts.append(whole.to_ints())
        return await super().__call__(model_input, stop, max_tokens=max_tokens)


def replies(name: str, thought: str) -> list[str]:
    """Replies that the renderer writes back just as they are."""
    if name in JSON_FORM:
        before = f"<think>\n{thought}\n</think>\n\n" if name == "qwen3" else ""
        return [before + call("add"), before + call("say", text="x y"), before + DONE] * 2
    before = f"{thought}\n</think>\n\n" if "disable" not in name else ""
    return [before + xml_call("add"), before + xml_call("say", text="x y"), before + DONE] * 2


@pytest.mark.parametrize("name", EXTENDS)
def test_probe_finds_which_histories_extend(models: dict[str, str], name: str) -> None:
    renderer = rendering_for(models, name).renderer
    assert (extends(renderer, TOOL), extends(renderer, USER)) == EXTENDS[name]


@pytest.mark.parametrize("name", EXTENDS)
async def test_observations_are_the_hosts_own(models: dict[str, str], name: str) -> None:
    rendering = rendering_for(models, name)
    env = EpisodeEnv(environment=Counter, task=TWO, renderer=rendering)
    script = Watching(rendering, replies(name, "a thought"), env)
    await run_rollout(script, env)
    assert len(script.shown) == 6
    assert [ob.to_ints() for ob in script.shown] == script.hosts


@pytest.mark.parametrize("name", EXTENDS)
async def test_rollout_is_one_datum_where_history_extends(
    models: dict[str, str], name: str
) -> None:
    rendering = rendering_for(models, name)
    env = EpisodeEnv(environment=Counter, task=TWO, renderer=rendering)
    odd = replies(name, "é漢🙂  \t")[:1] + replies(name, "odd")[1:]
    trajectory = await run_rollout(Script(rendering, odd), env)
    tool, user = EXTENDS[name]
    expected = 1 if tool and user else 2 if tool else 6
    assert len(trajectory_to_data(trajectory, 1.0)) == expected
    assert env.rewritten == expected - 1


@pytest.mark.parametrize("name", [name for name, found in EXTENDS.items() if all(found)])
async def test_sampled_tokens_stay_as_they_are_whatever_their_text(
    models: dict[str, str], name: str
) -> None:
    rendering = rendering_for(models, name)
    env = EpisodeEnv(environment=Counter, task=TWO, renderer=rendering)
    make = call if name in JSON_FORM else xml_call
    odd = [
        "a\n\n\n  b  " + make("say", text="  é漢🙂\n\n").removesuffix(JSON_END) + "\n" + JSON_END,
        make("say", text="</think> <think>"),
        f" \n done \n{JSON_END}",
        DONE,
    ]
    script = Script(rendering, odd)
    trajectory = await run_rollout(script, env)
    assert len(trajectory_to_data(trajectory, 1.0)) == 1
    sampled = [token for t in trajectory.transitions for token in t.ac.tokens]
    assert [t for t in trajectory.transitions[-1].ob.to_ints() if t in set(sampled)]


async def test_cost_of_a_step_does_not_grow_with_the_tokens_before(models: dict[str, str]) -> None:
    rendering = rendering_for(models, "qwen3_instruct")
    env = EpisodeEnv(environment=Counter, task=TWO, renderer=rendering)
    script = Script(rendering, [call("add")] * 50 + [DONE, DONE])
    trajectory = await run_rollout(script, env)
    chunks = [len(ob.chunks) for ob in script.shown]
    added = {later - earlier for earlier, later in itertools.pairwise(chunks)}
    assert max(added) <= 8
    last, before = script.shown[-1].chunks, script.shown[-2].chunks
    assert all(a is b for a, b in zip(last, before, strict=False))
    assert len(trajectory_to_data(trajectory, 1.0)) == 1


async def test_rollouts_of_a_task_share_their_opening_prompt(models: dict[str, str]) -> None:
    rendering = rendering_for(models, "qwen3_instruct")
    envs = [EpisodeEnv(environment=Counter, task=TWO, renderer=rendering) for _ in range(2)]
    other = EpisodeEnv(environment=Counter, task=Task.of("o", "other"), renderer=rendering)
    first, second, third = [(await env.initial_observation()) for env in (*envs, other)]
    assert isinstance(first, tuple) and isinstance(second, tuple) and isinstance(third, tuple)
    assert first[0] is second[0] and third[0].to_ints() != first[0].to_ints()
    for env in (*envs, other):
        await env.ending.drop("over")
