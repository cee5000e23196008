"""Pages of runs that the trainer alone logged, shaped as those of the run index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinker_episodes.explorer.asking import Asked, AskingError, found, shallow
from tinker_episodes.explorer.hostlog.reader import HostReader
from tinker_episodes.index.reading import GroupRow, GroupsPage

_NUMBERS = ("size", "scored", "mean", "low", "high", "spread", "turns", "sampled_tokens")
_MOST = 500
"""Groups of a step that are shown."""


def host_groups(groups: Sequence[GroupRow], asked: Asked) -> GroupsPage:
    """The groups of a step, sorted and filtered."""
    only, task = asked.text("only"), (asked.text("task") or "").lower()
    kept = [group for group in groups if task in group.where.task.lower()]
    if only in ("varied", "constant"):
        kept = [group for group in kept if group.constant is (only == "constant")]
    elif only is not None:
        kept = []
    sort = asked.text("sort") or "spread"
    if sort == "task":
        kept.sort(key=lambda group: group.where.task)
    elif sort in _NUMBERS:
        kept.sort(key=lambda group: _number(group, sort))
    elif sort not in ("cut", "errors", "failed", "tool_errors", "constant"):
        raise AskingError(f"sort: one of task, {', '.join(_NUMBERS)} would be right")
    if asked.text("order") != "up":
        kept.reverse()
    return GroupsPage(tuple(kept[:_MOST]), None, ())


def _number(group: GroupRow, name: str) -> float:
    value = getattr(group, name)  # a name out of _NUMBERS
    return float("-inf") if value is None else value


def host_rollout(host: HostReader, key: str) -> dict[str, Any]:
    """A rollout, with its turns in numbers and what was logged of it in place of a transcript."""
    page = found(host.rollout(key), f"rollout {key}")
    detail = found(host.detail(key), f"rollout {key}")
    return shallow(page) | {"kind": "log", "log": shallow(detail)}
