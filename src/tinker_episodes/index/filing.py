"""The statements that file rollouts and take over the trainer's summaries, inside a caller's
transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import zstandard
from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.schema import Table

from tinker_episodes.index.names import run_names
from tinker_episodes.index.records import (
    Attempt,
    BundleRecord,
    Group,
    Rollout,
    Split,
    Summary,
    SummaryFile,
)
from tinker_episodes.index.schema import (
    attempts,
    bundles,
    groups,
    rollouts,
    run_groups,
    runs,
    scores,
    summaries,
    transcripts,
)

_LEVEL = 3


class Ids:
    """Row ids that this writer has seen committed, so that it does not ask for them again."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, ...], int] = {}

    def forget(self) -> None:
        """Drop all: a transaction was rolled back."""
        self.known.clear()


def file_rollouts(connection: Connection, ids: Ids, group: Group, filed: Sequence[Rollout]) -> None:
    """File rollouts of a group.

    A rollout that is there already is left as it is: filing twice files once.
    """
    group_id = _group_id(connection, ids, group)
    for rollout in filed:
        _file(connection, group_id, rollout)


def taken_over(connection: Connection, log_path: str) -> dict[str, int]:
    """The summary files of a run that were taken over: name → size."""
    query = (
        select(summaries.c.file, summaries.c.size)
        .join(runs, summaries.c.run_id == runs.c.id)
        .where(runs.c.path == log_path)
    )
    return {file: size for file, size in connection.execute(query)}


def take_over(connection: Connection, ids: Ids, log_path: str, file: SummaryFile) -> None:
    """Take over step, sampler step and trained reward from the trainer's own summaries."""
    run_id = _run_id(connection, ids, log_path)
    split = Split.EVAL if file.name.rsplit("/", 1)[-1].startswith("eval_") else Split.TRAIN
    for summary in file.summaries:
        _take_over_one(connection, ids, run_id, split, summary)
    connection.execute(
        _upsert(connection, summaries, ("run_id", "file")),
        {"run_id": run_id, "file": file.name, "size": file.size},
    )


def _take_over_one(
    connection: Connection, ids: Ids, run_id: int, split: Split, summary: Summary
) -> None:
    connection.execute(
        update(rollouts)
        .where(rollouts.c.key == summary.rollout)
        .values(
            trained_reward=summary.trained_reward,
            trained=summary.trained,
            sampler_step=summary.sampler_step,
        )
    )
    group_id = select(rollouts.c.group_id).where(rollouts.c.key == summary.rollout)
    run_group_id = _run_group_id(connection, ids, run_id, split, summary.step)
    connection.execute(
        update(groups)
        .where(groups.c.id == group_id.scalar_subquery(), groups.c.run_group_id != run_group_id)
        .values(run_group_id=run_group_id)
    )


# ---------------------------------------------------------------- rows


def _file(connection: Connection, group_id: int, rollout: Rollout) -> None:
    found = select(rollouts.c.id).where(rollouts.c.key == rollout.key)
    if connection.execute(found).scalar() is not None:
        return
    row = rollouts.insert().values(**_columns(rollout), group_id=group_id, trained=False)
    rollout_id = _inserted(connection, row)
    if rollout.scores:
        rows = [_score_row(rollout_id, score) for score in rollout.scores]
        connection.execute(scores.insert(), rows)
    body = packed(rollout.transcript)
    connection.execute(transcripts.insert().values(rollout_id=rollout_id, body=body))


def _columns(rollout: Rollout) -> dict[str, Any]:
    skipped = {"scores", "transcript"}
    names = [name for name in rollout.__dataclass_fields__ if name not in skipped]
    row = {name: getattr(rollout, name) for name in names}
    row["status"] = str(rollout.status)
    row["reason"] = storable(rollout.reason)
    return row


def _score_row(rollout_id: int, score: Any) -> dict[str, Any]:
    return {
        "rollout_id": rollout_id,
        "name": storable(score.name),
        "value": score.value,
        "explanation": storable(score.explanation),
        "evidence": as_json(score.evidence),
    }


def _run_id(connection: Connection, ids: Ids, log_path: str) -> int:
    key = ("run", log_path)
    if key not in ids.known:
        found = connection.execute(select(runs.c.id).where(runs.c.path == log_path)).scalar()
        ids.known[key] = found if found is not None else _make_run(connection, log_path)
    return ids.known[key]


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
    run_id = _run_id(connection, ids, attempt.log_path)
    last = select(func.coalesce(func.max(attempts.c.number), 0)).where(attempts.c.run_id == run_id)
    row = attempts.insert().values(
        run_id=run_id,
        number=connection.execute(last).scalar_one() + 1,
        token=attempt.token,
        start_step=attempt.start_step,
        began_at=time.time(),
    )
    return _inserted(connection, row)


def _run_group_id(connection: Connection, ids: Ids, run_id: int, split: Split, step: int) -> int:
    key = ("run_group", str(run_id), split, str(step))
    if key not in ids.known:
        same = {"run_id": run_id, "split": str(split), "step": step}
        ids.known[key] = _found_or_made(connection, run_groups, same)
    return ids.known[key]


def _bundle_id(connection: Connection, ids: Ids, bundle: BundleRecord) -> int:
    key = ("bundle", bundle.name, bundle.version, bundle.content_hash)
    if key not in ids.known:
        same = {
            "name": storable(bundle.name),
            "version": storable(bundle.version),
            "content_hash": bundle.content_hash,
        }
        ids.known[key] = _found_or_made(connection, bundles, same)
    return ids.known[key]


def _found_or_made(connection: Connection, table: Table, same: dict[str, Any]) -> int:
    """The id of the row with just these values."""
    known = connection.execute(select(table.c.id).filter_by(**same)).scalar()
    return known if known is not None else _inserted(connection, table.insert().values(**same))


def _group_id(connection: Connection, ids: Ids, group: Group) -> int:
    key = ("group", group.key)
    if key not in ids.known:
        found = connection.execute(select(groups.c.id).where(groups.c.key == group.key)).scalar()
        ids.known[key] = found if found is not None else _make_group(connection, ids, group)
    return ids.known.pop(key)  # a group is filed once or twice; runs are long


def _make_group(connection: Connection, ids: Ids, group: Group) -> int:
    attempt_id = _attempt_id(connection, ids, group.attempt)
    run_id = _run_id(connection, ids, group.attempt.log_path)
    row = groups.insert().values(
        key=group.key,
        attempt_id=attempt_id,
        run_group_id=_run_group_id(connection, ids, run_id, group.split, group.step),
        bundle_id=_bundle_id(connection, ids, group.bundle),
        task=storable(group.task),
        tags=as_json(list(group.tags)),
    )
    return _inserted(connection, row)


def _inserted(connection: Connection, statement: Any) -> int:
    key = connection.execute(statement).inserted_primary_key
    assert key is not None
    return int(key[0])


def _upsert(connection: Connection, table: Table, key: tuple[str, ...]) -> Any:
    """An insert that overwrites the row of the same key, for the two supported databases."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values({c.name: bindparam(c.name) for c in table.columns})
    changed = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in key}
    return statement.on_conflict_do_update(index_elements=list(key), set_=changed)


# ---------------------------------------------------------------- values


def storable(text: str) -> str:
    """Text that every database takes: lone surrogates and NUL written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


def as_json(value: Any) -> str:
    """JSON in ASCII, so that any text comes back as it was; what JSON lacks, as its `str`."""
    try:
        return json.dumps(value, default=str)
    except TypeError:  # a key that JSON lacks
        return json.dumps(_with_text_keys(value), default=str)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {str(key): _with_text_keys(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_with_text_keys(item) for item in cast(Sequence[Any], value)]
    return value


def packed(transcript: Mapping[str, Any]) -> bytes:
    """A transcript as it is stored."""
    return zstandard.compress(as_json(transcript).encode("ascii"), _LEVEL)


def unpacked(body: bytes) -> dict[str, Any]:
    """A stored transcript, read back."""
    return json.loads(zstandard.decompress(body))
