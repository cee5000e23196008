"""One task over time: its groups at every step, in all runs or in one."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, tuple_

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.reading.groups import COLUMNS, GroupRow, group_row
from tinker_episodes.index.reading.where import GROUPS
from tinker_episodes.index.records import Split, Status
from tinker_episodes.index.tables import bundles, groups, rollouts, run_groups, runs


@dataclass(frozen=True, slots=True)
class TaskRollout:
    """How a rollout ended."""

    key: str
    status: Status
    reward: float | None
    """As it was scored; None where it failed or was abandoned."""
    cut: str | None


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The rollouts of a task at one step."""

    group: GroupRow
    rollouts: tuple[TaskRollout, ...]
    """In their places."""


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of a task's groups, run by run and step by step."""

    groups: tuple[TaskGroup, ...]
    next: str | None
    """What to give as `after` for the next page; None at the end."""


def task_page(
    connection: Connection,
    bundle: str,
    task: str,
    *,
    run: str | None = None,
    split: Split | None = None,
    after: str | None = None,
    limit: int = 200,
) -> TaskPage:
    """A page of a task's groups, those of superseded attempts among them, and marked.

    Raises:
        RunIndexError: `after` comes from another page.
    """
    query = _GROUPS.limit(limit + 1)
    if run is not None:
        query = query.where(runs.c.name == run)
    if split is not None:
        query = query.where(run_groups.c.split == str(split))
    if after is not None:
        query = query.where(tuple_(*_PLACE) > _cursor(after))
    rows = connection.execute(query, {"bundle": bundle, "task": task}).all()
    shown = rows[:limit]
    played: dict[int, list[TaskRollout]] = {row.id: [] for row in shown}
    ended = connection.execute(_ROLLOUTS, {"groups": list(played)}).all()
    for group, key, status, reward, cut in ended:
        played[group].append(TaskRollout(key, Status(status), reward, cut))
    last = shown[-1] if len(rows) > limit else None
    return TaskPage(
        tuple(
            TaskGroup(group_row(row, (one.reward for one in played[row.id])), tuple(played[row.id]))
            for row in shown
        ),
        None if last is None else json.dumps([last.run_id, last.step, last.id]),
    )


_PLACE = (run_groups.c.run_id, run_groups.c.step, groups.c.id)
_GROUPS = (
    select(*COLUMNS, run_groups.c.run_id.label("run_id"))
    .select_from(GROUPS)
    .where(
        groups.c.task == bindparam("task"),
        bundles.c.name == bindparam("bundle"),
        groups.c.size > 0,
    )
    .order_by(*_PLACE)
)
_ROLLOUTS = (
    select(
        rollouts.c.group_id, rollouts.c.key, rollouts.c.status, rollouts.c.reward, rollouts.c.cut
    )
    .where(rollouts.c.group_id.in_(bindparam("groups", expanding=True)))
    .order_by(rollouts.c.group_id, rollouts.c.place, rollouts.c.id)
)


def _cursor(after: str) -> tuple[int, int, int]:
    try:
        run, step, group = json.loads(after)
        return int(run), int(step), int(group)
    except (ValueError, TypeError) as error:
        raise RunIndexError(f"{after!r} is not where a page of a task ends") from error
