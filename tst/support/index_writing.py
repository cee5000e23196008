"""One of several processes that file into one index at once: a script of its own, run by path."""

import asyncio
from typing import Any

from tinker_episodes.index import (
    Attempt,
    BundleRecord,
    Group,
    IndexWriter,
    Rollout,
    ScoreRecord,
    Split,
    Status,
)

name: str
url: str
groups: int
size: int
ready: Any


async def play() -> None:
    writer = IndexWriter(url)
    attempt, bundle = Attempt("/runs/first", "token-1", 0), BundleRecord("b", "1", "h")
    scores, said = (ScoreRecord("found", 1.0, "", {}),), {"entries": ["said"] * 20}

    async def file(at: int) -> None:
        group = Group(attempt, f"{name}-{at}", Split.TRAIN, at % 10, bundle, "t", ())
        keys = [f"{name}-{at}-{place}" for place in range(size)]
        rollouts = [
            Rollout(key, place, Status.FINISHED, 1.0, scores=scores, transcript=said)
            for place, key in enumerate(keys)
        ]
        await writer.file(group, rollouts)

    for at in range(0, groups, 10):
        await asyncio.gather(*(file(at + n) for n in range(10)))
    writer.close()


ready.wait()
asyncio.run(play())
