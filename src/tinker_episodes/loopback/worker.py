"""The one thread that owns torch: it runs training operations in order, and samples in between."""

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from tinker_episodes.loopback.engine import Engine
from tinker_episodes.loopback.sampling import SampleJob

_STEPS_BETWEEN_OPERATIONS = 8
"""Tokens that every sample grows by between two training operations."""

Operation = Callable[[], None]


class Worker:
    """Runs what it is given on a thread of its own; results leave through callbacks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inbox: SimpleQueue[Operation | SampleJob | None] = SimpleQueue()
        self._operations: deque[Operation] = deque()
        self._thread = threading.Thread(target=self._run, name="loopback-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after what it is doing; what waits is dropped."""
        self._inbox.put(None)
        self._thread.join()

    def run(self, operation: Operation) -> None:
        """Run a training operation after those before it. It must not raise."""
        self._inbox.put(operation)

    def sample(self, job: SampleJob) -> None:
        """Sample as soon as there is room."""
        self._inbox.put(job)

    def _run(self) -> None:
        while self._take(wait=not (self._operations or self._engine.busy)):
            if self._operations:
                self._operations.popleft()()
            for _ in range(_STEPS_BETWEEN_OPERATIONS if self._operations else 1):
                if self._engine.busy:
                    self._engine.step()

    def _take(self, *, wait: bool) -> bool:
        """Sort what has arrived; false when the worker is to stop."""
        try:
            while True:
                item = self._inbox.get(block=wait)
                wait = False
                if item is None:
                    return False
                elif isinstance(item, SampleJob):
                    self._engine.add(item)
                else:
                    self._operations.append(item)
        except Empty:
            return True
