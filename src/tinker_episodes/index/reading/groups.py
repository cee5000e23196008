"""The groups of a step, page by page: sorted and filtered by any column."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Connection, Executable, and_, bindparam, func, or_, select

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.reading.where import GROUPS, SUPERSEDED, WHERE, Where, where_of
from tinker_episodes.index.records import Split
from tinker_episodes.index.tables import attempts, groups, rollouts, run_groups, runs, totals

GroupSort = Literal[
    "task", "size", "scored", "mean", "low", "high", "spread", "constant", "cut", "failed",
    "abandoned", "errors", "turns", "tool_errors", "format_errors", "sampled_tokens",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in numbers."""

    where: Where
    size: int
    scored: int
    """Rollouts that have a reward; the next five are of these, and None where there is none."""
    mean: float | None
    low: float | None
    high: float | None
    spread: float | None
    """The standard deviation of its rewards."""
    constant: bool | None
    """Whether all of its rewards are the same; None where there are fewer than two."""
    cut: int
    failed: int
    abandoned: int
    turns: int
    """A sum over its rollouts, as all that follow."""
    tool_errors: int
    format_errors: int
    sampled_tokens: int
    rewards: tuple[float | None, ...]
    """Every rollout's, in their places; None where it failed or was abandoned."""


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Which groups of a step to show; None leaves a column as it is."""

    task: str | None = None
    """Text that the task's id contains."""
    tag: str | None = None
    constant: bool | None = None
    cut: bool | None = None
    """Whether a rollout was cut."""
    errors: bool | None = None
    """Whether a rollout failed, was abandoned, or had a tool or format error."""
    low: float | None = None
    """The least mean reward."""
    high: float | None = None
    """The greatest mean reward."""


@dataclass(frozen=True, slots=True)
class StepAttempt:
    """An attempt that has groups in a step."""

    number: int
    rollouts: int
    superseded: bool


@dataclass(frozen=True, slots=True)
class GroupsPage:
    """A page of the groups of a step."""

    groups: tuple[GroupRow, ...]
    next: str | None
    """What to give as `after` for the next page; None at the end."""
    attempts: tuple[StepAttempt, ...]
    """All attempts that have groups in the step, the first begun first."""


_NUMBERS = tuple(f.name for f in fields(GroupRow) if f.name not in ("where", "rewards"))
COLUMNS = (*WHERE, *(groups.c[name] for name in _NUMBERS), groups.c.id)
"""The columns of `GroupRow` in its order, and the id."""
_END = len(WHERE) + len(_NUMBERS)
_ERRORS = (
    groups.c.failed + groups.c.abandoned + groups.c.tool_errors + groups.c.format_errors
)  # fmt: skip
_NOTHING = -1e308
"""Where a group without a value stands among the others: below them."""


def groups_page(
    connection: Connection,
    run: str,
    split: Split,
    step: int,
    *,
    sort: GroupSort = "spread",
    descending: bool = True,
    matching: GroupFilter | None = None,
    attempt: int | None = None,
    after: str | None = None,
    limit: int = 100,
) -> GroupsPage:
    """A page of the groups of a step.

    Args:
        attempt: Its number; None for the attempt that stands.

    Raises:
        RunIndexError: there is no such column, or `after` comes from another page.
    """
    if sort not in get_args(GroupSort):
        raise RunIndexError(f"groups have no column {sort!r}; {', '.join(get_args(GroupSort))}")
    value, last = (None, None) if after is None else _cursor(after)
    of = {"run": run, "split": str(split), "step": step}
    query = _query(sort, descending, matching or GroupFilter(), attempt is None, after is None)
    rows = connection.execute(
        query, of | {"attempt": attempt, "value": value, "last": last, "limit": limit + 1}
    ).all()
    shown = rows[:limit]
    more = json.dumps([shown[-1].sorted, shown[-1].id]) if len(rows) > limit else None
    rewards: dict[int, list[float | None]] = {row.id: [] for row in shown}
    for group, reward in connection.execute(_REWARDS, {"groups": list(rewards)}).all():
        rewards[group].append(reward)
    found = tuple(group_row(row, rewards[row.id]) for row in shown)
    played = connection.execute(_ATTEMPTS, of).all()
    return GroupsPage(found, more, tuple(StepAttempt(n, c, bool(old)) for n, c, old in played))


@lru_cache(maxsize=100)
def _query(
    sort: str, descending: bool, matching: GroupFilter, standing: bool, beginning: bool
) -> Executable:
    """The statement of a page, made once: making it costs more than running it."""
    key = _sort_key(sort)
    query = (
        select(*COLUMNS, key.label("sorted"))
        .select_from(GROUPS)
        .where(
            runs.c.name == bindparam("run"),
            run_groups.c.split == bindparam("split"),
            run_groups.c.step == bindparam("step"),
            groups.c.size > 0,
            ~SUPERSEDED if standing else attempts.c.number == bindparam("attempt"),
            *_conditions(matching),
        )
        .order_by(key.desc() if descending else key, groups.c.id)
        .limit(bindparam("limit"))
    )
    if beginning:
        return query
    value: ColumnElement[Any] = bindparam("value")
    further = key < value if descending else key > value
    return query.where(or_(further, and_(key == value, groups.c.id > bindparam("last"))))


def group_row(row: Any, rewards: Iterable[float | None]) -> GroupRow:
    """A group from a row that begins with `COLUMNS`, and its rollouts' rewards in their places."""
    size, scored, mean, low, high, spread, constant, *rest = row[len(WHERE) : _END]
    constant = None if constant is None else bool(constant)
    return GroupRow(
        where_of(row),
        size,
        scored,
        mean,
        low,
        high,
        spread,
        constant,
        *rest,
        rewards=tuple(rewards),
    )


_REWARDS = (
    select(rollouts.c.group_id, rollouts.c.reward)
    .where(rollouts.c.group_id.in_(bindparam("groups", expanding=True)))
    .order_by(rollouts.c.group_id, rollouts.c.place, rollouts.c.id)
)
_ATTEMPTS = (
    select(attempts.c.number, totals.c.rollouts, SUPERSEDED.label("superseded"))
    .select_from(
        run_groups.join(runs, run_groups.c.run_id == runs.c.id)
        .join(totals, totals.c.run_group_id == run_groups.c.id)
        .join(attempts, totals.c.attempt_id == attempts.c.id)
    )
    .where(
        runs.c.name == bindparam("run"),
        run_groups.c.split == bindparam("split"),
        run_groups.c.step == bindparam("step"),
        totals.c.rollouts > 0,
    )
    .order_by(attempts.c.number)
)


def _sort_key(sort: str) -> ColumnElement[Any]:
    if sort == "task":
        return groups.c.task
    if sort == "errors":
        return _ERRORS
    if sort == "constant":
        return func.coalesce(groups.c.constant.cast(groups.c.size.type), -1)
    return func.coalesce(groups.c[sort], _NOTHING) if groups.c[sort].nullable else groups.c[sort]


def _cursor(after: str) -> tuple[Any, int]:
    try:
        value, last = json.loads(after)
        return value, int(last)
    except (ValueError, TypeError) as error:
        raise RunIndexError(f"{after!r} is not where a page of groups ends") from error


def _conditions(matching: GroupFilter) -> list[ColumnElement[bool]]:
    m = matching
    found: list[ColumnElement[bool]] = []
    if m.task is not None:
        found.append(groups.c.task.contains(m.task, autoescape=True))
    if m.tag is not None:
        found.append(groups.c.tags.contains(json.dumps(m.tag), autoescape=True))
    if m.constant is not None:
        found.append(groups.c.constant.is_(m.constant))
    if m.cut is not None:
        found.append(groups.c.cut > 0 if m.cut else groups.c.cut == 0)
    if m.errors is not None:
        found.append(_ERRORS > 0 if m.errors else _ERRORS == 0)
    if m.low is not None:
        found.append(groups.c.mean >= m.low)
    if m.high is not None:
        found.append(groups.c.mean <= m.high)
    return found
