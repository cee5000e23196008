"""The fast check of plain schemas, held against jsonschema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tinker_episodes.plain_schema import plain_check

NAMES = ("a", "b", "c")
TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")

SCALARS = (None, True, False, 0, 1, -2, 0.0, 1.0, 1.5, 1e300, "", "a", "b", "1", "null", "\ud800")
VALUES = (
    *SCALARS,
    *([item] for item in SCALARS),
    *({name: item} for name in NAMES for item in SCALARS),
)  # fmt: skip
_deeper = st.recursive(
    st.sampled_from(VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=6,
)
_types = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, unique=True)}
)
_enums = st.fixed_dictionaries(
    {"enum": st.lists(st.sampled_from(["a", "b", "1"]), min_size=1, unique=True)},
    optional={"type": st.just("string")},
)


def _larger(inner: Any) -> Any:
    names = st.lists(st.sampled_from(NAMES), unique=True)
    kinds = st.sampled_from(TYPES)
    return st.one_of(
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"items": inner}, optional={"type": kinds}),
        st.fixed_dictionaries(
            {},
            optional={
                "type": kinds,
                "title": st.just("A"),
                "default": st.just(1),
                "format": st.just("date"),
                "properties": st.dictionaries(st.sampled_from(NAMES), inner),
                "required": names,
                "additionalProperties": st.booleans() | inner,
            },
        ),
    )


_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}
_schemas = st.recursive(_types | _enums | st.booleans(), _larger, max_leaves=8)


@example({"properties": {"a": _STRING}, "additionalProperties": _INTEGER}, [{"a": "x", "b": 1}])
@given(schema=_schemas, values=st.lists(_deeper, max_size=4))
@settings(max_examples=300, deadline=None)
def test_a_plain_check_says_what_jsonschema_says(schema: Any, values: list[Any]) -> None:
    check = plain_check(schema)
    assert check is not None
    validator = Draft202012Validator(schema)
    for value in (*VALUES, *values):
        assert check(value) is validator.is_valid(value), value


@pytest.mark.parametrize(
    "rule",
    [
        {"minimum": 1},
        {"pattern": "a"},
        {"enum": ["a", 1]},
        {"const": "a"},
        {"$ref": "#/$defs/a"},
        {"oneOf": [{"type": "string"}]},
        {"properties": {"a": {"maxLength": 1}}},
        {"items": {"multipleOf": 2}},
        {"anyOf": [{"type": "null"}, {"not": {}}]},
        {"additionalProperties": {"minLength": 1}},
        {"patternProperties": {"a": {}}},
        {"prefixItems": [{}]},
        {"a key of tomorrow": 1},
    ],
    ids=str,
)
def test_what_is_not_plain_is_left_to_jsonschema(rule: dict[str, Any]) -> None:
    assert plain_check(rule) is None
    assert plain_check({"type": "object", "properties": {"x": rule}}) is None
