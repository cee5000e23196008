"""The model: a small decoder-only transformer with tied embeddings, and its key-value cache.

Sequences in a batch are padded on the right. Attention is causal, so what is real never sees the
padding, and no mask is made for a whole prompt.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tinker_episodes.loopback.config import CONTEXT_LENGTH

_CACHE_GROWTH = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model."""

    vocabulary: int
    width: int
    layers: int
    heads: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def floats_a_token(self) -> int:
        """Numbers that the cache holds of each token."""
        return 2 * self.layers * self.width


@dataclass(slots=True)
class Cache:
    """Keys and values of a batch's sequences; those of row `i` end at `lengths[i]`."""

    data: Tensor
    """[layers, 2, batch, heads, capacity, head width]"""
    lengths: Tensor
    """[batch]"""

    def rows(self, index: Tensor) -> "Cache":
        """The chosen sequences, in that order; one may be chosen more than once."""
        return Cache(self.data.index_select(2, index), self.lengths.index_select(0, index))

    def reserve(self, capacity: int) -> None:
        """Make room for sequences of `capacity` tokens."""
        room = self.data.shape[4]
        if capacity > room:
            extra = max(capacity - room, _CACHE_GROWTH, room // 4)
            self.data = F.pad(self.data, (0, 0, 0, extra))

    def join(self, other: "Cache") -> "Cache":
        """One cache with the rows of both."""
        capacity = max(self.data.shape[4], other.data.shape[4])
        self.reserve(capacity)
        other.reserve(self.data.shape[4])
        self.reserve(other.data.shape[4])
        data = torch.cat([self.data, other.data], dim=2)
        return Cache(data, torch.cat([self.lengths, other.lengths]))


class Block(nn.Module):
    """One layer: attention, then a feed-forward network, each added to the residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.attention_norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.feed_norm = nn.RMSNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def project(self, x: Tensor, angles: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [batch, heads, length, head width], the first two rotated."""
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x))
        parts = qkv.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        return _rotate(query, angles), _rotate(key, angles), value

    def add(self, x: Tensor, attended: Tensor) -> Tensor:
        """The residual stream after this layer."""
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.up(self.feed_norm(x))))


class Transformer(nn.Module):
    """Token ids in, hidden states out; `logits` turns the ones that matter into scores."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self._initialise(torch.Generator().manual_seed(seed))

    def forward(self, ids: Tensor) -> Tensor:
        """Hidden states [batch, length, width] of right-padded sequences."""
        hidden, _ = self._run(ids, keep=False)
        return hidden

    def prefill(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Cache]:
        """As `forward`, with the cache that `extend` continues."""
        hidden, kept = self._run(ids, keep=True)
        return hidden, Cache(torch.stack(kept), lengths)

    def extend(self, ids: Tensor, cache: Cache) -> Tensor:
        """Hidden states of tokens [batch, n] that follow the cached ones, which they join."""
        batch, added = ids.shape
        positions = cache.lengths[:, None] + torch.arange(added)
        reach = int(positions.max()) + 1
        cache.reserve(reach)
        mask = torch.arange(reach) <= positions[:, :, None]
        rows = torch.arange(batch)[:, None]
        angles = _angles(self.shape.head_width)[:, positions][:, :, None]
        x = self.embedding(ids)
        for layer, block in enumerate(self._layers()):
            query, key, value = block.project(x, angles)
            keys, values = cache.data[layer]
            keys[rows, :, positions] = key.transpose(1, 2)
            values[rows, :, positions] = value.transpose(1, 2)
            attended = F.scaled_dot_product_attention(
                query, keys[:, :, :reach], values[:, :, :reach], attn_mask=mask[:, None]
            )
            x = block.add(x, attended)
        cache.lengths = cache.lengths + added
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores [..., vocabulary] for the next token."""
        return hidden @ self.embedding.weight.T

    def _run(self, ids: Tensor, *, keep: bool) -> tuple[Tensor, list[Tensor]]:
        angles = _angles(self.shape.head_width)[:, None, None, : ids.shape[1]]
        x = self.embedding(ids)
        kept: list[Tensor] = []
        for block in self._layers():
            query, key, value = block.project(x, angles)
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = block.add(x, attended)
            if keep:
                kept.append(torch.stack([key, value]))
        return self.norm(x), kept

    def _layers(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def _initialise(self, generator: torch.Generator) -> None:
        for name, weight in self.named_parameters():
            if name == "embedding.weight":
                nn.init.normal_(weight, std=0.1, generator=generator)
            elif weight.dim() == 2:
                nn.init.normal_(weight, std=0.5 / math.sqrt(weight.shape[1]), generator=generator)


def _rotate(x: Tensor, angles: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


@lru_cache(maxsize=8)
@torch.inference_mode(False)  # the table serves training too, whoever asks for it first
def _angles(head_width: int) -> Tensor:
    """Cosines and sines [2, position, head width / 2] of the rotary embedding."""
    half = head_width // 2
    frequencies = 10_000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = torch.arange(CONTEXT_LENGTH, dtype=torch.float32)[:, None] * frequencies
    return torch.stack([angles.cos(), angles.sin()])
