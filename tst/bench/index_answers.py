"""The explorer's answers over an index: what a browser gets, from the database to the JSON."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from index_maker import SIZE, TASKS, Made
from starlette.requests import Request
from starlette.responses import Response

from tinker_episodes.explorer.api import Api
from tinker_episodes.explorer.config import Explore
from tinker_episodes.explorer.sources import sources_of
from tinker_episodes.index import Split

ASKED = 100
"""Requests of each kind."""
GOAL_MS = 50.0


def bench_answers(path: str, made: Made) -> list[dict[str, Any]]:
    """Each answer's time at the 50th and 95th percentile, the server's memory laid out as when it
    serves.
    """
    sources, chance = sources_of(Explore(path=path)), random.Random(3)
    gc.collect()
    gc.freeze()
    try:
        return [_row(name, ask) for name, ask in _asks(Api(sources), sources.index, made, chance)]
    finally:
        sources.close()


def _asks(
    api: Api, index: Any, made: Made, chance: random.Random
) -> list[tuple[str, Callable[[], Response]]]:
    def step() -> int:
        return chance.randrange(made.steps)

    def group() -> str:
        return chance.choice(groups)

    def rollout() -> str:
        return f"{group()}{chance.randrange(SIZE):02x}"

    def task() -> dict[str, str]:
        return {"bundle": "shop", "task": f"shop-{chance.randrange(TASKS):04d}"}

    pages = [index.groups(made.run, Split.TRAIN, step(), limit=1) for _ in range(20)]
    groups = [page.groups[0].where.group for page in pages]

    def cold() -> Response:
        api._curves._made.clear()
        return api.steps(_request(run=made.run))

    return [
        ("runs", lambda: api.runs(_request())),
        ("curves, as first read", cold),
        ("curves, as kept", lambda: api.steps(_request(run=made.run))),
        ("step", lambda: api.groups(_request(run=made.run, split="train", step=step()))),
        ("group", lambda: api.group(_request(key=group()))),
        ("rollout", lambda: api.rollout(_request(key=rollout()))),
        ("tokens", lambda: api.tokens(_request(key=rollout()))),
        ("task in a run", lambda: api.task(_request(run=made.run, **task()))),
        ("task in all runs", lambda: api.task(_request(**task()))),
    ]


def _request(**query: Any) -> Request:
    scope = {"type": "http", "headers": [], "query_string": urlencode(query).encode()}
    return Request(scope)


def _row(name: str, ask: Callable[[], Response]) -> dict[str, Any]:
    size = len(ask().body)
    took: list[float] = []
    for _ in range(ASKED):
        start = time.perf_counter()
        ask()
        took.append(1000 * (time.perf_counter() - start))
    took.sort()
    p50, p95 = took[ASKED // 2], took[ASKED * 95 // 100]
    kilobytes = size / 1000
    return {"work": f"answer: {name}", "p50_ms": p50, "p95_ms": p95, "kilobytes": kilobytes}
