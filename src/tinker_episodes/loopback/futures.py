"""Promised results: a request gets an id at once and fetches the result when it is there.

Nothing stays forever: a result goes some time after it was fetched (a client that lost the answer
asks again), sooner if there are many, unfetched ones after longer, and all with their session.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from tinker_episodes.loopback.errors import ApiError

FETCHED_TTL_S = 60.0
UNFETCHED_TTL_S = 3_600.0
MAX_FETCHED_BYTES = 64 * 2**20
"""Fetched results that are kept for a client that lost the answer."""
MAX_OPEN = 20_000
"""Promises of one server that wait for their result."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of a result."""

    body: bytes
    media_type: str = "application/json"
    failed: bool = False


@dataclass(slots=True)
class Future:
    """One promised result."""

    id: str
    session_id: str
    target: str | None
    made_at: float
    cancel: Callable[[], None] | None = None
    reply: Reply | None = None
    cursor: int = 0
    """Its place among the results of all requests, once there is one."""
    fetched_at: float | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class Futures:
    """All promises of a server. Lives on the event loop; `resolve` may come from any thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._futures: dict[str, Future] = {}
        self._fetched: dict[str, int] = {}
        self._fetched_bytes = 0
        self._polls: dict[str, asyncio.Event] = {}
        self._cursors = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._futures)

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop that results are delivered on."""
        self._loop = loop

    def open(self, request_id: str, session_id: str, *, target: str | None = None) -> Future:
        """Promise a result."""
        if len(self._futures) >= MAX_OPEN:
            raise ApiError(f"{MAX_OPEN} results are not fetched yet; fetch some first", status=429)
        future = Future(request_id, session_id, target, self._now())
        self._futures[request_id] = future
        return future

    def find(self, request_id: str) -> Future | None:
        """A promise by its id, if it is still known."""
        return self._futures.get(request_id)

    def resolve(self, future: Future, reply: Reply) -> None:
        """Keep a promise, from any thread."""
        assert self._loop is not None, "the server has started"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resolve, future, reply)

    async def fetch(self, request_id: str, *, patience_s: float) -> Reply | None:
        """The result, or None while there is none."""
        future = self._futures.get(request_id)
        if future is None:
            raise ApiError(
                f"request {request_id!r} is not known: its result was fetched or has expired",
                status=410,
            )
        if not await _wait(future.ready, patience_s):
            return None
        if future.reply is None:
            raise ApiError(f"the session of request {request_id!r} is over", status=410)
        self._note_fetched(future, future.reply)
        return future.reply

    async def ended(self, target: str, cursor: int, *, patience_s: float) -> list[Future]:
        """The promises of one sampling client that were kept after `cursor`, in that order."""
        event = self._polls.setdefault(target, asyncio.Event())
        try:
            if not (ended := self._ended(target, cursor)):
                await _wait(event, patience_s)
                ended = self._ended(target, cursor)
        finally:
            self._polls.pop(target, None)
        return ended

    def forget(self, request_ids: list[str], *, target: str) -> None:
        """Free results that their client says it has, if they are that target's."""
        for request_id in request_ids:
            future = self._futures.get(request_id)
            if future is not None and future.target == target:
                self.drop(request_id)

    def cancel(self, request_id: str) -> None:
        """Give up a sample that its client no longer wants; nothing else can be given up."""
        future = self._futures.get(request_id)
        if future is not None and future.cancel is not None:
            future.cancel()
            self.drop(request_id)

    def drop(self, request_id: str) -> None:
        """Forget a promise."""
        self._fetched_bytes -= self._fetched.pop(request_id, 0)
        self._futures.pop(request_id, None)

    def end_session(self, session_id: str) -> None:
        """Free all that a session was promised."""
        gone = [future for future in self._futures.values() if future.session_id == session_id]
        for future in gone:
            self.cancel(future.id)
            self.drop(future.id)
            future.ready.set()

    def sweep(self) -> None:
        """Free results that were fetched a while ago, or never."""
        now = self._now()
        for future in list(self._futures.values()):
            fetched = future.fetched_at is not None and now - future.fetched_at > FETCHED_TTL_S
            if fetched or (future.reply is not None and now - future.made_at > UNFETCHED_TTL_S):
                self.drop(future.id)

    def _resolve(self, future: Future, reply: Reply) -> None:
        if future.reply is not None or future.id not in self._futures:
            return
        future.reply = reply
        future.cursor = next(self._cursors)
        future.ready.set()
        if future.target is not None and future.target in self._polls:
            self._polls[future.target].set()

    def _note_fetched(self, future: Future, reply: Reply) -> None:
        future.fetched_at = self._now()
        if future.id not in self._fetched:
            self._fetched[future.id] = len(reply.body)
            self._fetched_bytes += len(reply.body)
        while len(self._fetched) > 1 and self._fetched_bytes > MAX_FETCHED_BYTES:
            self.drop(next(iter(self._fetched)))

    def _ended(self, target: str, cursor: int) -> list[Future]:
        kept = [future for future in self._futures.values() if future.target == target]
        return sorted((f for f in kept if f.cursor > cursor), key=lambda future: future.cursor)


async def _wait(event: asyncio.Event, patience_s: float) -> bool:
    if not event.is_set():
        try:
            await asyncio.wait_for(event.wait(), patience_s)
        except TimeoutError:
            return False
    return True
