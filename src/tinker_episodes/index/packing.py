"""How what is read singly is stored: JSON under zstd, and the turns' tokens and logprobs as arrays
of 32 bits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from struct import error as StructError
from struct import pack, unpack
from typing import Any, cast

import zstandard

_NAN = float("nan")
_JSON = json.JSONEncoder(default=str)


def storable(text: str) -> str:
    """Text that every database takes, a `str` itself: lone surrogates and NUL written out."""
    if type(text) is str and text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def as_json(value: Any) -> str:
    """JSON in ASCII, so that any text comes back as it was; what JSON lacks, as its `str`."""
    try:
        return _JSON.encode(value)
    except TypeError:  # a key that JSON lacks
        return _JSON.encode(_with_text_keys(value))


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {str(key): _with_text_keys(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_with_text_keys(item) for item in cast(Sequence[Any], value)]
    return value


class _Compressors(threading.local):
    """Each thread's own: one is for one thread, and costs more to make than to use."""

    def __init__(self) -> None:
        self.text = zstandard.ZstdCompressor(level=3)
        self.tokens = zstandard.ZstdCompressor(level=1)  # arrays get no smaller by a higher level


_ZSTD = _Compressors()


def packed(value: Any) -> bytes:
    """A JSON value as it is stored."""
    return _ZSTD.text.compress(as_json(value).encode("ascii"))


def unpacked(body: bytes) -> Any:
    """A stored JSON value."""
    return json.loads(zstandard.decompress(body))


def packed_turns(turns: Sequence[Mapping[str, Any]]) -> bytes:
    """Turns as they are stored: lists of integers and of numbers as arrays, the rest as JSON.

    A number keeps 32 bits; one that is not there (None) stays so.
    """
    heads: list[tuple[dict[str, Any], list[tuple[str, str, int]]]] = []
    arrays: list[bytes] = []
    for turn in turns:
        rest: dict[str, Any] = {}
        lists: list[tuple[str, str, int]] = []
        for name, value in turn.items():
            numbers = _numbers(cast(list[Any], value)) if type(value) is list and value else None
            if numbers is None:
                rest[name] = value
            else:
                code, data = numbers
                lists.append((name, code, len(data) // 4))
                arrays.append(data)
        heads.append((rest, lists))
    head = as_json(heads).encode("ascii")
    data = b"".join([len(head).to_bytes(4, "little"), head, *arrays])
    return _ZSTD.tokens.compress(data)


def unpacked_turns(body: bytes) -> list[dict[str, Any]]:
    """Stored turns."""
    data = memoryview(zstandard.decompress(body))
    at = 4 + int.from_bytes(data[:4], "little")
    turns: list[dict[str, Any]] = []
    for turn, lists in json.loads(bytes(data[4:at])):
        for name, code, count in lists:
            turn[name] = _list_of(code, data[at : at + 4 * count])
            at += 4 * count
        turns.append(turn)
    return turns


def _numbers(items: list[Any]) -> tuple[str, bytes] | None:
    """A list as numbers of 32 bits, `i` or `f`; None where an item is no such number."""
    code = "f" if isinstance(items[0], float) else "i"
    try:
        return code, pack(f"<{len(items)}{code}", *items)
    except (StructError, OverflowError):
        pass
    if not all(item is None or isinstance(item, float) for item in items):
        return None
    numbers = (_NAN if item is None else item for item in items)
    try:
        return "f", pack(f"<{len(items)}f", *numbers)
    except OverflowError:
        return None


def _list_of(code: str, data: memoryview) -> list[Any]:
    numbers = list(unpack(f"<{len(data) // 4}{code}", data))
    if code == "i":
        return numbers
    return [None if number != number else number for number in numbers]
