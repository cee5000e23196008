"""What stands in a run's index, and what the trainer's own summaries say, past our own reading."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tinker_episodes.index.writing import index_writer

_QUERY = """
    select rollouts.key, groups.key, run_groups.split, run_groups.step, groups.task,
        attempts.number, rollouts.status, rollouts.reward, rollouts.trained,
        rollouts.trained_reward, rollouts.sampler_step, exists (
            select 1 from attempts as later where later.run_id = attempts.run_id
            and later.number > attempts.number and later.start_step <= run_groups.step)
    from rollouts join groups on groups.id = rollouts.group_id
    join run_groups on run_groups.id = groups.run_group_id
    join attempts on attempts.id = groups.attempt_id
    join runs on runs.id = attempts.run_id
    where runs.path = ? order by rollouts.id
"""


@dataclass(frozen=True)
class Filed:
    """One rollout of the index."""

    key: str
    group: str
    split: str
    step: int
    task: str
    attempt: int
    status: str
    reward: float | None
    trained: bool
    trained_reward: float | None
    sampler_step: int | None
    superseded: bool


@dataclass(frozen=True)
class Said:
    """One rollout of the trainer's summaries."""

    key: str
    split: str
    step: int
    sampler_step: int | None
    reward: float


def url_of(log_path: Path) -> str:
    return f"sqlite:///{log_path.parent / 'episodes.db'}"


def filed(log_path: Path) -> list[Filed]:
    """The rollouts of a run, once all is written."""
    index_writer(url_of(log_path)).close()
    return filed_so_far(log_path)


def filed_so_far(log_path: Path) -> list[Filed]:
    """The rollouts of a run that are committed."""
    file = log_path.parent / "episodes.db"
    if not file.exists():
        return []
    connection = sqlite3.connect(file)
    try:
        if not connection.execute("select 1 from sqlite_master where name = 'meta'").fetchall():
            return []
        return [Filed(*row) for row in connection.execute(_QUERY, (str(log_path),))]
    finally:
        connection.close()


def said(log_path: Path) -> list[Said]:
    """The rollouts of the trainer's summaries."""
    found: list[Said] = []
    for file in sorted(log_path.glob("iteration_*/*_rollout_summaries.jsonl")):
        split = "train" if file.name.startswith("train_") else "eval"
        for row in map(json.loads, file.read_text().splitlines()):
            key = row["steps"][0]["logs"]["episode"]
            step, reward = row["iteration"], row["total_reward"]
            found.append(Said(key, split, step, row["sampling_client_step"], reward))
    return found


def assert_agrees(log_path: Path) -> None:
    """What the trainer says of its rollouts stands in the index, and nothing else is trained."""
    rollouts = {one.key: one for one in filed(log_path)}
    told = said(log_path)
    assert told
    for one in told:
        found = rollouts[one.key]
        assert (found.split, found.step) == (one.split, one.step)
        assert (found.sampler_step, found.trained_reward) == (one.sampler_step, one.reward)
        assert bool(found.trained) == (one.split == "train")
    trained = {one.key for one in told if one.split == "train"}
    assert {one.key for one in rollouts.values() if one.trained} == trained


def tasks_by_step(rollouts: Iterable[Filed], split: str) -> dict[int, list[str]]:
    """The tasks of each step's groups, sorted."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for one in rollouts:
        if one.split == split:
            found[one.step][one.group] = one.task
    return {step: sorted(groups.values()) for step, groups in sorted(found.items())}
