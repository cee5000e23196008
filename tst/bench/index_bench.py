"""The run index at size: pages beside their SQL's own time and on PostgreSQL, the explorer's
answers, writing, bytes, and the trainer's loop.

python tst/bench/index_bench.py [rollouts=1000000] [cache=/tmp/folder] [postgres=URL]

Times are of this process's own CPU as well, since other work on the machine adds to the clock.
`cache` keeps the index that was made, and takes it from there the next time; `postgres` names a
database that holds a copy of it already, or is `no`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from index_answers import bench_answers
from index_maker import SIZE, TASKS, WORDS, Made, make_index, play_of
from index_postgres import copy_on_postgres
from sqlalchemy import event
from table import Row, left_out

from tinker_episodes.index import Attempt, BundleRecord, Group, IndexWriter, Split
from tinker_episodes.index.reading import GroupFilter, IndexReader, Search

ASKED = 40
"""Requests of each page."""
GOAL_MS = {"search": 200.0}
SQL_TIMES = 2
PAGE_MS = 50.0


class Statements:
    """The statements that a reader runs, to run them again without it."""

    def __init__(self, reader: IndexReader) -> None:
        self.seen: list[tuple[str, Any]] = []
        event.listen(reader._engine, "before_cursor_execute", self._see)

    def _see(self, _c: Any, _cursor: Any, sql: str, values: Any, *_: Any) -> None:
        if sql != "BEGIN":
            self.seen.append((sql, values))

    def again_s(self, connection: sqlite3.Connection) -> float:
        """Seconds that they take by themselves."""
        start = time.thread_time()
        for sql, values in self.seen:
            connection.execute(sql, values).fetchall()
        return time.thread_time() - start


def pages(reader: IndexReader, made: Made, chance: random.Random) -> dict[str, Callable[[], Any]]:
    """One random request of each page."""

    def step() -> int:
        return chance.randrange(made.steps)

    def group() -> str:
        return reader.groups(made.run, Split.TRAIN, step(), limit=1).groups[0].where.group

    def rollout() -> str:
        return f"{group()}{chance.randrange(SIZE):02x}"

    def word() -> str:
        return chance.choice([WORDS[0], WORDS[50], WORDS[1000], WORDS[15_000]])

    def first() -> int:
        return chance.randrange(max(1, made.steps - 50))

    one, some = rollout(), group()
    return {
        "runs": reader.runs,
        "curves": lambda: reader.curves(made.run),
        "step": lambda: reader.groups(made.run, Split.TRAIN, step()),
        "step, filtered": lambda: reader.groups(
            made.run, Split.TRAIN, step(), sort="mean", matching=GroupFilter(tag="easy", cut=True)
        ),
        "group": lambda: reader.group(some),
        "rollout": lambda: reader.rollout(one),
        "tokens": lambda: reader.tokens(one),
        "task": lambda: reader.task("shop", f"shop-{chance.randrange(TASKS):04d}", run=made.run),
        "changes": lambda: reader.changes(5),
        "search, a word": lambda: reader.search(Search(word())),
        "search, a word and filters": lambda: reader.search(
            Search(word(), run=made.run, tag="hard", tool="refund", low=0.5, high=1.0)
        ),
        "search, steps and a cut": lambda: reader.search(
            Search(word(), run=made.run, first_step=(at := first()), last_step=at + 50, cut="turns")
        ),
        "search, filters alone": lambda: reader.search(
            Search(split=Split.EVAL, task=f"shop-{TASKS + 7:04d}", error="tool")
        ),
        "search, a phrase": lambda: reader.search(Search(f'"{WORDS[0]} {WORDS[1]}"')),
        "search, what is not there": lambda: reader.search(
            Search(f"{WORDS[0]} {WORDS[1]} {WORDS[2]} nowhere", run=made.run)
        ),
    }


def bench_pages(url: str, made: Made) -> list[dict[str, Any]]:
    """Each page's time at the 50th and 95th percentile, beside its statements' own."""
    reader, chance = IndexReader(url), random.Random(1)
    seen = Statements(reader)
    file = url.removeprefix("sqlite:///")
    raw = sqlite3.connect(f"file:{file}?mode=ro", uri=True) if url.startswith("sqlite") else None
    rows: list[dict[str, Any]] = []
    gc.collect()
    gc.freeze()  # as the explorer does before it serves
    for name, ask in pages(reader, made, chance).items():
        ask()
        clock, cpu, own = [], [], []
        for _ in range(ASKED):
            seen.seen.clear()
            start, busy = time.perf_counter(), time.thread_time()
            ask()
            cpu.append(time.thread_time() - busy)
            clock.append(time.perf_counter() - start)
            own.append(seen.again_s(raw) if raw is not None else float("nan"))
        rows.append(_row(name, clock, cpu, own))
    reader.close()
    return rows


def _row(name: str, clock: list[float], cpu: list[float], own: list[float]) -> dict[str, Any]:
    def at(values: list[float], share: float) -> float:
        return 1000 * sorted(values)[min(len(values) - 1, int(share * len(values)))]

    return {
        "work": f"page: {name}",
        "p50_ms": at(clock, 0.5),
        "p95_ms": at(clock, 0.95),
        "cpu_p50_ms": at(cpu, 0.5),
        "cpu_p95_ms": at(cpu, 0.95),
        "sql_p50_ms": at(own, 0.5),
        "sql_p95_ms": at(own, 0.95),
        "goal_ms": next((ms for kind, ms in GOAL_MS.items() if name.startswith(kind)), PAGE_MS),
    }


async def bench_writing(url: str, rollouts: int, *, at_once: int = 64) -> dict[str, Any]:
    """Rollouts a second that one process commits, and how long the event loop is ever held up.

    Args:
        at_once: Groups that end together.
    """
    chance = random.Random(2)
    plays = [play_of(chance) for _ in range(200)]
    writer, attempt = IndexWriter(url), Attempt("/runs/written", "t", 0)
    bundle = BundleRecord("shop", "1", "0" * 64)
    waits: list[float] = []
    over = asyncio.Event()

    async def tick() -> None:
        while not over.is_set():
            start = time.perf_counter()
            await asyncio.sleep(0)
            waits.append(time.perf_counter() - start)
            await asyncio.sleep(0.002)

    async def file(at: int) -> None:
        group = Group(attempt, f"w{at}", Split.TRAIN, at // 16, bundle, f"t{at % 50}", ("easy",))
        some = [_copy(plays[(at + n) % 200], f"w{at}-{n}", n) for n in range(SIZE)]
        await writer.file(group, some)

    ticking = asyncio.create_task(tick())
    start, busy = time.perf_counter(), time.process_time()
    for first in range(0, rollouts // SIZE, at_once):
        await asyncio.gather(*(file(at) for at in range(first, first + at_once)))
    took, cpu = time.perf_counter() - start, time.process_time() - busy
    over.set()
    await ticking
    writer.close()
    filed = -(-(rollouts // SIZE) // at_once) * at_once * SIZE
    return {
        "work": "write",
        "rollouts": filed,
        "per_s": filed / took,
        "per_cpu_s": filed / cpu,
        "loop_longest_block_ms": 1000 * max(waits),
    }


def _copy(play: Any, key: str, place: int) -> Any:
    from dataclasses import replace

    return replace(play, key=key, place=place)


def bytes_of(file: str, rollouts: int) -> dict[str, Any]:
    """Bytes a rollout, by what takes them."""
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    (pages_,), (free,), (size,) = (
        connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("page_count", "freelist_count", "page_size")
    )
    connection.close()
    return {"work": "bytes a rollout", "bytes": (pages_ - free) * size / rollouts}


def bench_postgres(file: str, made: Made, given: str | None = None) -> dict[str, dict[str, Any]]:
    """The same pages on PostgreSQL, by name; none where `copy_on_postgres` gives no server."""
    with copy_on_postgres(file, given) as url:
        return {} if url is None else {row["work"]: row for row in bench_pages(url, made)}


def rows() -> Iterator[Row]:
    """The index's part of the table; `TINKER_EPISODES_INDEX_ROLLOUTS` says how large it is."""
    rollouts = int(os.environ.get("TINKER_EPISODES_INDEX_ROLLOUTS", "100000"))
    with tempfile.TemporaryDirectory() as scratch:
        file = f"{scratch}/episodes.db"
        made = make_index(f"sqlite:///{file}", rollouts=rollouts)
        on_sqlite = bench_pages(f"sqlite:///{file}", made)
        yield from _page_rows(on_sqlite, made)
        yield _postgres_row(on_sqlite, bench_postgres(file, made), made)
        for row in bench_answers(file, made):
            figure, met = f"{row['p95_ms']:.1f} ms", row["p95_ms"] <= PAGE_MS
            yield Row(row["work"], "", _sizes(made), figure, f"{PAGE_MS:.0f} ms", met, _values(row))
        written = asyncio.run(bench_writing(f"sqlite:///{scratch}/written.db", 8192))
        size = bytes_of(file, made.rollouts)["bytes"]
        figure = f"{written['per_s']:.0f}/s, {size:.0f} bytes each"
        met = written["per_s"] >= 2000
        sizes = f"{written['rollouts']}"
        yield Row("write rollouts", "", sizes, figure, "2,000/s", met, _values(written))
        yield _singly_row(f"sqlite:///{scratch}/singly.db", written)


def _singly_row(url: str, written: dict[str, Any]) -> Row:
    singly = asyncio.run(bench_writing(url, 2048, at_once=1))
    times = written["per_s"] / singly["per_s"]
    return Row(
        "write rollouts, each group by itself",
        "64 groups at once",
        f"{singly['rollouts']}, {SIZE} a group",
        f"{singly['per_s']:.0f}/s, {times:.1f} x the time a rollout",
        "",
        None,
        _values(singly) | {"times": times},
    )


def _page_rows(pages: list[dict[str, Any]], made: Made) -> Iterator[Row]:
    for row in pages:
        times = row["cpu_p95_ms"] / row["sql_p95_ms"]
        figure = f"{row['p95_ms']:.1f} ms, {times:.1f} x"
        met = row["p95_ms"] <= row["goal_ms"] and times <= SQL_TIMES
        goal = f"{row['goal_ms']:.0f} ms; {SQL_TIMES} x"
        beside = "its SQL's own time"
        yield Row(row["work"], beside, _sizes(made), figure, goal, met, _values(row))


def _postgres_row(
    on_sqlite: list[dict[str, Any]], on_postgres: dict[str, dict[str, Any]], made: Made
) -> Row:
    work = "pages on PostgreSQL"
    if not on_postgres:
        return left_out(work, "no PostgreSQL is installed")
    ratios = {row["work"]: on_postgres[row["work"]]["p95_ms"] / row["p95_ms"] for row in on_sqlite}
    worst = max(ratios, key=lambda name: ratios[name])
    slowest = max(on_postgres.values(), key=lambda row: row["p95_ms"] / row["goal_ms"])
    figure = (
        f"nearest to its goal: {slowest['p95_ms']:.1f} ms "
        f"({slowest['work'].removeprefix('page: ')}); beside SQLite's own time at most "
        f"{ratios[worst]:.1f} x ({worst.removeprefix('page: ')})"
    )
    met = slowest["p95_ms"] <= 3 * slowest["goal_ms"]
    return Row(work, "on SQLite", _sizes(made), figure, "3 x the goals above", met, ratios)


def _sizes(made: Made) -> str:
    return f"{made.rollouts} rollouts in 5 runs, {ASKED} requests, p95"


def _values(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name != "work"}


def index_in(folder: Path, options: dict[str, str]) -> tuple[str, Made]:
    """The file of the index to read, made or kept from before."""
    file, kept = str(folder / "episodes.db"), folder / "made.json"
    if "cache" in options and kept.exists():
        return file, Made(**json.loads(kept.read_text()))
    made = make_index(f"sqlite:///{file}", rollouts=int(options.get("rollouts", "1000000")))
    kept.write_text(json.dumps({name: getattr(made, name) for name in Made.__slots__}))
    return file, made


def main(arguments: list[str]) -> None:
    """Print a table, and each row as JSON."""
    options = dict(argument.split("=", 1) for argument in arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.get("cache", scratch))
        folder.mkdir(parents=True, exist_ok=True)
        file, made = index_in(folder, options)
        print(f"{made.rollouts} rollouts in 5 runs of {made.steps} steps")
        rows = bench_pages(f"sqlite:///{file}", made)
        _show(rows, bench_postgres(file, made, options.get("postgres")))
        for row in bench_answers(file, made):
            print(f"{row['work']:34}{row['p50_ms']:>9.1f}{row['p95_ms']:>9.1f}")
        print(json.dumps(bytes_of(file, made.rollouts)))
        print(json.dumps(asyncio.run(bench_writing(f"sqlite:///{scratch}/written.db", 8192))))


def _show(on_sqlite: list[dict[str, Any]], on_postgres: dict[str, dict[str, Any]]) -> None:
    head = ("p50", "p95", "cpu p50", "cpu p95", "sql p50", "sql p95", "goal")
    more = ("pg p50", "pg p95", "pg/lite") if on_postgres else ()
    print(f"{'page, ms':34}" + "".join(f"{name:>9}" for name in (*head, *more)))
    for row in on_sqlite:
        values = list(_values(row).values())
        if on_postgres:
            p50, p95 = (on_postgres[row["work"]][name] for name in ("p50_ms", "p95_ms"))
            values += [p50, p95, p95 / row["p95_ms"]]
        print(f"{row['work']:34}" + "".join(f"{value:>9.1f}" for value in values))
    if not on_postgres:
        print("pages on PostgreSQL are left out: none is installed, or none was asked for")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # tst/support
    main(sys.argv[1:])
