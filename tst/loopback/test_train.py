"""The host's unmodified trainer on a bundle's tasks over HTTP: its three modes, and a resume after
a kill.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chz
import pytest
import tinker
from support.training import GROUPS, SIZE, async_mode, config
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import RLDataset

from tinker_episodes.index import Split
from tinker_episodes.index.reading import IndexReader, StepRow
from tinker_episodes.index.writing import index_writer

TST = Path(__file__).parents[1]
EVERY_STEP = {("eval", 0), ("train", 0), ("train", 1), ("eval", 2), ("train", 2)}
FINAL_EVAL = {("eval", 3)}  # from 0.6 on the host evaluates the last weights too

# The host calls names that the SDK deprecates, and leaves files and sockets to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def log_path(tmp_path: Path) -> Iterator[Path]:
    """The log path of a run whose index is closed in the end."""
    yield tmp_path / "run"
    index_writer(f"sqlite:///{tmp_path / 'episodes.db'}").close()


def steps(log_path: Path) -> dict[tuple[str, int], StepRow]:
    """The run groups of the run, by split and step, once all is written."""
    url = f"sqlite:///{log_path.parent / 'episodes.db'}"
    index_writer(url).close()
    reader = IndexReader(url)
    try:
        return {(row.split.value, row.step): row for row in reader.steps(log_path.name)}
    finally:
        reader.close()


def rows(log_path: Path, split: Split, step: int) -> list[dict[str, Any]]:
    reader = IndexReader(f"sqlite:///{log_path.parent / 'episodes.db'}")
    try:
        return reader.rollouts(log_path.name, split, step)
    finally:
        reader.close()


def metrics(log_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (log_path / "metrics.jsonl").read_text().splitlines()]


async def test_every_rollout_of_a_run_is_filed_at_its_step(server: str, log_path: Path) -> None:
    await train.main(config(server, str(log_path)))
    found = steps(log_path)
    assert set(found) - FINAL_EVAL == EVERY_STEP
    for (split, _), row in found.items():
        assert row.rollouts == (GROUPS * SIZE if split == "train" else 2)
        assert row.scored == row.rollouts and row.failed == row.abandoned == 0


async def test_index_and_trainer_agree_on_rewards_and_cuts(server: str, log_path: Path) -> None:
    await train.main(config(server, str(log_path), max_steps=1))
    (logged,) = [row for row in metrics(log_path) if row.get("step") == 0]
    filed = rows(log_path, Split.TRAIN, 0) if steps(log_path) else []
    assert logged["env/all/reward/total"] == pytest.approx(
        sum(row["reward"] for row in filed) / len(filed)
    )
    assert logged["env/all/cut"] == sum(row["cut"] is not None for row in filed) / len(filed)
    assert logged["env/all/tool_calls"] == sum(row["tool_calls"] for row in filed) / len(filed)
    assert all(row["trained"] and row["sampler_step"] == 0 for row in filed)
    assert all(row["trained_reward"] == row["reward"] for row in filed)
    evals = rows(log_path, Split.EVAL, 0)
    assert [(row["trained"], row["trained_reward"]) for row in evals] == [(False, 0.0)] * 2


async def test_streamed_minibatches_file_every_rollout(server: str, log_path: Path) -> None:
    stream = train.StreamMinibatchConfig(groups_per_batch=GROUPS, num_minibatches=GROUPS)
    await train.main(config(server, str(log_path), stream_minibatch_config=stream))
    found = steps(log_path)
    assert [found["train", step].rollouts for step in range(3)] == [GROUPS * SIZE] * 3
    assert found["eval", 0].rollouts == found["eval", 2].rollouts == 2


async def test_async_training_files_rollouts_at_the_steps_that_trained_them(
    server: str, log_path: Path
) -> None:
    mode = async_mode(2)
    await train.main(config(server, str(log_path), async_config=mode))
    found = steps(log_path)
    assert sum(row.rollouts for (split, _), row in found.items() if split == "train") == 18
    for step in range(3):
        summary = log_path / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl"
        said = {
            json.loads(line)["steps"][0]["logs"]["episode"]
            for line in summary.read_text().splitlines()
        }
        trained = {row["key"] for row in rows(log_path, Split.TRAIN, step) if row["trained"]}
        assert trained == said


async def test_rollouts_in_a_thread_pool_are_filed_alike(server: str, log_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:  # an event loop a group
        await train.main(config(server, str(log_path), max_steps=1), rollout_executor=pool)
    found = steps(log_path)
    assert found["train", 0].rollouts == GROUPS * SIZE and found["eval", 0].rollouts == 2


async def test_run_that_was_killed_resumes_at_its_checkpoint(server: str, log_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TST), "TINKER_API_KEY": "tml-loopback"}
    command = [sys.executable, "-m", "support.training", server, str(log_path)]
    trainer = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=TST,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert trainer.stderr is not None
    async for line in trainer.stderr:  # killed while it samples its second step
        if b"Sampling batch 1" in line:
            break
    trainer.send_signal(signal.SIGKILL)
    await trainer.communicate()
    await train.main(config(server, str(log_path)))
    found = steps(log_path)
    assert set(found) - FINAL_EVAL == EVERY_STEP
    assert [found["train", step].rollouts for step in range(3)] == [GROUPS * SIZE] * 3
    reader = IndexReader(f"sqlite:///{log_path.parent / 'episodes.db'}")
    (run,) = reader.runs()
    reader.close()
    assert run.attempts == 2


async def test_interleaved_bundles_train_together(server: str, log_path: Path) -> None:
    from tinker_cookbook.rl.interleaved import InterleavedRLDatasetBuilder

    one = config(server, str(log_path)).dataset_builder
    other = config(
        server, str(log_path), data={"bundle": "number_search", "test_split": None}
    ).dataset_builder
    both = InterleavedRLDatasetBuilder(
        sources=[one, other], weights=[1, 1], groups_per_batch=4, total_batches=2
    )
    await train.main(config(server, str(log_path), dataset_builder=both))
    found = steps(log_path)
    assert [found["train", step].rollouts for step in range(2)] == [4 * SIZE] * 2


def test_builder_gives_the_hosts_datasets(server: str, log_path: Path) -> None:
    dataset, test = asyncio.run(config(server, str(log_path)).dataset_builder())
    assert isinstance(dataset, RLDataset) and isinstance(test, RLDataset)


async def test_the_same_seed_gives_the_same_run(server: str, tmp_path: Path) -> None:
    """Two sessions of one server; in the second, rollouts of a step play one after another."""
    runs: list[tuple[list[list[tuple[float, ...]]], list[float]]] = []
    for at_once in (6, 1):
        log_path = tmp_path / f"run-{at_once}"
        data = {"max_concurrent_episodes": at_once}
        await train.main(config(server, str(log_path), data=data, save_every=0))
        logged = [row["optim/entropy"] for row in metrics(log_path) if "optim/entropy" in row]
        runs.append(([summaries(log_path, step) for step in range(3)], logged))
    index_writer(f"sqlite:///{tmp_path / 'episodes.db'}").close()
    assert runs[0][0] == runs[1][0]
    assert len(runs[0][1]) == 3 and runs[0][1] == pytest.approx(runs[1][1], rel=1e-6)


def summaries(log_path: Path, step: int) -> list[tuple[float, ...]]:
    """Each rollout's reward and the lengths of its samples, in no particular order."""
    file = log_path / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl"
    rollouts = [json.loads(line) for line in file.read_text().splitlines()]
    return sorted(
        (one["total_reward"], *(turn["ac_len"] for turn in one["steps"])) for one in rollouts
    )


async def test_a_run_with_a_loss_that_is_not_here_ends_with_one_sentence(
    server: str, log_path: Path
) -> None:
    """`stable_reinforce` is the default of asynchronous runs from 0.6 on.

    It is refused where it would train: a strategy that tolerates failing rollouts would swallow a
    refusal to sample, and end a run in which nothing was trained as a success.
    """
    mode: dict[str, Any] = {"loss_fn": "stable_reinforce"}
    if "loss_fn" in chz.chz_fields(train.AsyncConfig):
        mode = {"async_config": train.AsyncConfig(max_steps_off_policy=1, groups_per_batch=GROUPS)}
    settings = config(server, str(log_path), rollout_error_tolerance=True, **mode)
    with pytest.raises(tinker.RequestFailedError, match=r"no published formula.*loss_fn='ppo'"):
        await train.main(settings)
