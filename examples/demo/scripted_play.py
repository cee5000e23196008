"""Scripted play of number_search: what the model imitates before reinforcement learning begins."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Sequence

import tinker
import torch
from tinker_cookbook.completers import StopCondition, TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_runner import run_rollout

from tinker_episodes import Bundle, EpisodeEnv, Task
from tinker_episodes.cookbook.rendering import Rendering

_WINDOW = re.compile(r"The number is from (\d+) to (\d+)")
_ANSWER = re.compile(r'"number": (\d+)}}\n</tool_call>.*?<tool_response>\n(too \w+)', re.DOTALL)


class Guesser(TokenCompleter):
    """Plays one episode: in the middle of what is possible, or anywhere in the window."""

    def __init__(self, rendering: Rendering, rng: random.Random, *, good: bool) -> None:
        self._tokenizer = rendering.renderer.tokenizer
        self._rng = rng
        self._good = good

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
        assert window is not None
        low, high = int(window.group(1)), int(window.group(2))
        if not self._good:
            return self._rng.randint(low, high)
        for number, answer in _ANSWER.findall(conversation):
            if answer == "too low":
                low = max(low, int(number) + 1)
            else:
                high = min(high, int(number) - 1)
        return (low + high) // 2


async def example_texts(bundle: Bundle, rendering: Rendering) -> list[str]:
    """Scripted play as text: what a tokenizer learns from."""
    data = await scripted_data(
        bundle, bundle.split("all"), rendering, episodes=200, good=0.5, rng=random.Random(0)
    )
    tokenizer = rendering.renderer.tokenizer
    return [tokenizer.decode(datum.model_input.to_ints()) for datum in data]


async def scripted_data(
    bundle: Bundle,
    tasks: Sequence[Task],
    rendering: Rendering,
    *,
    episodes: int,
    good: float,
    rng: random.Random,
) -> list[tinker.Datum]:
    """Datums of scripted episodes, for the loss `cross_entropy`.

    Args:
        good: The share of episodes that are played well; the others guess anywhere.
    """
    data: list[tinker.Datum] = []
    for _ in range(episodes):
        env = EpisodeEnv(
            environment=bundle.environment,
            task=rng.choice(tasks),
            renderer=rendering,
            data=bundle.universe,
        )
        policy = Guesser(rendering, rng, good=rng.random() < good)
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
