"""Formats whose every part stands between special tokens, told apart by the tokens themselves: what
a text merely spells is text. gpt-oss (Harmony) and Inkling (tml).

<|channel|>analysis<|message|>…<|end|><|start|>assistant to=functions.f<|channel|>commentary
<|constrain|>json<|message|>{"v": 1}<|call|>

<|message_model|>f<|content_invoke_tool_json|>{"name": "f", "args": {"v": 1}}<|end_message|>
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tinker_cookbook.renderers import Renderer
from tinker_cookbook.renderers.tml_v0 import TmlV0Renderer

from tinker_episodes.cookbook.rendering import text_of
from tinker_episodes.cookbook.wire.reading import (
    ANY_NAME,
    NAME,
    Broken,
    Cursor,
    Item,
    Read,
    call_of_json,
    rewritten,
)
from tinker_episodes.message import MalformedCall, Text, Thinking


def _runs(
    renderer: Renderer, tokens: list[int], marks: Mapping[int, str]
) -> Iterator[tuple[str, str]]:
    """The marks and the text that follows each; what stands before the first has the mark ""."""
    start, mark = 0, ""
    for at, token in enumerate(tokens):
        if token in marks:
            yield mark, text_of(renderer, tokens[start:at])
            start, mark = at + 1, marks[token]
    yield mark, text_of(renderer, tokens[start:])


def _json_alone(cursor: Cursor, what: str) -> tuple[Any, str]:
    value, raw = cursor.json(what)
    cursor.space()
    if cursor.at < len(cursor.text):
        raise Broken(f"{what} must be one JSON object, and nothing after it")
    return value, raw


class Harmony:
    """gpt-oss: messages on channels; a call is one to `functions.NAME`."""

    name_rule = re.compile(r"(?!functions\.)[\w.-]+")
    argument_rule = ANY_NAME

    def read(self, renderer: Renderer, tokens: list[int]) -> Read:
        parts: list[Thinking | Text] = []
        items: list[Item] = []
        for header, body in _messages(renderer, tokens):
            recipient = _RECIPIENT.search(header)
            channel = _CHANNEL.search(header)
            if recipient is not None:
                items.append(self._call(recipient.group(1), body))
            elif body.strip():
                thinks = channel is not None and channel.group(1) == "analysis"
                parts.append(Thinking(body) if thinks else Text(body))
        return Read(tuple(parts), tuple(items))

    def _call(self, recipient: str, body: str) -> Item:
        try:
            name = recipient.removeprefix("functions.")
            if name == recipient or not name:
                raise Broken("a tool call must go to functions.NAME")
            arguments, raw = _json_alone(Cursor(body, 0), "the arguments of a call")
            return call_of_json(name, arguments, raw)
        except Broken as broken:
            return MalformedCall(f"to={recipient}: {body}", str(broken))


def _messages(renderer: Renderer, tokens: list[int]) -> Iterator[tuple[str, str]]:
    """The header and the body of each message. A text that no `<|message|>` parts from a header is
    a body, unless it calls a tool.
    """
    header, body = "", None
    for mark, text in _runs(renderer, tokens, _harmony_ids(renderer)):
        if mark in ("channel", "constrain", "message") and body is not None:
            body += text
        elif mark == "message":
            body = text
        elif mark in ("channel", "constrain"):
            header += f"<{mark}>{text}"
        else:
            yield _message(header, body)
            header, body = text, None
    yield _message(header, body)


def _message(header: str, body: str | None) -> tuple[str, str]:
    if body is not None:
        return header, body
    if "to=functions." in header:
        return header, ""
    return "", header.removeprefix("assistant")


class Inkling:
    """tml: messages of one content each; a call is one that invokes a tool."""

    name_rule = NAME
    argument_rule = ANY_NAME

    def read(self, renderer: Renderer, tokens: list[int]) -> Read:
        parts: list[Thinking | Text] = []
        items: list[Item] = []
        calls = 0
        for mark, text in _runs(renderer, tokens, _inkling_ids(renderer)):
            if mark == "content_thinking":
                parts.append(Thinking(text))
            elif mark in _INVOKES:
                items.append(self._call(text, calls))
                calls += 1
            elif mark != "message_model" and text:
                parts.append(Text(text))
        return Read(tuple(parts), tuple(items))

    def _call(self, text: str, place: int) -> Item:
        try:
            body, _ = _json_alone(Cursor(text, 0), "a tool call")
            if not isinstance(body, dict) or not isinstance(body.get("name"), str):  # pyright: ignore[reportUnknownMemberType] - any JSON object
                raise Broken('a tool call must read {"name": …, "args": {…}}')
            known = cast(dict[str, Any], body)
            if "args" not in known:
                raise Broken('a tool call has no "args"; give an object')
            given, name = known["args"], known["name"]
            if not NAME.fullmatch(name):
                raise Broken('a tool call must have a "name" that names a tool')
            id = f"functions.{name}:{place}"
            return rewritten(call_of_json(name, given, json.dumps(given), id=id))
        except Broken as broken:
            return MalformedCall(text, str(broken))


HARMONY = Harmony()
INKLING = Inkling()

_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<channel>([^<\s]+)")
_HARMONY = ("start", "channel", "message", "constrain", "end", "call", "return")
_INVOKES = ("content_invoke_tool_json", "content_invoke_tool_text")
_INKLING = ("message_model", "end_message", "content_text", "content_thinking", *_INVOKES)


def _harmony_ids(renderer: Renderer) -> dict[int, str]:
    tokenizer: Any = renderer.tokenizer  # transformers leaves `encode` partly untyped
    return {tokenizer.encode(f"<|{name}|>", add_special_tokens=False)[0]: name for name in _HARMONY}


def _inkling_ids(renderer: Renderer) -> dict[int, str]:
    assert isinstance(renderer, TmlV0Renderer)
    special = renderer._tml_tokenizer  # pyright: ignore[reportPrivateUsage] - the host's facade encodes no special token
    return {special.encode_special(name): name for name in _INKLING}
