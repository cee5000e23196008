"""One task over time: its groups at every step, in all runs or in one."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection, select, tuple_

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.reading.groups import COLUMNS, GroupRow, group_rows
from tinker_episodes.index.reading.rollouts import RolloutRow, rollout_rows
from tinker_episodes.index.reading.where import GROUPS
from tinker_episodes.index.records import Split
from tinker_episodes.index.tables import bundles, groups, run_groups, runs


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The rollouts of a task at one step."""

    group: GroupRow
    rollouts: tuple[RolloutRow, ...]


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
    place = (run_groups.c.run_id, run_groups.c.step, groups.c.id)
    query = (
        select(*COLUMNS, run_groups.c.run_id.label("run_id"))
        .select_from(GROUPS)
        .where(groups.c.task == task, bundles.c.name == bundle, groups.c.size > 0)
        .order_by(*place)
        .limit(limit + 1)
    )
    if run is not None:
        query = query.where(runs.c.name == run)
    if split is not None:
        query = query.where(run_groups.c.split == str(split))
    if after is not None:
        query = query.where(tuple_(*place) > _cursor(after))
    rows = connection.execute(query).all()
    shown = rows[:limit]
    played = rollout_rows(connection, [row.id for row in shown])
    last = shown[-1] if len(rows) > limit else None
    return TaskPage(
        tuple(
            TaskGroup(group, played.get(row.id, ()))
            for row, group in zip(shown, group_rows(connection, shown), strict=True)
        ),
        None if last is None else json.dumps([last.run_id, last.step, last.id]),
    )


def _cursor(after: str) -> tuple[int, int, int]:
    try:
        run, step, group = json.loads(after)
        return int(run), int(step), int(group)
    except (ValueError, TypeError) as error:
        raise RunIndexError(f"{after!r} is not where a page of a task ends") from error
