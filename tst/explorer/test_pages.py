"""Each page in the browser: what it shows, where it leads; its address holds its state."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support.explorer import step_rows

RUN = "/runs/careful"
STEP = f"{RUN}/train/5"


def group_of(page: Page, url: str, step: int = 5, *, sort: str = "spread") -> str:
    """The key of the first group of a step of the run `careful`."""
    asked = f"{url}/api/groups?run=careful&split=train&step={step}&sort={sort}"
    return page.request.get(asked).json()["groups"][0]["where"]["group"]


def rollouts_of(page: Page, url: str, group: str) -> list[dict[str, Any]]:
    return page.request.get(f"{url}/api/group?key={group}").json()["rollouts"]


def test_runs_page_tells_of_each_run_and_leads_to_it(page: Page, desk_url: str) -> None:
    page.goto(desk_url)
    expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    row = page.get_by_role("row", name="careful")
    expect(row).to_contain_text("shop_desk 3")
    expect(row.locator("svg.sparkline")).to_be_visible()
    expect(row).to_contain_text("live")
    row.get_by_role("link", name="careful", exact=True).click()
    expect(page).to_have_url(f"{desk_url}{RUN}")
    expect(page.get_by_role("heading", name="careful", level=1)).to_be_visible()


def test_run_page_charts_rewards_scorers_endings_and_lengths(page: Page, desk_url: str) -> None:
    page.goto(desk_url + RUN)
    expect(page.locator("figure.chart").first).to_be_visible()
    for title in (
        "Reward", "Spread between groups", "Spread inside groups", "Constant reward", "resolved",
        "polite", "Cut, share of rollouts", "Cut: length", "Tool errors", "Format errors", "Turns",
        "Sampled tokens",
    ):  # fmt: skip
        assert page.get_by_role("group", name=re.compile(f"^{title}")).count() > 0, title
    reward = page.get_by_role("group", name=re.compile("^Reward"))
    expect(reward.locator(".series.train polyline")).to_have_count(1)
    expect(reward.locator(".series.eval circle")).to_have_count(2)  # evals before steps 0 and 4
    expect(reward.locator(".band")).to_have_count(1)


def test_hover_reads_the_values_of_a_step_in_all_charts(page: Page, desk_url: str) -> None:
    page.goto(desk_url + RUN)
    reward = page.get_by_role("group", name=re.compile("^Reward"))
    rows = step_rows(page.request.get(f"{desk_url}/api/steps?run=careful").json())
    value = next(row["reward"] for row in rows if row["split"] == "train" and row["step"] == 0)
    box = reward.locator("svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 48, box["y"] + 60)
    expect(reward.locator(".at")).to_have_text("step 0")
    expect(reward.locator(".legend-item.train b")).to_have_text(f"{value:.3f}".rstrip("0"))
    expect(page.locator("figure.chart .at").last).to_have_text("step 0")


def test_click_on_a_chart_opens_the_step(page: Page, desk_url: str) -> None:
    page.goto(desk_url + RUN)
    box = page.get_by_role("group", name=re.compile("^Reward")).locator("svg").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 16, box["y"] + 60)
    expect(page).to_have_url(f"{desk_url}{RUN}/train/7")


def test_runs_are_laid_over_each_other(page: Page, desk_url: str) -> None:
    page.goto(desk_url + RUN)
    page.get_by_role("button", name="baseline").click()
    expect(page).to_have_url(f"{desk_url}{RUN}?with=baseline")
    reward = page.get_by_role("group", name=re.compile("^Reward"))
    expect(reward.locator(".series.train polyline")).to_have_count(2)
    page.reload()
    expect(reward.locator(".series.train polyline")).to_have_count(2)


def test_step_shows_the_widest_groups_first_and_sorts_by_each_column(
    page: Page, desk_url: str
) -> None:
    page.goto(desk_url + STEP)
    spreads = page.locator("tbody tr td:nth-child(3)")
    expect(spreads).to_have_count(6)
    found = [float(value) for value in spreads.all_inner_texts()]
    assert found == sorted(found, reverse=True)
    expect(page.locator("tbody tr").first.locator("svg.dots circle").first).to_be_visible()
    page.get_by_role("link", name="mean").click()
    expect(page).to_have_url(f"{desk_url}{STEP}?sort=mean&order=down")
    expect(page.get_by_role("columnheader", name="mean")).to_have_attribute(
        "aria-sort", "descending"
    )
    page.get_by_role("link", name="mean").click()
    head = page.get_by_role("columnheader", name="mean")
    expect(head).to_have_attribute("aria-sort", "ascending")
    asked = f"{desk_url}/api/groups?run=careful&split=train&step=5&sort=mean&order=up"
    means = [group["mean"] for group in page.request.get(asked).json()["groups"]]
    assert means == sorted(means)
    expect(page.locator("tbody td:nth-child(4)")).to_have_text([f"{mean:.3f}" for mean in means])


def test_step_is_filtered_by_what_its_groups_hold(page: Page, desk_url: str) -> None:
    page.goto(f"{desk_url}{RUN}/train/0")
    page.get_by_role("link", name="with errors").click()
    expect(page).to_have_url(re.compile(r"only=errors"))
    page.get_by_role("searchbox", name="task").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"task=wrong"))


def test_group_shows_its_rollouts_and_two_are_picked_to_compare(page: Page, desk_url: str) -> None:
    group = group_of(page, desk_url)
    page.goto(f"{desk_url}/groups/{group}")
    expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_role("button", name="pick rollout 1 to compare").click()
    page.get_by_role("button", name="pick rollout 3 to compare").click()
    page.get_by_role("link", name="Compare the two").click()
    expect(page).to_have_url(re.compile(r"/compare\?a=.*&b="))
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()


def test_rollout_shows_what_was_said_done_scored_and_changed(page: Page, desk_url: str) -> None:
    group = group_of(page, desk_url, sort="mean")
    best = max(rollouts_of(page, desk_url, group), key=lambda r: r["reward"] or 0)
    page.goto(f"{desk_url}/rollouts/{best['key']}")
    page.get_by_text("System prompt", exact=True).click()
    expect(page.get_by_text("You are the support desk")).to_be_visible()
    page.get_by_text("5 tools").click()
    offered = page.locator(".tools > li", has_text="change_address")
    expect(offered).to_contain_text("What change_address does.")
    offered.get_by_text("parameters").click()
    expect(offered.get_by_text('"title": "change_address"')).to_be_visible()
    expect(page.locator(".thinking").first).to_contain_text("I need the order first")
    call = page.locator(".call").first
    expect(call.get_by_role("columnheader")).to_have_text(
        ["argument", "as the model wrote it", "as the tool got it"]
    )
    expect(call.get_by_role("row", name="with_items")).to_contain_text("boolean")
    rail = page.get_by_role("complementary")
    expect(rail).to_contain_text("The order stands as the customer asked.")
    expect(rail.locator("del")).to_have_text("on its way")
    expect(rail.locator("ins")).to_have_text("cancelled")
    cited = rail.locator(".score", has_text="resolved").get_by_role("link", name="message")
    cited.click()
    expect(page.locator(f"article{cited.get_attribute('href')}")).to_be_in_viewport()
    expect(page.locator("article.cited").last).to_contain_text("Evidence of resolved")


def test_cut_stands_at_the_place_of_the_cut_and_a_failure_is_never_a_0(
    page: Page, desk_url: str
) -> None:
    found = page.request.get(f"{desk_url}/api/search?cut=length").json()["hits"][0]
    page.goto(f"{desk_url}/rollouts/{found['rollout']}")
    expect(page.locator(".transcript + .end")).to_contain_text("Cut here: length")
    failed = page.request.get(f"{desk_url}/api/search?status=failed").json()["hits"][0]
    page.goto(f"{desk_url}/rollouts/{failed['rollout']}")
    expect(page.locator(".end")).to_contain_text("the shop's database is away")
    expect(page.locator(".reward-card .big")).to_have_text("–")


def test_tokens_are_shown_in_the_same_view_by_probability(page: Page, desk_url: str) -> None:
    group = group_of(page, desk_url)
    key = rollouts_of(page, desk_url, group)[0]["key"]
    page.goto(f"{desk_url}/rollouts/{key}")
    page.get_by_role("switch", name="Tokens").click()
    expect(page).to_have_url(f"{desk_url}/rollouts/{key}?tokens=1")
    token = page.locator("article .token").first
    expect(token).to_have_text("Let ")
    expect(token).to_have_attribute("title", re.compile(r"token \d+, probability .* %, logprob -"))
    expect(token).to_have_class(re.compile(r"p\d"))
    page.reload()
    expect(page.get_by_role("switch", name="Tokens")).to_have_attribute("aria-checked", "true")


def test_rollout_is_copied_as_a_link_and_as_json(page: Page, desk_url: str) -> None:
    group = group_of(page, desk_url)
    key = rollouts_of(page, desk_url, group)[0]["key"]
    page.goto(f"{desk_url}/rollouts/{key}")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#toast")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{desk_url}/rollouts/{key}"
    page.get_by_role("button", name="Copy JSON").click()
    expect(page.locator("#toast")).to_have_text("JSON copied")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["rollout"]["key"] == key and copied["entries"][0]["kind"] == "prompt"


def test_task_over_time_leads_to_each_rollout(page: Page, desk_url: str) -> None:
    page.goto(f"{desk_url}/groups/{group_of(page, desk_url)}")
    page.get_by_role("link", name="this task at every step").click()
    expect(page.locator("figure.chart .series.train")).to_have_count(1)
    expect(page.get_by_text("superseded")).to_have_count(1)  # step 4, played by both attempts
    page.locator("a.pill").first.click()
    expect(page).to_have_url(re.compile(r"/rollouts/"))


def test_search_finds_words_with_filters_and_opens_at_the_place(page: Page, desk_url: str) -> None:
    page.goto(f"{desk_url}/search")
    page.get_by_role("searchbox", name="Text").fill("money five")
    expect(page.locator(".results li").first.locator("mark").first).to_have_text("money")
    page.get_by_role("combobox", name="Run").select_option("careful")
    page.get_by_label("From step").fill("6")
    page.get_by_label("Reward from").fill("1")
    expect(page).to_have_url(re.compile(r"q=money\+five&run=careful&from=6&low=1"))
    expect(page.locator(".results li").first).to_contain_text("careful · train step 7")
    first = page.locator(".results a").first
    place = (first.get_attribute("href") or "").partition("#")[2]
    first.click()
    expect(page.locator(f"#{place}")).to_contain_text("The money comes back within five days.")
    expect(page.locator(f"#{place}")).to_be_focused()


def test_place_on_a_page_is_kept_when_going_back(page: Page, desk_url: str) -> None:
    page.goto(desk_url + RUN)
    page.get_by_role("heading", name="Steps").scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    page.get_by_role("link", name="train 3", exact=True).click()
    expect(page.get_by_role("heading", name="Step 3")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Steps")).to_be_in_viewport()
    assert before > 300 and abs(page.evaluate("scrollY") - before) < 400


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/runs/nothing", "There is no run nothing."),
        ("/groups/nothing", "There is no group nothing."),
        ("/rollouts/nothing", "There is no rollout nothing."),
        ("/runs/careful/train/999", "There is no step 999 of careful."),
        ("/no/such/page", "The explorer has no page /no/such/page."),
    ],
)
def test_what_is_not_there_is_said_with_a_way_on(
    page: Page, desk_url: str, path: str, said: str
) -> None:
    page.goto(desk_url + path)
    expect(page.get_by_role("alert")).to_contain_text(said)
    page.get_by_role("alert").get_by_role("link", name="All runs").click()
    expect(page.get_by_role("heading", name="Runs", level=1)).to_be_visible()
    page.seen.faults = [fault for fault in page.seen.faults if "404" not in fault]


def test_pages_read_well_from_1000_pixels_up(page: Page, desk_url: str) -> None:
    group = group_of(page, desk_url)
    key = rollouts_of(page, desk_url, group)[0]["key"]
    for width in (1000, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        for path in ("/", RUN, STEP, f"/groups/{group}", f"/rollouts/{key}", "/search?q=order"):
            page.goto(desk_url + path)
            page.wait_for_selector("h1")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} wide at {width}"
