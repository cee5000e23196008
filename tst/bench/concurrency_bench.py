"""Many rollouts at once on one event loop: how fast they go, and how long the loop is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from peers import Talker, episode_groups, filed_in, host_groups, play
from table import Row, Work, medians_s
from tinker_cookbook.rl.types import EnvGroupBuilder

GROUPS, SIZE, TURNS, WORDS = 16, 16, 10, 90
REPEATS = 3
GOAL_BLOCK_MS = 20


class Pulse:
    """How long the event loop is busy: with one callback, and with all that were ready at once."""

    def __init__(self) -> None:
        self.callback_s = 0.0
        self.turn_s = 0.0
        self._last = self._began = time.perf_counter()
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
            self._began = time.perf_counter()
            run(handle)
            if asyncio.Handle._run is timed:  # else the block has ended in it, and counted its part
                self._note_callback()

        asyncio.Handle._run = timed
        try:
            yield
        finally:
            asyncio.Handle._run = run
            self._note_callback()
            self._timer.cancel()

    def _note_callback(self) -> None:
        self.callback_s = max(self.callback_s, time.perf_counter() - self._began)


def rows() -> Iterator[Row]:
    """Two rows: wall time of a batch, beside the host's tool env, and the loop's longest block.

    The tools of one give the rollouts of a group the same results for the same calls, as a look-up
    does; those of the other give each rollout its own.
    """
    policy = Talker(turns=TURNS, words=WORDS)
    bundles = {"group": "peers:GROUP_BUNDLE", "own": "peers:BUNDLE"}
    pulses: dict[str, list[Pulse]] = {kind: [] for kind in (*bundles, "host")}

    async def ours(kind: str) -> float:
        with tempfile.TemporaryDirectory() as folder, filed_in(Path(folder)):
            groups = await episode_groups(Path(folder), GROUPS, SIZE, bundle=bundles[kind])
            return await played_s(groups, policy, pulses[kind])

    async def host() -> float:
        return await played_s(host_groups(GROUPS, SIZE, TURNS), policy, pulses["host"])

    works: dict[str, Work] = {kind: lambda kind=kind: asyncio.run(ours(kind)) for kind in bundles}
    took = medians_s({**works, "host": lambda: asyncio.run(host())}, repeats=REPEATS)
    names = {"group": "many rollouts at once", "own": "the same, no two tool results alike"}
    for kind, name in names.items():
        yield _row(kind, name, took, pulses)


def _row(kind: str, name: str, took: Mapping[str, float], pulses: Mapping[str, list[Pulse]]) -> Row:
    ratio = took["host"] / took[kind]
    both = {"episodes": pulses[kind], "host": pulses["host"]}
    blocks = {side: _median_ms(p.callback_s for p in each) for side, each in both.items()}
    turns = {side: _median_ms(p.turn_s for p in each) for side, each in both.items()}
    return Row(
        name,
        "the host's AgentToolMessageEnv, unrecorded",
        f"{GROUPS} groups x {SIZE} rollouts x {TURNS} turns of ~{2 * WORDS} tokens",
        f"{ratio:.1f} x its throughput; longest callback {blocks['episodes']:.0f} ms (host "
        f"{blocks['host']:.0f}), longest turn of the loop {turns['episodes']:.0f} ms (host "
        f"{turns['host']:.0f})",
        f">= 10 x; <= {GOAL_BLOCK_MS} ms",
        ratio >= 10 and blocks["episodes"] <= GOAL_BLOCK_MS,
        {
            "episodes_s": took[kind],
            "host_s": took["host"],
            **{f"{side}_callback_ms": value for side, value in blocks.items()},
            **{f"{side}_turn_ms": value for side, value in turns.items()},
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
