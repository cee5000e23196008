"""A run of the trainer on one of its own environments: what the explorer shows of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.explorer import finished, served, step_rows


@pytest.fixture(scope="module")
def sums(
    tmp_path_factory: pytest.TempPathFactory, train: Callable[..., subprocess.Popen[bytes]]
) -> Path:
    """The log path of three steps of sums, with log trees of two groups a batch."""
    log_path = tmp_path_factory.mktemp("any") / "sums"
    finished(train("host_run", log_path))
    return log_path


@pytest.fixture(scope="module")
def url(sums: Path) -> Iterator[str]:
    with served(sums) as address:
        yield address


def test_its_runs_and_curves_are_shown(page: Page, url: str) -> None:
    page.goto(url)
    row = page.get_by_role("row", name="sums")
    expect(row).to_contain_text("a cookbook run without a bundle")
    page.get_by_role("link", name="sums", exact=True).click()
    rows = step_rows(page.request.get(f"{url}/api/steps?run=sums").json())
    train = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in train] == [0, 1, 2]
    assert all(row["rollouts"] == 12 and row["groups"] == 3 for row in train)
    assert {row["step"] for row in rows if row["split"] == "eval"} >= {0, 2}
    expect(page.get_by_role("link", name="train 2", exact=True)).to_be_visible()
    expect(page.locator("figure.chart").first).to_contain_text("Reward")
    page.get_by_role("link", name="Show what stands in metrics.jsonl").click()
    expect(page.locator(".trainer figure.chart", has_text="progress/batch")).to_be_visible()


def test_its_numbers_are_the_trainers_own(page: Page, url: str) -> None:
    metrics = page.request.get(f"{url}/api/metrics?run=sums").json()["rows"]
    logged = {row["step"]: row["metrics"] for row in metrics}
    for row in step_rows(page.request.get(f"{url}/api/steps?run=sums").json()):
        if row["split"] == "train":
            assert row["reward"] == pytest.approx(logged[row["step"]]["env/all/reward/total"])
            assert row["turns"] == logged[row["step"]]["env/all/turns_per_episode"]


def test_its_groups_and_rollouts_are_shown_as_far_as_they_go(page: Page, url: str) -> None:
    page.goto(f"{url}/runs/sums/train/1?sort=task&order=up")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.locator("tbody [data-row]").first.click()
    expect(page.locator("tbody").first.locator("tr")).to_have_count(4)
    expect(page.get_by_text("What the trainer logged of this group")).to_be_visible()
    expect(page.locator("article.prompt").first).to_contain_text(
        "What is 1 + 0? <b onclick=alert(1)>Answer</b> & be brief."
    )
    expect(page.locator("article.reply").first).to_be_visible()
    page.get_by_role("link", name=re.compile("^1 ·")).click()
    expect(page.get_by_role("heading", name="Turns")).to_be_visible()
    expect(page.locator(".host-rollout tbody").first.locator("tr")).to_have_count(1)
    expect(page.locator(".host-rollout")).to_contain_text("correct")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("rollout 2", exact=True)).to_be_visible()


def test_it_stands_beside_runs_of_an_index(page: Page, sums: Path, desk: Path) -> None:
    link = desk / "sums"
    link.symlink_to(sums)
    try:
        with served(desk) as url:
            page.goto(url)
            expect(page.locator("tbody [data-row]")).to_have_text(["baseline", "careful", "sums"])
            page.goto(f"{url}/runs/careful?with=sums")
            expect(
                page.locator("figure.chart").first.locator(".series.train polyline")
            ).to_have_count(2)
    finally:
        link.unlink()
