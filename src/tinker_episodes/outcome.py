"""How an episode ended, as values: scores, reward, counts, and what cut it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tinker_episodes.scoring import Score
from tinker_episodes.universe import Change


class Cut(StrEnum):
    """What ended an episode that neither the model nor the task ended."""

    LENGTH = "length"
    """A reply reached the token limit of one turn."""
    PARSE_ERROR = "parse_error"
    """A reply was broken, or one more malformed call than the policy allows."""
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    """The tokens of the whole trajectory."""
    MAX_SAMPLED_TOKENS = "max_sampled_tokens"
    MAX_TOOL_CALLS = "max_tool_calls"
    CONTEXT_OVERFLOW = "context_overflow"
    ROLLOUT_TIMEOUT = "rollout_timeout"
    OTHER = "other"
    """A reason that the trainer's own hooks gave."""


@dataclass(slots=True)
class Counts:
    """What happened, in numbers."""

    messages: int = 0
    """Prompts, replies and results."""
    tool_calls: int = 0
    tool_errors: int = 0
    """Calls that were answered with an error."""
    format_errors: int = 0
    """Replies that meant a call and were none."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended."""

    scores: Mapping[str, Score]
    reward: float
    cut: Cut | None
    counts: Counts
    changes: tuple[Change, ...] = field(default=(), repr=False)
