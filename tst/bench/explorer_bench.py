"""The explorer as a person meets it: its command in a process of its own, its answers over HTTP,
and its pages in headless Chromium.

python tst/bench/explorer_bench.py [rollouts=1000000] [cache=/tmp/folder]

`cache` keeps the index that was made, and takes it from there the next time. Pages are timed from
the navigation on, by the browser's own clock, each in a context of its own that has nothing kept.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from index_bench import index_in
from index_maker import RUNS, SIZE, TASKS, WORDS, Made, play_of
from table import Row, left_out, show

from tinker_episodes.index import Attempt, BundleRecord, Group, Split
from tinker_episodes.index.reading import IndexReader

ASKED = 100
"""Requests of each kind."""
AT_ONCE = 8
"""Requests at a time, where the server's memory is what is looked at."""
VISITS = 5
"""Times that each page is opened."""
MESSAGES = 5_000
LONG = "long-0"
"""The key of the rollout with so many messages."""
ANSWER_MS, SEARCH_MS, PAGE_MS = 50.0, 200.0, 1000.0
MEMORY_MB = 300
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")

Query = dict[str, Any]


def rows() -> Iterator[Row]:
    """The explorer's part of the table; `TINKER_EPISODES_INDEX_ROLLOUTS` says how large it is."""
    rollouts = os.environ.get("TINKER_EPISODES_INDEX_ROLLOUTS", "100000")
    with tempfile.TemporaryDirectory() as scratch:
        yield from _rows(*index_in(Path(scratch), {"rollouts": rollouts}))


def _rows(file: str, made: Made) -> Iterator[Row]:
    add_long(f"sqlite:///{file}")
    sizes = f"{made.rollouts} rollouts in {RUNS} runs"
    with serve(file) as server:
        yield from _page_rows(server, sizes)
        asking = Asking(server)
        for name, query in asks(asking, made, random.Random(3)).items():
            yield _answer_row(name, [asking.took_ms(*query()) for _ in range(ASKED)], sizes)
        ask_at_once(server, made)
        yield _memory_row(server, sizes)


# ---------------------------------------------------------------- what is served


@dataclass(frozen=True, slots=True)
class Server:
    """The running command."""

    url: str
    process: int

    def cpu_ms(self) -> float:
        """Processor time of its threads."""
        tasks = Path(f"/proc/{self.process}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6

    def memory_mb(self, of: str) -> float:
        """`VmHWM`, the most that it ever had resident, or `VmRSS`, what it has."""
        status = Path(f"/proc/{self.process}/status").read_text()
        found = re.search(rf"{of}:\s+(\d+) kB", status)
        assert found is not None, status
        return int(found[1]) / 1024


@contextmanager
def serve(file: str) -> Iterator[Server]:
    """`tinker-episodes explore`, as a user starts it."""
    command = [sys.executable, "-m", "tinker_episodes.cli", "explore", file, "port=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None, "it is a pipe"
        said = process.stdout.readline()
        at = said.rpartition(" at ")[2].strip().rstrip("/")
        assert at.startswith("http://"), said
        yield Server(at, process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def add_long(url: str) -> None:
    """File the long rollout, once, as a run of its own."""
    from support.explorer_runs import file_groups

    reader = IndexReader(url)
    there = reader.rollout(LONG) is not None
    reader.close()
    if not there:
        bundle = BundleRecord("shop", "1", "0" * 64)
        group = Group(Attempt("/runs/long", "long", 0), "long", Split.TRAIN, 0, bundle, "long", ())
        play = play_of(random.Random(4), LONG, MESSAGES)
        file_groups(url, iter([(group, [play])]))


# ---------------------------------------------------------------- answers


class Asking:
    """One connection that stays open, as a browser's does."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection = HTTPConnection(urlsplit(server.url).netloc, timeout=60)

    def answer(self, endpoint: str, query: Query) -> bytes:
        """The body of an answer."""
        self._connection.request("GET", f"/api/{endpoint}?{urlencode(query)}")
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (endpoint, query, body)
        return body

    def took_ms(self, endpoint: str, query: Query) -> tuple[float, float]:
        """Milliseconds until all of an answer is there, and of the server's processor."""
        busy, start = self._server.cpu_ms(), time.perf_counter()
        self.answer(endpoint, query)
        took = 1000 * (time.perf_counter() - start)
        return took, self._server.cpu_ms() - busy


def asks(
    asking: Asking, made: Made, chance: random.Random
) -> dict[str, Callable[[], tuple[str, Query]]]:
    """What each page asks for: an endpoint and a random query of it."""

    def step() -> Query:
        run = f"run-{chance.randrange(RUNS)}"
        return {"run": run, "split": "train", "step": chance.randrange(made.steps)}

    pages = [json.loads(asking.answer("groups", step())) for _ in range(20)]
    groups = [page["groups"][0]["where"]["group"] for page in pages]

    def group() -> Query:
        return {"key": chance.choice(groups)}

    def rollout() -> Query:
        return {"key": f"{chance.choice(groups)}{chance.randrange(SIZE):02x}"}

    def task() -> Query:
        return {"bundle": "shop", "task": f"shop-{chance.randrange(TASKS):04d}"}

    def word() -> Query:
        return {"q": chance.choice([WORDS[0], WORDS[50], WORDS[1000], WORDS[15_000]])}

    return {
        "runs": lambda: ("runs", {}),
        "curves": lambda: ("steps", {"run": step()["run"]}),
        "step": lambda: ("groups", step()),
        "step, filtered": lambda: (
            "groups",
            step() | {"sort": "mean", "tag": "easy", "only": "cut"},
        ),
        "group": lambda: ("group", group()),
        "rollout": lambda: ("rollout", rollout()),
        "rollout of 5,000 messages": lambda: ("rollout", {"key": LONG}),
        "tokens": lambda: ("tokens", rollout()),
        "task in a run": lambda: ("task", task() | {"run": made.run}),
        "task in all runs": lambda: ("task", task()),
        "search, a word": lambda: ("search", word()),
        "search, a word and filters": lambda: (
            "search",
            word() | {"run": made.run, "tag": "hard", "tool": "refund", "low": 0.5, "high": 1},
        ),
        "search, a phrase": lambda: ("search", {"q": f'"{WORDS[0]} {WORDS[1]}"'}),
        "search, filters alone": lambda: ("search", {"split": "eval", "error": "tool"}),
    }


def ask_at_once(server: Server, made: Made) -> None:
    """Every kind of request several times, from several connections at once."""

    def ask_all(seed: int) -> None:
        asking = Asking(server)
        for query in asks(asking, made, random.Random(seed)).values():
            asking.answer(*query())

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(ask_all, range(2 * AT_ONCE)))


# ---------------------------------------------------------------- pages

FRAME = "new Promise(requestAnimationFrame)"
ROWS = f"""async () => {{
    while (!document.querySelector("tbody tr")) await {FRAME};
    await {FRAME};
    return {{ usable_ms: performance.now() }};
}}"""
"""When the first page has its rows on the screen."""
READABLE = f"""async (messages) => {{
    const drawn = () => document.querySelector(".transcript")?.childElementCount;
    while (!drawn()) await {FRAME};
    await {FRAME};
    const first_ms = performance.now();
    while (drawn() < messages) await {FRAME};
    const all_ms = performance.now();
    document.body.dispatchEvent(new KeyboardEvent("keydown", {{ key: "e", bubbles: true }}));
    const last = document.querySelector(".transcript").lastElementChild;
    const seen = ({{ top, bottom }}) => bottom > 0 && top < innerHeight;
    while (!seen(last.getBoundingClientRect())) await {FRAME};
    await {FRAME};
    return {{ first_ms, all_ms, usable_ms: performance.now() }};
}}"""
"""When all messages are there, and the key for the end has brought the last one into view."""


def _page_rows(server: Server, sizes: str) -> Iterator[Row]:
    if CHROMIUM is None:
        yield left_out("pages in a browser", "there is no Chromium")
        return
    from playwright.sync_api import sync_playwright

    long = f"{server.url}/rollouts/{LONG}"
    messages = MESSAGES // 2 * 2 + 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for work, url, of, script in (
            ("page: runs", server.url, sizes, ROWS),
            ("page: rollout", long, f"{messages} messages", READABLE),
            ("page: rollout with tokens", f"{long}?tokens=1", f"{messages} messages", READABLE),
        ):
            visits = [_visit(browser, server, url, script, messages) for _ in range(VISITS)]
            yield _page_row(work, visits, of)
        browser.close()


def _visit(browser: Any, server: Server, url: str, script: str, messages: int) -> dict[str, float]:
    """Open a page; its times, and the processor time of its main thread and of the server."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    metrics = context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
    busy = server.cpu_ms()
    page.goto(url, wait_until="commit")
    times = page.evaluate(script, messages)
    served = server.cpu_ms() - busy
    told = metrics.send("Performance.getMetrics")["metrics"]
    spent = {entry["name"]: entry["value"] for entry in told}
    context.close()
    cpu_ms = 1000 * spent["TaskDuration"]
    return times | {"cpu_ms": cpu_ms, "server_cpu_ms": served, "nodes": spent["Nodes"]}


# ---------------------------------------------------------------- rows


def _page_row(work: str, visits: list[dict[str, float]], of: str) -> Row:
    visits = sorted(visits, key=lambda visit: visit["usable_ms"])
    middle, worst = visits[len(visits) // 2], visits[-1]["usable_ms"]
    figure = f"{middle['usable_ms']:.0f} ms, at most {worst:.0f}"
    goal, met = f"{PAGE_MS:.0f} ms", middle["usable_ms"] <= PAGE_MS
    return Row(work, "", f"{of}, {VISITS} visits", figure, goal, met, middle | {"worst_ms": worst})


def _answer_row(name: str, took: list[tuple[float, float]], sizes: str) -> Row:
    clock, cpu = (sorted(values) for values in zip(*took, strict=True))
    p50, p95 = len(clock) // 2, len(clock) * 95 // 100
    goal = SEARCH_MS if name.startswith("search") else ANSWER_MS
    figure = f"{clock[p50]:.1f} ms, {clock[p95]:.1f} at p95; processor {cpu[p95]:.1f}"
    values = {
        "p50_ms": clock[p50],
        "p95_ms": clock[p95],
        "cpu_p50_ms": cpu[p50],
        "cpu_p95_ms": cpu[p95],
    }
    work, sizes = f"HTTP: {name}", f"{sizes}, {ASKED} requests"
    return Row(work, "", sizes, figure, f"{goal:.0f} ms", clock[p95] <= goal, values)


def _memory_row(server: Server, sizes: str) -> Row:
    most, now = server.memory_mb("VmHWM"), server.memory_mb("VmRSS")
    values = {"most_mb": most, "now_mb": now}
    figure, goal = f"{most:.0f} MB at most, {now:.0f} after all", f"{MEMORY_MB} MB"
    sizes = f"{sizes}, {AT_ONCE} requests at once"
    return Row("memory of the explorer", "", sizes, figure, goal, most <= MEMORY_MB, values)


def main(arguments: Iterable[str]) -> None:
    """Print a table, with every figure behind each row."""
    options = dict(argument.split("=", 1) for argument in arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.get("cache", scratch))
        folder.mkdir(parents=True, exist_ok=True)
        measured: list[Row] = []
        for row in _rows(*index_in(folder, options)):
            measured.append(row)
            print(row.work, row.figure, {k: round(v, 1) for k, v in row.values.items()}, flush=True)
    show(measured)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # tst/support
    main(sys.argv[1:])
