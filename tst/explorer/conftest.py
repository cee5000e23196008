"""The real app behind a real server, in Debian's Chromium, over indexes that were really filed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.explorer import Serve, TestClient, served
from support.explorer_runs import desk_index

from tinker_episodes.explorer.app import create_app
from tinker_episodes.explorer.config import Explore
from tinker_episodes.explorer.sources import sources_of

TST = Path(__file__).parents[1]
PATIENCE_MS = 30_000
"""How long the driver waits for what must come, on a busy machine too."""
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Serves folders for the length of a test."""
    with ExitStack() as stack:
        yield lambda path, **more: stack.enter_context(served(path, **more))


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of two runs of a support desk."""
    folder = tmp_path_factory.mktemp("desk")
    desk_index(folder, steps=8, size=4)
    return folder


@pytest.fixture(scope="session")
def desk_url(desk: Path) -> Iterator[str]:
    with served(desk) as url:
        yield url


@pytest.fixture
def client(desk: Path) -> Iterator[TestClient]:
    """The app over the support desk, without a browser."""
    app = create_app(sources_of(Explore(path=str(desk))))
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        yield client


# ---------------------------------------------------------------- the browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: install Debian's package `chromium`, or set CHROMIUM")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Seen:
    """What a page did that it must not do."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.elsewhere: list[str] = []


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page. It fails the test where a script of it fails, or where it asks another host."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-US")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, seen = context.new_page(), Seen()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: seen.faults.append(str(error)))
    page.on("console", lambda said: _note_fault(said, seen))
    page.on("dialog", lambda dialog: (seen.faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda asked: _note(asked.url, seen))
    page.seen = seen
    yield page
    context.close()
    assert seen.elsewhere == [], "the page asks elsewhere"
    assert seen.faults == [], "the page has faults"


def _note_fault(said: Any, seen: Seen) -> None:
    """A page that outlives its server tries to reach it again: that is no fault."""
    if said.type == "error" and "ERR_CONNECTION_REFUSED" not in said.text:
        seen.faults.append(said.text)


def _note(url: str, seen: Seen) -> None:
    if not url.startswith(("http://127.0.0.1:", "blob:http://127.0.0.1:")):
        seen.elsewhere.append(url)


# ---------------------------------------------------------------- real runs


@pytest.fixture(scope="session")
def loopback_url() -> Iterator[str]:
    """One loopback server for the runs of this folder."""
    from tinker_episodes import loopback

    with loopback.serve(threads=1) as url:
        yield url


@pytest.fixture(scope="session")
def train(loopback_url: str) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts a training run as a process: `module` is one of tst/support with a main."""

    def start(module: str, log_path: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TST), *_given_path()])}
        environment["TINKER_API_KEY"] = "tml-loopback"
        command = [sys.executable, "-m", f"support.{module}", loopback_url, str(log_path)]
        return subprocess.Popen(
            command, env=environment, cwd=TST, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    return start


def _given_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
