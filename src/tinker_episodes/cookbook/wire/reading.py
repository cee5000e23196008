"""What every wire format gives back, and the cursor that the text formats read with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from tinker_cookbook.renderers import Renderer

from tinker_episodes.cookbook.messages import encodable
from tinker_episodes.decoding import NotJson, decoded_at
from tinker_episodes.message import Call, MalformedCall, Text, Thinking

_SPACE = re.compile(r"\s*")
_HUGE = 10**300
"""Beyond it, readers that hold numbers as floats give up."""


@dataclass(frozen=True, slots=True)
class Written:
    """A call, and the JSON text by which the host's renderer writes its arguments into history."""

    call: Call
    arguments: str


Item = Written | MalformedCall


@dataclass(frozen=True, slots=True)
class Read:
    """A reply's parts and its calls, each in the order in which they were written."""

    parts: tuple[Thinking | Text, ...] = ()
    items: tuple[Item, ...] = ()


class Format(Protocol):
    """How the models of a renderer write calls."""

    @property
    def name_rule(self) -> re.Pattern[str]:
        """What the name of a tool must match as a whole for its calls to be read and written."""
        ...

    @property
    def argument_rule(self) -> re.Pattern[str]:
        """The same for the name of an argument."""
        ...

    def read(self, renderer: Renderer, tokens: list[int]) -> Read:
        """What the tokens, which end before the stop token, say."""
        ...


ANY_NAME = re.compile(r".+", re.DOTALL)
NAME = re.compile(r"[^<>\x00-\x1f\ud800-\udfff]{1,200}")
"""A tool's name in a format that carries it as JSON: no mark, which its result would repeat."""
TAG_NAME = re.compile(r"[^<>\s](?:[^<>\n]*[^<>\s])?")
"""A name that a tag can hold: `<function=NAME>`."""


class Broken(Exception):
    """A text that meant a call and is none. Its message is for the model."""


class Cursor:
    """A place in a text."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def space(self) -> None:
        """Pass over white space."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match is not None else self.at

    def sees(self, literal: str) -> bool:
        """Whether `literal` stands here."""
        return self.text.startswith(literal, self.at)

    def takes(self, literal: str) -> bool:
        """Pass over `literal` if it stands here."""
        if self.sees(literal):
            self.at += len(literal)
            return True
        return False

    def expect(self, literal: str, why: str) -> None:
        """Pass over `literal`.

        Raises:
            Broken: it does not stand here.
        """
        if not self.takes(literal):
            raise Broken(why)

    def until(self, literal: str, why: str) -> str:
        """The text before the next `literal`; both are passed over.

        Raises:
            Broken: there is none.
        """
        end = self.text.find(literal, self.at)
        if end < 0:
            raise Broken(why)
        start, self.at = self.at, end + len(literal)
        return self.text[start:end]

    def json(self, what: str) -> tuple[Any, str]:
        """The JSON value that stands here, and its text.

        Raises:
            Broken: there is none; `what` says what it was to be.
        """
        self.space()
        start = self.at
        try:
            value, self.at = decoded_at(self.text, start)
        except NotJson as error:
            raise Broken(f"{what} must be JSON: {error}") from None
        return value, self.text[start : self.at]

    def block(self, close: str, parse: Callable[[Cursor], tuple[Item, ...]]) -> tuple[Item, ...]:
        """What `read_block` finds here, passed over."""
        found = read_block(self.text, self.at, close, parse)
        self.at = found.end
        return found.items


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text that holds calls."""

    items: tuple[Item, ...]
    end: int


def read_block(
    text: str, at: int, close: str, parse: Callable[[Cursor], tuple[Item, ...]]
) -> Block:
    """What `parse` finds at `at`. Where it fails, all to the next `close` is one malformed call:
    what stands behind the fault may be quoted, and must not run.
    """
    cursor = Cursor(text, at)
    try:
        return Block(parse(cursor), cursor.at)
    except Broken as broken:
        found = text.find(close, cursor.at)
        end = len(text) if found < 0 else found + len(close)
        return Block((MalformedCall(text[at:end], str(broken)),), end)


# ---------------------------------------------------------------- calls


def call_of_texts(name: str, arguments: Mapping[str, str]) -> Written:
    """A call whose arguments are bare texts."""
    return Written(Call(encodable(name), arguments, typed=False), json.dumps(dict(arguments)))


def call_of_json(name: str, arguments: Any, raw: str, *, id: str | None = None) -> Written:
    """A call whose arguments are JSON. Where they are no object, they stay the text that they are:
    an object in there is still found, and anything else is the call's error.

    Args:
        raw: The arguments as they were written.
    """
    if not isinstance(arguments, dict):
        return Written(Call(encodable(name), raw, id=_id(id)), raw)
    found = cast(dict[str, Any], arguments)
    return Written(Call(encodable(name), found, id=_id(id)), _without_markup(raw))


def rewritten(item: Item) -> Item:
    """The item for a renderer that reads the arguments of history as a JSON object: numbers and
    characters that it can't take are written out.
    """
    if isinstance(item, MalformedCall):
        return item
    given = item.call.arguments
    values = {"arguments": given} if isinstance(given, str) else given
    return replace(item, arguments=json.dumps(_plain(values), ensure_ascii=False))


def _plain(value: Any) -> Any:
    """A JSON value that every reader and tokenizer takes."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        items = cast(Mapping[str, Any], value).items()
        return {encodable(name): _plain(item) for name, item in items}
    if isinstance(value, list):
        return [_plain(item) for item in cast(list[Any], value)]
    if isinstance(value, float) and abs(value) == float("inf"):
        return str(value)
    if isinstance(value, int) and abs(value) >= _HUGE:
        return str(value)
    return value


def _without_markup(raw: str) -> str:
    """The same JSON without the beginnings of special tokens, which history would make real."""
    return encodable(raw).replace("<|", "\\u003c|").replace("<｜", "\\u003c｜")


def _id(written: str | None) -> str | None:
    return encodable(written) if written else None
