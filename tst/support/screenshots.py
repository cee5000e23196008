"""The pictures of the explorer in docs/: each page in headless Chromium, over the demo's real run
and the support desk of `explorer_runs.py`.

    python tst/support/screenshots.py [run=runs/demo-…] [to=docs] [width=1280] [every=True]
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import chz
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tst"))

from support.explorer import served  # noqa: E402
from support.explorer_runs import BUNDLE, desk_index  # noqa: E402

Scheme = Literal["light", "dark"]
MOST_BYTES = 200_000
HEIGHT = 800
STEP = 6
"""Of the run `careful` that is shown: the one before its resume, half learned."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A page to show."""

    name: str
    path: Callable[[Page, str], str]
    """Its address, found by asking the explorer at a URL."""
    schemes: tuple[Scheme, ...]
    """The ones that docs/ has."""
    ready: str
    """What is there when the page is drawn."""
    of_demo: bool = False


def _asked(page: Page, url: str, path: str, **query: Any) -> Any:
    return page.request.get(f"{url}/api/{path}?{urlencode(query)}").json()


def _demo_run(page: Page, url: str) -> str:
    return f"/runs/{_asked(page, url, 'runs')['runs'][0]['name']}"


def _group(page: Page, url: str) -> str:
    step = _asked(page, url, "groups", run="careful", split="train", step=STEP)
    return str(step["groups"][0]["where"]["group"])


def _rollouts(page: Page, url: str) -> list[str]:
    """The group's rollouts that have a reward, the best first."""
    rows = _asked(page, url, "group", key=_group(page, url))["rollouts"]
    scored = [row for row in rows if row["reward"] is not None]
    return [row["key"] for row in sorted(scored, key=lambda row: -row["reward"])]


def _compared(page: Page, url: str) -> str:
    best, *_, worst = _rollouts(page, url)
    return "/compare?" + urlencode({"a": best, "b": worst})


def _task(page: Page, url: str) -> str:
    where = {"bundle": BUNDLE.name, "task": "wrong-size", "run": "careful"}
    return "/task?" + urlencode(where)


PICTURES = (
    Picture("runs", lambda page, url: "/", ("light",), "tbody tr"),
    Picture("run", _demo_run, ("light", "dark"), "figure.chart", of_demo=True),
    Picture("step", lambda page, url: f"/runs/careful/train/{STEP}", ("light",), "tbody tr"),
    Picture("group", lambda page, url: f"/groups/{_group(page, url)}", ("light",), "tbody tr"),
    Picture(
        "rollout", lambda page, url: f"/rollouts/{_rollouts(page, url)[0]}", ("light",), "article"
    ),
    Picture(
        "tokens",
        lambda page, url: f"/rollouts/{_rollouts(page, url)[0]}?tokens=1",
        ("dark",),
        "article .token",
    ),
    Picture("compare", _compared, ("dark",), ".pair.first:focus"),
    Picture("task", _task, ("light",), "figure.chart"),
    Picture("search", lambda page, url: "/search?q=order+cancel*&low=1", ("light",), ".results li"),
)


def main(run: str = "", to: str = "docs", width: int = 1280, every: bool = False) -> None:
    """Take the pictures.

    Args:
        run: The log path of a demo that ran already; without it, one is run.
        to: The folder for `explorer-<page>-<scheme>.png`.
        width: Of the browser's window, in pixels.
        every: Each page in both schemes, not those alone that docs/ has.
    """
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no Chromium: install Debian's package `chromium`, or set CHROMIUM")
    folder = Path(to).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        work = Path(tempfile.gettempdir()) / "runs-of-pictures"  # pages show it
        work.mkdir()
        stack.callback(shutil.rmtree, work)
        demo = Path(run).absolute() if run else _demo(work / "runs")
        desk_index(work, steps=24, size=8)
        urls = {False: stack.enter_context(served(work)), True: stack.enter_context(served(demo))}
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        for picture in PICTURES:
            for scheme in ("light", "dark") if every else picture.schemes:
                file = folder / f"explorer-{picture.name}-{scheme}.png"
                file.write_bytes(_taken(browser, picture, urls[picture.of_demo], scheme, width))
                print(f"{file}: {file.stat().st_size // 1000} kB", flush=True)


def _demo(folder: Path) -> Path:
    """Run the demo; its log path."""
    command = [sys.executable, str(ROOT / "examples/demo/demo.py"), f"folder={folder}"]
    subprocess.run(command, check=True)
    return next(folder.glob("demo-*"))


def _taken(browser: Browser, picture: Picture, url: str, scheme: Scheme, width: int) -> bytes:
    """The page as a PNG of few colours."""
    page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
    try:
        page.goto(url + picture.path(page, url))
        page.locator(picture.ready).first.wait_for()
        page.locator("#live.live").wait_for()
        shown = page.locator(".page").bounding_box() or {"y": 0, "height": HEIGHT}
        height = min(HEIGHT, int(shown["y"] + shown["height"]) + 24)
        clip: Any = {"x": 0, "y": 0, "width": width, "height": height}
        taken = Image.open(io.BytesIO(page.screenshot(clip=clip)))
    finally:
        page.close()
    written = io.BytesIO()
    few = taken.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1)
    few.save(written, "PNG", optimize=True)
    if len(written.getvalue()) > MOST_BYTES:
        sys.exit(f"{picture.name}: {len(written.getvalue()):,} bytes are more than {MOST_BYTES:,}")
    return written.getvalue()


if __name__ == "__main__":
    chz.entrypoint(main, allow_hyphens=True)
