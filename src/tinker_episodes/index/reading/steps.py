"""A run step by step: its curves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import add
from typing import Any

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.sql.schema import Table

from tinker_episodes.index.reading.where import SUPERSEDED
from tinker_episodes.index.records import Split
from tinker_episodes.index.tables import (
    attempts,
    cut_totals,
    run_groups,
    runs,
    score_totals,
    totals,
)
from tinker_episodes.index.totals import SUMS


@dataclass(frozen=True, slots=True)
class StepRow:
    """A run group in numbers, of the attempt that stands.

    A mean over nothing is None. Failed and abandoned rollouts are counted; they have no reward, and
    are no part of any mean of rewards.
    """

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
    trained: int = 0
    """Rollouts of groups that were in a training batch, as the trainer's own summaries say."""
    trained_reward: float | None = None
    """The mean reward after the trainer's clamps, of the rollouts that its summaries hold."""
    spread_between: float | None = None
    """The standard deviation of the groups' mean rewards."""
    spread_inside: float | None = None
    """The root of the groups' mean variance of rewards."""
    constant: float | None = None
    """The share of groups whose rewards are all the same, of those with two rewards or more."""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Each scorer's mean value."""
    cuts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Cut rollouts by reason."""
    turns: float | None = None
    """A mean over rollouts, as all that follow."""
    messages: float | None = None
    tool_calls: float | None = None
    tool_errors: float | None = None
    format_errors: float | None = None
    sampled_tokens: float | None = None
    observation_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class StepColumns:
    """The run groups of a run column by column: each list has one value a run group."""

    numbers: Mapping[str, Sequence[Any]]
    """By the names of `StepRow`, all but `scores` and `cuts`."""
    scores: Mapping[str, Sequence[float | None]]
    """Each scorer's mean values; None where it scored nothing."""
    cuts: Mapping[str, Sequence[int]]
    """Cut rollouts by reason."""

    @classmethod
    def of(cls, rows: Sequence[StepRow]) -> StepColumns:
        """The columns of some rows."""
        scorers = sorted({name for row in rows for name in row.scores})
        reasons = sorted({name for row in rows for name in row.cuts})
        return cls(
            {name: [getattr(row, name) for row in rows] for name in _NUMBERS},
            {name: [row.scores.get(name) for row in rows] for name in scorers},
            {name: [row.cuts.get(name, 0) for row in rows] for name in reasons},
        )

    def rows(self) -> list[StepRow]:
        """The run groups one by one."""
        numbers = zip(*self.numbers.values(), strict=True)
        return [
            StepRow(
                **dict(zip(self.numbers, row, strict=True)),
                scores={n: v for n, s in self.scores.items() if (v := s[at]) is not None},
                cuts={name: counts[at] for name, counts in self.cuts.items() if counts[at]},
            )
            for at, row in enumerate(numbers)
        ]


_NUMBERS = tuple(f.name for f in fields(StepRow) if f.name not in ("scores", "cuts"))


def step_columns(
    connection: Connection,
    run: str,
    *,
    split: Split | None = None,
    first: int | None = None,
    last: int | None = None,
) -> StepColumns:
    """The run groups of a run by name, in the order of steps, evals before training."""
    chosen = [runs.c.name == run]
    if split is not None:
        chosen.append(run_groups.c.split == str(split))
    if first is not None:
        chosen.append(run_groups.c.step >= first)
    if last is not None:
        chosen.append(run_groups.c.step <= last)
    rows = _added(connection.execute(_TOTALS.where(*chosen)).all())
    place = {row[0]: at for at, row in enumerate(rows)}
    scored: dict[str, list[int]] = defaultdict(lambda: [0] * len(rows))
    values: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(rows))
    for run_group, name, count, value in connection.execute(_SCORES.where(*chosen)).all():
        at = place[run_group]
        scored[name][at] += count
        values[name][at] += value
    cuts: dict[str, list[int]] = defaultdict(lambda: [0] * len(rows))
    for run_group, cut, count in connection.execute(_CUTS.where(*chosen)).all():
        cuts[cut][place[run_group]] += count
    return StepColumns(
        _numbers(rows),
        {name: _means(values[name], scored[name]) for name in sorted(scored)},
        dict(sorted(cuts.items())),
    )


def steps_beside(
    connection: Connection, run: str, split: Split, step: int
) -> tuple[int | None, int | None]:
    """The step before and the step after one, of the same split, that have rollouts."""
    of = {"run": run, "split": str(split), "step": step}
    return connection.execute(_BEFORE, of).scalar(), connection.execute(_AFTER, of).scalar()


def _standing(table: Table) -> Any:
    return (
        run_groups.join(runs, run_groups.c.run_id == runs.c.id)
        .join(table, table.c.run_group_id == run_groups.c.id)
        .join(attempts, table.c.attempt_id == attempts.c.id)
    )


_TOTALS = (
    select(
        run_groups.c.id,
        run_groups.c.split,
        run_groups.c.step,
        *(totals.c[name] for name in SUMS),
    )
    .select_from(_standing(totals))
    .where(totals.c.rollouts > 0, ~SUPERSEDED)
    .order_by(run_groups.c.step, run_groups.c.split)
)
_SCORES = (
    select(run_groups.c.id, score_totals.c.name, score_totals.c.scored, score_totals.c.value)
    .select_from(_standing(score_totals))
    .where(score_totals.c.scored > 0, ~SUPERSEDED)
)
_CUTS = (
    select(run_groups.c.id, cut_totals.c.cut, cut_totals.c.rollouts)
    .select_from(_standing(cut_totals))
    .where(cut_totals.c.rollouts > 0, ~SUPERSEDED)
)


_STEPS = (
    select(run_groups.c.step)
    .select_from(_standing(totals))
    .where(runs.c.name == bindparam("run"), run_groups.c.split == bindparam("split"))
    .where(totals.c.rollouts > 0, ~SUPERSEDED)
    .limit(1)
)
_BEFORE = _STEPS.where(run_groups.c.step < bindparam("step")).order_by(run_groups.c.step.desc())
_AFTER = _STEPS.where(run_groups.c.step > bindparam("step")).order_by(run_groups.c.step)


def _added(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """One row a run group: where attempts share one, as a resumed one may, their sums."""
    found: dict[int, Sequence[Any]] = {}
    for row in rows:
        same = found.get(row[0])
        found[row[0]] = row if same is None else [*row[:3], *map(add, row[3:], same[3:])]
    return list(found.values())


def _numbers(rows: Sequence[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """The columns of run groups from the sums over their rollouts."""
    names = ("id", "split", "step", *SUMS)
    of: dict[str, Sequence[Any]] = dict.fromkeys(names, ())
    of |= zip(names, zip(*rows, strict=True), strict=False)
    found: dict[str, Sequence[Any]] = {
        "split": [_SPLITS[split] for split in of["split"]],
        **{name: of[name] for name in _COUNTS},
        "reward": _means(of["reward"], of["scored"]),
        "success": _means(of["success"], of["scored"]),
        "trained_reward": _means(of["trained_reward"], of["trained_scored"]),
        "spread_between": list(
            map(_deviation, of["group_mean"], of["group_mean_squared"], of["scored_groups"])
        ),
        "spread_inside": list(map(_root, _means(of["group_variance"], of["scored_groups"]))),
        "constant": _means(of["constant_groups"], of["comparable_groups"]),
        **{name: _means(of[name], of["rollouts"]) for name in _MEANS},
    }
    return {name: list(found[name]) for name in _NUMBERS}


_SPLITS = {str(split): split for split in Split}
_COUNTS = ("step", "groups", "rollouts", "scored", "cut", "failed", "abandoned", "trained")
_MEANS = (
    "turns", "messages", "tool_calls", "tool_errors", "format_errors", "sampled_tokens",
    "observation_tokens",
)  # fmt: skip


def _means(totals: Sequence[float], counts: Sequence[int]) -> list[float | None]:
    return [t / count if count else None for t, count in zip(totals, counts, strict=True)]


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(max(0.0, value))


def _deviation(total: float, squared: float, count: int) -> float | None:
    """The standard deviation of numbers, from their sum and the sum of their squares."""
    if not count:
        return None
    mean = total / count
    return _root(squared / count - mean * mean)
