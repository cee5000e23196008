"""Every value under every schema, written as each renderer's models write it: the tool gets just
that, or the model is told; nothing is silently something else.
"""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.arguments import same_json
from support.calls import CallWriter
from support.cells import REFUSED, SCHEMAS, VALUES, carries, expected, whole
from support.tokenizers import renderer_for, renderer_names

from tinker_episodes import ArgumentsError
from tinker_episodes.arguments import Arguments
from tinker_episodes.cookbook.wire import Reply, read_reply
from tinker_episodes.decoding import NotJson, decoded

RENDERERS = renderer_names()
JSON = ("qwen3_vl", "qwen3_d", "qwen3_i", "deepseekv3", "kimi", "gpt_oss", "tml")


@functools.cache
def writer_of(name: str) -> CallWriter:
    return CallWriter(renderer_for(name))


@functools.cache
def tool_of(schema: str) -> Arguments:
    return Arguments("f", whole(schema))


@functools.cache
def reads(name: str, value: str) -> Reply:
    writer = writer_of(name)
    return read_reply(writer.renderer, writer.call(value))


def given(name: str, value: str, schema: str) -> Any:
    """What the tool gets, or REFUSED."""
    reply = reads(name, value)
    assert reply.clean
    if not reply.message.calls:
        assert reply.message.malformed[0].error
        return REFUSED
    (call,) = reply.message.calls
    return _fitted(schema, json.dumps(call.arguments), typed=call.typed)


@functools.cache
def _fitted(schema: str, arguments: str, *, typed: bool) -> Any:
    try:
        return tool_of(schema).fit(json.loads(arguments), typed=typed)["v"]
    except ArgumentsError as error:
        assert len(str(error)) < 1000 and "<|" not in str(error)
        return REFUSED


def test_renderers_are_all_that_the_host_has() -> None:
    families = ("qwen3", "qwen3_vl", "qwen3_5", "qwen3_8", "nemotron3", "glm5_3", "deepseekv3")
    families += ("deepseekv4_1", "kimi_k2", "kimi_k25", "kimi_k26", "gpt_oss", "tml_v0")
    assert all(any(name.startswith(family) for name in RENDERERS) for family in families)
    assert len(RENDERERS) >= 42


@pytest.mark.parametrize("name", RENDERERS)
def test_text_is_typed_by_the_schema_and_never_by_its_looks(name: str) -> None:
    writer = writer_of(name)
    for text in VALUES.values():
        if not carries(name, text):
            continue
        value = writer.json_value(text)
        as_text = not writer.typed and not name.startswith("deepseekv4_1")
        for schema in SCHEMAS:
            wanted = expected(schema, text, as_text=as_text)
            found = given(name, value, schema)
            where = f"{text[:60]!r} as {schema}: {found!r:.60}, not {wanted!r:.60}"
            assert found is wanted or same_json(found, wanted), where


@pytest.mark.parametrize("name", [n for n in RENDERERS if n == "qwen3" or n.startswith(JSON)])
def test_json_value_stands_where_the_schema_takes_it(name: str) -> None:
    for text in VALUES.values():
        try:
            value = decoded(text)
        except NotJson:
            continue
        for schema in SCHEMAS:
            found = given(name, text, schema)
            if value == math.inf:
                assert found is REFUSED, schema
            elif Draft202012Validator(whole(schema)).is_valid({"v": value}):
                assert found == value, f"{text[:60]!r} as {schema}"
            elif not isinstance(value, str | dict):
                assert found is REFUSED, f"{text[:60]!r} as {schema}: {found!r}"


@pytest.mark.parametrize("name", RENDERERS)
def test_value_that_the_format_can_not_carry_is_told_to_the_model(name: str) -> None:
    writer = writer_of(name)
    for text in VALUES.values():
        if not carries(name, text) and "\ud800" not in text:
            reply = read_reply(writer.renderer, writer.call(text))
            assert not reply.message.calls and reply.message.malformed, text


@pytest.mark.parametrize("name", RENDERERS)
def test_bytes_that_are_no_text_arrive_as_replacement_characters(name: str) -> None:
    writer = writer_of(name)
    first = writer.plain("\U0001fae8")[0]
    quote = writer.plain('"') if writer.typed else []
    reply = read_reply(writer.renderer, writer.call([*quote, first, *quote]))
    (call,) = reply.message.calls
    assert isinstance(call.arguments, dict) and set(call.arguments["v"]) == {"\ufffd"}
