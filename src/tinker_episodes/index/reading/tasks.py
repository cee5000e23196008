"""One task over time: its groups at every step, in all runs or in one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection, Executable, bindparam, select, tuple_

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
    query = _query(run is None, split is None, after is None)
    at = (None, None, None) if after is None else _cursor(after)
    rows = connection.execute(
        query,
        {"bundle": bundle, "task": task, "run": run, "split": split and str(split)}
        | {"at_run": at[0], "at_step": at[1], "at_group": at[2], "limit": limit + 1},
    ).all()
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


@cache
def _query(every_run: bool, both_splits: bool, beginning: bool) -> Executable:
    """The statement of a page, made once: making it costs more than running it."""
    place = (run_groups.c.run_id, run_groups.c.step, groups.c.id)
    query = (
        select(*COLUMNS, run_groups.c.run_id.label("run_id"))
        .select_from(GROUPS)
        .where(
            groups.c.task == bindparam("task"),
            bundles.c.name == bindparam("bundle"),
            groups.c.size > 0,
        )
        .order_by(*place)
        .limit(bindparam("limit"))
    )
    if not every_run:
        query = query.where(runs.c.name == bindparam("run"))
    if not both_splits:
        query = query.where(run_groups.c.split == bindparam("split"))
    if not beginning:
        last = tuple_(bindparam("at_run"), bindparam("at_step"), bindparam("at_group"))
        query = query.where(tuple_(*place) > last)
    return query


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
