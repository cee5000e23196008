"""Arguments typed by a tool's schema: never by what a text looks like.

Some wire formats write every value as bare text. What such a text means is decided here, by the
schema, in this order; the first reading that the schema takes is the value:

| # | reading         | of the text                           | where                              |
|---|-----------------|---------------------------------------|------------------------------------|
| 1 | object, array   | JSON                                  | only where the schema says nothing |
| 2 | null            | `null`                                | unless an enum or const lists it   |
| 3 | string          | as written, then without outer space  | the second for an enum or const    |
| 4 | boolean         | `true` `True` `false` `False`         |                                    |
| 5 | null            | `None` `none` `nil`                   |                                    |
| 6 | integer, number | JSON's, finite; `140.0` is 140        |                                    |
| 7 | object, array   | JSON; inside it by these same rules   |                                    |

So a nullable string takes `null` as null and `None` as text, an enum that lists `"null"` or
`"none"` takes that word, `19122` is a string wherever the schema takes one, and where the schema
says nothing `123` stays text. In formats that carry JSON types the written value stands if the
schema takes it; a string that the schema does not take is read like a text, at any depth, which
undoes values that were encoded twice. An integer of more digits than Python reads counts as the
text of its digits. A `default` is the tool's own: nothing is filled in here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match  # pyright: ignore[reportUnknownVariableType] - jsonschema leaves it untyped
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from tinker_episodes.decoding import DEEPEST, NotJson, decoded
from tinker_episodes.errors import ArgumentsError, DefinitionError
from tinker_episodes.plain_schema import Check, plain_check
from tinker_episodes.refusals import refusal, shown

_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}
_NULLS = frozenset({"null", "None", "none", "nil"})
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_CONSTRAINTS = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not", "if"})
_ENCODED = 3
"""How often one value may be encoded as a JSON text inside of a JSON text."""

Schema = Mapping[str, Any]


class Arguments:
    """The arguments that one tool takes."""

    def __init__(self, tool: str, schema: Schema) -> None:
        """
        Raises:
            DefinitionError: `schema` is no JSON Schema (draft 2020-12) of an object.
        """
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise DefinitionError(f"tool {tool!r}: its schema is none: {error.message}") from error
        if schema.get("type") != "object":
            raise DefinitionError(
                f"tool {tool!r}: its schema must be of type object, got {schema!r}"
            )
        self._tool = tool
        self._schema = dict(schema)
        # jsonschema's own types are partly unknown; what is called of it is plain.
        # With a registry of our own: the default one fetches what a schema refers to.
        self._root: Any = Draft202012Validator(self._schema, registry=Registry[Any]())
        self._checks: dict[int, Check] = {}  # by the identity of parts of the schema
        document = DRAFT202012.create_resource(dict(schema))
        self._references = Registry[Any]().with_resource("", document).resolver()
        for reference in _references_in(schema):
            try:
                self._references.lookup(reference)
            except Unresolvable as error:
                raise DefinitionError(
                    f"tool {tool!r}: its schema refers to {reference!r}, which is not in it"
                ) from error

    def fit(self, written: Mapping[str, Any] | str, *, typed: bool) -> dict[str, Any]:
        """The arguments by the schema.

        Args:
            written: The values by name, or a text that the wire format gave whole.
            typed: Whether the values carry JSON types; if not, each is a text.

        Raises:
            ArgumentsError: which argument, what is wrong, what would be right.
        """
        try:
            values = self._by_name(written)
            fitted = {name: self._argument(name, v, typed=typed) for name, v in values.items()}
            self._check(fitted)
        except RecursionError:
            raise ArgumentsError("the arguments are nested too deeply") from None
        except OverflowError:  # jsonschema divides by `multipleOf` as floats
            raise ArgumentsError("a number is too large") from None
        return fitted

    def _by_name(self, written: Mapping[str, Any] | str) -> Mapping[str, Any]:
        if not isinstance(written, str):
            return written
        found = _container(written)
        if not isinstance(found, dict):
            raise ArgumentsError(f"the arguments must be a JSON object, got {shown(written)}")
        return found

    def _argument(self, name: str, value: Any, *, typed: bool) -> Any:
        schema = self._schema_of(name)
        if schema is None:
            return value
        if typed or not isinstance(value, str):
            return self._of_json(value, schema, DEEPEST)
        return self._of_text(value, schema)

    def _schema_of(self, name: str) -> Schema | bool | None:
        properties = self._schema.get("properties", {})
        if name in properties:
            return properties[name]
        extra = self._schema.get("additionalProperties", True)
        return None if extra is False else extra

    # ------------------------------------------------------------ texts

    def _of_text(self, text: str, schema: Schema | bool) -> Any:
        """The first reading of `text` that the schema takes; the text itself where none is."""
        for value in self._readings(text, schema):
            if self._takes(schema, value):
                return value
        return self._nearest(text, schema)

    def _readings(self, text: str, schema: Schema | bool) -> Iterator[Any]:
        resolved = self._resolved(schema)
        listed = list(self._listed(schema))
        bare = text.strip()
        if _CONSTRAINTS.isdisjoint(resolved):
            yield from self._containers(text, schema, encoded=1)
        elif bare == "null" and bare not in listed:
            yield None
        yield text
        if bare in listed:
            yield bare
        yield from _scalars(bare)
        yield from self._containers(text, schema)

    def _listed(self, schema: Schema | bool) -> Iterator[Any]:
        """What the enums and consts of the schema and of its unions list."""
        for branch in self._branches(schema):
            yield from branch.get("enum", ())
            if "const" in branch:
                yield branch["const"]

    def _nearest(self, text: str, schema: Schema | bool) -> Any:
        """What a text that does not fit was meant as, so that the error names the place inside."""
        kinds = ("object", "array")
        if any(_names_type(branch, kind) for branch in self._branches(schema) for kind in kinds):
            return next(self._containers(text, schema), text)
        return text

    def _containers(
        self, text: str, schema: Schema | bool, *, encoded: int = _ENCODED
    ) -> Iterator[Any]:
        found = _container(text, encoded=encoded)
        if found is not None:
            yield self._of_json(found, schema, DEEPEST)

    # ------------------------------------------------------------ JSON values

    def _of_json(self, value: Any, schema: Schema | bool, depth: int) -> Any:
        """`value` with every string that its schema does not take read like a text."""
        if depth == 0:
            raise RecursionError
        if isinstance(value, float) and value.is_integer() and self._wants_integer(schema):
            return int(value)
        if self._takes(schema, value):
            return value
        if isinstance(value, str):
            return self._of_text(value, schema)
        for branch in self._branches(schema):
            fitted = self._inside(value, branch, depth)
            if self._takes(schema, fitted):
                return fitted
        return value

    def _inside(self, value: Any, schema: Schema, depth: int) -> Any:
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            extra = schema.get("additionalProperties", True)
            return {
                name: self._of_json(item, properties.get(name, extra), depth - 1)
                for name, item in cast(dict[str, Any], value).items()
            }
        if isinstance(value, list):
            first = schema.get("prefixItems", [])
            rest = schema.get("items", True)
            return [
                self._of_json(item, first[at] if at < len(first) else rest, depth - 1)
                for at, item in enumerate(cast(list[Any], value))
            ]
        return value

    def _branches(self, schema: Schema | bool) -> Iterator[Schema]:
        """The schema and the members of its unions, references followed."""
        resolved = self._resolved(schema)
        yield resolved
        for key in ("anyOf", "oneOf", "allOf"):
            for branch in resolved.get(key, ()):
                yield from self._branches(branch)

    def _wants_integer(self, schema: Schema | bool) -> bool:
        return any(_names_type(branch, "integer") for branch in self._branches(schema))

    def _resolved(self, schema: Schema | bool) -> Schema:
        if isinstance(schema, bool):
            return {}
        seen = 0
        while "$ref" in schema and seen < DEEPEST:
            schema = cast(Schema, self._references.lookup(schema["$ref"]).contents)
            seen += 1
        return schema

    def _takes(self, schema: Schema | bool, value: Any) -> bool:
        if isinstance(value, float) and not math.isfinite(value):
            return False
        check = self._checks.get(id(schema))
        if check is None:
            check = plain_check(schema) or self._root.evolve(schema=schema).is_valid
            self._checks[id(schema)] = check
        return check(value)

    # ------------------------------------------------------------ the whole

    def _check(self, fitted: dict[str, Any]) -> None:
        if not all(_finite(value) for value in fitted.values()):
            raise ArgumentsError("NaN and infinite numbers are not JSON; give a finite number")
        if self._takes(self._schema, fitted):
            return
        error = cast("ValidationError | None", best_match(self._root.iter_errors(fitted)))
        if error is not None:
            raise ArgumentsError(refusal(error, self._schema))


def _references_in(schema: Any) -> Iterator[str]:
    """Every `$ref` of a schema."""
    if isinstance(schema, Mapping):
        for key, value in cast(Mapping[str, Any], schema).items():
            if key == "$ref" and isinstance(value, str):
                yield value
            elif key not in ("enum", "const", "default", "examples"):
                yield from _references_in(value)
    elif isinstance(schema, list):
        for item in cast(list[Any], schema):
            yield from _references_in(item)


def _names_type(schema: Schema, name: str) -> bool:
    kind = schema.get("type")
    return kind == name or (isinstance(kind, list) and name in cast(list[str], kind))


def _scalars(bare: str) -> Iterator[Any]:
    if bare in _BOOLEANS:
        yield _BOOLEANS[bare]
    if bare in _NULLS:
        yield None
    number = _number(bare)
    if number is not None:
        yield number


def _number(bare: str) -> int | float | None:
    """The finite number that JSON reads; an integral one is an `int` with all of its digits."""
    try:
        if _INTEGER.match(bare):
            return int(bare)
        if _NUMBER.match(bare):
            value = float(bare)
            exact = Decimal(bare) if value.is_integer() else None
            whole = exact is not None and exact == exact.to_integral_value()
            return int(exact) if exact is not None and whole else value
    except (ValueError, OverflowError):
        return None
    return None


def _container(text: str, *, encoded: int = _ENCODED) -> dict[str, Any] | list[Any] | None:
    """The object or array that a text is, after up to `encoded` readings as JSON."""
    value: Any = text
    for _ in range(encoded):
        if isinstance(value, str):
            try:
                value = decoded(value)
            except NotJson:
                return None
    return cast("dict[str, Any] | list[Any]", value) if isinstance(value, dict | list) else None


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_finite(item) for item in cast(dict[str, Any], value).values())
    if isinstance(value, list):
        return all(_finite(item) for item in cast(list[Any], value))
    return True
