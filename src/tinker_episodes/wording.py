"""A transcript's entries as lines for a terminal. What a model says is shown, never obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text


def visible(text: str) -> str:
    """Text with control characters written out: what a model says must not steer a terminal."""
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode()


def entry_lines(entry: Mapping[str, Any]) -> Iterator[Text]:
    """The lines of one entry of a transcript, as the run index stores it."""
    kind = entry["kind"]
    if kind == "prompt":
        yield from _lines("system", "dim", entry["system_prompt"])
        yield from _lines("prompt", "cyan", entry["text"])
    elif kind == "reply":
        yield from _lines("model", "green", _words(entry["content"]))
        for call in entry["calls"]:
            yield from _lines("calls", "magenta", f"{call['name']} {json.dumps(call['written'])}")
        for bad in entry["malformed"]:
            yield from _lines("broken", "red", bad["error"])
    elif kind == "result":
        style = "red" if entry["error"] else "blue"
        yield from _lines("result", style, _words(entry["content"]))
    else:
        yield from _lines("note", "yellow", entry["text"])


def _lines(who: str, style: str, text: str) -> Iterator[Text]:
    if text.strip():
        line = Text(f"{who:>7}  ", style=style)
        line.append(visible(text).replace("\n", "\n         "), style="default")
        yield line


def _words(content: str | list[Mapping[str, str]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(_part_words(part) for part in content)


def _part_words(part: Mapping[str, str]) -> str:
    if part["type"] == "image":
        return f"[image {part['media_type']}]"
    return part.get("text") or f"<think>{part.get('thinking', '')}</think>"
