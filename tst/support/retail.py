"""Plays and calls of the retail example, for its tests."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Mapping
from typing import Any

from tinker_episodes import Bundle, Call, CallResult, Episode, Message, Outcome
from tinker_episodes.tools import tools_of

CARD, GIFT_3, GIFT_40, PAYPAL = "credit_card_1", "gift_card_1", "gift_card_2", "paypal_1"
NEW_HOME = {
    "address1": "2 New Road",
    "address2": "",
    "city": "City",
    "country": "USA",
    "state": "NY",
    "zip": "1",
}
OPTIONAL = (
    "cancel_reason",
    "exchange_items",
    "exchange_new_items",
    "exchange_payment_method_id",
    "exchange_price_difference",
    "return_items",
    "return_payment_method_id",
)

Step = tuple[str, Mapping[str, Any]]


async def play(
    bundle: Bundle, *steps: Step, task: str = "0"
) -> tuple[tuple[CallResult, ...], Outcome]:
    """One episode in which the model makes these calls in one reply."""
    episode = Episode(bundle.environment, bundle.tasks[task], data=bundle.universe)
    await episode.open()
    episode.record(Message("assistant", "", tuple(Call(name, given) for name, given in steps)))
    return await episode.run_calls(), await episode.close()


async def answer(bundle: Bundle, name: str, **arguments: Any) -> Any:
    """What a call is answered with where it succeeds."""
    (result,), _ = await play(bundle, (name, arguments))
    assert not result.error, result.content
    return json.loads(str(result.content))


def swap(order: str, old: list[str], new: list[str], method: str) -> dict[str, Any]:
    return {
        "order_id": order,
        "item_ids": old,
        "new_item_ids": new,
        "payment_method_id": method,
    }


def give_back(order: str, items: list[str], method: str) -> dict[str, Any]:
    return {"order_id": order, "item_ids": items, "payment_method_id": method}


def cancel(order: str, reason: str = "no longer needed") -> dict[str, Any]:
    return {"order_id": order, "reason": reason}


def pay_with(order: str, method: str) -> dict[str, Any]:
    return {"order_id": order, "payment_method_id": method}


def normal(table: str, record: Any) -> Any:
    return {**dict.fromkeys(OPTIONAL), **record} if table == "orders" else record


def changed(outcome: Outcome) -> dict[str, Any]:
    return {f"{c.table}/{c.key}": normal(c.table, c.after) for c in outcome.changes}


def balance(outcome: Outcome, method: str) -> float:
    return changed(outcome)["users/ana"]["payment_methods"][method]["balance"]


def part(bundle: Bundle, name: str) -> types.ModuleType:
    """A module of the bundle's own package."""
    return sys.modules[f"{bundle.environment.__module__.rpartition('.')[0]}.{name}"]


def types_of(bundle: Bundle) -> dict[str, dict[str, str]]:
    """Each tool's arguments and their types, in the words of gold.json."""
    found: dict[str, dict[str, str]] = {}
    for name, tool in tools_of(bundle.environment).items():
        found[name] = {key: _type(schema) for key, schema in tool.schema["properties"].items()}
        assert sorted(tool.schema.get("required", [])) == sorted(found[name])
        assert tool.description
    return found


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema["type"]
    return f"array of {schema['items']['type']}" if kind == "array" else kind
