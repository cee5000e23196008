"""The host's messages and ours, translated at this edge."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any, cast

from PIL import Image as pillow
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

_HOST_MODES = ("1", "L", "RGB", "CMYK", "YCbCr", "RGBA", "LA", "P")
"""PIL's modes that JPEG takes, or that the host turns into RGB itself."""


def from_host(message: HostMessage) -> Message:
    """The model's reply as the host parsed it, with its calls as JSON values."""
    calls = tuple(_call_from_host(call) for call in message.get("tool_calls") or ())
    unparsed = message.get("unparsed_tool_calls") or ()
    malformed = tuple(MalformedCall(item.raw_text, item.error) for item in unparsed)
    return Message("assistant", _content_from_host(message["content"]), calls, malformed)


def result_to_host(
    result: CallResult, written_id: str | None, *, images: bool = False
) -> HostMessage:
    """A call's result. It answers to the id that the model wrote, where it wrote one.

    Args:
        images: Whether the model sees images; elsewhere words stand in their places.
    """
    return HostMessage(
        role="tool",
        content=cast(Any, content_to_host(result.content, images=images)),
        tool_call_id=written_id or result.call_id,
        name=result.name,
    )


def specs_of(tools: Sequence[Tool]) -> list[ToolSpec]:
    """What the renderer writes about the tools."""
    return [
        ToolSpec(name=t.name, description=t.description, parameters=dict(t.schema)) for t in tools
    ]


def content_to_host(content: Content, *, images: bool) -> str | list[dict[str, Any]]:
    """A content in the host's parts if it shows images, as `data:` URIs; elsewhere one text, since
    half of the host's renderers take no more.
    """
    if isinstance(content, str):
        return encodable(content)
    if images and has_images(content):
        return [_part_to_host(part) for part in content]
    return encodable("".join(_words_of(part) for part in content))


def has_images(content: Content) -> bool:
    """Whether a content holds images."""
    return not isinstance(content, str) and any(isinstance(part, Image) for part in content)


def placeholder(image: Image) -> str:
    """What a model that sees no images is told of one."""
    pixels = "" if image.size is None else f" {image.size[0]} x {image.size[1]} pixels,"
    return (
        f"[an image that is not shown here: {image.media_type},{pixels} {len(image.data):,} bytes]"
    )


def _words_of(part: Part) -> str:
    if isinstance(part, Image):
        return placeholder(part)
    return part.text if isinstance(part, Text) else ""


def encodable(text: str) -> str:
    """Text that tokenizers take: lone surrogates, which a model may write in JSON, written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _part_to_host(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": encodable(part.text)}
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": encodable(part.thinking)}
    data = base64.b64encode(_as_jpeg_takes(part)).decode("ascii")
    # The host's reader tells the type from the bytes.
    return {"type": "image", "image": f"data:image/any;base64,{data}"}


def _as_jpeg_takes(image: Image) -> bytes:
    """Its bytes; as RGB where the host could not make a JPEG of it, such as of 16-bit gray."""
    with pillow.open(io.BytesIO(image.data)) as opened:
        if opened.mode in _HOST_MODES:
            return image.data
        buffer = io.BytesIO()
        opened.convert("RGB").save(buffer, format="PNG")
    return buffer.getvalue()


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
