from __future__ import annotations

import pytest

from tinker_episodes.index import Split
from tinker_episodes.index.names import run_group_name, run_names


@pytest.mark.parametrize(
    ("step", "name"),
    [(0, "first/train/step-0000"), (7, "first/train/step-0007"), (12345, "first/train/step-12345")],
)
def test_a_run_group_is_named_by_run_split_and_step(step: int, name: str) -> None:
    assert run_group_name("first", Split.TRAIN, step) == name


def test_a_run_gets_its_folders_name_and_then_its_parents() -> None:
    assert run_names("/data/runs/first") == ["first", "runs-first", "data-runs-first"]


def test_a_run_at_the_root_has_a_name() -> None:
    assert run_names("/") == ["run"]
