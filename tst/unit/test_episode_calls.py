"""How an episode runs the calls of a reply."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.episodes import PIXEL, TASK, Speaker, contents, opened, run_calls, say

from tinker_episodes import (
    Call,
    Episode,
    Message,
    Prompt,
    Task,
    Text,
    ToolError,
    tool,
)
from tinker_episodes.errors import DefinitionError, EpisodeFailed

VOICE = ContextVar("voice", default="quiet")


class Env(Speaker):
    tool_errors = (LookupError,)

    @tool
    def finish(self) -> str:
        self.end()
        return "bye"

    @tool
    async def fail(self, how: str) -> str:
        if how == "tool":
            raise ToolError("try again")
        if how == "lookup":
            raise KeyError("no such key")
        if how == "silent":
            raise IndexError
        raise ZeroDivisionError("a bug")


# ---------------------------------------------------------------- order and ids


async def test_a_reply_without_calls_has_no_results() -> None:
    assert await run_calls(await opened(Env)) == ()


@pytest.mark.parametrize("ids", [("same", "same"), (None, None), ("", ""), ("call_2", "call_1")])
async def test_every_call_is_answered_in_order_under_an_id_of_its_own(
    ids: tuple[str | None, str | None],
) -> None:
    episode = await opened(Env)
    results = await run_calls(episode, say("a", ids[0]), say("b", ids[1]))
    assert contents(results) == ["said a", "said b"]
    assert [result.call_id for result in results] == ["call_1", "call_2"]
    assert episode.environment.log == ["a", "b"]


async def test_ids_are_unique_over_the_whole_episode() -> None:
    episode = await opened(Env)
    first = await run_calls(episode, say("a"), say("b"))
    second = await run_calls(episode, say("c"))
    ids = [result.call_id for result in (*first, *second)]
    assert len(set(ids)) == 3


async def test_the_written_id_is_kept_in_the_transcript() -> None:
    episode = await opened(Env)
    await run_calls(episode, say("a", "theirs"))
    reply, result = episode.transcript.to_json()[-2:]
    assert (reply["calls"][0]["id"], result["call_id"]) == ("theirs", "call_1")


async def test_calls_run_once() -> None:
    episode = await opened(Env)
    await run_calls(episode, say("a"))
    assert await episode.run_calls() == ()
    assert episode.environment.log == ["a"]


async def test_others_have_their_turn_between_the_calls_of_a_reply() -> None:
    episode, heard = await opened(Env), list[int]()

    async def listen() -> None:
        while True:
            heard.append(len(episode.environment.log))
            await asyncio.sleep(0)

    listening = asyncio.create_task(listen())
    await run_calls(episode, *(say(str(n)) for n in range(5)))
    listening.cancel()
    assert {1, 2, 3, 4} <= set(heard)


async def test_a_tool_without_await_sees_the_context_that_open_set() -> None:
    class Spoken(Env):
        def open(self, task: Task) -> None:
            VOICE.set("loud")

        @tool
        def voice(self) -> str:
            return VOICE.get()

    episode = await opened(Spoken)
    assert contents(await run_calls(episode, Call("voice", {}))) == ["loud"]
    assert VOICE.get() == "quiet"


async def test_the_same_call_twice_runs_twice() -> None:
    episode = await opened(Env)
    await run_calls(episode, say("a"), say("a"))
    assert episode.environment.log == ["a", "a"]


# ---------------------------------------------------------------- what the model is told


async def test_an_unknown_tool_is_answered_with_those_that_there_are() -> None:
    (result,) = await run_calls(await opened(Env), Call("shout", {}))
    assert result.error
    assert result.content == "Error: there is no tool 'shout'; there are: say, finish, fail"


async def test_a_tool_that_the_prompt_does_not_offer_is_unknown() -> None:
    episode = await opened(Env, Task("t", (Prompt("Go.", tools=("finish",)),)))
    (result,) = await run_calls(episode, say("a"))
    assert result.content == "Error: there is no tool 'say'; there are: finish"
    assert episode.environment.log == []


async def test_a_prompt_without_tools_offers_none() -> None:
    episode = await opened(Env, Task("t", (Prompt("Go.", tools=()),)))
    (result,) = await run_calls(episode, say("a"))
    assert result.content == "Error: there is no tool 'say'; there are: none"


async def test_the_tools_of_the_last_prompt_are_gone_with_the_next() -> None:
    task = Task("t", (Prompt("one", tools=("say",)), Prompt("two", tools=("finish",))))
    episode = await opened(Env, task)
    assert contents(await run_calls(episode, say("a"))) == ["said a"]
    episode.record(Message("assistant", "done"))
    await episode.next_prompt()
    (result,) = await run_calls(episode, say("b"))
    assert result.error


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 10_000, "a\nb", "say ", "__init__", "close"])
async def test_any_name_of_a_call_is_answered(name: str) -> None:
    (result,) = await run_calls(await opened(Env), Call(name, {}))
    assert result.error
    assert len(str(result.content)) < 500


@pytest.mark.parametrize(
    "call",
    [
        Call("say", {}),
        Call("say", {"text": 5}),
        Call("say", {"text": "a", "more": "b"}),
        Call("say", "[1]"),
        Call("say", "[" * 100_000),
        Call("say", '{"text": 5}', typed=False),
    ],
    ids=["missing", "wrong", "unknown", "no object", "brackets", "whole text"],
)
async def test_wrong_arguments_are_answered_and_the_tool_does_not_run(call: Call) -> None:
    episode = await opened(Env)
    (result,) = await run_calls(episode, call)
    assert result.error
    assert str(result.content).startswith("Error: ")
    assert episode.environment.log == []
    assert episode.state == "open"


async def test_arguments_are_typed_by_the_schema() -> None:
    (result,) = await run_calls(await opened(Env), Call("say", {"text": "19122"}, typed=False))
    assert result.content == "said 19122"


@pytest.mark.parametrize(
    ("how", "told"),
    [("tool", "try again"), ("lookup", "'no such key'"), ("silent", "IndexError")],
)
async def test_a_tools_own_errors_go_to_the_model(how: str, told: str) -> None:
    episode = await opened(Env)
    (result,) = await run_calls(episode, Call("fail", {"how": how}))
    assert (result.content, result.error) == (f"Error: {told}", True)
    assert episode.state == "open"


async def test_calls_after_an_error_still_run() -> None:
    episode = await opened(Env)
    results = await run_calls(episode, Call("fail", {"how": "tool"}), Call("nothing", {}), say("a"))
    assert [result.error for result in results] == [True, True, False]
    assert episode.environment.log == ["a"]


async def test_errors_are_counted() -> None:
    episode = await opened(Env)
    await run_calls(
        episode, Call("fail", {"how": "tool"}), Call("nothing", {}), Call("say", {}), say("a")
    )
    assert (episode.counts.tool_calls, episode.counts.tool_errors) == (4, 3)


async def test_any_other_exception_fails_the_episode_and_closes_it_once() -> None:
    episode = await opened(Env)
    with pytest.raises(EpisodeFailed, match="task 't': tool 'fail': a bug") as caught:
        await run_calls(episode, Call("fail", {"how": "bug"}), say("a"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert episode.environment.log == []
    assert (episode.state, episode.environment.closes) == ("failed", 1)
    assert episode.reason == "tool 'fail': a bug"


class Odd(Env):
    @tool
    def odd(self) -> Any:
        return object()


async def test_a_tool_that_returns_what_json_lacks_fails_the_episode() -> None:
    episode = await opened(Odd)
    with pytest.raises(EpisodeFailed, match=r"tool 'odd': .*not JSON serializable"):
        await run_calls(episode, Call("odd", {}))
    assert (episode.state, episode.environment.closes) == ("failed", 1)


async def test_what_json_lacks_is_no_error_of_the_tool_that_the_model_may_see() -> None:
    episode = await opened(type("Lenient", (Odd,), {"tool_errors": (TypeError,)}))
    with pytest.raises(EpisodeFailed, match="tool 'odd'"):
        await run_calls(episode, Call("odd", {}))


def test_a_tool_whose_schema_points_nowhere_is_refused_before_an_episode_opens() -> None:
    class Nowhere(Env):
        @tool(schema={"type": "object", "properties": {"x": {"$ref": "#/$defs/no"}}})
        def odd(self, **given: Any) -> str:
            return ""

    with pytest.raises(DefinitionError, match="tool 'odd'"):
        Episode(Nowhere, TASK)


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", "text"),
        (None, ""),
        ({"a": [1]}, '{"a": [1]}'),
        ([Text("a"), PIXEL], (Text("a"), PIXEL)),
    ],
)
async def test_what_a_tool_returns_is_the_results_content(returned: Any, content: Any) -> None:
    class Echo(Env):
        @tool
        def echo(self) -> Any:
            return returned

    (result,) = await run_calls(await opened(Echo), Call("echo", {}))
    assert (result.content, result.error) == (content, False)


# ---------------------------------------------------------------- the cookbook's tools


@dataclass
class HostResult:
    messages: list[dict[str, Any]]
    should_stop: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


class Stopper:
    name = "stop"
    description = "Stop."
    parameters_schema: dict[str, Any] = {  # noqa: RUF012
        "type": "object",
        "properties": {"zip": {"type": "string"}},
    }

    async def run(self, input: Any) -> HostResult:
        return HostResult([{"role": "tool", "content": input.arguments["zip"]}], should_stop=True)


@pytest.mark.parametrize("where", ["attribute", "extra"])
async def test_a_host_tool_that_stops_ends_the_episode(where: str) -> None:
    members = {"lookup": Stopper()} if where == "attribute" else {"extra_tools": (Stopper(),)}
    episode = await opened(type("Hosting", (Env,), members))
    results = await run_calls(episode, Call("stop", {"zip": "00501"}, typed=False), say("a"))
    assert contents(results) == ["00501", "Not run: the episode has ended."]
    assert episode.ended


async def test_a_host_tool_gets_arguments_that_fit_its_schema() -> None:
    episode = await opened(type("Hosting", (Env,), {"lookup": Stopper()}))
    (result,) = await run_calls(episode, Call("stop", {"zip": 501}))
    assert result.error
    assert "argument 'zip' is 501" in str(result.content)


# ---------------------------------------------------------------- ends inside a reply


async def test_ending_stops_the_later_calls_of_the_reply() -> None:
    episode = await opened(Env)
    results = await run_calls(episode, say("a"), Call("finish", {}), say("b"), Call("nothing", {}))
    ended = "Not run: the episode has ended."
    assert contents(results) == ["said a", "bye", ended, ended]
    assert [result.error for result in results] == [False] * 4
    assert (episode.environment.log, episode.counts.tool_calls) == (["a"], 2)
    assert episode.state == "open"


@pytest.mark.parametrize(("limit", "ran"), [(0, 0), (-1, 0), (1, 1), (2, 2), (9, 3), (None, 3)])
async def test_a_limit_answers_the_rest_as_not_run(limit: int | None, ran: int) -> None:
    episode = await opened(Env)
    results = await run_calls(episode, say("a"), say("b"), say("c"), limit=limit)
    not_run = ["Not run: the limit of tool calls is reached."] * (3 - ran)
    assert contents(results) == ["said a", "said b", "said c"][:ran] + not_run
    assert [result.call_id for result in results] == ["call_1", "call_2", "call_3"]
    assert (episode.environment.log, episode.counts.tool_calls) == (["a", "b", "c"][:ran], ran)
