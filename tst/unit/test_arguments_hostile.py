"""Whatever a model writes: it fits the schema or is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.arguments import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    any_of,
    arguments_of,
    fit_json,
    fit_text,
)

from tinker_episodes.arguments import Arguments
from tinker_episodes.errors import ArgumentsError

# ---------------------------------------------------------------- hostile values

_HOSTILE = {
    "long number": "9" * 10_000,
    "long fraction": "0." + "9" * 10_000,
    "long exponent": "1e" + "9" * 1000,
    "number of the longest length that is read": "9" * 4300,
    "lone surrogate": "a\ud800b",
    "brackets": "[" * 100_000,
    "closed brackets": "[" * 100_000 + "]" * 100_000,
    "deep object": '{"a":' * 300 + "1" + "}" * 300,
    "braces": "{" * 100_000,
    "NaN": "NaN",
    "NaN inside": '{"a": [NaN]}',
    "Infinity": "-Infinity",
    "infinite inside": "[1e400]",
    "NUL": "\x00",
    "empty": "",
    "long number inside": '{"a": ' + "9" * 10_000 + "}",
    "whitespace": " \t\r\n\u2028\x85",
}


@pytest.mark.parametrize("text", _HOSTILE.values(), ids=_HOSTILE)
@pytest.mark.parametrize("typed", [False, True])
def test_a_string_argument_takes_any_text_as_it_is(text: str, typed: bool) -> None:
    assert arguments_of(STRING).fit({"x": text}, typed=typed) == {"x": text}


@pytest.mark.parametrize("text", _HOSTILE.values(), ids=_HOSTILE)
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    "schema",
    [
        INTEGER,
        NUMBER,
        BOOLEAN,
        ARRAY,
        OBJECT,
        {"enum": ["a", 1]},
        any_of(INTEGER, NULL),
        {"type": "integer", "multipleOf": 0.5},
        {"type": "number", "multipleOf": 0.01},
        {"type": "integer", "maximum": 1e300},
        {"type": "array", "uniqueItems": True},
    ],
    ids=json.dumps,
)
def test_a_hostile_text_is_refused_or_fits(schema: Any, text: str, typed: bool) -> None:
    try:
        value = arguments_of(schema).fit({"x": text}, typed=typed)["x"]
    except ArgumentsError:
        return
    assert Draft202012Validator(schema).is_valid(value)
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("text", ["[" * 100_000, "NaN", "9" * 10_000, "\ud800", '{"a": NaN}'])
def test_a_hostile_text_stays_text_where_the_schema_says_nothing(text: str) -> None:
    assert fit_text({}, text) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, [math.nan], {"a": [-math.inf]}])
@pytest.mark.parametrize("schema", [{}, NUMBER, ARRAY, OBJECT], ids=json.dumps)
def test_a_typed_value_that_is_not_finite_is_refused(schema: Any, value: Any) -> None:
    with pytest.raises(ArgumentsError):
        fit_json(schema, value)


@pytest.mark.parametrize("depth", [65, 5000])
def test_a_value_nested_too_deeply_is_refused(depth: int) -> None:
    tree = any_of(INTEGER, {"type": "array", "items": {"$ref": "#/$defs/Tree"}})
    deep: Any = "1"
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(ArgumentsError, match="nested too deeply"):
        fit_json({"$ref": "#/$defs/Tree"}, deep, **{"$defs": {"Tree": tree}})


def test_an_error_message_does_not_repeat_a_long_value() -> None:
    with pytest.raises(ArgumentsError, match=r"… \(\d+ characters\)") as caught:
        fit_text(INTEGER, "x" * 100_000)
    assert len(str(caught.value)) < 500


def test_a_hostile_name_is_refused() -> None:
    arguments = arguments_of(STRING, additionalProperties=False)
    with pytest.raises(ArgumentsError, match="there is no argument"):
        arguments.fit({"\ud800" * 3: "1"}, typed=False)


# ---------------------------------------------------------------- anything at all

_TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["null", "None", "true", "False", "NaN", "1e400", "[]", "{}", "\ud800", "-"]),
    st.integers().map(str),
    st.floats().map(str),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        ),
        max_leaves=6,
    ).map(json.dumps),
)

_LEAVES = st.one_of(
    st.sampled_from([STRING, INTEGER, NUMBER, BOOLEAN, NULL, ARRAY, OBJECT, {}]),
    st.lists(
        st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"]),
        min_size=1,
        max_size=3,
        unique=True,
    ).map(lambda kinds: {"type": kinds}),
    st.sampled_from(
        [{"enum": ["none", 1, None]}, {"enum": ["null", "5"]}, {"const": 5}, {"const": "5"}]
    ),
    st.just({"$ref": "#/$defs/Node"}),
    st.sampled_from([{"type": "string", "maxLength": 2}, {"type": "integer", "minimum": 0}]),
)

_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda many: {"anyOf": many}),
        st.lists(inner, min_size=1, max_size=2).map(lambda many: {"allOf": many}),
        st.lists(inner, min_size=1, max_size=2).map(lambda many: {"oneOf": many}),
        inner.map(lambda one: {"type": "array", "items": one}),
        inner.map(lambda one: {"type": "array", "prefixItems": [one]}),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda by_name: {"type": "object", "properties": by_name, "additionalProperties": False}
        ),
        inner.map(lambda one: {"type": "object", "additionalProperties": one}),
    ),
    max_leaves=5,
)

_NODE = {"type": "object", "properties": {"a": INTEGER, "b": {"$ref": "#/$defs/Node"}}}


@settings(max_examples=400)
@given(schema=_SCHEMAS, texts=st.dictionaries(st.sampled_from("xyz"), _TEXTS, max_size=3))
def test_any_texts_fit_the_schema_or_are_refused(schema: Any, texts: dict[str, str]) -> None:
    whole = {
        "type": "object",
        "properties": {"x": schema, "y": STRING},
        "$defs": {"Node": _NODE},
    }
    arguments = Arguments("f", whole)
    for typed in (False, True):
        try:
            fitted = arguments.fit(texts, typed=typed)
        except ArgumentsError:
            continue
        Draft202012Validator(whole).validate(fitted)
        json.dumps(fitted, allow_nan=False)


@settings(max_examples=200)
@given(text=st.text(st.characters(), max_size=50))
def test_any_text_comes_back_identical_where_a_string_is_due(text: str) -> None:
    for schema in (STRING, {"type": ["string"]}, {"$ref": "#/$defs/S"}):
        arguments = arguments_of(schema, **{"$defs": {"S": STRING}})
        for typed in (False, True):
            assert arguments.fit({"x": text}, typed=typed) == {"x": text}


@settings(max_examples=200)
@given(text=_TEXTS.filter(lambda text: text.strip() != "null"))
def test_any_text_but_null_comes_back_identical_where_a_string_may_be_null(text: str) -> None:
    for schema in ({"type": ["string", "null"]}, any_of(NULL, STRING), any_of(STRING, NULL)):
        assert fit_text(schema, text) == text


@settings(max_examples=200)
@given(text=_TEXTS)
def test_any_whole_text_is_an_object_of_arguments_or_refused(text: str) -> None:
    for typed in (False, True):
        try:
            fitted = arguments_of({}).fit(text, typed=typed)
        except ArgumentsError:
            continue
        assert fitted.keys() == json.loads(text).keys()
