"""A run step by step: its curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select
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
    scores: dict[int, dict[str, float]] = {}
    for run_group, name, value in connection.execute(_SCORES.where(*chosen)):
        scores.setdefault(run_group, {})[name] = value
    cuts: dict[int, dict[str, int]] = {}
    for run_group, cut, count in connection.execute(_CUTS.where(*chosen)):
        cuts.setdefault(run_group, {})[cut] = count
    return [
        _step_row(row, scores.get(row.id, {}), cuts.get(row.id, {}))
        for row in connection.execute(_TOTALS.where(*chosen))
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
        *(func.sum(totals.c[name]).label(name) for name in SUMS),
    )
    .select_from(_standing(totals))
    .where(totals.c.rollouts > 0, ~SUPERSEDED)
    .group_by(run_groups.c.id, run_groups.c.split, run_groups.c.step)
    .order_by(run_groups.c.step, run_groups.c.split)
)
_SCORES = (
    select(
        run_groups.c.id,
        score_totals.c.name,
        func.sum(score_totals.c.value) / func.sum(score_totals.c.scored),
    )
    .select_from(_standing(score_totals))
    .where(score_totals.c.scored > 0, ~SUPERSEDED)
    .group_by(run_groups.c.id, score_totals.c.name)
    .order_by(run_groups.c.id, score_totals.c.name)
)
_CUTS = (
    select(run_groups.c.id, cut_totals.c.cut, func.sum(cut_totals.c.rollouts))
    .select_from(_standing(cut_totals))
    .where(cut_totals.c.rollouts > 0, ~SUPERSEDED)
    .group_by(run_groups.c.id, cut_totals.c.cut)
    .order_by(run_groups.c.id, cut_totals.c.cut)
)


def _step_row(row: Any, scores: Mapping[str, float], cuts: Mapping[str, int]) -> StepRow:
    return StepRow(
        split=Split(row.split),
        step=row.step,
        groups=row.groups,
        rollouts=row.rollouts,
        scored=row.scored,
        reward=_mean(row.reward, row.scored),
        success=_mean(row.success, row.scored),
        cut=row.cut,
        failed=row.failed,
        abandoned=row.abandoned,
        trained=row.trained,
        trained_reward=_mean(row.trained_reward, row.trained_scored),
        spread_between=_deviation(row.group_mean, row.group_mean_squared, row.scored_groups),
        spread_inside=_root(_mean(row.group_variance, row.scored_groups)),
        constant=_mean(row.constant_groups, row.comparable_groups),
        scores=scores,
        cuts=cuts,
        turns=_mean(row.turns, row.rollouts),
        messages=_mean(row.messages, row.rollouts),
        tool_calls=_mean(row.tool_calls, row.rollouts),
        tool_errors=_mean(row.tool_errors, row.rollouts),
        format_errors=_mean(row.format_errors, row.rollouts),
        sampled_tokens=_mean(row.sampled_tokens, row.rollouts),
        observation_tokens=_mean(row.observation_tokens, row.rollouts),
    )


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
