"""Scores and the methods that give them.

class NumberSearch(Environment):
    @scorer
    def found(self) -> bool: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from tinker_episodes.errors import ConfigError, EpisodeFailed
from tinker_episodes.task import Task

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "__tinker_episodes_scorer__"


@dataclass(frozen=True, slots=True)
class Score:
    """What a scorer found."""

    value: float
    explanation: str = ""
    """One or two sentences for the person who asks why."""
    evidence: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON-able facts that the value rests on."""


def scorer(method: Method) -> Method:
    """Mark a method of an environment as a scorer.

    It returns a `Score`, a number or a bool; it may be async.
    """
    setattr(method, _MARK, True)
    return method


def scorers_of(environment: type) -> dict[str, str]:
    """The scorers of an environment class: name → attribute, in the order of definition, bases
    first.
    """
    found: dict[str, str] = {}
    for base in reversed(environment.__mro__):
        for name, member in vars(base).items():
            if getattr(member, _MARK, False):  # a mark that `scorer` sets on any callable
                found[name] = name
            elif member is None:
                found.pop(name, None)
    return found


def as_score(name: str, value: object) -> Score:
    """The `Score` of what a scorer returned.

    Raises:
        EpisodeFailed: the value is no number, or not finite. It never becomes a 0.
    """
    score = value if isinstance(value, Score) else Score(cast(float, value))
    number = cast(object, score.value)  # an author's value may be anything
    if not isinstance(number, int | float):
        raise EpisodeFailed(
            f"scorer {name!r} returned {value!r}: a Score, a number or a bool would be right"
        )
    if not math.isfinite(number):
        raise EpisodeFailed(f"scorer {name!r} returned {number!r}: a score must be finite")
    return replace(score, value=float(number))


def reward_scorer(known: Iterable[str], task: Task, reward: str | None) -> str:
    """The scorer whose value is the task's reward: the one that is named, or the only one.

    Raises:
        ConfigError: none is named where there are several, or the task is not scored by it.
    """
    names = task.scorers or tuple(known)
    listed = ", ".join(names)
    unknown = [name for name in names if name not in set(known)]
    if unknown:
        raise ConfigError(
            f"task {task.id!r} names scorers that there are not: {', '.join(unknown)}"
        )
    if reward is None and len(names) == 1:
        return names[0]
    if reward is None:
        raise ConfigError(f"task {task.id!r} has several scorers ({listed}): name one as `reward`")
    if reward not in names:
        raise ConfigError(f"task {task.id!r} is not scored by {reward!r}; it is by: {listed}")
    return reward
