"""What open episodes hold: a thousand of them on a real database, beside one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import retail_data
from table import Row, left_out

from tinker_episodes import Bundle, Call, Episode, Message, find_bundle

OPEN = 1_000
GOAL_MB = 200


def rows() -> Iterator[Row]:
    """One row: the growth of a fresh process's resident memory."""
    if not retail_data.is_here():
        yield left_out("hold open episodes", retail_data.MISSING)
        return
    # A fresh process: one that made the bundle would fill the room that this left behind.
    command = [sys.executable, __file__, str(retail_data.folder())]
    more = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield Row(
        f"hold {OPEN:,} open episodes on retail",
        "one",
        "2.8 MB of data; each has taken a user and an order",
        f"{more:.0f} MB more, {more / OPEN * 1e3:.0f} kB each",
        f"<= {GOAL_MB} MB",
        more <= GOAL_MB,
        {"more_mb": more},
    )


def resident_mb() -> float:
    """The process's resident memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096 / 1e6


async def held_mb(bundle: Bundle) -> float:
    """MB that `OPEN` episodes add to one."""
    play = next(each for each in retail_data.gold() if len(each["calls"]) >= 3)
    calls = tuple(Call(c["name"], c["arguments"]) for c in play["calls"][:3])

    async def opened() -> Episode:
        episode = Episode(bundle.environment, bundle.tasks[play["task"]], data=bundle.universe)
        await episode.open()
        episode.record(Message("assistant", "", calls))
        await episode.run_calls()
        return episode

    held = [await opened()]
    before = resident_mb()
    held += [await opened() for _ in range(OPEN)]
    return resident_mb() - before


if __name__ == "__main__":
    print(asyncio.run(held_mb(find_bundle(sys.argv[1]))))
