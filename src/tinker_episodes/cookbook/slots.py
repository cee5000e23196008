"""How many episodes are open at once in this process: one first-in-first-out line a run.

Train and eval stand in the same line, and so do all event loops and threads: executors run several
loops.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class _Waiter:
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    granted: bool = False


class Slots:
    """A counted line. A slot that is given back goes straight to the one who waits longest."""

    def __init__(self, count: int | None) -> None:
        """
        Args:
            count: How many there are; None: no bound.
        """
        if count is not None and count < 1:
            raise ValueError(f"there must be at least 1 slot, got {count}")
        self._lock = threading.Lock()
        self._count = count
        self._free = count
        self._hold_s = 0.0
        self._waiting: deque[_Waiter] = deque()
        self.taken = 0

    async def take(self, hold_s: float = math.inf) -> Slot:
        """Wait for a slot.

        A cancelled wait leaves the line, and passes on a slot that it got meanwhile.

        Args:
            hold_s: Seconds that it is kept at most.
        """
        with self._lock:
            self._hold_s = max(self._hold_s, hold_s)
            if self._free is None or self._free > 0:
                self._free = None if self._free is None else self._free - 1
                self.taken += 1
                return Slot(self)
            loop = asyncio.get_running_loop()
            waiter = _Waiter(loop, loop.create_future())
            self._waiting.append(waiter)
        try:
            await waiter.future
        except BaseException:
            self._leave(waiter)
            raise
        return Slot(self)

    def longest_wait_s(self) -> float:
        """Seconds after which one who comes now has a slot, whatever those do who came before: in
        the longest time that one is kept, each slot changes hands at least once.
        """
        with self._lock:
            if self._count is None or self._free:
                return 0.0
            return (len(self._waiting) // self._count + 1) * self._hold_s

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            if not waiter.granted:
                self._waiting.remove(waiter)
                return
        self._give_back()

    def _give_back(self) -> None:
        with self._lock:
            while self._waiting:
                waiter = self._waiting.popleft()
                waiter.granted = True
                try:
                    waiter.loop.call_soon_threadsafe(_wake, waiter.future)
                except RuntimeError:  # its loop is closed: nobody waits there any more
                    continue
                return
            self.taken -= 1
            if self._free is not None:
                self._free += 1


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Slot:
    """One open episode's place. Giving it back twice gives it back once."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = True
        self._lock = threading.Lock()

    def release(self) -> None:
        """Give it back."""
        with self._lock:
            held, self._held = self._held, False
        if held:
            self._slots._give_back()  # pyright: ignore[reportPrivateUsage] - one idea in two classes


_lines: dict[str, Slots] = {}
_lines_lock = threading.Lock()


def slots_of(run: str, count: int | None) -> Slots:
    """This process's line of a run."""
    with _lines_lock:
        key = f"{run}\0{count}"
        if key not in _lines:
            _lines[key] = Slots(count)
        return _lines[key]
