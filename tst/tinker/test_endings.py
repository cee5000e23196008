"""Every ending of the table in docs/endings.md, under the host's own runner and strategies, on a
virtual clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.endings import (
    ADD,
    ENDINGS,
    Fragile,
    cells,
    limits_of,
    policy_of,
    rows,
)
from support.played import filed, group_of, play, row_of, seen_as, totals
from support.scripted import DONE

from tinker_episodes import EpisodeFailed
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.slots import slots_of
from tinker_episodes.index.reading import IndexReader

Read = Callable[[], IndexReader]
DOCS = Path(__file__).parents[2] / "docs" / "endings.md"
BY_ITSELF = {row.name: row for row in ENDINGS}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    Fragile.opened = Fragile.closed = 0
    yield
    Fragile.first_open = ""


# ---------------------------------------------------------------- what ends one rollout


@pytest.mark.parametrize("name", BY_ITSELF)
def test_ending_is_as_the_table_says(
    name: str, tmp_path: Path, rendering: Rendering, read: Read
) -> None:
    row = BY_ITSELF[name]
    group = group_of(tmp_path, slots=row.slots, limits=limits_of(row), parse_errors=policy_of(row))
    Fragile.first_open = row.first_open
    own = [row.said()] if row.asks else []
    others = [] if row.limits.get("max_trajectory_tokens") == 20 else [[ADD, DONE]] * 2
    played = play(group, rendering, [*own, *others], row.strategy)
    reader, first = read(), group.seen[0]
    assert seen_as(played, first, reader, row) == cells(row)
    assert row_of(reader, first.env)["reward"] == pytest.approx(row.reward)
    if row.slots == 1:  # its sibling could not have begun before
        assert first.over_at < group.seen[1].over_at
    if played.result is not None and row.trained == "yes":
        assert totals(played.result, first.env) == pytest.approx(row.reward + row.extra)
    if row.trained == "no, retried":
        assert played.result is not None and len(played.result.trajectories_G) == 2
        assert played.result.get_total_rewards() == pytest.approx([0.1, 0.1])
    assert isinstance(played.error, EpisodeFailed) == row.group_lost
    assert slots_of(str(tmp_path / "run"), row.slots).taken == 0
    assert Fragile.opened == Fragile.closed
    assert len({r["key"] for r in filed(reader)}) == len(filed(reader)) == Fragile.opened


@pytest.mark.parametrize("name", [row.name for row in ENDINGS if row.trained == "yes"])
def test_metrics_of_an_ending_agree_with_its_stop_reason(
    name: str, tmp_path: Path, rendering: Rendering
) -> None:
    row = BY_ITSELF[name]
    group = group_of(
        tmp_path,
        group_size=1,
        slots=1,
        limits=limits_of(row),
        parse_errors=policy_of(row),
    )
    result = play(group, rendering, [row.said()], row.strategy).result
    assert result is not None
    ((trajectory,), (metrics,)) = result.trajectories_G, result.metrics_G
    stops = [key for t in trajectory.transitions for key in t.metrics if key.startswith("stop/")]
    assert stops == [f"stop/{row.stop_reason}"]
    assert metrics["cut"] == (row.cut != "—")
    ones = [key for key, value in metrics.items() if key.startswith("cut/") and value]
    assert ones == ([] if row.cut == "—" else [f"cut/{row.cut}"])


# ---------------------------------------------------------------- the docs


def test_table_in_the_docs_is_what_the_tests_play() -> None:
    lines = DOCS.read_text("utf-8").splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("|---"))
    table = list(itertools.takewhile(lambda line: line.startswith("|"), lines[at + 1 :]))
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert found == rows()
