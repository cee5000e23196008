"""The tinker tier: the real cookbook with a scripted policy and real tokenizers, no server."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what third parties warn of when they are imported
    from tinker_cookbook.rl import train  # noqa: F401 - imports all of the host

from support.scripted import Counter

from tinker_episodes import find_bundle, loopback
from tinker_episodes.cookbook.rendering import Rendering, rendering_of
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer


@pytest.fixture(scope="session")
def rendering() -> Rendering:
    """`qwen3_instruct` on the shipped tokenizer."""
    return rendering_of(loopback.model_name(), "qwen3_instruct")


@pytest.fixture(autouse=True)
def _counted_from_zero() -> None:
    Counter.opened = Counter.closed = 0


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Callable[[], IndexReader]]:
    """Reads the index beside `tmp_path / "run"`, once all is written."""
    readers: list[IndexReader] = []
    url = f"sqlite:///{tmp_path / 'episodes.db'}"

    def reader() -> IndexReader:
        index_writer(url).close()
        readers.append(IndexReader(url))
        return readers[-1]

    yield reader
    index_writer(url).close()
    for opened in readers:
        opened.close()


@pytest.fixture(scope="session")
def number_search() -> Any:
    """The shipped bundle."""
    return find_bundle("number_search")
