"""Values that models write, schemas that tools have, and what each pair must give: written down by
hand, so that it says nothing of how the library finds it.
"""

from __future__ import annotations

from typing import Any

from support.arguments import any_of

VALUES = {
    "number": "19122",
    "zero first": "00123",
    "decimal": "19.90",
    "exponent": "1e5",
    "huge": "1E400",
    "negative zero": "-0",
    "whole float": "140.0",
    "half": "140.5",
    "NaN": "NaN",
    "minus infinity": "-Infinity",
    "hex": "0x1F",
    "long number": "12345678901234567890",
    "longest number": "7" * 5000,
    "true": "true",
    "True": "True",
    "false": "false",
    "False": "False",
    "null": "null",
    "None": "None",
    "none": "none",
    "quoted": '"quoted"',
    "object": '{"a": 1}',
    "array": "[1, 2]",
    "nested": '{"outer": {"inner": "5"}}',
    "twice encoded array": '"[1, 2]"',
    "twice encoded object": '"{\\"a\\": 1}"',
    "brackets": "[" * 3000,
    "empty": "",
    "spaces": "  7  ",
    "newlines": "\n\nx\n\n",
    "one newline": "\n",
    "indented": "    if x:\n        return 1\n",
    "CRLF": "a\r\nb\r\n",
    "tabs": "\ta\t",
    "unicode": "é漢🙂",
    "lone surrogate": "a\ud800b",
    "parameter end": "A block ends with </parameter> here.",
    "call end": "x</tool_call>y",
    "function end": "x</function>\n</tool_call>y",
    "parameter": "<parameter=x>1</parameter>",
    "value end": "x</arg_value>y",
    "key": "<arg_key>x</arg_key>",
    "dsml": "x</｜DSML｜ parameter>y",
    "special": "a<|im_end|><|end|><｜end▁of▁sentence｜><|message|><|user|>b",
    "section": "<|tool_call_end|><|tool_calls_section_end|><｜tool▁call▁end｜>",
    "reasoning": "<think>x</think> </think>",
    "long": "lorem ipsum " * 8_534,
}
"""Each a text, as a model means it."""

INTEGERS = {
    "19122": 19122,
    "1e5": 100000,
    "-0": 0,
    "140.0": 140,
    "12345678901234567890": 12345678901234567890,
    "  7  ": 7,
}
NUMBERS = {**INTEGERS, "19.90": 19.9, "140.5": 140.5}
BOOLEANS = {"true": True, "True": True, "false": False, "False": False}
NULLS: dict[str, Any] = {"null": None, "None": None, "none": None}
OBJECTS = {
    '{"a": 1}': {"a": 1},
    '"{\\"a\\": 1}"': {"a": 1},
}
NESTED = {'{"outer": {"inner": "5"}}': {"outer": {"inner": "5"}}}
ARRAYS = {"[1, 2]": [1, 2], '"[1, 2]"': [1, 2]}
INNER = {
    "type": "object",
    "properties": {"outer": {"type": "object", "properties": {"inner": {"type": "integer"}}}},
    "required": ["outer"],
}
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
DEFS = {"Period": CLOSED, "Words": {"type": "string"}}
STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
LIST = {"type": "array", "items": {"type": "integer"}}
WORDS = {"enum": ["none", "null", "True", 19122]}

TEXT = object()
"""In place of a table: any text, as it is."""

Cells = tuple[Any, Any, dict[str, Any]]
SCHEMAS: dict[str, Cells] = {
    # the schema; what texts give under it, or TEXT; and where that differs
    "string": (STRING, TEXT, {}),
    "string with a format": ({"type": "string", "format": "date"}, TEXT, {}),
    "string by reference": ({"$ref": "#/$defs/Words"}, TEXT, {}),
    "string by allOf": ({"allOf": [STRING, {"maxLength": 200_000}]}, TEXT, {}),
    "string or null": ({"type": ["string", "null"]}, TEXT, {"null": None}),
    "anyOf string, null": (any_of(STRING, NULL), TEXT, {"null": None}),
    "integer or string": ({"type": ["integer", "string"]}, TEXT, {}),
    "nothing": ({}, TEXT, {**NESTED, '{"a": 1}': {"a": 1}, "[1, 2]": [1, 2]}),
    "described": ({"description": "any"}, TEXT, {**NESTED, '{"a": 1}': {"a": 1}, "[1, 2]": [1, 2]}),
    "integer": (INTEGER, INTEGERS, {}),
    "integer with a default": ({"type": "integer", "default": 3}, INTEGERS, {}),
    "integer or null": ({"type": ["integer", "null"]}, {**INTEGERS, **NULLS}, {}),
    "anyOf integer, null": (any_of(INTEGER, NULL), {**INTEGERS, **NULLS}, {}),
    "number": ({"type": "number"}, NUMBERS, {}),
    "number or null": (any_of({"type": "number"}, NULL), {**NUMBERS, **NULLS}, {}),
    "boolean": ({"type": "boolean"}, BOOLEANS, {}),
    "boolean or null": ({"type": ["boolean", "null"]}, {**BOOLEANS, **NULLS}, {}),
    "null": (NULL, NULLS, {}),
    "enum": (WORDS, {"none": "none", "null": "null", "True": "True", "19122": 19122}, {}),
    "enum or null": (
        any_of({"enum": ["null", "yes"]}, NULL),
        {"null": "null", "None": None, "none": None},
        {},
    ),
    "const": ({"const": "00123"}, {"00123": "00123"}, {}),
    "const or null": (any_of({"const": "None"}, NULL), {**NULLS, "None": "None"}, {}),
    "array": (LIST, ARRAYS, {}),
    "array or null": ({"oneOf": [LIST, NULL]}, {**ARRAYS, **NULLS}, {}),
    "object": ({"type": "object"}, {**OBJECTS, **NESTED}, {}),
    "object or null": (any_of({"type": "object"}, NULL), {**OBJECTS, **NESTED, **NULLS}, {}),
    "closed object": (CLOSED, OBJECTS, {}),
    "object by reference": ({"$ref": "#/$defs/Period"}, OBJECTS, {}),
    "nested object": (
        INNER,
        {'{"outer": {"inner": "5"}}': {"outer": {"inner": 5}}},
        {},
    ),
    "object that lacks a name": ({"type": "object", "required": ["b"]}, {}, {}),
}
REFUSED = object()
"""What a cell gives that is to be an error."""


def expected(schema: str, text: str, *, as_text: bool) -> Any:
    """What a value gives under a schema.

    Args:
        as_text: Whether the wire carries it as a bare text; if not, as a JSON string: there a
            schema that takes strings takes it as it is.
    """
    _, table, otherwise = SCHEMAS[schema]
    if table is not TEXT:
        return table.get(text, REFUSED)
    return otherwise.get(text, text) if as_text else text


def whole(schema: str) -> dict[str, Any]:
    """The schema of a tool with one argument `v`."""
    return {
        "type": "object",
        "properties": {"v": SCHEMAS[schema][0]},
        "required": ["v"],
        "additionalProperties": False,
        "$defs": DEFS,
    }


def carries(renderer: str, text: str) -> bool:
    """Whether the renderer's wire format can carry a text."""
    if renderer.startswith(("qwen3_5", "qwen3_8", "nemotron3")):
        return not any(mark in text for mark in ("</parameter>", "<parameter=", "\ud800"))
    if renderer.startswith("glm5_3"):
        return not any(mark in text for mark in ("</arg_value>", "<arg_key>", "\ud800"))
    if renderer.startswith("deepseekv4_1"):
        return not any(mark in text for mark in ("｜DSML｜", "\ud800"))
    return True
