"""The conversation of a rollout as its model may see it: whole, or its newest exchanges alone.

An exchange is one reply with all that answers it. Where a window bounds the history, the oldest
exchanges go first; a prompt goes with the last of its exchanges. The instructions (system prompt
and tools), the prompt that is being answered and the newest exchange always stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tinker_cookbook.renderers import Message


@dataclass(slots=True)
class History:
    """Everything that was said."""

    prefix: list[Message] = field(default_factory=list[Message])
    """The instructions of the prompt that is being answered."""
    body: list[Message] = field(default_factory=list[Message])
    prompts: list[int] = field(default_factory=list[int])
    """Where in the body the task's prompts stand."""
    tools: bool = False
    """Whether the instructions offer tools."""

    @property
    def messages(self) -> list[Message]:
        """The whole conversation."""
        return [*self.prefix, *self.body]

    def without(self, exchanges: int) -> list[Message]:
        """The conversation without its oldest exchanges."""
        return [*self.prefix, *self._kept(exchanges)]

    def exchanges(self) -> int:
        """How many exchanges may be left out: all that are over."""
        replies = len(self._replies())
        unanswered = bool(self.prompts) and self.prompts[-1] > max(self._replies(), default=-1)
        return replies if unanswered else max(replies - 1, 0)

    def _kept(self, exchanges: int) -> list[Message]:
        if exchanges == 0:
            return self.body
        replies = self._replies()
        start = replies[exchanges] if exchanges < len(replies) else len(self.body)
        prompt = max((at for at in self.prompts if at < start), default=0)
        first = next((at for at in replies if at > prompt), start)
        return [*self.body[prompt:first], *self.body[start:]]

    def _replies(self) -> list[int]:
        return [at for at, message in enumerate(self.body) if message["role"] == "assistant"]


def fewest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number from `low` to `high` that fits; None where none does.

    Args:
        fits: Holds for every larger number too, once it holds.
    """
    if low > high or not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low
