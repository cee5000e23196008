"""The step of every rollout, in each mode of the host's unmodified trainer over HTTP.

`rollout_json_export=False`: the trainer says nothing of its rollouts, so what is filed is what was
told while they played.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chz
import pytest
from support.filed import assert_agrees, filed, said, tasks_by_step, url_of
from support.training import GROUPS, SIZE, async_mode, config
from tinker_cookbook.rl import train
from tinker_cookbook.rl.interleaved import InterleavedRLDatasetBuilder

from tinker_episodes.index.writing import index_writer

# The host calls names that the SDK deprecates, and leaves files and sockets to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HOST_EPOCHS = "num_epochs" in chz.chz_fields(train.Config)
"""From 0.6 on the host cycles a dataset, evaluates the last weights, and requeues nothing."""
needs_epochs = pytest.mark.skipif(not HOST_EPOCHS, reason="the host has no epochs of its own")


@pytest.fixture
def log_path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    index_writer(url_of(tmp_path / "run")).close()


def interleaved(server: str, log_path: Path, batches: int) -> InterleavedRLDatasetBuilder:
    """Two of our builders, whose batches the host asks for in an order of its own."""
    sources = [
        config(server, str(log_path), data={"test_split": None, **data}).dataset_builder
        for data in ({}, {"bundle": "number_search"})
    ]
    return InterleavedRLDatasetBuilder(
        sources=sources, weights=[2, 1], groups_per_batch=GROUPS, total_batches=batches
    )


async def planned(trained: train.Config, steps: int) -> dict[int, list[str]]:
    """The tasks that a synchronous trainer plays at each step: those of the batch it asks for."""
    dataset, _ = await trained.dataset_builder()
    batches = [dataset.get_batch(step % len(dataset)) for step in range(steps)]
    return {step: sorted(g.task.id for g in batch) for step, batch in enumerate(batches)}


# ---------------------------------------------------------------- before the trainer says so


async def test_each_epoch_of_ours_is_filed_at_its_steps_at_once(
    server: str, log_path: Path
) -> None:
    trained = config(server, str(log_path), data={"num_epochs": 2}, rollout_json_export=False)
    plan = await planned(trained, 6)
    await train.main(trained)
    rollouts = filed(log_path)
    assert tasks_by_step(rollouts, "train") == plan
    assert len(rollouts) == 6 * GROUPS * SIZE + 2 * (3 + HOST_EPOCHS)
    assert not any(one.trained for one in rollouts)


@needs_epochs
async def test_each_epoch_of_the_hosts_is_filed_at_its_steps_at_once(
    server: str, log_path: Path
) -> None:
    trained = config(server, str(log_path), num_epochs=2, max_steps=5, rollout_json_export=False)
    plan = await planned(trained, 5)
    assert plan[3] == plan[0]
    await train.main(trained)
    assert tasks_by_step(filed(log_path), "train") == plan


async def test_batches_of_an_interleaved_dataset_are_filed_at_its_steps_at_once(
    server: str, log_path: Path
) -> None:
    trained = config(
        server,
        str(log_path),
        dataset_builder=interleaved(server, log_path, 4),
        rollout_json_export=False,
    )
    plan = await planned(trained, 4)
    await train.main(trained)
    assert tasks_by_step(filed(log_path), "train") == plan


async def test_evals_are_filed_where_they_are_played_again_at_once(
    server: str, log_path: Path
) -> None:
    await train.main(config(server, str(log_path), max_steps=3, rollout_json_export=False))
    evals = [one for one in filed(log_path) if one.split == "eval"]
    ends = [3] if HOST_EPOCHS else []
    assert tasks_by_step(evals, "eval") == {step: ["t8", "t9"] for step in [0, 2, *ends]}
    assert len({one.group for one in evals}) == len(evals)


async def test_streamed_minibatches_are_filed_at_their_steps_at_once(
    server: str, log_path: Path
) -> None:
    stream = train.StreamMinibatchConfig(groups_per_batch=GROUPS, num_minibatches=GROUPS)
    trained = config(
        server, str(log_path), stream_minibatch_config=stream, rollout_json_export=False
    )
    plan = await planned(trained, 3)
    await train.main(trained)
    rollouts = filed(log_path)
    assert tasks_by_step(rollouts, "train") == plan
    assert set(tasks_by_step(rollouts, "eval")) == {0, 2, *([3] if HOST_EPOCHS else [])}


# ---------------------------------------------------------------- after


@pytest.mark.parametrize("mode", ["sync", "stream", "async", "streamed async"])
async def test_index_and_trainer_agree_in_every_mode(
    server: str, log_path: Path, mode: str
) -> None:
    settings: dict[str, Any] = {}
    if "stream" in mode:
        settings["stream_minibatch_config"] = train.StreamMinibatchConfig(
            groups_per_batch=GROUPS, num_minibatches=GROUPS
        )
    if "async" in mode:
        settings["async_config"] = async_mode(2)
    await train.main(config(server, str(log_path), **settings))
    assert_agrees(log_path)


async def test_index_and_trainer_agree_on_interleaved_datasets_off_policy(
    server: str, log_path: Path
) -> None:
    both = interleaved(server, log_path, 4)
    await train.main(
        config(server, str(log_path), dataset_builder=both, async_config=async_mode(1))
    )
    assert_agrees(log_path)
    assert {one.step for one in said(log_path)} >= {0, 1}


@pytest.mark.skipif(HOST_EPOCHS, reason="the host discards no stale group")
async def test_group_that_is_stale_is_filed_untrained_and_played_again(
    server: str, log_path: Path
) -> None:
    mode = async_mode(0)
    await train.main(
        config(server, str(log_path), data={"num_epochs": 3}, async_config=mode, max_steps=6)
    )
    assert_agrees(log_path)
    train_groups = [one for one in filed(log_path) if one.split == "train"]
    stale = {one.group for one in train_groups if not one.trained}
    assert stale
    assert all(one.reward is not None for one in train_groups if one.group in stale)
