"""Transcripts of thousands of messages and lines of megabytes: all of it can be reached, and no
more of it is drawn than can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support.explorer import Serve
from support.explorer_runs import BUNDLE, file_groups, prompt, reply, result

from tinker_episodes.index import Attempt, Group, Rollout, Split, Status

MESSAGES = 5_000
LINE = 10_000_000


def until(page: Page, condition: str) -> None:
    """Wait in the page for what a script tells."""
    page.evaluate(
        f"async () => {{ while (!({condition})) await new Promise(requestAnimationFrame) }}"
    )


IN_VIEW = "(node => node && node.top < innerHeight && node.bottom > 0)"
ALL = f"document.querySelectorAll('article').length === {MESSAGES}"


def in_view(selector: str) -> str:
    return f"{IN_VIEW}(document.querySelector('{selector}')?.getBoundingClientRect())"


def long_entries() -> list[dict[str, Any]]:
    """A prompt, and calls with their results up to 5,000 entries."""
    entries = [prompt("a long way")]
    while len(entries) < MESSAGES:
        at = len(entries)
        entries.append(reply(f"I look at {at}.", ("look", {"at": str(at), "why": "to see"})))
        entries.append(result(f"c{at}", "look", {"at": at, "why": "to see"}, f"seen {at} " * 12))
    return entries[:MESSAGES]


def long_turns() -> list[dict[str, Any]]:
    """A turn of ten tokens for each reply."""
    logprobs = [-0.5] * 10
    return [
        {"extends": at > 0, "observation": [1], "sampled": [at] * 10, "logprobs": logprobs}
        for at in range(MESSAGES // 2)
    ]


@pytest.fixture
def big(serve: Serve, tmp_path: Path) -> str:
    """An index with a long transcript and one with long lines; its address."""
    line = "0123456789" * (LINE // 10)
    wide = [prompt("a wide line"), reply(line, ("say", {"text": line[: LINE // 10]}))]
    wide.append(result("c", "say", {"text": line[: LINE // 10]}, "one\n" * 200_000))
    long = {"entries": long_entries(), "turns": long_turns()}
    rollouts = [
        Rollout("long", 0, Status.FINISHED, 1.0, transcript=long),
        Rollout("wide", 1, Status.FINISHED, 0.0, transcript={"entries": wide}),
    ]
    attempt = Attempt(str(tmp_path / "run"), "t", 0)
    group = Group(attempt, "g", Split.TRAIN, 0, BUNDLE, "task", ())
    file_groups(f"sqlite:///{tmp_path / 'episodes.db'}", iter([(group, rollouts)]))
    return serve(tmp_path)


def test_all_of_5000_messages_are_there(page: Page, big: str) -> None:
    page.goto(f"{big}/rollouts/long")
    until(page, ALL)
    last = "document.querySelector('article:last-of-type').textContent"
    assert "I look at 4999." in page.evaluate(last)
    page.keyboard.press("e")
    until(page, in_view("#end"))


def test_link_opens_at_a_message_far_down(page: Page, big: str) -> None:
    page.goto(f"{big}/rollouts/long#m4711")
    until(page, "document.activeElement.id === 'm4711'")
    until(page, in_view("#m4711"))
    page.keyboard.press("j")
    until(page, "document.activeElement.id === 'm4712'")


def test_find_in_page_reaches_what_is_far_down(page: Page, big: str) -> None:
    page.goto(f"{big}/rollouts/long")
    until(page, ALL)
    assert page.evaluate("find('I look at 4713.')")
    until(page, in_view("#m4713"))


def test_tokens_are_drawn_where_they_are_read(page: Page, big: str) -> None:
    page.goto(f"{big}/rollouts/long?tokens=1#m4711")
    until(page, ALL)
    until(page, "document.querySelector('#m4711 .token')?.textContent === '[2355]'")
    assert 10 <= page.locator("article .token").count() < 1_000
    assert "I look at 2001." in page.evaluate("document.getElementById('m2001').textContent")


def test_reader_goes_on_from_what_is_on_the_screen(page: Page, big: str) -> None:
    page.goto(f"{big}/rollouts/long")
    until(page, ALL)
    page.mouse.move(400, 400)
    page.mouse.wheel(0, 5_000)
    until(page, "scrollY > 3000")
    page.keyboard.press("j")
    until(page, "document.activeElement.id.startsWith('m')")
    assert int(page.evaluate("document.activeElement.id").removeprefix("m")) > 10
    until(page, "Math.abs(document.activeElement.getBoundingClientRect().top) < 900")


def test_line_of_10_mb_shows_its_beginning_and_more_on_request(page: Page, big: str) -> None:
    page.goto(f"{big}/rollouts/wide")
    said = page.locator("article.reply .said > .text").first
    expect(said).to_contain_text("0123456789")
    drawn = "document.querySelector('main').textContent.length"
    assert page.evaluate(drawn) < 30_000
    more = said.get_by_role("button", name="Show 100 k characters more of 10.0 M characters")
    more.click()
    expect(said.get_by_role("button")).to_have_text(
        "Show 100 k characters more of 9.9 M characters"
    )
    assert 100_000 < page.evaluate(drawn) < 150_000
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_long_ones_are_compared_too(page: Page, big: str) -> None:
    page.goto(f"{big}/compare?a=long&b=wide")
    until(page, in_view(".pair.first"))
