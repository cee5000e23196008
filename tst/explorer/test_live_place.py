"""A page that updates while training runs leaves the reader where they are: the place on the
screen, the focus, what is opened, and what is selected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.explorer import Serve
from support.explorer_runs import (
    BUNDLE,
    WANTS,
    desk_groups,
    desk_index,
    file_groups,
    file_summaries,
    prompt,
    reply,
    result,
    text,
    thinking,
)

from tinker_episodes.index import Attempt, Group, Rollout, ScoreRecord, Split, Status, Summary

TASK = WANTS[0][0]
FIRST, NEXT = "r-first", "r-next"


def talk(calls: int, last: str) -> list[dict[str, Any]]:
    """A conversation of many calls."""
    said = [prompt("Find them all.", system="You look things up.\n" * 400)]
    for at in range(calls):
        given = {"order": f"#{at}"}
        why = [thinking(f"Thought {at}. " * 120), text(f"Order {at}, then.")]
        said += [
            reply(why, ("find_order", given)),
            result(f"c{at}", "find_order", given, "line of a long result\n" * 90),
        ]
    return [*said, reply(last)]


def played(key: str, place: int, last: str) -> Rollout:
    entries = talk(40, last)
    evidence = {"messages": [2], "seen": "evidence of a scorer, at length. " * 60}
    return Rollout(
        key,
        place,
        Status.FINISHED,
        1.0 - place / 2,
        scores=(ScoreRecord("resolved", 1.0, "Because. " * 900, evidence),),
        turns=41,
        messages=len(entries),
        transcript={"entries": entries},
    )


class Training:
    """A run whose step 3 has a group of one long rollout, and what the trainer goes on to do."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'episodes.db'}"
        self.attempt = Attempt(str(folder / "careful"), "token-a", 0)
        self.file(played(FIRST, 0, "All are found."))

    def file(self, *rollouts: Rollout, attempt: Attempt | None = None, group: str = "g") -> None:
        of = Group(attempt or self.attempt, group, Split.TRAIN, 3, BUNDLE, TASK, ())
        file_groups(self.url, iter([(of, list(rollouts))]))

    def train(self, *keys: str, step: int = 3) -> None:
        """The trainer's summaries: the rewards that it trained, clamped."""
        said = [Summary(key, step, 2, 0.75, trained=True) for key in keys]
        file_summaries(self.url, self.attempt.log_path, said)

    def resume(self) -> None:
        """A later attempt plays the step again."""
        again = Attempt(self.attempt.log_path, "token-b", 3)
        self.file(played("r-again", 0, "Again."), attempt=again, group="g-again")


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


def top_of(node: Locator) -> float:
    box = node.bounding_box()
    assert box is not None
    return box["y"]


def settled(page: Page) -> None:
    """Two frames: what nears the screen is drawn in its own size."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def select_words(page: Page, node: Locator) -> str:
    node.evaluate(
        """(node) => {
            const text = document.createTreeWalker(node, NodeFilter.SHOW_TEXT).nextNode();
            getSelection().setBaseAndExtent(text, 2, text, 14);
        }"""
    )
    return page.evaluate("getSelection().toString()")


def test_reader_of_a_message_stays_there_while_the_trainer_goes_on(
    page: Page, serve: Serve, tmp_path: Path, training: Training
) -> None:
    page.goto(f"{serve(tmp_path)}/rollouts/{FIRST}")
    expect(page.locator(".reward-card")).to_contain_text("The trainer has not said")
    page.locator(".score > .text > .more").click()  # the whole explanation
    page.locator(".score summary").click()  # its evidence
    message = page.locator("#m37")
    message.locator("summary").click()
    message.locator(".thinking").evaluate("(node) => node.scrollIntoView({block: 'center'})")
    message.focus()
    settled(page)
    selected = select_words(page, message.locator(".thinking .text"))
    before = top_of(message)
    assert len(selected) == 12 and page.evaluate("scrollY") > 2000

    training.file(played(NEXT, 1, "Not all."))
    expect(page.get_by_role("link", name="next →")).to_have_attribute("href", f"/rollouts/{NEXT}")
    training.train(FIRST)
    expect(page.locator(".reward-card .big")).to_have_text("1.000 → 0.750")
    expect(page.locator(".reward-card")).to_contain_text("It was trained with 0.750")
    expect(page.locator(".rail .facts")).to_contain_text("sampler step2")
    training.resume()
    expect(page.locator(".heading")).to_contain_text("superseded")

    settled(page)
    assert abs(top_of(message) - before) < 1
    expect(message).to_be_focused()
    assert page.evaluate("getSelection().toString()") == selected
    expect(message.locator(".thinking")).to_have_attribute("open", "")
    expect(page.locator(".score details")).to_have_attribute("open", "")
    expect(page.locator(".score .chunk")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(f"{page.url.partition('/rollouts')[0]}/rollouts/{NEXT}")


def test_reader_of_a_comparison_stays_there_while_the_trainer_goes_on(
    page: Page, serve: Serve, tmp_path: Path, training: Training
) -> None:
    training.file(played(NEXT, 1, "Not all."))
    page.goto(f"{serve(tmp_path)}/compare?a={FIRST}&b={NEXT}")
    expect(page.locator(".pair.first")).to_be_focused()
    page.locator(".same-steps > summary").click()
    pair = page.locator("#p20")
    pair.focus()
    pair.evaluate("(node) => node.scrollIntoView({block: 'center'})")
    settled(page)
    selected = select_words(page, pair.locator(".thinking .text").first)
    before = top_of(pair)

    training.train(FIRST, NEXT, step=5)
    expect(page.locator(".side").first).to_contain_text("1.000 → 0.750")
    expect(page.locator(".side").first).to_contain_text("train step 5")
    settled(page)
    assert abs(top_of(pair) - before) < 1
    expect(pair).to_be_focused()
    assert page.evaluate("getSelection().toString()") == selected


def test_rollouts_that_come_to_a_group_leave_the_picked_and_the_focused_as_they_are(
    page: Page, serve: Serve, tmp_path: Path, training: Training
) -> None:
    training.file(played(NEXT, 2, "Not all."))
    page.goto(f"{serve(tmp_path)}/groups/g?pick={NEXT}")
    second = page.get_by_role("link", name="3 ·")
    second.focus()
    training.file(played("r-between", 1, "Some."))
    training.train(FIRST)
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator("tbody tr").first).to_contain_text("1.000 → 0.750")
    expect(second).to_be_focused()
    expect(page.get_by_role("button", pressed=True)).to_have_count(1)


def test_row_that_moves_keeps_the_focus(
    page: Page, serve: Serve, tmp_path: Path, training: Training
) -> None:
    training.file(played("r-a", 0, "All."), group="g-a")
    training.file(played("r-b", 0, "All."), played("r-c", 1, "None."), group="g-b")
    page.goto(f"{serve(tmp_path)}/runs/careful/train/3")
    rows = page.locator("tbody [data-row]")
    expect(rows).to_have_count(3)
    last = page.locator("tbody tr").last.get_attribute("data-key")
    row = page.locator(f"tr[data-key={last}] [data-row]")
    row.focus()
    for place in range(1, 4):
        training.file(played(f"r-more{place}", 4 * place, "Worse."), group=str(last))
    expect(page.locator("tbody tr").first).to_have_attribute("data-key", str(last))
    expect(row).to_be_focused()


@pytest.mark.parametrize("anchoring", ["auto", "none"])  # not every browser does it by itself
def test_row_that_is_read_stays_on_its_place_when_rows_come_above_it(
    page: Page, serve: Serve, tmp_path: Path, anchoring: str
) -> None:
    desk_index(tmp_path, steps=20, size=2)
    page.goto(f"{serve(tmp_path)}/runs/careful")
    page.evaluate(f"document.documentElement.style.overflowAnchor = '{anchoring}'")
    row = page.get_by_role("link", name="train 4", exact=True)
    row.evaluate("(node) => node.scrollIntoView({block: 'center'})")
    page.locator("#main").focus()
    before = top_of(row)
    again = Attempt(str(tmp_path / "careful"), "token-d", 20)
    file_groups(f"sqlite:///{tmp_path / 'episodes.db'}", desk_groups(again, 23, 2, 9))
    expect(page.get_by_role("link", name="train 22", exact=True)).to_have_count(1)
    settled(page)
    assert abs(top_of(row) - before) < 1


def test_values_under_the_pointer_stay_read_when_a_step_is_filed(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    desk_index(tmp_path, steps=4, size=2)
    page.goto(f"{serve(tmp_path)}/runs/careful")
    chart = page.locator("figure.chart").first
    box = chart.locator("svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 48, box["y"] + 60)
    expect(chart.locator(".at")).to_have_text("step 0")
    again = Attempt(str(tmp_path / "careful"), "token-d", 4)
    file_groups(f"sqlite:///{tmp_path / 'episodes.db'}", desk_groups(again, 5, 2, 9))
    expect(page.get_by_role("link", name="train 4", exact=True)).to_have_count(1)
    expect(chart.locator(".at")).to_have_text("step 0")
    assert float(chart.locator(".crosshair").get_attribute("x1") or 0) > 0


def test_search_and_task_show_what_is_filed_meanwhile(
    page: Page, serve: Serve, tmp_path: Path, training: Training
) -> None:
    url = serve(tmp_path)
    page.goto(f"{url}/search?q=found&run=careful")
    expect(page.locator(".results li")).to_have_count(1)
    text = page.get_by_role("searchbox", name="Text")
    page.get_by_label("Task").fill("half a na")
    page.get_by_label("Task").fill("")
    text.focus()
    training.file(played(NEXT, 1, "Not all are found."))
    expect(page.locator(".results li")).to_have_count(2)
    expect(text).to_be_focused()
    expect(page.get_by_role("combobox", name="Run")).to_have_value("careful")

    page.goto(f"{url}/task?bundle={BUNDLE.name}&task={TASK}&run=careful")
    expect(page.locator("tbody .pill")).to_have_count(2)
    link = page.get_by_role("link", name="train 3", exact=True)
    link.focus()
    training.file(played("r-third", 2, "Some."))
    training.resume()
    expect(page.locator("tbody .pill")).to_have_count(4)
    expect(link.first).to_be_visible()
    expect(page.locator("tbody")).to_contain_text("superseded")
