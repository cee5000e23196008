"""Every rollout of a run, one after the other: one group at a time is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from tinker_episodes.index.packing import unpacked, unpacked_turns
from tinker_episodes.index.reading.rollouts import RolloutRow, rollout_rows, scores_of, tool_sets_of
from tinker_episodes.index.reading.where import GROUPS, SUPERSEDED, WHERE, Where, where_of
from tinker_episodes.index.records import ScoreRecord
from tinker_episodes.index.tables import groups, rollouts, run_groups, runs, tokens, transcripts


@dataclass(frozen=True, slots=True)
class ExportedRollout:
    """A rollout with all that is filed of it but its images."""

    where: Where
    rollout: RolloutRow
    scores: tuple[ScoreRecord, ...]
    entries: Sequence[Mapping[str, Any]]
    changes: Sequence[Mapping[str, Any]]
    turns: Sequence[Mapping[str, Any]]
    """As in `Tokens`."""
    tool_sets: Mapping[str, Sequence[Mapping[str, Any]]]
    """As in `RolloutPage`."""


def groups_of_run(connection: Connection, run: str, *, superseded: bool) -> list[int]:
    """The ids of a run's groups in the order of steps, evals before training."""
    query = (
        select(groups.c.id)
        .select_from(GROUPS)
        .where(runs.c.name == run, groups.c.size > 0)
        .order_by(run_groups.c.step, run_groups.c.split, groups.c.id)
    )
    return list(connection.execute(query if superseded else query.where(~SUPERSEDED)).scalars())


def rollouts_of_group(connection: Connection, group: int) -> Iterator[ExportedRollout]:
    """The rollouts of a group by its id, in their places."""
    row = connection.execute(select(*WHERE).select_from(GROUPS).where(groups.c.id == group)).one()
    where = where_of(row)
    bodies = (
        select(rollouts.c.key, transcripts.c.body, tokens.c.body)
        .join(transcripts, transcripts.c.rollout_id == rollouts.c.id)
        .outerjoin(tokens, tokens.c.rollout_id == rollouts.c.id)
        .where(rollouts.c.group_id == group)
    )
    said = {key: (body, turns) for key, body, turns in connection.execute(bodies)}
    for rollout in rollout_rows(connection, [group]).get(group, ()):
        body, turns = said[rollout.key]
        transcript = unpacked(body)
        entries = transcript.get("entries", [])
        yield ExportedRollout(
            where,
            rollout,
            scores_of(connection, rollout.key),
            entries,
            transcript.get("changes", []),
            [] if turns is None else unpacked_turns(turns),
            tool_sets_of(connection, entries),
        )
