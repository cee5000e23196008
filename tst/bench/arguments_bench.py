"""How many values reach a tool as they should, for each renderer, beside the cookbook alone.

A cell is a value under a schema, written by the renderer's own template. It is right where the tool
gets what it should, or where a value that does not fit is told to the model; silently wrong where
the tool gets anything else.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from jsonschema import Draft202012Validator
from support.arguments import same_json
from support.calls import CallWriter
from support.cells import REFUSED, SCHEMAS, VALUES, carries, expected, whole
from support.tokenizers import renderer_for, renderer_names
from table import Row

from tinker_episodes import ArgumentsError
from tinker_episodes.arguments import Arguments
from tinker_episodes.cookbook.wire import read_reply


def rows() -> Iterator[Row]:
    """One row a renderer."""

    for name in renderer_names():
        ours, host = Counter[str](), Counter[str]()
        texts = [text for text in VALUES.values() if len(text) < 10_000]
        for text in [text for text in texts if carries(name, text)]:
            for found, counter in zip(_both(name, text), (ours, host), strict=True):
                counter.update(found)
        cells = sum(ours.values())
        figure = f"{ours['right'] / cells:.1%} right, {ours['wrong']} silently wrong"
        beside = f"host: {host['right'] / cells:.1%}, {host['wrong']} wrong, {host['raised']} raise"
        values = {f"ours_{kind}": float(n) for kind, n in ours.items()}
        values |= {f"host_{kind}": float(n) for kind, n in host.items()}
        met = ours["right"] == cells
        sizes = f"{cells} cells of {len(SCHEMAS)} schemas"
        yield Row(f"arguments, {name}", beside, sizes, figure, "100 %, 0", met, values)


def _both(name: str, text: str) -> tuple[list[str], list[str]]:
    """What became of one value under each schema: by the library, and by the host alone."""

    writer = _writer(name)
    tokens = writer.call(writer.json_value(text))
    as_text = not writer.typed and not name.startswith("deepseekv4_1")
    reply = read_reply(writer.renderer, tokens)
    ours: list[str] = []
    host: list[str] = []
    raw = _host_arguments(writer.renderer, tokens)
    for schema in SCHEMAS:
        wanted = expected(schema, text, as_text=as_text)
        ours.append(_verdict(wanted, _fitted(schema, reply)))
        host.append(raw if isinstance(raw, str) else _verdict(wanted, _validated(schema, raw)))
    return ours, host


@functools.cache
def _writer(name: str) -> CallWriter:
    return CallWriter(renderer_for(name))


@functools.cache
def _tool(schema: str) -> Arguments:
    return Arguments("f", whole(schema))


def _fitted(schema: str, reply: Any) -> Any:

    if not reply.message.calls:
        return REFUSED
    (call,) = reply.message.calls
    try:
        return _tool(schema).fit(call.arguments, typed=call.typed)["v"]
    except ArgumentsError:
        return REFUSED


def _host_arguments(renderer: Any, tokens: list[int]) -> Any:
    """What the host's parser gives a tool, or what became of the call."""

    try:
        message, _ = renderer.parse_response(tokens)
        calls = message.get("tool_calls") or []
        if not calls:
            return SimpleNamespace(value=REFUSED) if message.get("unparsed_tool_calls") else "lost"
        return SimpleNamespace(value=json.loads(calls[0].function.arguments)["v"])
    except Exception:  # noqa: BLE001 - that it raises is the figure
        return "raised"


def _validated(schema: str, raw: Any) -> Any:
    """The host hands values on as they are; a schema that refuses them is an error to the model."""

    if raw.value is REFUSED:
        return REFUSED
    return raw.value if Draft202012Validator(whole(schema)).is_valid({"v": raw.value}) else REFUSED


def _verdict(wanted: Any, found: Any) -> str:

    if wanted is REFUSED or found is REFUSED:
        return "right" if found is wanted else "refused" if found is REFUSED else "wrong"
    return "right" if same_json(wanted, found) else "wrong"
