"""Agent tasks as reinforcement-learning datasets for tinker-cookbook.

The names of the author's side are here at once; those of the cookbook's side load at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinker_episodes._version import __version__
from tinker_episodes.bundle import Bundle, Eval, find_bundle
from tinker_episodes.environment import Environment
from tinker_episodes.episode import Cut, Episode, Outcome
from tinker_episodes.errors import (
    ArgumentsError,
    BundleError,
    ConfigError,
    DefinitionError,
    EpisodeClosed,
    EpisodeFailed,
    EpisodesError,
    Problem,
    RunIndexError,
    ToolError,
    UniverseError,
)
from tinker_episodes.message import Call, CallResult, Image, Message, Text, Thinking
from tinker_episodes.scoring import Score, scorer
from tinker_episodes.task import Prompt, Task
from tinker_episodes.tools import tool
from tinker_episodes.universe import Universe, UniverseData

if TYPE_CHECKING:
    from tinker_episodes.cookbook import EpisodeDatasetBuilder, EpisodeEnv

__all__ = [
    "ArgumentsError",
    "Bundle",
    "BundleError",
    "Call",
    "CallResult",
    "ConfigError",
    "Cut",
    "DefinitionError",
    "Environment",
    "Episode",
    "EpisodeClosed",
    "EpisodeDatasetBuilder",
    "EpisodeEnv",
    "EpisodeFailed",
    "EpisodesError",
    "Eval",
    "Image",
    "Message",
    "Outcome",
    "Problem",
    "Prompt",
    "RunIndexError",
    "Score",
    "Task",
    "Text",
    "Thinking",
    "ToolError",
    "Universe",
    "UniverseData",
    "UniverseError",
    "__version__",
    "find_bundle",
    "scorer",
    "tool",
]

_COOKBOOK = ("EpisodeDatasetBuilder", "EpisodeEnv")


def __getattr__(name: str) -> Any:
    if name in _COOKBOOK:
        from tinker_episodes import cookbook

        return getattr(cookbook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
