"""An environment that talks, and short ways to open an episode and make its calls."""

from __future__ import annotations

import base64
from typing import Any

from tinker_episodes import (
    Call,
    CallResult,
    Environment,
    Episode,
    Image,
    Message,
    Task,
    scorer,
    tool,
)

TASK = Task.of("t", "Go.")
PIXEL = Image(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
    ),
    "image/png",
)
"""One red pixel."""


class Speaker(Environment):
    """Keeps what it said. The reward is how much that is."""

    closes = 0

    def open(self, task: Task) -> None:
        self.log: list[Any] = []

    @tool
    def say(self, text: str) -> str:
        self.log.append(text)
        return f"said {text}"

    @scorer
    def said(self) -> float:
        return len(self.log)

    def close(self) -> None:
        self.closes += 1


def say(text: str, id: str | None = None) -> Call:
    return Call("say", {"text": text}, id=id)


async def opened(environment: type[Environment], task: Task = TASK, **more: Any) -> Episode:
    episode = Episode(environment, task, **more)
    await episode.open()
    return episode


async def run_calls(
    episode: Episode, *calls: Call, limit: int | None = None
) -> tuple[CallResult, ...]:
    """The results of a reply that makes these calls."""
    episode.record(Message("assistant", "", calls))
    return await episode.run_calls(limit=limit)


def contents(results: tuple[CallResult, ...]) -> list[Any]:
    return [result.content for result in results]
