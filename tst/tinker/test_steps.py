"""Which step a rollout belongs to: told by the trainer's own files, as they grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tinker_episodes.cookbook.starts import RunRef
from tinker_episodes.cookbook.steps import BatchSteps, Clock
from tinker_episodes.cookbook.summaries import Follower


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def log(log_path: Path, **row: Any) -> None:
    with (log_path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def trained(log_path: Path, step: int) -> None:
    log(log_path, step=step, **{"progress/done_frac": 0.5})


def checkpoint(log_path: Path, batch: int) -> None:
    row = {"name": f"{batch:06d}", "batch": batch, "state_path": "tinker://a/weights/b"}
    with (log_path / "checkpoints.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def nowhere(log_path: Path) -> str:
    return f"sqlite:///{log_path / 'nothing.db'}"


def clock(run: RunRef) -> Clock:
    return Clock(run.attempt, run.metrics_offset)


def begin(log_path: Path) -> RunRef:
    run = RunRef.begin(str(log_path), nowhere(log_path))
    run.played()
    return run


def test_step_is_the_training_rows_that_were_logged(log_path: Path) -> None:
    times = clock(begin(log_path))
    assert times.step() == 0
    trained(log_path, 0)
    log(log_path, step=1, **{"test/env/all/reward/total": 1.0})  # an eval's own row
    assert times.step() == 1
    trained(log_path, 1)
    assert times.step() == times.step() == 2


def test_row_that_is_half_written_is_counted_once_it_is_whole(log_path: Path) -> None:
    times = clock(begin(log_path))
    row = json.dumps({"step": 0, "progress/done_frac": 1.0})
    (log_path / "metrics.jsonl").write_text(row[:10])
    assert times.step() == 0
    (log_path / "metrics.jsonl").write_text(row + "\n")
    assert times.step() == 1


def test_resumed_attempt_counts_from_its_checkpoint(log_path: Path) -> None:
    for step in range(5):
        trained(log_path, step)
    checkpoint(log_path, 3)
    run = begin(log_path)
    assert run.attempt.start_step == 3
    times = clock(run)
    assert times.step() == 3
    trained(log_path, 3)
    assert times.step() == 4


def test_rows_that_a_resume_drops_are_not_counted(log_path: Path) -> None:
    for step in range(5):
        trained(log_path, step)
    checkpoint(log_path, 2)
    times = clock(begin(log_path))
    (log_path / "metrics.jsonl").write_text("")  # as the host does from 0.6 on
    trained(log_path, 2)
    assert times.step() == 3


def test_builders_of_one_start_are_of_one_attempt(log_path: Path) -> None:
    first = RunRef.begin(str(log_path), nowhere(log_path))
    second = RunRef.begin(str(log_path), "sqlite:///other.db")
    assert first.attempt == second.attempt and second.index == "sqlite:///other.db"
    first.played()
    assert RunRef.begin(str(log_path), nowhere(log_path)).attempt.token != first.attempt.token


def test_start_after_more_was_logged_is_another_attempt(log_path: Path) -> None:
    first = RunRef.begin(str(log_path), nowhere(log_path))
    trained(log_path, 0)
    assert RunRef.begin(str(log_path), nowhere(log_path)).attempt.token != first.attempt.token


def summary(log_path: Path, iteration: int, name: str, *episodes: str) -> None:
    folder = log_path / f"iteration_{iteration:06d}"
    folder.mkdir(exist_ok=True)
    rows = [
        {
            "iteration": iteration,
            "sampling_client_step": iteration,
            "total_reward": 0.5,
            "steps": [{"logs": {}}, {"logs": {"episode": episode}}],
        }
        for episode in episodes
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}_rollout_summaries.jsonl").write_text(text + "no json\n")


def test_summaries_are_followed_once_an_iteration(log_path: Path) -> None:
    follow, known = Follower(str(log_path)), dict[str, int]()
    assert list(follow(known)) == []
    summary(log_path, 0, "train", "a", "b")
    summary(log_path, 0, "eval_test", "c")
    assert list(follow(known)) == []  # the iteration is not logged yet
    trained(log_path, 0)
    files = list(follow(known))
    said = {file.name: [(s.rollout, s.step, s.trained) for s in file.summaries] for file in files}
    assert said == {
        "iteration_000000/eval_test_rollout_summaries.jsonl": [("c", 0, False)],
        "iteration_000000/train_rollout_summaries.jsonl": [("a", 0, True), ("b", 0, True)],
    }
    known.update({file.name: file.stamp for file in files})
    trained(log_path, 1)
    assert list(follow(known)) == []


def test_summary_that_grows_is_read_again(log_path: Path) -> None:
    follow, known = Follower(str(log_path)), dict[str, int]()
    summary(log_path, 0, "train", "a")
    trained(log_path, 0)
    known.update({file.name: file.stamp for file in follow(known)})
    summary(log_path, 0, "train", "a", "b")
    trained(log_path, 1)
    (again,) = follow(known)
    assert [s.rollout for s in again.summaries] == ["a", "b"]


def test_summary_of_a_resumed_run_is_read_again_though_it_is_as_long(log_path: Path) -> None:
    follow, known = Follower(str(log_path)), dict[str, int]()
    summary(log_path, 0, "train", "a")
    trained(log_path, 0)
    known.update({file.name: file.stamp for file in follow(known)})
    summary(log_path, 0, "train", "b")
    trained(log_path, 0)
    (again,) = follow(known)
    assert [s.rollout for s in again.summaries] == ["b"]


# ---------------------------------------------------------------- batches


def steps_of(start: int, *asked: tuple[int, int]) -> list[int]:
    """The steps of batches, asked for as (index, the trainer's step)."""
    steps = BatchSteps(start)
    return [steps.step(index, at) for index, at in asked]


def test_batches_in_order_are_of_their_index_also_ahead_of_the_trainer() -> None:
    assert steps_of(0, (0, 0), (1, 1), (2, 2)) == [0, 1, 2]
    assert steps_of(4, (4, 4), (5, 4), (6, 4)) == [4, 5, 6]


def test_batches_of_an_epoch_of_the_hosts_are_of_the_trainers_step() -> None:
    assert steps_of(0, (0, 0), (1, 1), (0, 2), (1, 3)) == [0, 1, 2, 3]
    assert steps_of(5, (1, 5), (2, 6), (0, 7)) == [5, 6, 7]


def test_batches_of_a_mixed_dataset_are_of_the_trainers_step() -> None:
    probes, asked = [(0, 0), (2, 0)], [(2, 0), (5, 0), (9, 0), (1, 1), (3, 1)]
    assert steps_of(0, *probes, *asked)[2:] == [0, 0, 0, 1, 1]


def test_trainer_that_logs_nothing_has_its_batches_filed_at_their_index() -> None:
    assert steps_of(0, (0, 0), (1, 0), (2, 0)) == [0, 1, 2]


def test_earlier_iterations_that_a_resumed_run_writes_anew_are_new(log_path: Path) -> None:
    for iteration in range(9):
        summary(log_path, iteration, "train", f"old{iteration}")
    trained(log_path, 8)
    follower = Follower(str(log_path))
    known = {file.name: file.stamp for file in follower({})}
    assert len(known) == 9
    summary(log_path, 1, "train", "anew, and longer")
    trained(log_path, 1)
    (file,) = follower(known)
    assert [one.rollout for one in file.summaries] == ["anew, and longer"]
