"""The Tinker service as `rl.train.main` uses it, answering by a script, at once or after a while:
what a trainer's loop over it works is its own work alone.
"""

from __future__ import annotations

import asyncio
import random
import types as python_types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tinker
import torch


@dataclass(frozen=True, slots=True)
class Ready:
    """A promise that is kept."""

    result: Any

    async def result_async(self) -> Any:
        return self.result


class Sampler:
    """Each asyncio task is given the replies in turn, from the first."""

    def __init__(self, replies: Sequence[Sequence[int]], reply_s: float) -> None:
        self._replies = replies
        self._reply_s = reply_s
        self._random = random.Random(0)
        self._turns: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()

    async def sample_async(self, **_: Any) -> tinker.SampleResponse:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        turn = self._turns.get(task, 0)
        self._turns[task] = turn + 1
        await asyncio.sleep(self._reply_s * self._random.uniform(0.5, 1.5))
        tokens = np.array(self._replies[turn], dtype=np.int32)
        logprobs = np.full(len(tokens), -0.5, dtype=np.float32)
        sequence = tinker.SampledSequence("stop", "", tokens, logprobs)
        return tinker.SampleResponse(sequences=[sequence])


class Trainer:
    """A training client that learns nothing, at once."""

    def __init__(self, replies: Sequence[Sequence[int]], reply_s: float) -> None:
        self._replies = replies
        self._reply_s = reply_s

    async def forward_backward_async(self, data: Sequence[tinker.Datum], **_: Any) -> Ready:
        outputs = [
            {
                "logprobs": tinker.TensorData.from_torch(
                    torch.full((datum.model_input.length,), -0.5)
                )
            }
            for datum in data
        ]
        return Ready(tinker.ForwardBackwardOutput("ArrayRecord", outputs))

    async def optim_step_async(self, _: tinker.AdamParams) -> Ready:
        return Ready(tinker.OptimStepResponse())

    async def save_weights_and_get_sampling_client_async(self) -> Sampler:
        return Sampler(self._replies, self._reply_s)

    async def save_state_async(self, name: str, **_: Any) -> Ready:
        return Ready(python_types.SimpleNamespace(path=f"tinker://scripted/{name}"))

    save_weights_for_sampler_async = save_state_async


@dataclass(frozen=True, slots=True)
class Service:
    """What makes the clients."""

    replies: Sequence[Sequence[int]]
    """Tokens of a rollout's replies, one a turn."""
    reply_s: float
    """Seconds that a reply takes, on average: from half of it to half as much again."""

    async def create_lora_training_client_async(self, *_: Any, **__: Any) -> Trainer:
        return Trainer(self.replies, self.reply_s)
