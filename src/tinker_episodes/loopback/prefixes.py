"""What was read is not read again: the caches of long samples, for prompts that continue them.

A rollout's next prompt is its last one, the sample, and something new. Reading 10,000 tokens takes
a hundred times as long as adding fifty to them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch

from tinker_episodes.loopback.model import Cache, Transformer

SHORTEST = 512
"""Fewer tokens are read faster in a batch with other prompts than continued one by one."""
LONGEST_ADDITION = 1_024
"""More new tokens than this are read as a whole, with no mask of all against all."""

_FLOATS = 2**27
"""Numbers that are kept of one model: half a gigabyte."""


class Prefixes:
    """The caches of the last long samples, by their tokens; a model's go with the model."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Transformer, OrderedDict[bytes, Cache]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return sum(len(of_model) for of_model in self._kept.values())

    def clear(self) -> None:
        """Forget them all."""
        self._kept.clear()

    def keep(self, model: Transformer, tokens: Sequence[int], cache: Cache, row: int) -> None:
        """Keep one row of a batch's cache, which holds these tokens."""
        length = len(tokens)
        if length < SHORTEST:
            return
        of_model = self._kept.setdefault(model, OrderedDict())
        data = cache.data[:, :, row : row + 1, :, :length].clone()
        of_model[_key(tokens)] = Cache(data, torch.tensor([length]))
        while sum(kept.data.numel() for kept in of_model.values()) > _FLOATS:
            of_model.popitem(last=False)

    def longest(self, model: Transformer, prompt: Sequence[int]) -> Cache | None:
        """A cache of the longest kept beginning of a prompt, to be extended; it is the caller's."""
        of_model = self._kept.get(model)
        if of_model is None or len(prompt) <= SHORTEST:
            return None
        whole = _key(prompt)
        begins = [key for key in of_model if len(key) < len(whole) and whole.startswith(key)]
        if not begins:
            return None
        key = max(begins, key=len)
        of_model.move_to_end(key)
        kept = of_model[key]
        if len(prompt) - int(kept.lengths) > LONGEST_ADDITION:
            return None
        return Cache(kept.data.clone(), kept.lengths.clone())


def _key(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, dtype=np.int32).tobytes()
