"""The chunks of observations."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

import tinker

Chunks = list[tinker.ModelInputChunk]


def flat(chunks: Sequence[tinker.ModelInputChunk]) -> list[object]:
    """Tokens, and chunks that are no text, such as an image: how the host compares observations."""
    found: list[object] = []
    for chunk in chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            found.extend(chunk.tokens)
        else:
            found.append(chunk)
    return found


def joined(tokens: Sequence[int], chunks: Sequence[tinker.ModelInputChunk]) -> Chunks:
    """Tokens and the chunks after them, with neighbouring texts as one."""
    found: Chunks = []
    tokens = list(tokens)
    for chunk in chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            tokens.extend(chunk.tokens)
            continue
        found += [tinker.EncodedTextChunk(tokens=tokens)] if tokens else []
        found.append(chunk)
        tokens = []
    return [*found, tinker.EncodedTextChunk(tokens=tokens)] if tokens else found


def what_is_new(
    last: Sequence[tinker.ModelInputChunk],
    sampled: Sequence[int],
    now: Sequence[tinker.ModelInputChunk],
) -> list[object] | None:
    """What an observation has beyond the last one and the sampled tokens; None where it doesn't
    begin with them.

    Observations that share chunks are told by these, whatever their length.
    """
    shared = len(now) >= len(last) and all(map(is_, last, now))
    past: list[object] = list(sampled) if shared else [*flat(last), *sampled]
    whole = flat(now[len(last) :] if shared else now)
    return whole[len(past) :] if whole[: len(past)] == past else None
