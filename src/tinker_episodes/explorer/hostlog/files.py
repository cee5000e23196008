"""Files that a trainer is writing: read on from where they ended, a half-written last line left for
later.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any, cast

_CHECKED = 64
"""Bytes before the place, by which a rewritten file is told from a grown one."""

Row = dict[str, Any]


class Lines:
    """The JSON objects of a file of lines that grows. A file that was rewritten is read anew."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._at = 0
        self._before = b""
        self._rows: list[Row] = []

    def rows(self) -> list[Row]:
        """All whole lines so far that are JSON objects."""
        with self._lock:
            self._read_on()
            return list(self._rows)

    def _read_on(self) -> None:
        try:
            with self._file.open("rb") as opened:
                start = max(0, self._at - len(self._before))
                opened.seek(start)
                content = opened.read()
        except OSError:
            self._forget()
            return
        if not content.startswith(self._before):
            self._forget()
            content = self._file.read_bytes()
        fresh = content[len(self._before) :]
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._rows.extend(row for line in whole.splitlines() if (row := row_of(line)) is not None)
        self._at += len(whole)
        self._before = (self._before + whole)[-_CHECKED:]

    def _forget(self) -> None:
        self._at, self._before, self._rows = 0, b"", []


def rows_of(file: Path) -> list[Row]:
    """The JSON objects of a file of lines; none where it is not there."""
    try:
        content = file.read_bytes()
    except OSError:
        return []
    return [row for line in content.splitlines() if (row := row_of(line)) is not None]


def row_of(line: bytes) -> Row | None:
    """The JSON object of a line; None where it is none. What is not finite becomes null."""
    try:
        row: object = json.loads(line, parse_constant=_nothing)
    except (ValueError, RecursionError):
        return None
    return cast(Row, row) if isinstance(row, dict) else None


def size_of(file: Path) -> int:
    """Its bytes; 0 where it is not there."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def number(value: object) -> float | None:
    """A finite number, or None: what a file says may be anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if abs(value) < float("inf") else None
    except OverflowError:
        return None


def whole(value: object) -> int:
    """A whole number; 0 where the value is none."""
    found = number(value)
    return 0 if found is None else int(found)


def _nothing(_name: str) -> None:
    return None
