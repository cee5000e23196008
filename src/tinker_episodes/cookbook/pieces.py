"""The host's own rendering of a conversation, with each message's tokens remembered.

`build_generation_prompt` runs as it is, whatever a renderer does around its messages; only
`render_message` is answered from memory, where the message, its neighbours and its place are the
same. So a step costs the tokens of what is new, also where a renderer rewrites history.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import tinker
from pydantic import BaseModel
from tinker_cookbook.renderers import Message, RenderContext, Renderer, ToolCall
from tinker_cookbook.renderers.base import RenderedMessage

RenderMessage = Callable[[Message, RenderContext], RenderedMessage]


class Pieces:
    """The remembered pieces of one conversation."""

    def __init__(self) -> None:
        self._known: dict[Hashable, RenderedMessage] = {}

    def whole(self, renderer: Renderer, messages: Sequence[Message]) -> tinker.ModelInput:
        """`renderer.build_generation_prompt(messages)`, token by token.

        A renderer for which pieces don't give that is asked for the whole each time.
        """
        if not _composes(renderer):
            return renderer.build_generation_prompt(list(messages))
        return self.composed(renderer, messages)

    def composed(self, renderer: Renderer, messages: Sequence[Message]) -> tinker.ModelInput:
        """The same from pieces, unchecked."""
        frozen: dict[int, Hashable] = {}
        used: dict[Hashable, RenderedMessage] = {}

        def render(message: Message, context: RenderContext) -> RenderedMessage:
            key = _key(message, context, frozen)
            piece = None if key is None else self._known.get(key)
            if piece is None:
                piece = renderer.render_message(message, context)
            if key is not None:
                used[key] = piece
            return piece

        whole = with_render_message(renderer, render).build_generation_prompt(list(messages))
        self._known.update(used)
        if len(self._known) > 2 * len(used) + 64:
            self._known = used
        return whole


def with_render_message(renderer: Renderer, render_message: RenderMessage) -> Renderer:
    """A renderer that does as `renderer`, but for how it renders one message."""
    made = object.__new__(type(renderer))  # copy.copy would load its tokenizer by name
    vars(made).update(vars(renderer), render_message=render_message)
    return made


# ---------------------------------------------------------------- what a piece depends on


def _key(message: Message, context: RenderContext, frozen: dict[int, Hashable]) -> Hashable | None:
    """What a message's tokens depend on; None where that can't be told.

    The place counts as renderers use it: first or second or later, and before, at or after the last
    user message. A reply that another one follows at once (the first was cut) is not remembered:
    deepseekv4_1 renders it by what comes later.
    """
    following = context.next_message
    if following is not None and message["role"] == following["role"] == "assistant":
        return None

    def known(item: Message | None) -> Hashable:
        if item is None:
            return None
        if id(item) not in frozen:
            frozen[id(item)] = _frozen(item)
        return frozen[id(item)]

    side = context.idx - context.last_user_index
    return (
        known(message) if message["content"] else _frozen(message),  # the host asks for a header so
        known(context.prev_message),
        known(following),
        min(context.idx, 2),
        context.is_last,
        (side > 0) - (side < 0),
        context.last_user_index < 0,
        context.in_last_assistant_turn,
    )


def _frozen(value: Any) -> Hashable:
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, Mapping):
        items = cast(Mapping[str, Any], value).items()
        return tuple((name, _frozen(item)) for name, item in items)
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in cast(Sequence[Any], value))
    if isinstance(value, BaseModel):
        return _frozen(vars(value))
    return object()  # equal to nothing, such as a picture in a message that a hook made


# ---------------------------------------------------------------- the probe

_found: weakref.WeakKeyDictionary[Renderer, bool] = weakref.WeakKeyDictionary()


def _composes(renderer: Renderer) -> bool:
    """Whether pieces give the renderer's own rendering, tried once on a conversation that grows."""
    if renderer not in _found:
        try:
            _found[renderer] = _is_composed(renderer)
        except Exception:  # noqa: BLE001 - such as tml_v0, which renders no message alone
            _found[renderer] = False
    return _found[renderer]


def _is_composed(renderer: Renderer) -> bool:
    pieces = Pieces()
    shown: list[Message] = []
    for message in _conversation():
        shown.append(message)
        if message["role"] != "assistant":
            composed = pieces.composed(renderer, shown)
            if composed.to_ints() != renderer.build_generation_prompt(list(shown)).to_ints():
                return False
    return True


def _conversation() -> list[Message]:
    turns: list[Message] = [Message(role="system", content="Probe.")]
    for at in range(3):
        turns += [
            Message(role="user", content=f"question {at}"),
            called_reply(f"thought {at}", 2),
            result_of(0),
            result_of(1),
            called_reply("", 1),
            result_of(0),
            called_reply(f"thought {at}", 0),
        ]
    return turns


def called_reply(thought: str, calls: int) -> Message:
    """A probe's reply: the text "a reply", a thought where there is one, and some calls."""
    content: list[Any] = [{"type": "text", "text": "a reply"}]
    if thought:
        content.insert(0, {"type": "thinking", "thinking": thought})
    message = Message(role="assistant", content=content)
    if calls:
        body = ToolCall.FunctionBody(name="probe", arguments='{"value": "x"}')
        message["tool_calls"] = [ToolCall(function=body, id=_id(at)) for at in range(calls)]
    return message


def result_of(at: int) -> Message:
    """The result of a probe's call."""
    return Message(role="tool", content=f"result {at}", tool_call_id=_id(at), name="probe")


def _id(at: int) -> str:
    return f"functions.probe:{at}"
