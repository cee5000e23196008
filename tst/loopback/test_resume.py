"""A trainer that is killed again and again, and resumed with the host's own checkpoints.

A share of the kills is made here; `make resume-search` makes a hundred. `KILLS` and `SEED` in the
environment set how many there are at least, and where.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.filed import Filed, filed_so_far, said, tasks_by_step, url_of
from support.kills import Kill, train_until
from support.training import GROUPS, SIZE, async_mode, config
from tinker_cookbook.checkpoint_utils import get_last_checkpoint
from tinker_cookbook.rl import train

from tinker_episodes.index.reading import IndexReader

KILLS, SEED = int(os.environ.get("KILLS", "6")), int(os.environ.get("SEED", "0"))
STEPS = 4
MOMENTS = 90
"""About how many things a whole run writes."""

pytestmark = [
    pytest.mark.timeout(60 + 30 * KILLS),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Run:
    """One run, its kills, and what must hold after each of them."""

    def __init__(self, server: str, folder: Path, rng: random.Random, lasts_s: float) -> None:
        self.server, self.folder, self.rng, self.lasts_s = server, folder, rng, lasts_s
        self.log_path = folder / "run"
        self.mode = rng.choice(["sync", "sync", "stream", "async"])
        self.settings = _settings(self.mode, rng)
        self.seen: set[str] = set()
        self.starts = [0]

    def play(self, kills: int) -> int:
        """Kill and resume up to so often, then let it end; gives how often it was killed."""
        done = 0
        while done < kills and not self._start(self._kill()):
            done += 1
            self.check()
        if done == kills:
            assert self._start(Kill())
        self.check()
        self.check_whole()
        return done

    def _kill(self) -> Kill:
        if self.rng.random() < 0.5:
            return Kill(moment=self.rng.randint(1, MOMENTS))
        return Kill(seconds=self.rng.uniform(0.1, self.lasts_s))

    def _start(self, kill: Kill) -> bool:
        checkpoint = get_last_checkpoint(str(self.log_path))
        self.starts.append(0 if checkpoint is None else int(checkpoint.batch or 0))
        output = self.folder / "output.txt"
        return train_until(kill, output, self.server, self.log_path, **self.settings)

    def check(self) -> None:
        """What holds whenever the trainer is gone."""
        rollouts = {one.key: one for one in filed_so_far(self.log_path)}
        for told in said(self.log_path):
            assert rollouts[told.key].reward == told.reward
            self.seen.add(told.key)
        assert self.seen <= rollouts.keys()
        _check_whole_rows(self.folder / "episodes.db")
        for attempt, start_step in _attempts(self.folder / "episodes.db"):
            assert start_step in self.starts
            steps = [one.step for one in rollouts.values() if one.attempt == attempt]
            assert all(start_step <= step for step in steps)

    def check_whole(self) -> None:
        """What holds of a run that came to its end."""
        rollouts = filed_so_far(self.log_path)
        current = [one for one in rollouts if not one.superseded and one.status != "abandoned"]
        trained = [one for one in current if one.split == "train"]
        assert {one.step for one in trained} == set(range(STEPS))
        assert all(one.reward is not None for one in current)
        if self.mode != "async":
            self._check_steps(trained)
        self._check_evals([one for one in current if one.split == "eval"])
        reader = IndexReader(url_of(self.log_path))
        try:
            assert all(reader.transcript(key) for key in self.seen)
        finally:
            reader.close()

    def _check_steps(self, trained: list[Filed]) -> None:
        assert Counter(one.step for one in trained) == dict.fromkeys(range(STEPS), GROUPS * SIZE)
        plan = _plan(self.server, self.log_path, self.settings)
        assert tasks_by_step(trained, "train") == plan
        for step in range(STEPS):
            assert len({one.attempt for one in trained if one.step == step}) == 1
        if self.mode == "sync":  # else the host writes its summaries once it has a checkpoint
            assert all(one.trained for one in trained)

    def _check_evals(self, evals: list[Filed]) -> None:
        played = tasks_by_step(evals, "eval")
        if self.mode == "async":  # evals run beside the training: a kill may end one for good
            assert all(set(tasks) <= {"t8", "t9"} for tasks in played.values())
            assert all(len(tasks) == len(set(tasks)) for tasks in played.values()), played
            return
        ends = {step for step in played if step in (STEPS - 1, STEPS)}
        assert played == {step: ["t8", "t9"] for step in {0, 2, *ends}}, (self.mode, self.starts)


def _settings(mode: str, rng: random.Random) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "data": {"num_epochs": 2, "reuse_log_path": True},
        "max_steps": STEPS,
        "save_every": rng.choice([1, 2]),
    }
    if mode == "stream":
        settings["stream_minibatch_config"] = train.StreamMinibatchConfig(
            groups_per_batch=GROUPS, num_minibatches=GROUPS
        )
    if mode == "async":
        settings["async_config"] = async_mode(STEPS)
    return settings


def _plan(server: str, log_path: Path, settings: dict[str, Any]) -> dict[int, list[str]]:
    dataset, _ = asyncio.run(config(server, str(log_path), **settings).dataset_builder())
    batches = {step: dataset.get_batch(step) for step in range(STEPS)}
    return {step: sorted(g.task.id for g in batch) for step, batch in batches.items()}


def _check_whole_rows(file: Path) -> None:
    """The database is sound, and no rollout is there in part."""
    if not file.exists():
        return
    connection = sqlite3.connect(file)
    try:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        if not connection.execute("select 1 from sqlite_master where name = 'meta'").fetchall():
            return
        parts = connection.execute("""
            select count(*) from rollouts where status in ('finished', 'cut') and (
                id not in (select rollout_id from transcripts)
                or id not in (select rollout_id from scores))
        """)
        assert parts.fetchone() == (0,)
    finally:
        connection.close()


def _attempts(file: Path) -> list[tuple[int, int]]:
    if not file.exists():
        return []
    connection = sqlite3.connect(file)
    try:
        if not connection.execute("select 1 from sqlite_master where name = 'meta'").fetchall():
            return []
        return connection.execute("select number, start_step from attempts").fetchall()
    finally:
        connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[], Path]:
    """Makes folders of runs."""
    numbers = itertools.count()

    def make() -> Path:
        made = tmp_path / str(next(numbers))
        made.mkdir()
        return made

    return make


def _lasts_s(server: str, folder: Callable[[], Path]) -> float:
    """How long a whole run lasts here, once its modules are loaded."""
    train_until(Kill(moment=1), folder() / "output.txt", server, folder() / "run")
    began = time.monotonic()
    settings = _settings("sync", random.Random(0))
    assert train_until(Kill(), folder() / "output.txt", server, folder() / "run", **settings)
    return time.monotonic() - began


def test_killed_runs_resume_and_lose_nothing(server: str, folder: Callable[[], Path]) -> None:
    rng, lasts_s = random.Random(SEED), _lasts_s(server, folder)
    done = runs = 0
    while done < KILLS:
        run = Run(server, folder(), rng, lasts_s)
        done += run.play(min(KILLS - done, rng.randint(2, 8)))
        runs += 1
    print(f"{done} kills of {runs} runs; a run lasts {lasts_s:.1f} s")
