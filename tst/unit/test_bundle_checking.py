"""Trying a bundle: an idle episode of every task."""

from __future__ import annotations

from typing import Any

import pytest

from tinker_episodes import Bundle, Environment, Prompt, Task, find_bundle, scorer
from tinker_episodes.bundle.checking import check_bundle


class Fragile(Environment):
    """Does what its task says."""

    def open(self, task: Task) -> None:
        if task.id == "open":
            raise OSError("no file")

    @scorer
    def found(self) -> Any:
        if self.task.id == "raise":
            raise ZeroDivisionError("no guesses")
        return {"nan": float("nan"), "none": None}.get(self.task.id, True)


def _bundle(*ids: str, environment: type[Environment] = Fragile) -> Bundle:
    return Bundle(name="b", environment=environment, tasks=[Task.of(id, "Go.") for id in ids])


def test_the_shipped_bundle_has_no_problem() -> None:
    assert check_bundle(find_bundle("number_search")) == []


def test_every_task_that_fails_is_a_problem() -> None:
    found = check_bundle(_bundle("nan", "right", "open", "raise", "none"))
    assert [(problem.file, problem.place) for problem in found] == [
        ("tasks", "nan"),
        ("tasks", "open"),
        ("tasks", "raise"),
        ("tasks", "none"),
    ]


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("nan", "scorer 'found' returned nan: a score must be finite"),
        ("open", "open: no file"),
        ("raise", "scorer 'found': no guesses"),
        ("none", "scorer 'found' returned None"),
    ],
)
def test_a_problem_says_what_failed(id: str, message: str) -> None:
    (problem,) = check_bundle(_bundle(id))
    assert message in problem.message


class Several(Environment):
    @scorer
    def found(self) -> bool:
        return True

    @scorer
    def quick(self) -> bool:
        return True


def test_several_scorers_without_a_reward_are_one_problem() -> None:
    (problem,) = check_bundle(_bundle("a", "b", environment=Several))
    assert (problem.file, problem.place) == ("bundle.toml", "reward")
    assert "several scorers (found, quick)" in problem.message


def test_a_reward_that_is_given_wins() -> None:
    assert check_bundle(_bundle("a", environment=Several), reward="quick") == []


def test_a_reward_that_a_task_lacks_is_a_problem() -> None:
    tasks = [Task("a", (Prompt("Go."),), scorers=("found",))]
    bundle = Bundle(name="b", environment=Several, tasks=tasks)
    (problem,) = check_bundle(bundle, reward="quick")
    assert "task 'a' is not scored by 'quick'; it is by: found" in problem.message
