"""The side of the library that plugs into tinker-cookbook: the only part that imports it."""

from __future__ import annotations

from tinker_episodes.cookbook.builder import EpisodeDatasetBuilder
from tinker_episodes.cookbook.dataset import EpisodeDataset
from tinker_episodes.cookbook.env import EpisodeEnv
from tinker_episodes.cookbook.group import EpisodeGroupBuilder
from tinker_episodes.cookbook.message_env import EpisodeMessageEnv

__all__ = [
    "EpisodeDataset",
    "EpisodeDatasetBuilder",
    "EpisodeEnv",
    "EpisodeGroupBuilder",
    "EpisodeMessageEnv",
]
