"""Which task stands in which batch, and what a wrong name says."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.scripted import COUNTING
from tinker_cookbook.rl.rollout_limits import RolloutLimits
from tinker_cookbook.rl.types import RLDataset

from tinker_episodes import BundleError, ConfigError, EpisodeDatasetBuilder, RunIndexError, loopback


def builder(tmp_path: Path, **settings: Any) -> EpisodeDatasetBuilder:
    defaults: dict[str, Any] = {
        "bundle": "support.scripted:COUNTING",
        "model_name": loopback.model_name(),
        "renderer_name": "qwen3_instruct",
        "groups_per_batch": 3,
        "group_size": 2,
        "log_path": str(tmp_path / "run"),
    }
    return EpisodeDatasetBuilder(**{**defaults, **settings})


def tasks_of(dataset: RLDataset) -> list[list[str]]:
    return [[group.task.id for group in dataset.get_batch(i)] for i in range(len(dataset))]


async def test_every_task_is_played_once_an_epoch_in_an_order_of_its_own(tmp_path: Path) -> None:
    train, _ = await builder(tmp_path, num_epochs=3, groups_per_batch=4)()
    order = [task for batch in tasks_of(train) for task in batch]
    epochs = [order[at : at + 8] for at in (0, 8, 16)]
    expected = [f"t{n}" for n in range(8)]
    assert all(sorted(epoch) == expected for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


async def test_last_training_batch_is_filled_from_the_next_shuffle(tmp_path: Path) -> None:
    train, _ = await builder(tmp_path)()
    batches = tasks_of(train)
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert len(set([*batches[0], *batches[1], *batches[2]][:8])) == 8


async def test_order_is_the_seeds(tmp_path: Path) -> None:
    first, _ = await builder(tmp_path, seed=1)()
    again, _ = await builder(tmp_path, seed=1)()
    other, _ = await builder(tmp_path, seed=2)()
    assert tasks_of(first) == tasks_of(again) != tasks_of(other)


async def test_eval_has_every_task_once_in_the_bundles_order(tmp_path: Path) -> None:
    _, test = await builder(tmp_path, train_split="few", test_split="all")()
    assert test is not None
    assert tasks_of(test) == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6", "t7"]]


async def test_held_out_tasks_are_in_no_training_batch(tmp_path: Path) -> None:
    train, test = await builder(tmp_path, test_split="few", num_epochs=4)()
    assert test is not None
    assert not {"t8", "t9"} & {task for batch in tasks_of(train) for task in batch}
    assert tasks_of(test) == [["t8", "t9"]]


async def test_splits_that_share_tasks_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await builder(tmp_path, test_split="odd")()
    assert "share 2 tasks" in caplog.text


async def test_batch_that_is_not_there_is_refused(tmp_path: Path) -> None:
    train, _ = await builder(tmp_path)()
    with pytest.raises(IndexError, match="there is no batch 3: there are 3"):
        train.get_batch(3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bundle": "nope"}, "installed: number_search"),
        ({"bundle": "support.scripted:NOPE"}, "there is no Bundle 'NOPE'"),
        ({"bundle": "no_such_module:X"}, "can't be imported"),
        ({"train_split": "nope"}, "it has: all, few, odd"),
        ({"test_split": "nope"}, "it has: all, few, odd"),
        ({"reward": "nope"}, "there are: counted"),
        ({"renderer_name": "nope"}, "with tools there are: qwen3"),
        ({"renderer_name": "role_colon"}, "has no tools; with tools there are"),
        ({"model_name": "/no/such/folder"}, "there is no tokenizer for model_name"),
    ],
)
async def test_wrong_name_fails_with_the_names_that_there_are(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        await builder(tmp_path, **settings)()


@pytest.mark.parametrize(
    "settings",
    [{"groups_per_batch": 0}, {"group_size": 0}, {"num_epochs": 0}, {"max_concurrent_episodes": 0}],
)
def test_number_below_one_is_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be at least 1, got 0"):
        builder(tmp_path, **settings)


async def test_faulty_bundle_is_refused_with_its_faults(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    with pytest.raises(BundleError, match=r"bundle\.toml"):
        await builder(tmp_path, bundle=str(tmp_path / "bundle"))()


async def test_index_that_can_not_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunIndexError, match="can't be written to"):
        await builder(tmp_path, log_path=str(tmp_path / "file" / "run"))()
    with pytest.raises(RunIndexError, match="no database URL"):
        await builder(tmp_path, index="nonsense")()


async def test_calling_the_builder_writes_nothing(tmp_path: Path) -> None:
    train, _ = await builder(tmp_path)()
    train.get_batch(0)
    assert list(tmp_path.iterdir()) == []


async def test_dataset_is_picklable(tmp_path: Path) -> None:
    train, _ = await builder(tmp_path, limits=RolloutLimits(max_turns=2))()
    assert tasks_of(pickle.loads(pickle.dumps(train))) == tasks_of(train)


async def test_serves_the_hosts_interleaved_dataset(tmp_path: Path) -> None:
    from tinker_cookbook.rl.interleaved import InterleavedRLDatasetBuilder

    both = InterleavedRLDatasetBuilder(
        sources=[builder(tmp_path), builder(tmp_path, bundle="number_search")],
        weights=[0.5, 0.5],
        groups_per_batch=4,
        total_batches=6,
    )
    mixed, _ = await both()
    tags = {group.logging_tags()[0] for i in range(6) for group in mixed.get_batch(i)}
    assert tags == {"counting", "number_search"}


async def test_serves_the_hosts_composite_dataset_for_distillation(tmp_path: Path) -> None:
    from tinker_cookbook.distillation.datasets import CompositeDataset

    train, _ = await builder(tmp_path)()
    groups, indices = CompositeDataset([train, train], [3, 3]).get_batch(0)
    assert len(groups) == 6 and indices == [0, 0, 0, 1, 1, 1]


def test_chz_command_line_sets_nested_limits(tmp_path: Path) -> None:
    import chz

    made = chz.Blueprint(EpisodeDatasetBuilder).make_from_argv(
        [
            "bundle=number_search",
            "model_name=m",
            "renderer_name=qwen3",
            f"log_path={tmp_path}",
            "groups_per_batch=1",
            "group_size=1",
            "limits.max_turns=5",
        ]
    )
    assert made.limits.max_turns == 5
    assert COUNTING.name == "counting"
