"""A run step by step: its curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, select
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


def steps_of(
    connection: Connection,
    run: str,
    *,
    split: Split | None = None,
    first: int | None = None,
    last: int | None = None,
) -> list[StepRow]:
    """The run groups of a run by name, in the order of steps, evals before training."""

    chosen = [runs.c.name == run]
    if split is not None:
        chosen.append(run_groups.c.split == str(split))
    if first is not None:
        chosen.append(run_groups.c.step >= first)
    if last is not None:
        chosen.append(run_groups.c.step <= last)
    scores: dict[int, dict[str, tuple[int, float]]] = {}
    for run_group, name, scored, value in connection.execute(_SCORES.where(*chosen)).all():
        of_step = scores.setdefault(run_group, {})
        before = of_step.get(name, (0, 0.0))
        of_step[name] = (before[0] + scored, before[1] + value)
    cuts: dict[int, dict[str, int]] = {}
    for run_group, cut, count in connection.execute(_CUTS.where(*chosen)).all():
        of_cuts = cuts.setdefault(run_group, {})
        of_cuts[cut] = of_cuts.get(cut, 0) + count
    rows = groupby(connection.execute(_TOTALS.where(*chosen)).all(), key=lambda row: row[0])
    return [
        _step_row(_added(list(some)), scores.get(run_group, {}), cuts.get(run_group, {}))
        for run_group, some in rows
    ]


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


def _added(rows: Sequence[Any]) -> Sequence[Any]:
    """The totals of a step: of one attempt, but where a resumed one files before its start too."""
    if len(rows) == 1:
        return rows[0]
    return [*rows[0][:3], *(sum(column) for column in zip(*(row[3:] for row in rows), strict=True))]


def _step_row(
    row: Sequence[Any], scores: Mapping[str, tuple[int, float]], cuts: Mapping[str, int]
) -> StepRow:
    _, split, step, *sums = row
    of: dict[str, Any] = dict(zip(SUMS, sums, strict=True))
    rollouts, scored, some = of["rollouts"], of["scored"], of["scored_groups"]
    return StepRow(
        split=Split(split),
        step=step,
        groups=of["groups"],
        rollouts=rollouts,
        scored=scored,
        reward=_mean(of["reward"], scored),
        success=_mean(of["success"], scored),
        cut=of["cut"],
        failed=of["failed"],
        abandoned=of["abandoned"],
        trained=of["trained"],
        trained_reward=_mean(of["trained_reward"], of["trained_scored"]),
        spread_between=_deviation(of["group_mean"], of["group_mean_squared"], some),
        spread_inside=_root(_mean(of["group_variance"], some)),
        constant=_mean(of["constant_groups"], of["comparable_groups"]),
        scores={name: value / count for name, (count, value) in sorted(scores.items())},
        cuts=dict(sorted(cuts.items())),
        **{name: of[name] / rollouts for name in _MEANS},
    )


_MEANS = (
    "turns", "messages", "tool_calls", "tool_errors", "format_errors", "sampled_tokens",
    "observation_tokens",
)  # fmt: skip


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(max(0.0, value))


def _deviation(total: float, squared: float, count: int) -> float | None:
    """The standard deviation of numbers, from their sum and the sum of their squares."""
    if not count:
        return None
    mean = total / count
    return _root(squared / count - mean * mean)
