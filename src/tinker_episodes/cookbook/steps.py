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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tinker_cookbook.checkpoint_utils import get_last_checkpoint

from tinker_episodes.bundle import Bundle
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
    def begin(cls, log_path: str, index: str, bundle: Bundle) -> RunRef:
        """The attempt that starts now, at the checkpoint that the trainer resumes from, if any."""
        path = str(Path(log_path).expanduser().absolute())
        checkpoint = get_last_checkpoint(path)
        attempt = Attempt(
            log_path=path,
            token=uuid.uuid4().hex,
            start_step=0 if checkpoint is None else int(checkpoint.batch or 0),
            bundle=bundle.name,
            bundle_version=bundle.version,
            bundle_hash=bundle.content_hash,
        )
        return cls(attempt, index, size_of(Path(path) / "metrics.jsonl"))


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
