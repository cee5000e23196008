"""What the model is shown next. Where a renderer's history extends, that is the last observation,
the sampled tokens as they are, and the tokens of the new messages alone; elsewhere the conversation
is rendered anew, from remembered pieces.

Why it matters: one datum a rollout instead of one a turn, and a step that costs the same at turn
200 as at turn 2 (huggingface/trl#5224, trl#6250; tinker-cookbook#938).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import tinker
from tinker_cookbook.renderers import Message, Renderer

from tinker_episodes.cookbook.chunks import flat, joined
from tinker_episodes.cookbook.extension import extension_of, following
from tinker_episodes.cookbook.history import History, fewest
from tinker_episodes.cookbook.pieces import Pieces
from tinker_episodes.cookbook.rendering import LONG, Rendering

_KEPT = 0.5
"""Of the history window: what is filled again after exchanges were dropped. So history is rewritten
once in half a window, and not in every step at its edge."""


class Cause(StrEnum):
    """Why history was rewritten."""

    RENDERER = "renderer"
    """The renderer itself writes what stood before in another way, such as without reasoning."""
    INSTRUCTIONS = "instructions"
    """A prompt has another system prompt or other tools."""
    WINDOW = "window"
    """The oldest exchanges were dropped."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One time that history was rewritten: a new training datum begins."""

    turn: int
    """The turn, from 0, whose observation it is."""
    cause: Cause
    dropped: int
    """How many exchanges are left out of that observation."""


class Observations:
    """The observations of one rollout."""

    def __init__(self, rendering: Rendering, *, history_tokens: int | None = None) -> None:
        """
        Args:
            history_tokens: How many tokens an observation may have before its oldest exchanges are
                dropped; None: no bound.
        """
        self._rendering = rendering
        self._window = history_tokens
        self._pieces = Pieces()
        self._last = tinker.ModelInput.empty()
        self._turn = 0
        self._dropped = 0
        self._reply = _Reply(self._last, [])
        self.rewrites: list[Rewrite] = []
        """Each time that history was rewritten after the first observation."""

    async def start(self, history: History) -> tinker.ModelInput:
        """The observation of a conversation that begins."""
        self._last = await self._rendering.opening(history.messages)
        return self._last

    async def extend(
        self, history: History, new: int, action: Sequence[int], *, changed: bool = False
    ) -> tinker.ModelInput:
        """The observation after a reply.

        Args:
            history: Everything that was said, the reply and what followed it included.
            new: How many messages followed the reply.
            action: The sampled tokens of the reply, its end included unless it was cut.
            changed: Whether the instructions are others than before.
        """
        self._turn += 1
        if changed:
            self._pieces = Pieces()  # deepseekv4_1 renders replies by whether there are tools
        self._reply = _Reply(self._last, list(action), new, changed)
        return await self._show(history)

    async def inject(self, history: History, new: int) -> tinker.ModelInput:
        """The observation after messages were put before the next turn.

        Args:
            new: How many there are, at the end of the history.
        """
        if self._turn == 0:
            return await self.start(history)
        self._reply.new += new
        self.rewrites = [rewrite for rewrite in self.rewrites if rewrite.turn != self._turn]
        return await self._show(history)

    async def _show(self, history: History) -> tinker.ModelInput:
        new = history.body[len(history.body) - self._reply.new :]
        shown = None
        if not self._reply.changed:
            shown = await self._rendering.run(
                lambda renderer: self._extended(renderer, history, new), size=_size(new)
            )
        if shown is None or not self._fits(shown):
            shown = await self._rendering.run(
                lambda renderer: self._anew(renderer, history, late=shown is not None), size=LONG
            )
        self._last = shown
        return shown

    def _extended(
        self, renderer: Renderer, history: History, new: list[Message]
    ) -> tinker.ModelInput | None:
        """The last observation, what was sampled, and the tail; None where history is rewritten."""
        found = extension_of(renderer, following(new), tools=history.tools)
        if found is None:
            return None
        tail = found.tail(renderer, history.body[-len(new) - 1], new)
        new_chunks = joined(found.ended(self._reply.action), tail)
        return tinker.ModelInput(chunks=[*self._reply.shown.chunks, *new_chunks])

    def _anew(self, renderer: Renderer, history: History, *, late: bool) -> tinker.ModelInput:
        """The host's own rendering, without what the window leaves no room for.

        Args:
            late: Whether history would extend, but for the window.
        """
        before = self._dropped
        shown = self._pieces.whole(renderer, history.without(before))
        if not self._fits(shown):
            self._dropped = self._least(renderer, history)
            shown = self._pieces.whole(renderer, history.without(self._dropped))
        if flat(shown.chunks)[: len(past := self._reply.flat())] != past:
            cause = Cause.INSTRUCTIONS if self._reply.changed else Cause.RENDERER
            cause = Cause.WINDOW if late or self._dropped > before else cause
            self.rewrites.append(Rewrite(self._turn, cause, self._dropped))
        return shown

    def _least(self, renderer: Renderer, history: History) -> int:
        """How many exchanges to drop, so that half of the window is filled, or it all, or as few
        tokens as can be.
        """

        def within(tokens: float) -> int | None:
            return fewest(
                lambda n: self._pieces.whole(renderer, history.without(n)).length <= tokens,
                self._dropped,
                history.exchanges(),
            )

        assert self._window is not None
        half = within(self._window * _KEPT)
        some = within(self._window) if half is None else half
        return history.exchanges() if some is None else some

    def _fits(self, shown: tinker.ModelInput) -> bool:
        return self._window is None or shown.length <= self._window


@dataclass(slots=True)
class _Reply:
    """The last reply, as it was sampled."""

    shown: tinker.ModelInput
    """The observation that it answers."""
    action: list[int]
    new: int = 0
    """How many messages followed it."""
    changed: bool = False

    def flat(self) -> list[object]:
        return [*flat(self.shown.chunks), *self.action]


def _size(messages: Sequence[Message]) -> int:
    """Roughly how many characters they hold; a picture counts as long."""
    size = 0
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            size += len(content)
        else:
            size += sum(len(p["text"]) if p["type"] == "text" else LONG for p in content)
    return size
