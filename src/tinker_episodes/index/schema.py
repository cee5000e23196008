"""How the database of a run index is made and opened.

The schema's version stands in it; its tables are in `tables.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Engine, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.dialect import prepare_search
from tinker_episodes.index.postgres import postgres_engine
from tinker_episodes.index.sqlite import sqlite_engine
from tinker_episodes.index.tables import meta, metadata

VERSION = 3
LOCK_TIMEOUT_S = 60
"""Seconds that a write waits for another process's; then it is a fault."""


def default_url(log_path: str | Path) -> str:
    """Beside the log path: runs of one folder share one index."""
    folder = Path(log_path).expanduser().absolute().parent
    return URL.create("sqlite", database=str(folder / "episodes.db")).render_as_string()


def open_index(url: str, *, create: bool, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Engine:
    """The engine of an index.

    Args:
        create: Whether to make the database and its tables where they are not there.
        lock_timeout_s: Seconds that a write waits for another process's.

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
        engine = _engine(parsed, file, write=create, lock_timeout_s=lock_timeout_s)
        try:
            _check_version(engine, shown(url), create=create)
        except BaseException:
            engine.dispose()
            raise
    except (SQLAlchemyError, OSError, ImportError) as error:
        raise RunIndexError(
            f"the run index {shown(url)} can't be opened: {reason_of(error)}"
        ) from error
    return engine


def index_exists(url: str) -> bool:
    """Whether there is a run index at `url`.

    Raises:
        RunIndexError: its database can't be reached.
    """
    parsed = _parsed(url)
    file = _file_of(parsed)
    if file is not None and not file.exists():
        return False
    try:
        engine = _engine(parsed, file, write=False, lock_timeout_s=LOCK_TIMEOUT_S)
        try:
            with engine.connect() as connection:
                tables = inspect(connection).get_table_names()
        finally:
            engine.dispose()
    except (SQLAlchemyError, ImportError) as error:
        raise RunIndexError(
            f"the run index {shown(url)} can't be opened: {reason_of(error)}"
        ) from error
    # A file without tables is one that another process is making; a server may hold others' tables.
    return bool(tables) if file is not None else "meta" in tables


def file_of(url: str) -> Path | None:
    """The file of an index; None where it is a server's."""
    return _file_of(_parsed(url))


def shown(url: str) -> str:
    """A database URL without its password, for messages."""
    return _parsed(url).render_as_string(hide_password=True)


def check_url(url: str) -> None:
    """See that an index can be made or used at `url`, without making it.

    Raises:
        RunIndexError: what stands in the way.
    """
    file = _file_of(_parsed(url))
    if index_exists(url):
        open_index(url, create=False).dispose()
    if file is None:
        return
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


def _engine(url: URL, file: Path | None, *, write: bool, lock_timeout_s: float) -> Engine:
    if url.get_backend_name() == "postgresql":
        return postgres_engine(url, write=write, lock_timeout_s=lock_timeout_s)
    if url.get_backend_name() != "sqlite":
        raise RunIndexError(f"a run index is on SQLite or PostgreSQL, not {url.get_backend_name()}")
    return sqlite_engine(url, file, write=write, lock_timeout_s=lock_timeout_s)


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
