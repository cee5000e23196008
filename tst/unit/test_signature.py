from __future__ import annotations

import enum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

from tinker_episodes.errors import ArgumentsError, DefinitionError
from tinker_episodes.signature import arguments_model, keywords, schema_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    title: str = "Home"


def _model(method: Any) -> type[BaseModel]:
    return arguments_model("tool Env.f", method)


def _properties(method: Any) -> dict[str, Any]:
    return schema_of("tool Env.f", _model(method))["properties"]


def test_an_annotated_text_is_the_arguments_description() -> None:
    def f(self: Any, number: Annotated[int, "Your guess"]) -> None: ...

    assert _properties(f) == {"number": {"type": "integer", "description": "Your guess"}}


def test_pydantics_own_marks_stand_in_the_schema() -> None:
    def f(self: Any, number: Annotated[int, Field(ge=1, description="At least 1")]) -> None: ...

    assert _properties(f)["number"] == {
        "type": "integer",
        "minimum": 1,
        "description": "At least 1",
    }


def test_an_argument_without_a_default_is_required_and_others_are_not() -> None:
    def f(self: Any, a: str, b: int = 3, *, c: bool) -> None: ...

    schema = schema_of("f", _model(f))
    assert schema["required"] == ["a", "c"]
    assert schema["properties"]["b"] == {"type": "integer", "default": 3}


def test_unknown_arguments_are_not_allowed() -> None:
    def f(self: Any, a: str) -> None: ...

    assert schema_of("f", _model(f))["additionalProperties"] is False


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
    ],
)
def test_a_type_gives_its_schema(annotation: Any, expected: dict[str, Any]) -> None:
    def f(self: Any, x: Any) -> None: ...

    f.__annotations__["x"] = annotation
    assert _properties(f) == {"x": expected}


def test_an_enum_is_its_values_and_arrives_as_its_member() -> None:
    def f(self: Any, color: Color) -> None: ...

    schema = schema_of("f", _model(f))
    assert schema["$defs"]["Color"]["enum"] == ["red", "blue"]
    assert keywords(_model(f), {"color": "red"}) == {"color": Color.RED}


def test_a_nested_model_arrives_as_a_model() -> None:
    def f(self: Any, to: Address) -> None: ...

    assert keywords(_model(f), {"to": {"street": "S"}}) == {"to": Address(street="S")}


def test_titles_are_left_out_but_a_field_named_title_stays() -> None:
    def f(self: Any, to: Address, title: str) -> None: ...

    schema = schema_of("f", _model(f))
    assert schema["$defs"]["Address"]["properties"] == {
        "street": {"type": "string"},
        "title": {"type": "string", "default": "Home"},
    }
    assert schema["properties"]["title"] == {"type": "string"}
    assert "title" not in schema
    assert "title" not in schema["$defs"]["Address"]


@pytest.mark.parametrize(
    "name", ["schema", "copy", "_x", "__x__", "json", "model_config", "validate", "dict", "cls"]
)
def test_any_name_of_an_argument_serves(name: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f(self, {name}: int, other: str = 'o'): ...", space)  # noqa: S102
    assert list(_properties(space["f"])) == [name, "other"]
    assert keywords(_model(space["f"]), {name: 1}) == {name: 1, "other": "o"}


def test_an_argument_without_a_type_is_refused_by_name() -> None:
    def f(self: Any, a: int, b) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(
        DefinitionError, match=r"tool Env\.f: argument 'b' has no type; write `b: str`"
    ):
        _model(f)


@pytest.mark.parametrize("parameters", ["*args: int", "**more: int", "a: int, /"])
def test_an_argument_that_has_no_name_is_refused(parameters: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f(self, {parameters}): ...", space)  # noqa: S102
    with pytest.raises(DefinitionError, match=r"tool Env\.f: .* by name"):
        _model(space["f"])


def test_an_annotation_that_names_nothing_is_refused() -> None:
    def f(self: Any, a: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(DefinitionError, match=r"tool Env\.f: its annotations can't be read"):
        _model(f)


def test_a_type_that_pydantic_does_not_know_is_refused() -> None:
    class Odd: ...

    def f(self: Any, a: Any) -> None: ...

    f.__annotations__["a"] = Odd
    with pytest.raises(DefinitionError, match=r"tool Env\.f: its arguments give no schema"):
        _model(f)


def test_a_type_that_json_schema_does_not_know_is_refused() -> None:
    def f(self: Any, a: Any) -> None: ...

    f.__annotations__["a"] = type(f)
    with pytest.raises(DefinitionError, match=r"tool Env\.f"):
        schema_of("tool Env.f", _model(f))


def test_what_the_types_refuse_is_an_error_with_the_arguments_name() -> None:
    def f(self: Any, to: Address) -> None: ...

    with pytest.raises(ArgumentsError, match=r"argument 'to\.street': Field required"):
        keywords(_model(f), {"to": {}})


def test_a_default_stands_where_an_argument_is_absent() -> None:
    def f(self: Any, a: int = 4, b: str | None = None) -> None: ...

    assert keywords(_model(f), {}) == {"a": 4, "b": None}
