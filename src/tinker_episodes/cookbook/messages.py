"""The host's messages and ours, translated at this edge."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, cast

from tinker_cookbook.renderers import Message as HostMessage
from tinker_cookbook.renderers import ToolCall as HostCall
from tinker_cookbook.renderers import ToolSpec

from tinker_episodes.message import (
    Call,
    CallResult,
    Content,
    Image,
    MalformedCall,
    Message,
    Part,
    Text,
    Thinking,
)
from tinker_episodes.tools import Tool


def from_host(message: HostMessage) -> Message:
    """The model's reply as the host parsed it, with its calls as JSON values."""
    calls = tuple(_call_from_host(call) for call in message.get("tool_calls") or ())
    unparsed = message.get("unparsed_tool_calls") or ()
    malformed = tuple(MalformedCall(item.raw_text, item.error) for item in unparsed)
    return Message("assistant", _content_from_host(message["content"]), calls, malformed)


def result_to_host(result: CallResult, written_id: str | None) -> HostMessage:
    """A call's result. It answers to the id that the model wrote, where it wrote one."""
    return HostMessage(
        role="tool",
        content=cast(Any, content_to_host(result.content)),
        tool_call_id=written_id or result.call_id,
        name=result.name,
    )


def specs_of(tools: Sequence[Tool]) -> list[ToolSpec]:
    """What the renderer writes about the tools."""
    return [
        ToolSpec(name=t.name, description=t.description, parameters=dict(t.schema)) for t in tools
    ]


def content_to_host(content: Content) -> str | list[dict[str, Any]]:
    """A content in the host's parts; images as `data:` URIs."""
    return encodable(content) if isinstance(content, str) else [_part_to_host(p) for p in content]


def encodable(text: str) -> str:
    """Text that tokenizers take: lone surrogates, which a model may write in JSON, written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _part_to_host(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": encodable(part.text)}
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": encodable(part.thinking)}
    data = base64.b64encode(part.data).decode("ascii")
    return {"type": "image", "image": f"data:{part.media_type};base64,{data}"}


def _content_from_host(content: str | Sequence[Any]) -> Content:
    if isinstance(content, str):
        return content
    return tuple(_part_from_host(part) for part in content)


def _part_from_host(part: dict[str, Any]) -> Text | Thinking | Image:
    if part["type"] == "thinking":
        return Thinking(part["thinking"])
    return Text(part.get("text", ""))


def _call_from_host(call: HostCall) -> Call:
    text = call.function.arguments
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return Call(call.function.name, text, id=call.id)
    if not isinstance(arguments, dict):
        return Call(call.function.name, text, id=call.id)
    return Call(call.function.name, cast(dict[str, Any], arguments), id=call.id)
