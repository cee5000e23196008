"""Searching words and facts, and the place of a hit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.index_records import make_group, make_rollout
from support.index_runs import Runs, make_runs

from tinker_episodes import RunIndexError
from tinker_episodes.index import IndexWriter, Split, Status
from tinker_episodes.index.reading import Hit, IndexReader, Search
from tinker_episodes.index.words import passages_of, searched, words_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return make_runs(tmp_path_factory.mktemp("index"))


@pytest.fixture
def reader(runs: Runs) -> Iterator[IndexReader]:
    reader = IndexReader(runs.url)
    yield reader
    reader.close()


def found(reader: IndexReader, search: Search, limit: int = 7) -> list[Hit]:
    """All hits, some a page."""
    hits: list[Hit] = []
    after = None
    while True:
        page = reader.search(search, after=after, limit=limit)
        assert len(page.hits) <= limit
        hits += page.hits
        after = page.next
        if after is None:
            return hits


def _texts(reader: IndexReader, key: str) -> list[str]:
    said = reader.transcript(key) or {}
    return [passage.text.lower() for passage in passages_of(said)]


def _every_key(reader: IndexReader) -> list[str]:
    keys = [hit.rollout for hit in found(reader, Search(), limit=50)]
    assert len(keys) == len(set(keys)) == 304 - 0
    return keys


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("halve", lambda t: "halve" in t),
        ("HALVE right", lambda t: "halve" in t and "right" in t),
        ('"too low"', lambda t: "too low" in t),
        ('"low too"', lambda t: "low too" in t),
        ("exchang*", lambda t: "exchang" in t),
        ("W19122", lambda t: "w19122" in t),
        ("nothing-like-it", lambda t: False),
    ],
)
def test_a_text_finds_just_the_rollouts_that_have_it(
    reader: IndexReader, text: str, has: Any
) -> None:
    expected = {key for key in _every_key(reader) if has("\n".join(_texts(reader, key)))}
    hits = found(reader, Search(text))
    assert {hit.rollout for hit in hits} == expected
    for hit in hits:
        assert hit.entry is not None and hit.marks
        marked = [hit.snippet[start:end].lower() for start, end in hit.marks]
        assert all(word.strip('"*').lower() in " ".join(marked) for word in [text.split()[0]])


@pytest.mark.parametrize(
    ("search", "keep"),
    [
        (Search(run="second"), lambda h: h.where.run == "second"),
        (Search(split=Split.EVAL), lambda h: h.where.split == "eval"),
        (Search(first_step=2, last_step=3), lambda h: 2 <= h.where.step <= 3),
        (Search(run="first", last_step=1), lambda h: h.where.run == "first" and h.where.step < 2),
        (Search(task="w31-2"), lambda h: h.where.task == "w31-2"),
        (Search(bundle="shop"), lambda h: h.where.bundle == "shop"),
        (Search(tag="held"), lambda h: "held" in h.where.tags),
        (Search(tool="exchange"), lambda h: h.where.run == "second"),
        (Search(low=0.5, high=1.0), lambda h: h.reward is not None and 0.5 <= h.reward <= 1),
        (Search(high=0.1), lambda h: h.reward is not None and h.reward <= 0.1),
        (Search(cut=""), lambda h: h.cut is not None),
        (Search(cut="turns"), lambda h: h.cut == "turns"),
        (Search(status=Status.FAILED), lambda h: h.status == "failed"),
        (Search("guess", run="first", split=Split.TRAIN, low=1.0, tag="easy", tool="guess"),
         lambda h: h.where.run == "first" and h.where.split == "train" and h.reward == 1.0),
    ],
)  # fmt: skip
def test_filters_keep_just_what_they_say(reader: IndexReader, search: Search, keep: Any) -> None:
    every = found(reader, Search(), limit=50)
    assert {h.rollout for h in found(reader, search)} == {h.rollout for h in every if keep(h)}


def test_errors_are_found(reader: IndexReader) -> None:
    for kind, column in (("tool", "tool_errors"), ("format", "format_errors")):
        hits = found(reader, Search(error=kind))  # type: ignore[arg-type]
        expected = set()
        for key in _every_key(reader):
            page = reader.rollout(key)
            if page is not None and getattr(page.rollout, column):
                expected.add(key)
        assert {hit.rollout for hit in hits} == expected


def test_hits_come_last_filed_first_and_superseded_ones_are_marked(reader: IndexReader) -> None:
    hits = found(reader, Search("guess"))
    assert hits[0].where.attempt == 2 and not hits[0].where.superseded
    assert any(hit.where.superseded for hit in hits)


@pytest.mark.parametrize("text", ["...", '""" -', "* *", '"'])
def test_a_text_without_a_word_is_refused(reader: IndexReader, text: str) -> None:
    with pytest.raises(RunIndexError, match="has no word to search for"):
        reader.search(Search(text))


def test_too_short_a_beginning_is_refused(reader: IndexReader) -> None:
    with pytest.raises(RunIndexError, match=r"'ab\*' is too short: 3 characters before a `\*`"):
        reader.search(Search("ab*"))


def test_a_cursor_from_elsewhere_is_refused(reader: IndexReader) -> None:
    with pytest.raises(RunIndexError, match="is not where a page of a search ends"):
        reader.search(Search("guess"), after="x")


@given(st.text(max_size=60))
def test_any_text_is_searched_or_refused_and_never_breaks(runs: Runs, text: str) -> None:
    reader = IndexReader(runs.url)
    try:
        reader.search(Search(text, tool=text, tag=text, run=text, task=text, cut=text))
        reader.search(Search(text))
    except RunIndexError:
        pass
    finally:
        reader.close()


def test_every_word_that_was_said_is_found_whatever_its_script(tmp_path: Path) -> None:
    said = (
        "naïve 漢字 Ünïcode “quoted” a_b x-y ß Ⅷ \ue000abc \ud800 \0 emoji😀s İstanbul ١٢٣ e\u0301t"
    )
    writer = IndexWriter(f"sqlite:///{tmp_path / 'episodes.db'}")
    entry = {"kind": "reply", "content": said, "calls": [], "malformed": []}
    asyncio.run(writer.file(make_group(), [make_rollout(transcript={"entries": [entry]})]))
    writer.close()
    reader = IndexReader(f"sqlite:///{tmp_path / 'episodes.db'}")
    for word in words_of(said):
        assert len(found(reader, Search(word))) == 1, word
    assert found(reader, Search("quot")) == []
    reader.close()


@given(st.text())
def test_a_text_can_not_pose_as_a_fact(text: str) -> None:
    entry = {"kind": "note", "text": f"{text}\ue000{text}"}
    assert "\ue000" not in searched({"entries": [entry]}, [])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["prompt", "reply", "result", "note", "x"]),
        **{name: _JSON for name in ("text", "content", "name")},
        **{name: st.lists(st.dictionaries(st.text(), _JSON)) for name in ("calls", "malformed")},
    },
)


@given(st.lists(_ENTRY | _JSON, max_size=4))
def test_no_transcript_breaks_the_search(entries: list[Any]) -> None:
    for passage in passages_of({"entries": entries}):
        assert isinstance(passage.text, str) and 0 <= passage.entry < len(entries)
