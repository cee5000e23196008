"""The run index on a real PostgreSQL server: the same rows and the same pages as on SQLite."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from support import postgres
from support.index_records import make_group, make_rollout
from support.index_writing import file_many

from tinker_episodes import RunIndexError
from tinker_episodes.index import IndexWriter, ScoreRecord, Split, Summary, SummaryFile
from tinker_episodes.index.earlier import earlier_rollouts
from tinker_episodes.index.schema import check_url, index_exists, open_index

pytestmark = [
    pytest.mark.skipif(postgres.programs() is None, reason="no PostgreSQL server is installed"),
    pytest.mark.timeout(300),
]
pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

ODD = "a\ud800b\0c\u2028é"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.serve() as url:
        yield url


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """An empty database."""
    engine = create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
    yield server
    with engine.begin() as connection:
        connection.execute(text("drop schema public cascade; create schema public"))
    engine.dispose()


@pytest.fixture
def writer(url: str) -> Iterator[IndexWriter]:
    writer = IndexWriter(url)
    yield writer
    writer.close()


def rows_of(url: str, query: str) -> list[tuple[Any, ...]]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text(query))]
    engine.dispose()
    return rows


async def test_what_is_filed_is_there_and_filing_twice_files_once(
    writer: IndexWriter, url: str
) -> None:
    scores = (ScoreRecord("found", 1.0, ODD, {ODD: [ODD]}),)
    for _ in range(2):
        await writer.file(make_group(), [make_rollout(scores=scores, reason=ODD)])
    assert rows_of(url, "select key, reward, reason from rollouts") == [
        ("r1", 1.0, "a\\ud800b\\x00c\u2028é")
    ]
    assert rows_of(url, "select name, value from scores") == [("found", 1.0)]
    assert rows_of(url, "select name from runs") == [("first",)]


async def test_summaries_are_taken_over(writer: IndexWriter, url: str) -> None:
    said = Summary("r1", step=5, sampler_step=4, trained_reward=0.25, trained=True)
    file = SummaryFile("iteration_5/train_rollout_summaries.jsonl", 2**31 - 1, (said,))
    writer.follow("/runs/first", lambda known: [] if known else [file])
    await writer.file(make_group(step=2), [make_rollout("r1")])
    writer.close()
    query = """
        select step, trained_reward, sampler_step from rollouts
        join groups on groups.id = group_id join run_groups on run_groups.id = run_group_id
    """
    assert rows_of(url, query) == [(5, 0.25, 4)]


async def test_a_start_sees_what_the_database_holds(writer: IndexWriter, url: str) -> None:
    check_url(url)
    assert not index_exists(url)
    assert earlier_rollouts(url, "/runs/first") is None
    await writer.file(make_group(), [make_rollout()])
    check_url(url)
    found = earlier_rollouts(url, "/runs/first")
    assert found is not None and dataclasses.astuple(found) == (1, ("number_search",))
    assert earlier_rollouts(url, "/runs/other") is None


async def test_a_reader_can_not_write(writer: IndexWriter, url: str) -> None:
    await writer.file(make_group(), [make_rollout()])
    engine = open_index(url, create=False)
    with pytest.raises(Exception, match="read-only transaction"), engine.begin() as connection:
        connection.execute(text("delete from meta"))
    engine.dispose()


async def test_a_lock_is_waited_for_and_then_a_fault(writer: IndexWriter, url: str) -> None:
    await writer.file(make_group(), [])
    hasty = IndexWriter(url, lock_timeout_s=0.2)
    await hasty.file(make_group(), [])
    engine = open_index(url, create=True)
    try:
        with engine.begin():  # holds the lock of the writers
            with pytest.raises(RunIndexError, match=r"lock timeout \(after 0\.2 s: another"):
                await hasty.file(make_group("g2"), [make_rollout()])
            waiting = asyncio.create_task(writer.file(make_group("g3"), [make_rollout("r3")]))
            await _until_a_writer_waits(url)
            assert not waiting.done()
        await waiting
    finally:
        hasty.close()
        engine.dispose()
    assert rows_of(url, "select key from rollouts") == [("r3",)]


async def _until_a_writer_waits(url: str) -> None:
    waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    while await asyncio.to_thread(rows_of, url, waits) == [(0,)]:
        pass


async def test_a_connection_that_the_server_drops_is_made_anew(
    writer: IndexWriter, url: str
) -> None:
    await writer.file(make_group(), [make_rollout("r1")])
    drop = """
        select pg_terminate_backend(pid) from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()
    """
    assert (True,) in rows_of(url, drop)
    await writer.file(make_group("g2"), [make_rollout("r2")])
    writer.raise_fault()
    assert rows_of(url, "select count(*) from rollouts") == [(2,)]


@pytest.mark.parametrize("act", [check_url, IndexWriter.file])
async def test_a_server_that_is_not_there_is_one_error_without_the_password(act: Any) -> None:
    url = "postgresql://someone:secret@/nothing?host=/no/such/folder"
    with pytest.raises(RunIndexError, match=r"someone:\*\*\*@.* can't be opened") as caught:
        if act is check_url:
            check_url(url)
        else:
            writer = IndexWriter(url)
            try:
                await writer.file(make_group(), [])
            finally:
                writer.close()
    assert "secret" not in str(caught.value)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(RunIndexError, match=r"pip install 'tinker-episodes\[postgres\]'"):
        check_url("postgresql://someone@/nothing")


async def test_pages_read_alike_on_both_databases(
    writer: IndexWriter, url: str, tmp_path: Path
) -> None:
    from tinker_episodes.index.reading import IndexReader

    other = IndexWriter(f"sqlite:///{tmp_path / 'episodes.db'}")
    read: list[Any] = []
    for one in (writer, other):
        for step in range(3):
            rewards = [0.0, 0.5, 1.0]
            made = [make_rollout(f"r{step}-{at}", reward) for at, reward in enumerate(rewards)]
            await one.file(make_group(f"g{step}", step=step), made)
        one.close()
        reader = IndexReader(one.url)
        rows = [
            {name: value for name, value in row.items() if name not in ("id", "group_id")}
            for row in reader.rollouts("first", Split.TRAIN, 1)
        ]
        read.append((reader.steps("first"), rows, reader.transcript("r1-1")))
        reader.close()
    assert read[0] == read[1]


# ---------------------------------------------------------------- several writers


def write_at_once(url: str, *, processes: int, groups: int, size: int) -> None:
    """Processes that make the index and file into it at once."""
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(processes)
    started = [
        spawn.Process(target=file_many, args=(url, ready, f"p{at}", groups, size))
        for at in range(processes)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(240)
    assert [process.exitcode for process in started] == [0] * processes


def assert_each_is_filed_once(rows: Any, *, processes: int, groups: int, size: int) -> None:
    every = processes * groups * size
    assert rows("select count(*), count(distinct key) from rollouts") == [(every, every)]
    assert rows("select count(*) from groups") == [(processes * groups,)]
    assert rows("select count(*) from transcripts") == [(every,)]
    assert rows("select count(*), max(number) from attempts") == [(1, 1)]
    assert rows("select count(*) from run_groups") == [(10,)]
    assert rows("select count(*) from meta") == [(1,)]


def test_eight_processes_file_a_thousand_rollouts_each_once(url: str) -> None:
    load = {"processes": 8, "groups": 100, "size": 10}
    write_at_once(url, **load)
    assert_each_is_filed_once(lambda query: rows_of(url, query), **load)


def test_eight_processes_file_a_thousand_rollouts_each_once_in_one_file(tmp_path: Path) -> None:
    from support.index_records import rows_of as rows_of_file

    url, load = f"sqlite:///{tmp_path / 'episodes.db'}", {"processes": 8, "groups": 100, "size": 10}
    write_at_once(url, **load)
    assert_each_is_filed_once(lambda query: rows_of_file(url, query), **load)
