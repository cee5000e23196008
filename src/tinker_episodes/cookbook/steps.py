"""Which step a rollout belongs to, as far as can be told while it plays.

Nothing tells an env its step. What is told here is what a training group's batch was, and the
training steps that this attempt has logged, counted from the checkpoint that it began at.
`summaries.py` takes over what the trainer itself says afterwards.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tinker_episodes.index import Attempt

_TRAINED_ROW = "progress/done_frac"
"""A key that the host logs once a training step, in every mode, and with no eval of its own."""


class BatchSteps:
    """The steps of a training dataset's batches, in the order in which the trainer asks for them.

    A batch is trained at the step of its index where the trainer asks for one after the other. A
    host that wraps the dataset - interleaved with others, or cycled for its own epochs - asks in
    other orders, or for batches that lie behind: from then on the step is the one that the trainer
    is at.
    """

    def __init__(self, start_step: int) -> None:
        self._next = start_step
        self._wrapped = False

    def step(self, index: int, at: int) -> int:
        """The step of the batch `index`, asked for while the trainer is at the step `at`."""
        self._wrapped = self._wrapped or index != self._next or index < at
        self._next += 1
        return at if self._wrapped else index


class Clock:
    """The training steps that an attempt has logged, read from the end of `metrics.jsonl`."""

    def __init__(self, attempt: Attempt, metrics_offset: int) -> None:
        """
        Args:
            metrics_offset: Bytes of `metrics.jsonl` that earlier attempts wrote.
        """
        self._file = Path(attempt.log_path) / "metrics.jsonl"
        self._start = attempt.start_step
        self._offset = metrics_offset
        self._steps: set[int] = set()
        self._lock = threading.Lock()

    def step(self) -> int:
        """The step that is about to be trained."""
        with self._lock:
            for row in self._new_rows():
                logged = row.get("step")
                if _TRAINED_ROW in row and isinstance(logged, int) and logged >= self._start:
                    self._steps.add(logged)
            return self._start + len(self._steps)

    def _new_rows(self) -> Iterator[dict[str, Any]]:
        if size_of(self._file) < self._offset:  # a resumed run drops rows of the attempt before
            self._offset = 0
        if not self._file.is_file():
            return
        with self._file.open("rb") as lines:
            lines.seek(self._offset)
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield row_of(line)


def row_of(line: bytes) -> dict[str, Any]:
    """The object of a JSON line; an empty one where it is none."""
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return cast(dict[str, Any], row) if isinstance(row, dict) else {}


def size_of(file: Path) -> int:
    """The bytes of a file; 0 where it is not there."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
