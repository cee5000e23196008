"""How the database of a run index is made and opened.

The schema's version stands in it; its tables are in `tables.py`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.dialect import on_begin, prepare_search
from tinker_episodes.index.tables import meta, metadata

VERSION = 2
LOCK_TIMEOUT_S = 60
"""Seconds that a write waits for another process's write."""


def default_url(log_path: str | Path) -> str:
    """Beside the log path: runs of one folder share one index."""
    folder = Path(log_path).expanduser().absolute().parent
    return URL.create("sqlite", database=str(folder / "episodes.db")).render_as_string()


def open_index(url: str, *, create: bool) -> Engine:
    """The engine of an index.

    Args:
        create: Whether to make the database and its tables where they are not there.

    Raises:
        RunIndexError: it can't be reached, is not there, or is of another version.
    """
    parsed = _parsed(url)
    file = _file_of(parsed)
    if file is not None and not create and not file.is_file():
        raise RunIndexError(f"there is no run index at {file}")
    try:
        if file is not None and create:
            file.parent.mkdir(parents=True, exist_ok=True)
        engine = _engine(parsed, file, write=create)
        _check_version(engine, url, create=create)
    except (SQLAlchemyError, OSError, ImportError) as error:
        raise RunIndexError(f"the run index {url} can't be opened: {reason_of(error)}") from error
    return engine


def check_url(url: str) -> None:
    """See that an index can be made or used at `url`, without making it.

    Raises:
        RunIndexError: what stands in the way.
    """
    file = _file_of(_parsed(url))
    if file is None:
        return
    if file.exists():
        open_index(url, create=False).dispose()
    folder = next(parent for parent in file.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise RunIndexError(
            f"the run index can't be made at {file}: {folder} can't be written to; "
            "give another `index` or `log_path`"
        )


def reason_of(error: Exception) -> str:
    """What a database's error says, without the statement."""
    cause = error.orig if isinstance(error, OperationalError) else error
    return f"{cause}".splitlines()[0] if f"{cause}" else type(error).__name__


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise RunIndexError(
            f"{url!r} is no database URL; 'sqlite:////folder/episodes.db' would be one"
        ) from error


def _file_of(url: URL) -> Path | None:
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if is_file else None


def _engine(url: URL, file: Path | None, *, write: bool) -> Engine:
    if url.get_backend_name() != "sqlite":
        if not write:
            return create_engine(url, isolation_level="REPEATABLE READ")
        engine = create_engine(url)
        event.listen(engine, "begin", on_begin)
        return engine
    if file is not None and not write:
        engine = create_engine("sqlite://", creator=lambda: _read_only(file), poolclass=NullPool)
        event.listen(engine, "begin", _on_read)
        return engine
    engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT_S})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", on_begin)
    return engine


def _read_only(file: Path) -> sqlite3.Connection:
    """A connection that can't write.

    Where nobody can write beside the file, and no log waits, it is immutable.
    """
    frozen = not os.access(file.parent, os.W_OK) and not Path(f"{file}-wal").exists()
    address = f"{file.absolute().as_uri()}?mode=ro{'&immutable=1' if frozen else ''}"
    return sqlite3.connect(address, uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None)


def _on_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by on_begin
    _switch_to_wal(connection)
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _switch_to_wal(connection: Any) -> None:
    """SQLite fails this switch at once, without its timeout, where another process writes."""
    until = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _on_read(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN")  # all that a page reads is of one moment


def _check_version(engine: Engine, url: str, *, create: bool) -> None:
    with engine.begin() as connection:
        if not inspect(connection).has_table("meta"):
            if not create:
                raise RunIndexError(f"{url} is no run index: it has no table `meta`")
            metadata.create_all(connection)
            prepare_search(connection)
            connection.execute(meta.insert().values(version=VERSION, revision=0))
        found = connection.execute(select(meta.c.version)).scalar_one()
    if found != VERSION:
        raise RunIndexError(
            f"the run index {url} is of schema version {found}, this library's is {VERSION}: "
            "give the run another `index`, or read this one with the version that wrote it"
        )
