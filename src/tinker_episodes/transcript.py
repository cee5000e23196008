"""What was said and done in an episode, entry by entry, in a form that JSON takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinker_episodes.message import (
    Call,
    CallResult,
    Content,
    Image,
    Message,
    Part,
    Text,
    Thinking,
)
from tinker_episodes.tools import ToolSet


@dataclass(frozen=True, slots=True)
class Prompted:
    """The model got a prompt of the task."""

    text: str
    system_prompt: str
    tools: ToolSet

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "prompt",
            "text": self.text,
            "system_prompt": self.system_prompt,
            "tools": list(self.tools.by_name),
            "tool_set": self.tools.hash,
        }


@dataclass(frozen=True, slots=True)
class Replied:
    """The model said something."""

    message: Message

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "reply",
            "content": content_to_json(self.message.content),
            "calls": [_call_to_json(call) for call in self.message.calls],
            "malformed": [{"text": m.text, "error": m.error} for m in self.message.malformed],
        }


@dataclass(frozen=True, slots=True)
class Answered:
    """A call was answered."""

    call: Call
    arguments: Mapping[str, Any] | None
    """As the tool got them; None where it did not run."""
    result: CallResult
    """What the model saw."""
    whole: Content | None = None
    """What the tool gave, where the model saw less of it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "result",
            "call_id": self.result.call_id,
            "name": self.call.name,
            "arguments": None if self.arguments is None else dict(self.arguments),
            "content": content_to_json(self.result.content),
            "error": self.result.error,
            **({} if self.whole is None else {"whole": content_to_json(self.whole)}),
        }


@dataclass(frozen=True, slots=True)
class Told:
    """The model was told something outside of the task."""

    text: str

    def to_json(self) -> dict[str, Any]:
        return {"kind": "note", "text": self.text}


Entry = Prompted | Replied | Answered | Told


class Transcript:
    """The entries of one episode, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    def images(self) -> tuple[Image, ...]:
        """The images that tools showed, each once."""
        found: dict[str, Image] = {}
        for entry in self.entries:
            if isinstance(entry, Answered) and not isinstance(entry.result.content, str):
                images = [part for part in entry.result.content if isinstance(part, Image)]
                found.update((image.hash, image) for image in images)
        return tuple(found.values())

    def tool_sets(self) -> tuple[ToolSet, ...]:
        """The tools that prompts offered, each set once."""
        found = {e.tools.hash: e.tools for e in self.entries if isinstance(e, Prompted)}
        return tuple(found.values())

    def to_json(self) -> list[dict[str, Any]]:
        """One object an entry, told apart by `kind`: prompt, reply, result, note."""
        return [entry.to_json() for entry in self.entries]


def content_to_json(content: Content) -> str | list[dict[str, Any]]:
    """A content as JSON; images by their hashes."""
    return content if isinstance(content, str) else [_part_to_json(part) for part in content]


def _part_to_json(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": part.thinking}
    width, height = part.size or (None, None)
    size = {"width": width, "height": height, "bytes": len(part.data)}
    return {"type": "image", "media_type": part.media_type, "hash": part.hash, **size}


def _call_to_json(call: Call) -> dict[str, Any]:
    written = call.arguments if isinstance(call.arguments, str) else dict(call.arguments)
    return {"name": call.name, "id": call.id, "written": written, "typed": call.typed}
