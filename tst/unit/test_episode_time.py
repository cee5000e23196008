"""Calls that hang, block or run at the same time."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.episodes import TASK, Speaker, contents, opened, run_calls, say

from tinker_episodes import Call, CallResult, Episode, Message, Task, scorer, tool
from tinker_episodes.errors import EpisodeFailed

# ---------------------------------------------------------------- time


async def test_a_tool_that_hangs_fails_the_episode() -> None:
    class Hanging(Speaker):
        tool_timeout_s = 0.01
        tool_errors = (TimeoutError,)

        @tool
        async def hang(self) -> str:
            await asyncio.Event().wait()
            return ""

    episode = await opened(Hanging)
    with pytest.raises(EpisodeFailed, match=r"tool 'hang' took longer than 0\.01 s"):
        await run_calls(episode, Call("hang", {}))
    assert (episode.state, episode.environment.closes) == ("failed", 1)


async def test_a_tools_own_timeout_error_is_no_timeout_of_the_episode() -> None:
    class Remote(Speaker):
        tool_errors = (TimeoutError,)

        @tool
        async def ask(self) -> str:
            raise TimeoutError("the service is slow")

    (result,) = await run_calls(await opened(Remote), Call("ask", {}))
    assert result.content == "Error: the service is slow"


async def test_a_blocking_tool_that_hangs_fails_the_episode(released: threading.Event) -> None:
    class Hanging(Speaker):
        tool_timeout_s = 0.01

        @tool(blocking=True)
        def hang(self) -> str:
            released.wait(30)
            return ""

    episode = await opened(Hanging)
    with pytest.raises(EpisodeFailed, match="tool 'hang' took longer"):
        await run_calls(episode, Call("hang", {}))
    assert (episode.state, episode.environment.closes) == ("failed", 1)


async def test_other_episodes_go_on_while_a_blocking_tool_runs(
    released: threading.Event, reached: Callable[[threading.Event], Any]
) -> None:
    started = threading.Event()

    class Slow(Speaker):
        @tool(blocking=True)
        def wait(self) -> str:
            started.set()
            return str(released.wait(30))

    slow, quick = await opened(Slow), await opened(Speaker)
    waiting = asyncio.create_task(run_calls(slow, Call("wait", {})))
    await reached(started)
    assert contents(await run_calls(quick, say("a"))) == ["said a"]
    assert not waiting.done()
    released.set()
    assert contents(await waiting) == ["True"]


class Blocking(Speaker):
    """A blocking tool that says when it has begun, and goes on when it is let."""

    began: threading.Event
    goes_on: threading.Event

    @tool(blocking=True)
    def write(self) -> str:
        self.began.set()
        assert self.goes_on.wait(30)
        self.log.append("written")
        return "ok"


def _blocking(goes_on: threading.Event, **more: Any) -> type[Blocking]:
    return type("Blocked", (Blocking,), {"began": threading.Event(), "goes_on": goes_on, **more})


async def _cut(
    episode: Episode, reached: Callable[[threading.Event], Any]
) -> asyncio.Task[tuple[CallResult, ...]]:
    """The call of `write` that was cancelled while its thread went on."""
    running = asyncio.create_task(run_calls(episode, Call("write", {})))
    await reached(episode.environment.began)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return running


async def test_a_cut_waits_for_a_blocking_tool_before_it_scores(
    released: threading.Event, reached: Callable[[threading.Event], Any]
) -> None:
    environment = _blocking(released)
    episode = await opened(environment)
    await _cut(episode, reached)
    closing = asyncio.create_task(episode.close())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not closing.done()
    assert episode.environment.closes == 0
    released.set()
    assert (await closing).reward == 1.0
    assert episode.environment.closes == 1


async def test_a_blocking_tool_that_outlives_its_time_fails_the_cut_episode(
    released: threading.Event, reached: Callable[[threading.Event], Any]
) -> None:
    environment = _blocking(released)
    episode = await opened(environment)
    await _cut(episode, reached)
    environment.tool_timeout_s = 0.01
    with pytest.raises(
        EpisodeFailed, match="a blocking tool was still running when its time was up"
    ):
        await episode.close()
    assert (episode.state, episode.outcome) == ("failed", None)


async def test_a_late_blocking_tool_that_raises_leaves_no_warning(
    released: threading.Event, reached: Callable[[threading.Event], Any]
) -> None:
    class Failing(Blocking):
        began = threading.Event()
        goes_on = released

        @tool(blocking=True)
        def write(self) -> str:
            super().write()
            raise OSError("late")

    episode = await opened(Failing)
    running = await _cut(episode, reached)
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: complaints.append(context)
    )
    released.set()
    assert (await episode.close()).reward == 1.0
    del running
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


# ---------------------------------------------------------------- calls at the same time


class Parallel(Speaker):
    """`first` ends only after `second` has: they run at the same time or hang."""

    parallel_calls = True

    def open(self, task: Task) -> None:
        super().open(task)
        self.second_done = asyncio.Event()

    @tool
    async def first(self) -> str:
        await self.second_done.wait()
        self.log.append("first")
        return "first"

    @tool
    async def second(self) -> str:
        self.log.append("second")
        self.second_done.set()
        return "second"

    @tool
    async def break_down(self) -> str:
        self.second_done.set()
        raise ZeroDivisionError("a bug")


async def test_parallel_calls_run_together_and_are_answered_in_the_replys_order() -> None:
    episode = await opened(Parallel)
    results = await run_calls(episode, Call("first", {}), Call("second", {}))
    assert contents(results) == ["first", "second"]
    assert [result.call_id for result in results] == ["call_1", "call_2"]
    assert episode.environment.log == ["second", "first"]


async def test_the_transcript_has_parallel_results_in_the_replys_order() -> None:
    episode = await opened(Parallel)
    await run_calls(episode, Call("first", {}), Call("second", {}))
    assert [e["name"] for e in episode.transcript.to_json()[-2:]] == ["first", "second"]


async def test_where_one_parallel_call_fails_the_others_end_first() -> None:
    episode = await opened(Parallel)
    with pytest.raises(EpisodeFailed, match="a bug"):
        await run_calls(episode, Call("first", {}), Call("break_down", {}), Call("first", {}))
    assert episode.environment.log == ["first", "first"]
    assert (episode.state, episode.environment.closes) == ("failed", 1)


async def test_a_limit_holds_for_parallel_calls() -> None:
    episode = await opened(Parallel)
    results = await run_calls(episode, Call("second", {}), Call("first", {}), say("x"), limit=2)
    assert contents(results)[:2] == ["second", "first"]
    assert results[2].content == "Not run: the limit of tool calls is reached."
    assert "x" not in episode.environment.log


async def test_calls_run_one_after_another_by_default() -> None:
    class InTurn(Speaker):
        @tool
        async def slow(self, n: int) -> str:
            self.log.append(f"begin {n}")
            await asyncio.sleep(0)
            self.log.append(f"end {n}")
            return ""

    episode = await opened(InTurn)
    await run_calls(episode, Call("slow", {"n": 1}), Call("slow", {"n": 2}))
    assert episode.environment.log == ["begin 1", "end 1", "begin 2", "end 2"]


@pytest.mark.parametrize("hook", ["open", "tool", "next_prompt", "scorer"])
async def test_a_cancellation_that_a_hook_raises_itself_fails_the_episode(hook: str) -> None:
    def cancelled(where: str) -> None:
        if where == hook:
            raise asyncio.CancelledError

    class Broken(Speaker):
        def open(self, task: Task) -> None:
            super().open(task)
            cancelled("open")

        @tool
        def fetch(self) -> str:
            cancelled("tool")
            return ""

        def next_prompt(self, reply: Message) -> None:
            cancelled("next_prompt")

        @scorer
        def done(self) -> float:
            cancelled("scorer")
            return 1.0

    episode = Episode(Broken, TASK, reward="done")
    with pytest.raises(EpisodeFailed, match="CancelledError"):
        await episode.open()
        await run_calls(episode, Call("fetch", {}))
        episode.record(Message("assistant", "done"))
        await episode.next_prompt()
        await episode.close()
    assert episode.state == "failed"
