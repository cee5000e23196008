"""What is said in an episode: messages, calls and contents, as plain values.

No renderer's or provider's format: adapters translate at their edge.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """Text that the reader of a message sees."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """The model's own reasoning."""

    thinking: str


@dataclass(frozen=True)  # no slots: what is known of its bytes is kept with it
class Image:
    """An encoded image."""

    data: bytes
    media_type: str
    """Such as `image/png`."""

    @cached_property
    def hash(self) -> str:
        """SHA-256 of its bytes, in hexadecimal: what it is stored and referred to by."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def size(self) -> tuple[int, int] | None:
        """Width and height in pixels, as the file's header says; None where Pillow reads none."""
        from PIL import Image as pillow  # Pillow costs a tenth of a second, and few have images

        try:
            with pillow.open(io.BytesIO(self.data)) as opened:
                return opened.size
        except Exception:  # noqa: BLE001 - as many kinds as there are formats
            return None


Part = Text | Thinking | Image
Content = str | tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model wrote it."""

    name: str
    arguments: Mapping[str, Any] | str
    """By name:

    JSON values, or the written texts where `typed` is false; a text that is no JSON object stays a
    `str`.
    """
    typed: bool = True
    """Whether the wire format carries JSON types.

    Where it does not, every value is the text that was written.
    """
    id: str | None = None
    """The id that the model wrote, if any: neither unique nor trusted."""


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """Text that meant to be a tool call and is not one."""

    text: str
    error: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation."""

    role: Role
    content: Content
    calls: tuple[Call, ...] = ()
    malformed: tuple[MalformedCall, ...] = ()

    @property
    def text(self) -> str:
        """The message's text without reasoning and images."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call of the model is answered with."""

    call_id: str
    """Unique in the episode."""
    name: str
    content: Content
    error: bool = False
