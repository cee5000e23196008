"""Samplers: what a sampling session samples from, and the models that are in memory for them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from tinker_episodes.loopback.model import Transformer
from tinker_episodes.loopback.trainer import State, load_weights

_MODELS_IN_MEMORY = 4
_PROMPTS_COUNTED = 65_536

BASE = "base"
"""The key of the untrained model."""


@dataclass(slots=True)
class Weights:
    """Which weights a sampler uses. Samplers of kind `inflight` share one that moves."""

    key: str
    load: Callable[[], State]


@dataclass(frozen=True, slots=True)
class Sampler:
    """A sampling session of the API."""

    id: str
    session_id: str
    number: int
    """Its place in the session, which seeds its samples."""
    model_path: str | None
    weights: Weights
    asked: OrderedDict[int, int] = field(default_factory=OrderedDict[int, int])
    """How often each prompt was sampled without a seed, by its hash; the last ones alone."""

    def noise(self, prompt: Sequence[int]) -> list[int]:
        """What seeds the next samples of a prompt that come without a seed.

        It is the prompt and its count, not the request's number: rollouts that run at once ask in
        an order that no seed decides, and still a group gets the same samples in every run.
        """
        digest = blake2b(np.asarray(prompt, dtype=np.int32).tobytes(), digest_size=8).digest()
        key = int.from_bytes(digest)
        count = self.asked.pop(key, 0)
        self.asked[key] = count + 1
        while len(self.asked) > _PROMPTS_COUNTED:
            self.asked.popitem(last=False)
        return [self.number, key, count]


class ModelCache:
    """The models that were sampled from last. Used on the worker's thread."""

    def __init__(self, base: Transformer) -> None:
        self._base = base.requires_grad_(False)
        self._models: OrderedDict[str, Transformer] = OrderedDict()

    def put(self, key: str, model: Transformer) -> None:
        """Keep a model that is about to be sampled from."""
        self._models[key] = model
        self._models.move_to_end(key)
        while len(self._models) > _MODELS_IN_MEMORY:
            self._models.popitem(last=False)

    def get(self, weights: Weights) -> Transformer:
        """The model with these weights."""
        if weights.key == BASE:
            return self._base
        if weights.key not in self._models:
            model = Transformer(self._base.shape).requires_grad_(False)
            load_weights(model, weights.load())
            self.put(weights.key, model)
        self._models.move_to_end(weights.key)
        return self._models[weights.key]

    def drop(self, key: str) -> None:
        """Forget a model."""
        self._models.pop(key, None)

    def clear(self) -> None:
        """Forget all models."""
        self._models.clear()
