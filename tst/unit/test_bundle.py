"""A bundle that is made in code."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import BaseModel

from tinker_episodes import (
    Bundle,
    BundleError,
    ConfigError,
    Environment,
    Eval,
    Prompt,
    Task,
    UniverseData,
    scorer,
    tool,
)


class Window(BaseModel, extra="forbid"):
    low: int
    high: int = 9


class Search(Environment):
    Params = Window

    @tool
    def look(self) -> str:
        return ""

    @scorer
    def found(self) -> bool:
        return True

    @scorer
    def quick(self) -> bool:
        return True


TASKS = [Task.of("a", "A", low=1), Task.of("b", "B", low=2)]


def _bundle(**changed: Any) -> Bundle:
    return Bundle(**{"name": "b", "environment": Search, "tasks": TASKS, **changed})


def _problems(**changed: Any) -> list[str]:
    with pytest.raises(BundleError) as caught:
        _bundle(**changed)
    return [str(problem) for problem in caught.value.problems]


def test_a_bundle_in_code_has_its_tasks_by_id() -> None:
    bundle = _bundle(version="2", description="Find it.", reward="found")
    assert list(bundle.tasks) == ["a", "b"]
    assert (bundle.version, bundle.description, bundle.reward) == ("2", "Find it.", "found")
    assert repr(bundle) == "<Bundle b 2: 2 tasks>"


def test_params_arrive_as_the_environments_model() -> None:
    assert _bundle().tasks["a"].params == Window(low=1, high=9)


def test_params_that_are_the_model_already_stay_as_they_are() -> None:
    window = Window(low=1)
    bundle = _bundle(tasks=[Task("a", (Prompt("A"),), params=window)])
    assert bundle.tasks["a"].params is window


def test_params_stay_a_mapping_where_the_environment_has_no_model() -> None:
    plain = type("Plain", (Search,), {"Params": None})
    assert _bundle(environment=plain).tasks["a"].params == {"low": 1}


def test_params_that_do_not_fit_are_a_problem_for_each_fault() -> None:
    found = _problems(tasks=[Task.of("a", "A", low="x", size=1), Task.of("b", "B")])
    assert [problem.split(": ")[:3] for problem in found] == [
        ["tasks", "a", "params.low"],
        ["tasks", "a", "params.size"],
        ["tasks", "b", "params.low"],
    ]


def test_params_of_another_model_are_a_problem() -> None:
    class Other(BaseModel):
        low: int

    (found,) = _problems(tasks=[Task("a", (Prompt("A"),), params=Other(low=1))])
    assert found.startswith("tasks: a: params: ")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"tasks": []}, "tasks: there are no tasks"),
        ({"tasks": [*TASKS, TASKS[0]]}, "tasks: a: there is more than one task with the id 'a'"),
        ({"evals": {"e": Eval(("x",))}}, "bundle.toml: evals.e: there is no task 'x'"),
        ({"evals": {"e": Eval(())}}, "bundle.toml: evals.e: it holds no task"),
        (
            {"evals": {"all": Eval(("a",))}},
            "bundle.toml: evals.all: `all` is the split of all tasks",
        ),
        (
            {"tasks": [Task("a", (Prompt("A", tools=("shout",)),), {"low": 1})]},
            "tasks: a: there is no tool 'shout'; there are: look",
        ),
        (
            {"tasks": [Task("a", (Prompt("A"),), {"low": 1}, scorers=("lost",))]},
            "tasks: a: there is no scorer 'lost'; there are: found, quick",
        ),
        (
            {"tasks": TASKS[:1], "reward": "lost"},
            "bundle.toml: reward: task 'a' is not scored by 'lost'; it is by: found, quick",
        ),
    ],
)
def test_what_is_wrong_in_a_bundle_is_a_problem(changed: dict[str, Any], problem: str) -> None:
    (found,) = _problems(**changed)
    assert found.startswith(problem)


def test_problems_of_tasks_and_evals_are_reported_together() -> None:
    task = Task("a", (Prompt("A", tools=("shout",)),), {"low": 1})
    assert len(_problems(tasks=[task], evals={"e": Eval(("x", "y"))})) == 3


def test_a_split_that_is_not_there_is_refused_with_those_that_are() -> None:
    bundle = _bundle(evals={"val": Eval(("a",)), "test": Eval(("b",))})
    with pytest.raises(ConfigError, match="bundle 'b' has no split 'vall'; it has: all, val, test"):
        bundle.split("vall")


def test_a_split_is_in_the_bundles_order() -> None:
    bundle = _bundle(evals={"val": Eval(("b", "a"))})
    assert [task.id for task in bundle.split("val")] == ["a", "b"]


def test_all_leaves_out_held_out_tasks() -> None:
    bundle = _bundle(evals={"val": Eval(("b",), held_out=True), "easy": Eval(("a",))})
    assert [task.id for task in bundle.split("all")] == ["a"]


def test_a_bundle_in_code_survives_pickling() -> None:
    bundle = _bundle(
        universe=UniverseData({"t": {"k": [1]}}),
        evals={"val": Eval(("a",), held_out=True)},
        reward="quick",
    )
    again = pickle.loads(pickle.dumps(bundle))
    assert (again.tasks, again.evals, again.reward) == (bundle.tasks, bundle.evals, "quick")
    assert (again.environment, again.content_hash) == (Search, bundle.content_hash)
    assert again.universe.tables == bundle.universe.tables


def test_the_hash_of_the_same_content_is_the_same() -> None:
    assert _bundle().content_hash == _bundle().content_hash


@pytest.mark.parametrize(
    "changed",
    [
        {"tasks": TASKS[:1]},
        {"tasks": [Task.of("a", "A!", low=1), TASKS[1]]},
        {"tasks": [Task.of("a", "A", low=2), TASKS[1]]},
        {"evals": {"val": Eval(("a",))}},
        {"universe": UniverseData({"t": {}})},
        {"environment": type("Other", (Search,), {})},
    ],
)
def test_other_content_has_another_hash(changed: dict[str, Any]) -> None:
    assert _bundle(**changed).content_hash != _bundle().content_hash


def test_an_odd_text_can_be_hashed() -> None:
    assert _bundle(tasks=[Task.of("a", "\ud800", low=1)]).content_hash
