"""What the page asks for when it opens."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from support.explorer import TestClient

from tinker_episodes.explorer.app import STATIC


def test_all_modules_are_named_with_the_page(client: TestClient) -> None:
    named = re.findall("<([^>]+)>; rel=modulepreload", client.get("/runs/any").headers["link"])
    assert sorted(named) == sorted(
        f"/static/{file.relative_to(STATIC).as_posix()}" for file in STATIC.rglob("*.js")
    )
    assert [client.get(path).status_code for path in named] == [200] * len(named)


def test_each_module_is_asked_for_once(page: Page, desk_url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(desk_url)
    expect(page.locator("tbody tr")).to_have_count(2)
    modules = [url for url in asked if url.endswith(".js")]
    assert len(modules) == len(set(modules)) == len(list(STATIC.rglob("*.js")))
