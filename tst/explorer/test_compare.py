"""Two rollouts beside each other: how they are aligned, and where the page opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect
from support.explorer import Serve
from support.explorer_runs import BUNDLE, file_groups, prompt, reply, result

from tinker_episodes.index import Attempt, Group, Rollout, Split, Status

ALIGN = """
async ([a, b]) => {
  const { align, stepsOf } = await import('/static/align.js');
  const { pairResults } = await import('/static/transcript.js');
  const steps = [a, b].map(entries => stepsOf(entries, pairResults(entries)));
  return align(...steps).map(({ a, b, same }) => [a && a.match, b && b.match, same]);
}
"""


def call(name: str, answer: str = "ok", **arguments: Any) -> list[dict[str, Any]]:
    return [reply("", (name, arguments)), result("c", name, arguments, answer)]


def align(page: Page, a: list[Any], b: list[Any]) -> list[tuple[str | None, str | None, bool]]:
    return [tuple(pair) for pair in page.evaluate(ALIGN, [a, b])]


def names(pairs: list[tuple[str | None, str | None, bool]]) -> list[tuple[str | None, str | None]]:
    return [(a and a.split(":")[0], b and b.split(":")[0]) for a, b, _ in pairs]


def test_same_calls_are_paired_whatever_stands_between(page: Page, desk_url: str) -> None:
    page.goto(desk_url)
    a = [
        prompt("go"),
        *call("find", id="1"),
        *call("look", at=1),
        *call("send", to="x"),
        reply("bye"),
    ]
    b = [prompt("go"), *call("find", id="1"), *call("send", to="x"), reply("bye")]
    pairs = align(page, a, b)
    assert names(pairs) == [
        ("prompt", "prompt"), ("find", "find"), ("look", None), ("send", "send"),
        ("reply", "reply"),
    ]  # fmt: skip
    assert [same for *_, same in pairs] == [True, True, False, True, True]


def test_calls_of_one_tool_with_other_arguments_stand_beside_each_other(
    page: Page, desk_url: str
) -> None:
    page.goto(desk_url)
    a = [*call("find", id="1"), *call("send", to="x")]
    b = [*call("find", id="2"), *call("send", to="x")]
    assert [(bool(a and b), same) for a, b, same in align(page, a, b)] == [
        (True, False),
        (True, True),
    ]


def test_same_call_with_another_answer_differs(page: Page, desk_url: str) -> None:
    page.goto(desk_url)
    ((a, b, same),) = align(page, call("find", "yes", id="1"), call("find", "no", id="1"))
    assert a == b and not same


def test_order_of_arguments_does_not_matter(page: Page, desk_url: str) -> None:
    page.goto(desk_url)
    one = call("find", a=1, b=[{"c": 2, "d": 3}])
    other = call("find", b=[{"d": 3, "c": 2}], a=1)
    ((_, _, same),) = align(page, one, other)
    assert same


def test_long_ones_are_aligned_in_time(page: Page, desk_url: str) -> None:
    page.goto(desk_url)
    long = [entry for at in range(2500) for entry in call("find", id=str(at))]
    other = [entry for at in range(2500) for entry in call("find", id=str(at + at // 2))]
    assert len(align(page, long, other)) >= 2500
    assert all(same for *_, same in align(page, long, long))


def matches(entries: list[dict[str, Any]]) -> list[str]:
    """What each call is matched by."""
    results = [entry for entry in entries if entry["kind"] == "result"]
    compact = [json.dumps(entry["arguments"], separators=(",", ":")) for entry in results]
    return [f"{entry['name']}:{text}" for entry, text in zip(results, compact, strict=True)]


ENTRIES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.sampled_from(["x", "y"])).map(
        lambda drawn: call(drawn[0], drawn[2], n=drawn[1])
    ),
    max_size=8,
).map(lambda calls: [entry for entries in calls for entry in entries])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(a=ENTRIES, b=ENTRIES)
def test_an_alignment_holds_every_step_once_and_in_order(
    page: Page, desk_url: str, a: list[Any], b: list[Any]
) -> None:
    if not page.url.startswith(desk_url):
        page.goto(desk_url)
    pairs = align(page, a, b)
    expected = [matches(side) for side in (a, b)]
    assert [x for x, _, _ in pairs if x is not None] == expected[0]
    assert [y for _, y, _ in pairs if y is not None] == expected[1]
    assert all(x or y for x, y, _ in pairs)
    if a == b:
        assert all(same for *_, same in pairs)


@pytest.fixture
def two(serve: Serve, tmp_path: Path) -> str:
    """A group of two rollouts that part after twenty calls; its address."""
    shared = [entry for at in range(20) for entry in call("find", f"found {at}", id=str(at))]
    ends = ([*call("send", to="left"), reply("done")], [*call("keep", at="right"), reply("done")])
    rollouts = [
        Rollout(f"two{at}", at, Status.FINISHED, float(at), transcript={"entries": entries})
        for at, entries in enumerate([[prompt("go"), *shared, *end] for end in ends])
    ]
    attempt = Attempt(str(tmp_path / "run"), "t", 0)
    group = Group(attempt, "g", Split.TRAIN, 0, BUNDLE, "task", ())
    file_groups(f"sqlite:///{tmp_path / 'episodes.db'}", iter([(group, rollouts)]))
    return serve(tmp_path)


def test_compare_opens_at_the_first_difference(page: Page, two: str) -> None:
    page.goto(f"{two}/compare?a=two0&b=two1")
    first = page.locator(".pair.first")
    expect(first).to_be_in_viewport()
    expect(first).to_be_focused()
    expect(first).to_contain_text("The first difference")
    expect(page.get_by_text("21 steps the same")).to_be_visible()
    expect(page.locator(".same-steps .pair").first).to_be_hidden()
    page.get_by_text("21 steps the same").click()
    expect(page.locator(".same-steps .pair").first).to_be_visible()
    page.keyboard.press("d")
    expect(first).to_be_focused()
    page.keyboard.press("d")
    expect(page.locator(".pair.different").nth(1)).to_be_focused()
    page.keyboard.press("s")
    expect(page).to_have_url(f"{two}/compare?a=two1&b=two0")


def test_the_lowest_and_highest_of_a_group_are_one_click_apart(page: Page, two: str) -> None:
    page.goto(f"{two}/groups/g")
    page.get_by_role("link", name="compare the lowest with the highest reward").click()
    expect(page).to_have_url(f"{two}/compare?a=two0&b=two1")


def test_each_side_leads_to_the_message_in_its_rollout(page: Page, desk_url: str) -> None:
    asked = f"{desk_url}/api/groups?run=careful&split=train&step=5"
    group = page.request.get(asked).json()["groups"][0]["where"]["group"]
    rollouts = page.request.get(f"{desk_url}/api/group?key={group}").json()["rollouts"]
    a, b = rollouts[0]["key"], rollouts[1]["key"]
    page.goto(f"{desk_url}/compare?a={a}&b={b}")
    place = page.locator(".cell .place").last
    message = place.text_content()  # its inner text is empty until it is drawn
    place.click()
    expect(page).to_have_url(f"{desk_url}/rollouts/{b}#m{message}")
    expect(page.locator(f"#m{message}")).to_be_focused()
