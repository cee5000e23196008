"""The steps of a run that the trainer alone logged: from its metrics, and exact where its rollout
summaries are there to be read.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tinker_episodes.explorer.hostlog.files import Row, number, size_of, whole
from tinker_episodes.explorer.hostlog.summaries import Place, grouped, numbers_of, rollouts_of
from tinker_episodes.index import Split
from tinker_episodes.index.reading import GroupRow, StepRow

_ALL = "env/all/"
MOST_BYTES = 256_000_000
"""Summaries are read for curves up to this size in all; beyond it, the metrics alone are."""

_NOTHING = StepRow(
    split=Split.TRAIN, step=0, groups=0, rollouts=0, scored=0, reward=None, success=None,
    cut=0, failed=0, abandoned=0,
)  # fmt: skip


class Steps:
    """The rows of one run's curves. A summary file is read again only where its size changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[int, StepRow]] = {}

    def rows(self, metrics: Iterable[Row], places: Sequence[Place]) -> list[StepRow]:
        """One row a step and split, in order, evals before training."""
        found = _from_metrics(metrics)
        room = MOST_BYTES
        for place in reversed(places):
            size = size_of(place.file)
            room -= size
            if room < 0:
                break
            exact = self._of(place, size)
            if exact is not None:
                found[place.split, place.iteration] = exact
        return sorted(found.values(), key=lambda row: (row.step, row.split))

    def _of(self, place: Place, size: int) -> StepRow | None:
        key = (place.base, place.iteration)
        if key not in self._known or self._known[key][0] != size:
            groups = [(row, numbers) for row, numbers in _numbered(place)]
            if not groups:
                return None
            self._known[key] = (size, _step_row(place, groups))
        return self._known[key][1]


def _numbered(place: Place) -> Iterable[tuple[GroupRow, list[dict[str, float]]]]:
    for row, rollouts in grouped(place, rollouts_of(place)):
        yield row, [numbers_of(rollout) for rollout in rollouts]


def _step_row(place: Place, groups: Sequence[tuple[GroupRow, list[dict[str, float]]]]) -> StepRow:
    rows = [row for row, _ in groups]
    rewards = [reward for row in rows for reward in row.rewards if reward is not None]
    means = [row.mean for row in rows if row.mean is not None]
    variances = [row.spread**2 for row in rows if row.spread is not None]
    comparable = [row.constant for row in rows if row.constant is not None]
    rollouts = sum(row.size for row in rows)
    scores: dict[str, list[float]] = defaultdict(list)
    for _, numbers in groups:
        for one in numbers:
            for name, value in one.items():
                scores[name].append(value)
    return replace(
        _NOTHING,
        split=place.split,
        step=place.iteration,
        groups=len(rows),
        rollouts=rollouts,
        scored=len(rewards),
        reward=_mean(rewards),
        success=_mean([float(reward >= 1) for reward in rewards]),
        trained=rollouts if place.split is Split.TRAIN else 0,
        trained_reward=_mean(rewards),
        spread_between=statistics.pstdev(means) if means else None,
        spread_inside=statistics.fmean(variances) ** 0.5 if variances else None,
        constant=_mean([float(one) for one in comparable]),
        scores={name: statistics.fmean(values) for name, values in scores.items()},
        turns=sum(row.turns for row in rows) / rollouts,
        sampled_tokens=sum(row.sampled_tokens for row in rows) / rollouts,
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


# ---------------------------------------------------------------- metrics


def _from_metrics(metrics: Iterable[Row]) -> dict[tuple[Split, int], StepRow]:
    """Rows from `metrics.jsonl`; of a step that was played again after a resume, the last one."""
    found: dict[tuple[Split, int], StepRow] = {}
    for row in metrics:
        step = number(row.get("step"))
        if step is None:
            continue
        for prefix in _prefixes(row):
            split = Split.TRAIN if prefix == _ALL else Split.EVAL
            found[split, int(step)] = _metrics_row(row, prefix, split, int(step))
    return found


def _prefixes(row: Row) -> list[str]:
    """Where rewards stand: `env/all/` of training, `test/env/all/` and the like of evals."""
    end = f"{_ALL}reward/total"
    return [
        key.removesuffix("reward/total") for key in row if key == end or key.endswith(f"/{end}")
    ]


def _metrics_row(row: Row, prefix: str, split: Split, step: int) -> StepRow:
    rollouts = whole(row.get(f"{prefix}total_episodes"))
    tokens = number(row.get(f"{prefix}total_ac_tokens"))
    good = number(row.get(f"{prefix}by_group/frac_all_good"))
    bad = number(row.get(f"{prefix}by_group/frac_all_bad"))
    return replace(
        _NOTHING,
        split=split,
        step=step,
        rollouts=rollouts,
        scored=rollouts,
        reward=number(row.get(f"{prefix}reward/total")),
        constant=None if good is None or bad is None else good + bad,
        turns=number(row.get(f"{prefix}turns_per_episode")),
        sampled_tokens=tokens / rollouts if tokens is not None and rollouts else None,
    )
