"""The pages over an index of varied runs: groups, rollouts, tasks, and what changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from support.index_records import rows_of
from support.index_runs import Runs, make_runs, make_step, png

from tinker_episodes import RunIndexError
from tinker_episodes.index import ImageRecord, IndexWriter, Split
from tinker_episodes.index.reading import (
    GroupFilter,
    GroupRow,
    GroupSort,
    IndexReader,
    StepColumns,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return make_runs(tmp_path_factory.mktemp("index"))


@pytest.fixture
def reader(runs: Runs) -> Iterator[IndexReader]:
    reader = IndexReader(runs.url)
    yield reader
    reader.close()


def _all(reader: IndexReader, **how: Any) -> list[GroupRow]:
    """All groups of a step, two a page."""
    found: list[GroupRow] = []
    after = None
    while True:
        page = reader.groups("first", Split.TRAIN, 6, limit=2, after=after, **how)
        assert len(page.groups) <= 2
        found += page.groups
        after = page.next
        if after is None:
            return found


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", get_args(GroupSort))
def test_pages_of_groups_hold_each_group_once_in_order(
    reader: IndexReader, sort: GroupSort, descending: bool
) -> None:
    found = _all(reader, sort=sort, descending=descending)
    assert sorted(row.where.task for row in found) == ["w31-0", "w31-1", "w31-2", "w31-3"]
    keys = [_key(row, sort) for row in found]
    assert keys == sorted(keys, reverse=descending)


def _key(row: GroupRow, sort: str) -> Any:
    if sort == "task":
        return row.where.task
    if sort == "errors":
        return row.failed + row.abandoned + row.tool_errors + row.format_errors
    value = getattr(row, sort)
    return -1e308 if value is None else value


def test_the_groups_with_the_highest_spread_come_first(reader: IndexReader) -> None:
    spreads = [row.spread for row in reader.groups("first", Split.TRAIN, 6).groups]
    assert spreads == sorted(spreads, key=lambda spread: -(spread or 0))


def test_groups_show_every_reward_and_none_for_a_failed_rollout(reader: IndexReader) -> None:
    for row in _all(reader):
        scored = [reward for reward in row.rewards if reward is not None]
        assert (len(row.rewards), len(scored)) == (row.size, row.scored)
        assert (row.low, row.high) == (min(scored), max(scored))
        assert row.mean == pytest.approx(sum(scored) / len(scored))
        assert row.constant is (row.low == row.high)
    assert any(None in row.rewards for row in _all(reader))


def test_groups_are_filtered_by_each_column(reader: IndexReader) -> None:
    everything = _all(reader)
    for matching, keep in [
        (GroupFilter(task="31-2"), lambda r: "31-2" in r.where.task),
        (GroupFilter(task="%"), lambda r: False),
        (GroupFilter(tag="easy"), lambda r: True),
        (GroupFilter(tag="eas"), lambda r: False),
        (GroupFilter(constant=True), lambda r: r.constant),
        (GroupFilter(cut=False), lambda r: r.cut == 0),
        (GroupFilter(errors=True), lambda r: _key(r, "errors") > 0),
        (GroupFilter(low=0.6, high=0.7), lambda r: 0.6 <= r.mean <= 0.7),
    ]:
        expected = [row.where.group for row in everything if keep(row)]
        assert [row.where.group for row in _all(reader, matching=matching)] == expected, matching


def test_a_superseded_attempt_stays_readable_and_is_marked(reader: IndexReader) -> None:
    page = reader.groups("first", Split.TRAIN, 6, attempt=1)
    assert [(a.number, a.superseded) for a in page.attempts] == [(1, True), (2, False)]
    assert all(row.where.superseded and row.where.attempt == 1 for row in page.groups)
    group = reader.group(page.groups[0].where.group)
    assert group is not None and group.group.where.superseded
    rollout = reader.rollout(group.rollouts[0].key)
    assert rollout is not None and rollout.where.superseded


@pytest.mark.parametrize("after", ["", "[]", "1", "[1, null]", '{"a": 1}', "[[]]", '["a", "b"]'])
def test_a_cursor_from_elsewhere_is_refused(reader: IndexReader, after: str) -> None:
    with pytest.raises(RunIndexError, match="is not where a page of"):
        reader.groups("first", Split.TRAIN, 6, after=after)
    with pytest.raises(RunIndexError, match="is not where a page of"):
        reader.task("number_search", "w31-0", after=after)


def test_groups_have_no_other_columns_to_sort_by(reader: IndexReader) -> None:
    with pytest.raises(RunIndexError, match="groups have no column 'key; drop'; task, size"):
        reader.groups("first", Split.TRAIN, 6, sort="key; drop")  # type: ignore[arg-type]


def test_a_rollout_is_read_whole_with_its_neighbours(reader: IndexReader) -> None:
    group = reader.group("first2s7t0")
    assert group is not None
    keys = [rollout.key for rollout in group.rollouts]
    assert [rollout.place for rollout in group.rollouts] == list(range(6))
    for at, key in enumerate(keys):
        page = reader.rollout(key)
        assert page is not None and page.rollout == group.rollouts[at]
        assert page.previous == (keys[at - 1] if at else None)
        assert page.next == (keys[at + 1] if at + 1 < len(keys) else None)
        assert page.entries[0]["kind"] == "prompt"
        assert {score.name: score.value for score in page.scores} == page.rollout.scores
    found = next(r for r in group.rollouts if r.scores.get("found"))
    page = reader.rollout(found.key)
    assert page is not None and page.changes[0]["table"] == "games"
    assert page.scores[0].evidence["messages"] == [len(page.entries) - 1]


def test_tokens_come_with_logprobs_and_their_texts(reader: IndexReader) -> None:
    tokens = reader.tokens("first2s7t0r0")
    assert tokens is not None
    for turn in tokens.turns:
        assert len(turn["sampled"]) == len(turn["logprobs"])
        assert all(tokens.pieces[token] == f" w{token}" for token in turn["sampled"])


def test_what_is_not_there_is_none(reader: IndexReader) -> None:
    assert reader.group("x") is reader.rollout("x") is reader.tokens("x") is reader.image("x")
    assert reader.rollout("x") is None
    assert reader.task("number_search", "x").groups == ()
    assert reader.task("shop", "w31-0").groups == ()
    assert reader.groups("x", Split.TRAIN, 0).groups == ()


def test_an_image_is_stored_once_and_read_by_its_hash(reader: IndexReader, runs: Runs) -> None:
    picture = ImageRecord.of(png(1), "image/png", width=8, height=8)
    assert reader.image(picture.hash) == picture
    assert rows_of(runs.url, "select count(*) from images") == [(3,)]


def test_a_task_is_shown_over_time_run_by_run(reader: IndexReader) -> None:
    found, after = [], None
    while True:
        page = reader.task("number_search", "w31-1", after=after, limit=3)
        found += page.groups
        after = page.next
        if after is None:
            break
    places = [(g.group.where.run, g.group.where.step, g.group.where.attempt) for g in found]
    assert places == sorted(places) and len(set(places)) == len(places) == 10
    assert all(len(g.rollouts) == g.group.size == 6 for g in found)
    assert sum(g.group.where.superseded for g in found) == 2
    assert reader.task("number_search", "w31-1", run="second").groups == ()
    assert reader.task("number_search", "w31-1", split=Split.EVAL).groups == ()


def test_steps_can_be_read_from_one_on(reader: IndexReader) -> None:
    everything = reader.steps("first")
    some = reader.steps("first", split=Split.TRAIN, first=3, last=5)
    assert some == [row for row in everything if row.split == "train" and 3 <= row.step <= 5]


def test_steps_are_the_same_by_rows_and_by_columns(reader: IndexReader) -> None:
    for run in ("first", "second", "nobody"):
        rows, columns = reader.steps(run), reader.curves(run)
        assert columns.rows() == rows
        assert StepColumns.of(rows) == columns


def test_steps_beside_one_are_the_next_that_have_rollouts(reader: IndexReader) -> None:
    steps = [row.step for row in reader.steps("first") if row.split == "eval"]
    assert steps == [0, 2, 4, 6]
    beside = [reader.steps_beside("first", Split.EVAL, step) for step in (0, 2, 3, 6, 99)]
    assert beside == [(None, 2), (0, 4), (2, 4), (4, None), (6, None)]
    assert reader.steps_beside("nobody", Split.TRAIN, 1) == (None, None)


def test_what_changed_is_told_once(tmp_path: Path) -> None:
    runs = make_runs(tmp_path, steps=7)
    reader, writer = IndexReader(runs.url), IndexWriter(runs.url)
    before = reader.changes()
    assert (before.steps, reader.changes(before.cursor)) == ((), before)
    make_step(writer, tmp_path, 9)
    writer.close()
    after = reader.changes(before.cursor)
    assert [(one.run, one.split, one.step) for one in after.steps] == [("first", "train", 9)]
    assert reader.changes(after.cursor) == replace(after, steps=())
    assert reader.changes(0).more is False and len(reader.changes(0).steps) > 5
    reader.close()


def test_names_to_filter_by_are_known(reader: IndexReader) -> None:
    assert reader.labels("tool") == ["exchange", "find_order", "guess"]
    assert reader.labels("tag") == ["easy", "hard", "held", "retail"]
    assert set(reader.labels("cut")) == {"length", "parse_error", "turns"}


def test_every_field_of_a_group_is_shown(reader: IndexReader) -> None:
    (row, *_) = _all(reader)
    assert all(getattr(row, field.name) is not None for field in fields(row))
