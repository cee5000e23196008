"""Files of small bundle folders, and the problems that are found in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tinker_episodes import BundleError
from tinker_episodes.bundle import read_bundle

Write = Callable[..., Path]
"""The fixture `write_bundle`."""

ENVIRONMENT = """
from tinker_episodes import Environment, scorer, tool

class Plain(Environment):
    @tool
    def look(self) -> str:
        return ""

    @scorer
    def found(self) -> bool:
        return True
"""
FORM = 'name = "b"\nenvironment = "environment:Plain"\n'
PLAIN = {"environment.py": ENVIRONMENT, "bundle.toml": FORM}

EVALS = 'name = "counter"\nenvironment = "environment:Counter"\n[evals]\n'
"""A form that ends where its evals begin."""


def problems_of(folder: Path) -> list[str]:
    with pytest.raises(BundleError) as caught:
        read_bundle(folder)
    return [str(problem) for problem in caught.value.problems]
