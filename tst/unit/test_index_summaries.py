"""Taking over what the trainer itself wrote about rollouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.index_records import make_group, make_rollout, rows_of

from tinker_episodes.index import (
    IndexWriter,
    Split,
    Summary,
    SummaryFile,
)
from tinker_episodes.index.reading import IndexReader


class Source:
    """Gives summary files, and remembers what it was told is known."""

    def __init__(self, *files: SummaryFile) -> None:
        self.files = list(files)
        self.known: list[dict[str, int]] = []

    def __call__(self, known: Any) -> list[SummaryFile]:
        self.known.append(dict(known))
        return [file for file in self.files if known.get(file.name) != file.stamp]


def _summary(rollout: str = "r1", **changed: Any) -> Summary:
    return Summary(
        **{
            "rollout": rollout,
            "step": 5,
            "sampler_step": 4,
            "trained_reward": 0.25,
            "trained": True,
            **changed,
        }
    )


TRAIN = "iteration_5/train_rollout_summaries.jsonl"


async def test_a_summary_moves_its_group_to_the_trainers_step_and_keeps_both_rewards(
    writer: IndexWriter, reader: Callable[[], IndexReader]
) -> None:
    await writer.file(make_group(step=2), [make_rollout("r1", 1.0), make_rollout("r2", 0.5)])
    writer.follow(
        "/runs/first",
        Source(SummaryFile(TRAIN, 10, (_summary("r1"), _summary("r2", trained_reward=0.5)))),
    )
    writer.close()
    await writer.file(make_group("g2", step=2), [])
    writer.close()
    rows = reader().rollouts("first", Split.TRAIN, 5)
    assert [
        (r["key"], r["reward"], r["trained_reward"], r["trained"], r["sampler_step"]) for r in rows
    ] == [
        ("r1", 1.0, 0.25, True, 4),
        ("r2", 0.5, 0.5, True, 4),
    ]
    assert reader().rollouts("first", Split.TRAIN, 2) == []


async def test_summaries_of_evals_are_evals(
    writer: IndexWriter, reader: Callable[[], IndexReader]
) -> None:
    source = Source(
        SummaryFile("iteration_5/eval_val_rollout_summaries.jsonl", 1, (_summary(trained=False),))
    )
    writer.follow("/runs/first", source)
    await writer.file(make_group(split=Split.EVAL, step=0), [make_rollout()])
    writer.close()
    assert [row["key"] for row in reader().rollouts("first", Split.EVAL, 5)] == ["r1"]


async def test_a_summary_file_is_taken_over_once_until_it_changes(
    writer: IndexWriter, reader: Callable[[], IndexReader]
) -> None:
    source = Source(SummaryFile(TRAIN, 10, (_summary(trained_reward=0.25),)))
    writer.follow("/runs/first", source)
    await writer.file(make_group(), [make_rollout()])
    writer.close()
    source.files = [SummaryFile(TRAIN, 20, (_summary(trained_reward=0.75),))]
    await writer.file(make_group("g2"), [])
    writer.close()
    assert source.known[0] == {}
    assert source.known[-1] == {TRAIN: 20}
    (row,) = reader().rollouts("first", Split.TRAIN, 5)
    assert row["trained_reward"] == 0.75


async def test_another_writer_knows_what_was_taken_over(writer: IndexWriter, url: str) -> None:
    writer.follow("/runs/first", Source(SummaryFile(TRAIN, 10, (_summary(),))))
    await writer.file(make_group(), [make_rollout()])
    writer.close()
    source, other = Source(), IndexWriter(url)
    other.follow("/runs/first", source)
    await other.file(make_group("g2"), [])
    other.close()
    assert source.known[0] == {TRAIN: 10}


async def test_closing_takes_over_what_came_last(
    writer: IndexWriter, reader: Callable[[], IndexReader]
) -> None:
    source = Source()
    writer.follow("/runs/first", source)
    await writer.file(make_group(), [make_rollout()])
    source.files = [SummaryFile(TRAIN, 10, (_summary(),))]
    writer.close()
    assert len(reader().rollouts("first", Split.TRAIN, 5)) == 1


async def test_a_summary_of_an_unknown_rollout_is_passed_over(
    writer: IndexWriter, reader: Callable[[], IndexReader]
) -> None:
    writer.follow("/runs/first", Source(SummaryFile(TRAIN, 1, (_summary("other"), _summary("r1")))))
    await writer.file(make_group(), [make_rollout()])
    writer.close()
    assert [step.step for step in reader().steps("first")] == [5]


async def test_summaries_of_a_run_that_filed_nothing_make_no_run(
    writer: IndexWriter, reader: Callable[[], IndexReader]
) -> None:
    source = Source(SummaryFile(TRAIN, 1, (_summary("other"),)))
    writer.follow("/runs/of another kind", source)
    await writer.file(make_group(), [make_rollout()])
    writer.close()
    assert [run.name for run in reader().runs()] == ["first"]
    assert source.known == []


async def test_a_source_that_raises_keeps_the_rollouts_and_is_asked_again(
    writer: IndexWriter, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    def source(known: Any) -> list[SummaryFile]:
        asked.append(known)
        raise OSError("half a line")

    writer.follow("/runs/first", source)
    await writer.file(make_group("g1"), [make_rollout("r1")])
    await writer.file(make_group("g2"), [make_rollout("r2")])
    writer.close()
    assert len(asked) >= 2
    assert "summaries of /runs/first are not taken over yet" in caplog.text
    assert rows_of(url, "select count(*) from rollouts") == [(2,)]
    writer.raise_fault()
