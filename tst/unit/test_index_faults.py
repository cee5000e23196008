"""An index that can't be written: one clear error, nothing half-written, and every wait bounded."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.index_records import make_group, make_rollout, rows_of

from tinker_episodes import RunIndexError
from tinker_episodes.index import IndexWriter, ScoreRecord, forget_fault, index_writer
from tinker_episodes.index.schema import LOCK_TIMEOUT_S

LONG = {"entries": [os.urandom(100_000).hex()]}
"""A transcript of many pages, which compression makes half as long."""


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def assert_sound(url: str, *keys: str) -> None:
    """The database is whole, and holds just these rollouts, each with all of its rows."""
    assert rows_of(url, "pragma integrity_check") == [("ok",)]
    assert [key for (key,) in rows_of(url, "select key from rollouts order by key")] == [*keys]
    for table in ("transcripts", "scores"):
        assert rows_of(url, f"select count(*) from {table}") == [(len(keys),)]
    assert rows_of(url, "select count(*) from groups") == [(len(keys),)]


def rollout(key: str, **more: Any) -> Any:
    return make_rollout(key, scores=(ScoreRecord("found", 1.0, "", {}),), **more)


@pytest.fixture
def no_more_pages() -> Iterator[threading.Event]:
    """Once it is set, SQLite takes the disk for full."""
    full = threading.Event()

    def limit(connection: Any) -> None:
        if full.is_set():
            pages = connection.exec_driver_sql("pragma page_count").scalar()
            connection.exec_driver_sql(f"pragma max_page_count = {pages}").close()
        else:
            connection.exec_driver_sql("pragma max_page_count = 1000000").close()

    event.listen(Engine, "begin", limit)
    yield full
    event.remove(Engine, "begin", limit)


# ---------------------------------------------------------------- disk full


async def test_full_disk_is_one_error_and_leaves_whole_rollouts_alone(
    writer: IndexWriter, url: str, no_more_pages: threading.Event
) -> None:
    await writer.file(make_group("g1"), [rollout("r1")])
    no_more_pages.set()
    with pytest.raises(RunIndexError, match=r"can't be written: database or disk is full"):
        await writer.file(make_group("g2"), [rollout("r2", transcript=LONG)])
    with pytest.raises(RunIndexError, match="disk is full"):
        writer.raise_fault()
    assert_sound(url, "r1")


async def test_full_disk_fails_all_that_wait_and_all_that_come(
    writer: IndexWriter, url: str, no_more_pages: threading.Event
) -> None:
    await writer.file(make_group("g0"), [rollout("r0")])
    no_more_pages.set()
    filings = [
        writer.file(make_group(f"g{n}"), [rollout(f"r{n}", transcript=LONG)]) for n in range(1, 9)
    ]
    done = await asyncio.gather(*filings, return_exceptions=True)
    assert {type(result) for result in done} == {RunIndexError}
    no_more_pages.clear()
    with pytest.raises(RunIndexError, match="disk is full"):
        await writer.file(make_group("g9"), [rollout("r9")])
    assert_sound(url, "r0")


async def test_a_new_start_writes_on_once_there_is_room(
    url: str, no_more_pages: threading.Event
) -> None:
    await index_writer(url).file(make_group("g1"), [rollout("r1")])
    no_more_pages.set()
    with pytest.raises(RunIndexError):
        await index_writer(url).file(make_group("g2"), [rollout("r2", transcript=LONG)])
    no_more_pages.clear()
    forget_fault(url)
    await index_writer(url).file(make_group("g3"), [rollout("r3", transcript=LONG)])
    index_writer(url).raise_fault()
    index_writer(url).close()
    assert_sound(url, "r1", "r3")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system can't be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_disk_that_is_really_full_loses_no_rollout_that_was_filed(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk / 'episodes.db'}"
    writer, kept = IndexWriter(url), list[str]()
    with pytest.raises(RunIndexError, match=r"disk is full|disk I/O error"):
        for n in range(100):
            await writer.file(make_group(f"g{n:02}"), [rollout(f"r{n:02}", transcript=LONG)])
            kept.append(f"r{n:02}")
    writer.close()
    assert kept
    assert_sound(url, *kept)


# ---------------------------------------------------------------- locked by another


async def test_lock_is_waited_for_as_long_as_is_stated(writer: IndexWriter, url: str) -> None:
    assert LOCK_TIMEOUT_S == 60
    await writer.file(make_group("g1"), [rollout("r1")])
    other = sqlite3.connect(file_of(url), isolation_level=None)
    hasty = IndexWriter(url, lock_timeout_s=0.1)
    await hasty.file(make_group("g1"), [])
    other.execute("begin immediate")
    held = r"can't be written: database is locked \(after 0\.1 s: another process held it\)"
    with pytest.raises(RunIndexError, match=held):
        await hasty.file(make_group("g2"), [rollout("r2")])
    with pytest.raises(RunIndexError, match=held):  # at once: it does not wait again
        await hasty.file(make_group("g3"), [rollout("r3")])
    other.execute("commit")
    other.close()
    hasty.close()
    assert_sound(url, "r1")


async def test_lock_that_is_given_back_in_time_holds_nothing_up(
    writer: IndexWriter, url: str
) -> None:
    await writer.file(make_group("g1"), [rollout("r1")])
    begins = threading.Event()

    def begun(*_: Any) -> None:
        begins.set()

    other = sqlite3.connect(file_of(url), isolation_level=None)
    other.execute("begin immediate")
    event.listen(Engine, "begin", begun, insert=True)  # before the writer waits for its turn
    try:
        filing = asyncio.create_task(writer.file(make_group("g2"), [rollout("r2")]))
        assert await asyncio.to_thread(begins.wait, 30)
        other.execute("commit")
        await filing
    finally:
        event.remove(Engine, "begin", begun)
        other.close()
    assert_sound(url, "r1", "r2")


# ---------------------------------------------------------------- removed

GONE = r"episodes\.db was removed or replaced while a run wrote to it: put it back and resume"


@pytest.mark.parametrize("part", ["", "-wal"])
async def test_removed_file_is_seen_before_the_next_rollout_is_filed(
    writer: IndexWriter, url: str, part: str
) -> None:
    await writer.file(make_group("g1"), [rollout("r1")])
    Path(f"{file_of(url)}{part}").unlink()
    with pytest.raises(RunIndexError, match=GONE):
        await writer.file(make_group("g2"), [rollout("r2")])
    with pytest.raises(RunIndexError, match=GONE):
        writer.raise_fault()


async def test_file_that_another_replaced_is_left_as_it_is(
    writer: IndexWriter, url: str, tmp_path: Path
) -> None:
    await writer.file(make_group("g1"), [rollout("r1")])
    other = tmp_path / "other.db"
    other.write_text("another's")
    other.replace(file_of(url))
    with pytest.raises(RunIndexError, match=GONE):
        await writer.file(make_group("g2"), [rollout("r2")])
    assert file_of(url).read_text() == "another's"


async def test_rollouts_that_were_committed_to_a_removed_file_are_not_filed(
    writer: IndexWriter, url: str
) -> None:
    await writer.file(make_group("g1"), [rollout("r1")])

    def remove(_: Any) -> None:
        file_of(url).unlink(missing_ok=True)

    event.listen(Engine, "commit", remove)
    try:
        with pytest.raises(RunIndexError, match=GONE):
            await writer.file(make_group("g2"), [rollout("r2")])
    finally:
        event.remove(Engine, "commit", remove)


# ---------------------------------------------------------------- whatever else


async def test_error_that_nobody_foresaw_is_told_to_all_who_wait(
    writer: IndexWriter, url: str
) -> None:
    def fail(_: Any) -> None:
        raise KeyError("what is this")

    event.listen(Engine, "begin", fail)
    try:
        filings = [writer.file(make_group(f"g{n}"), [rollout(f"r{n}")]) for n in range(3)]
        async with asyncio.timeout(30):  # a writer that died would never answer
            done = await asyncio.gather(*filings, return_exceptions=True)
    finally:
        event.remove(Engine, "begin", fail)
    assert {type(result) for result in done} == {RunIndexError}
    with pytest.raises(RunIndexError, match=r"can't be written: KeyError\('what is this'\)"):
        writer.raise_fault()
