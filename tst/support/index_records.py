"""What the tests of the index file, and a look into the database past our own reading."""

from __future__ import annotations

import sqlite3
from typing import Any

from tinker_episodes.index import Attempt, BundleRecord, Group, Rollout, Split, Status

ATTEMPT = Attempt("/runs/first", "token-1", 0)
BUNDLE = BundleRecord("number_search", "1", "hash")


def make_group(
    key: str = "g1", *, attempt: Attempt = ATTEMPT, step: int = 0, split: Split = Split.TRAIN
) -> Group:
    return Group(attempt, key, split, step, BUNDLE, "task-1", ("easy",))


def make_rollout(key: str = "r1", reward: float | None = 1.0, **more: Any) -> Rollout:
    return Rollout(key, 0, Status.FINISHED, reward, **more)


def rows_of(url: str, query: str) -> list[Any]:
    """What a query finds, over a connection of its own."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
