"""How an SQLite file is reached: by one writer at a time, and by readers beside it."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, QueuePool, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError

_READERS = 8
"""Connections that stay open to be read from."""


def sqlite_engine(url: URL, file: Path | None, *, write: bool, lock_timeout_s: float) -> Engine:
    """The engine of an index on SQLite.

    Args:
        file: None where the database is in memory.
        write: Whether it may write; else SQLite refuses what would.
        lock_timeout_s: Seconds that it waits for another process.
    """
    if file is not None and not write:
        return _reading_engine(file, lock_timeout_s)
    engine = create_engine(url, connect_args={"timeout": lock_timeout_s})

    def on_connect(connection: Any, _record: Any) -> None:
        _on_connect(connection, lock_timeout_s)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def backfill(engine: Engine) -> None:
    """Bring what waits in the log into the file, as far as no reader is in the way; else it stays
    in the log.

    SQLite itself does so where the last connection is closed; a reader's may stay open.
    """
    with suppress(SQLAlchemyError, sqlite3.Error), closing(engine.raw_connection()) as connection:
        connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")


# ---------------------------------------------------------------- reading


class _Reader(sqlite3.Connection):
    """A connection that can't write, and what stood at its place when it was opened."""

    opened: tuple[object, ...] | None = None


def _reading_engine(file: Path, lock_timeout_s: float) -> Engine:
    engine = create_engine(
        "sqlite://",
        creator=partial(_read_only, file, lock_timeout_s),
        poolclass=QueuePool,
        pool_size=_READERS,
    )

    def on_checkout(connection: Any, _record: Any, _proxy: Any) -> None:
        if connection.opened != _standing(file):
            raise DisconnectionError(f"another file is at {file}")  # the pool then opens that one

    event.listen(engine, "checkout", on_checkout)
    event.listen(engine, "begin", _on_read)
    return engine


def _read_only(file: Path, lock_timeout_s: float) -> sqlite3.Connection:
    standing = _standing(file)
    immutable = "&immutable=1" if _frozen(file) else ""
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=ro{immutable}",
        uri=True,
        timeout=lock_timeout_s,
        isolation_level=None,
        check_same_thread=False,  # the pool gives it to one thread at a time
        factory=_Reader,
    )
    connection.opened = standing
    return connection


def _frozen(file: Path) -> bool:
    """Whether nobody can write beside the file, and no log waits: then it is immutable."""
    return not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()


def _standing(file: Path) -> tuple[object, ...] | None:
    """Which file is at its place; an immutable one by its state too, which SQLite does not see."""
    try:
        status = file.stat()
    except OSError:
        return None
    state = (status.st_mtime_ns, status.st_size) if _frozen(file) else ()
    return status.st_dev, status.st_ino, *state


def _on_read(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN")  # all that a page reads is of one moment


# ---------------------------------------------------------------- writing


def _on_connect(connection: Any, lock_timeout_s: float) -> None:
    connection.isolation_level = None  # transactions are begun by _on_begin
    _switch_to_wal(connection, lock_timeout_s)
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _switch_to_wal(connection: Any, lock_timeout_s: float) -> None:
    """SQLite fails this switch at once, without its timeout, where another process writes."""
    until = time.monotonic() + lock_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _on_begin(connection: Any) -> None:
    # A deferred transaction that turns into a write fails at once where another writes; this one
    # waits.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
