"""Which step a rollout belongs to: first as far as we can tell, then as the trainer itself says.

Nothing tells an env its step. A training group is filed under the batch index that the trainer
asked for, an eval under the training steps that this attempt has logged, counted from the
checkpoint that it began at. `summaries.py` takes over what the trainer says.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tinker_cookbook.checkpoint_utils import get_last_checkpoint

from tinker_episodes.index import Attempt

_TRAINED_ROW = "progress/done_frac"
"""A key that the host logs once a training step, in every mode, and with no eval of its own."""


@dataclass(frozen=True, slots=True)
class RunRef:
    """One attempt of a run, as all of its processes know it."""

    attempt: Attempt
    index: str
    """The database URL of the run index."""
    metrics_offset: int
    """Bytes of `metrics.jsonl` that earlier attempts wrote."""

    @classmethod
    def begin(cls, log_path: str, index: str) -> RunRef:
        """The attempt that starts now, at the checkpoint that the trainer resumes from, if any.

        Builders of one start, as an interleaved dataset has them, are of one attempt: until its
        first episode is played.
        """
        path = str(Path(log_path).expanduser().absolute())
        checkpoint = get_last_checkpoint(path)
        start_step = 0 if checkpoint is None else int(checkpoint.batch or 0)
        offset = size_of(Path(path) / "metrics.jsonl")
        with _beginning:
            waiting = _waiting.get(path)
            if waiting is None or (waiting.attempt.start_step, waiting.metrics_offset) != (
                start_step,
                offset,
            ):
                attempt = Attempt(path, uuid.uuid4().hex, start_step)
                waiting = _waiting[path] = cls(attempt, index, offset)
        return replace(waiting, index=index)

    def played(self) -> None:
        """An episode of this attempt is played: the next builder that is called is of another."""
        with _beginning:
            waiting = _waiting.get(self.attempt.log_path)
            if waiting is not None and waiting.attempt.token == self.attempt.token:
                del _waiting[self.attempt.log_path]


_beginning = threading.Lock()
_waiting: dict[str, RunRef] = {}
"""The attempts of this process that no episode was played of, by log path."""


class Clock:
    """The training steps that an attempt has logged, read from the end of `metrics.jsonl`."""

    def __init__(self, run: RunRef) -> None:
        self._file = Path(run.attempt.log_path) / "metrics.jsonl"
        self._start = run.attempt.start_step
        self._offset = run.metrics_offset
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
