"""The rows of a rollout, made before the transaction that files them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tinker_episodes.index.packing import as_json, packed, packed_turns, storable
from tinker_episodes.index.records import Group, ImageRecord, Rollout, ToolSetRecord
from tinker_episodes.index.words import Called, fact, reward_facts, searched, tools_of

Label = tuple[str, str]
"""A kind (tag, tool or cut) and a name."""
_COLUMNS = tuple(
    field.name
    for field in fields(Rollout)
    if field.name not in ("scores", "transcript", "images", "tool_sets")
)
_APART = ("turns", "pieces")
"""What of a transcript is stored apart."""
_NAME = 200
"""Characters of a name."""


@dataclass(frozen=True, slots=True)
class Rows:
    """All that is stored of one rollout, but for the ids that the database gives."""

    rollout: dict[str, Any]
    scores: list[dict[str, Any]]
    transcript: bytes
    turns: bytes | None
    pieces: dict[int, str]
    """The text of tokens."""
    words: str
    labels: frozenset[Label]
    images: tuple[ImageRecord, ...]
    tool_sets: tuple[ToolSetRecord, ...]


def rows_of(group: Group, rollout: Rollout) -> Rows:
    """The rows of a rollout of a group."""
    said = {name: value for name, value in rollout.transcript.items() if name not in _APART}
    turns = rollout.transcript.get("turns")
    pieces = rollout.transcript.get("pieces", {})
    called = tools_of(said)
    return Rows(
        rollout=_columns(rollout),
        scores=_score_rows(rollout),
        transcript=packed(said),
        turns=packed_turns(turns) if turns else None,
        pieces={int(token): text for token, text in pieces.items()},
        words=searched(said, facts_of(group, rollout, called)),
        labels=frozenset(_labels(group, rollout, called)),
        images=rollout.images,
        tool_sets=rollout.tool_sets,
    )


def _columns(rollout: Rollout) -> dict[str, Any]:
    return {name: getattr(rollout, name) for name in _COLUMNS} | {
        "status": str(rollout.status),
        "reason": storable(rollout.reason),
        "trained": False,
    }


def _score_rows(rollout: Rollout) -> list[dict[str, Any]]:
    return [
        {
            "name": storable(score.name),
            "value": score.value,
            "explanation": storable(score.explanation),
            "evidence": as_json(score.evidence),
        }
        for score in rollout.scores
    ]


def facts_of(group: Group, rollout: Rollout, called: Sequence[Called]) -> Iterator[str]:
    """What of a rollout can be filtered by."""
    yield fact("run", group.attempt.log_path)
    yield fact("split", str(group.split))
    yield fact("bundle", group.bundle.name)
    yield fact("task", storable(group.task))
    yield fact("status", str(rollout.status))
    yield from {fact("tag", tag) for tag in group.tags}
    yield from {fact("tool", name) for name, _ in called}
    if rollout.reward is not None:
        yield from reward_facts(rollout.reward, rollout.reward)
    if rollout.cut is not None:
        yield fact("cut", "")
        yield fact("cut", rollout.cut)
    if rollout.tool_errors:
        yield fact("error", "tool")
    if rollout.format_errors:
        yield fact("error", "format")


def _labels(group: Group, rollout: Rollout, called: Sequence[Called]) -> Iterator[Label]:
    """What a reader can filter by. A tool that no call reached is only a word of the model's."""
    for tag in group.tags:
        yield "tag", storable(tag)[:_NAME]
    for name, answered in called:
        if answered:
            yield "tool", storable(name)[:_NAME]
    if rollout.cut is not None:
        yield "cut", rollout.cut


def image_row(image: ImageRecord) -> Mapping[str, Any]:
    """The row of an image."""
    return {
        "hash": image.hash,
        "media_type": storable(image.media_type),
        "width": image.width,
        "height": image.height,
        "body": image.data,
    }
