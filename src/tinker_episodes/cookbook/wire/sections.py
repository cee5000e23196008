"""Calls in a section of their own: DeepSeek V3.1 and Kimi with JSON, DeepSeek V4.1 with typed
parameters.

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"v": 1}<｜tool▁call▁end｜>…
<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"v": 1}…
<｜DSML｜ calls><｜DSML｜ invoke name="f"><｜DSML｜ parameter name="v" string="false">1…

A section that is not closed runs none of its calls; in one that is, each call stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinker_episodes.cookbook.wire.reading import (
    ANY_NAME,
    Block,
    Broken,
    Cursor,
    Item,
    call_of_json,
    read_block,
    rewritten,
)
from tinker_episodes.cookbook.wire.text import TextFormat
from tinker_episodes.decoding import NotJson, decoded


@dataclass(frozen=True, slots=True)
class _Section:
    """The marks of a section whose calls carry JSON."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    call: str
    separator: str
    end: str
    read_call: Callable[[str, Any, str], Item]
    """Of what stands before the separator, the arguments, and their text."""

    def read_at(self, text: str, at: int) -> Block:
        at_which = next((n for n, mark in enumerate(self.opens) if text.startswith(mark, at)), 0)
        return read_block(text, at, self.closes[at_which], self._calls)

    def _calls(self, cursor: Cursor) -> tuple[Item, ...]:
        opened = next((n for n, mark in enumerate(self.opens) if cursor.takes(mark)), None)
        if opened is None:
            raise Broken(f"tool calls must stand between {self.opens[0]} and {self.closes[0]}")
        items: list[Item] = []
        cursor.space()
        while cursor.sees(self.call):
            items += cursor.block(self.end, self._call)
            cursor.space()
        close = self.closes[opened]
        cursor.expect(close, f"tool calls must read {self._form}, and end with {close}")
        if not items:
            raise Broken(f"there is no call in it; a tool call must read {self._form}")
        return tuple(items)

    def _call(self, cursor: Cursor) -> tuple[Item, ...]:
        cursor.expect(self.call, f"a tool call must read {self._form}")
        head = cursor.until(self.separator, f"a tool call must read {self._form}").strip()
        arguments, raw = cursor.json("the arguments of a call")
        item = self.read_call(head, arguments, raw)  # before the end: a fault resumes behind it
        cursor.space()
        cursor.expect(self.end, f"the arguments of a call must be one JSON object, then {self.end}")
        return (item,)

    @property
    def _form(self) -> str:
        return f"{self.call}NAME{self.separator}{{…}}{self.end}"


def _deepseek_call(head: str, arguments: Any, raw: str) -> Item:
    if not _WORD.fullmatch(head):
        raise Broken("the name of a tool must be of letters, digits and _")
    return call_of_json(head, arguments, raw)


def _kimi_call(head: str, arguments: Any, raw: str) -> Item:
    match = _KIMI_ID.fullmatch(head)
    if match is None:
        raise Broken("the id of a call must read functions.NAME:INDEX, such as functions.f:0")
    return call_of_json(match.group("name"), arguments, raw, id=head)


# ---------------------------------------------------------------- DeepSeek V4.1

_CALLS, _CALLS_END = "<｜DSML｜ calls>", "</｜DSML｜ calls>"
_INVOKE, _INVOKE_END = '<｜DSML｜ invoke name="', "</｜DSML｜ invoke>"
_PARAMETER, _PARAMETER_END = '<｜DSML｜ parameter name="', "</｜DSML｜ parameter>"
_FLAG = re.compile(r'" string="(true|false)">')
_DSML_FORM = f'{_PARAMETER}NAME" string="true|false">value{_PARAMETER_END}'


def _dsml_at(text: str, at: int) -> Block:
    return read_block(text, at, _CALLS_END, _dsml_calls)


def _dsml_calls(cursor: Cursor) -> tuple[Item, ...]:
    cursor.expect(_CALLS, f"tool calls must stand between {_CALLS} and {_CALLS_END}")
    items: list[Item] = []
    cursor.space()
    while cursor.sees(_INVOKE):
        items += cursor.block(_INVOKE_END, _dsml_call)
        cursor.space()
    cursor.expect(_CALLS_END, f'tool calls must read {_INVOKE}NAME"> … {_INVOKE_END}')
    if not items:
        raise Broken(f'there is no call in it; a tool call must read {_INVOKE}NAME"> …')
    return tuple(items)


def _dsml_call(cursor: Cursor) -> tuple[Item, ...]:
    cursor.expect(_INVOKE, f'a tool call must read {_INVOKE}NAME"> … {_INVOKE_END}')
    name = cursor.until('">', f'a tool call must read {_INVOKE}NAME"> … {_INVOKE_END}')
    if not _QUOTED_NAME.fullmatch(name):
        raise Broken("a tool call has no name")
    arguments: dict[str, Any] = {}
    cursor.space()
    while cursor.takes(_PARAMETER):
        _dsml_parameter(cursor, arguments)
        cursor.space()
    cursor.expect(_INVOKE_END, f"in the call of {name!r}: a parameter must read {_DSML_FORM}")
    return (rewritten(call_of_json(name, arguments, "")),)


def _dsml_parameter(cursor: Cursor, arguments: dict[str, Any]) -> None:
    end = cursor.text.find('"', cursor.at)
    flag = _FLAG.match(cursor.text, end) if end >= 0 else None
    if flag is None:
        raise Broken(f"a parameter must read {_DSML_FORM}")
    name, cursor.at = cursor.text[cursor.at : end], flag.end()
    value = cursor.until(_PARAMETER_END, f"the parameter {name[:80]!r} is not closed")
    if not name.strip():
        raise Broken("a parameter has no name")
    if "｜DSML｜" in value:
        raise Broken(f"the parameter {name[:80]!r} is not closed, or its value holds ｜DSML｜")
    if name in arguments:
        raise Broken(f"the parameter {name[:80]!r} is written twice")
    arguments[name] = value if flag.group(1) == "true" else _dsml_json(name, value)


def _dsml_json(name: str, value: str) -> Any:
    try:
        return decoded(value)
    except NotJson as error:
        raise Broken(
            f'the parameter {name[:80]!r} has string="false" and is no JSON: {error}; '
            'a text has string="true"'
        ) from None


_WORD = re.compile(r"\w+")
_KIMI_NAME = re.compile(r"[\w-]+")
_KIMI_ID = re.compile(r"(?:functions\.)?(?P<name>[^<>:\s]+):\d+")
_QUOTED_NAME = re.compile(r'[^<>"\s](?:[^<>"\n]*[^<>"\s])?')
_DEEPSEEK_V3 = _Section(
    opens=("<｜tool▁calls▁begin｜>",),
    closes=("<｜tool▁calls▁end｜>",),
    call="<｜tool▁call▁begin｜>",
    separator="<｜tool▁sep｜>",
    end="<｜tool▁call▁end｜>",
    read_call=_deepseek_call,
)
_KIMI_K2 = _Section(
    opens=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
    closes=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    call="<|tool_call_begin|>",
    separator="<|tool_call_argument_begin|>",
    end="<|tool_call_end|>",
    read_call=_kimi_call,
)

DEEPSEEK_V3 = TextFormat(
    re.compile(r"<｜tool▁(?:calls▁begin|calls▁end|call▁begin|call▁end|sep)｜>"),
    _DEEPSEEK_V3.read_at,
    _WORD,
    ANY_NAME,
)
DEEPSEEK_V4_1 = TextFormat(re.compile(r"</?｜DSML｜"), _dsml_at, _QUOTED_NAME, _QUOTED_NAME)
KIMI = TextFormat(
    re.compile(r"<\|tool_calls?_(?:section_)?(?:begin|end|argument_begin)\|>"),
    _KIMI_K2.read_at,
    _KIMI_NAME,
    ANY_NAME,
)
