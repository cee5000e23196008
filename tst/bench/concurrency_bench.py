"""Many rollouts at once on one event loop: how fast they go, and how long the loop is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from peers import Talker, episode_groups, host_groups, play
from table import Row, medians_s
from tinker_cookbook.rl.types import EnvGroupBuilder

GROUPS, SIZE, TURNS, WORDS = 16, 16, 10, 90
REPEATS = 3
GOAL_BLOCK_MS = 20


class Pulse:
    """How long the event loop is busy: with one callback, and with all that were ready at once."""

    def __init__(self) -> None:
        self.callback_s = 0.0
        self.turn_s = 0.0
        self._last = time.perf_counter()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_soon(self._beat)

    def _beat(self) -> None:
        at = time.perf_counter()
        self.turn_s = max(self.turn_s, at - self._last)
        self._last = at
        self._timer = self._loop.call_later(0.001, self._beat)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Time every callback of the loop while the block runs."""
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            start = time.perf_counter()
            run(handle)
            self.callback_s = max(self.callback_s, time.perf_counter() - start)

        asyncio.Handle._run = timed
        try:
            yield
        finally:
            asyncio.Handle._run = run
            self._timer.cancel()


def rows() -> Iterator[Row]:
    """One row: wall time of a batch, beside the host's tool env, and the loop's longest block."""
    policy = Talker(turns=TURNS, words=WORDS)
    pulses: dict[str, list[Pulse]] = {"episodes": [], "host": []}

    async def ours() -> float:
        with tempfile.TemporaryDirectory() as folder:
            groups = await episode_groups(Path(folder), GROUPS, SIZE)
            return await played_s(groups, policy, pulses["episodes"])

    async def host() -> float:
        return await played_s(host_groups(GROUPS, SIZE, TURNS), policy, pulses["host"])

    works = {"episodes": lambda: asyncio.run(ours()), "host": lambda: asyncio.run(host())}
    took = medians_s(works, repeats=REPEATS)
    ratio = took["host"] / took["episodes"]
    blocks = {name: _median_ms(p.callback_s for p in each) for name, each in pulses.items()}
    turns = {name: _median_ms(p.turn_s for p in each) for name, each in pulses.items()}
    yield Row(
        "many rollouts at once",
        "the host's AgentToolMessageEnv, unrecorded",
        f"{GROUPS} groups x {SIZE} rollouts x {TURNS} turns of ~{2 * WORDS} tokens",
        f"{ratio:.1f} x its throughput; longest callback {blocks['episodes']:.0f} ms (host "
        f"{blocks['host']:.0f}), longest turn of the loop {turns['episodes']:.0f} ms (host "
        f"{turns['host']:.0f})",
        f">= 10 x; <= {GOAL_BLOCK_MS} ms",
        ratio >= 10 and blocks["episodes"] <= GOAL_BLOCK_MS,
        {
            **{f"{name}_s": value for name, value in took.items()},
            **{f"{name}_callback_ms": value for name, value in blocks.items()},
            **{f"{name}_turn_ms": value for name, value in turns.items()},
        },
    )


def _median_ms(seconds: Iterable[float]) -> float:
    return statistics.median(seconds) * 1e3


async def played_s(groups: Sequence[EnvGroupBuilder], policy: Talker, pulses: list[Pulse]) -> float:
    """Seconds to play groups."""
    pulse = Pulse()
    pulses.append(pulse)
    with pulse.watching():
        start = time.perf_counter()
        await play(groups, policy)
        return time.perf_counter() - start
