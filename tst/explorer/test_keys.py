"""The keyboard alone: rows, messages, neighbours, search, tokens and the list of keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect


def first_group(page: Page, url: str) -> str:
    asked = f"{url}/api/groups?run=careful&split=train&step=5"
    return page.request.get(asked).json()["groups"][0]["where"]["group"]


@pytest.mark.parametrize(("down", "up"), [("j", "k"), ("ArrowDown", "ArrowUp")])
def test_rows_are_walked_and_opened(page: Page, desk_url: str, down: str, up: str) -> None:
    page.goto(desk_url)
    expect(page.get_by_role("row", name="careful")).to_be_visible()
    page.keyboard.press(down)
    expect(page.get_by_role("link", name="baseline", exact=True)).to_be_focused()
    page.keyboard.press(down)
    page.keyboard.press(down)
    expect(page.get_by_role("link", name="careful", exact=True)).to_be_focused()
    page.keyboard.press(up)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="baseline", level=1)).to_be_visible()
    page.keyboard.press("u")
    expect(page).to_have_url(f"{desk_url}/")


def test_messages_are_walked_and_neighbours_opened(page: Page, desk_url: str) -> None:
    group = first_group(page, desk_url)
    keys = [
        r["key"] for r in page.request.get(f"{desk_url}/api/group?key={group}").json()["rollouts"]
    ]
    page.goto(f"{desk_url}/rollouts/{keys[0]}?tokens=1")
    expect(page.locator("article#m0")).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("article#m0")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("article#m1")).to_be_focused()
    page.keyboard.press("t")
    switch = page.get_by_role("switch", name="Tokens")
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(page).to_have_url(f"{desk_url}/rollouts/{keys[0]}")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("rollout 2", exact=True)).to_be_visible()
    expect(page).to_have_url(f"{desk_url}/rollouts/{keys[1]}")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("rollout 1", exact=True)).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(f"{desk_url}/rollouts/{keys[0]}")
    page.keyboard.press("u")
    expect(page).to_have_url(f"{desk_url}/groups/{group}")


def test_steps_are_walked_by_arrows(page: Page, desk_url: str) -> None:
    page.goto(f"{desk_url}/runs/careful/train/5")
    expect(page.get_by_role("heading", name="Step 5")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(f"{desk_url}/runs/careful/train/6")


def test_slash_searches_and_keys_in_a_field_are_text(page: Page, desk_url: str) -> None:
    page.goto(desk_url)
    expect(page.get_by_role("row", name="careful")).to_be_visible()
    page.keyboard.press("/")
    field = page.get_by_role("searchbox", name="Text")
    expect(field).to_be_focused()
    page.keyboard.type("jk/?u")
    expect(field).to_have_value("jk/?u")
    expect(page).to_have_url(re.compile(r"/search\?q=jk"))


def test_question_mark_lists_the_keys(page: Page, desk_url: str) -> None:
    page.goto(f"{desk_url}/groups/{first_group(page, desk_url)}")
    expect(page.locator("tbody tr")).to_have_count(4)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("next row or message")
    expect(dialog).to_contain_text("compare the picked two")
    page.keyboard.press("j")  # the list is open: nothing moves below it
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_chart_values_are_read_and_steps_opened_by_keys(page: Page, desk_url: str) -> None:
    page.goto(f"{desk_url}/runs/careful")
    chart = page.get_by_role("group", name=re.compile("^Reward"))
    chart.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(chart.locator(".at")).to_have_text("step 5")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{desk_url}/runs/careful/train/5")


def test_every_page_has_one_heading_labels_and_a_visible_focus(page: Page, desk_url: str) -> None:
    group = first_group(page, desk_url)
    for path in ("/", "/runs/careful", "/runs/careful/train/5", f"/groups/{group}", "/search"):
        page.goto(desk_url + path)
        expect(page.locator("h1")).to_have_count(1)
        unnamed = page.locator("a, button, input, select").evaluate_all(
            "nodes => nodes.filter(n => !(n.textContent.trim() || n.ariaLabel || n.labels?.length))"
            ".map(n => n.outerHTML)"
        )
        assert unnamed == []
        page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid"


CONTRAST = """
() => {
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (color, below) => {
    context.fillStyle = `rgb(${below})`; context.fillRect(0, 0, 1, 1);
    context.fillStyle = color; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const ground = (node) => node ? rgb(getComputedStyle(node).backgroundColor, ground(node.parentElement)) : [255, 255, 255];
  const light = (c) => c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const poor = [];
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !node.checkVisibility({opacityProperty: true})) continue;
    if (node.closest('.unseen, .skip, .toast, noscript, option')) continue;
    const below = ground(node);
    const style = getComputedStyle(node);
    const ink = rgb(node instanceof SVGElement ? style.fill : style.color, below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${texts.currentNode.data.trim().slice(0, 40)} ${ratio.toFixed(2)} ${node.className}`);
  }
  return [...new Set(poor)];
}
"""  # noqa: E501


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(page: Page, desk_url: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    group = first_group(page, desk_url)
    rollouts = page.request.get(f"{desk_url}/api/group?key={group}").json()["rollouts"]
    cut = page.request.get(f"{desk_url}/api/search?status=cut").json()["hits"][0]["rollout"]
    two = f"a={rollouts[0]['key']}&b={rollouts[3]['key']}"
    for path in (
        "/", "/runs/careful?with=baseline", "/runs/careful/train/5?only=varied", f"/groups/{group}",
        f"/rollouts/{rollouts[0]['key']}", f"/rollouts/{cut}", f"/compare?{two}",
        *(f"/rollouts/{rollout['key']}?tokens=1" for rollout in rollouts),
        "/search?q=money+order", "/task?bundle=x&task=y",
    ):  # fmt: skip
        page.goto(desk_url + path)
        page.wait_for_selector("h1")
        assert page.evaluate(CONTRAST) == [], path
