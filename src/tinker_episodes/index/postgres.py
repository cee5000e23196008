"""How a PostgreSQL server is reached: the extra `postgres`.

    index="postgresql://user@host/database"

A password may stand in the URL; it is better in `PGPASSWORD` or `~/.pgpass`, since the trainer
writes its configuration down. Every wait on the server is bounded.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

_DRIVER = "postgresql+psycopg"
_WRITERS = 0x7E91_50DE
"""The advisory lock that writers of one database take in turn, as SQLite has it."""


def postgres_engine(url: URL, *, write: bool, lock_timeout_s: float) -> Engine:
    """The engine of an index on PostgreSQL.

    Args:
        write: Whether it may write; else the server refuses what would.
        lock_timeout_s: Seconds that it waits: for a connection, for another writer, and for a
            server that does not answer.

    Raises:
        ImportError: the extra is not installed.
    """
    try:
        import psycopg  # noqa: F401  # pyright: ignore[reportUnusedImport] - SQLAlchemy loads it by name
    except ImportError as error:
        raise ImportError(
            "PostgreSQL needs the extra `postgres`: pip install 'tinker-episodes[postgres]'"
        ) from error
    options = "" if write else "-c default_transaction_read_only=on"
    engine = create_engine(
        url.set(drivername=_DRIVER),
        connect_args={
            "connect_timeout": max(2, round(lock_timeout_s)),
            "tcp_user_timeout": round(lock_timeout_s * 1000),
            "options": f"-c lock_timeout={round(lock_timeout_s * 1000)} {options}",
            **url.query,
        },
        # all that a page reads is of one moment
        **({} if write else {"isolation_level": "REPEATABLE READ"}),
        pool_pre_ping=True,  # a connection may have been dropped while rollouts played
    )
    if write:
        event.listen(engine, "begin", _in_turn)
    return engine


def _in_turn(connection: Any) -> None:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS})")
