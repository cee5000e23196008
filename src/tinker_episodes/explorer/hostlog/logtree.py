"""The trainer's log tree of an iteration, as typed nodes: what it logged for people, no markup.

A node is `{"kind": "section" | "heading" | "text" | "table" | "conversation" | "block", …}`.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

Node = dict[str, Any]

_MOST_BYTES = 64_000_000
_DEEPEST = 60
_GROUP = "Group Rollout"
_EPISODE = re.compile(r"Trajectory (\d+) Episode")
_TAG = re.compile(r"<[^<>]*>")


def groups_of(file: Path) -> list[Node]:
    """The sections of groups in a log tree, in the order in which they were logged: the trainer
    logs the first few groups of a batch.
    """
    return [node for node in _walk(_read(file)) if _is_section(node, _GROUP)]


def episode_of(group: Node, place: int) -> Node | None:
    """What was logged of one rollout of a group, where it stands apart."""
    for node in _walk(group):
        match = _EPISODE.fullmatch(node.get("text", "")) if node["kind"] == "section" else None
        if match is not None and int(match.group(1)) == place:
            return node
    return None


def _is_section(node: Node, title: str) -> bool:
    return node["kind"] == "section" and node["text"] == title


def _read(file: Path) -> Node:
    empty: Node = {"kind": "block", "children": []}
    try:
        if file.stat().st_size > _MOST_BYTES:
            return empty
        tree: object = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return empty
    root: object = cast(Node, tree).get("root") if isinstance(tree, dict) else None
    return _node(root, 0) or empty


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("children", ()):
        yield from _walk(child)


# ---------------------------------------------------------------- the trainer's nodes as ours


def _node(raw: object, depth: int) -> Node | None:
    """One node; None where it is empty, or no node."""
    if isinstance(raw, str):
        text = _text(raw)
        return {"kind": "text", "text": text} if text.strip() else None
    if not isinstance(raw, dict) or depth > _DEEPEST:
        return None
    node = cast(Node, raw)
    data: object = node.get("data")
    if isinstance(data, dict) and cast(Node, data).get("type") == "conversation":
        return _conversation(cast(Node, data))
    tag = node.get("tag")
    if tag == "table":
        return {"kind": "table", "rows": list(_rows(node, depth))}
    if tag in ("h1", "h2", "h3", "h4", "h5", "h6", "summary"):
        return {"kind": "heading", "text": _words(node, depth)}
    children = [found for child in _children(node) if (found := _node(child, depth + 1))]
    if tag in ("section", "details") and children and children[0]["kind"] == "heading":
        return {"kind": "section", "text": children[0]["text"], "children": children[1:]}
    return _block(children)


def _block(children: list[Node]) -> Node | None:
    if len(children) < 2:
        return children[0] if children else None
    return {"kind": "block", "children": children}


def _conversation(data: Node) -> Node:
    messages: object = data.get("messages")
    said = cast(list[object], messages) if isinstance(messages, list) else []
    return {"kind": "conversation", "messages": [one for one in said if isinstance(one, dict)]}


def _rows(node: Node, depth: int) -> Iterator[list[str]]:
    for child in _children(node):
        if not isinstance(child, dict) or depth > _DEEPEST:
            continue
        inner = cast(Node, child)
        if inner.get("tag") == "tr":
            yield [_words(cell, depth + 1) for cell in _children(inner)]
        else:
            yield from _rows(inner, depth + 1)


def _children(node: Node) -> list[object]:
    children: object = node.get("children")
    return cast(list[object], children) if isinstance(children, list) else []


def _words(node: object, depth: int) -> str:
    """All the text below a node."""
    if isinstance(node, str):
        return _text(node)
    if not isinstance(node, dict) or depth > _DEEPEST:
        return ""
    return "".join(_words(child, depth + 1) for child in _children(cast(Node, node)))


def _text(markup: str) -> str:
    """The text of a piece of the trainer's HTML."""
    return html.unescape(_TAG.sub("", markup))
