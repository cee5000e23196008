"""Every page over PostgreSQL is the page over SQLite."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from support import postgres
from support.index_runs import make_runs

from tinker_episodes.index import Split, Status, dialect
from tinker_episodes.index.reading import GroupFilter, IndexReader, Search

pytestmark = [
    pytest.mark.skipif(postgres.programs() is None, reason="no PostgreSQL server is installed"),
    pytest.mark.timeout(300),
]
pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IndexReader, IndexReader]]:
    folder: Path = tmp_path_factory.mktemp("index")
    with postgres.serve() as url:
        made = [make_runs(folder, size=4), make_runs(folder, size=4, url=url)]
        opened = IndexReader(made[0].url), IndexReader(made[1].url)
        yield opened
        for reader in opened:
            reader.close()


PAGES: dict[str, Callable[[IndexReader], Any]] = {
    "runs": lambda r: [dataclasses.replace(run, active_at=None) for run in r.runs()],
    "curves": lambda r: r.steps("first"),
    "trained curves": lambda r: r.steps("second", split=Split.TRAIN, first=1),
    "step": lambda r: r.groups("first", Split.TRAIN, 6, limit=2),
    "step, next page": lambda r: r.groups(
        "first", Split.TRAIN, 6, limit=2, after=r.groups("first", Split.TRAIN, 6, limit=2).next
    ),
    "step, constant first": lambda r: r.groups("first", Split.TRAIN, 4, sort="constant"),
    "step, filtered": lambda r: r.groups(
        "first",
        Split.TRAIN,
        6,
        sort="task",
        descending=False,
        attempt=1,
        matching=GroupFilter(task="31", tag="easy", constant=False, errors=True, low=0.1),
    ),
    "group": lambda r: r.group("first2s6t1"),
    "rollout": lambda r: r.rollout("first2s6t1r2"),
    "tokens": lambda r: r.tokens("first2s6t1r2"),
    "task": lambda r: r.task("number_search", "w31-1", limit=3),
    "task, next page": lambda r: r.task("number_search", "w31-1", after="[1, 2, 1]", limit=3),
    "labels": lambda r: [r.labels(kind) for kind in ("tag", "tool", "cut")],
    "keys": lambda r: r.keys("first2s6t1"),
    "search, a word": lambda r: r.search(Search("Halve")),
    "search, a beginning": lambda r: r.search(Search("hal*", run="first")),
    "search, a phrase": lambda r: r.search(Search('"too low"'), limit=5),
    "search, filters": lambda r: r.search(
        Search(split=Split.TRAIN, first_step=1, last_step=4, tag="easy", low=0.0, high=0.5)
    ),
    "search, endings": lambda r: [
        r.search(Search(cut="")),
        r.search(Search(status=Status.FAILED)),
        r.search(Search(error="tool", tool="guess")),
    ],
    "search, odd words": lambda r: r.search(Search("it's a \\ b'c \"x' | y\" & ! <-> 漢字")),
    "export": lambda r: list(r.exported("second")),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_the_same_on_both_databases(
    readers: tuple[IndexReader, IndexReader], page: str
) -> None:
    sqlite, server = (PAGES[page](reader) for reader in readers)
    assert server == sqlite


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("search")])
@pytest.mark.parametrize("newest", [1, 20])
def test_a_search_beyond_the_newest_rollouts_finds_the_same(
    readers: tuple[IndexReader, IndexReader],
    page: str,
    newest: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialect, "_NEWEST", newest)
    sqlite, server = (PAGES[page](reader) for reader in readers)
    assert server == sqlite


def test_a_rare_word_is_found_by_the_inverted_index(
    readers: tuple[IndexReader, IndexReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = readers
    monkeypatch.setattr(dialect, "_NEWEST", 1)
    said: list[str] = []
    event.listen(server._engine, "before_cursor_execute", lambda *seen: said.append(seen[2]))
    page = server.search(Search("right", run="first"), limit=500)
    ids = [sql for sql in said if "search.words @@" in sql]
    assert len(ids) == 2 and 20 < len(page.hits) < 500
