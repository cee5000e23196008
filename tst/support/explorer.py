"""The explorer behind a real server, for tests with and without a browser."""

from __future__ import annotations

import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinker_episodes.explorer.app import create_app
from tinker_episodes.explorer.config import Explore
from tinker_episodes.explorer.serve import ExplorerServer, listen
from tinker_episodes.explorer.sources import sources_of

with warnings.catch_warnings():
    # It asks for httpx2, which nothing here uses.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

__all__ = ["Serve", "TestClient", "finished", "served"]

EVERY_S = 0.05
"""How often the servers of the tests look for changes."""

Serve = Callable[..., str]


@contextmanager
def served(path: Path | str, **more: Any) -> Iterator[str]:
    """The explorer over `path` on a port of its own; its address."""
    config = Explore(path=str(path), index=more.pop("index", None))
    app = create_app(sources_of(config), every_s=EVERY_S, **more)
    with listen("127.0.0.1", 0) as socket:
        server = ExplorerServer(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{socket.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server does not stop"


def step_rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of a run's steps, row by row."""
    columns = answer["numbers"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for a run to end well."""
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said.decode()[-3000:]
