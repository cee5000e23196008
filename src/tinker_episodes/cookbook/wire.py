"""What the model wrote, read from its sampled tokens: text, calls, and what meant to be a call.

The host's renderers parse the reply. Where their wire format writes arguments as bare text
(`<parameter=zip>` 19122 `</parameter>`), they guess types from the looks; there the calls are read
here again, as texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tinker_cookbook.renderers import Message as HostMessage
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.renderers.qwen3_5 import Qwen3_5Renderer

from tinker_episodes.cookbook.messages import from_host, with_calls
from tinker_episodes.cookbook.rendering import text_of
from tinker_episodes.message import Call, MalformedCall, Message

_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>(.*?)</parameter>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reply:
    """One sampled reply."""

    message: Message
    host: HostMessage
    """As the host's renderer writes it into history."""
    clean: bool
    """Whether it ended with the renderer's stop signal."""


def read_reply(renderer: Renderer, tokens: list[int]) -> Reply:
    """What the tokens say. Nothing that a model samples raises here."""
    try:
        host, termination = renderer.parse_response(tokens)
        message = from_host(host)
        if isinstance(renderer, Qwen3_5Renderer):
            message = _with_texts(message, _text_of(renderer, tokens))
        return Reply(message, with_calls(host, message), termination.is_clean)
    except Exception as error:  # noqa: BLE001 - the host's parsers raise on hostile numbers and nesting
        return _unreadable(renderer, tokens, error)


def _unreadable(renderer: Renderer, tokens: list[int], error: Exception) -> Reply:
    """A reply that the host's parser raised on: its calls are read here, or it is malformed."""
    stops = [stop for stop in renderer.get_stop_sequences() if isinstance(stop, int)]
    clean = sum(tokens.count(stop) for stop in stops) == 1
    text = text_of(renderer, [token for token in tokens if token not in stops])
    message = Message("assistant", _BLOCK.sub("", text))
    if isinstance(renderer, Qwen3_5Renderer) and "<function=" in text:
        message = _with_texts(message, _text_of(renderer, tokens))
    else:
        fault = MalformedCall(text, f"the reply can't be read: {type(error).__name__}")
        message = replace(message, malformed=(fault,))
    host = HostMessage(role="assistant", content=message.text)
    return Reply(message, with_calls(host, message), clean)


def _text_of(renderer: Qwen3_5Renderer, tokens: list[int]) -> str:
    """The reply's text without its reasoning: a call in there is never run."""
    whole = renderer._normalize_response_tokens(tokens)  # pyright: ignore[reportPrivateUsage] - the host restores its prefill there
    return _THINKING.sub("", text_of(renderer, whole))


def _with_texts(message: Message, text: str) -> Message:
    """The message with its calls read as texts.

    A reply that writes calls as JSON keeps the host's reading.
    """
    if "<function=" not in text:
        return message
    read = list(_calls_of(text))
    calls = tuple(item for item in read if isinstance(item, Call))
    malformed = tuple(item for item in read if isinstance(item, MalformedCall))
    return replace(message, calls=calls, malformed=malformed)


def _calls_of(text: str) -> Iterator[Call | MalformedCall]:
    end = 0
    for block in _BLOCK.finditer(text):
        yield _call_of(block.group(1), block.group(0))
        end = block.end()
    rest = text[end:]
    if "<tool_call>" in rest:
        yield MalformedCall(rest, "a tool call was opened and not closed with </tool_call>")
    elif "<function=" in rest:
        yield MalformedCall(rest, "a function call stands outside of <tool_call> and </tool_call>")


def _call_of(inner: str, block: str) -> Call | MalformedCall:
    function = _FUNCTION.fullmatch(inner)
    if function is None:
        return MalformedCall(block, "a tool call must hold <function=name> … </function>")
    arguments: dict[str, str] = {}
    body, at = function.group(2), 0
    while (parameter := _PARAMETER.match(body, at)) is not None:
        name, value = parameter.group(1).strip(), parameter.group(2)
        if name in arguments:
            return MalformedCall(block, f"the parameter {name!r} is written twice")
        if "<parameter=" in value:
            return MalformedCall(block, f"the parameter {name!r} is not closed with </parameter>")
        arguments[name] = _without_layout(value)
        at = parameter.end()
    if body[at:].strip():
        return MalformedCall(block, "text stands between the parameters, or one is not closed")
    return Call(function.group(1).strip(), arguments, typed=False)


def _without_layout(value: str) -> str:
    """One newline a side is the format's layout; all else is the value."""
    start = 1 if value.startswith("\n") else 0
    end = len(value) - 1 if value.endswith("\n") and len(value) > start else len(value)
    return value[start:end]
