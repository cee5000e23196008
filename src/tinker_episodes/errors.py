"""Every error that the library raises on purpose.

EpisodesError
├─ BundleError (ValueError)          a bundle that can't be used, with all of its problems
├─ ConfigError (ValueError)          a builder or command that names something that isn't there
├─ DefinitionError (TypeError)       an environment class whose tools or scorers can't work
├─ ToolError (Exception)             raised by a tool, for the model to see
│  └─ ArgumentsError                 a call whose arguments don't fit the tool's schema
├─ UniverseError (TypeError)         a write to shared data
├─ EpisodeClosed (RuntimeError)      a call that the episode's state does not allow
├─ EpisodeFailed (RuntimeError)      an author's code raised: the episode has no reward
└─ RunIndexError (RuntimeError)      the run index can't be read or written
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class EpisodesError(Exception):
    """The root of the library's errors."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong in a bundle: where it is, and what would be right."""

    file: str
    """The file, relative to the bundle."""
    place: str
    """A line (`line 3`) or a key (`evals.val.tasks`); empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.place}" if self.place else self.file
        return f"{where}: {self.message}"


class BundleError(EpisodesError, ValueError):
    """A bundle that can't be used. `problems` holds every fault that was found."""

    def __init__(self, bundle: str, problems: Sequence[Problem]) -> None:
        self.bundle = bundle
        self.problems = tuple(sorted(problems))
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"bundle {bundle}: {count}\n{lines}")

    def __reduce__(self) -> tuple[type[BundleError], tuple[str, tuple[Problem, ...]]]:
        return type(self), (self.bundle, self.problems)


class ConfigError(EpisodesError, ValueError):
    """A builder or command that names something that isn't there."""


class DefinitionError(EpisodesError, TypeError):
    """An environment class whose tools or scorers can't work."""


class ToolError(EpisodesError):
    """Raised by a tool: the model gets the message as the call's result."""


class ArgumentsError(ToolError):
    """A call whose arguments don't fit the tool's schema."""


class UniverseError(EpisodesError, TypeError):
    """A write to a record that episodes share."""


class EpisodeClosed(EpisodesError, RuntimeError):
    """A call that the episode's state does not allow."""


class EpisodeFailed(EpisodesError, RuntimeError):
    """An author's code raised, hung or gave no usable score: the episode has no reward."""


class RunIndexError(EpisodesError, RuntimeError):
    """The run index can't be read or written."""
