"""A rollout's steps beside the host's own `EnvFromMessageEnv`, on the same conversation.

The policy is scripted, so that what is measured is what a step costs beside sampling: reading the
reply, running its tool, and the next observation. What else runs on the machine spoils the times;
ratios are of runs that take turns.
"""

from __future__ import annotations

import asyncio
import itertools
import operator
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from table import Row

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what third parties warn of when they are imported
    from support.calls import CallWriter
    from support.qwen import qwen3_5_folder
    from tinker_cookbook import renderers
    from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import trajectory_to_data
    from tinker_cookbook.rl.message_env import EnvFromMessageEnv
    from tinker_cookbook.rl.rollout_runner import run_rollout
    from tinker_cookbook.tokenizer_utils import get_tokenizer

from tinker_episodes import Environment, EpisodeEnv, Task, scorer, tool
from tinker_episodes.cookbook.message_env import EpisodeMessageEnv
from tinker_episodes.cookbook.rendering import Rendering, rendering_of
from tinker_episodes.episode import Episode

EXTENDS, REWRITES = "qwen3_5_preserve_thinking", "qwen3_5"
WORDS = "the quick brown fox jumps over the lazy dog and runs far away from there "
TASK = Task.of("bench", "Say a lot.")


_said = itertools.count()


class Sayer(Environment):
    """Says what it is told, each time a little different: no result is known already."""

    @tool
    def say(self, text: str) -> str:
        """Say a text back."""
        return f"{next(_said)}: {text}"

    @scorer
    def over(self) -> float:
        return 1.0


class Policy(TokenCompleter):
    """Calls `say` with about 75 tokens in each turn but the last, and notes when it is asked."""

    def __init__(self, call: list[int], end: list[int], turns: int) -> None:
        self._call, self._end = call, end
        self._turns = turns
        self.asked: list[float] = []
        self.tokens = 0

    async def __call__(
        self, model_input: Any, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        self.asked.append(time.perf_counter())
        self.tokens = model_input.length
        tokens = self._call if len(self.asked) < self._turns else self._end
        return TokensWithLogprobs(list(tokens), [-0.5] * len(tokens))


def policy_for(rendering: Rendering, turns: int) -> Policy:
    """A policy that writes as the renderer's models do."""
    writer = CallWriter(rendering.renderer)
    call = writer.call(writer.json_value(WORDS * 5), name="say", argument="text")
    return Policy(call, [*writer.plain("done"), writer.stop], turns)


def rollout(rendering: Rendering, turns: int, *, host: bool) -> tuple[list[float], int]:
    """The seconds of each step, and the tokens of the last observation."""
    if host:
        conversation = EpisodeMessageEnv(Episode(Sayer, TASK), rendering.renderer)
        env: Any = EnvFromMessageEnv(rendering.renderer, conversation)
    else:
        env = EpisodeEnv(environment=Sayer, task=TASK, renderer=rendering)
    policy = policy_for(rendering, turns)

    async def timed() -> list[float]:
        started = time.perf_counter()
        await run_rollout(policy, env)
        assert len(policy.asked) == turns
        return [started, *policy.asked, time.perf_counter()]

    return list(map(operator.sub, (asked := asyncio.run(timed()))[1:], asked)), policy.tokens


def training_tokens(rendering: Rendering, turns: int) -> tuple[int, int]:
    """How many training data a rollout makes in the host's hands, and the tokens in them."""
    env = EpisodeEnv(environment=Sayer, task=TASK, renderer=rendering)
    trajectory = asyncio.run(run_rollout(policy_for(rendering, turns), env))
    data = trajectory_to_data(trajectory, 1.0)
    return len(data), sum(datum.model_input.length for datum in data)


def training_row(extends: Rendering, rewrites: Rendering) -> Row:
    """What the trainer has to compute of a rollout of 200 turns."""
    count, tokens = training_tokens(extends, 200)
    many, more = training_tokens(rewrites, 200)
    return Row(
        "training tokens of a rollout",
        f"{REWRITES}, which rewrites history",
        "200 turns",
        f"{count} datum, {tokens:,} tokens; {many} with {more:,}: {more / tokens:.0f} times fewer",
        "1 datum; >= 50 times fewer",
        count == 1 and more >= 50 * tokens,
        {"data": count, "tokens": tokens, "rewritten_data": many, "rewritten_tokens": more},
    )


def growth(steps: list[float]) -> float:
    """The last tenth of the steps over the first, without the opening and the scoring."""
    tenth = len(steps) // 10
    middle = steps[1:-1]
    return sum(middle[-tenth:]) / sum(middle[:tenth])


def best(rendering: Rendering, turns: int, repeats: int, *, host: bool) -> tuple[list[float], int]:
    """The shortest time of each step, of some rollouts."""
    runs = [rollout(rendering, turns, host=host) for _ in range(repeats)]
    return [min(step) for step in zip(*(steps for steps, _ in runs), strict=True)], runs[0][1]


def rows() -> Iterator[Row]:
    """A rollout of 200 turns and one of 10, and how its steps grow."""
    with tempfile.TemporaryDirectory() as folder:
        model = qwen3_5_folder(Path(folder))
        extends, rewrites = rendering_of(model, EXTENDS), rendering_of(model, REWRITES)
        plain = Rendering(renderers.get_renderer(EXTENDS, get_tokenizer(model), model_name=model))
        rollout(extends, 3, host=False)
        rollout(plain, 3, host=True)
        ours, tokens = best(extends, 200, 9, host=False)
        hosts, _ = best(plain, 200, 2, host=True)
        pieces, _ = best(rewrites, 200, 2, host=False)
        short, short_tokens = best(extends, 10, 30, host=False)
        hosts_short, _ = best(plain, 10, 30, host=True)
        trained = training_row(extends, rewrites)
    grown, long = growth(ours), f"200 turns, {tokens:,} tokens"
    figure, values = f"{grown:.2f}", {"last_over_first": grown}
    yield Row("steps grow", "their first tenth", long, figure, "<= 1.5", grown <= 1.5, values)
    yield beside("rollout", long, ours, hosts, 50)
    yield beside("rollout", f"10 turns, {short_tokens:,} tokens", short, hosts_short, 1)
    yield trained
    yield beside(f"rollout that {REWRITES} rewrites", long, pieces, hosts, None)


def beside(work: str, sizes: str, ours: list[float], hosts: list[float], goal: float | None) -> Row:
    """The sums of the shortest times of each step, beside the host's."""
    values = {"seconds": sum(ours), "host_seconds": sum(hosts)}
    ratio = sum(hosts) / sum(ours)
    figure = f"{ratio:.1f} times as fast: {sum(ours):.3f} s beside {sum(hosts):.3f} s"
    told, met = ("", None) if goal is None else (f">= {goal} times", ratio >= goal)
    return Row(work, "EnvFromMessageEnv", sizes, figure, told, met, values)
