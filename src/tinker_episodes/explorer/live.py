"""Live updates: one watcher looks for changes once a second while any page listens, and tells
all of them by server-sent events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tinker_episodes.errors import EpisodesError
from tinker_episodes.explorer.sources import Sources

logger = logging.getLogger(__name__)

EVERY_S = 1.0
"""Seconds between two looks."""
_BEAT = 15
"""Looks without a change after which something is sent all the same, so that lost ones are seen."""


class Watcher:
    """Tells listeners that something changed."""

    def __init__(self, sources: Sources, every_s: float = EVERY_S) -> None:
        self._sources = sources
        self._every_s = every_s
        self._listeners: set[asyncio.Queue[str]] = set()
        self._task: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()

    async def live(self, request: Request) -> StreamingResponse:
        """The endpoint: a stream of events that ends with the server."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    def stop(self) -> None:
        """End all streams."""
        self._stopped.set()
        for queue in self._listeners:
            queue.put_nowait("")
        if self._task is not None:
            self._task.cancel()

    async def _events(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=64)
        self._listeners.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield ": listening\n\n"
            while not self._stopped.is_set():
                event = await queue.get()
                if event:
                    yield event
        finally:
            self._listeners.discard(queue)

    async def _watch(self) -> None:
        seen, quiet = await run_in_threadpool(self._mark), 0
        while self._listeners:
            await asyncio.sleep(self._every_s)
            mark = await run_in_threadpool(self._mark)
            quiet += 1
            if mark != seen:
                self._tell("event: change\ndata: {}\n\n")
            elif quiet >= _BEAT:
                self._tell(": beat\n\n")
            else:
                continue
            seen, quiet = mark, 0

    def _tell(self, event: str) -> None:
        for queue in self._listeners:
            if not queue.full():  # a page that does not read has one waiting anyway
                queue.put_nowait(event)

    def _mark(self) -> Hashable:
        """What changes whenever a page may look different; runs in a thread."""
        try:
            index, hosts = self._sources.index, self._sources.hosts
            cursor = None if index is None else (index, index.changes().cursor)
            alone = () if hosts is None else tuple((run.name, run.mark()) for run in hosts.runs())
        except EpisodesError as error:
            logger.warning("changes can't be looked for: %s", error)
            return str(error)
        return cursor, alone
