"""Schemas plain enough to be checked without jsonschema, as most tools' are.

takes = plain_check({"type": "object", "properties": {"a": {"type": "integer"}}})
takes({"a": 1})      # what jsonschema says

Plain are types, enums of texts, `items`, `properties`, `required`, `additionalProperties` and
`anyOf`, in any nesting, beside keys that only describe. For all else there is no check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, cast

Check: TypeAlias = Callable[[Any], bool]

_DESCRIBING = frozenset({"title", "description", "default", "examples", "format", "$comment"})
"""Keys that draft 2020-12 only keeps, `format` among them."""


def plain_check(schema: Mapping[str, Any] | bool) -> Check | None:
    """What says whether a JSON value fits `schema`, by draft 2020-12; None where it is not plain.

    Args:
        schema: A valid schema.
    """
    if isinstance(schema, bool):
        return lambda _value: schema
    rules = {key: rule for key, rule in schema.items() if key not in _DESCRIBING}
    made = [_RULES[key](rules[key], rules) if key in _RULES else None for key in rules]
    if not _all_plain(made):
        return None
    if len(made) == 1:
        return made[0]
    return lambda value: all(check(value) for check in made)


def _all_plain(checks: Sequence[Check | None]) -> TypeGuard[list[Check]]:
    return None not in checks


def _type(kinds: str | list[str], _rules: Mapping[str, Any]) -> Check | None:
    if isinstance(kinds, str):
        return _TYPES[kinds]
    return _any([_TYPES[kind] for kind in kinds])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: Mapping[str, Check] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _enum(listed: list[Any], _rules: Mapping[str, Any]) -> Check | None:
    if not all(isinstance(item, str) for item in listed):
        return None
    texts = frozenset(cast(list[str], listed))
    return lambda value: isinstance(value, str) and value in texts


def _any_of(branches: list[Mapping[str, Any] | bool], _rules: Mapping[str, Any]) -> Check | None:
    made = [plain_check(branch) for branch in branches]
    return _any(made) if _all_plain(made) else None


def _any(checks: list[Check]) -> Check:
    return lambda value: any(check(value) for check in checks)


def _items(schema: Mapping[str, Any] | bool, _rules: Mapping[str, Any]) -> Check | None:
    check = plain_check(schema)
    if check is None:
        return None
    return lambda value: not isinstance(value, list) or all(map(check, cast(list[Any], value)))


def _required(names: list[str], _rules: Mapping[str, Any]) -> Check:
    return lambda value: not isinstance(value, dict) or all(name in value for name in names)


def _properties(schemas: Mapping[str, Any], _rules: Mapping[str, Any]) -> Check | None:
    made = {name: plain_check(schema) for name, schema in schemas.items()}
    if not _all_plain(list(made.values())):
        return None
    checks = cast(dict[str, Check], made)

    def check(value: Any) -> bool:
        return not isinstance(value, dict) or all(
            checks[name](item)
            for name, item in cast(dict[str, Any], value).items()
            if name in checks
        )

    return check


def _additional(schema: Mapping[str, Any] | bool, rules: Mapping[str, Any]) -> Check | None:
    check, known = plain_check(schema), frozenset(rules.get("properties", ()))
    if check is None:
        return None
    return lambda value: (
        not isinstance(value, dict)
        or all(
            check(item) for name, item in cast(dict[str, Any], value).items() if name not in known
        )
    )


_RULES: Mapping[str, Callable[[Any, Mapping[str, Any]], Check | None]] = {
    "type": _type,
    "enum": _enum,
    "anyOf": _any_of,
    "items": _items,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
}
