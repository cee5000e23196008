"""JSON as a model writes it: read strictly, within bounds, and never with an exception but one.

Python's own reader raises three kinds of errors on hostile text and keeps the last of two equal
names without a word.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NoReturn, cast

DEEPEST = 64
"""Levels of nesting that are read; a deeper value is refused."""
_LONGEST = 4300
"""Digits of an integer that Python reads (`sys.int_info.default_max_str_digits`)."""


class NotJson(ValueError):
    """A text is no JSON that is read here. Its message says why, and where."""


def decoded(text: str) -> Any:
    """The JSON value of a whole text.

    An integer of more digits than Python reads comes back as its digits, a `str`.

    Raises:
        NotJson: no JSON; `NaN` or `Infinity`; a name that stands twice in one object; more than
            `DEEPEST` levels.
    """
    value, end = decoded_at(text, len(text) - len(text.lstrip(_SPACE)))
    if text[end:].strip(_SPACE):
        raise NotJson(f"it goes on after its end, at character {end}")
    return value


def decoded_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and where it ends.

    Raises:
        NotJson: as `decoded`.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at character {error.pos - start}") from None
    except RecursionError:
        raise NotJson(_TOO_DEEP) from None
    if _is_deep(value):
        raise NotJson(_TOO_DEEP)
    return value, end


def _is_deep(value: Any) -> bool:
    """Whether a value has more levels than are read. Without recursion: it may have a thousand."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [item for outer in level for item in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast(dict[str, Any], value).values())
    return cast(list[Any], value) if isinstance(value, list) else []


def _integer(digits: str) -> int | str:
    limit = sys.get_int_max_str_digits() or _LONGEST
    return int(digits) if len(digits) <= min(limit, _LONGEST) else digits


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise NotJson(f"the name {json.dumps(twice[:80])} stands in it twice")
    return found


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is no JSON number")


_SPACE = " \t\n\r"
_TOO_DEEP = f"it is nested deeper than {DEEPEST} levels"
# typeshed lets `parse_int` give an int alone.
_INTEGER = cast(Callable[[str], int], _integer)
_DECODER = json.JSONDecoder(parse_int=_INTEGER, parse_constant=_constant, object_pairs_hook=_object)
