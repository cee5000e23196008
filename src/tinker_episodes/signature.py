"""A tool's signature as a pydantic model, and its JSON Schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator, create_model
from pydantic.errors import PydanticUserError

from tinker_episodes.errors import ArgumentsError, DefinitionError


def arguments_model(where: str, method: Callable[..., Any]) -> type[BaseModel]:
    """The pydantic model of a method's parameters; `Annotated[int, "text"]` gives a description."""
    try:
        hints = get_type_hints(method, include_extras=True)
    except Exception as error:
        raise DefinitionError(f"{where}: its annotations can't be read: {error}") from error
    fields: dict[str, Any] = {}
    parameters = list(inspect.signature(method).parameters.values())[1:]
    for at, parameter in enumerate(parameters):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise DefinitionError(
                f"{where}: {parameter} can't be given by name; give each argument a name and a type"
            )
        if parameter.name not in hints:
            raise DefinitionError(
                f"{where}: argument {parameter.name!r} has no type; "
                f"write `{parameter.name}: str`, or what it is"
            )
        # An alias, since pydantic refuses or shadows some names: `_x`, `schema`, `copy`.
        field = Field(default=_default(parameter), alias=parameter.name)
        fields[f"argument_{at}"] = (_any_text(_described(hints[parameter.name])), field)
    try:
        return create_model(
            f"{method.__name__}_arguments", __config__=ConfigDict(extra="forbid"), **fields
        )
    except (PydanticUserError, TypeError, ValueError, NameError) as error:
        raise DefinitionError(f"{where}: its arguments give no schema: {error}") from error


def given_types(method: Callable[..., Any]) -> set[type]:
    """The types that a method's return annotation names, by themselves or inside of others."""
    try:
        hints = get_type_hints(method)
    except Exception:  # noqa: BLE001 - names that only a type checker sees; a return says nothing then
        return set()

    def named(annotation: Any) -> set[type]:
        own = {annotation} if isinstance(annotation, type) else set[type]()
        return own.union(*(named(inner) for inner in get_args(annotation)))

    return named(hints.get("return"))


def _described(annotation: Any) -> Any:
    """`Annotated[T, "text"]` as `Annotated[T, Field(description="text")]`."""
    if get_origin(annotation) is not Annotated:
        return annotation
    base, *extras = get_args(annotation)
    marks = [Field(description=extra) if isinstance(extra, str) else extra for extra in extras]
    return Annotated[(base, *marks)]


def _any_text(annotation: Any) -> Any:
    """The annotation with every `str` taking lone surrogates too, which pydantic refuses: JSON
    carries them, and what the model wrote is what the tool gets.
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is str:
        return Annotated[str, _ANY_TEXT]
    if origin is Annotated and inner[0] is str:
        return Annotated[(*inner, _ANY_TEXT)]
    if origin is Annotated:
        return Annotated[(_any_text(inner[0]), *inner[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(_any_text(item) for item in inner)]  # noqa: UP007 - from a tuple
    if origin is list or origin is dict:
        return GenericAlias(origin, tuple(_any_text(item) for item in inner))
    return annotation


def _with_surrogates(value: Any, handler: Callable[[Any], Any]) -> Any:
    """A text with lone surrogates is checked as if each were a question mark."""
    if isinstance(value, str) and not value.isascii():
        plain = value.encode("utf-8", "replace").decode("utf-8")
        checked = handler(plain)
        return value if checked == plain != value else checked
    return handler(value)


_ANY_TEXT = WrapValidator(_with_surrogates)


def _default(parameter: inspect.Parameter) -> Any:
    return ... if parameter.default is parameter.empty else parameter.default


def schema_of(where: str, model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of an arguments model.

    Raises:
        DefinitionError: a type that JSON Schema can't express.
    """
    try:
        schema = model.model_json_schema()
    except PydanticUserError as error:
        raise DefinitionError(f"{where}: its arguments give no schema: {error}") from error
    return _without_titles(schema)


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the titles that pydantic makes of names: the model pays for each token."""
    kept = {key: value for key, value in schema.items() if key != "title"}
    for key in ("properties", "$defs"):
        if key in kept:
            kept[key] = {name: _without_titles(item) for name, item in kept[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _without_titles(kept[key])
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if key in kept:
            kept[key] = [_without_titles(item) for item in kept[key]]
    return kept


def keywords(model: type[BaseModel], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the signature's own types, defaults included.

    Raises:
        ArgumentsError: what the schema takes and the types refuse.
    """
    try:
        parsed = model.model_validate(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(str(step) for step in first["loc"])
        raise ArgumentsError(f"argument {path!r}: {first['msg']}") from error
    return {
        field.alias: getattr(parsed, name)
        for name, field in model.model_fields.items()
        if field.alias is not None
    }
