"""What is filed in the run index, as plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Split(StrEnum):
    """Which of the trainer's two datasets a rollout was played for."""

    TRAIN = "train"
    EVAL = "eval"


class Status(StrEnum):
    """How a rollout ended."""

    FINISHED = "finished"
    """The model or the task ended it."""
    CUT = "cut"
    """A limit ended it; it is scored as it was left."""
    FAILED = "failed"
    """The environment's own code failed: it has no reward."""
    ABANDONED = "abandoned"
    """The trainer dropped it before it ended: it has no reward."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a run."""

    log_path: str
    """The run's identity: an absolute path."""
    token: str
    """Made anew at each start, and the same in all of its processes."""
    start_step: int
    """The step that it starts from: 0, or the checkpoint's batch after a resume."""


@dataclass(frozen=True, slots=True)
class BundleRecord:
    """The bundle that a task comes from, as it was when the task was played."""

    name: str
    version: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one task at one step."""

    attempt: Attempt
    key: str
    """Unique: one play of one group builder."""
    split: Split
    step: int
    bundle: BundleRecord
    task: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """What one scorer found."""

    name: str
    value: float
    explanation: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """An image that a transcript refers to by its hash; it is stored once in an index."""

    hash: str
    """SHA-256 of its bytes, in hexadecimal."""
    media_type: str
    """Such as `image/png`."""
    data: bytes
    width: int | None = None
    """Pixels, where known; so is the height."""
    height: int | None = None

    @classmethod
    def of(
        cls, data: bytes, media_type: str, *, width: int | None = None, height: int | None = None
    ) -> ImageRecord:
        """The record of an encoded image."""
        return cls(hashlib.sha256(data).hexdigest(), media_type, data, width, height)


@dataclass(frozen=True, slots=True)
class ToolSetRecord:
    """The tools that a prompt offered, which its entry refers to; stored once in an index."""

    hash: str
    """At most 64 characters: the same for the same specs."""
    specs: tuple[Mapping[str, Any], ...]
    """What the model was told of each tool: `name`, `description`, and `parameters`, its JSON
    Schema.
    """


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout, filed once, when it and its group have ended."""

    key: str
    """The episode's id."""
    place: int
    """Where it stands in its group, in the order in which the environments were made."""
    status: Status
    reward: float | None
    """As it was scored; None where it failed or was abandoned."""
    cut: str | None = None
    reason: str = ""
    """Why it failed or was abandoned."""
    scores: tuple[ScoreRecord, ...] = ()
    turns: int = 0
    messages: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    format_errors: int = 0
    sampled_tokens: int = 0
    observation_tokens: int = 0
    """Tokens of the last observation: the whole conversation where history extends."""
    opened_at: float | None = None
    """Seconds since the epoch; None where it never opened."""
    duration_s: float | None = None
    transcript: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON: `entries`, `changes`, `turns` (tokens and logprobs), and `pieces`: the text of each
    sampled token by itself.
    """
    images: tuple[ImageRecord, ...] = ()
    """The images that the transcript refers to."""
    tool_sets: tuple[ToolSetRecord, ...] = ()
    """The tools that the transcript's prompts refer to, as `tool_set`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the trainer itself wrote about a rollout after its step."""

    rollout: str
    step: int
    sampler_step: int | None
    trained_reward: float
    """The reward after the trainer's own clamps."""
    trained: bool
    """Whether its group was in a training batch."""


@dataclass(frozen=True, slots=True)
class SummaryFile:
    """One file in which the trainer wrote summaries."""

    name: str
    """Relative to the log path."""
    stamp: int
    """At most 31 bits, by which a change is seen."""
    summaries: tuple[Summary, ...]
