"""Rollouts that an executor plays elsewhere give the same records as those in process."""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chz
import pytest
from support.filed import assert_agrees, filed, tasks_by_step, url_of
from support.training import GROUPS, SIZE, config
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import RLDataset, RLDatasetBuilder

from tinker_episodes import loopback
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_steps": 1, "data": {"test_split": None}}
"""The first step's rollouts are the same each time."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for file in tmp_path.glob("*/episodes.db"):
        index_writer(f"sqlite:///{file}").close()


def spawned(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def records(log_path: Path) -> list[Any]:
    """All that is filed of the first step, but ids and times."""
    rollouts = filed(log_path)
    reader = IndexReader(url_of(log_path))
    try:
        bodies = {one.key: reader.transcript(one.key) for one in rollouts}
    finally:
        reader.close()
    assert all(body is not None for body in bodies.values())
    return sorted(
        repr((one.split, one.step, one.task, one.status, one.reward, _told(bodies[one.key])))
        for one in rollouts
    )


def _told(body: Any) -> Any:
    """What was said and sampled."""
    turns = [(turn["observation"], turn["sampled"], turn["reward"]) for turn in body["turns"]]
    return turns, [(entry["kind"], entry.get("content")) for entry in body["entries"]]


@pytest.fixture(scope="module")
def in_process(server: str, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The records of the first step, played by the trainer itself."""
    log_path = tmp_path_factory.mktemp("own") / "run"
    asyncio.run(train.main(config(server, str(log_path), **GREEDY)))
    return records(log_path)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, spawned])
async def test_executor_gives_the_records_that_the_trainer_itself_gives(
    server: str, folder: Path, in_process: list[Any], pool: Any
) -> None:
    log_path = folder / "elsewhere" / "run"
    executor: Executor = pool(2)
    await train.main(config(server, str(log_path), **GREEDY), rollout_executor=executor)
    assert records(log_path) == in_process
    assert len(in_process) == GROUPS * SIZE
    assert_agrees(log_path)


async def test_steps_and_evals_of_spawned_processes_are_filed_at_their_steps_at_once(
    server: str, folder: Path
) -> None:
    log_path = folder / "spawned" / "run"
    trained = config(server, str(log_path), rollout_json_export=False)
    await train.main(trained, rollout_executor=spawned(2))
    rollouts = filed(log_path)
    trained_tasks = tasks_by_step(rollouts, "train")
    assert [len(trained_tasks[step]) for step in range(3)] == [GROUPS] * 3
    assert {0, 2} <= set(tasks_by_step(rollouts, "eval")) <= {0, 2, 3}
    assert len({one.attempt for one in rollouts}) == 1


@chz.chz
class LosesItsIndex(RLDatasetBuilder):
    """Ours, whose index can't be made any more once it was called."""

    inner: RLDatasetBuilder
    file: str

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        datasets = await self.inner()
        Path(self.file).mkdir(parents=True)
        return datasets


@pytest.mark.parametrize("tolerant", [False, True])
def test_index_that_another_process_can_not_write_stops_the_trainer(
    server: str, folder: Path, tolerant: bool
) -> None:
    log_path = folder / "broken" / "run"
    inner = config(server, str(log_path), data={"test_split": None}).dataset_builder
    lost = LosesItsIndex(inner=inner, file=str(log_path.parent / "episodes.db"))
    trained = config(server, str(log_path), dataset_builder=lost, rollout_error_tolerance=tolerant)
    with spawned(2) as pool, pytest.raises(SystemExit, match=r"run index .* can't be opened"):
        asyncio.run(train.main(trained, rollout_executor=pool))


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed"
)
def test_ray_cluster_gives_the_records_that_the_trainer_itself_gives(
    server: str, folder: Path, in_process: list[Any]
) -> None:
    log_path = folder / "cluster" / "run"
    log_path.parent.mkdir()
    arguments = {
        "bundle": "support.scripted:COUNTING",
        "log_path": log_path,
        "model_name": loopback.model_name(),
        "renderer_name": "qwen3_instruct",
        "groups_per_batch": GROUPS,
        "group_size": SIZE,
        "max_tokens": 8,
        "learning_rate": 1e-4,
        "temperature": 0.0,
        "max_steps": 1,
        "base_url": server,
        "cpus": 2,
    }
    path = os.pathsep.join([str(ROOT / "tst"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TINKER_API_KEY": "tml-loopback"}
    command = [sys.executable, str(ROOT / "examples" / "ray_cluster.py")]
    done = subprocess.run(
        [*command, *(f"{name}={value}" for name, value in arguments.items())],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert records(log_path) == in_process
    assert_agrees(log_path)
