"""Reading runs, steps and rollouts."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tinker_episodes.index import Attempt, BundleRecord, Group, IndexWriter, Rollout, Split, Status
from tinker_episodes.index.reading import IndexReader, Point, RunRow, StepRow

File = Callable[..., Awaitable[None]]
BUNDLE = BundleRecord("b", "1", "h")
MEANS = (
    "turns", "messages", "tool_calls", "tool_errors", "format_errors", "sampled_tokens",
    "observation_tokens",
)  # fmt: skip


@pytest.fixture
def file(writer: IndexWriter) -> File:
    """Files the rollouts of one group, by their rewards."""
    made = iter(range(1000))

    async def file(
        *rewards: float | None,
        step: int = 0,
        split: Split = Split.TRAIN,
        run: str = "first",
        attempt: int = 1,
        start: int = 0,
        statuses: tuple[Status, ...] = (),
        cuts: tuple[str | None, ...] = (),
        task: str = "t",
        bundle: BundleRecord = BUNDLE,
    ) -> None:
        begun = Attempt(f"/runs/{run}", f"{run}-{attempt}", start)
        group = Group(begun, f"g{next(made)}", split, step, bundle, task, ())
        rollouts = [
            Rollout(
                f"r{next(made)}",
                place,
                statuses[place] if statuses else Status.FINISHED,
                reward,
                cuts[place] if cuts else None,
                transcript={"entries": [place]},
            )
            for place, reward in enumerate(rewards)
        ]
        await writer.file(group, rollouts)

    return file


def _steps(reader: IndexReader, run: str = "first") -> list[tuple[Any, ...]]:
    return [(s.split, s.step, s.groups, s.rollouts, s.reward) for s in reader.steps(run)]


async def test_a_run_is_shown_in_numbers(file: File, reader: Callable[[], IndexReader]) -> None:
    await file(1.0, 0.0)
    await file(1.0, run="second")
    await file(1.0, attempt=2, start=1, step=1, bundle=BundleRecord("c", "2", "h"))
    shown = [replace(row, active_at=None) for row in reader().runs()]
    first, second = (Point(0, 0.5), Point(1, 1.0)), (Point(0, 1.0),)
    assert shown == [
        RunRow("first", "/runs/first", ("b 1", "c 2"), 2, 3, 1, 1.0, first, None, live=True),
        RunRow("second", "/runs/second", ("b 1",), 1, 1, 0, 1.0, second, None, live=True),
    ]


async def test_a_step_is_shown_in_numbers(file: File, reader: Callable[[], IndexReader]) -> None:
    statuses = (Status.FINISHED, Status.CUT, Status.FAILED, Status.ABANDONED)
    await file(1.0, 0.5, None, None, statuses=statuses, cuts=(None, "length", None, None), step=3)
    await file(0.0, 2.0, step=3)
    assert reader().steps("first") == [
        StepRow(
            Split.TRAIN,
            3,
            groups=2,
            rollouts=6,
            scored=4,
            reward=0.875,
            success=0.5,
            cut=1,
            failed=1,
            abandoned=1,
            spread_between=0.125,
            spread_inside=pytest.approx(math.sqrt((0.25**2 + 1) / 2)),
            constant=0.0,
            cuts={"length": 1},
            **dict.fromkeys(MEANS, 0.0),
        )
    ]


async def test_a_step_without_a_score_has_no_mean(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(None, statuses=(Status.FAILED,))
    (step,) = reader().steps("first")
    assert (step.scored, step.reward, step.success) == (0, None, None)


async def test_steps_stand_in_order_evals_before_training(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    for split, step in [(Split.TRAIN, 10), (Split.TRAIN, 2), (Split.EVAL, 10), (Split.EVAL, 0)]:
        await file(1.0, split=split, step=step)
    assert [(s.split, s.step) for s in reader().steps("first")] == [
        ("eval", 0),
        ("train", 2),
        ("eval", 10),
        ("train", 10),
    ]


async def test_the_steps_of_an_unknown_run_are_none(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(1.0)
    assert reader().steps("nothing") == []


async def test_a_later_attempt_supersedes_from_its_start_step_on(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    for step in range(4):
        await file(0.0, 0.0, step=step)
    await file(1.0, step=2, attempt=2, start=2)
    assert _steps(reader()) == [
        ("train", 0, 1, 2, 0.0),
        ("train", 1, 1, 2, 0.0),
        ("train", 2, 1, 1, 1.0),
    ]
    assert [len(reader().rollouts("first", Split.TRAIN, step)) for step in range(4)] == [2, 2, 1, 0]


async def test_an_eval_at_the_start_step_of_a_later_attempt_is_superseded_too(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(0.0, split=Split.EVAL, step=2)
    await file(0.0, split=Split.EVAL, step=1)
    await file(1.0, split=Split.EVAL, step=2, attempt=2, start=2)
    assert _steps(reader()) == [("eval", 1, 1, 1, 0.0), ("eval", 2, 1, 1, 1.0)]


async def test_a_third_attempt_may_start_before_the_second(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    for step in range(3):
        await file(0.1, step=step)
    await file(0.2, step=2, attempt=2, start=2)
    await file(0.3, step=1, attempt=3, start=1)
    assert [(s.step, s.reward) for s in reader().steps("first")] == [(0, 0.1), (1, 0.3)]


async def test_an_attempt_does_not_supersede_another_run(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(0.0, run="first")
    await file(1.0, run="second")
    await file(1.0, run="second", attempt=2)
    assert _steps(reader(), "first") == [("train", 0, 1, 1, 0.0)]


async def test_superseded_rollouts_are_not_deleted(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(0.0)
    await file(1.0, attempt=2)
    assert reader().runs()[0].rollouts == 2
    assert reader().transcript("r1") == {"entries": [0]}


async def test_rollouts_stand_group_by_group_in_their_places(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(0.1, 0.2, task="a")
    await file(0.3, 0.4, task="b")
    rows = reader().rollouts("first", Split.TRAIN, 0)
    assert [(row["task"], row["place"], row["reward"]) for row in rows] == [
        ("a", 0, 0.1),
        ("a", 1, 0.2),
        ("b", 0, 0.3),
        ("b", 1, 0.4),
    ]
    assert {row["group"] for row in rows} == {"g0", "g3"}


async def test_a_transcript_that_is_not_there_is_none(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(1.0)
    assert reader().transcript("nothing") is None


async def test_a_reader_sees_what_is_filed_after_it_opened(
    file: File, reader: Callable[[], IndexReader]
) -> None:
    await file(1.0)
    opened = reader()
    assert opened.runs()[0].rollouts == 1
    await file(1.0)
    assert opened.runs()[0].rollouts == 2


async def test_reading_changes_no_byte(
    file: File, reader: Callable[[], IndexReader], url: str
) -> None:
    await file(1.0)
    database = Path(url.removeprefix("sqlite:///"))
    waiting = Path(f"{database}-wal")
    before = database.read_bytes(), waiting.read_bytes()
    opened = reader()
    opened.runs(), opened.steps("first"), opened.rollouts("first", Split.TRAIN, 0)
    opened.transcript("r1")
    opened.close()
    assert (database.read_bytes(), waiting.read_bytes()) == before
