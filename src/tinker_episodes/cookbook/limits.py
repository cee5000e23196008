"""The host's limits: which of them a rollout has reached, told in the env before the host's runner
would.

The arithmetic is the runner's own (`tinker_cookbook.rl.rollout_runner`), so that an env can score
at the cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import chz
import tinker
from tinker_cookbook.rl.rollout_limits import RolloutLimits
from tinker_cookbook.rl.types import StopReason

from tinker_episodes.outcome import Cut

_CUTS: dict[str, Cut] = {
    StopReason.MAX_TURNS: Cut.MAX_TURNS,
    StopReason.MAX_TOKENS: Cut.MAX_TOKENS,
    StopReason.MAX_SAMPLED_TOKENS: Cut.MAX_SAMPLED_TOKENS,
    StopReason.MAX_TOOL_CALLS: Cut.MAX_TOOL_CALLS,
    StopReason.CONTEXT_OVERFLOW: Cut.CONTEXT_OVERFLOW,
    StopReason.PARSE_ERROR: Cut.PARSE_ERROR,
    StopReason.ROLLOUT_TIMEOUT: Cut.ROLLOUT_TIMEOUT,
}
_STOPS: dict[Cut, StopReason] = {
    **{cut: StopReason(stop) for stop, cut in _CUTS.items()},
    Cut.LENGTH: StopReason.MAX_TOKENS,
}


@dataclass(slots=True)
class Turns:
    """How far a rollout has come."""

    count: int = 0
    sampled_tokens: int = 0
    observation: tinker.ModelInput = field(default_factory=tinker.ModelInput.empty)
    """What the model is shown next."""


def reached(limits: RolloutLimits, turns: Turns) -> Cut | None:
    """The limit that ends the rollout before its next turn, in the runner's order.

    A token budget of 1 is used up.
    """
    if limits.max_turns is not None and turns.count >= limits.max_turns:
        return Cut.MAX_TURNS
    if (
        limits.max_trajectory_tokens is not None
        and limits.max_trajectory_tokens - turns.observation.length <= 1
    ):
        return Cut.MAX_TOKENS
    if (
        limits.max_sampled_tokens is not None
        and limits.max_sampled_tokens - turns.sampled_tokens <= 1
    ):
        return Cut.MAX_SAMPLED_TOKENS
    return None


def advertised(limits: RolloutLimits, wait_s: float) -> RolloutLimits:
    """What the host's runner is told.

    The env's own clock starts when the rollout has its slot, and scores at the end of its time; the
    runner's starts before, and alone can end a sampling call that hangs. So the runner is told the
    latest time at which the env's clock can run out, and a little more, so that the env's is first.

    Args:
        wait_s: The longest wait for the slot.
    """
    seconds = limits.rollout_timeout_seconds
    if seconds is None:
        return limits
    latest = wait_s + seconds + min(seconds / 10, 1.0)
    told: RolloutLimits = chz.replace(limits, rollout_timeout_seconds=latest)  # pyright: ignore[reportUnknownMemberType] - chz types its changes loosely
    return told


def ends_on_length(limits: RolloutLimits) -> bool:
    """Whether a turn cut at its token limit ends the rollout: the host's rule for envs with token
    budgets.
    """
    return (
        limits.max_trajectory_tokens is None
        and limits.max_sampled_tokens is None
        and limits.max_turn_tokens is None
    )


def cut_of(stop_reason: str | None) -> Cut | None:
    """The cut of a trajectory's stop reason; None where the model or the task ended it."""
    if stop_reason is None or stop_reason in (StopReason.COMPLETED, StopReason.TOOL_STOPPED):
        return None
    return _CUTS.get(stop_reason, Cut.OTHER)


def stop_of(cut: Cut) -> str:
    """The host's stop reason of a cut."""
    return _STOPS.get(cut, str(cut))
