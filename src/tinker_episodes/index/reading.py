"""Reading the run index: runs and steps in numbers, and single rollouts. It never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Executable, RowMapping, and_, case, exists, func, select

from tinker_episodes.index.filing import unpacked
from tinker_episodes.index.records import Split
from tinker_episodes.index.schema import (
    attempts,
    bundles,
    groups,
    open_index,
    rollouts,
    run_groups,
    runs,
    scores,
    transcripts,
)

_later = attempts.alias("later")
_SUPERSEDED = exists(
    select(_later.c.id).where(
        _later.c.run_id == attempts.c.run_id,
        _later.c.number > attempts.c.number,
        _later.c.start_step <= run_groups.c.step,
    )
)
"""Whether a later attempt started at or before the step: then its rollouts stand in place of these.
"""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in numbers."""

    name: str
    path: str
    bundles: tuple[str, ...]
    """The names and versions of the bundles that it plays, such as `number_search 1`."""
    attempts: int
    rollouts: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """A run group in numbers, of the attempt that stands."""

    split: Split
    step: int
    groups: int
    rollouts: int
    scored: int
    """Rollouts that have a reward."""
    reward: float | None
    """The mean of the scored rewards."""
    success: float | None
    """The share of scored rollouts with a reward of at least 1."""
    cut: int
    failed: int
    abandoned: int


class IndexReader:
    """One index, opened to read."""

    def __init__(self, url: str) -> None:
        """
        Raises:
            RunIndexError: there is no index, or one of another version.
        """
        self._engine: Engine = open_index(url, create=False)

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    def runs(self) -> list[RunRow]:
        """Every run, in the order in which they began."""
        latest = select(func.max(_later.c.number)).where(_later.c.run_id == runs.c.id)
        played = (
            select(func.count(rollouts.c.id))
            .join(groups, rollouts.c.group_id == groups.c.id)
            .join(run_groups, groups.c.run_group_id == run_groups.c.id)
            .where(run_groups.c.run_id == runs.c.id)
        )
        query = (
            select(
                runs.c.name,
                runs.c.path,
                attempts.c.number.label("attempts"),
                played.scalar_subquery().label("rollouts"),
            )
            .join(attempts, attempts.c.run_id == runs.c.id)
            .where(attempts.c.number == latest.scalar_subquery())
            .order_by(runs.c.id)
        )
        played_bundles = self._bundles()
        return [
            RunRow(bundles=tuple(played_bundles.get(row["name"], ())), **row)
            for row in self._rows(query)
        ]

    def _bundles(self) -> dict[str, list[str]]:
        query = (
            select(runs.c.name.label("run"), bundles.c.name, bundles.c.version)
            .distinct()
            .select_from(
                groups.join(bundles, groups.c.bundle_id == bundles.c.id)
                .join(run_groups, groups.c.run_group_id == run_groups.c.id)
                .join(runs, run_groups.c.run_id == runs.c.id)
            )
            .order_by(bundles.c.name, bundles.c.version)
        )
        found: dict[str, list[str]] = {}
        for row in self._rows(query):
            found.setdefault(row["run"], []).append(f"{row['name']} {row['version']}")
        return found

    def steps(self, run: str) -> list[StepRow]:
        """The run groups of a run by name, in the order of steps, evals before training."""
        query = (
            select(run_groups.c.split, run_groups.c.step, *_TOTALS)
            .select_from(_JOINED)
            .where(runs.c.name == run, ~_SUPERSEDED)
            .group_by(run_groups.c.split, run_groups.c.step)
            .order_by(run_groups.c.step, run_groups.c.split)
        )
        return [_step_row(dict(row)) for row in self._rows(query)]

    def rollouts(self, run: str, split: Split, step: int) -> list[dict[str, Any]]:
        """The rollouts of a run group, group by group, with the columns of their rows."""
        query = (
            select(rollouts, groups.c.task, groups.c.key.label("group"))
            .select_from(_JOINED)
            .where(
                runs.c.name == run,
                run_groups.c.split == str(split),
                run_groups.c.step == step,
                ~_SUPERSEDED,
            )
            .order_by(groups.c.id, rollouts.c.place, rollouts.c.id)
        )
        return [dict(row) for row in self._rows(query)]

    def transcript(self, rollout: str) -> dict[str, Any] | None:
        """What was said and done in a rollout, by its key."""
        query = (
            select(transcripts.c.body)
            .join(rollouts, transcripts.c.rollout_id == rollouts.c.id)
            .where(rollouts.c.key == rollout)
        )
        with self._engine.connect() as connection:
            body = connection.execute(query).scalar()
        return None if body is None else unpacked(body)

    def find_rollouts(self, key: str) -> list[dict[str, Any]]:
        """The rollouts whose key begins with `key`, at most 10, with where they stand."""
        query = (
            select(
                rollouts,
                groups.c.task,
                runs.c.name.label("run"),
                run_groups.c.split,
                run_groups.c.step,
            )
            .select_from(_JOINED)
            .where(rollouts.c.key.startswith(key, autoescape=True))
            .limit(10)
        )
        return [dict(row) for row in self._rows(query)]

    def scores(self, rollout: str) -> list[dict[str, Any]]:
        """What each scorer found of a rollout, by its key."""
        query = (
            select(scores)
            .join(rollouts, scores.c.rollout_id == rollouts.c.id)
            .where(rollouts.c.key == rollout)
            .order_by(scores.c.name)
        )
        return [dict(row) for row in self._rows(query)]

    def _rows(self, query: Executable) -> Sequence[RowMapping]:
        with self._engine.connect() as connection:
            return connection.execute(query).mappings().all()


def _step_row(row: dict[str, Any]) -> StepRow:
    return StepRow(split=Split(row.pop("split")), **row)


_JOINED = (
    rollouts.join(groups, rollouts.c.group_id == groups.c.id)
    .join(run_groups, groups.c.run_group_id == run_groups.c.id)
    .join(attempts, groups.c.attempt_id == attempts.c.id)
    .join(runs, and_(run_groups.c.run_id == runs.c.id))
)

_TOTALS = (
    func.count(groups.c.id.distinct()).label("groups"),
    func.count(rollouts.c.id).label("rollouts"),
    func.count(rollouts.c.reward).label("scored"),
    func.avg(rollouts.c.reward).label("reward"),
    func.avg(case((rollouts.c.reward >= 1, 1.0), (rollouts.c.reward < 1, 0.0))).label("success"),
    func.count(rollouts.c.cut).label("cut"),
    func.sum(case((rollouts.c.status == "failed", 1), else_=0)).label("failed"),
    func.sum(case((rollouts.c.status == "abandoned", 1), else_=0)).label("abandoned"),
)
