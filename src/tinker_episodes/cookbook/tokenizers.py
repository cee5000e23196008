"""A tokenizer of our own: a private copy with a short way to the tokens of a text.

A renderer writes the same few texts around every message (headers, ends, the opening of a reply),
and the rollouts of a group see the same results: tokens of texts are remembered. What is new goes
straight to the tokenizer's backend, past what `transformers` does for batches.
"""

from __future__ import annotations

import copy
from array import array
from collections import OrderedDict
from typing import Any, TypeGuard, cast

_LONGEST = 16_000
"""Characters of the longest text that is remembered."""
_KEPT = 4_000_000
"""Characters of all texts that are remembered, with `_ENTRY` more for each."""
_ENTRY = 100
_OPTIONS = frozenset({"add_special_tokens", "split_special_tokens"})
_PROBES = (
    "",
    " a  b\n\n1234 ",
    "\u00e9\u6f22\U0001f600\u0301\u200d",
    "<|im_start|>user\n<think>",
    "</s>[INST] do n't , you ' re .",
)


def own_tokenizer(tokenizer: Any) -> Any:
    """A copy of a tokenizer; itself where it can't be copied, as Inkling's, which has no settings
    that a call changes.
    """
    try:
        own: Any = copy.deepcopy(tokenizer)
    except TypeError:
        return tokenizer
    if _is_its_backend(own):
        made = cast(Any, type(own))
        own.__class__ = type(made.__name__, (_Own, made), {})
        vars(own)["_memory"] = _Memory()
    return own


def _is_its_backend(tokenizer: Any) -> bool:
    """Whether the backend alone gives the tokenizer's own tokens and texts, as tried."""
    try:
        usual = bool(tokenizer.split_special_tokens)
        return all(
            (tokens := _by_backend(tokenizer, text, added, split))
            == tokenizer.encode(text, add_special_tokens=added, split_special_tokens=split)
            and _decoded(tokenizer, tokens) == tokenizer.decode(tokens)
            for text in _PROBES
            for added in (True, False)
            for split in (not usual, usual)
        )
    except (AttributeError, TypeError):  # of another make, which has no such backend or options
        return False


def _by_backend(tokenizer: Any, text: str, added: bool, split: bool) -> list[int]:
    backend = tokenizer.backend_tokenizer
    if backend.encode_special_tokens != split:
        backend.encode_special_tokens = split
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.padding is not None:
        backend.no_padding()
    return backend.encode_batch_fast([text], add_special_tokens=added)[0].ids


def _decoded(tokenizer: Any, tokens: list[int]) -> str:
    return tokenizer.backend_tokenizer.decode(tokens, skip_special_tokens=False)


class _Memory:
    """The tokens of the texts that were asked for last. Its user holds a lock."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[tuple[str, bool, bool], array[int]] = OrderedDict()
        self.size = 0

    def get(self, key: tuple[str, bool, bool]) -> list[int] | None:
        known = self._tokens.get(key)
        if known is None:
            return None
        self._tokens.move_to_end(key)
        return known.tolist()

    def put(self, key: tuple[str, bool, bool], tokens: list[int]) -> None:
        self._tokens[key] = array("I", tokens)
        self.size += len(key[0]) + _ENTRY
        while self.size > _KEPT:
            (text, *_), _ = self._tokens.popitem(last=False)
            self.size -= len(text) + _ENTRY


class _Own:
    """What is mixed into the tokenizer's class. Both do as `transformers` does."""

    _memory: _Memory

    def encode(self, text: Any, *args: Any, **options: Any) -> list[int]:
        own: Any = self
        if args or not isinstance(text, str) or not options.keys() <= _OPTIONS:
            plain: Any = super()
            return plain.encode(text, *args, **options)
        split = bool(options.get("split_special_tokens", own.split_special_tokens))
        added = bool(options.get("add_special_tokens", True))
        if len(text) > _LONGEST:
            return _by_backend(own, text, added, split)
        known = self._memory.get((text, added, split))
        if known is None:
            known = _by_backend(own, text, added, split)
            self._memory.put((text, added, split), known)
        return known

    def decode(self, token_ids: Any, *args: Any, **options: Any) -> Any:
        if args or options or not _are_tokens(token_ids):
            plain: Any = super()
            return plain.decode(token_ids, *args, **options)
        return _decoded(self, token_ids)


def _are_tokens(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and {*map(type, cast(list[Any], value))} == {int}
