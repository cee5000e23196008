"""Scripted play of number_search: what the model imitates before reinforcement learning begins.

A player has one habit for a whole episode, and slips now and then. None plays as well as the model
is to play in the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tinker
import torch
from tinker_cookbook.completers import StopCondition, TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_runner import run_rollout

from tinker_episodes import Bundle, EpisodeEnv, Task
from tinker_episodes.cookbook.rendering import Rendering

_WINDOW = re.compile(r"The number is from (\d+) to (\d+)")
_ANSWER = re.compile(r'"number": (\d+)}}\n</tool_call>.*?<tool_response>\n(too \w+)', re.DOTALL)

Habit = Callable[[int, int], int]
"""The next guess, from the lowest and the highest number that are still possible."""


def halve(low: int, high: int) -> int:
    """Search by halves."""
    return (low + high) // 2


def count_up(low: int, high: int) -> int:
    """Try one number after the other from below."""
    return low


def count_down(low: int, high: int) -> int:
    """Try one number after the other from above."""
    return high


@dataclass(frozen=True, slots=True)
class Players:
    """Who plays the scripted episodes."""

    halving: float
    """The share of episodes that are played by `halve`; the others count up or down."""
    slips: float
    """The share of guesses that go anywhere in the window, whatever the habit."""

    def draw(self, rng: random.Random) -> Habit:
        """The habit of one episode."""
        if rng.random() < self.halving:
            return halve
        return rng.choice((count_up, count_down))


class Guesser(TokenCompleter):
    """Plays one episode."""

    def __init__(
        self, rendering: Rendering, rng: random.Random, habit: Habit, *, slips: float
    ) -> None:
        self._tokenizer = rendering.renderer.tokenizer
        self._rng = rng
        self._habit = habit
        self._slips = slips

    async def __call__(
        self,
        model_input: tinker.ModelInput,
        stop: StopCondition,
        *,
        max_tokens: int | None = None,
    ) -> TokensWithLogprobs:
        number = self._guess(self._tokenizer.decode(model_input.to_ints()))
        body = json.dumps({"name": "guess", "arguments": {"number": number}})
        said = f"<tool_call>\n{body}\n</tool_call><|im_end|>"
        tokens = self._tokenizer.encode(said, add_special_tokens=False)
        return TokensWithLogprobs(tokens, [0.0] * len(tokens))

    def _guess(self, conversation: str) -> int:
        window = _WINDOW.search(conversation)
        assert window is not None, "every task of the bundle names its window"
        low, high = int(window.group(1)), int(window.group(2))
        if self._rng.random() < self._slips:
            return self._rng.randint(low, high)
        for number, answer in _ANSWER.findall(conversation):
            if answer == "too low":
                low = max(low, int(number) + 1)
            else:
                high = min(high, int(number) - 1)
        return self._habit(low, high)


async def example_texts(bundle: Bundle, rendering: Rendering) -> list[str]:
    """Scripted play as text: what a tokenizer learns from."""
    data = await scripted_data(
        bundle, rendering, Players(halving=0.5, slips=0.5), episodes=200, rng=random.Random(0)
    )
    tokenizer = rendering.renderer.tokenizer
    return [tokenizer.decode(datum.model_input.to_ints()) for datum in data]


async def scripted_data(
    bundle: Bundle, rendering: Rendering, players: Players, *, episodes: int, rng: random.Random
) -> list[tinker.Datum]:
    """Datums of scripted episodes of the training tasks, for the loss `cross_entropy`."""
    data: list[tinker.Datum] = []
    tasks: Sequence[Task] = bundle.split("all")
    for _ in range(episodes):
        env = EpisodeEnv(
            environment=bundle.environment,
            task=rng.choice(tasks),
            renderer=rendering,
            data=bundle.universe,
        )
        policy = Guesser(rendering, rng, players.draw(rng), slips=players.slips)
        for datum in trajectory_to_data(await run_rollout(policy, env), 1.0):
            data.append(_imitated(datum))
        await asyncio.sleep(0)
    return data


def _imitated(datum: tinker.Datum) -> tinker.Datum:
    """The datum with weight 1 on what was said and 0 on what was shown."""
    weights = datum.loss_fn_inputs["mask"].to_torch().to(torch.float32)
    return tinker.Datum(
        model_input=datum.model_input,
        loss_fn_inputs={
            "target_tokens": datum.loss_fn_inputs["target_tokens"],
            "weights": tinker.TensorData.from_torch(weights),
        },
    )
