"""An environment and scripted policies for tests that play under the real cookbook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable
from typing import Any

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs

from tinker_episodes import Bundle, Environment, Eval, Prompt, Task, scorer, tool
from tinker_episodes.cookbook.rendering import Rendering

JSON_END = "<|im_end|>"


class Counter(Environment):
    """Counts. The reward is how often `add` was called, over ten."""

    tool_errors = (LookupError,)
    opened = 0
    closed = 0

    def open(self, task: Task) -> None:
        type(self).opened += 1
        self.count = 0

    @tool
    def add(self, amount: int = 1) -> str:
        """Add to the count."""
        self.count += amount
        return f"it is {self.count}"

    @tool
    def stop(self) -> str:
        """End the episode."""
        self.end()
        return "bye"

    @tool
    def say(self, text: str) -> str:
        """Say a text back."""
        return text

    @tool
    def missing(self) -> str:
        """Look for what is not there."""
        raise LookupError("not here")

    @tool
    def crash(self) -> str:
        """Break."""
        raise RuntimeError("a bug")

    @scorer
    def counted(self) -> float:
        return self.count / 10

    def close(self) -> None:
        type(self).closed += 1


class Script(TokenCompleter):
    """A policy that says the given texts, one a turn, and keeps what it was shown.

    A text may be a pair of text and stop reason, an exception to raise, or an awaitable to wait for
    before the next text.
    """

    def __init__(self, rendering: Rendering, said: Iterable[Any]) -> None:
        self._tokenizer = rendering.renderer.tokenizer
        self._said = iter(said)
        self.shown: list[Any] = []
        self.budgets: list[int | None] = []

    async def __call__(
        self, model_input: Any, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        self.shown.append(model_input)
        self.budgets.append(max_tokens)
        item = next(self._said)
        while isinstance(item, Awaitable):
            await item
            item = next(self._said)
        if isinstance(item, Exception):
            raise item
        text, reason = item if isinstance(item, tuple) else (item, "stop")
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        return TokensWithLogprobs(tokens, [-0.5] * len(tokens), reason)


class ByTask(TokenCompleter):
    """A policy that gives each asyncio task a script of its own, in the order in which they ask."""

    def __init__(self, rendering: Rendering, scripts: Iterable[Iterable[Any]]) -> None:
        self._rendering = rendering
        self._scripts = iter(scripts)
        self._of: dict[asyncio.Task[Any], Script] = {}

    async def __call__(
        self, model_input: Any, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        task = asyncio.current_task()
        assert task is not None
        if task not in self._of:
            self._of[task] = Script(self._rendering, next(self._scripts))
        return await self._of[task](model_input, stop, max_tokens=max_tokens)


def call(name: str, **arguments: Any) -> str:
    """A reply with one call, in the JSON form of Qwen3."""
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>{JSON_END}"


def xml_call(name: str, **arguments: str) -> str:
    """A reply with one call, in the XML form of Qwen3.5."""
    inner = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>{JSON_END}"


DONE = f"done{JSON_END}"


class Broken(Counter):
    """Counts, and can't be scored once it counted."""

    @scorer
    def counted(self) -> float:
        return float("nan") if self.count else 0.0


COUNTING = Bundle(
    name="counting",
    environment=Counter,
    tasks=[Task(f"t{n}", (Prompt(f"Count to {n}."),), tags=("odd",) * (n % 2)) for n in range(10)],
    evals={"few": Eval(("t8", "t9"), held_out=True), "odd": Eval(("t1", "t3"))},
)
BREAKING = Bundle(name="breaking", environment=Broken, tasks=[Task.of("t0", "Count.")])
RETOOLED = Bundle(
    name="retooled",
    environment=Counter,
    tasks=[
        Task(
            "t0",
            (Prompt("Add.", tools=("add",)), Prompt("Say.", tools=("say", "stop")), Prompt("Go.")),
        )
    ],
)
"""Each prompt has other tools."""
LONGER = Bundle(
    name="longer", environment=Counter, tasks=[Task("t", (Prompt("first"), Prompt("second")))]
)
