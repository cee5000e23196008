"""Rollouts: those of a group in short, and one of them whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, bindparam, select

from tinker_episodes.index.packing import unpacked, unpacked_turns
from tinker_episodes.index.reading.groups import COLUMNS, GroupRow, group_row
from tinker_episodes.index.reading.where import GROUPS, WHERE, Where, where_of
from tinker_episodes.index.records import ImageRecord, ScoreRecord, Status
from tinker_episodes.index.tables import (
    groups,
    images,
    rollouts,
    run_groups,
    scores,
    token_texts,
    tokens,
    tool_sets,
    transcripts,
)


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A rollout in short."""

    key: str
    place: int
    """Where it stands in its group, from 0."""
    status: Status
    reward: float | None
    """As it was scored; None where it failed or was abandoned."""
    trained_reward: float | None
    """After the trainer's clamps; None where its summaries do not hold it (yet)."""
    trained: bool
    sampler_step: int | None
    """The step of the weights that sampled it, as the trainer says."""
    cut: str | None
    reason: str
    """Why it failed or was abandoned."""
    turns: int
    messages: int
    tool_calls: int
    tool_errors: int
    format_errors: int
    sampled_tokens: int
    observation_tokens: int
    opened_at: float | None
    """Seconds since the epoch."""
    duration_s: float | None
    scores: Mapping[str, float]
    """Each scorer's value."""


@dataclass(frozen=True, slots=True)
class GroupPage:
    """A group with its rollouts in short, in their places."""

    group: GroupRow
    rollouts: tuple[RolloutRow, ...]


@dataclass(frozen=True, slots=True)
class RolloutPage:
    """A rollout whole, but for its tokens (`tokens`) and the bytes of its images (`image`)."""

    where: Where
    rollout: RolloutRow
    previous: str | None
    """The key of the one before it in its group."""
    next: str | None
    scores: tuple[ScoreRecord, ...]
    entries: Sequence[Mapping[str, Any]]
    """What was said and done: `transcript.py` says how."""
    changes: Sequence[Mapping[str, Any]]
    """What it changed in the universe: `table`, `key`, `before`, `after`."""
    tool_sets: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict[str, Any])
    """The specs of the tools that a prompt offered, by the `tool_set` of its entry: `name`,
    `description` and `parameters`.
    """


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a rollout."""

    turns: Sequence[Mapping[str, Any]]
    """Each with `extends` (whether its observation goes on from the last one and its sampled
    tokens), `observation` (the tokens that are new, or all), `sampled`, `logprobs` (one a sampled
    token, as 32-bit floats, or None) and `reward`.
    """
    pieces: Mapping[int, str]
    """The text of each sampled token by itself, where it is known."""


_AT_ONCE = 1000
"""Tokens that are looked up at once."""
_NAMES = tuple(f.name for f in fields(RolloutRow) if f.name != "scores")
_ROW = (*(rollouts.c[name] for name in _NAMES), rollouts.c.id)


def group_page(connection: Connection, key: str) -> GroupPage | None:
    """A group by its key; None where there is none."""
    row = connection.execute(_GROUP, {"key": key}).first()
    if row is None:
        return None
    found = rollout_rows(connection, [row.id]).get(row.id, ())
    return GroupPage(group_row(row, (rollout.reward for rollout in found)), found)


def rollout_rows(
    connection: Connection, group_ids: Sequence[int]
) -> dict[int, tuple[RolloutRow, ...]]:
    """The rollouts of groups, in short and in their places."""
    values: dict[int, dict[str, float]] = {}
    for rollout, name, value in connection.execute(_VALUES, {"groups": group_ids}).all():
        values.setdefault(rollout, {})[name] = value
    found: dict[int, list[RolloutRow]] = {}
    for row in connection.execute(_ROLLOUTS, {"groups": group_ids}).all():
        found.setdefault(row.group_id, []).append(_rollout_row(row, values.get(row.id, {})))
    return {group: tuple(rows) for group, rows in found.items()}


def rollout_page(connection: Connection, key: str) -> RolloutPage | None:
    """A rollout by its key; None where there is none."""
    row = connection.execute(_ROLLOUT, {"key": key}).first()
    if row is None:
        return None
    of_group = list(connection.execute(_KEYS, {"group": row.group_id}).scalars())
    at = of_group.index(key)
    found = scores_of(connection, key)
    said: dict[str, Any] = {} if row.body is None else unpacked(row.body)
    entries = said.get("entries", [])
    return RolloutPage(
        where=where_of(row),
        rollout=_rollout_row(row[len(WHERE) :], {score.name: score.value for score in found}),
        previous=of_group[at - 1] if at > 0 else None,
        next=of_group[at + 1] if at + 1 < len(of_group) else None,
        scores=found,
        entries=entries,
        changes=said.get("changes", []),
        tool_sets=tool_sets_of(connection, entries),
    )


_GROUP = select(*COLUMNS).select_from(GROUPS).where(groups.c.key == bindparam("key"))
_OF_GROUPS = rollouts.c.group_id.in_(bindparam("groups", expanding=True))
_VALUES = (
    select(scores.c.rollout_id, scores.c.name, scores.c.value)
    .join(rollouts, scores.c.rollout_id == rollouts.c.id)
    .where(_OF_GROUPS)
    .order_by(scores.c.rollout_id, scores.c.name)
)
_IN_PLACES = (rollouts.c.group_id, rollouts.c.place, rollouts.c.id)
_ROLLOUTS = select(*_ROW, rollouts.c.group_id).where(_OF_GROUPS).order_by(*_IN_PLACES)
_KEYS = (
    select(rollouts.c.key).where(rollouts.c.group_id == bindparam("group")).order_by(*_IN_PLACES)
)
_ROLLOUT = (
    select(*WHERE, *_ROW, rollouts.c.group_id, transcripts.c.body)
    .select_from(
        GROUPS.join(rollouts, rollouts.c.group_id == groups.c.id).outerjoin(
            transcripts, transcripts.c.rollout_id == rollouts.c.id
        )
    )
    .where(rollouts.c.key == bindparam("key"))
)


def tool_sets_of(
    connection: Connection, entries: Sequence[Mapping[str, Any]]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The specs of the tools that a transcript's prompts offered, by their `tool_set`."""
    hashes = {str(entry["tool_set"]) for entry in entries if "tool_set" in entry}
    found = connection.execute(_TOOL_SETS, {"hashes": list(hashes)}).all() if hashes else ()
    return {hash: unpacked(body) for hash, body in found}


def scores_of(connection: Connection, key: str) -> tuple[ScoreRecord, ...]:
    """What each scorer found of a rollout, by its key."""
    return tuple(
        ScoreRecord(name, value, explanation, json.loads(evidence))
        for name, value, explanation, evidence in connection.execute(_SCORES, {"key": key}).all()
    )


def transcript_of(connection: Connection, key: str) -> dict[str, Any] | None:
    """What was said and done in a rollout, without its tokens; None where there is none."""
    body = connection.execute(_TRANSCRIPT, {"key": key}).scalar()
    return None if body is None else unpacked(body)


def tokens_of(connection: Connection, key: str) -> Tokens | None:
    """A rollout's tokens; None where it has none."""
    row = connection.execute(_TOKENS, {"key": key}).first()
    if row is None:
        return None
    turns = unpacked_turns(row.body)
    return Tokens(turns, _pieces(connection, row.run_id, turns))


def _pieces(connection: Connection, run: int, turns: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    sampled = sorted({token for turn in turns for token in turn.get("sampled", ())})
    found: dict[int, str] = {}
    for start in range(0, len(sampled), _AT_ONCE):
        some = sampled[start : start + _AT_ONCE]
        rows = connection.execute(_TEXTS, {"run": run, "tokens": some}).all()
        found |= {token: text for token, text in rows}
    return found


def image_of(connection: Connection, hash: str) -> ImageRecord | None:
    """An image by the hash that a transcript gives."""
    row = connection.execute(_IMAGE, {"hash": hash}).first()
    return None if row is None else ImageRecord(*row)


def keys_beginning(connection: Connection, start: str, limit: int = 10) -> list[str]:
    """The keys of rollouts that begin so."""
    query = (
        select(rollouts.c.key)
        .where(rollouts.c.key >= start, rollouts.c.key < f"{start}zz")
        .order_by(rollouts.c.key)
        .limit(limit)
    )
    return [key for key in connection.execute(query).scalars() if key.startswith(start)]


def _rollout_row(row: Any, values: Mapping[str, float]) -> RolloutRow:
    """A rollout from a row that begins with `_ROW`."""
    key, place, status, reward, trained_reward, trained, *rest = row[: len(_NAMES)]
    return RolloutRow(
        key, place, Status(status), reward, trained_reward, bool(trained), *rest, scores=values
    )


_OF_KEY = rollouts.c.key == bindparam("key")
_SCORES = (
    select(scores.c.name, scores.c.value, scores.c.explanation, scores.c.evidence)
    .join(rollouts, scores.c.rollout_id == rollouts.c.id)
    .where(_OF_KEY)
    .order_by(scores.c.name)
)
_TRANSCRIPT = (
    select(transcripts.c.body)
    .join(rollouts, transcripts.c.rollout_id == rollouts.c.id)
    .where(_OF_KEY)
)
_TOOL_SETS = select(tool_sets.c.hash, tool_sets.c.body).where(
    tool_sets.c.hash.in_(bindparam("hashes", expanding=True))
)
_TOKENS = (
    select(tokens.c.body, run_groups.c.run_id)
    .join(rollouts, tokens.c.rollout_id == rollouts.c.id)
    .join(groups, rollouts.c.group_id == groups.c.id)
    .join(run_groups, groups.c.run_group_id == run_groups.c.id)
    .where(_OF_KEY)
)
_TEXTS = select(token_texts.c.token, token_texts.c.text).where(
    token_texts.c.run_id == bindparam("run"),
    token_texts.c.token.in_(bindparam("tokens", expanding=True)),
)
_IMAGE = select(
    images.c.hash, images.c.media_type, images.c.body, images.c.width, images.c.height
).where(images.c.hash == bindparam("hash"))
