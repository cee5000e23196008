"""The explorer over a PostgreSQL server: it answers as over SQLite with the same rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from support import postgres
from support.explorer import TestClient, served
from support.explorer_runs import BUNDLE, PICTURE, WANTS, desk_groups, file_groups, prompt

from tinker_episodes.explorer.api import Api
from tinker_episodes.explorer.app import create_app
from tinker_episodes.explorer.config import Explore
from tinker_episodes.explorer.sources import sources_of
from tinker_episodes.index import Attempt, Group, Rollout, Split, Status

pytestmark = pytest.mark.skipif(
    postgres.programs() is None, reason="no PostgreSQL server is installed"
)
pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

STEPS, SIZE = 4, 4
TASK = WANTS[0][0]
GROUP, ROLLOUT = "gcareful0t0020", "rcareful0t00201"
ASKED = [
    "runs",
    "steps?run=careful",
    "steps?run=nowhere",
    "metrics?run=careful",
    "groups?run=careful&split=train&step=2",
    "groups?run=careful&split=eval&step=0&sort=task&order=up",
    "groups?run=careful&split=train&step=3&sort=mean&tag=hard&only=varied",
    "groups?run=careful&split=train&step=3&sort=cut&low=0.1&high=0.9",
    "groups?run=careful&split=train&step=1&attempt=1",
    "groups?run=careful&split=train&step=77",
    f"group?key={GROUP}",
    "group?key=nowhere",
    f"rollout?key={ROLLOUT}",
    f"tokens?key={ROLLOUT}",
    f"task?bundle=shop_desk&task={TASK}",
    f"task?bundle=shop_desk&task={TASK}&run=baseline",
    "search?q=order",
    "search?q=order+cancelled&run=careful&split=train&from=1&to=2",
    "search?q=%22two+weeks%22",
    "search?tool=find_order&tag=easy&low=0.5&high=1",
    "search?error=tool",
    "search?cut=any",
    "search?status=failed",
    "search?q=canc*",
    "search?q=nowhere+to+be+found",
    "search?low=much",
    "labels",
    f"image?hash={PICTURE.hash}",
    "image?hash=nowhere",
]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An index on SQLite and one on PostgreSQL, with the same rollouts of two runs."""
    file = tmp_path_factory.mktemp("both") / "episodes.db"
    with postgres.serve() as url:
        urls = {"sqlite": f"sqlite:///{file}", "postgres": url}
        attempts = [Attempt("/logs/baseline", "a", 0), Attempt("/logs/careful", "b", 0)]
        attempts.append(Attempt("/logs/careful", "c", STEPS // 2))
        groups = [*chain.from_iterable(map(play, attempts)), pictured(attempts[0])]
        for index in urls.values():
            file_groups(index, iter(groups))
        yield urls


def play(attempt: Attempt) -> Iterator[tuple[Group, list[Rollout]]]:
    return desk_groups(attempt, STEPS, SIZE, seed=ord(attempt.token))


def pictured(attempt: Attempt) -> tuple[Group, list[Rollout]]:
    """A group with a picture."""
    group = Group(attempt, "pictured", Split.TRAIN, STEPS, BUNDLE, "label", ())
    said = {"entries": [prompt("Read the label.")]}
    one = Rollout("seen", 0, Status.FINISHED, 1.0, transcript=said, images=(PICTURE,))
    return group, [one]


@pytest.fixture(scope="module")
def clients(urls: dict[str, str]) -> Iterator[dict[str, TestClient]]:
    apps = {name: create_app(sources_of(Explore(path=url))) for name, url in urls.items()}
    with (
        TestClient(apps["sqlite"], base_url="http://127.0.0.1:8765") as sqlite,
        TestClient(apps["postgres"], base_url="http://127.0.0.1:8765") as other,
    ):
        yield {"sqlite": sqlite, "postgres": other}


def answers(client: TestClient, asked: str) -> Iterator[tuple[int, Any]]:
    """What is answered, page by page, but for when and where the rollouts were filed."""
    paged, after = not asked.startswith("rollout"), ""  # whose `next` is its neighbour
    while after is not None:
        answer = client.get(f"/api/{asked}&after={quote(after)}" if after else f"/api/{asked}")
        if answer.headers["content-type"] != "application/json":
            yield answer.status_code, answer.content
            return
        body = answer.json()
        body.pop("place", None)
        for run in body.get("runs", ()):
            del run["active_at"]
        yield answer.status_code, body
        after = body.get("next") if paged else None


@pytest.mark.parametrize("asked", ASKED)
def test_both_answer_the_same(clients: dict[str, TestClient], asked: str) -> None:
    here, there = (list(answers(clients[name], asked)) for name in ("sqlite", "postgres"))
    assert here == there


def test_every_endpoint_is_asked(urls: dict[str, str]) -> None:
    with closing(sources_of(Explore(path=urls["sqlite"]))) as sources:
        named = {route.path.removeprefix("/") for route in Api(sources).routes()}
    assert {asked.partition("?")[0] for asked in ASKED} == named


def test_a_browser_goes_from_run_to_rollout(page: Page, urls: dict[str, str]) -> None:
    with served(urls["postgres"]) as url:
        page.goto(url)
        page.get_by_role("link", name="careful", exact=True).click()
        page.get_by_role("link", name="train 2", exact=True).click()
        page.locator(".page-step tbody a[data-row]").first.click()
        page.locator(".page-group tbody a[data-row]").first.click()
        expect(page.locator("article").first).to_contain_text("#W")
        page.goto(f"{url}/search?q=order")
        expect(page.locator(".results li")).to_have_count(30)
