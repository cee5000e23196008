"""Trying a bundle: every task is opened once, scored as it stands, and closed.

It runs the bundle's code.
"""

from __future__ import annotations

import asyncio

from tinker_episodes.bundle.bundle import Bundle
from tinker_episodes.episode import Episode
from tinker_episodes.errors import ConfigError, EpisodesError, Problem


def check_bundle(bundle: Bundle, *, reward: str | None = None) -> list[Problem]:
    """The faults that opening and scoring an idle episode of every task shows."""
    return asyncio.run(_check(bundle, reward or bundle.reward))


async def _check(bundle: Bundle, reward: str | None) -> list[Problem]:
    problems: dict[str, Problem] = {}
    for id, task in bundle.tasks.items():
        try:
            episode = Episode(bundle.environment, task, data=bundle.universe, reward=reward)
            await episode.open()
            await episode.close()
        except ConfigError as error:
            problems.setdefault("reward", Problem("bundle.toml", "reward", str(error)))
        except EpisodesError as error:
            problems[f"task {id}"] = Problem("tasks", id, str(error))
    return list(problems.values())
