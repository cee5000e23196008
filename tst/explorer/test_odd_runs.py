"""Runs at the edges: no page is wider than the screen, and all that it shows can be reached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from support.explorer import Serve, served
from support.explorer_runs import file_groups
from support.odd_runs import LONG_NAME, groups, many_groups, odd_index

STEPS = 750
GROUPS = 205


@pytest.fixture(scope="module")
def odd_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("odd")
    odd_index(folder, steps=STEPS, amount=GROUPS)
    with served(folder) as url:
        yield url


PATHS = (
    "/", "/runs/long", "/runs/huge", "/runs/tiny", "/runs/negative", "/runs/failing", "/runs/alone",
    "/runs/scorers?with=huge&with=long", "/runs/huge/train/3", "/runs/failing/train/0",
    "/groups/g-crowd-0", "/groups/g-scorers-1", "/rollouts/scorers-1-2", "/rollouts/failing-0-0",
    "/rollouts/huge-3-1", "/compare?a=scorers-1-0&b=scorers-1-2", "/search?q=word",
    "/task?bundle=shop_desk&task=sum", f"/runs/{quote(LONG_NAME)}",
    f"/runs/{quote(LONG_NAME)}/train/0", f"/groups/g-{quote(LONG_NAME)}-0",
    f"/rollouts/{quote(LONG_NAME)}-0-1",
)  # fmt: skip


@pytest.mark.parametrize("width", [1000, 1440])
def test_no_page_is_wider_than_the_screen(page: Page, odd_url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    wide: dict[str, int] = {}
    for path in PATHS:
        page.goto(odd_url + path)
        expect(page.locator("h1")).to_have_count(1)
        found = page.evaluate("document.documentElement.scrollWidth")
        if found > width:
            wide[path] = found
    assert wide == {}


def test_very_large_and_very_small_rewards_are_told(page: Page, odd_url: str) -> None:
    page.goto(f"{odd_url}/groups/g-huge-3")
    cells = page.locator("tbody td:nth-child(2)")
    expect(cells).to_have_text(["3e9", "-1e9", "370k"])
    page.goto(f"{odd_url}/groups/g-tiny-0")
    expect(cells).to_have_text(["0.000", "1e-4", "0.500"])


def test_axis_of_shares_names_each_line_once(page: Page, odd_url: str) -> None:
    page.goto(f"{odd_url}/runs/alone")
    axis = page.locator('figure[data-key="Cut"] g.tick text')
    expect(axis).to_have_text(["0 %", "0.5 %", "1 %", "1.5 %", "2 %"])


def test_hover_reads_the_same_step_in_charts_of_every_size(page: Page, odd_url: str) -> None:
    page.goto(f"{odd_url}/runs/long")
    wide = page.get_by_role("group", name=re.compile("^Reward"))
    wide.focus()
    for _ in range(7):
        page.keyboard.press("ArrowLeft")
    step = STEPS - 7
    rows = page.request.get(f"{odd_url}/api/steps?run=long").json()["numbers"]
    at = rows["step"].index(step)
    for name, values in (("Reward", "reward"), ("Spread inside groups", "spread_inside")):
        figure = page.locator(f'figure[data-key="{name}"]')
        expect(figure.locator(".at")).to_have_text(f"step {step}")
        shown = float(figure.locator(".legend-item b").inner_text())
        assert shown == pytest.approx(rows[values][at], abs=0.0006)


def test_run_in_which_all_fail_says_so(page: Page, odd_url: str) -> None:
    page.goto(f"{odd_url}/runs/failing")
    expect(page.locator('figure[data-key="Reward"]')).to_contain_text("No values yet.")
    expect(page.locator('figure[data-key="Failed"] .legend b')).to_have_text("100 %")


def test_all_of_forty_scorers_are_in_the_table_that_scrolls_in_itself(
    page: Page, odd_url: str
) -> None:
    page.set_viewport_size({"width": 1000, "height": 800})
    page.goto(f"{odd_url}/groups/g-scorers-1")
    expect(page.locator("thead th")).to_have_count(9 + 40)
    pick = page.get_by_role("button", name="pick rollout 2 to compare")
    for left in (0, 9_999):
        page.locator(".scroller").evaluate("(node, left) => { node.scrollLeft = left }", left)
        box = pick.bounding_box()
        assert box is not None and 0 < box["x"] < 1000
    pick.click()
    expect(pick).to_have_attribute("aria-pressed", "true")


def test_forty_scorers_leave_room_for_what_is_compared(page: Page, odd_url: str) -> None:
    page.goto(f"{odd_url}/compare?a=scorers-1-0&b=scorers-1-2")
    side = page.locator(".side").first
    expect(side).to_contain_text("and 34 more")
    box = side.bounding_box()
    assert box is not None and box["height"] < 200


def test_message_that_forty_scorers_cite_names_some_and_folds_the_rest(
    page: Page, odd_url: str
) -> None:
    page.goto(f"{odd_url}/rollouts/scorers-1-2")
    message = page.locator("article#m1")
    expect(message.locator("a[href^='#score-']:visible")).to_have_count(8)
    message.get_by_text("and of 32 more scorers").click()
    expect(message.locator("a[href^='#score-']:visible")).to_have_count(40)


def test_further_groups_open_at_their_top_and_back_leads_to_the_first(
    page: Page, odd_url: str
) -> None:
    page.goto(f"{odd_url}/runs/wide/train/0?sort=task&order=up")
    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text("task-00000")
    page.get_by_role("link", name="More groups").click()
    expect(rows.first).to_contain_text("task-00100")
    assert page.evaluate("scrollY") == 0
    page.get_by_role("link", name="More groups").click()
    expect(rows).to_have_count(GROUPS - 200)
    page.go_back()
    expect(rows.first).to_contain_text("task-00100")
    page.go_back()
    expect(rows.first).to_contain_text("task-00000")


def test_task_of_many_steps_says_which_are_shown(page: Page, odd_url: str) -> None:
    page.goto(f"{odd_url}/task?bundle=shop_desk&task=walk&run=long")
    expect(page.locator("dl.facts")).to_contain_text("0–199, of more")
    page.get_by_role("link", name="Later steps").click()
    expect(page.locator("dl.facts")).to_contain_text("200–399, of more")


def test_ninth_run_that_is_laid_over_has_a_colour(page: Page, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'episodes.db'}"
    for at in range(9):
        rows = [(step, "once", [at / 9, step / 3]) for step in range(3)]
        file_groups(url, groups(tmp_path, f"run{at}", iter(rows)))
    others = "&".join(f"with=run{at}" for at in range(1, 9))
    with served(tmp_path) as address:
        page.goto(f"{address}/runs/run0?{others}")
        lines = page.locator('figure[data-key="Reward"] .series polyline')
        expect(lines).to_have_count(9)
        strokes = lines.evaluate_all("nodes => nodes.map((n) => getComputedStyle(n).stroke)")
    assert "none" not in strokes


def test_half_typed_search_keeps_its_form(page: Page, odd_url: str) -> None:
    page.goto(f"{odd_url}/search")
    field = page.get_by_role("searchbox", name="Text")
    field.press_sequentially('"')
    expect(page.get_by_role("heading", name="This can't be searched for.")).to_be_visible()
    expect(field).to_be_focused()
    field.press_sequentially('word alone"')
    expect(page.locator(".results li")).to_have_count(1)
    expect(field).to_have_value('"word alone"')
    page.seen.faults = [fault for fault in page.seen.faults if "400" not in fault]


def test_reader_of_further_groups_stays_there_while_groups_are_filed(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'episodes.db'}"
    file_groups(url, many_groups(tmp_path, 150))
    page.goto(f"{serve(tmp_path)}/runs/wide/train/0?sort=task&order=up")
    page.get_by_role("link", name="More groups").click()
    row = page.get_by_role("link", name="task-00130")
    row.focus()
    row.scroll_into_view_if_needed()
    before = row.bounding_box()
    file_groups(url, groups(tmp_path, "wide", iter([(0, "task-00000-more", [0.5])]), first=150))
    expect(page.locator("dl.facts")).to_contain_text("151")
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(row).to_be_focused()
    assert row.bounding_box() == before


def test_run_among_very_many_offers_the_latest_and_leads_to_the_others(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'episodes.db'}"
    for at in range(45):
        file_groups(url, groups(tmp_path, f"run{at}", iter([(0, "once", [0.5])])))
    page.goto(f"{serve(tmp_path)}/runs/run44?with=run1")
    chips = page.get_by_role("group", name="Runs to lay over this one")
    expect(chips.get_by_role("button")).to_have_count(41)
    expect(chips.get_by_role("button", name="run1", exact=True)).to_be_visible()
    chips.get_by_role("link", name="3 more").click()
    expect(page.get_by_role("row", name="run0")).to_be_visible()
