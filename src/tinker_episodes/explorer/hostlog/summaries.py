"""The trainer's rollout summaries of one iteration, as groups and rollouts in numbers.

Each line of `iteration_*/<base>_rollout_summaries.jsonl` is a rollout: its group and place in it,
rewards, and its turns in numbers, with what the environment put into metrics and logs.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tinker_episodes.explorer.hostlog.files import Row, number, rows_of, whole
from tinker_episodes.index import Split, Status
from tinker_episodes.index.reading import GroupRow, RolloutRow, Where

_ITERATION = re.compile(r"iteration_(\d+)")
_SUMMARIES = "_rollout_summaries.jsonl"


@dataclass(frozen=True, slots=True)
class Place:
    """One summary file: of an iteration, and of what the trainer calls `train` or `eval_…`."""

    run: str
    base: str
    iteration: int
    file: Path

    @property
    def split(self) -> Split:
        return split_of(self.base)

    @property
    def log_tree(self) -> Path:
        """Where the trainer puts what it logged for people in the same iteration."""
        return self.file.with_name(f"{self.base}_logtree.json")


@dataclass(frozen=True, slots=True)
class HostRollout:
    """One line of a summary file."""

    group: int
    place: int
    tags: tuple[str, ...]
    reward: float | None
    sampler_step: int | None
    metrics: Mapping[str, Any]
    steps: Sequence[Row]
    observation_tokens: int


def split_of(base: str) -> Split:
    """Which split a base name stands for."""
    return Split.TRAIN if base == "train" else Split.EVAL


def places_of(run: str, log_path: Path) -> list[Place]:
    """The summary files at a log path, in the order of iterations."""
    found: list[Place] = []
    for folder in _folders(log_path):
        match = _ITERATION.fullmatch(folder.name)
        if match is None:
            continue
        for file in sorted(folder.glob(f"*{_SUMMARIES}")):
            base = file.name.removesuffix(_SUMMARIES)
            found.append(Place(run, base, int(match.group(1)), file))
    return sorted(found, key=lambda place: (place.iteration, place.base))


def _folders(log_path: Path) -> list[Path]:
    try:
        return [folder for folder in log_path.glob("iteration_*") if folder.is_dir()]
    except OSError:
        return []


def rollouts_of(place: Place) -> list[HostRollout]:
    """The rollouts of a summary file; lines that are no such thing are passed over."""
    return [_rollout(row) for row in rows_of(place.file) if isinstance(row.get("steps"), list)]


def _rollout(row: Row) -> HostRollout:
    steps = [cast(Row, step) for step in row["steps"] if isinstance(step, dict)]
    tags: object = row.get("tags")
    metrics: object = row.get("trajectory_metrics")
    sampler_step = number(row.get("sampling_client_step"))
    return HostRollout(
        group=whole(row.get("group_idx")),
        place=whole(row.get("traj_idx")),
        tags=tuple(str(tag) for tag in cast(list[Any], tags)) if isinstance(tags, list) else (),
        reward=number(row.get("total_reward")),
        sampler_step=None if sampler_step is None else int(sampler_step),
        metrics=cast(dict[str, Any], metrics) if isinstance(metrics, dict) else {},
        steps=steps,
        observation_tokens=whole(row.get("final_ob_len")),
    )


# ---------------------------------------------------------------- as the index has them


def group_key(place: Place, group: int) -> str:
    """The key of a group; `reader.py` reads it back."""
    return f"log/{place.run}/{place.base}/{place.iteration}/{group}"


def grouped(
    place: Place, found: Sequence[HostRollout]
) -> Iterator[tuple[GroupRow, list[HostRollout]]]:
    """The groups of a summary file, each with its rollouts in their places."""
    by_group: dict[int, list[HostRollout]] = {}
    for rollout in found:
        by_group.setdefault(rollout.group, []).append(rollout)
    for number_, rollouts in by_group.items():
        rollouts.sort(key=lambda rollout: rollout.place)
        yield group_row(place, number_, rollouts), rollouts


def group_row(place: Place, number_: int, rollouts: Sequence[HostRollout]) -> GroupRow:
    """A group in numbers."""
    rewards = [rollout.reward for rollout in rollouts]
    known = [reward for reward in rewards if reward is not None]
    return GroupRow(
        where=where_of(place, number_, rollouts[0].tags),
        size=len(rollouts),
        scored=len(known),
        mean=statistics.fmean(known) if known else None,
        low=min(known, default=None),
        high=max(known, default=None),
        spread=statistics.pstdev(known) if known else None,
        constant=len(set(known)) == 1 if len(known) > 1 else None,
        cut=0,
        failed=0,
        abandoned=0,
        turns=sum(len(rollout.steps) for rollout in rollouts),
        tool_errors=0,
        format_errors=0,
        sampled_tokens=sum(map(sampled_tokens, rollouts)),
        rewards=tuple(rewards),
    )


def where_of(place: Place, group: int, tags: tuple[str, ...]) -> Where:
    """Where a group stands. The trainer names no task: its tags and its number have to do."""
    name = "/".join(tags) or ("group" if place.base == "train" else place.base)
    return Where(
        run=place.run,
        split=place.split,
        step=place.iteration,
        attempt=1,
        superseded=False,
        group=group_key(place, group),
        bundle="",
        version="",
        task=f"{name} {group}",
        tags=tags,
    )


def rollout_row(place: Place, rollout: HostRollout) -> RolloutRow:
    """A rollout in short."""
    return RolloutRow(
        key=f"{group_key(place, rollout.group)}/{rollout.place}",
        place=rollout.place,
        status=Status.FINISHED,
        reward=rollout.reward,
        trained_reward=rollout.reward,
        trained=place.split is Split.TRAIN,
        sampler_step=rollout.sampler_step,
        cut=None,
        reason="",
        turns=len(rollout.steps),
        messages=0,
        tool_calls=0,
        tool_errors=0,
        format_errors=0,
        sampled_tokens=sampled_tokens(rollout),
        observation_tokens=rollout.observation_tokens,
        opened_at=None,
        duration_s=None,
        scores=numbers_of(rollout),
    )


def numbers_of(rollout: HostRollout) -> dict[str, float]:
    """Its metrics that are numbers: of the whole, and the last of each that its turns have."""
    found: dict[str, float] = {}
    for metrics in (*(step.get("metrics") for step in rollout.steps), rollout.metrics):
        if isinstance(metrics, Mapping):
            for name, metric in cast(Mapping[str, Any], metrics).items():
                value = number(metric)
                if value is not None:
                    found[name] = value
    return found


def sampled_tokens(rollout: HostRollout) -> int:
    """The tokens that were sampled in all of its turns."""
    return sum(whole(step.get("ac_len")) for step in rollout.steps)
