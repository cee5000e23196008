"""One of several processes that file into one index at once."""

from __future__ import annotations

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


def file_many(url: str, ready: Any, name: str, groups: int, size: int) -> None:
    """File groups of a run that is the same for all processes, once all are ready."""
    ready.wait()
    asyncio.run(_file_many(url, name, groups, size))


async def _file_many(url: str, name: str, groups: int, size: int) -> None:
    writer = IndexWriter(url)
    attempt, bundle = Attempt("/runs/first", "token-1", 0), BundleRecord("b", "1", "h")
    scores, said = (ScoreRecord("found", 1.0, "", {}),), {"entries": []}

    async def file(at: int) -> None:
        group = Group(attempt, f"{name}-{at}", Split.TRAIN, at % 10, bundle, "t", ())
        rollouts = [
            Rollout(
                f"{name}-{at}-{place}", place, Status.FINISHED, 1.0, scores=scores, transcript=said
            )
            for place in range(size)
        ]
        await writer.file(group, rollouts)

    for at in range(0, groups, 10):
        await asyncio.gather(*(file(at + n) for n in range(10)))
    writer.close()
