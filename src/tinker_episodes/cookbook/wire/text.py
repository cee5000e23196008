"""The formats that mark calls in text: where reasoning ends, where a call begins.

Calls inside of reasoning never run. Reasoning is what stands

- between `<think>` and `</think>`, or from a `<think>` that nothing closes to the end;
- before the first `</think>`, where the prompt has opened the reasoning. Where it has and the reply
  closes it nowhere, the reply has none: as the host reads it;
- before a `</think>` that closes nothing.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tinker_cookbook.renderers import Message, Renderer

from tinker_episodes.cookbook.rendering import text_of
from tinker_episodes.cookbook.wire.reading import Block, Item, Read
from tinker_episodes.message import MalformedCall, Text, Thinking

_OPEN, _CLOSE = "<think>", "</think>"
_IN_REASONING = "a call stands inside of the reasoning; write it after </think>"


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Calls between marks in the decoded text."""

    marks: re.Pattern[str]
    """What means a call: where it stands outside of reasoning, `read_at` reads."""
    read_at: Callable[[str, int], Block]
    name_rule: re.Pattern[str]
    argument_rule: re.Pattern[str]
    stops: re.Pattern[str] = field(init=False)
    """What ends a piece of plain text: a mark, or the beginning or end of reasoning."""

    def __post_init__(self) -> None:
        stops = re.compile(f"{_OPEN}|{_CLOSE}|{self.marks.pattern}")
        object.__setattr__(self, "stops", stops)  # the class is frozen

    def read(self, renderer: Renderer, tokens: list[int]) -> Read:
        text = text_of(renderer, tokens)
        scan = _Scan(self, text)
        end = text.find(_CLOSE) if opens_reasoning(renderer) else -1
        if end >= 0:
            scan.reason(text[:end].removeprefix(_OPEN))
            scan.at = end + len(_CLOSE)
        return scan.run()


class _Scan:
    """One pass over a text."""

    def __init__(self, format: TextFormat, text: str) -> None:
        self._format = format
        self._text = text
        self._parts: list[Thinking | Text] = []
        self._items: list[Item] = []
        self._closed = False
        self.at = 0

    def run(self) -> Read:
        while (stop := self._format.stops.search(self._text, self.at)) is not None:
            self._say(self._text[self.at : stop.start()])
            self.at = stop.start()
            self._take(stop.group())
        self._say(self._text[self.at :])
        return Read(tuple(self._parts), tuple(self._items))

    def reason(self, text: str) -> None:
        """Add reasoning. After it, a further `</think>` is text."""
        self._closed = True
        if text:
            self._parts.append(Thinking(text))

    def _take(self, stop: str) -> None:
        if stop == _OPEN:
            self._think()
        elif stop == _CLOSE:
            self.at += len(_CLOSE)
            if self._closed:
                self._say(_CLOSE)
            else:
                self._reconsider()
        else:
            block = self._format.read_at(self._text, self.at)
            self._items += block.items
            self.at = max(block.end, self.at + len(stop))

    def _think(self) -> None:
        start = self.at + len(_OPEN)
        end = self._text.find(_CLOSE, start)
        if end < 0:
            inside, self.at = self._text[start:], len(self._text)
            if self._format.marks.search(inside):
                self._items.append(MalformedCall(inside, _IN_REASONING))
        else:
            inside, self.at = self._text[start:end], end + len(_CLOSE)
        self.reason(inside)

    def _reconsider(self) -> None:
        """A `</think>` that closes nothing: all before it was reasoning, and calls there are no
        calls.
        """
        before = self._text[: self.at - len(_CLOSE)]
        self._parts.clear()
        if self._items:
            self._items[:] = [MalformedCall(before, _IN_REASONING)]
        self.reason(before)

    def _say(self, text: str) -> None:
        if not text:
            return
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Text) and not self._items:
            self._parts[-1] = replace(last, text=last.text + text)
        else:
            self._parts.append(Text(text))


# ---------------------------------------------------------------- prompts that open reasoning

_opening: weakref.WeakKeyDictionary[Renderer, bool] = weakref.WeakKeyDictionary()
_TAIL = 16
"""Tokens at the end of a prompt among which its `<think>` stands."""


def opens_reasoning(renderer: Renderer) -> bool:
    """Whether the renderer's prompts end inside of reasoning that the reply has to close."""
    if renderer not in _opening:
        prompt = renderer.build_generation_prompt([Message(role="user", content="")])
        tail = text_of(renderer, prompt.to_ints()[-_TAIL:])
        _opening[renderer] = tail.rfind(_OPEN) > tail.rfind(_CLOSE)
    return _opening[renderer]
