"""Finding or making what rollouts hang on: runs, attempts, run groups, bundles and groups."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.sql.schema import Table

from tinker_episodes.index.dialect import inserted_if_new
from tinker_episodes.index.names import run_names
from tinker_episodes.index.packing import as_json, storable
from tinker_episodes.index.records import Attempt, BundleRecord, Group, Split
from tinker_episodes.index.tables import attempts, bundles, groups, run_bundles, run_groups, runs


class Ids:
    """Row ids that this writer has seen committed, so that it does not ask for them again."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, ...], int] = {}
        self.tokens: dict[str, set[int]] = {}
        """The tokens of each run, by log path, whose text is there."""

    def forget(self) -> None:
        """Drop all: a transaction was rolled back."""
        self.known.clear()
        self.tokens.clear()


def run_id(connection: Connection, ids: Ids, log_path: str) -> int:
    """The id of the run at a log path."""
    key = ("run", log_path)
    if key not in ids.known:
        found = connection.execute(select(runs.c.id).where(runs.c.path == log_path)).scalar()
        ids.known[key] = found if found is not None else _make_run(connection, log_path)
    return ids.known[key]


def run_group_id(connection: Connection, ids: Ids, run: int, split: Split, step: int) -> int:
    """The id of a run group."""
    key = ("run_group", str(run), split, str(step))
    if key not in ids.known:
        same = {"run_id": run, "split": str(split), "step": step}
        ids.known[key] = _found_or_made(connection, run_groups, same)
    return ids.known[key]


def group_ids(connection: Connection, ids: Ids, filed: Iterable[Group]) -> dict[str, int]:
    """The ids of groups by their keys. They are not remembered: a group is filed once or twice,
    and runs are long.
    """
    wanted = {group.key: group for group in filed}
    if not wanted:
        return {}
    rows = [_group_row(connection, ids, group) for group in wanted.values()]
    insert = inserted_if_new(connection.dialect.name, groups, give=("key", "id"))
    found: dict[str, int] = {row.key: row.id for row in connection.execute(insert, rows)}
    if old := wanted.keys() - found.keys():
        known = connection.execute(_GROUPS, {"keys": list(old)})
        found |= {row.key: row.id for row in known}
    return found


_GROUPS = select(groups.c.key, groups.c.id).where(
    groups.c.key.in_(bindparam("keys", expanding=True))
)


def _make_run(connection: Connection, log_path: str) -> int:
    names = run_names(log_path)
    taken = set(connection.execute(select(runs.c.name).where(runs.c.name.in_(names))).scalars())
    name = next((name for name in names if name not in taken), f"{names[-1]}-{time.time_ns()}")
    return _inserted(connection, runs.insert().values(path=log_path, name=name))


def _attempt_id(connection: Connection, ids: Ids, attempt: Attempt) -> int:
    key = ("attempt", attempt.token)
    if key not in ids.known:
        found = select(attempts.c.id).where(attempts.c.token == attempt.token)
        known = connection.execute(found).scalar()
        ids.known[key] = known if known is not None else _make_attempt(connection, ids, attempt)
    return ids.known[key]


def _make_attempt(connection: Connection, ids: Ids, attempt: Attempt) -> int:
    run = run_id(connection, ids, attempt.log_path)
    last = select(func.coalesce(func.max(attempts.c.number), 0)).where(attempts.c.run_id == run)
    row = attempts.insert().values(
        run_id=run,
        number=connection.execute(last).scalar_one() + 1,
        token=attempt.token,
        start_step=attempt.start_step,
        began_at=time.time(),
    )
    return _inserted(connection, row)


def _bundle_id(connection: Connection, ids: Ids, bundle: BundleRecord, run: int) -> int:
    key = ("bundle", bundle.name, bundle.version, bundle.content_hash, str(run))
    if key not in ids.known:
        same = {
            "name": storable(bundle.name),
            "version": storable(bundle.version),
            "content_hash": bundle.content_hash,
        }
        found = ids.known[key] = _found_or_made(connection, bundles, same)
        played = {"run_id": run, "bundle_id": found}
        connection.execute(inserted_if_new(connection.dialect.name, run_bundles), played)
    return ids.known[key]


def _group_row(connection: Connection, ids: Ids, group: Group) -> dict[str, Any]:
    run = run_id(connection, ids, group.attempt.log_path)
    return {
        "key": group.key,
        "attempt_id": _attempt_id(connection, ids, group.attempt),
        "run_group_id": run_group_id(connection, ids, run, group.split, group.step),
        "bundle_id": _bundle_id(connection, ids, group.bundle, run),
        "task": storable(group.task),
        "tags": as_json(list(group.tags)),
    }


def _found_or_made(connection: Connection, table: Table, same: dict[str, Any]) -> int:
    """The id of the row with just these values."""
    known = connection.execute(select(table.c.id).filter_by(**same)).scalar()
    return known if known is not None else _inserted(connection, table.insert().values(**same))


def _inserted(connection: Connection, statement: Any) -> int:
    key = connection.execute(statement).inserted_primary_key
    assert key is not None
    return int(key[0])
