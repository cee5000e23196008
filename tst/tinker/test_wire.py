"""What the model wrote, from tokens to typed arguments, for the renderers' wire formats."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.scripted import JSON_END, xml_call
from tinker_cookbook.renderers import Renderer

from tinker_episodes import ArgumentsError, loopback
from tinker_episodes.arguments import Arguments
from tinker_episodes.cookbook.rendering import rendering_of
from tinker_episodes.cookbook.wire import Reply, read_reply

XML = ("qwen3_5", "qwen3_5_disable_thinking", "qwen3_5_preserve_thinking")
JSON = ("qwen3", "qwen3_instruct")
STRING = {"type": "string"}
NULLABLE = {"type": ["string", "null"]}
EITHER = {"anyOf": [{"type": "string"}, {"type": "null"}]}
LIST = {"type": "array", "items": {"type": "integer"}}


def renderer_of(name: str) -> Renderer:
    return rendering_of(loopback.model_name(), name).renderer


def read(name: str, text: str) -> Reply:
    renderer = renderer_of(name)
    return read_reply(renderer, renderer.tokenizer.encode(text, add_special_tokens=False))


def fitted(reply: Reply, schema: dict[str, Any]) -> Any:
    (call,) = reply.message.calls
    tool = Arguments("f", {"type": "object", "properties": {"v": schema}, "required": ["v"]})
    return tool.fit(call.arguments, typed=call.typed)["v"]


TEXTS = ["19122", "00123", "1e5", "-0", "NaN", "true", "None", '"quoted"', '{"a": 1}', "[1, 2]"]
TEXTS += ["  spaces  ", "", "    if x:\n        return 1\n", "é漢🙂", "\r\n", "tab\tbed", "a < b"]


@pytest.mark.parametrize("name", XML)
@pytest.mark.parametrize("schema", [STRING, NULLABLE, EITHER])
@pytest.mark.parametrize("text", TEXTS)
def test_string_arrives_as_it_was_written(name: str, schema: dict[str, Any], text: str) -> None:
    assert fitted(read(name, xml_call("f", v=text)), schema) == text


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("schema", [STRING, NULLABLE, EITHER])
@pytest.mark.parametrize("text", TEXTS)
def test_json_string_arrives_as_it_was_written(
    name: str, schema: dict[str, Any], text: str
) -> None:
    body = json.dumps({"name": "f", "arguments": {"v": text}}, ensure_ascii=False)
    assert fitted(read(name, f"<tool_call>\n{body}\n</tool_call>{JSON_END}"), schema) == text


@pytest.mark.parametrize("name", XML)
@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"type": "integer"}, 5),
        ("140.0", {"type": "integer"}, 140),
        ("12345678901234567890", {"type": "integer"}, 12345678901234567890),
        ("19.90", {"type": "number"}, 19.9),
        ("True", {"type": "boolean"}, True),
        ("false", {"type": ["boolean", "null"]}, False),
        ("null", NULLABLE, None),
        ("null", EITHER, None),
        ("null", STRING, "null"),
        ("null", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("[1, 2]", LIST, [1, 2]),
        ('["1", 2]', LIST, [1, 2]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("none", {"enum": ["none", "yes", "no"]}, "none"),
    ],
)
def test_text_is_typed_by_the_schema(
    name: str, text: str, schema: dict[str, Any], value: Any
) -> None:
    found = fitted(read(name, xml_call("f", v=text)), schema)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("name", XML)
@pytest.mark.parametrize("text", ["140.5", "2026-01-15", "-", "x", "1E400", "NaN", "9" * 10_000])
def test_text_that_is_no_integer_is_an_error_to_the_model(name: str, text: str) -> None:
    with pytest.raises(ArgumentsError, match="'v'"):
        fitted(read(name, xml_call("f", v=text)), {"type": "integer"})


@pytest.mark.parametrize("name", XML)
@pytest.mark.parametrize(
    "text",
    [
        "A block ends with </parameter> here.",
        "<parameter=x>1</parameter>",
        "a\n</parameter>\n<parameter=v>\nb",
    ],
)
def test_value_that_the_format_can_not_carry_is_never_cut(name: str, text: str) -> None:
    reply = read(name, xml_call("f", v=text))
    assert not reply.message.calls and reply.message.malformed


@pytest.mark.parametrize("name", XML)
@pytest.mark.parametrize(
    "text",
    [
        "<function=f>\n<parameter=v>\n1\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=v>\n1\n</parameter>\n</function>",
        '<tool_call>\n<function=f>\n<parameter=v>\n{"a":1}\n</function>\n</tool_call>',
        "<tool_call>\n<function=f>\nv=1\n</function>\n</tool_call>",
        "<tool_call>\n<function=>\n</function>\n</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=v>1</parameter>\n<parameter=v>2</parameter>\n"
        "</function>\n</tool_call>",
    ],
)
def test_broken_call_is_a_format_error_and_never_runs(name: str, text: str) -> None:
    reply = read(name, text + JSON_END)
    assert reply.clean and not reply.message.calls and len(reply.message.malformed) == 1


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f"}',
        '{"arguments": {}}',
        "[1]",
        "{no json",
        '{"name": "<b>", "arguments": {}}',
        '{"name": "f", "arguments": {"v": 1, "v": 2}}',
        '{"name": "f", "arguments": {"v": NaN}}',
    ],
)
def test_broken_json_call_is_a_format_error(name: str, body: str) -> None:
    reply = read(name, f"<tool_call>\n{body}\n</tool_call>{JSON_END}")
    assert reply.clean and not reply.message.calls and reply.message.malformed


@pytest.mark.parametrize("name", [*XML, *JSON])
@pytest.mark.parametrize("digits", ["[" * 100_000, '{"a":' * 50_000, "[" * 500 + "]" * 500])
def test_nesting_that_is_not_read_is_a_format_error(name: str, digits: str) -> None:
    text = f'<tool_call>\n{{"name": "f", "arguments": {{"v": {digits}}}}}\n</tool_call>{JSON_END}'
    reply = read(name, text)
    assert reply.clean and not reply.message.calls and reply.message.malformed


@pytest.mark.parametrize("name", [*XML, *JSON])
def test_long_json_number_is_its_digits_or_an_error_to_the_model(name: str) -> None:
    digits = "9" * 8_000
    reply = read(name, f'<tool_call>{{"name": "f", "arguments": {{"v": {digits}}}}}</tool_call>')
    assert fitted(reply, STRING) == digits
    with pytest.raises(ArgumentsError, match=r"\(8002 characters\)"):
        fitted(reply, {"type": "integer"})


@pytest.mark.parametrize("name", XML)
def test_long_number_is_a_string_where_the_schema_says_string(name: str) -> None:
    assert fitted(read(name, xml_call("f", v="9" * 10_000)), STRING) == "9" * 10_000


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_preserve_thinking"])
def test_call_inside_thinking_does_not_run(name: str) -> None:
    inside = xml_call("f", v="1").removesuffix(JSON_END)
    reply = read(name, f"I may {inside}\n</think>\n\n" + xml_call("g", v="2"))
    assert [call.name for call in reply.message.calls] == ["g"]


@pytest.mark.parametrize("name", XML)
def test_several_calls_are_read_in_order(name: str) -> None:
    text = xml_call("f", v="1").removesuffix(JSON_END) + "\n" + xml_call("g", v="2")
    assert [call.name for call in read(name, text).message.calls] == ["f", "g"]


def test_calls_are_written_back_into_history_as_they_were() -> None:
    renderer = renderer_of("qwen3_5_preserve_thinking")
    reply = read("qwen3_5_preserve_thinking", "x\n</think>\n\n" + xml_call("f", v="True"))
    from tinker_cookbook.renderers import RenderContext

    rendered = renderer.render_message(reply.host, RenderContext(idx=2, is_last=False))
    tokens = [token for chunk in rendered.output for token in chunk.tokens]
    assert "<parameter=v>\nTrue\n</parameter>" in renderer.tokenizer.decode(tokens)
