"""Live updates: the page follows what is filed, and the reader stays where they were."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support.explorer import Serve, finished, served
from support.explorer_runs import desk_groups, desk_index, file_groups

from tinker_episodes.index import Attempt


def file_steps(folder: Path, first: int, last: int, run: str = "careful") -> None:
    """File steps of a run as if it went on."""
    attempt = Attempt(str(folder / run), f"{run}-{first}", first)
    file_groups(f"sqlite:///{folder / 'episodes.db'}", desk_groups(attempt, last, 3, first))


def test_pages_follow_a_real_training_run_from_before_it_began(
    page: Page, serve: Serve, tmp_path: Path, train: Callable[..., subprocess.Popen[bytes]]
) -> None:
    url = serve(tmp_path)
    page.goto(url)
    expect(page.get_by_role("heading", name="There is no run yet.")).to_be_visible()
    training = train("training", tmp_path / "first")
    expect(page.get_by_role("row", name="first")).to_be_visible(timeout=120_000)
    page.get_by_role("link", name="first", exact=True).click()
    expect(page.get_by_role("link", name="train 2", exact=True)).to_be_visible(timeout=120_000)
    finished(training)
    row = page.get_by_role("row", name="train 2")
    expect(row.locator("td").nth(2)).to_have_text("6")  # rollouts
    page.get_by_role("link", name="train 2", exact=True).click()
    page.locator("tbody [data-row]").first.click()
    expect(page).to_have_url(re.compile(r"/groups/"))
    page.get_by_role("link", name=re.compile("^1 ·")).click()
    expect(page.locator("article.reply").first).to_be_visible()
    expect(page.locator(".reward-card")).to_contain_text("It was trained with this reward.")
    page.get_by_role("switch", name="Tokens").click()
    expect(page.locator("article .token").first).to_have_class(re.compile(r"token p\d"))


def test_a_step_that_is_filed_appears_and_the_reader_stays_in_place(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    desk_index(tmp_path, steps=4, size=3)
    page.goto(f"{serve(tmp_path)}/runs/careful")
    step = page.get_by_role("link", name="train 1", exact=True)
    step.focus()
    step.scroll_into_view_if_needed()
    page.evaluate("document.querySelector('table').dataset.mine = 'kept'")
    place = step.bounding_box()
    scroll = page.evaluate("scrollY")
    file_steps(tmp_path, 4, 5)
    expect(page.get_by_role("link", name="train 4", exact=True)).to_have_count(1)
    expect(page.locator("table[data-mine]")).to_have_count(0)  # the page was drawn over
    expect(step).to_be_focused()
    now = step.bounding_box()
    assert place is not None and now is not None
    assert page.evaluate("scrollY") >= scroll


def test_open_folds_and_typed_text_stay_when_a_page_updates(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    desk_index(tmp_path, steps=4, size=3)
    page.goto(f"{serve(tmp_path)}/runs/careful/train/3")
    task = page.get_by_role("searchbox", name="task")
    task.fill("half a wo")
    file_steps(tmp_path, 3, 4)
    expect(page.locator("tbody tr").first).to_be_visible()
    expect(page.locator("dl.facts")).to_contain_text("18")  # rollouts of the attempt that stands
    expect(task).to_be_focused()
    expect(task).to_have_value("half a wo")


def test_many_changes_are_one_update_and_a_lost_connection_is_said(
    page: Page, desk: Path, browser: Any
) -> None:
    with served(desk) as url:
        page.goto(url)
        expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#live")).to_have_text("connection lost")
    expect(page.get_by_role("row", name="careful")).to_be_visible()
    page.get_by_role("link", name="careful", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The explorer does not answer")
    page.seen.faults = [fault for fault in page.seen.faults if "ERR_" not in fault]


def test_the_token_of_the_address_goes_along_and_out_of_sight(
    page: Page, serve: Serve, desk: Path
) -> None:
    url = serve(desk, token="a-token-of-24-characters")
    page.goto(url)
    expect(page.get_by_role("alert")).to_contain_text("Open the address that the explorer printed")
    page.seen.faults.clear()
    page.goto(f"{url}/runs/careful#token=a-token-of-24-characters")
    page.reload()
    expect(page.get_by_role("heading", name="careful", level=1)).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    assert page.url == f"{url}/runs/careful"


@pytest.mark.parametrize("path", ["/", "/runs/careful"])
def test_an_index_that_appears_later_is_taken_up(
    page: Page, serve: Serve, tmp_path: Path, path: str
) -> None:
    page.goto(f"{serve(tmp_path)}{path}")
    expect(page.locator(".state")).to_be_visible()
    desk_index(tmp_path, steps=2, size=2)
    expect(page.get_by_role("row").nth(1)).to_be_visible()
    expect(page.locator(".state")).to_have_count(0)
    page.seen.faults = [fault for fault in page.seen.faults if "404" not in fault]
