from __future__ import annotations

import pytest

from tinker_episodes import Environment, Message, Prompt, Task, Universe, UniverseData, scorer
from tinker_episodes.environment import read_environment
from tinker_episodes.errors import DefinitionError, ToolError


class Bare(Environment):
    tool_errors = (LookupError,)

    @scorer
    def done(self) -> bool:
        return True


def test_a_class_is_read_once() -> None:
    assert read_environment(Bare) is read_environment(Bare)


def test_a_class_without_a_scorer_is_refused() -> None:
    class Nothing(Environment): ...

    with pytest.raises(DefinitionError, match="Nothing has no scorer; mark a method with @scorer"):
        read_environment(Nothing)


def test_tool_errors_come_beside_the_librarys_own() -> None:
    assert read_environment(Bare).tool_errors == (ToolError, LookupError)


def test_an_environment_gives_the_tasks_own_prompts_in_turn() -> None:
    task = Task("t", (Prompt("one"), Prompt("two"), Prompt("three")))
    environment = Bare(task, Universe(UniverseData()))
    replies = [environment.next_prompt(Message("assistant", "")) for _ in range(3)]
    assert replies == [Prompt("two"), Prompt("three"), None]


def test_an_environment_has_not_ended_until_it_says_so() -> None:
    environment = Bare(Task.of("t", "Go."), Universe(UniverseData()))
    assert not environment.ended
    environment.end()
    assert environment.ended
