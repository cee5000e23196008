"""What a tool gives back, brought into one form."""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from tinker_episodes.message import Content, Image, Part, Text, Thinking


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool gave back, in the library's own form."""

    content: Content
    error: bool = False
    stop: bool = False


def as_output(result: object) -> ToolOutput:
    """What a tool returned, as content: text as it is, parts as they are, `None` as "", all else as
    JSON.

    Raises:
        TypeError: the value is neither JSON-able nor a content.
        ValueError: an image that can't be read.
    """
    if isinstance(result, ToolOutput):
        return result
    if result is None or isinstance(result, str):
        return ToolOutput(result or "")
    if _is_part(result):
        return ToolOutput((_part(result),))
    if isinstance(result, list | tuple) and _is_content(cast(Sequence[object], result)):
        return ToolOutput(tuple(_part(item) for item in cast(Sequence[object], result)))
    if _is_host_result(result):
        return _of_host_result(result)
    if isinstance(result, BaseModel):
        return ToolOutput(result.model_dump_json())
    return ToolOutput(json.dumps(result, ensure_ascii=False, allow_nan=False))


def _is_part(item: object) -> bool:
    return isinstance(item, Text | Thinking | Image) or _is_picture(item)


def _is_picture(item: object) -> bool:
    """Whether it is a PIL image. Who made one has imported PIL; this module need not."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(item, pillow.Image)


def _is_content(items: Sequence[object]) -> bool:
    """Whether a list is parts, among which plain texts may stand: one of texts alone is data."""
    known = [_is_part(item) for item in items]
    return any(known) and all(
        k or isinstance(item, str) for k, item in zip(known, items, strict=True)
    )


def _part(item: Any) -> Any:
    """A part, text or picture as a part.

    Raises:
        ValueError: an image that can't be read.
    """
    if isinstance(item, str):
        return Text(item)
    part = _of_picture(item) if _is_picture(item) else item
    if isinstance(part, Image) and part.size is None:
        raise ValueError(
            f"it gave {len(part.data):,} bytes as {part.media_type}, and they are no image that "
            "can be read; PNG, JPEG, WebP or GIF would be right"
        )
    return part


def shortened(content: Content, limit: int) -> Content:
    """A content of at most `limit` characters of text, and a note of its size where it is cut."""
    size = _size(content)
    if size <= limit:
        return content
    note = f"\n[cut: these are the first {limit} of {size} characters]"
    if isinstance(content, str):
        return content[:limit] + note
    kept: list[Part] = []
    for part in content:
        if isinstance(part, Text):
            part = Text(part.text[:limit])
            limit -= len(part.text)
        kept.append(part)
    return (*kept, Text(note))


def _size(content: Content) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(part.text) for part in content if isinstance(part, Text))


def _is_host_result(result: Any) -> bool:
    """Whether it is the host's `ToolResult`, told by its two fields: this module does not import
    the host.
    """
    return hasattr(result, "messages") and hasattr(result, "should_stop")


def _of_host_result(result: Any) -> ToolOutput:
    contents: list[Content] = [_of_host_content(m["content"]) for m in result.messages]
    error = bool(result.metadata.get("error"))
    if len(contents) == 1:
        return ToolOutput(contents[0], error=error, stop=bool(result.should_stop))
    parts: list[Any] = []
    for content in contents:
        parts.extend([Text(content)] if isinstance(content, str) else content)
    return ToolOutput(tuple(parts), error=error, stop=bool(result.should_stop))


def _of_host_content(content: Any) -> Content:
    if isinstance(content, str):
        return content
    return tuple(_of_host_part(part) for part in content)


def _of_host_part(part: Mapping[str, Any]) -> Text | Thinking | Image:
    if part["type"] == "text":
        return Text(part["text"])
    if part["type"] == "thinking":
        return Thinking(part["thinking"])
    if part["type"] == "image":
        return _of_host_image(part["image"])
    raise TypeError(
        f"a tool returned a part of type {part['type']!r}: text or image would be right"
    )


def _of_host_image(image: Any) -> Image:
    """A `data:` URI or a PIL image. Other addresses are not fetched."""
    if isinstance(image, str):
        head, _, body = image.partition(",")
        if not head.startswith("data:") or not head.endswith(";base64"):
            raise TypeError(
                f"a tool returned the image {image[:60]!r}: give a data: URI or a PIL image"
            )
        return _part(Image(base64.b64decode(body), head[5:-7]))
    return _of_picture(image)


def _of_picture(picture: Any) -> Image:
    """A PIL image as PNG."""
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return Image(buffer.getvalue(), "image/png")
