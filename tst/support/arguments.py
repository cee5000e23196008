"""Schemas of one argument `x`, and what a written value becomes under them."""

from __future__ import annotations

import json
from typing import Any

from tinker_episodes.arguments import Arguments

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
ARRAY = {"type": "array"}
OBJECT = {"type": "object"}
NULL = {"type": "null"}


def any_of(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def arguments_of(schema: Any, **top: Any) -> Arguments:
    return Arguments("f", {"type": "object", "properties": {"x": schema}, **top})


def fit_text(schema: Any, text: str, **top: Any) -> Any:
    return arguments_of(schema, **top).fit({"x": text}, typed=False)["x"]


def fit_json(schema: Any, value: Any, **top: Any) -> Any:
    return arguments_of(schema, **top).fit({"x": value}, typed=True)["x"]


def same_json(left: Any, right: Any) -> bool:
    """Equal, and of the same JSON type: `True` is not `1`, and `140` is not `140.0`."""
    return json.dumps(left) == json.dumps(right)
