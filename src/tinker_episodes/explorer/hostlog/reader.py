"""Runs that the trainer alone logged, with the reading functions of the run index.

Keys are `log/<run>/<base>/<iteration>/<group>[/<place>]`: each part is looked up in what was
listed, never joined to a path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinker_episodes.explorer.hostlog.files import Lines, Row, number, size_of
from tinker_episodes.explorer.hostlog.logtree import Node, episode_of, groups_of
from tinker_episodes.explorer.hostlog.steps import Steps
from tinker_episodes.explorer.hostlog.summaries import (
    HostRollout,
    Place,
    grouped,
    places_of,
    rollout_row,
    rollouts_of,
)
from tinker_episodes.index import Split
from tinker_episodes.index.reading import GroupPage, GroupRow, RolloutPage, RunRow, StepRow
from tinker_episodes.index.reading.runs import LIVE_S, Point

PREFIX = "log/"
"""How the keys of such groups and rollouts begin."""
_POINTS = 60


@dataclass(frozen=True, slots=True)
class HostDetail:
    """What the trainer wrote about a rollout beside its numbers."""

    steps: Sequence[Row]
    metrics: Mapping[str, Any]
    log: Node | None


class HostRun:
    """One log path."""

    def __init__(self, name: str, log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self._metrics = Lines(log_path / "metrics.jsonl")
        self._steps = Steps()
        self._lock = threading.Lock()

    def metrics(self) -> list[Row]:
        """The rows of `metrics.jsonl`."""
        return self._metrics.rows()

    def places(self) -> list[Place]:
        """Its summary files, in order."""
        return places_of(self.name, self.log_path)

    def steps(self) -> list[StepRow]:
        """Its curves."""
        with self._lock:
            return self._steps.rows(self.metrics(), self.places())

    def row(self) -> RunRow:
        """The run in numbers."""
        steps = self.steps()
        train = [row for row in steps if row.split is Split.TRAIN and row.reward is not None]
        active_at = self.active_at()
        return RunRow(
            name=self.name,
            path=str(self.log_path),
            bundles=(),
            attempts=1,
            rollouts=sum(row.rollouts for row in steps),
            last_step=max((row.step for row in steps), default=None),
            reward=train[-1].reward if train else None,
            points=_points(train),
            active_at=active_at,
            live=active_at is not None and time.time() - active_at < LIVE_S,
        )

    def active_at(self) -> float | None:
        """When the trainer last wrote metrics, in seconds since the epoch."""
        try:
            return (self.log_path / "metrics.jsonl").stat().st_mtime
        except OSError:
            return None

    def mark(self) -> tuple[int, int]:
        """What changes whenever there is something new to read."""
        places = self.places()
        newest = size_of(places[-1].file) if places else 0
        return size_of(self.log_path / "metrics.jsonl"), len(places) * 10**12 + newest


def _points(train: Sequence[StepRow]) -> tuple[Point, ...]:
    size = -(-len(train) // _POINTS) or 1
    found: list[Point] = []
    for at in range(0, len(train), size):
        rewards = [row.reward for row in train[at : at + size] if row.reward is not None]
        found.append(Point(train[at].step, sum(rewards) / len(rewards)))
    return tuple(found)


def is_log_path(folder: Path) -> bool:
    """Whether a trainer wrote there."""
    return (folder / "metrics.jsonl").is_file() or any(folder.glob("iteration_*"))


class HostReader:
    """The log paths at or in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, HostRun] = {}
        self._lock = threading.Lock()

    def runs(self, but: Collection[str] = ()) -> list[HostRun]:
        """The runs, without those whose log path is among `but`."""
        with self._lock:
            for name, path in self._found().items():
                if name not in self._runs:
                    self._runs[name] = HostRun(name, path)
            return [run for run in self._runs.values() if str(run.log_path) not in but]

    def _found(self) -> dict[str, Path]:
        if is_log_path(self._folder):
            return {self._folder.name or "run": self._folder}
        try:
            inside = sorted(path for path in self._folder.iterdir() if path.is_dir())
        except OSError:
            return {}
        return {path.name: path for path in inside if is_log_path(path)}

    def run(self, name: str) -> HostRun | None:
        """A run by its name."""
        return next((run for run in self.runs() if run.name == name), None)

    def step_groups(self, run: str, split: Split, step: int) -> list[GroupRow]:
        """The groups of a step."""
        found = self.run(run)
        places = [] if found is None else found.places()
        return [
            row
            for place in places
            if place.split is split and place.iteration == step
            for row, _ in grouped(place, rollouts_of(place))
        ]

    def group(self, key: str) -> GroupPage | None:
        """A group by its key."""
        found = self._group(key)
        if found is None:
            return None
        place, row, rollouts = found
        return GroupPage(row, tuple(rollout_row(place, rollout) for rollout in rollouts))

    def rollout(self, key: str) -> RolloutPage | None:
        """A rollout by its key, with what stands beside it."""
        found = self._group(key)
        if found is None:
            return None
        place, row, rollouts = found
        rows = [rollout_row(place, rollout) for rollout in rollouts]
        at = next((at for at, one in enumerate(rows) if one.key == key), None)
        if at is None:
            return None
        return RolloutPage(
            where=row.where,
            rollout=rows[at],
            previous=rows[at - 1].key if at > 0 else None,
            next=rows[at + 1].key if at + 1 < len(rows) else None,
            scores=(),
            entries=(),
            changes=(),
        )

    def detail(self, key: str) -> HostDetail | None:
        """What the trainer wrote about a rollout."""
        found = self._group(key)
        if found is None:
            return None
        place, row, rollouts = found
        one = next((one for one in rollouts if rollout_row(place, one).key == key), None)
        if one is None:
            return None
        log = self._logged(place, row, rollouts)
        episode = None if log is None else episode_of(log, one.place)
        return HostDetail(one.steps, one.metrics, episode)

    def log(self, key: str) -> Node | None:
        """What the trainer logged of a group."""
        found = self._group(key)
        return None if found is None else self._logged(*found)

    def _logged(self, place: Place, row: GroupRow, rollouts: Sequence[HostRollout]) -> Node | None:
        """The section of a group. Groups that were dropped are missing from the summaries, so that
        its number alone does not tell: the rewards and turns that were logged must be its own.
        """
        sections = groups_of(place.log_tree)
        at = rollouts[0].group
        ordered = sections[at : at + 1] + sections
        return next((section for section in ordered if _is_of(section, rollouts)), None)

    def _group(self, key: str) -> tuple[Place, GroupRow, list[HostRollout]] | None:
        parts = key.removeprefix(PREFIX).split("/")
        if not key.startswith(PREFIX) or len(parts) not in (4, 5):
            return None
        run, base, iteration, group = parts[:4]
        found = self.run(run)
        for place in [] if found is None else found.places():
            if place.base == base and str(place.iteration) == iteration:
                for row, rollouts in grouped(place, rollouts_of(place)):
                    if str(rollouts[0].group) == group:
                        return place, row, rollouts
        return None


def _is_of(section: Node, rollouts: Sequence[HostRollout]) -> bool:
    """Whether a logged group has just these rollouts: as many turns each, for the same reward."""
    for rollout in rollouts:
        episode = episode_of(section, rollout.place)
        totals = {} if episode is None else _totals(episode)
        if totals.get("num_turns") != str(len(rollout.steps)):
            return False
        if rollout.reward is not None and totals.get("total_return") != f"{rollout.reward:.3f}":
            return False
    return True


def _totals(node: Node) -> dict[str, str]:
    """The pairs of the tables that were logged of an episode as a whole."""
    found: dict[str, str] = {}
    for child in node.get("children", ()):
        if child["kind"] == "table":
            found.update({row[0]: row[1] for row in child["rows"] if len(row) == 2})
        elif child["kind"] in ("section", "block"):
            found.update(_totals(child))
    return found


def metrics_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The numbers of `metrics.jsonl` by step; of a step that was logged again, the last ones."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        step = number(row.get("step"))
        if step is not None:
            numbers = {key: value for key, raw in row.items() if (value := number(raw)) is not None}
            numbers.pop("step", None)
            found.setdefault(int(step), {}).update(numbers)
    return [{"step": step, "metrics": found[step]} for step in sorted(found)]
