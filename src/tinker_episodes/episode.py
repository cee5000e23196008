"""One play of one task: open, record replies, run their calls, close with a score.

    episode = Episode(environment, task)
    prompt = await episode.open()
    episode.record(reply)
    results = await episode.run_calls()
    outcome = await episode.close()

States: new → open → closed | failed | abandoned. It knows no model, renderer or trainer.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from tinker_episodes.environment import Environment, EnvironmentClass, read_environment
from tinker_episodes.errors import ArgumentsError, EpisodeClosed, EpisodeFailed
from tinker_episodes.hooks import Hooks, all_of
from tinker_episodes.message import Call, CallResult, Message
from tinker_episodes.outcome import Counts, Cut, Outcome
from tinker_episodes.outputs import ToolOutput, shortened
from tinker_episodes.refusals import quoted
from tinker_episodes.scoring import Score, as_score, reward_scorer
from tinker_episodes.task import Prompt, Task
from tinker_episodes.tool_calls import output_of
from tinker_episodes.tools import Tool
from tinker_episodes.transcript import Answered, Prompted, Replied, Told, Transcript
from tinker_episodes.universe import UniverseData

logger = logging.getLogger(__name__)

T = TypeVar("T")


class State(StrEnum):
    """Where an episode is in its life."""

    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"
    FAILED = "failed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class OpenPrompt:
    """A prompt with what it leaves to the environment filled in."""

    text: str
    system_prompt: str
    tools: Mapping[str, Tool]


class Episode:
    """One play of one task.

    Every method but `record` may raise `EpisodeFailed`, which ends it without a score.
    """

    def __init__(
        self,
        environment: type[Environment],
        task: Task,
        *,
        data: UniverseData | None = None,
        reward: str | None = None,
    ) -> None:
        """
        Args:
            data: The universe that it starts from.
            reward: The scorer whose value is the reward; needed where the task has several.

        Raises:
            DefinitionError: an environment class that can't work.
            ConfigError: params that do not fit; no scorer is named where there are several, or
                one that the task lacks.
        """
        self.id = uuid.uuid4().hex
        self._class: EnvironmentClass = read_environment(environment)
        self.task = self._class.typed(task)
        self.state = State.NEW
        self.counts = Counts()
        self.transcript = Transcript()
        self.reason = ""
        """Why it failed or was abandoned."""
        self.opened_at: float | None = None
        self.closed_at: float | None = None
        self.outcome: Outcome | None = None
        self.over = False
        """Whether it has ended and its environment is released."""
        self._data = data or UniverseData()
        self._reward = reward_scorer(self._class.scorers, task, reward)
        self._environment: Environment | None = None
        self._prompt: OpenPrompt | None = None
        self._reply: Message | None = None
        self._unanswered: tuple[Call, ...] = ()
        self._calls = 0
        self._hooks = Hooks()
        self._ending: asyncio.Task[None] | None = None
        self._when_over: list[Callable[[], object]] = []

    @property
    def environment(self) -> Environment:
        """The environment instance, from `open` on."""
        if self._environment is None:
            raise EpisodeClosed(f"episode {self.id} has no environment before it is opened")
        return self._environment

    @property
    def prompt(self) -> OpenPrompt:
        """The prompt that the model is answering."""
        if self._prompt is None:
            raise EpisodeClosed(f"episode {self.id} has no prompt before it is opened")
        return self._prompt

    @property
    def ended(self) -> bool:
        """Whether the environment has ended the episode."""
        return self._environment is not None and self._environment.ended

    @property
    def longest_end_s(self) -> float:
        """Seconds that an end may take: what runs unwinds, a blocking tool is waited for, scorers
        and `close` run, and each may take as long again to unwind.
        """
        limits = self._class.environment
        scoring = 2 * len(self._scorers()) * limits.scorer_timeout_s
        return 3 * limits.tool_timeout_s + scoring + 4 * limits.hook_timeout_s

    # ------------------------------------------------------------ life

    async def open(self, *, limit_s: float | None = None) -> OpenPrompt:
        """Make the environment and give the first prompt.

        Args:
            limit_s: Seconds that the environment's `open` may take, where that is less than its
                `hook_timeout_s`.
        """
        self._need(State.NEW, "open")
        self.state = State.OPEN
        self.opened_at = time.time()
        limit = self._class.environment.hook_timeout_s
        limit = limit if limit_s is None else min(limit, limit_s)
        return await self._failing(self._open(limit))

    def record(self, message: Message) -> None:
        """Record the model's reply, before anything of it runs."""
        self._need(State.OPEN, "record")
        if self._unanswered:
            raise EpisodeClosed(f"episode {self.id} has calls that were not run")
        self._reply = message
        self._unanswered = message.calls
        self.counts.messages += 1
        self.counts.format_errors += bool(message.malformed)
        self.transcript.add(Replied(message))

    def tell(self, text: str) -> None:
        """Record that the model was told something outside of the task, such as a format error."""
        self._need(State.OPEN, "tell")
        self.counts.messages += 1
        self.transcript.add(Told(text))

    async def run_calls(self, *, limit: int | None = None) -> tuple[CallResult, ...]:
        """Run the last reply's calls and answer every one, in the reply's order.

        Args:
            limit: How many may still run; the rest is answered as not run.
        """
        self._need(State.OPEN, "run_calls")
        calls, self._unanswered = self._unanswered, ()
        allowed = len(calls) if limit is None else max(limit, 0)
        ids = [self._next_id() for _ in calls]
        pairs = list(zip(ids, calls, strict=True))
        if self.environment.parallel_calls:
            running = all_of([self._run(id, call) for id, call in pairs[:allowed]])
        else:
            running = self._one_by_one(pairs[:allowed])
        results = await self._failing(running)
        for id, call in pairs[allowed:]:
            results.append(self._answer(id, call, _NOT_RUN_LIMIT, ran=False))
        return tuple(results)

    async def next_prompt(self) -> OpenPrompt | None:
        """What the model is told after a reply without a call. None: the episode is over."""
        self._need(State.OPEN, "next_prompt")
        reply = self._reply
        if reply is None:
            raise EpisodeClosed(f"episode {self.id} has no reply yet")
        return await self._failing(self._next_prompt(reply))

    async def close(self, cut: Cut | None = None) -> Outcome:
        """Score the state as it is, then release the environment.

        Scoring goes on where its caller is cancelled: `settled` waits for it, and `abandon` stops
        it.

        Args:
            cut: What ended the episode, if neither the model nor the task did.
        """
        self._need(State.OPEN, "close")
        self.state = State.CLOSED
        await self._end(self._close(cut))
        if self.outcome is None:
            raise EpisodeClosed(f"episode {self.id} was abandoned while it was scored")
        return self.outcome

    async def abandon(self, reason: str) -> None:
        """End the episode without a score; where it has ended already, wait until it is over."""
        if self.state in (State.NEW, State.OPEN):
            self.reason, self.state = reason, State.ABANDONED
            await self._end(self._finish())
        elif self._ending is not None and not self.over:
            if self.state is State.CLOSED and self.outcome is None:
                self.reason = reason
                self._ending.cancel()
            await self.settled()
            if not self.over:  # it was cancelled before its first step
                self.state = State.ABANDONED
                await self._end(self._finish())

    async def settled(self) -> None:
        """Wait until an end that has begun is over."""
        if self._ending is not None:
            await asyncio.wait({self._ending})

    def when_over(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, when the episode has ended and its environment is released."""
        self._when_over.append(callback)

    # ------------------------------------------------------------ prompts

    async def _open(self, limit_s: float) -> OpenPrompt:
        made = self._environment = await self._hook("the environment", self._make)
        await self._hooks.run("open", lambda: made.open(self.task), limit_s=limit_s)
        return await self._give(self.task.prompts[0])

    async def _next_prompt(self, reply: Message) -> OpenPrompt | None:
        prompt = await self._hook("next_prompt", lambda: self.environment.next_prompt(reply))
        if not isinstance(prompt, Prompt | None):  # pyright: ignore[reportUnnecessaryIsInstance] - an author may give text
            raise EpisodeFailed(f"next_prompt gave {prompt!r}: a Prompt or None would be right")
        return None if prompt is None else await self._give(prompt)

    def _make(self) -> Environment:
        return self._class.make(self.task, self._data)

    async def _give(self, prompt: Prompt) -> OpenPrompt:
        system = prompt.system_prompt
        if system is None:
            system = await self._hook("system_prompt", lambda: self.environment.system_prompt)
        names = self._class.tools if prompt.tools is None else prompt.tools
        unknown = [name for name in names if name not in self._class.tools]
        if unknown:
            raise EpisodeFailed(f"a prompt names tools that there are not: {', '.join(unknown)}")
        offered = self._class.offered(names)
        self._prompt = OpenPrompt(prompt.text, system, offered.by_name)
        self.counts.messages += 1
        self.transcript.add(Prompted(prompt.text, system, offered))
        return self._prompt

    # ------------------------------------------------------------ calls

    def _next_id(self) -> str:
        self._calls += 1
        return f"call_{self._calls}"

    async def _one_by_one(self, pairs: Sequence[tuple[str, Call]]) -> list[CallResult]:
        results: list[CallResult] = []
        for id, call in pairs:
            if results:  # other episodes have their turn: a tool that is not async never waits
                await asyncio.sleep(0)
            results.append((await self._run(id, call))())
        return results

    async def _run(self, call_id: str, call: Call) -> Callable[[], CallResult]:
        """Run one call. What it gives records the answer, so that the order is the reply's."""
        self._need(State.OPEN, "run_calls")
        answer = partial(self._answer, call_id, call)
        if self.ended:
            return partial(answer, _NOT_RUN_ENDED, ran=False)
        tool = self.prompt.tools.get(call.name)
        if tool is None:
            offered = ", ".join(self.prompt.tools) or "none"
            unknown = f"there is no tool {quoted(call.name)}; there are: {offered}"
            return partial(answer, ToolOutput(f"Error: {unknown}", error=True))
        try:
            arguments = self._class.arguments[tool.name].fit(call.arguments, typed=call.typed)
        except ArgumentsError as error:
            return partial(answer, ToolOutput(f"Error: {error}", error=True))
        errors = self._class.tool_errors
        output = await output_of(tool, arguments, self.environment, self._hooks, seen=errors)
        return partial(answer, output, arguments)

    def _answer(
        self,
        call_id: str,
        call: Call,
        output: ToolOutput,
        arguments: Mapping[str, Any] | None = None,
        *,
        ran: bool = True,
    ) -> CallResult:
        seen = shortened(output.content, self.environment.result_limit)
        result = CallResult(call_id, call.name, seen, output.error)
        whole = None
        if seen is not output.content:
            whole = shortened(output.content, self.environment.recorded_result_limit)
        self.counts.messages += 1
        self.counts.tool_calls += ran
        self.counts.tool_errors += output.error
        self.transcript.add(Answered(call, arguments, result, whole))
        return result

    # ------------------------------------------------------------ scores

    def _scorers(self) -> tuple[str, ...]:
        return self.task.scorers or tuple(self._class.scorers)

    async def _score(self, name: str) -> Score:
        method = getattr(self.environment, self._class.scorers[name])
        limit = self.environment.scorer_timeout_s
        value = await self._hooks.run(f"scorer {name!r}", method, limit_s=limit)
        return await self._hook(f"scorer {name!r}", lambda: as_score(name, value))

    # ------------------------------------------------------------ ends

    def _need(self, state: State, action: str) -> None:
        if self.state is not state:
            raise EpisodeClosed(
                f"episode {self.id} of task {self.task.id!r} is {self.state}: "
                f"{action} needs {state}"
            )

    async def _hook(self, where: str, hook: Callable[[], T | Awaitable[T]]) -> T:
        return await self._hooks.run(where, hook, limit_s=self._class.environment.hook_timeout_s)

    async def _failing(self, work: Awaitable[T]) -> T:
        """Do some of the episode's work. Where it fails, the episode ends; the first end stands."""
        try:
            return await work
        except EpisodeFailed as error:
            if self.state is State.OPEN:
                self.reason, self.state = str(error), State.FAILED
                await self._end(self._finish())
            raise self._failed(error) from error.__cause__

    def _failed(self, error: EpisodeFailed) -> EpisodeFailed:
        return EpisodeFailed(f"task {self.task.id!r}: {error}")

    async def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        """End in a task of its own: who is cancelled while it waits takes nothing back."""
        self._ending = asyncio.get_running_loop().create_task(ending)
        await asyncio.shield(self._ending)

    async def _close(self, cut: Cut | None) -> None:
        try:
            await self._hooks.settle(self.environment.tool_timeout_s)
            scores = {name: await self._score(name) for name in self._scorers()}
            changes = await self._hook("changes", self.environment.universe.changes)
        except EpisodeFailed as error:
            self.reason, self.state = str(error), State.FAILED
            await self._finish()
            raise self._failed(error) from error.__cause__
        except asyncio.CancelledError:
            self.reason = self.reason or "cancelled while it was scored"
            self.state = State.ABANDONED
            await self._finish()
            return
        self.outcome = Outcome(scores, scores[self._reward].value, cut, self.counts, changes)
        await self._finish()

    async def _finish(self) -> None:
        """Release the environment, once. A score stands, whatever `close` does."""
        self.closed_at = time.time()
        try:
            if self._environment is not None:
                await self._hooks.stop(self._environment.tool_timeout_s)
                await self._hook("close", self._environment.close)
        except (EpisodeFailed, EpisodeClosed) as error:  # what leaks is logged
            logger.warning("episode %s: %s", self.id, type(error.__cause__).__name__)
        finally:
            self.over = True
            for callback in self._when_over:
                callback()


_NOT_RUN_LIMIT = ToolOutput("Not run: the limit of tool calls is reached.")
_NOT_RUN_ENDED = ToolOutput("Not run: the episode has ended.")
