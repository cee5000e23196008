"""Agent tasks as reinforcement-learning datasets for tinker-cookbook.

Every name loads at its first use: importing the package costs next to nothing and pulls in neither
torch nor the cookbook.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tinker_episodes._version import __version__

if TYPE_CHECKING:
    from tinker_episodes.bundle import Bundle, Eval, find_bundle
    from tinker_episodes.cookbook import EpisodeDatasetBuilder, EpisodeEnv
    from tinker_episodes.environment import Environment
    from tinker_episodes.episode import Episode
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
    from tinker_episodes.outcome import Cut, Outcome
    from tinker_episodes.scoring import Score, scorer
    from tinker_episodes.task import Prompt, Task
    from tinker_episodes.tools import tool
    from tinker_episodes.universe import Universe, UniverseData

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

_MODULES = {
    "bundle": ("Bundle", "Eval", "find_bundle"),
    "cookbook": ("EpisodeDatasetBuilder", "EpisodeEnv"),
    "environment": ("Environment",),
    "episode": ("Episode",),
    "errors": (
        "ArgumentsError",
        "BundleError",
        "ConfigError",
        "DefinitionError",
        "EpisodeClosed",
        "EpisodeFailed",
        "EpisodesError",
        "Problem",
        "RunIndexError",
        "ToolError",
        "UniverseError",
    ),
    "outcome": ("Cut", "Outcome"),
    "message": ("Call", "CallResult", "Image", "Message", "Text", "Thinking"),
    "scoring": ("Score", "scorer"),
    "task": ("Prompt", "Task"),
    "tools": ("tool",),
    "universe": ("Universe", "UniverseData"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
