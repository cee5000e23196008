"""Readers of an SQLite file keep their connections, and still read what stands at its place."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from support.index_records import make_group, make_rollout, rows_of

from tinker_episodes.index import IndexWriter
from tinker_episodes.index.reading import IndexReader

COUNT = "select count(*) from rollouts"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[Path], IndexReader]]:
    readers: list[IndexReader] = []

    def open_reader(file: Path) -> IndexReader:
        readers.append(IndexReader(f"sqlite:///{file}"))
        return readers[-1]

    yield open_reader
    for reader in readers:
        reader.close()


async def filed(file: Path, *keys: str) -> IndexWriter:
    writer = IndexWriter(f"sqlite:///{file}")
    await writer.file(make_group(f"g{keys[0]}"), [make_rollout(key) for key in keys])
    return writer


async def test_another_file_at_its_place_is_read(
    tmp_path: Path, opened: Callable[[Path], IndexReader]
) -> None:
    file, other = tmp_path / "a.db", tmp_path / "b.db"
    (await filed(file, "old")).close()
    (await filed(other, "new")).close()
    reader = opened(file)
    assert reader.keys("") == ["old"]
    other.replace(file)
    assert reader.keys("") == ["new"]


async def test_a_reader_that_is_closed_in_the_midst_of_a_page_leaves_no_connection(
    tmp_path: Path, opened: Callable[[Path], IndexReader]
) -> None:
    file = tmp_path / "a.db"
    (await filed(file, "one", "two")).close()
    reader = opened(file)
    used: list[Any] = []
    event.listen(reader._engine, "checkout", lambda raw, *_: used.append(raw))
    page = reader.exported("first")
    assert next(page).rollout.key == "one"
    reader.close()
    assert [each.rollout.key for each in page] == ["two"]
    assert used
    for raw in used:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            raw.execute(COUNT)


async def test_a_removed_file_is_an_error_until_it_is_back(
    tmp_path: Path, opened: Callable[[Path], IndexReader]
) -> None:
    file = tmp_path / "a.db"
    (await filed(file, "one")).close()
    reader = opened(file)
    assert reader.keys("") == ["one"]
    file.rename(tmp_path / "away.db")
    for _ in range(2):
        with pytest.raises(OperationalError, match="unable to open"):
            reader.keys("")
    (tmp_path / "away.db").rename(file)
    assert reader.keys("") == ["one"]


async def test_a_reader_sees_each_commit_and_keeps_no_log_from_the_file(
    tmp_path: Path, opened: Callable[[Path], IndexReader]
) -> None:
    file = tmp_path / "a.db"
    writer = await filed(file, "one")
    reader = opened(file)
    assert reader.keys("") == ["one"]
    await writer.file(make_group("g2"), [make_rollout("two")])
    assert reader.keys("") == ["one", "two"]
    writer.close()
    shutil.copy(file, tmp_path / "copy.db")  # without the log beside it
    assert rows_of(f"sqlite:///{tmp_path / 'copy.db'}", COUNT) == [(2,)]


async def test_many_threads_read_at_once(
    tmp_path: Path, opened: Callable[[Path], IndexReader]
) -> None:
    file = tmp_path / "a.db"
    (await filed(file, *"abcdefgh")).close()
    reader = opened(file)
    with ThreadPoolExecutor(12) as threads:
        pages = list(threads.map(lambda at: reader.rollout("abcdefgh"[at % 8]), range(200)))
    assert [page and page.rollout.key for page in pages] == list("abcdefgh" * 25)
