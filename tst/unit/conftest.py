"""The unit tier runs without the cookbook: no test of it may import the host or torch.

Small things that many tests build: a bundle folder, an index, a way to wait on threads.
"""

from __future__ import annotations

import asyncio
import importlib.abc
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tinker_episodes.index import IndexWriter
from tinker_episodes.index.reading import IndexReader

FORBIDDEN = ("tinker_cookbook", "tinker", "torch", "transformers")

# The same examples each time: a red run is a change's own fault.
settings.register_profile("unit", deadline=None, derandomize=True, database=None)
settings.load_profile("unit")

ENVIRONMENT = '''
"""A counter."""

from pydantic import BaseModel

from tinker_episodes import Environment, scorer, tool


class Params(BaseModel, extra="forbid"):
    target: int


class Counter(Environment):
    Params = Params

    def open(self, task):
        self.count = 0

    @tool
    def add(self, number: int) -> int:
        """Add a number."""
        self.count += number
        return self.count

    @scorer
    def reached(self) -> bool:
        return self.count == self.task.params.target
'''

FORM = """
name = "counter"
version = "3"
environment = "environment:Counter"
"""

TASKS = """
{"id": "a", "prompt": "Reach 1.", "params": {"target": 1}, "tags": ["easy"]}
{"id": "b", "prompt": "Reach 2.", "params": {"target": 2}, "tags": ["easy", "even"]}
{"id": "c", "prompt": "Reach 3.", "params": {"target": 3}}
"""


class _Guard(importlib.abc.MetaPathFinder):
    """Refuses the packages that this tier does without."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"the unit tier runs without {fullname}")


@pytest.fixture(autouse=True)
def _without_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [_Guard(), *sys.meta_path])


@pytest.fixture
def write_bundle(tmp_path: Path) -> Callable[..., Path]:
    """Writes a bundle folder: the counter's files, with others over them; `None` leaves one out."""

    def write(name: str = "counter", /, **files: Any) -> Path:
        return _write(tmp_path / name, files)

    return write


def _write(folder: Path, files: dict[str, Any]) -> Path:
    whole = {
        "bundle.toml": FORM,
        "environment.py": ENVIRONMENT,
        "tasks/train.jsonl": TASKS,
        **files.pop("files", {}),
    }
    assert not files, f"give files by path, as files={{...}}: {sorted(files)}"
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in whole.items():
        if content is None:
            continue
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            file.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where an index is to be made."""
    return f"sqlite:///{tmp_path / 'episodes.db'}"


@pytest.fixture
def writer(url: str) -> Iterator[IndexWriter]:
    writer = IndexWriter(url)
    yield writer
    writer.close()


@pytest.fixture
def reader(url: str, writer: IndexWriter) -> Iterator[Callable[[], IndexReader]]:
    """Opens the index to read."""
    opened: list[IndexReader] = []

    def read() -> IndexReader:
        opened.append(IndexReader(url))
        return opened[-1]

    yield read
    for one in opened:
        one.close()


@pytest.fixture
def reached() -> Callable[[threading.Event], Any]:
    """Awaits an event that a thread sets, without blocking the loop."""

    async def wait(event: threading.Event) -> None:
        assert await asyncio.to_thread(event.wait, 30), "the thread never came there"

    return wait


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that holds a thread back, and is set at the end whatever happens."""
    event = threading.Event()
    yield event
    event.set()
