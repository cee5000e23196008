"""The statements that file rollouts, inside a caller's transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, update

from tinker_episodes.index.dialect import file_words, inserted_if_new
from tinker_episodes.index.ids import Ids, group_ids, run_id
from tinker_episodes.index.packing import packed, storable
from tinker_episodes.index.records import Group, Rollout
from tinker_episodes.index.rows import Rows, image_row, rows_of
from tinker_episodes.index.tables import (
    images,
    labels,
    rollouts,
    runs,
    scores,
    token_texts,
    tokens,
    tool_sets,
    transcripts,
)
from tinker_episodes.index.totals import totals_kept


@dataclass(frozen=True, slots=True)
class Filing:
    """Rollouts of a group, made ready to be filed."""

    group: Group
    rows: tuple[Rows, ...]

    @classmethod
    def of(cls, group: Group, filed: Iterable[Rollout]) -> Filing:
        """Make rollouts ready: outside of a transaction, which other writers wait for."""
        return cls(group, tuple(rows_of(group, rollout) for rollout in filed))


def file_rollouts(connection: Connection, ids: Ids, filings: Sequence[Filing]) -> None:
    """File rollouts of some groups.

    A rollout that is there already is left as it is: filing twice files once.
    """
    at = group_ids(connection, ids, (filing.group for filing in filings))
    placed = [(at[filing.group.key], filing) for filing in filings]
    with totals_kept(connection, at.values()):
        filed = _file_new(connection, placed)
    _count(connection, ids, filings, filed)
    _label(connection, ids, filed.values())
    _file_tool_sets(connection, ids, filed.values())
    _file_pieces(connection, ids, filed.values())


def _file_new(
    connection: Connection, placed: Sequence[tuple[int, Filing]]
) -> dict[int, tuple[Filing, Rows]]:
    """The rollouts that were not there, by their ids."""
    wanted: dict[str, tuple[int, Filing, Rows]] = {}
    for at, filing in placed:
        for rows in filing.rows:
            wanted.setdefault(rows.rollout["key"], (at, filing, rows))
    if not wanted:
        return {}
    insert = inserted_if_new(connection.dialect.name, rollouts, give=("id", "key"))
    found = connection.execute(
        insert, [rows.rollout | {"group_id": at} for at, _, rows in wanted.values()]
    ).all()
    filed = {row.id: wanted[row.key][1:] for row in sorted(found, key=lambda row: row.id)}
    _file_parts(connection, {at: rows for at, (_, rows) in filed.items()})
    return filed


def _file_parts(connection: Connection, filed: Mapping[int, Rows]) -> None:
    """What hangs on rollouts, by their ids."""

    def insert(table: Any, rows: Iterable[dict[str, Any]]) -> None:
        some = list(rows)
        if some:
            connection.execute(table.insert(), some)

    pairs = filed.items()
    insert(scores, ({"rollout_id": at} | score for at, rows in pairs for score in rows.scores))
    insert(
        transcripts,
        ({"rollout_id": at, "body": rows.transcript} for at, rows in pairs),
    )
    insert(
        tokens,
        ({"rollout_id": at, "body": rows.turns} for at, rows in pairs if rows.turns is not None),
    )
    file_words(connection, [{"rollout_id": at, "words": rows.words} for at, rows in pairs])
    pictures = {image.hash: image for rows in filed.values() for image in rows.images}
    for image in pictures.values():
        connection.execute(inserted_if_new(connection.dialect.name, images), image_row(image))


def _count(
    connection: Connection,
    ids: Ids,
    filings: Sequence[Filing],
    filed: Mapping[int, tuple[Filing, Rows]],
) -> None:
    """How many rollouts each run has, and when it was last active."""
    counts = Counter({filing.group.attempt.log_path: 0 for filing in filings})
    counts.update(filing.group.attempt.log_path for filing, _ in filed.values())
    connection.execute(
        _COUNTED,
        [
            {"run": run_id(connection, ids, log_path), "more": more, "now": time.time()}
            for log_path, more in counts.items()
        ],
    )


_COUNTED = (
    update(runs)
    .where(runs.c.id == bindparam("run"))
    .values(rollouts=runs.c.rollouts + bindparam("more"), active_at=bindparam("now"))
)


def _label(connection: Connection, ids: Ids, filed: Iterable[tuple[Filing, Rows]]) -> None:
    """Remember the tags, tools and reasons that a reader can filter by."""
    found = {label for _, rows in filed for label in rows.labels}
    new = sorted(label for label in found if ("label", *label) not in ids.known)
    if new:
        rows = [{"kind": kind, "name": name} for kind, name in new]
        connection.execute(inserted_if_new(connection.dialect.name, labels), rows)
        ids.known.update({("label", *label): 0 for label in new})


def _file_tool_sets(connection: Connection, ids: Ids, filed: Iterable[tuple[Filing, Rows]]) -> None:
    """The tools of prompts that this index has not seen before."""
    found = {one.hash: one for _, rows in filed for one in rows.tool_sets}
    new = [one for one in found.values() if ("tool_set", one.hash) not in ids.known]
    if new:
        rows = [{"hash": one.hash, "body": packed(one.specs)} for one in new]
        connection.execute(inserted_if_new(connection.dialect.name, tool_sets), rows)
        ids.known.update({("tool_set", one.hash): 0 for one in new})


def _file_pieces(connection: Connection, ids: Ids, filed: Iterable[tuple[Filing, Rows]]) -> None:
    """The texts of tokens that the run has not sampled before."""
    found: list[dict[str, Any]] = []
    for filing, rows in filed:
        log_path = filing.group.attempt.log_path
        known = ids.tokens.setdefault(log_path, set())
        new = rows.pieces.keys() - known
        if new:
            run = run_id(connection, ids, log_path)
            found += [
                {"run_id": run, "token": one, "text": storable(rows.pieces[one])} for one in new
            ]
            known |= new
    if found:
        connection.execute(inserted_if_new(connection.dialect.name, token_texts), found)
