"""Reading prompts: each distinct prompt once, those of similar length together, and of a prompt
that continues an earlier sample only what is new."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tinker_episodes.loopback.model import Cache, Transformer
from tinker_episodes.loopback.prefixes import Prefixes

_BATCH_TOKENS = 8_192
_PADDING_RATIO = 1.25

Prompt = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Prompts that the model has read together."""

    prompts: Sequence[Prompt]
    last: Tensor
    """The hidden state after each prompt's last token [prompts, width]."""
    cache: Cache
    hidden: Tensor | None = None
    """All hidden states [prompts, length, width], where all were computed."""


def read_prompts(
    model: Transformer,
    prompts: Collection[Prompt],
    prefixes: Prefixes,
    *,
    whole: Collection[Prompt],
) -> Iterator[Read]:
    """Read distinct prompts; those in `whole` with all their hidden states."""
    fresh: list[Prompt] = []
    for prompt in prompts:
        begun = None if prompt in whole else prefixes.longest(model, prompt)
        if begun is None:
            fresh.append(prompt)
        else:
            added = torch.tensor([prompt[int(begun.lengths) :]])
            yield Read([prompt], model.extend(added, begun)[:, -1], begun)
    for group in _groups(sorted(fresh, key=lambda prompt: (len(prompt), prompt))):
        yield _read(model, group)


def _read(model: Transformer, group: Sequence[Prompt]) -> Read:
    lengths = torch.tensor([len(prompt) for prompt in group])
    ids = torch.zeros(len(group), len(group[-1]), dtype=torch.int64)
    for row, prompt in enumerate(group):
        ids[row, : len(prompt)] = torch.tensor(prompt)
    hidden, cache = model.prefill(ids, lengths)
    return Read(group, hidden[torch.arange(len(group)), lengths - 1], cache, hidden)


def _groups(prompts: Sequence[Prompt]) -> Iterator[list[Prompt]]:
    """Prompts in order of length, cut where a batch grows too large or its padding too long."""
    group: list[Prompt] = []
    for prompt in prompts:
        if group and (
            len(prompt) * (len(group) + 1) > _BATCH_TOKENS
            or len(prompt) > _PADDING_RATIO * len(group[0]) + 16
        ):
            yield group
            group = []
        group.append(prompt)
    if group:
        yield group
