"""An index that a process has open to write, and whether it is still the one at its place.

SQLite writes on into a file that was removed, or that another was put in place of: what it commits
there, nobody finds.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.schema import file_of, open_index
from tinker_episodes.index.sqlite import backfill


class OpenedIndex:
    """An open index; it is made where there is none."""

    def __init__(self, url: str, *, lock_timeout_s: float) -> None:
        """
        Args:
            lock_timeout_s: Seconds that a write waits for another process's.

        Raises:
            RunIndexError: it can't be opened.
        """
        self._engine = open_index(url, create=True, lock_timeout_s=lock_timeout_s)
        self._file = file_of(url)
        self._opened = self._found()

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """A transaction; it is committed when this ends.

        Raises:
            RunIndexError: the file is gone, before or since: nobody finds what was written.
        """
        self._check()
        with self._engine.begin() as connection:
            yield connection
        self._check()

    def close(self) -> None:
        """Close the database. Where it is a file, all that was written is in it then."""
        if self._file is not None and self._found() == self._opened:
            backfill(self._engine)
        self._engine.dispose()

    def _check(self) -> None:
        if self._found() != self._opened:
            raise RunIndexError(
                f"the run index {self._file} was removed or replaced while a run wrote to it: put "
                "it back and resume; where it is lost, a resumed run makes another"
            )

    def _found(self) -> tuple[tuple[int, int] | None, ...]:
        """Which files are at its place: the database and its log, which stays while it is open."""
        if self._file is None:
            return ()
        return tuple(map(identity_of, (self._file, Path(f"{self._file}-wal"))))


def identity_of(file: Path) -> tuple[int, int] | None:
    """Device and inode; None where there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
