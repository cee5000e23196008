"""What a task's gold actions change, and how an episode's changes differ from that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict

from tinker_episodes import Call, Environment, Episode, Message, Universe, UniverseData

from .records import shown

ToolName = Literal[
    "calculate",
    "cancel_pending_order",
    "exchange_delivered_order_items",
    "find_user_id_by_email",
    "find_user_id_by_name_zip",
    "get_item_details",
    "get_order_details",
    "get_product_details",
    "get_user_details",
    "list_all_product_types",
    "modify_pending_order_address",
    "modify_pending_order_items",
    "modify_pending_order_payment",
    "modify_user_address",
    "return_delivered_order_items",
    "transfer_to_human_agents",
]

Changes = Mapping[str, Any]
"""Changed records as they are in the end, by `table/key`."""


class Action(BaseModel):
    """One gold call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ToolName
    arguments: dict[str, Any]


class Goal(BaseModel):
    """The calls whose effect on the database is the task's right one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    actions: tuple[Action, ...]


_known: WeakKeyDictionary[UniverseData, dict[str, Changes]] = WeakKeyDictionary()


def changes_of(universe: Universe) -> Changes:
    """What an episode has changed so far."""
    return {f"{c.table}/{c.key}": shown(c.table, c.after) for c in universe.changes()}


async def gold_changes(environment: Environment, goal: Goal) -> Changes:
    """What the gold actions change in the data that `environment` started from.

    They are replayed once a process.
    """
    data = environment.universe.data
    known = _known.setdefault(data, {})
    key = goal.model_dump_json()
    if key not in known:
        known[key] = await _replayed(environment, goal, data)
    return known[key]


async def _replayed(environment: Environment, goal: Goal, data: UniverseData) -> Changes:
    """The gold actions as the calls of an episode of their own; a refused one changes nothing."""
    episode = Episode(type(environment), environment.task, data=data, reward="database")
    await episode.open()
    calls = tuple(Call(action.name, action.arguments) for action in goal.actions)
    episode.record(Message("assistant", "", calls))
    await episode.run_calls()
    changes = changes_of(episode.environment.universe)
    await episode.abandon("a replay of gold actions")
    return changes


def differences(expected: Changes, found: Changes) -> dict[str, dict[str, Any]]:
    """The records that differ, by what is wrong with them."""
    missing = {key: expected[key] for key in expected if key not in found}
    unexpected = {key: found[key] for key in found if key not in expected}
    shared = [key for key in expected if key in found and expected[key] != found[key]]
    different = {key: _fields(expected[key], found[key]) for key in shared}
    parts = {"missing": missing, "unexpected": unexpected, "different": different}
    return {name: part for name, part in parts.items() if part}


def _fields(expected: Any, found: Any) -> dict[str, Any]:
    """The fields of one record that differ, each with both values."""
    return {
        field: {"expected": value, "found": found.get(field)}
        for field, value in expected.items()
        if value != found.get(field)
    }
