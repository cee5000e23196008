"""The list of runs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from tinker_episodes.index.reading.where import SUPERSEDED
from tinker_episodes.index.tables import attempts, bundles, run_bundles, run_groups, runs, totals

LIVE_S = 600
"""A run is live where a rollout was filed within these seconds."""
_POINTS = 60
"""The most points of a sparkline."""


@dataclass(frozen=True, slots=True)
class Point:
    """The mean reward of a step, or of some steps that follow each other."""

    step: int
    """The first of them."""
    reward: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in numbers."""

    name: str
    path: str
    """Its log path."""
    bundles: tuple[str, ...]
    """The names and versions of the bundles that it plays, such as `number_search 1`."""
    attempts: int
    rollouts: int
    """All that are filed, those of superseded attempts too."""
    last_step: int | None = None
    """The highest step that has rollouts; None where nothing is filed."""
    reward: float | None = None
    """The mean of the scored rewards of the last training step that has one."""
    points: tuple[Point, ...] = ()
    """The training reward over all steps, in at most 60 points."""
    active_at: float | None = None
    """When a rollout was last filed, in seconds since the epoch."""
    live: bool = False
    """Whether that was within the last 10 minutes."""


def runs_of(connection: Connection) -> list[RunRow]:
    """Every run, in the order in which they began."""
    played = _bundles(connection)
    points = _points(connection)
    now = time.time()
    return [
        RunRow(
            row.name,
            row.path,
            tuple(played.get(row.id, ())),
            row.attempts or 0,
            row.rollouts,
            row.last_step,
            row.reward,
            tuple(points.get(row.id, ())),
            row.active_at,
            row.active_at is not None and now - row.active_at < LIVE_S,
        )
        for row in connection.execute(_RUNS)
    ]


_STANDING = totals.join(run_groups, totals.c.run_group_id == run_groups.c.id).join(
    attempts, totals.c.attempt_id == attempts.c.id
)
_TRAINED = (run_groups.c.split == "train", totals.c.scored > 0, ~SUPERSEDED)
_LAST_STEP = (
    select(func.max(run_groups.c.step)).where(run_groups.c.run_id == runs.c.id).scalar_subquery()
)
_LAST_REWARD = (
    select(totals.c.reward / totals.c.scored)
    .select_from(_STANDING)
    .where(run_groups.c.run_id == runs.c.id, *_TRAINED)
    .order_by(run_groups.c.step.desc())
    .limit(1)
    .correlate(runs)
    .scalar_subquery()
)
_RUNS = select(
    runs,
    select(func.max(attempts.c.number))
    .where(attempts.c.run_id == runs.c.id)
    .scalar_subquery()
    .label("attempts"),
    _LAST_STEP.label("last_step"),
    _LAST_REWARD.label("reward"),
).order_by(runs.c.id)


def _bundles(connection: Connection) -> dict[int, list[str]]:
    query = (
        select(run_bundles.c.run_id, bundles.c.name, bundles.c.version)
        .join(bundles, run_bundles.c.bundle_id == bundles.c.id)
        .order_by(bundles.c.name, bundles.c.version)
    )
    found: dict[int, list[str]] = {}
    for run, name, version in connection.execute(query):
        label = f"{name} {version}"
        if label not in found.setdefault(run, []):
            found[run].append(label)
    return found


def _points(connection: Connection) -> dict[int, list[Point]]:
    found: dict[int, list[Point]] = {}
    rows = connection.execute(_CURVES, {"points": _POINTS})
    for run, step, reward, scored in rows:
        found.setdefault(run, []).append(Point(step, reward / scored))
    return found


_span = (
    select(run_groups.c.run_id, (func.max(run_groups.c.step) + 1).label("steps"))
    .group_by(run_groups.c.run_id)
    .subquery("span")
)
_stretch = run_groups.c.step * bindparam("points") // _span.c.steps
_CURVES = (
    select(
        run_groups.c.run_id,
        func.min(run_groups.c.step),
        func.sum(totals.c.reward),
        func.sum(totals.c.scored),
    )
    .select_from(_STANDING.join(_span, _span.c.run_id == run_groups.c.run_id))
    .where(*_TRAINED)
    .group_by(run_groups.c.run_id, _stretch)
    .order_by(run_groups.c.run_id, _stretch)
)
