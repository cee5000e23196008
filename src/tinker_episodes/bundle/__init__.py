"""A folder of tasks, evals, an environment class and its data, or the same made in code."""

from __future__ import annotations

from tinker_episodes.bundle.bundle import Bundle, Eval
from tinker_episodes.bundle.finding import find_bundle, installed_bundles
from tinker_episodes.bundle.reading import read_bundle

__all__ = ["Bundle", "Eval", "find_bundle", "installed_bundles", "read_bundle"]
