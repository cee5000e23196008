"""One sampled reply, as the episode takes it and as the host's renderer writes it into history.

The host's own parsers are not asked where the format is known: they guess types from the looks of
a text, raise on long numbers and deep nesting, and take a cube of the time on a run of spaces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinker_cookbook.renderers import Message as HostMessage
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.renderers import ToolCall as HostCall
from tinker_cookbook.renderers.deepseek_v3 import (
    DeepSeekV3DisableThinkingRenderer,
    DeepSeekV3ThinkingRenderer,
)
from tinker_cookbook.renderers.deepseek_v4_1 import DeepSeekV4_1Renderer
from tinker_cookbook.renderers.qwen3 import Qwen3Renderer
from tinker_cookbook.renderers.qwen3_5 import Qwen3_5Renderer

from tinker_episodes.cookbook.messages import from_host
from tinker_episodes.cookbook.rendering import text_of
from tinker_episodes.cookbook.wire.formats import format_of
from tinker_episodes.cookbook.wire.reading import Format, Written
from tinker_episodes.message import MalformedCall, Message, Text, Thinking

_HARMONY_MARK = re.compile(r"<\|[a-z]+\|>")


@dataclass(frozen=True, slots=True)
class Reply:
    """One sampled reply."""

    message: Message
    host: HostMessage
    """As the host's renderer writes it into history. What meant to be a call and is none stands in
    it as text, so that the model sees what a correction speaks of.
    """
    clean: bool
    """Whether it ended with the renderer's stop signal."""


def read_reply(renderer: Renderer, tokens: Sequence[int]) -> Reply:
    """What the tokens say. Nothing that a model samples raises here."""
    format = format_of(renderer)
    try:
        if format is None:
            return _by_host(renderer, list(tokens))
        body, clean = _before_stop(renderer, list(tokens))
        return _read(renderer, format, body, clean=clean)
    except Exception as error:  # noqa: BLE001 - a parser of any make, on hostile text
        return _unreadable(renderer, list(tokens), error)


def _read(renderer: Renderer, format: Format, tokens: list[int], *, clean: bool) -> Reply:
    read = format.read(renderer, tokens)
    content = _content(renderer, read.parts, called=bool(read.items))
    calls = [item for item in read.items if isinstance(item, Written)]
    malformed = tuple(item for item in read.items if isinstance(item, MalformedCall))
    said = from_host(HostMessage(role="assistant", content=content)).content
    message = Message("assistant", said, tuple(item.call for item in calls), malformed)
    host = HostMessage(role="assistant", content=_with_broken(content, malformed))
    if calls:
        host["tool_calls"] = [_host_call(item) for item in calls]
    return Reply(message, host, clean)


def _before_stop(renderer: Renderer, tokens: list[int]) -> tuple[list[int], bool]:
    """The tokens before the stop token, and whether there is just one such token."""
    stops = {stop for stop in renderer.get_stop_sequences() if isinstance(stop, int)}
    found = [stop for stop in stops if stop in tokens]
    if not found:
        return tokens, False
    clean = len(found) == 1 and tokens.count(found[0]) == 1
    return tokens[: min(map(tokens.index, found))], clean


def _host_call(item: Written) -> HostCall:
    body = HostCall.FunctionBody(name=item.call.name, arguments=item.arguments)
    return HostCall(function=body, id=item.call.id)


def _with_broken(content: Any, malformed: Sequence[MalformedCall]) -> Any:
    if not malformed:
        return content
    text = "\n".join(_HARMONY_MARK.sub("", item.text) for item in malformed)
    if isinstance(content, str):
        return f"{content}\n{text}" if content else text
    return [*content, {"type": "text", "text": text}]


# ---------------------------------------------------------------- the host's own form of a content


def _content(renderer: Renderer, parts: Sequence[Thinking | Text], *, called: bool) -> Any:
    """The parts as the host's parser gives them: without what its templates write around them."""
    listed: list[Any] = [_part(part) for part in parts]
    if isinstance(renderer, Qwen3Renderer) and renderer.frames_thinking:
        listed = _unframed(listed)
    if isinstance(renderer, Qwen3_5Renderer):
        message = HostMessage(role="assistant", content=listed)
        renderer._postprocess_parsed_message(message)  # pyright: ignore[reportPrivateUsage] - each subclass has its own newlines
    if called and isinstance(
        renderer, DeepSeekV3DisableThinkingRenderer | DeepSeekV3ThinkingRenderer
    ):
        listed = _without_end(listed, re.compile(r"\s*\Z"))
    if called and isinstance(renderer, DeepSeekV4_1Renderer):
        listed = _without_end(listed, re.compile(r"(?:\n\n)?\Z"))
    texts = [part for part in listed if part["type"] == "text"]
    if len(texts) == len(listed) <= 1:
        return texts[0]["text"] if texts else ""
    return listed


def _part(part: Thinking | Text) -> dict[str, Any]:
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": part.thinking}
    return {"type": "text", "text": part.text}


def _unframed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reasoning and what follows it without the newlines that the template puts around them."""
    found: list[dict[str, Any]] = []
    follows = False
    for part in parts:
        if part["type"] == "thinking":
            found.append({**part, "thinking": part["thinking"].strip("\n")})
        else:
            text = part["text"].lstrip("\n") if follows else part["text"]
            found.append({**part, "text": text})
        follows = part["type"] == "thinking"
    return [part for part in found if part.get("thinking", "x")]


def _without_end(parts: list[dict[str, Any]], end: re.Pattern[str]) -> list[dict[str, Any]]:
    """The parts without what the template writes between the last text and the calls."""
    if parts and parts[-1]["type"] == "text":
        text = end.sub("", parts[-1]["text"], count=1)
        return [*parts[:-1], *([{**parts[-1], "text": text}] if text or len(parts) == 1 else [])]
    return parts


# ---------------------------------------------------------------- renderers that others registered


def _by_host(renderer: Renderer, tokens: list[int]) -> Reply:
    """A reply in a format that only its renderer's own parser knows."""
    host, termination = renderer.parse_response(tokens)
    return Reply(from_host(host), host, termination.is_clean)


def _unreadable(renderer: Renderer, tokens: list[int], error: Exception) -> Reply:
    body, clean = _before_stop(renderer, tokens)
    text = text_of(renderer, body)
    fault = MalformedCall(text, f"the reply can't be read: {type(error).__name__}")
    host = HostMessage(role="assistant", content=text)
    return Reply(Message("assistant", text, malformed=(fault,)), host, clean)
