"""The curves of runs as JSON, made anew only where a step of the run changed since."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tinker_episodes.explorer.asking import json_of, shallow
from tinker_episodes.index.reading import IndexReader

_RUNS = 8
"""Runs whose curves are kept: a run of 1,500 run groups takes 0.3 MB."""


@dataclass(frozen=True, slots=True)
class _Made:
    revision: int
    body: bytes | None


class Curves:
    """What was made last for each of some runs."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._lock = threading.Lock()

    def of(self, index: IndexReader, run: str) -> bytes | None:
        """The curves of a run; None where the index has no step of it."""
        revision = index.revision(run)  # before the rows: what lands in between is made again
        with self._lock:
            made = self._made.pop(run, None)
        if made is None or made.revision != revision:
            columns = index.curves(run)
            body = json_of(shallow(columns)) if columns.numbers["step"] else None
            made = _Made(revision, body)
        with self._lock:
            self._made[run] = made
            while len(self._made) > _RUNS:
                self._made.pop(next(iter(self._made)))
        return made.body
