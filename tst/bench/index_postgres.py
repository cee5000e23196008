"""Copies an index from SQLite into PostgreSQL, table by table, so that both answer the same.

The inverted index does not give its words back: they are made anew from the first run's
transcripts. The other runs are copies of it (`index_copies.py`), in their words too.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Boolean, Float, Integer, LargeBinary
from sqlalchemy.sql.schema import Table

from tinker_episodes.index import Attempt, BundleRecord, Group, Rollout, Split, Status
from tinker_episodes.index.dialect import _lexemes
from tinker_episodes.index.packing import unpacked
from tinker_episodes.index.rows import facts_of
from tinker_episodes.index.schema import open_index
from tinker_episodes.index.tables import metadata
from tinker_episodes.index.words import fact, searched, tools_of

_TYPES = {Integer: "int4", Float: "float8", Boolean: "bool", LargeBinary: "bytea"}
_ROLLOUTS = """
    SELECT rollouts.id, runs.path, run_groups.split, groups.task, groups.tags, bundles.name,
        rollouts.status, rollouts.reward, rollouts.cut, rollouts.tool_errors,
        rollouts.format_errors, transcripts.body
    FROM rollouts JOIN groups ON groups.id = rollouts.group_id
    JOIN run_groups ON run_groups.id = groups.run_group_id
    JOIN runs ON runs.id = run_groups.run_id
    JOIN bundles ON bundles.id = groups.bundle_id
    JOIN transcripts ON transcripts.rollout_id = rollouts.id
    WHERE runs.id = 1 ORDER BY rollouts.id
"""
_SEARCH = """
    INSERT INTO search SELECT rollout_id + %s, array_to_tsvector(array_replace(words, %s, %s))
    FROM words
"""


@contextmanager
def copy_on_postgres(file: str, given: str | None) -> Generator[str | None]:
    """The URL of a database with a copy of an index; None where no server is installed.

    Args:
        given: A database that holds the copy already; `no`: none is made.
    """
    from support.postgres import programs, serve

    if given == "no" or (given is None and programs() is None):
        yield None
    elif given is not None:
        yield given
    else:
        with serve() as url:
            copy_index(file, url)
            yield url


def copy_index(file: str, url: str) -> None:
    """Fill an empty database at `url` with the index in `file`."""
    open_index(url, create=True).dispose()
    source = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    with psycopg.connect(url, autocommit=True) as target:
        target.execute("SET session_replication_role = replica")  # the rows are known to agree
        target.execute("DELETE FROM meta")
        for table in metadata.sorted_tables:
            _copy(target, table, source.execute(f"SELECT * FROM {table.name}"))
        _copy_words(source, target)
        target.execute("VACUUM ANALYZE")
    source.close()


def _copy(target: psycopg.Connection[Any], table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    types = [
        next((name for kind, name in _TYPES.items() if isinstance(c.type, kind)), "text")
        for c in table.columns
    ]
    flags = [at for at, name in enumerate(types) if name == "bool"]
    with target.cursor().copy(f"COPY {table.name} FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            values = list(row)
            for at in flags:
                values[at] = None if values[at] is None else bool(values[at])
            copy.write_row(values)


def _copy_words(source: sqlite3.Connection, target: psycopg.Connection[Any]) -> None:
    target.execute("CREATE TEMP TABLE words (rollout_id integer, words text[])")
    with target.cursor().copy("COPY words FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["int4", "text[]"])
        for row in _words(source):
            copy.write_row(row)
    (of_run,) = source.execute("SELECT count(*) / (SELECT count(*) FROM runs) FROM rollouts")
    paths = [path for (path,) in source.execute("SELECT path FROM runs ORDER BY id")]
    for at, path in enumerate(paths):
        target.execute(_SEARCH, (at * of_run[0], fact("run", paths[0]), fact("run", path)))


def _words(source: sqlite3.Connection) -> Iterator[tuple[int, list[str]]]:
    """The words of each rollout of the first run."""
    for (
        at,
        path,
        split,
        task,
        tags,
        bundle,
        status,
        reward,
        cut,
        tools,
        formats,
        body,
    ) in source.execute(_ROLLOUTS):
        said = unpacked(body)
        group = Group(
            Attempt(path, "", 0), "", Split(split), 0, BundleRecord(bundle, "", ""), task,
            tuple(json.loads(tags)),
        )  # fmt: skip
        rollout = Rollout(
            "", 0, Status(status), reward, cut,
            tool_errors=tools, format_errors=formats, transcript=said,
        )  # fmt: skip
        yield at, _lexemes(searched(said, facts_of(group, rollout, tools_of(said))))
