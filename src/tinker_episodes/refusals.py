"""What a model is told of arguments that don't fit: which one, what is wrong, what would be right.

What the model wrote is repeated as JSON, cut short, and never as a mark of a wire format: a quoted
`<|im_end|>` would end the message that quotes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from jsonschema.exceptions import ValidationError

_SHOWN = 120
"""Characters of a value that a message repeats."""
_MARK = re.compile(r"<(?=[|｜/\w])")
_RIGHT = {
    "string": "a text",
    "integer": "an integer, such as 5",
    "number": "a finite number, such as 1.5",
    "boolean": "true or false",
    "null": "null",
    "array": "a JSON array, such as [1, 2]",
    "object": 'a JSON object, such as {"a": 1}',
}


def refusal(error: ValidationError, top: Mapping[str, Any]) -> str:
    """The words for what `jsonschema` found.

    Args:
        top: The schema of the tool's arguments.
    """
    known = ", ".join(top.get("properties", {})) or "none"
    path = ".".join(str(step) for step in error.absolute_path)
    instance: Any = error.instance
    if error.validator == "required":
        where = f" in {path!r}" if path else ""
        needed = cast(list[str], error.validator_value)
        missing = [name for name in needed if name not in instance]
        return f"missing{where}: {', '.join(missing)}; the tool takes: {known}"
    if error.validator == "additionalProperties" and not path:
        unknown = [name for name in instance if name not in top.get("properties", {})]
        named = ", ".join(shown(name) for name in unknown[:8])
        return f"there is no argument {named}; the tool takes: {known}"
    where = f"argument {path!r} is" if path else "the arguments are"
    right = _right(error)
    return (
        f"{where} {shown(instance)}, which does not fit {shown(_rules(error.schema))}"
        f"{f'; give {right}' if right else ''}"
    )


def shown(value: Any) -> str:
    """A value as JSON, cut short, without anything that a renderer could take for a mark."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
    return _MARK.sub(r"\\u003c", short)


def quoted(name: str) -> str:
    """A name that the model wrote, cut short, as `shown` quotes a value."""
    return _MARK.sub(r"\\u003c", repr(name[:80]))


def _right(error: ValidationError) -> str:
    """What would fit, where it takes few words."""
    rule: Any = error.validator_value
    if error.validator == "type":
        kinds = cast(list[str], rule if isinstance(rule, list) else [rule])
        return " or ".join(_RIGHT.get(kind, kind) for kind in kinds)
    if error.validator == "enum":
        return f"one of {', '.join(shown(item) for item in rule[:20])}"
    if error.validator == "const":
        return shown(rule)
    if error.validator in ("anyOf", "oneOf"):
        kinds = [_kind(branch) for branch in rule]
        return " or ".join(_RIGHT[k] for k in kinds) if all(k in _RIGHT for k in kinds) else ""
    return ""


def _kind(schema: Any) -> str:
    return str(cast(Mapping[str, Any], schema).get("type")) if isinstance(schema, Mapping) else ""


def _rules(schema: Any) -> Any:
    """A schema without what it only tells the reader."""
    told = ("title", "description", "default", "examples")
    if not isinstance(schema, Mapping):
        return schema
    items = cast(Mapping[str, Any], schema).items()
    return {key: value for key, value in items if key not in told}
