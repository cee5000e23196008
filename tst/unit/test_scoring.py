from __future__ import annotations

import math
from typing import Any

import pytest

from tinker_episodes import Environment, Prompt, Score, Task, scorer
from tinker_episodes.errors import ConfigError, EpisodeFailed
from tinker_episodes.scoring import as_score, reward_scorer, scorers_of


def _task(*scorers: str) -> Task:
    return Task("t", (Prompt("Do it."),), scorers=scorers or None)


@pytest.mark.parametrize(
    ("returned", "value"),
    [(True, 1.0), (False, 0.0), (0.25, 0.25), (3, 3.0), (-1, -1.0), (-0.0, 0.0)],
)
def test_a_bool_or_a_number_is_a_score(returned: Any, value: float) -> None:
    score = as_score("found", returned)
    assert score == Score(value)
    assert type(score.value) is float


def test_a_score_keeps_its_explanation_and_evidence() -> None:
    assert as_score("found", Score(True, "why", {"a": 1})) == Score(1.0, "why", {"a": 1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_value_that_is_not_finite_is_refused(number: float, wrapped: bool) -> None:
    with pytest.raises(EpisodeFailed, match=r"scorer 'found' returned .*: a score must be finite"):
        as_score("found", Score(number) if wrapped else number)


@pytest.mark.parametrize("value", [None, "1", [1], {}, Score(None), Score("1"), 1j])  # type: ignore[arg-type]
def test_a_value_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(EpisodeFailed, match=r"scorer 'found' returned .*a number or a bool"):
        as_score("found", value)


def test_scorers_stand_in_the_order_of_definition_bases_first() -> None:
    class Parent(Environment):
        @scorer
        def z(self) -> bool:
            return True

    class Child(Parent):
        @scorer
        def b(self) -> bool:
            return True

        @scorer
        def a(self) -> bool:
            return True

        def helper(self) -> bool:
            return True

    assert list(scorers_of(Child)) == ["z", "b", "a"]


def test_a_scorer_that_the_child_sets_to_none_is_gone() -> None:
    class Parent(Environment):
        @scorer
        def a(self) -> bool:
            return True

        @scorer
        def b(self) -> bool:
            return True

    class Child(Parent):
        a = None  # type: ignore[assignment]

    assert list(scorers_of(Child)) == ["b"]


def test_the_only_scorer_is_the_reward() -> None:
    assert reward_scorer(["a"], _task(), None) == "a"


def test_the_only_scorer_of_the_task_is_the_reward() -> None:
    assert reward_scorer(["a", "b"], _task("b"), None) == "b"


def test_the_named_scorer_is_the_reward() -> None:
    assert reward_scorer(["a", "b"], _task(), "b") == "b"


def test_several_scorers_need_a_name() -> None:
    with pytest.raises(
        ConfigError, match=r"task 't' has several scorers \(a, b\): name one as `reward`"
    ):
        reward_scorer(["a", "b"], _task(), None)


def test_a_scorer_that_the_task_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="task 't' is not scored by 'b'; it is by: a"):
        reward_scorer(["a", "b"], _task("a"), "b")


def test_a_task_that_names_an_unknown_scorer_is_refused() -> None:
    with pytest.raises(ConfigError, match="names scorers that there are not: c"):
        reward_scorer(["a", "b"], _task("a", "c"), "a")
