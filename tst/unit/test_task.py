from __future__ import annotations

import dataclasses
import pickle

import pytest

from tinker_episodes import Prompt, Task


def test_a_task_of_one_prompt_holds_its_params() -> None:
    task = Task.of("a", "Find it.", low=0, high=3)
    assert task.prompts == (Prompt("Find it."),)
    assert task.params == {"low": 0, "high": 3}


def test_a_task_needs_an_id() -> None:
    with pytest.raises(ValueError, match="a task needs an id"):
        Task.of("", "Find it.")


def test_a_task_needs_a_prompt() -> None:
    with pytest.raises(ValueError, match="task 'a' needs at least one prompt"):
        Task("a", ())


def test_a_task_can_not_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Task.of("a", "Find it.").id = "b"  # type: ignore[misc]


def test_a_task_survives_pickling() -> None:
    task = Task("a", (Prompt("x", "system", ("guess",)),), {"n": 1}, ("easy",), ("found",))
    assert pickle.loads(pickle.dumps(task)) == task
