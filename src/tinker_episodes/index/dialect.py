"""Where SQLite and PostgreSQL differ: upserts, and the search for words.

Words are searched in an inverted index of each rollout's distinct words (`words.py`). SQLite keeps
it in a contentless FTS5 table without positions, PostgreSQL in a `tsvector`: neither holds the text
again, which is in the transcripts alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    TextClause,
    bindparam,
    case,
    column,
    or_,
    table,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.schema import Table

Clause = Sequence[str]
"""Words of which a rollout has at least one; one that ends with `*` stands for all that begin so.
"""

_INSERT: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_SEARCH = {
    "sqlite": (
        "CREATE VIRTUAL TABLE search USING fts5"
        "(words, content='', detail=none, columnsize=0, tokenize='ascii')",
    ),
    "postgresql": (
        "CREATE TABLE search (rollout_id integer PRIMARY KEY, words tsvector NOT NULL)",
        "CREATE INDEX search_by_word ON search USING gin (words)",
    ),
}
_FILE = {
    "sqlite": text("INSERT INTO search (rowid, words) VALUES (:rollout_id, :words)"),
    "postgresql": text(
        "INSERT INTO search (rollout_id, words) VALUES (:rollout_id, array_to_tsvector(:words))"
    ),
}
_FOUND = {
    "sqlite": "search MATCH :words",
    "postgresql": "search.words @@ CAST(:words AS tsquery)",
}
_TOKEN = re.compile(r"[0-9a-z\u0080-\U0010ffff]+")
_LEXEME = 500
"""Characters of the longest word that PostgreSQL takes: 2 kB."""
_TSVECTOR = 900_000
"""Bytes of words that PostgreSQL takes of one rollout: 1 MB with what it adds."""
_NEWEST = 2000
"""Rollouts of the highest ids that PostgreSQL looks through without the inverted index."""
SEARCH = table("search", column("rowid", Integer), column("rollout_id", Integer))
"""The inverted index as a query names it."""


@functools.cache
def upserted(
    dialect: str,
    table: Table,
    *,
    add: tuple[str, ...] = (),
    put: tuple[str, ...] = (),
    least: tuple[str, ...] = (),
    greatest: tuple[str, ...] = (),
) -> Any:
    """An insert that changes the row of the same key; made once, as making it costs more than
    running it.

    Args:
        add: The columns to which the values are added.
        put: The columns that take the values.
        least: The columns that keep the lesser of both; what is null counts for nothing.
        greatest: The columns that keep the greater of both.
    """
    insert = _INSERT[dialect](table).values({c.name: bindparam(c.name) for c in table.columns})
    new = insert.excluded
    changed = {name: table.c[name] + new[name] for name in add}
    changed |= {name: new[name] for name in put}
    changed |= {name: _kept(table.c[name], new[name], "<") for name in least}
    changed |= {name: _kept(table.c[name], new[name], ">") for name in greatest}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed)


def _kept(old: ColumnElement[Any], new: ColumnElement[Any], than: str) -> ColumnElement[Any]:
    return case((or_(old.is_(None), new.op(than)(old)), new), else_=old)


@functools.cache
def inserted_if_new(dialect: str, table: Table, *, give: tuple[str, ...] = ()) -> Any:
    """An insert that leaves rows of the same key as they are; made once.

    Args:
        give: The columns that it gives of each row that it made.
    """
    insert = _INSERT[dialect](table).on_conflict_do_nothing()
    return insert.returning(*(table.c[name] for name in give)) if give else insert


def prepare_search(connection: Connection) -> None:
    """Make the inverted index."""
    for statement in _SEARCH[connection.dialect.name]:
        connection.exec_driver_sql(statement)


def file_words(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """File rollouts' words: rows of `rollout_id` and `words` as `words.searched` gives them."""
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        rows = [row | {"words": _lexemes(row["words"])} for row in rows]
    connection.execute(_FILE[connection.dialect.name], rows)


def _lexemes(words: str) -> list[str]:
    """The different words, as many and as long as PostgreSQL takes."""
    found: dict[str, None] = {}
    left = _TSVECTOR
    for word in _TOKEN.findall(words):
        if word not in found and len(word) <= _LEXEME:
            found[word] = None
            left -= 4 * len(word)
            if left < 0:
                break
    return list(found)


def found_by(
    connection: Connection, clauses: Sequence[Clause]
) -> tuple[ColumnElement[int], TextClause]:
    """What finds the rollouts that meet every clause: the column of their ids in `SEARCH`, and the
    condition.
    """
    fts5 = connection.dialect.name == "sqlite"
    both, either, word = (" AND ", " OR ", _fts5_word) if fts5 else (" & ", " | ", _tsquery_word)
    query = both.join(f"({either.join(word(w) for w in clause)})" for clause in clauses)
    condition = text(_FOUND[connection.dialect.name]).bindparams(words=query)
    return SEARCH.c.rowid if fts5 else SEARCH.c.rollout_id, condition


@dataclass(frozen=True, slots=True)
class Found:
    """The rollouts that a search finds."""

    query: Select[Any]
    """Gives their ids."""
    id: ColumnElement[int]
    """The column of ids."""
    first: int
    last: int
    """Ids between which they stand."""


def newest_ids(connection: Connection, found: Found, *, count: int, below: int | None) -> list[int]:
    """The highest ids of rollouts that a search finds, the highest first.

    PostgreSQL's planner expects to come upon the first few of any search soon, and goes through all
    rollouts after a rare word. So the newest alone are gone through; a search that finds too few
    there goes by the inverted index, which an order by an expression leaves no other way.

    Args:
        below: The ids are lower than this; None for any.
    """
    top = found.last if below is None else min(found.last, below - 1)
    query = found.query.where(found.id.between(found.first, top))
    in_order = query.order_by(found.id.desc()).limit(count)
    if connection.dialect.name == "sqlite":
        return list(connection.execute(in_order).scalars())
    newest = in_order.where(found.id > top - _NEWEST)
    ids = list(connection.execute(newest).scalars())
    if len(ids) == count or top - _NEWEST < found.first:
        return ids
    return list(connection.execute(query.order_by((found.id + 0).desc()).limit(count)).scalars())


def _fts5_word(word: str) -> str:
    begins = word.endswith("*")
    return f'"{word.removesuffix("*")}"{"*" if begins else ""}'


def _tsquery_word(word: str) -> str:
    begins = word.endswith("*")
    return f"'{word.removesuffix('*')}'{':*' if begins else ''}"
