"""Episodes on a real database of 2.8 MB: opening them, and playing the benchmark's gold actions."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import statistics
import time
from collections.abc import Iterator
from typing import Any

import retail_data
from table import Row, left_out, medians_s

from tinker_episodes import Bundle, Call, Episode, Message
from tinker_episodes.environment import read_environment
from tinker_episodes.universe import UniverseData

OPENED = 16
ROUNDS = 20
TIMES = 10
REPEATS = 7


def rows() -> Iterator[Row]:
    """Opening, and playing."""
    if not retail_data.is_here():
        yield left_out("open an episode; play gold actions", retail_data.MISSING)
        return
    bundle, plain = retail_data.bundle(), retail_data.database()
    yield opening(bundle, plain)
    yield gold_plays(bundle, plain)


# ---------------------------------------------------------------- opening


def opening(bundle: Bundle, plain: dict[str, Any]) -> Row:
    """Sixteen episodes opened, beside what a fresh copy of the data costs."""
    large = retail_data.enlarged(plain, TIMES)
    data, large_data = UniverseData(plain), UniverseData(large)
    stored = pickle.dumps(plain)
    works = {
        "open": lambda: asyncio.run(opened_s(bundle, data)),
        "open_large": lambda: asyncio.run(opened_s(bundle, large_data)),
        "deepcopy": lambda: copy.deepcopy(plain),
        "pickle": lambda: pickle.loads(stored),
    }
    took = medians_s(works, repeats=REPEATS)
    copying, loading = took["deepcopy"] / took["open"], took["pickle"] / took["open"]
    growth = took["open_large"] / took["open"]
    return Row(
        "open an episode",
        "deep copy; pickle",
        f"2.8 MB of data, {OPENED} episodes; again with {TIMES} x the data",
        f"{copying:,.0f} x faster than a deep copy, {loading:,.0f} x than pickle; "
        f"{growth:.2f} x the time at {TIMES} x the data",
        ">= 500 x; whatever the size",
        copying >= 500 and growth < 1.5,
        {f"{name}_us": value * 1e6 for name, value in took.items()},
    )


async def opened_s(bundle: Bundle, data: UniverseData) -> float:
    """Seconds an episode to open some: the median of rounds, as one takes under a millisecond."""
    return statistics.median([await _opened_s(bundle, data) for _ in range(ROUNDS)])


async def _opened_s(bundle: Bundle, data: UniverseData) -> float:
    task = next(iter(bundle.tasks.values()))
    episodes = [Episode(bundle.environment, task, data=data) for _ in range(OPENED)]
    start = time.perf_counter()
    for episode in episodes:
        await episode.open()
    took = (time.perf_counter() - start) / OPENED
    for episode in episodes:
        await episode.abandon("the bench is done")
    return took


# ---------------------------------------------------------------- gold plays


class PlainTable(dict[str, Any]):
    """A table of a copied database, as the environment reads tables."""

    peek = dict.__getitem__


def gold_plays(bundle: Bundle, plain: dict[str, Any]) -> Row:
    """Every gold call through episodes, beside the same methods called on a copied database."""
    plays = retail_data.gold()
    calls = sum(len(play["calls"]) for play in plays)
    works = {
        "episodes": lambda: asyncio.run(played_s(bundle, plays)),
        "bare": lambda: bare_s(bundle, plays, plain),
        "copies": lambda: [copy.deepcopy(plain) for _ in plays] and None,
    }
    took = medians_s(works, repeats=3)
    ratio = took["episodes"] / took["bare"]
    whole = took["episodes"] / (took["bare"] + took["copies"])
    return Row(
        "play retail's gold actions",
        "the same tools on a copied database, no episode around them",
        f"{len(plays)} tasks, {calls} calls",
        f"{ratio:.2f} x the bare calls, {whole:.3f} x with the copies that they need",
        "<= 1.5 x the bare calls",
        ratio <= 1.5,
        {f"{name}_ms": value * 1e3 for name, value in took.items()},
    )


async def played_s(bundle: Bundle, plays: list[dict[str, Any]]) -> float:
    """Seconds to open, play and close an episode of every task; scoring is left out."""
    took = 0.0
    for play in plays:
        replies = [
            Message("assistant", "", (Call(c["name"], c["arguments"]),)) for c in play["calls"]
        ]
        start = time.perf_counter()
        episode = Episode(bundle.environment, bundle.tasks[play["task"]], data=bundle.universe)
        await episode.open()
        results = []
        for reply in replies:
            episode.record(reply)
            results += await episode.run_calls()
        took += time.perf_counter() - start
        outcome = await episode.close()
        assert [r.content for r in results] == [c["output"] for c in play["calls"]], play["task"]
        assert outcome.reward == 1.0, play["task"]
    return took


def bare_s(bundle: Bundle, plays: list[dict[str, Any]], plain: dict[str, Any]) -> float:
    """Seconds to call the methods and write their outputs as text, on a copy of the data each."""
    seen = read_environment(bundle.environment).tool_errors
    took = 0.0
    stored = pickle.dumps(plain)
    for play in plays:
        copied = {name: PlainTable(table) for name, table in pickle.loads(stored).items()}
        task = bundle.tasks[play["task"]]
        start = time.perf_counter()
        environment: Any = bundle.environment(task, copied)  # type: ignore[arg-type]  # plain tables serve
        for call in play["calls"]:
            try:
                output = getattr(environment, call["name"])(**call["arguments"])
            except seen as error:
                output = f"Error: {error}"
            if not isinstance(output, str):
                json.dumps(output, ensure_ascii=False)
        took += time.perf_counter() - start
        del environment  # or the next round's clock would pay for freeing this copy
    return took
