"""Everything around a trivial episode: from the builder to a filed record."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from peers import Talker, episode_groups, filed_in, host_groups, play
from table import Row, medians_s

GROUPS, SIZE = 32, 16
REPEATS = 5


def rows() -> Iterator[Row]:
    """One row: CPU seconds an episode, beside the host's tool env."""
    policy = Talker(turns=1, words=1)
    works = {
        "episodes": lambda: asyncio.run(recorded_s(policy)),
        "host": lambda: asyncio.run(host_s(policy)),
    }
    took = medians_s(works, repeats=REPEATS)
    ratio, rate = took["episodes"] / took["host"], 1 / took["episodes"]
    yield Row(
        "a one-turn episode, builder to filed record",
        "the host's AgentToolMessageEnv, unrecorded",
        f"{GROUPS} groups x {SIZE} rollouts at once; CPU time of all threads",
        f"{ratio:.2f} x its time; {rate:,.0f} episodes/s on one core",
        "<= 2 x; >= 1,000 episodes/s",
        ratio <= 2 and rate >= 1_000,
        {f"{name}_us": value * 1e6 for name, value in took.items()},
    )


async def recorded_s(policy: Talker) -> float:
    """CPU seconds an episode of ours, its record committed."""
    with tempfile.TemporaryDirectory() as folder, filed_in(Path(folder)):
        groups = await episode_groups(Path(folder), GROUPS, SIZE)
        start = time.process_time()
        count = await play(groups, policy)
        return (time.process_time() - start) / count


async def host_s(policy: Talker) -> float:
    """CPU seconds an episode of the host's."""
    groups = host_groups(GROUPS, SIZE, max_turns=1)
    start = time.process_time()
    count = await play(groups, policy)
    return (time.process_time() - start) / count
