from __future__ import annotations

import asyncio
import inspect
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from tinker_episodes import Environment, Task, Universe, UniverseData, scorer, tool
from tinker_episodes.environment import read_environment
from tinker_episodes.errors import ArgumentsError, DefinitionError
from tinker_episodes.tools import tools_of

TASK = Task.of("t", "Do it.")


class Base(Environment):
    @scorer
    def done(self) -> bool:
        return True


@dataclass
class HostResult:
    """The shape of the cookbook's `ToolResult`."""

    messages: list[dict[str, Any]]
    should_stop: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


class Weather:
    """An object of the cookbook's `Tool` protocol."""

    name = "weather"
    description = """
        The weather of a city.

        In words.
    """
    parameters_schema: dict[str, Any] = {  # noqa: RUF012
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }

    async def run(self, input: Any) -> HostResult:
        content = f"{input.arguments['city']}: sunny"
        return HostResult([{"role": "tool", "content": content}], should_stop=True)


def _env(environment: type[Environment]) -> Environment:
    return environment(TASK, Universe(UniverseData()))


async def _call(environment: type[Environment], name: str, **arguments: Any) -> Any:
    output = tools_of(environment)[name].call(_env(environment), arguments)
    return await output if inspect.isawaitable(output) else output


def test_a_marked_method_is_a_tool_with_its_docstring_and_schema() -> None:
    class Env(Base):
        @tool
        def guess(self, number: int) -> str:
            """Compare a guess.

            It costs one try.
            """
            return str(number)

    made = tools_of(Env)["guess"]
    assert made.description == "Compare a guess.\n\nIt costs one try."
    assert made.schema == {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
        "additionalProperties": False,
    }


def test_a_marked_method_is_still_a_method() -> None:
    class Env(Base):
        @tool
        def guess(self, number: int) -> int:
            return number + 1

    assert Env.guess(_env(Env), 4) == 5  # type: ignore[arg-type]


def test_a_tool_may_have_another_name_and_description() -> None:
    class Env(Base):
        @tool(name="say", description="Say it.")
        def _say(self, text: str) -> str:
            """Not this."""
            return text

    assert [(t.name, t.description) for t in tools_of(Env).values()] == [("say", "Say it.")]


def test_a_method_without_the_mark_is_no_tool() -> None:
    class Env(Base):
        def helper(self, number: int) -> int:
            return number

    assert tools_of(Env) == {}


async def test_a_tool_gets_its_arguments_by_their_types() -> None:
    class Env(Base):
        @tool
        def add(self, a: int, b: list[int] | None = None) -> int:
            return a + sum(b or [])

    assert (await _call(Env, "add", a=1, b=[2, 3])).content == "6"
    assert (await _call(Env, "add", a=1)).content == "1"


async def test_an_async_tool_is_awaited() -> None:
    class Env(Base):
        @tool
        async def wait(self) -> str:
            await asyncio.sleep(0)
            return "waited"

    assert (await _call(Env, "wait")).content == "waited"


async def test_a_raw_schema_stands_in_place_of_the_signature() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}

    class Env(Base):
        @tool(schema=schema)
        def search(self, **given) -> str:  # type: ignore[no-untyped-def]
            return f"{given}"

    assert tools_of(Env)["search"].schema == schema
    assert (await _call(Env, "search", q="x")).content == "{'q': 'x'}"


def test_a_raw_schema_that_is_none_is_refused_when_the_class_is_read() -> None:
    class Env(Base):
        @tool(schema={"type": "object", "properties": {"q": {"type": "words"}}})
        def search(self, **given: Any) -> str:
            return ""

    with pytest.raises(DefinitionError, match="tool 'search': its schema is none"):
        read_environment(Env)


def test_a_tool_without_types_is_refused_with_its_name() -> None:
    class Env(Base):
        @tool
        def guess(self, number):  # type: ignore[no-untyped-def]
            return number

    with pytest.raises(DefinitionError, match=r"tool Env\.guess: argument 'number' has no type"):
        tools_of(Env)


def test_two_tools_of_one_name_are_refused() -> None:
    class Env(Base):
        @tool(name="say")
        def first(self) -> str:
            return ""

        @tool(name="say")
        def second(self) -> str:
            return ""

    with pytest.raises(DefinitionError, match="Env has two tools named 'say'"):
        tools_of(Env)


def test_an_extra_tool_of_a_tools_name_is_refused() -> None:
    class Env(Base):
        extra_tools = (Weather(),)

        @tool
        def weather(self) -> str:
            return ""

    with pytest.raises(DefinitionError, match="two tools named 'weather'"):
        tools_of(Env)


class Parent(Base):
    @tool
    def first(self) -> str:
        return "parent's first"

    @tool
    def second(self) -> str:
        return "parent's second"


async def test_tools_are_inherited_before_the_classs_own_in_the_order_of_definition() -> None:
    class Child(Parent):
        @tool
        def a(self) -> str:
            return ""

    assert list(tools_of(Child)) == ["first", "second", "a"]


async def test_an_overridden_tool_is_the_childs_with_the_childs_schema() -> None:
    class Child(Parent):
        @tool
        def first(self, number: int) -> str:  # type: ignore[override]
            return f"child's {number}"

    assert list(tools_of(Child)) == ["first", "second"]
    assert "number" in tools_of(Child)["first"].schema["properties"]
    assert (await _call(Child, "first", number=1)).content == "child's 1"


def test_a_tool_that_the_child_sets_to_none_is_gone() -> None:
    class Child(Parent):
        first = None  # type: ignore[assignment]

    assert list(tools_of(Child)) == ["second"]


async def test_a_host_tool_as_an_attribute_is_a_tool() -> None:
    class Env(Base):
        lookup = Weather()

    made = tools_of(Env)["weather"]
    assert made.description == "The weather of a city.\n\nIn words."
    assert made.schema == Weather.parameters_schema
    output = await _call(Env, "weather", city="Rome")
    assert (output.content, output.stop, output.error) == ("Rome: sunny", True, False)


async def test_a_host_tool_among_the_extra_tools_is_a_tool() -> None:
    class Env(Base):
        extra_tools = (Weather(),)

        @tool
        def own(self) -> str:
            return ""

    assert list(tools_of(Env)) == ["own", "weather"]
    assert (await _call(Env, "weather", city="Rome")).content == "Rome: sunny"


def test_a_class_of_host_tools_as_an_attribute_is_no_tool() -> None:
    class Env(Base):
        Maker = Weather

    assert tools_of(Env) == {}


async def test_a_blocking_tool_runs_in_a_daemon_thread_of_its_own() -> None:
    class Env(Base):
        @tool(blocking=True)
        def where(self) -> list[Any]:
            thread = threading.current_thread()
            return [thread is threading.main_thread(), thread.daemon, thread.name]

    assert tools_of(Env)["where"].blocking
    assert (await _call(Env, "where")).content == '[false, true, "tinker-episodes-tool"]'


async def test_a_blocking_tools_exception_reaches_the_caller() -> None:
    class Env(Base):
        @tool(blocking=True)
        def fail(self) -> str:
            raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await _call(Env, "fail")


async def test_a_blocking_tools_stop_iteration_does_not_hang() -> None:
    class Env(Base):
        @tool(blocking=True)
        def fail(self) -> str:
            raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await _call(Env, "fail")


def test_an_async_tool_that_says_it_blocks_is_refused() -> None:
    class Env(Base):
        @tool(blocking=True)
        async def both(self) -> str:
            return ""

    with pytest.raises(DefinitionError, match="both"):
        tools_of(Env)


async def test_what_the_schema_takes_and_the_types_refuse_is_an_arguments_error() -> None:
    class Env(Base):
        @tool
        def pick(self, text: str) -> str:
            return text

    with pytest.raises(ArgumentsError, match="argument 'text'"):
        await _call(Env, "pick", text=5)


def test_a_scorer_is_no_tool() -> None:
    assert tools_of(Base) == {}


def test_an_override_without_a_mark_is_still_the_tool() -> None:
    class Base(Environment):
        @tool(name="look", description="Look.")
        def find(self, word: str) -> str:
            return word

        @scorer
        def always(self) -> int:
            return 1

    class Child(Base):
        def find(self, word: str, *, times: int = 1) -> str:
            return word * times

    made = tools_of(Child)["look"]
    assert made.description == "Look." and set(made.schema["properties"]) == {"word", "times"}
