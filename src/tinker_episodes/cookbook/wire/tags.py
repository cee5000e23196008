"""Calls between tags: Qwen3's JSON, the XML of Qwen3.5, Qwen3.8 and Nemotron 3, and GLM's pairs.

<tool_call>{"name": "f", "arguments": {"v": 1}}</tool_call>
<tool_call><function=f><parameter=v>1</parameter></function></tool_call>
<tool_call>f<arg_key>v</arg_key><arg_value>1</arg_value></tool_call>

In the XML form one newline a side of a value is layout. JSON between the tags serves in all three,
as in the host.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from tinker_episodes.cookbook.wire.reading import (
    ANY_NAME,
    NAME,
    TAG_NAME,
    Block,
    Broken,
    Cursor,
    Item,
    call_of_json,
    call_of_texts,
    read_block,
    rewritten,
)
from tinker_episodes.cookbook.wire.text import TextFormat

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_NOT_CLOSED = f"a tool call is not closed with {_CLOSE}"
_NOT_OPENED = f"a tool call must begin with {_OPEN} and end with {_CLOSE}"
_FORM = f"a tool call must read {_OPEN}<function=NAME> … </function>{_CLOSE}"
_PARAMETER_FORM = "a parameter must read <parameter=NAME>value</parameter>"
_PAIR_FORM = "an argument must read <arg_key>NAME</arg_key><arg_value>value</arg_value>"


def _json_at(text: str, at: int) -> Block:
    return read_block(text, at, _CLOSE, _json_call)


def _json_call(cursor: Cursor) -> tuple[Item, ...]:
    cursor.expect(_OPEN, _NOT_OPENED)
    body, _ = cursor.json("a tool call")
    if not isinstance(body, dict):
        raise Broken('a tool call must be a JSON object: {"name": …, "arguments": {…}}')
    item = _call_of(cast(dict[str, Any], body))  # before the end: a fault resumes behind it
    cursor.space()
    cursor.expect(_CLOSE, _NOT_CLOSED)
    return (item,)


def _call_of(body: dict[str, Any]) -> Item:
    name, given = body.get("name"), body.get("arguments")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Broken('a tool call must have a "name" that names a tool')
    if "arguments" not in body:
        raise Broken(f'the call of {json.dumps(name[:80])} has no "arguments"; give an object')
    id = body.get("id")
    raw = json.dumps(given)
    return rewritten(call_of_json(name, given, raw, id=id if isinstance(id, str) else None))


def _xml_at(text: str, at: int) -> Block:
    return read_block(text, at, _CLOSE, _xml_call)


def _xml_call(cursor: Cursor) -> tuple[Item, ...]:
    start = cursor.at
    cursor.expect(_OPEN, _NOT_OPENED)
    cursor.space()
    if cursor.sees("{"):
        cursor.at = start
        return _json_call(cursor)
    cursor.expect("<function=", _FORM)
    name = _name(cursor, "a function", _FORM)
    arguments: dict[str, str] = {}
    cursor.space()
    while cursor.takes("<parameter="):
        _add(arguments, _name(cursor, "a parameter", _PARAMETER_FORM), _xml_value(cursor))
        cursor.space()
    cursor.expect("</function>", f"in the call of {name!r}: {_PARAMETER_FORM}")
    cursor.space()
    cursor.expect(_CLOSE, _NOT_CLOSED)
    return (call_of_texts(name, arguments),)


def _xml_value(cursor: Cursor) -> str:
    value = cursor.until("</parameter>", f"{_PARAMETER_FORM}: one is not closed")
    if "<parameter=" in value:
        raise Broken(f"{_PARAMETER_FORM}: one is not closed, or its value holds such a tag")
    return without_layout(value)


def without_layout(value: str) -> str:
    """A value without the one newline a side that is the format's layout."""
    start = 1 if value.startswith("\n") else 0
    end = len(value) - 1 if value.endswith("\n") and len(value) > start else len(value)
    return value[start:end]


def _glm_at(text: str, at: int) -> Block:
    return read_block(text, at, _CLOSE, _glm_call)


def _glm_call(cursor: Cursor) -> tuple[Item, ...]:
    start = cursor.at
    cursor.expect(_OPEN, _NOT_OPENED)
    cursor.space()
    if cursor.sees("{"):
        cursor.at = start
        return _json_call(cursor)
    match = _GLM_NAME.match(cursor.text, cursor.at)
    if match is None:
        raise Broken(f"a tool call must read {_OPEN}NAME, its arguments, {_CLOSE}")
    name, cursor.at = match.group(), match.end()
    arguments: dict[str, str] = {}
    cursor.space()
    while cursor.takes("<arg_key>"):
        key = cursor.until("</arg_key>", _PAIR_FORM).strip()
        cursor.space()
        cursor.expect("<arg_value>", _PAIR_FORM)
        value = cursor.until("</arg_value>", f"{_PAIR_FORM}: one is not closed")
        if "<arg_key>" in value or "<arg_value>" in value:
            raise Broken(f"{_PAIR_FORM}: one is not closed, or its value holds such a tag")
        _add(arguments, key, value)
        cursor.space()
    cursor.expect(_CLOSE, f"in the call of {name!r}: {_PAIR_FORM}")
    return (call_of_texts(name, arguments),)


def _name(cursor: Cursor, what: str, form: str) -> str:
    name = cursor.until(">", form).strip()
    if not TAG_NAME.fullmatch(name):
        raise Broken(f"{what} has no name that a tag can hold; {form}")
    return name


def _add(arguments: dict[str, str], name: str, value: str) -> None:
    if not name:
        raise Broken("an argument has no name")
    if name in arguments:
        raise Broken(f"the argument {name[:80]!r} is written twice")
    arguments[name] = value


_GLM_NAME = re.compile(r"[\w.-]+")
_TAGS = f"{_OPEN}|{_CLOSE}"

QWEN_JSON = TextFormat(re.compile(_TAGS), _json_at, NAME, ANY_NAME)
QWEN_XML = TextFormat(
    re.compile(f"{_TAGS}|<function=|</function>|<parameter=|</parameter>"),
    _xml_at,
    TAG_NAME,
    TAG_NAME,
)
GLM = TextFormat(
    re.compile(f"{_TAGS}|</?arg_key>|</?arg_value>"),
    _glm_at,
    _GLM_NAME,
    TAG_NAME,
)
