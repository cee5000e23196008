"""What the model is shown next. Where a renderer's history extends, that is the last observation,
the sampled tokens as they are, and the tokens of the new messages alone; elsewhere the conversation
is rendered anew.

Whether it extends is found by a probe of the renderer, after a tool result and after a user message
each: `has_extension_property` is only a claim. Why it matters: one datum a rollout instead of one a
turn, and a step that costs the same at turn 200 as at turn 2 (huggingface/trl#5224, trl#6250;
tinker-cookbook#938).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Literal

import tinker
from tinker_cookbook.renderers import Message, RenderContext, Renderer, ToolCall, ToolSpec

from tinker_episodes.cookbook.rendering import Rendering, text_of
from tinker_episodes.cookbook.wire import read_reply

Boundary = Literal["tool", "user"]
Chunks = list[tinker.ModelInputChunk]


class Observations:
    """The observations of one rollout."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering
        self._last = tinker.ModelInput.empty()
        self.rewritten = 0
        """How often history was rendered anew after the first observation."""

    async def start(self, messages: Sequence[Message]) -> tinker.ModelInput:
        """The observation of a conversation that begins."""
        self._last = await self._rendering.opening(list(messages))
        return self._last

    async def anew(self, messages: Sequence[Message]) -> tinker.ModelInput:
        """The observation of a conversation whose past changed: other instructions, a reply that
        was cut.
        """
        self.rewritten += 1
        return await self._render(list(messages))

    async def extend(
        self, messages: Sequence[Message], new: int, action: Sequence[int]
    ) -> tinker.ModelInput:
        """The observation after a reply.

        Args:
            messages: The whole conversation, the reply and what followed it included.
            new: How many messages followed the reply.
            action: The sampled tokens of the reply, its end included.
        """
        boundary: Boundary = "user" if messages[-new]["role"] == "user" else "tool"
        size = sum(len(str(message["content"])) for message in messages[-new:])

        def work(renderer: Renderer) -> Chunks | None:
            if not extends(renderer, boundary):
                return None
            return tail_of(renderer, list(messages), new)

        tail = await self._rendering.run(work, size=size)
        if tail is None:
            return await self.anew(messages)
        sampled = tinker.EncodedTextChunk(tokens=list(action))
        self._last = tinker.ModelInput(chunks=[*self._last.chunks, sampled, *tail])
        return self._last

    async def _render(self, messages: list[Message]) -> tinker.ModelInput:
        size = sum(len(str(message["content"])) for message in messages)
        self._last = await self._rendering.run(
            lambda renderer: renderer.build_generation_prompt(messages), size=size
        )
        return self._last


def tail_of(renderer: Renderer, messages: list[Message], new: int) -> Chunks:
    """The chunks of the last `new` messages and of the header that asks for a reply: the host's own
    rendering of each.
    """
    last_user = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    turn = renderer._last_assistant_turn_start_index(messages)  # pyright: ignore[reportPrivateUsage] - what build_generation_prompt calls
    chunks: Chunks = []
    for at in range(len(messages) - new, len(messages)):
        context = RenderContext(
            idx=at,
            is_last=at == len(messages) - 1,
            prev_message=messages[at - 1] if at else None,
            next_message=messages[at + 1] if at + 1 < len(messages) else None,
            last_user_index=last_user,
            in_last_assistant_turn=at >= turn,
        )
        rendered = renderer.render_message(messages[at], context)
        chunks += [rendered.header] if rendered.header is not None else []
        chunks += rendered.output
    end = RenderContext(
        idx=len(messages),
        is_last=True,
        prev_message=messages[-1],
        last_user_index=last_user,
        in_last_assistant_turn=True,
    )
    suffix = renderer._get_generation_suffix("assistant", end)  # pyright: ignore[reportPrivateUsage] - as above
    chunks.append(tinker.EncodedTextChunk(tokens=list(suffix)))
    return [c for c in chunks if not isinstance(c, tinker.EncodedTextChunk) or c.tokens]


# ---------------------------------------------------------------- the probe

_found: weakref.WeakKeyDictionary[Renderer, dict[Boundary, bool]] = weakref.WeakKeyDictionary()


def extends(renderer: Renderer, boundary: Boundary) -> bool:
    """Whether the renderer's own history is the last observation, the sampled reply and a tail that
    stands alone.
    """
    known = _found.setdefault(renderer, {})
    if boundary not in known:
        known[boundary] = _probe(renderer, boundary)
    return known[boundary]


def _probe(renderer: Renderer, boundary: Boundary) -> bool:
    # A renderer may keep a plain reply and rewrite one that reasons. Where its models don't reason,
    # plain ones count.
    reasons = not (renderer.disables_thinking or renderer.has_extension_property)
    before = [
        *renderer.create_conversation_prefix_with_tools([_SPEC], "Probe."),
        Message(role="user", content="first"),
    ]
    after = [*before, _reply(boundary, reasons=reasons), _FOLLOWS[boundary]]
    try:
        shown = _tokens(renderer.build_generation_prompt(before).chunks)
        whole = _tokens(renderer.build_generation_prompt(after).chunks)
        tail = _tokens(tail_of(renderer, after, 1))
    except Exception:  # noqa: BLE001 - a renderer that can't render the probe is rendered anew each time
        return False
    middle = whole[len(shown) : len(whole) - len(tail)]
    return whole == shown + middle + tail and _is_whole(renderer, middle, boundary, reasons=reasons)


def _is_whole(renderer: Renderer, tokens: list[int], boundary: Boundary, *, reasons: bool) -> bool:
    """Whether the tokens between prompt and tail are the reply: end, text, call and reasoning."""
    read = read_reply(renderer, tokens)
    calls = 1 if boundary == "tool" else 0
    kept = "a thought" in text_of(renderer, tokens) or not reasons
    return (
        read.clean and kept and "a reply" in read.message.text and len(read.message.calls) == calls
    )


_SPEC = ToolSpec(
    name="probe",
    description="A probe.",
    parameters={"type": "object", "properties": {"value": {"type": "string"}}},
)
_CALL_ID = "functions.probe:0"
_FOLLOWS: dict[Boundary, Message] = {
    "user": Message(role="user", content="second"),
    "tool": Message(role="tool", content="second", tool_call_id=_CALL_ID, name="probe"),
}


def _reply(boundary: Boundary, *, reasons: bool) -> Message:
    content: Any = [{"type": "text", "text": "a reply"}]
    if reasons:
        content.insert(0, {"type": "thinking", "thinking": "a thought"})
    message = Message(role="assistant", content=content)
    if boundary == "tool":
        body = ToolCall.FunctionBody(name="probe", arguments='{"value": "x"}')
        message["tool_calls"] = [ToolCall(function=body, id=_CALL_ID)]
    return message


def _tokens(chunks: Sequence[Any]) -> list[int]:
    return [token for chunk in chunks for token in chunk.tokens]
