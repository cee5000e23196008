"""What the rollouts of each step come to, kept as they are filed.

A total is a sum over groups. Whatever is written to groups is written under `totals_kept`: what
they added up to before is taken off, and what they add up to after is put on, so no kind of change
needs a rule of its own. Totals are of one attempt each, so a later attempt changes none of them: a
reader passes over what is superseded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from tinker_episodes.index.dialect import upserted
from tinker_episodes.index.tables import (
    cut_totals,
    groups,
    meta,
    rollouts,
    score_totals,
    scores,
    totals,
)

_LARGEST = 1e300
"""Sums keep within this, so that any rewards can be added up and taken off again."""
_AT_ONCE = 500
"""Groups that one statement looks up."""
_ADDED = tuple(rollouts.c[name] for name in (
    "turns", "messages", "tool_calls", "tool_errors", "format_errors",
    "sampled_tokens", "observation_tokens",
))  # fmt: skip
_KEYS = ("run_group_id", "attempt_id", "revision", "first_rollout", "last_rollout")
SUMS = tuple(c.name for c in totals.columns if c.name not in _KEYS)
"""The columns of `totals` that are sums."""

_OF_GROUPS = (
    "size", "scored", "mean", "low", "high", "spread", "constant", "cut", "failed", "abandoned",
    "turns", "tool_errors", "format_errors", "sampled_tokens",
)  # fmt: skip
"""The columns of `groups` that its rollouts decide."""

Place = tuple[int, int]
"""A run group's and an attempt's id."""


@dataclass(slots=True)
class Sums:
    """What some groups add up to, by place."""

    totals: dict[Place, Counter[str]] = field(default_factory=dict[Place, Counter[str]])
    scores: dict[tuple[Place, str], Counter[str]] = field(
        default_factory=dict[tuple[Place, str], Counter[str]]
    )
    cuts: dict[tuple[Place, str], int] = field(default_factory=dict[tuple[Place, str], int])
    ids: dict[Place, tuple[int, int]] = field(default_factory=dict[Place, tuple[int, int]])
    """The first and the last rollout's id."""
    groups: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    """The columns of each group, by its id."""


@contextmanager
def totals_kept(connection: Connection, group_ids: Collection[int]) -> Generator[None]:
    """Keep the totals while these groups are changed, in a transaction that no other writer's
    crosses.
    """
    before = sums_of(connection, group_ids)
    yield
    after = sums_of(connection, group_ids)
    connection.execute(_REVISED)
    revision = connection.execute(_REVISION).scalar_one()
    _keep_groups(connection, after)
    _keep_totals(connection, before, after, revision)
    _keep_scores(connection, before, after)
    _keep_cuts(connection, before, after)


_REVISED = update(meta).values(revision=meta.c.revision + 1)
_REVISION = select(meta.c.revision)


def sums_of(connection: Connection, group_ids: Collection[int]) -> Sums:
    """What groups add up to, from their rows. A group without rollouts adds nothing."""
    sums = Sums()
    ids = sorted(group_ids)
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        rows = connection.execute(_ROLLOUTS, {"ids": some}).all()
        for group_id, of_group in groupby(rows, key=itemgetter(_GROUP_ID)):
            _add_group(sums, group_id, dict(zip(_NAMES, zip(*of_group, strict=True), strict=True)))
        for run_group_id, attempt_id, name, value in connection.execute(_SCORES, {"ids": some}):
            score = sums.scores.setdefault(((run_group_id, attempt_id), name), Counter())
            score.update({"scored": 1, "value": _bounded(value)})
    return sums


_READ = (
    groups.c.run_group_id, groups.c.attempt_id, rollouts.c.group_id, rollouts.c.id,
    rollouts.c.status, rollouts.c.cut, rollouts.c.reward,
    rollouts.c.trained, rollouts.c.trained_reward, *_ADDED,
)  # fmt: skip
_NAMES = tuple(column.name for column in _READ)
_GROUP_ID = _NAMES.index("group_id")
_ROLLOUTS = (
    select(*_READ)
    .join(groups, rollouts.c.group_id == groups.c.id)
    .where(rollouts.c.group_id.in_(bindparam("ids", expanding=True)))
    .order_by(rollouts.c.group_id)
)
_SCORES = (
    select(groups.c.run_group_id, groups.c.attempt_id, scores.c.name, scores.c.value)
    .join(rollouts, scores.c.rollout_id == rollouts.c.id)
    .join(groups, rollouts.c.group_id == groups.c.id)
    .where(rollouts.c.group_id.in_(bindparam("ids", expanding=True)))
)


def _add_group(sums: Sums, group_id: int, rows: Mapping[str, Sequence[Any]]) -> None:
    """Add a group's rollouts, column by column: in that way adding them up is not Python's work."""
    place = (rows["run_group_id"][0], rows["attempt_id"][0])
    size = len(rows["id"])
    rewards = [reward for reward in rows["reward"] if reward is not None]
    known = [reward for reward in rows["trained_reward"] if reward is not None]
    cuts = [cut for cut in rows["cut"] if cut is not None]
    columns = _rewards_in_short(rewards) | {
        "size": size,
        "cut": len(cuts),
        "failed": rows["status"].count("failed"),
        "abandoned": rows["status"].count("abandoned"),
    }
    columns |= {name: sum(rows[name]) for name in _COUNTED}
    sums.groups[group_id] = columns
    added = sums.totals.setdefault(place, Counter())
    added.update({name: columns[name] for name in (*_COUNTED, "cut", "failed", "abandoned")})
    added.update(_spread_sums(columns))
    added.update(
        {
            "groups": 1,
            "rollouts": size,
            "scored": len(rewards),
            "reward": _bounded(sum(rewards)),
            "success": sum(reward >= 1 for reward in rewards),
            "trained": sum(map(bool, rows["trained"])),
            "trained_scored": len(known),
            "trained_reward": _bounded(sum(known)),
        }
    )
    for cut in cuts:
        sums.cuts[place, cut] = sums.cuts.get((place, cut), 0) + 1
    first, last = min(rows["id"]), max(rows["id"])
    before = sums.ids.get(place, (first, last))
    sums.ids[place] = (min(first, before[0]), max(last, before[1]))


_COUNTED = tuple(column.name for column in _ADDED)


def _rewards_in_short(rewards: Sequence[float]) -> dict[str, Any]:
    if not rewards:
        none = dict.fromkeys(("mean", "low", "high", "spread", "constant"))
        return {"scored": 0, **none}
    mean = _bounded(sum(rewards) / len(rewards))
    off = [_bounded((reward - mean) * (reward - mean)) for reward in rewards]
    low, high = min(rewards), max(rewards)
    return {
        "scored": len(rewards),
        "mean": mean,
        "low": low,
        "high": high,
        "spread": math.sqrt(_bounded(sum(off) / len(off))),
        "constant": low == high if len(rewards) > 1 else None,
    }


def _spread_sums(columns: Mapping[str, Any]) -> dict[str, float]:
    mean, spread = columns["mean"], columns["spread"]
    if mean is None:
        return {}
    return {
        "scored_groups": 1,
        "group_mean": mean,
        "group_mean_squared": _bounded(mean * mean),
        "group_variance": _bounded(spread * spread),
        "comparable_groups": int(columns["constant"] is not None),
        "constant_groups": int(columns["constant"] is True),
    }


def _bounded(value: float) -> float:
    return min(max(value, -_LARGEST), _LARGEST)


# ---------------------------------------------------------------- rows


def _keep_groups(connection: Connection, after: Sums) -> None:
    rows = [
        {"of": group_id} | {name: columns[name] for name in _OF_GROUPS}
        for group_id, columns in after.groups.items()
    ]
    if rows:
        connection.execute(_GROUP_COLUMNS, rows)


_BOUND: dict[str, Any] = {name: bindparam(name) for name in _OF_GROUPS}
_GROUP_COLUMNS = update(groups).where(groups.c.id == bindparam("of")).values(_BOUND)


def _keep_totals(connection: Connection, before: Sums, after: Sums, revision: int) -> None:
    rows: list[dict[str, Any]] = []
    for place in sorted(before.totals.keys() | after.totals.keys()):
        added = after.totals.get(place, Counter[str]())
        added.subtract(before.totals.get(place, Counter[str]()))
        first, last = after.ids.get(place, (None, None))
        rows.append(
            _keys(place)
            | {"revision": revision, "first_rollout": first, "last_rollout": last}
            | {name: added[name] for name in SUMS}
        )
    if rows:
        statement = upserted(
            connection.dialect.name,
            totals,
            add=SUMS,
            put=("revision",),
            least=("first_rollout",),
            greatest=("last_rollout",),
        )
        connection.execute(statement, rows)


def _keep_scores(connection: Connection, before: Sums, after: Sums) -> None:
    rows: list[dict[str, Any]] = []
    for place, name in sorted(before.scores.keys() | after.scores.keys()):
        added = Counter(after.scores.get((place, name), {}))
        added.subtract(before.scores.get((place, name), {}))
        if any(added.values()):
            sums = {"scored": added["scored"], "value": added["value"]}
            rows.append(_keys(place) | {"name": name} | sums)
    if rows:
        connection.execute(
            upserted(connection.dialect.name, score_totals, add=("scored", "value")), rows
        )


def _keep_cuts(connection: Connection, before: Sums, after: Sums) -> None:
    rows: list[dict[str, Any]] = []
    for place, cut in sorted(before.cuts.keys() | after.cuts.keys()):
        added = after.cuts.get((place, cut), 0) - before.cuts.get((place, cut), 0)
        if added:
            rows.append(_keys(place) | {"cut": cut, "rollouts": added})
    if rows:
        connection.execute(upserted(connection.dialect.name, cut_totals, add=("rollouts",)), rows)


def _keys(place: Place) -> dict[str, int]:
    return {"run_group_id": place[0], "attempt_id": place[1]}
