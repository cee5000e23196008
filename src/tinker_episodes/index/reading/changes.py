"""What changed since a reader last looked: cheap enough to ask every second."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from tinker_episodes.index.records import Split
from tinker_episodes.index.tables import meta, run_groups, runs, totals


@dataclass(frozen=True, slots=True)
class ChangedStep:
    """A run group of which rollouts were filed, moved, or trained."""

    run: str
    """The run's name."""
    split: Split
    step: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed."""

    cursor: int
    """What to ask with next time: it grows with each commit that changes a step."""
    steps: tuple[ChangedStep, ...]
    """The steps that changed, the last changed first."""
    more: bool
    """Whether there are more than these: then look at everything again."""


def changes_since(connection: Connection, cursor: int | None, *, limit: int = 200) -> Changes:
    """What changed since a cursor; None changed nothing yet, and tells the cursor."""
    now = connection.execute(_NOW).scalar_one()
    if cursor is None or cursor >= now:
        return Changes(now, (), False)
    between = {"after": cursor, "until": now}
    rows = connection.execute(_CHANGED.limit(limit + 1), between).all()
    steps = dict.fromkeys(ChangedStep(run, Split(split), step) for run, split, step in rows[:limit])
    return Changes(now, tuple(steps), len(rows) > limit)


def revision_of(connection: Connection, run: str) -> int:
    """The cursor of the last commit that changed a step of a run; 0 where it has none."""
    return connection.execute(_REVISION, {"run": run}).scalar_one() or 0


_NOW = select(meta.c.revision)
_CHANGED = (
    select(runs.c.name, run_groups.c.split, run_groups.c.step)
    .select_from(
        totals.join(run_groups, totals.c.run_group_id == run_groups.c.id).join(
            runs, run_groups.c.run_id == runs.c.id
        )
    )
    .where(totals.c.revision > bindparam("after"), totals.c.revision <= bindparam("until"))
    .order_by(totals.c.revision.desc())
)
_REVISION = (
    select(func.max(totals.c.revision))
    .select_from(
        runs.join(run_groups, run_groups.c.run_id == runs.c.id).join(
            totals, totals.c.run_group_id == run_groups.c.id
        )
    )
    .where(runs.c.name == bindparam("run"))
)
