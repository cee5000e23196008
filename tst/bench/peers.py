"""The same work for the library and for the host's own env: a policy, groups, and rollouts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from support.scripted import xml_call
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import Message, Renderer, get_renderer
from tinker_cookbook.rl.rollout_strategy import FailFast
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, TrajectoryGroup
from tinker_cookbook.tokenizer_utils import get_tokenizer
from tinker_cookbook.tool_use import tool as host_tool
from tinker_cookbook.tool_use.agent_tool_message_env import build_agent_tool_env

from tinker_episodes import (
    Bundle,
    Environment,
    EpisodeDatasetBuilder,
    Prompt,
    Task,
    loopback,
    scorer,
    tool,
)
from tinker_episodes.cookbook.rendering import rendering_of
from tinker_episodes.index import index_writer
from tinker_episodes.index.schema import default_url

RENDERER = "qwen3_5_preserve_thinking"
"""Its history extends, and the host renders it in several threads at once without fault."""


_desks = itertools.count()


class Desk(Environment):
    """Gives back a text of some length for each call, which no other desk gives."""

    def open(self, task: Task) -> None:
        self.name = f"desk {next(_desks)}"
        self.asked = 0

    @tool
    def ask(self, question: str) -> str:
        """Ask a question."""
        self.asked += 1
        return f"{self.name}, {self.asked}: {question}"

    @scorer
    def done(self) -> float:
        return 1.0


class GroupDesk(Desk):
    """Gives the same texts in all rollouts of a task, as tools that look things up mostly do."""

    def open(self, task: Task) -> None:
        super().open(task)
        self.name = f"desk of {task.id}"


_TASKS = [Task(f"t{n}", (Prompt(f"Ask {n}."),)) for n in range(4_096)]
BUNDLE = Bundle(name="desk", environment=Desk, tasks=_TASKS)
GROUP_BUNDLE = Bundle(name="group_desk", environment=GroupDesk, tasks=_TASKS)


class HostDesk:
    """The same under the host's own decorator."""

    def __init__(self) -> None:
        self.name = f"desk {next(_desks)}"
        self.asked = 0

    @host_tool
    async def ask(self, question: Annotated[str, "A question"]) -> str:
        """Ask a question."""
        self.asked += 1
        return f"{self.name}, {self.asked}: {question}"


@dataclass(frozen=True)
class HostGroup(EnvGroupBuilder):
    """A group of the host's tool env, unrecorded."""

    renderer: Renderer
    prompt: str
    size: int
    max_turns: int

    async def make_envs(self) -> Sequence[Env]:
        return [self._env() for _ in range(self.size)]

    def _env(self) -> Env:
        tools: list[Any] = [HostDesk().ask]
        prefix = self.renderer.create_conversation_prefix_with_tools(
            [each.to_spec() for each in tools], ""
        )
        messages = [*prefix, Message(role="user", content=self.prompt)]
        return build_agent_tool_env(self.renderer, tools, messages, _one, max_turns=self.max_turns)


async def _one(history: list[Message]) -> tuple[float, dict[str, float]]:
    return 1.0, {}


class Talker(TokenCompleter):
    """Says the same calls for some turns, then an end, whoever asks: no model, no waiting."""

    def __init__(self, turns: int, words: int) -> None:
        tokenizer: Any = rendering_of(loopback.model_name(), RENDERER).renderer.tokenizer
        question = " ".join(["what"] * words)
        self._call = tokenizer.encode(xml_call("ask", question=question), add_special_tokens=False)
        self._end = tokenizer.encode("done<|im_end|>", add_special_tokens=False)
        self._turns = turns
        self._counts: dict[asyncio.Task[Any], int] = {}

    async def __call__(
        self, model_input: Any, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        task = asyncio.current_task()
        assert task is not None
        count = self._counts[task] = self._counts.get(task, 0) + 1
        await asyncio.sleep(0)
        tokens = self._end if count >= self._turns else self._call
        return TokensWithLogprobs(list(tokens), [-0.5] * len(tokens), "stop")


async def episode_groups(
    folder: Path, groups: int, size: int, *, bundle: str = "peers:BUNDLE"
) -> list[EnvGroupBuilder]:
    """Groups of the library's, recorded in an index in `folder`."""
    builder = EpisodeDatasetBuilder(
        bundle=bundle,
        model_name=loopback.model_name(),
        renderer_name=RENDERER,
        groups_per_batch=groups,
        group_size=size,
        log_path=str(folder / "run"),
    )
    train, _ = await builder()
    return list(train.get_batch(0))


@contextlib.contextmanager
def filed_in(folder: Path) -> Iterator[None]:
    """End the writer of the index in `folder` before the folder goes."""
    try:
        yield
    finally:
        index_writer(default_url(folder / "run")).close()


def host_groups(groups: int, size: int, max_turns: int) -> list[EnvGroupBuilder]:
    """Groups of the host's, with a renderer as the host makes it."""
    model_name = loopback.model_name()
    renderer = get_renderer(RENDERER, get_tokenizer(model_name), model_name=model_name)
    return [HostGroup(renderer, f"Ask {n}.", size, max_turns) for n in range(groups)]


async def play(groups: Sequence[EnvGroupBuilder], policy: TokenCompleter) -> int:
    """Play groups at once, as the trainer does. Gives the number of rollouts.

    Raises:
        AssertionError: a rollout did not end with reward 1.
    """
    played: list[TrajectoryGroup] = await asyncio.gather(
        *(do_group_rollout(group, policy, strategy=FailFast()) for group in groups)
    )
    rewards = [reward for each in played for reward in each.get_total_rewards()]
    assert set(rewards) == {1.0}, sorted(set(rewards))
    return len(rewards)
