"""Filing rollouts, from one thread, many threads and many processes."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import runpy
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from support.index_records import ATTEMPT, make_group, make_rollout, rows_of

from tinker_episodes import RunIndexError
from tinker_episodes.index import (
    Attempt,
    BundleRecord,
    Group,
    IndexWriter,
    Rollout,
    ScoreRecord,
    Split,
    Status,
    SummaryFile,
    index_writer,
)
from tinker_episodes.index.packing import as_json, packed, storable, unpacked
from tinker_episodes.index.reading import IndexReader

ODD = "a\ud800b\0c\u2028é"


# ---------------------------------------------------------------- what is filed


async def test_a_rollout_is_there_when_its_filing_returns(writer: IndexWriter, url: str) -> None:
    await writer.file(make_group(), [make_rollout("r1"), make_rollout("r2", 0.0)])
    rows = rows_of(url, "select key, reward, trained, trained_reward from rollouts order by key")
    assert rows == [("r1", 1.0, 0, None), ("r2", 0.0, 0, None)]
    assert rows_of(url, "select name, path from runs") == [("first", "/runs/first")]
    assert rows_of(url, "select split, step from run_groups") == [("train", 0)]


async def test_every_field_of_a_rollout_is_a_column(writer: IndexWriter, url: str) -> None:
    numbers = {"turns": 1, "messages": 2, "tool_calls": 3, "tool_errors": 4, "format_errors": 5}
    more = {"sampled_tokens": 6, "observation_tokens": 7, "opened_at": 8.5, "duration_s": 9.5}
    rollout = Rollout("r", 3, Status.CUT, 0.5, "length", "why", **numbers, **more)
    await writer.file(make_group(), [rollout])
    columns = ", ".join(["place", "status", "reward", "cut", "reason", *numbers, *more])
    expected = (3, "cut", 0.5, "length", "why", *numbers.values(), *more.values())
    assert rows_of(url, f"select {columns} from rollouts") == [expected]


async def test_scores_are_filed_with_their_evidence(writer: IndexWriter, url: str) -> None:
    scores = (ScoreRecord("found", 1.0, "why", {"n": [1]}), ScoreRecord("quick", 0.5, "", {}))
    await writer.file(make_group(), [make_rollout(scores=scores)])
    assert rows_of(url, "select name, value, explanation, evidence from scores order by name") == [
        ("found", 1.0, "why", '{"n": [1]}'),
        ("quick", 0.5, "", "{}"),
    ]


async def test_filing_twice_files_once(writer: IndexWriter, url: str) -> None:
    scores = (ScoreRecord("found", 1.0, "", {}),)
    await writer.file(make_group(), [make_rollout("r1", scores=scores)])
    await writer.file(make_group(), [make_rollout("r1", 0.0, scores=scores), make_rollout("r2")])
    assert rows_of(url, "select key, reward from rollouts order by key") == [
        ("r1", 1.0),
        ("r2", 1.0),
    ]
    assert rows_of(url, "select count(*) from groups") == [(1,)]
    assert rows_of(url, "select count(*) from transcripts") == [(2,)]


async def test_an_empty_group_can_be_filed(writer: IndexWriter, url: str) -> None:
    await writer.file(make_group(), [])
    assert rows_of(url, "select key from groups") == [("g1",)]


async def test_odd_texts_are_stored(writer: IndexWriter, url: str) -> None:
    scores = (ScoreRecord(ODD, 1.0, ODD, {ODD: ODD}),)
    group = Group(ATTEMPT, "g", Split.TRAIN, 0, BundleRecord(ODD, ODD, "h"), ODD, (ODD,))
    await writer.file(group, [make_rollout(scores=scores, reason=ODD)])
    plain = "a\\ud800b\\x00c\u2028é"
    assert rows_of(url, "select reason from rollouts") == [(plain,)]
    assert rows_of(url, "select task from groups") == [(plain,)]
    assert rows_of(url, "select name, version from bundles") == [(plain, plain)]
    assert rows_of(url, "select name, explanation from scores") == [(plain, plain)]


async def test_transcripts_come_back_equal(
    writer: IndexWriter, reader: Callable[[], IndexReader]
) -> None:
    transcript = {
        "entries": [{"kind": "reply", "content": ODD}, {"kind": "note", "text": ""}],
        "turns": [{"tokens": [1, 2**31 - 1], "big": [2**40], "logprobs": [-0.125, None, 0.5]}, {}],
        ODD: {"deep": [[["\ud83d", "😀"]]]},
    }
    await writer.file(make_group(), [make_rollout(transcript=transcript)])
    assert reader().transcript("r1") == transcript


def test_a_transcript_is_stored_small() -> None:
    transcript = {"entries": [{"kind": "reply", "content": "the same words"}] * 1000}
    assert unpacked(packed(transcript)) == transcript
    assert len(packed(transcript)) < 1000


@pytest.mark.parametrize("value", [{1, 2}, {("a", 1): 2}, object(), {"a": {3: b"x"}}])
def test_what_json_lacks_is_stored_as_its_text(value: Any) -> None:
    assert isinstance(as_json(value), str)


def test_stored_text_keeps_what_every_database_takes() -> None:
    assert storable("plain é 漢 😀") == "plain é 漢 😀"


# ---------------------------------------------------------------- runs and attempts


async def test_runs_of_one_folder_name_get_names_of_their_own(
    writer: IndexWriter, url: str
) -> None:
    paths = ["/a/x/first", "/b/x/first", "/b/y/first", "/first", "/first-"]
    for at, path in enumerate(paths):
        attempt = Attempt(path, f"t{at}", 0)
        await writer.file(make_group(f"g{at}", attempt=attempt), [])
    names = [name for (name,) in rows_of(url, "select name from runs order by id")]
    assert names[:3] == ["first", "x-first", "y-first"]
    assert names[3].startswith("first-")
    assert len(set(names)) == len(paths)


async def test_attempts_of_a_run_are_numbered(writer: IndexWriter, url: str) -> None:
    for at, (path, token) in enumerate(
        [("/r/a", "t1"), ("/r/a", "t2"), ("/r/b", "t3"), ("/r/a", "t2")]
    ):
        attempt = Attempt(path, token, at)
        await writer.file(make_group(f"g{at}", attempt=attempt), [])
    assert rows_of(url, "select token, number, start_step from attempts order by token") == [
        ("t1", 1, 0),
        ("t2", 2, 1),
        ("t3", 1, 2),
    ]


async def test_a_run_may_play_several_bundles(writer: IndexWriter, url: str) -> None:
    bundles = [
        BundleRecord("a", "1", "h"),
        BundleRecord("a", "1", "h2"),
        BundleRecord("a", "1", "h"),
    ]
    for at, bundle in enumerate(bundles):
        await writer.file(replace(make_group(f"g{at}"), bundle=bundle), [])
    query = (
        "select content_hash from groups join bundles on bundles.id = bundle_id order by groups.id"
    )
    assert rows_of(url, query) == [("h",), ("h2",), ("h",)]
    assert rows_of(url, "select count(*) from bundles") == [(2,)]


# ---------------------------------------------------------------- batches and faults


async def _held_writer(writer: IndexWriter, released: threading.Event) -> None:
    """Has the writer's thread wait, after its first commit, until the event is set."""
    held = threading.Event()

    def hold(_known: Any) -> list[SummaryFile]:
        held.set()
        released.wait(30)
        return []

    writer.follow("/runs/first", hold)
    await writer.file(make_group("g0"), [])
    assert await asyncio.to_thread(held.wait, 30)


async def test_filings_that_wait_are_committed_together(
    writer: IndexWriter, url: str, released: threading.Event
) -> None:
    commits: list[str] = []

    def count(_connection: Any) -> None:
        commits.append("commit")

    event.listen(Engine, "commit", count)
    try:
        await _held_writer(writer, released)
        filings = [
            asyncio.create_task(writer.file(make_group(f"h{n}"), [make_rollout(f"r{n}")]))
            for n in range(10)
        ]
        await asyncio.sleep(0)
        before = len(commits)
        released.set()
        await asyncio.gather(*filings)
    finally:
        event.remove(Engine, "commit", count)
    assert len(commits) == before + 1
    assert rows_of(url, "select count(*) from rollouts") == [(10,)]


@pytest.mark.parametrize("given", [list, iter])
async def test_a_bad_record_does_not_take_others_with_it(
    writer: IndexWriter, url: str, given: Callable[[list[Rollout]], Iterable[Rollout]]
) -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    filings = [writer.file(make_group(f"g{n}"), given([make_rollout(f"r{n}")])) for n in range(5)]
    bad = given([make_rollout("ok"), make_rollout("bad", transcript=circle)])
    filings.insert(2, writer.file(make_group("bad"), bad))
    done = await asyncio.gather(*filings, return_exceptions=True)
    assert [type(result) for result in done] == [
        *[type(None)] * 2,
        RunIndexError,
        *[type(None)] * 3,
    ]
    keys = [key for (key,) in rows_of(url, "select key from rollouts order by key")]
    assert keys == ["r0", "r1", "r2", "r3", "r4"]
    assert rows_of(url, "select count(*) from groups where key = 'bad'") == [(0,)]


async def test_rollouts_are_asked_for_once_where_a_batch_is_filed_again(
    writer: IndexWriter, url: str
) -> None:
    def made(key: str, *scores: ScoreRecord) -> Iterator[Rollout]:
        yield make_rollout(f"{key}1")
        yield make_rollout(f"{key}2", scores=scores)

    filings = [writer.file(make_group(f"g{n}"), made(f"r{n}")) for n in range(3)]
    filings.append(writer.file(make_group("bad"), made("bad", _twice(), _twice())))
    done = await asyncio.gather(*filings, return_exceptions=True)
    assert [type(result) for result in done] == [*[type(None)] * 3, RunIndexError]
    keys = [key for (key,) in rows_of(url, "select key from rollouts order by key")]
    assert keys == ["r01", "r02", "r11", "r12", "r21", "r22"]


async def test_a_fault_is_raised_again_at_the_next_occasion(writer: IndexWriter) -> None:
    writer.raise_fault()
    await writer.file(make_group(), [make_rollout()])
    writer.raise_fault()
    with pytest.raises(RunIndexError, match="can't be written"):
        await writer.file(make_group("g2"), [make_rollout("r2", scores=(_twice(), _twice()))])
    await writer.file(make_group("g3"), [make_rollout("r3")])
    for _ in range(2):
        with pytest.raises(RunIndexError, match="UNIQUE constraint failed"):
            writer.raise_fault()


def _twice() -> ScoreRecord:
    return ScoreRecord("found", 1.0, "", {})


async def test_a_folder_that_is_a_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    writer = IndexWriter(f"sqlite:///{tmp_path / 'runs' / 'episodes.db'}")
    for _ in range(2):
        with pytest.raises(RunIndexError, match="can't be opened"):
            await writer.file(make_group(), [make_rollout()])
    with pytest.raises(RunIndexError, match="can't be opened"):
        writer.raise_fault()
    writer.close()


async def test_an_index_of_another_version_is_a_fault(writer: IndexWriter, url: str) -> None:
    await writer.file(make_group(), [])
    writer.close()
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.execute("update meta set version = 99")
    connection.commit()
    connection.close()
    with pytest.raises(RunIndexError, match="schema version 99"):
        await writer.file(make_group("g2"), [])


async def test_a_database_that_loses_a_table_is_a_fault(writer: IndexWriter, url: str) -> None:
    await writer.file(make_group(), [])
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.execute("drop table transcripts")
    connection.commit()
    connection.close()
    with pytest.raises(RunIndexError, match="no such table: transcripts"):
        await writer.file(make_group("g2"), [make_rollout()])


async def test_a_cancelled_filing_is_filed_and_does_not_stop_the_writer(
    writer: IndexWriter, url: str, released: threading.Event
) -> None:
    await _held_writer(writer, released)
    filing = asyncio.create_task(writer.file(make_group("g1"), [make_rollout("r1")]))
    await asyncio.sleep(0)
    filing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await filing
    released.set()
    async with asyncio.timeout(10):  # a writer that died would never answer
        await writer.file(make_group("g2"), [make_rollout("r2")])
    assert rows_of(url, "select key from rollouts order by key") == [("r1",), ("r2",)]


async def test_a_filing_of_a_loop_that_has_ended_does_not_stop_the_writer(
    writer: IndexWriter, url: str, released: threading.Event
) -> None:
    await _held_writer(writer, released)

    async def begin() -> None:
        filing = asyncio.ensure_future(writer.file(make_group("g2"), [make_rollout("r2")]))
        await asyncio.sleep(0)
        assert not filing.done()

    await asyncio.to_thread(asyncio.run, begin())  # it ends, and cancels what it began
    released.set()
    async with asyncio.timeout(10):
        await writer.file(make_group("g3"), [make_rollout("r3")])
    assert ("r3",) in rows_of(url, "select key from rollouts")


async def test_a_reward_that_no_database_takes_is_a_fault(writer: IndexWriter, url: str) -> None:
    with pytest.raises(RunIndexError):
        await writer.file(
            make_group(), [make_rollout(scores=(ScoreRecord("found", math.nan, "", {}),))]
        )
    assert rows_of(url, "select count(*) from rollouts") == [(0,)]


# ---------------------------------------------------------------- closing and starting again


async def test_closing_writes_what_waits(writer: IndexWriter, url: str) -> None:
    filings = [
        asyncio.create_task(writer.file(make_group(f"g{n}"), [make_rollout(f"r{n}")]))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    await asyncio.to_thread(writer.close)
    assert rows_of(url, "select count(*) from rollouts") == [(20,)]
    await asyncio.gather(*filings)


async def test_a_closed_writer_starts_again(writer: IndexWriter, url: str) -> None:
    for at in range(3):
        await writer.file(make_group(f"g{at}"), [make_rollout(f"r{at}")])
        writer.close()
    assert rows_of(url, "select count(*) from rollouts") == [(3,)]


def test_closing_a_writer_that_never_wrote_does_nothing(writer: IndexWriter, url: str) -> None:
    writer.close()
    writer.close()
    assert not Path(url.removeprefix("sqlite:///")).exists()


def test_a_process_has_one_writer_for_an_index(url: str) -> None:
    assert index_writer(url) is index_writer(url)
    assert index_writer(url) is not index_writer(f"{url}2")


_FORKED = """
import asyncio, atexit, sys
from support.index_records import ATTEMPT, make_group, make_rollout
from tinker_episodes.index import index_writer

atexit._clear()  # as Python 3.13 does in a process that is forked from one that imported all this
filed = False
writer = index_writer(sys.argv[1])

def source(known):
    if filed:
        print("looked for what came last", flush=True)
    return ()

writer.follow(ATTEMPT.log_path, source)
asyncio.run(writer.file(make_group(), [make_rollout()]))
writer.close()
filed = True
"""


def test_a_process_that_was_forked_after_the_import_closes_its_writers(url: str) -> None:
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", _FORKED, url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "looked for what came last" in done.stdout


async def test_a_closed_writer_leaves_no_log_behind(writer: IndexWriter, url: str) -> None:
    await writer.file(make_group(), [make_rollout()])
    writer.close()
    file = Path(url.removeprefix("sqlite:///"))
    assert [path.name for path in file.parent.iterdir()] == [file.name]


# ---------------------------------------------------------------- several writers


def test_many_threads_share_one_writer(writer: IndexWriter, url: str) -> None:
    def play(at: int) -> None:
        async def file() -> None:
            for n in range(5):
                await writer.file(
                    make_group(f"g{at}-{n}"), [make_rollout(f"r{at}-{n}-{k}") for k in range(3)]
                )

        asyncio.run(file())

    threads = [threading.Thread(target=play, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows_of(url, "select count(*), count(distinct group_id) from rollouts") == [(90, 30)]
    assert rows_of(url, "select count(*) from attempts") == [(1,)]


async def test_two_writers_can_file_into_one_index(writer: IndexWriter, url: str) -> None:
    other = IndexWriter(url)
    try:
        filings = [
            one.file(make_group(f"g{n}"), [make_rollout(f"{n}-{place}")])
            for n in range(20)
            for place, one in enumerate((writer, other))
        ]
        await asyncio.gather(*filings)
    finally:
        other.close()
    assert rows_of(url, "select count(*), count(distinct group_id) from rollouts") == [(40, 20)]


async def test_a_rolled_back_row_is_not_taken_for_known(writer: IndexWriter, url: str) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(RunIndexError):
        await writer.file(make_group("g1", step=3), [make_rollout("bad", transcript={"x": circle})])
    await writer.file(make_group("g1", step=3), [make_rollout("r1")])
    query = """
        select rollouts.key, runs.name, run_groups.step, attempts.token
        from rollouts join groups on groups.id = group_id
        join run_groups on run_groups.id = run_group_id
        join runs on runs.id = run_groups.run_id
        join attempts on attempts.id = attempt_id
    """
    assert rows_of(url, query) == [("r1", "first", 3, "token-1")]


_PROCESS = """
import asyncio
from tinker_episodes.index import Attempt, BundleRecord, Group, IndexWriter, Rollout, Split, Status

async def play():
    writer = IndexWriter(url)
    attempt, bundle = Attempt("/runs/first", "token-1", 0), BundleRecord("b", "1", "h")
    for n in range(10):
        group = Group(attempt, f"{name}-{n}", Split.TRAIN, n % 3, bundle, "t", ())
        await writer.file(group, [Rollout(f"{name}-{n}", 0, Status.FINISHED, 1.0)])
    writer.close()

ready.wait()
asyncio.run(play())
"""


def test_many_processes_make_and_fill_one_index(url: str, tmp_path: Path) -> None:
    script = tmp_path / "play.py"
    script.write_text(_PROCESS)
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(3)
    processes = [
        spawn.Process(
            target=runpy.run_path,
            args=(str(script), {"url": url, "name": f"p{at}", "ready": ready}),
        )
        for at in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert rows_of(url, "select count(*) from rollouts") == [(30,)]
    assert rows_of(url, "select count(*) from attempts") == [(1,)]
    assert rows_of(url, "select count(*) from run_groups") == [(3,)]
