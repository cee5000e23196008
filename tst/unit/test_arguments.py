"""What a written value means under a schema."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel
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
    same_json,
)

from tinker_episodes.arguments import Arguments
from tinker_episodes.errors import ArgumentsError, DefinitionError

# ---------------------------------------------------------------- the table of the docstring


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({}, '{"a": 1}', {"a": 1}),
        ({}, "[1, 2]", [1, 2]),
        ({"description": "any"}, '{"a": 1}', {"a": 1}),
        (True, "[1]", [1]),
        ({}, "123", "123"),
        ({}, "null", "null"),
        ({}, "true", "true"),
        ({}, '"quoted"', '"quoted"'),
        ({}, " free text ", " free text "),
        ({}, "[1,", "[1,"),
    ],
)
def test_a_schema_that_says_nothing_reads_objects_and_arrays_only(
    schema: Any, text: str, value: Any
) -> None:
    assert same_json(fit_text(schema, text), value)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": ["string", "null"]}, "null", None),
        (any_of(STRING, NULL), "null", None),
        (any_of(STRING, NULL), " null\n", None),
        (STRING, "null", "null"),
        ({"enum": ["null", "x"]}, "null", "null"),
        ({"enum": ["null", None]}, "null", "null"),
        ({"enum": ["x", None]}, "null", None),
        ({"type": ["string", "null"]}, "None", "None"),
        ({"type": ["string", "null"]}, "nil", "nil"),
        ({"const": "null"}, "null", "null"),
    ],
)
def test_null_comes_before_text_unless_an_enum_decides(schema: Any, text: str, value: Any) -> None:
    assert same_json(fit_text(schema, text), value)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (STRING, "  indented\n", "  indented\n"),
        (STRING, "", ""),
        ({"enum": ["yes", "no"]}, " yes\n", "yes"),
        ({"enum": [" yes", "yes"]}, " yes", " yes"),
        ({"const": "go"}, "go ", "go"),
    ],
)
def test_a_string_is_as_written_and_an_enum_forgives_outer_space(
    schema: Any, text: str, value: Any
) -> None:
    assert same_json(fit_text(schema, text), value)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("false", False), ("False", False)]
)
def test_a_boolean_is_read_in_both_spellings(text: str, value: bool) -> None:
    assert fit_text(BOOLEAN, text) is value


@pytest.mark.parametrize("text", ["maybe", "1", "0", "yes", "TRUE", "", "truefalse"])
def test_a_boolean_refuses_other_words(text: str) -> None:
    with pytest.raises(ArgumentsError, match=r"argument 'x' is .* does not fit .*boolean"):
        fit_text(BOOLEAN, text)


@pytest.mark.parametrize("text", ["null", "None", "none", "nil", " None "])
def test_every_spelling_of_null_is_null_where_no_string_is_taken(text: str) -> None:
    assert fit_text({"type": ["integer", "null"]}, text) is None


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (INTEGER, "5", 5),
        (INTEGER, "-5", -5),
        (INTEGER, " 7\n", 7),
        (INTEGER, "140.0", 140),
        (INTEGER, "1e3", 1000),
        (NUMBER, "1e5", 100000),
        (NUMBER, "0.5", 0.5),
        (NUMBER, "-0.25e1", -2.5),
        (INTEGER, "123456789012345678901234567890", 123456789012345678901234567890),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": 5}, "5", 5),
        ({"type": ["integer", "string"]}, "5", "5"),
    ],
)
def test_numbers_are_read_as_json_writes_them(schema: Any, text: str, value: Any) -> None:
    assert same_json(fit_text(schema, text), value)


@pytest.mark.parametrize("text", ["1e20", "9007199254740993.0", "100000000000000000000.0"])
def test_a_large_integral_number_is_an_integer_with_all_of_its_digits(text: str) -> None:
    value = fit_text(INTEGER, text)
    assert type(value) is int
    assert value in (10**20, 9007199254740993)


@pytest.mark.parametrize(
    "text", ["2026-01-15", "-", "", "05", "+5", "1_000", "0x10", "5.5", "٣", "1e400", "NaN", "five"]
)
def test_an_integer_refuses_what_is_none(text: str) -> None:
    with pytest.raises(ArgumentsError, match="argument 'x'"):
        fit_text(INTEGER, text)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "inf", "1e999", "1,5", ".5", "5."]
)
def test_a_number_refuses_what_is_not_finite_json(text: str) -> None:
    with pytest.raises(ArgumentsError, match="argument 'x'"):
        fit_text(NUMBER, text)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (ARRAY, "[]", []),
        (ARRAY, ' ["a"]\n', ["a"]),
        (OBJECT, '{"a": null}', {"a": None}),
        (any_of({"type": "array", "items": STRING}, NULL), '["a","b"]', ["a", "b"]),
        ({"type": "array", "items": INTEGER}, '["1", 2, 3.0]', [1, 2, 3]),
        ({"type": "array", "items": STRING}, '["1", "null"]', ["1", "null"]),
        (
            {"type": "object", "properties": {"n": INTEGER, "s": STRING}},
            '{"n": "5", "s": "5"}',
            {"n": 5, "s": "5"},
        ),
        ({"type": "object", "additionalProperties": BOOLEAN}, '{"k": "True"}', {"k": True}),
    ],
)
def test_containers_are_json_and_their_values_follow_the_same_rules(
    schema: Any, text: str, value: Any
) -> None:
    assert same_json(fit_text(schema, text), value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING, "19122"),
        (INTEGER, 5),
        (NUMBER, 0.5),
        (ARRAY, ["1", 1]),
        (OBJECT, {"a": "1"}),
        (any_of(STRING, NULL), "null"),
        (any_of(INTEGER, STRING), "5"),
        ({}, "[1]"),
        ({}, 5),
        (BOOLEAN, False),
    ],
)
def test_a_typed_value_stands_where_the_schema_takes_it(schema: Any, value: Any) -> None:
    assert same_json(fit_json(schema, value), value)


@pytest.mark.parametrize(
    ("schema", "written", "value"),
    [
        (INTEGER, "5", 5),
        (INTEGER, 5.0, 5),
        (BOOLEAN, "false", False),
        (ARRAY, "[]", []),
        ({"type": ["integer", "null"]}, "null", None),
        (OBJECT, '{"a": 1}', {"a": 1}),
        ({"type": "array", "items": OBJECT}, ['{"a": 1}'], [{"a": 1}]),
        (
            {"type": "object", "properties": {"p": {"type": "array", "items": INTEGER}}},
            '{"p": "[\\"1\\", 2]"}',
            {"p": [1, 2]},
        ),
    ],
)
def test_a_typed_string_that_does_not_fit_is_read_like_a_text_at_any_depth(
    schema: Any, written: Any, value: Any
) -> None:
    assert same_json(fit_json(schema, written), value)


@pytest.mark.parametrize("value", [19122, 1.5, True, None, ["a"], {"a": 1}])
def test_a_typed_value_that_is_no_string_is_refused_where_one_is_due(value: Any) -> None:
    with pytest.raises(ArgumentsError, match=r"argument 'x' is .* does not fit .*string"):
        fit_json(STRING, value)


@pytest.mark.parametrize("value", [1, 0, "yes"])
def test_a_typed_value_is_never_made_a_boolean_by_its_truth(value: Any) -> None:
    with pytest.raises(ArgumentsError, match="argument 'x'"):
        fit_json(BOOLEAN, value)


# ---------------------------------------------------------------- what users hit (cases, section A)

_PERIOD = {
    "$defs": {
        "PeriodSpec": {
            "type": "object",
            "properties": {
                "kind": STRING,
                "days": INTEGER,
                "month_code": any_of({"type": "string", "pattern": "^[0-9]{6}$"}, NULL),
            },
        }
    }
}


@pytest.mark.parametrize(
    ("case", "schema", "text", "value"),
    [
        ("A1", STRING, "null", "null"),
        ("A1 nullable", {"type": ["string", "null"]}, "null", None),
        ("A1 anyOf", any_of(STRING, NULL), "null", None),
        ("A1 integer", {"type": ["integer", "null"]}, "null", None),
        ("A2", STRING, "12345", "12345"),
        ("A2 nullable", {"type": ["string", "null"]}, "007", "007"),
        ("A2 anyOf", any_of(STRING, NULL), "19122", "19122"),
        ("A2 anyOf, null first", any_of(NULL, STRING), "1e5", "1e5"),
        ("A3 object", STRING, '{"key": "value", "n": 1}', '{"key": "value", "n": 1}'),
        ("A3 array", STRING, "[1, 2, 3]", "[1, 2, 3]"),
        ("A3 quoted", STRING, '"quoted text"', '"quoted text"'),
        ("A3 nullable object", any_of(STRING, NULL), '{"key": 1}', '{"key": 1}'),
        ("A5 integer", INTEGER, "10", 10),
        ("A5 array", ARRAY, "[]", []),
        ("A6 integer", any_of(INTEGER, NULL), "5", 5),
        ("A6 string", any_of(STRING, NULL), "5", "5"),
        ("A9 false", {"type": ["boolean", "null"]}, "false", False),
        ("A9 null", {"type": ["boolean", "null"]}, "null", None),
        ("A13", BOOLEAN, "True", True),
        ("A15", {"enum": ["none", "yes", "no"]}, "none", "none"),
        ("A15 typed", {"type": "string", "enum": ["nil", "yes"]}, "nil", "nil"),
        ("A15 nullable", any_of({"enum": ["none", "yes"]}, NULL), "none", "none"),
        ("A17", any_of({"type": "array", "items": STRING}, NULL), '["a","b"]', ["a", "b"]),
        ("A18 number", {}, "123", "123"),
        ("A18 object", {}, '{"a":1}', {"a": 1}),
        ("A24", BOOLEAN, "false", False),
    ],
)
def test_texts_that_users_reported(case: str, schema: Any, text: str, value: Any) -> None:
    assert same_json(fit_text(schema, text), value), case


@pytest.mark.parametrize(
    ("case", "schema", "written", "value"),
    [
        ("A2", STRING, "12345", "12345"),
        ("A3", STRING, "[1, 2, 3]", "[1, 2, 3]"),
        ("A5", INTEGER, "10", 10),
        ("A5 array", ARRAY, "[]", []),
        ("A6", any_of(INTEGER, NULL), 5, 5),
        ("A9", {"type": ["boolean", "null"]}, "false", False),
        ("A13", BOOLEAN, "True", True),
        ("A15", {"enum": ["none", "yes", "no"]}, "none", "none"),
        ("A17", any_of({"type": "array", "items": STRING}, NULL), '["a","b"]', ["a", "b"]),
        ("A24", BOOLEAN, "false", False),
    ],
)
def test_json_values_that_users_reported(case: str, schema: Any, written: Any, value: Any) -> None:
    assert same_json(fit_json(schema, written), value), case


@pytest.mark.parametrize("typed", [False, True])
def test_an_object_behind_a_reference_is_an_object(typed: bool) -> None:
    arguments = arguments_of({"$ref": "#/$defs/PeriodSpec"}, **_PERIOD)
    written = {"x": '{"kind":"last_n_days","days":7,"month_code":"202601"}'}
    expected = {"kind": "last_n_days", "days": 7, "month_code": "202601"}
    assert same_json(arguments.fit(written, typed=typed)["x"], expected)


def test_an_object_behind_a_reference_is_typed_inside() -> None:
    value = fit_text({"$ref": "#/$defs/PeriodSpec"}, '{"kind": "k", "days": "7"}', **_PERIOD)
    assert same_json(value, {"kind": "k", "days": 7})


def test_an_object_behind_a_nullable_reference_is_an_object() -> None:
    value = fit_text(any_of({"$ref": "#/$defs/PeriodSpec"}, NULL), '{"days": "7"}', **_PERIOD)
    assert same_json(value, {"days": 7})


def test_the_schema_of_a_nullable_literal_keeps_its_words() -> None:
    class Model(BaseModel):
        x: Literal["none", "yes"] | None = None

    arguments = Arguments("f", Model.model_json_schema())
    assert arguments.fit({"x": "none"}, typed=False) == {"x": "none"}


def test_a_recursive_schema_types_every_level() -> None:
    tree = {"type": "object", "properties": {"n": INTEGER, "next": {"$ref": "#/$defs/Tree"}}}
    value = fit_text(
        {"$ref": "#/$defs/Tree"}, '{"n": "1", "next": {"n": "2"}}', **{"$defs": {"Tree": tree}}
    )
    assert same_json(value, {"n": 1, "next": {"n": 2}})


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("text", ["2026-01-15", "-", "9" * 10_000])
def test_a_text_that_is_no_integer_is_an_error_to_the_model(text: str, typed: bool) -> None:
    with pytest.raises(ArgumentsError, match=r"argument 'x' is .* does not fit .*integer"):
        arguments_of(INTEGER).fit({"x": text}, typed=typed)


@pytest.mark.parametrize("typed", [False, True])
def test_a_boolean_refuses_maybe(typed: bool) -> None:
    with pytest.raises(ArgumentsError, match="argument 'x' is \"maybe\""):
        arguments_of(BOOLEAN).fit({"x": "maybe"}, typed=typed)


# ---------------------------------------------------------------- arguments as one text


def test_arguments_that_were_encoded_twice_are_decoded_once() -> None:
    assert arguments_of(INTEGER).fit('{"x": 1}', typed=True) == {"x": 1}


@pytest.mark.parametrize(
    "text", ["[1]", '"x"', "null", "5", "", "{", "NaN", "[" * 100_000, '{"x": ' * 50_000, "\ud800"]
)
def test_arguments_that_are_no_object_are_an_error_to_the_model(text: str) -> None:
    with pytest.raises(ArgumentsError, match="the arguments must be a JSON object, got"):
        arguments_of(INTEGER).fit(text, typed=True)


def test_a_whole_text_is_json_also_where_the_format_is_untyped() -> None:
    assert arguments_of(INTEGER).fit('{"x": 1}', typed=False) == {"x": 1}


# ---------------------------------------------------------------- messages


def test_a_missing_argument_is_named_with_those_that_there_are() -> None:
    arguments = Arguments(
        "f", {"type": "object", "properties": {"a": STRING, "b": STRING}, "required": ["a", "b"]}
    )
    with pytest.raises(ArgumentsError, match="missing: b; the tool takes: a, b"):
        arguments.fit({"a": "1"}, typed=False)


def test_a_missing_value_inside_an_argument_is_named_with_its_place() -> None:
    schema = {"type": "object", "properties": {"days": INTEGER}, "required": ["days"]}
    with pytest.raises(ArgumentsError, match="missing in 'x': days"):
        fit_text(schema, "{}")


def test_an_unknown_argument_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ArgumentsError, match='there is no argument "y"; the tool takes: x'):
        arguments_of(STRING, additionalProperties=False).fit({"x": "1", "y": "2"}, typed=False)


def test_a_tool_without_arguments_says_so() -> None:
    arguments = Arguments("f", {"type": "object", "properties": {}, "additionalProperties": False})
    with pytest.raises(ArgumentsError, match="the tool takes: none"):
        arguments.fit({"y": "2"}, typed=False)


def test_an_unknown_argument_that_the_schema_allows_is_kept() -> None:
    assert arguments_of(STRING).fit({"y": "05"}, typed=False) == {"y": "05"}


def test_an_unknown_argument_is_typed_by_the_schema_of_the_others() -> None:
    arguments = Arguments("f", {"type": "object", "additionalProperties": INTEGER})
    assert arguments.fit({"y": "5"}, typed=False) == {"y": 5}


def test_a_wrong_value_inside_an_argument_is_named_by_its_path() -> None:
    with pytest.raises(ArgumentsError, match=r"argument 'x\.1' is \"b\""):
        fit_text({"type": "array", "items": INTEGER}, '[1, "b"]')


# ---------------------------------------------------------------- schemas


def test_a_schema_that_is_none_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="tool 'f': its schema is none"):
        Arguments("f", {"type": "object", "properties": {"x": {"type": "text"}}})


def test_a_pattern_that_is_no_regex_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="tool 'f'"):
        arguments_of({"type": "string", "pattern": "["})


def test_a_schema_that_is_no_object_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="must be of type object"):
        Arguments("f", {"type": "array"})


@pytest.mark.parametrize("reference", ["#/$defs/nothing", "https://example.invalid/schema.json"])
def test_a_reference_to_nothing_is_found_when_the_schema_is_read(reference: str) -> None:
    with pytest.raises(DefinitionError, match="tool 'f'"):
        arguments_of({"$ref": reference})


def test_the_written_values_are_left_as_they_are() -> None:
    written = {"x": {"n": "5"}}
    fit_json({"type": "object", "properties": {"n": INTEGER}}, written["x"])
    assert written == {"x": {"n": "5"}}
