"""Whether a renderer's history extends, and the tokens of new messages alone.

History extends where the host's own rendering of a conversation is the last observation, the
sampled reply and a tail that stands alone. A probe of the renderer finds it, for each way in which
a conversation goes on after a reply: `has_extension_property` is only a claim.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tinker
from tinker_cookbook.renderers import Message, RenderContext, Renderer, ToolSpec
from tinker_cookbook.renderers.base import RenderedMessage

from tinker_episodes.cookbook.chunks import Chunks
from tinker_episodes.cookbook.pieces import called_reply, result_of, with_render_message
from tinker_episodes.cookbook.rendering import text_of

TailOf = Callable[[Renderer, Message, Sequence[Message]], Chunks]
Following = tuple[str, ...]
"""The roles of the messages after a reply; of a run of one role, the first two."""

TOOL: Following = ("tool",)
USER: Following = ("user",)


@dataclass(frozen=True, slots=True)
class Extension:
    """How history goes on after a reply."""

    tail: TailOf
    """The chunks of the messages after a reply, and of the header that asks for the next one."""
    end: tuple[int, ...]
    """The tokens that end a reply in history."""
    stops: frozenset[int]

    def ended(self, action: Sequence[int]) -> list[int]:
        """The sampled tokens, and what they lack of the reply's end.

        A reply that was cut lacks all of it. One that ends with another stop token than history has
        there (a call, as a final answer) keeps its own, and history's follows.
        """
        last = list(action[-1:])
        if last == list(self.end[-1:]):
            return list(action)
        return [*action, *(self.end[-1:] if self.stops.intersection(last) else self.end)]


def following(messages: Sequence[Message]) -> Following:
    """How a conversation goes on with these messages after a reply."""
    roles: list[str] = []
    for message in messages:
        if roles[-2:] != [message["role"]] * 2:
            roles.append(message["role"])
    return tuple(roles)


_found: weakref.WeakKeyDictionary[Renderer, dict[tuple[Following, bool], Extension | None]] = (
    weakref.WeakKeyDictionary()
)


def extension_of(renderer: Renderer, after: Following, *, tools: bool) -> Extension | None:
    """How the renderer's history extends; None where it rewrites what stood before.

    Args:
        after: How the conversation goes on after a reply.
        tools: Whether its prompt offers tools: deepseekv4_1 keeps reasoning only there.
    """
    known = _found.setdefault(renderer, {})
    if (after, tools) not in known:
        known[after, tools] = _probe(renderer, after, tools=tools)
    return known[after, tools]


def extends(renderer: Renderer, after: Following) -> bool:
    """Whether history extends where tools are offered."""
    return extension_of(renderer, after, tools=True) is not None


# ---------------------------------------------------------------- tails


def tail_alone(renderer: Renderer, reply: Message, new: Sequence[Message]) -> Chunks:
    """The host's own build of a conversation that ends in a reply and what follows it, in which
    only what follows is rendered.
    """
    replied = False

    def render(message: Message, context: RenderContext) -> RenderedMessage:
        nonlocal replied
        if replied:
            return renderer.render_message(message, context)
        replied = message["role"] == "assistant"
        return RenderedMessage(output=[])

    conversation = [Message(role="user", content=""), reply, *new]
    chunks = with_render_message(renderer, render).build_generation_prompt(conversation).chunks
    bos = 1 if renderer._bos_tokens else 0  # pyright: ignore[reportPrivateUsage] - the host's build begins with them
    return list(chunks[bos:])


def tail_by_difference(renderer: Renderer, reply: Message, new: Sequence[Message]) -> Chunks:
    """What the new messages add to a short conversation; for renderers of whole conversations."""
    short = Message(role="assistant", content="-")
    if calls := reply.get("tool_calls"):
        short["tool_calls"] = calls
    before = [Message(role="user", content="-"), short]
    known = renderer.build_generation_prompt(before).length
    whole = renderer.build_generation_prompt([*before, *new]).to_ints()
    return [tinker.EncodedTextChunk(tokens=whole[known:])]


# ---------------------------------------------------------------- the probe

_SPEC = ToolSpec(
    name="probe",
    description="A probe.",
    parameters={"type": "object", "properties": {"value": {"type": "string"}}},
)


def _probe(renderer: Renderer, after: Following, *, tools: bool) -> Extension | None:
    """Try a reply that reasons, and a plain one where the renderer's models don't reason."""
    claims = renderer.disables_thinking or renderer.has_extension_property
    for thought in ("a thought", "") if claims or not _reasons(renderer) else ("a thought",):
        prefix = renderer.create_conversation_prefix_with_tools([_SPEC] if tools else [], "Probe.")
        begun = [*prefix, Message(role="user", content="first")]
        # A conversation that begins, and one in the midst of calls.
        places = [begun, [*begun, called_reply(thought, 1), result_of(0)]]
        for tail in (tail_alone, tail_by_difference):
            try:
                found = [_extends_from(renderer, at, after, thought, tail) for at in places]
                if not after:  # what follows a reply that was cut must leave it as it is
                    cut = [*begun, called_reply(thought, 0)]
                    found.append(_extends_from(renderer, cut, TOOL, thought, tail))
            except Exception:  # noqa: BLE001 - what can't be rendered so is rendered anew
                continue
            if found[0] is not None and None not in found:
                return found[0]
    return None


def _reasons(renderer: Renderer) -> bool:
    """Whether the renderer's models reason, as far as the host says: Qwen's instruct ones don't."""
    return bool(getattr(renderer, "frames_thinking", True))


def _extends_from(
    renderer: Renderer, before: list[Message], after: Following, thought: str, tail_of: TailOf
) -> Extension | None:
    reply = called_reply(thought, after.count("tool"))
    results = iter(range(after.count("tool")))
    new = [
        result_of(next(results)) if role == "tool" else Message(role=role, content="second")
        for role in after
    ]
    shown = renderer.build_generation_prompt(before).to_ints()
    whole = renderer.build_generation_prompt([*before, reply, *new]).to_ints()
    tail = tinker.ModelInput(chunks=tail_of(renderer, reply, new)).to_ints()
    middle = whole[len(shown) : len(whole) - len(tail)]
    if whole != shown + middle + tail or not _is_whole(renderer, middle, reply, thought):
        return None
    stops = frozenset(stop for stop in renderer.get_stop_sequences() if isinstance(stop, int))
    end = _end_of(renderer, middle)
    if new and end[-1:] not in [(stop,) for stop in stops]:
        return None
    return Extension(tail_of, end, stops)


def _is_whole(renderer: Renderer, tokens: list[int], reply: Message, thought: str) -> bool:
    """Whether the tokens between prompt and tail are the reply: reasoning, text and calls."""
    read, _ = renderer.parse_response(tokens)
    text = text_of(renderer, tokens)
    calls = len(read.get("tool_calls") or ())
    return "a reply" in text and thought in text and calls == len(reply.get("tool_calls") or ())


def _end_of(renderer: Renderer, reply: list[int]) -> tuple[int, ...]:
    """The tokens after a reply's text; of one that makes calls, the last token."""
    for size in range(4):
        if text_of(renderer, reply[: len(reply) - size]).endswith("a reply"):
            return tuple(reply[len(reply) - size :])
    return tuple(reply[-1:])
