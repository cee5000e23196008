"""An event loop whose clock moves only when nothing else can: timeouts of hours pass at once, and a
deadlock is an error at once.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from tinker_episodes.index import writing

T = TypeVar("T")


class Deadlock(AssertionError):
    """Nothing can go on, and not all is done."""


class _Selector(selectors.DefaultSelector):
    """Asked to wait, it asks the loop what comes next instead."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.files():
            flush_writers()
            ready = super().select(0)
        while not ready and _threads_work():
            ready = super().select(0.01)
        if not ready:
            self.loop.idle(timeout)
        return ready


class Clock:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer when nothing else can go on."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.clock.now_s

    def files(self) -> bool:
        """Whether something may wait for a commit, which ends in another thread."""
        return True

    def idle(self, timeout: float | None) -> None:
        """Nothing can go on until the next timer, in `timeout` seconds; None: there is none."""
        if timeout is None:
            waiting = "\n".join(repr(task) for task in asyncio.all_tasks(self))
            raise Deadlock(f"nothing can go on any more, and these wait:\n{waiting}")
        self.clock.now_s += timeout


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a loop of its own with a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


HANGING: set[threading.Thread] = set()
"""Threads of blocking tools that wait for what the test does next: the clock does not wait for
them.
"""


def hang(until: threading.Event) -> None:
    """What a blocking tool does that hangs."""
    HANGING.add(threading.current_thread())
    try:
        until.wait(60)
    finally:
        HANGING.discard(threading.current_thread())


def _threads_work() -> bool:
    """Whether a thread of ours may still tell an event loop something."""
    return any(t.name == "tinker-episodes-tool" and t not in HANGING for t in threading.enumerate())


def flush_writers() -> None:
    """Wait until every index writer of this process has committed what was given to it."""
    for writer in list(writing._writers.values()):
        if writer._thread is not None:
            writer.close()  # it starts again when it is needed
