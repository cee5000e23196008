"""Whether a start goes on with what its log path already holds."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.index_records import make_rollout

from tinker_episodes import ConfigError, EpisodeDatasetBuilder, loopback
from tinker_episodes.cookbook.starts import RunRef
from tinker_episodes.index import Attempt, BundleRecord, Group, IndexWriter, Split
from tinker_episodes.index.reading import IndexReader


def builder(log_path: Path, **settings: Any) -> EpisodeDatasetBuilder:
    defaults: dict[str, Any] = {
        "bundle": "support.scripted:COUNTING",
        "model_name": loopback.model_name(),
        "renderer_name": "qwen3_instruct",
        "groups_per_batch": 3,
        "group_size": 2,
        "log_path": str(log_path),
    }
    return EpisodeDatasetBuilder(**{**defaults, **settings})


def checkpoint(log_path: Path, batch: int) -> None:
    log_path.mkdir(exist_ok=True)
    row = {"name": f"{batch:06d}", "batch": batch, "state_path": "tinker://a/weights/b"}
    (log_path / "checkpoints.jsonl").write_text(json.dumps(row) + "\n")


@pytest.fixture
async def played(tmp_path: Path) -> Path:
    """A log path with two rollouts of the bundle `counting` in its index."""
    log_path = tmp_path / "run"
    writer = IndexWriter(f"sqlite:///{tmp_path / 'episodes.db'}")
    bundle = BundleRecord("counting", "1", "h")
    group = Group(Attempt(str(log_path), "t", 0), "g", Split.TRAIN, 0, bundle, "t0", ())
    await writer.file(group, [make_rollout("r1"), make_rollout("r2")])
    writer.close()
    return log_path


async def test_log_path_with_rollouts_and_no_checkpoint_is_refused_with_the_ways_on(
    played: Path,
) -> None:
    ways = (
        r"already holds 2 rollouts of counting in its run index, and no checkpoint to go on from: "
        r"give another `log_path` or another `index`; .*`reuse_log_path=True`"
    )
    with pytest.raises(ConfigError, match=ways):
        await builder(played)()


async def test_log_path_of_another_bundle_is_refused_before_anything_is_played(
    played: Path,
) -> None:
    checkpoint(played, 1)
    train, _ = await builder(played, bundle="number_search")()
    with pytest.raises(ConfigError, match=r"2 rollouts of counting .* plays number_search: give"):
        train.get_batch(0)


async def test_run_goes_on_from_its_checkpoint(played: Path) -> None:
    checkpoint(played, 1)
    train, _ = await builder(played)()
    assert len(train.get_batch(1)) == 3


async def test_run_that_was_killed_after_its_last_step_takes_over_what_the_trainer_wrote(
    played: Path, read: Callable[[], IndexReader]
) -> None:
    checkpoint(played, 2)
    (played / "metrics.jsonl").write_text('{"step": 1, "progress/done_frac": 1.0}\n')
    folder = played / "iteration_000001"
    folder.mkdir()
    summary = {"iteration": 1, "total_reward": 0.25, "steps": [{"logs": {"episode": "r1"}}]}
    (folder / "train_rollout_summaries.jsonl").write_text(json.dumps(summary) + "\n")
    await builder(played)()  # the trainer has nothing left to ask for
    rows = {row["key"]: row for row in read().rollouts("run", Split.TRAIN, 1)}
    assert (rows["r1"]["trained"], rows["r1"]["trained_reward"]) == (True, 0.25)


async def test_interleaved_run_goes_on_where_one_of_its_bundles_was_not_played_yet(
    played: Path,
) -> None:
    checkpoint(played, 1)
    other, _ = await builder(played, bundle="number_search")()
    train, _ = await builder(played)()
    assert other.get_batch(0) and train.get_batch(0)


@pytest.mark.parametrize("settings", [{}, {"bundle": "number_search"}])
async def test_log_path_is_used_again_by_request(played: Path, settings: dict[str, Any]) -> None:
    train, _ = await builder(played, reuse_log_path=True, **settings)()
    assert train.get_batch(0)


async def test_another_log_path_or_index_is_free(played: Path, tmp_path: Path) -> None:
    for free in (
        builder(tmp_path / "other"),
        builder(played, index=f"sqlite:///{tmp_path / 'other.db'}"),
    ):
        train, _ = await free()
        assert train.get_batch(0)


def test_start_knows_whether_it_is_in_the_trainers_process(tmp_path: Path) -> None:
    run = RunRef.begin(str(tmp_path / "run"), f"sqlite:///{tmp_path / 'episodes.db'}")
    assert run.begun_here
    copied = pickle.loads(pickle.dumps(run))
    assert copied == run and copied.begun_here
    elsewhere = RunRef(run.attempt, run.index, 0, process="another")
    assert not pickle.loads(pickle.dumps(elsewhere)).begun_here
