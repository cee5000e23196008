"""What is searched: the words of a transcript, and facts of its rollout as words of their own kind.

A word is a run of letters and digits, without case. Facts (its run, task, tags, tools, ending and
reward) stand beside the words under a mark that no text can hold, so that one look into the
inverted index answers text and filters together.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

Called = tuple[str, bool]
"""The name of a tool that was called, and whether it answered without an error."""

_WORD = re.compile(r"[^\W_]+")
_MARK = "\ue000"
_TEXT = 1_000_000
"""Characters of a rollout that are searched, from its beginning."""
_SLICE = 65_536
"""Characters that are split at once: the interpreter's lock is held that long."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text in a transcript."""

    entry: int
    """Which entry of the transcript it is in, from 0."""
    kind: str
    """`prompt`, `message`, `thinking`, `call`, `result` or `note`."""
    text: str


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=10_000)
def fact(kind: str, value: str | int) -> str:
    """A fact of a rollout as a word that no text can hold."""
    digest = hashlib.blake2b(f"{kind}\0{value}".encode("utf-8", "backslashreplace"), digest_size=6)
    return f"{_MARK}{digest.hexdigest()}"


def reward_facts(low: float, high: float) -> list[str]:
    """The facts of which a reward from `low` to `high` has one: rewards by twentieths, those below
    -2 and above 3 together.
    """
    return [fact("reward", at) for at in range(_twentieth(low), _twentieth(high) + 1)]


def _twentieth(reward: float) -> int:
    return math.floor(min(max(reward, -2.0), 3.0) * 20)


def searched(transcript: Mapping[str, Any], facts: Iterable[str]) -> str:
    """What the inverted index takes of a rollout: its facts and words, without case.

    What separates them is ASCII: a database that takes runs of ASCII letters, digits, and whatever
    is not ASCII for words finds just these words in it.
    """
    text = "\n".join([text for _, _, text in _texts(transcript)])[:_TEXT]
    return " ".join([*facts, _separated(text)])


def _separated(text: str) -> str:
    if text.isascii():
        return text.lower()
    slices = (text[start : start + _SLICE] for start in range(0, len(text), _SLICE))
    return " ".join(" ".join(words_of(some.replace(_MARK, " "))) for some in slices)


# ---------------------------------------------------------------- the texts of a transcript


def passages_of(transcript: Mapping[str, Any]) -> Iterator[Passage]:
    """What was said and done, piece by piece.

    System prompts are left out: all rollouts of a task share them.
    """
    return (Passage(*found) for found in _texts(transcript))


def tools_of(transcript: Mapping[str, Any]) -> list[Called]:
    """The tools that were called."""
    return [
        (entry["name"], not entry.get("error"))
        for entry in _objects(transcript.get("entries"))
        if entry.get("kind") == "result" and isinstance(entry.get("name"), str)
    ]


def _texts(transcript: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Entry, kind and text of each passage."""
    for at, entry in enumerate(_items(transcript.get("entries"))):
        if isinstance(entry, dict):
            for kind, text in _entry_texts(cast(dict[str, Any], entry)):
                if text:
                    yield at, kind, text


def _entry_texts(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    kind = entry.get("kind")
    if kind == "result":
        return _content_texts("result", entry.get("content"))
    if kind == "reply":
        found = _content_texts("message", entry.get("content"))
        for call in _objects(entry.get("calls")):
            found.append(("call", f"{_plain(call.get('name'))} {_plain(call.get('written'))}"))
        for broken in _objects(entry.get("malformed")):
            found.append(("call", _plain(broken.get("text"))))
        return found
    return [(kind, _plain(entry.get("text")))] if kind in ("prompt", "note") else []


def _content_texts(kind: str, content: Any) -> list[tuple[str, str]]:
    if isinstance(content, str):
        return [(kind, content)]
    found: list[tuple[str, str]] = []
    for part in _objects(content):
        found += [(kind, _plain(part.get("text"))), ("thinking", _plain(part.get("thinking")))]
    return found


def _plain(value: Any) -> str:
    """The text of a JSON value: names and values, without its signs."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return " ".join(f"{name} {_plain(item)}" for name, item in items)
    if isinstance(value, list | tuple):
        return " ".join(_plain(item) for item in cast(list[Any], value))
    return "" if value is None else str(value)


def _items(value: Any) -> Iterable[Any]:
    return cast(Iterable[Any], value) if isinstance(value, list | tuple) else ()


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in _items(value) if isinstance(item, dict)]
