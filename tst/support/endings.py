"""Every way in which a rollout ends, as one table: what is played, and what is right.

`tst/tinker/test_endings.py` plays each row under the host's own runner and strategies, and compares
the rows with docs/endings.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tinker_cookbook.rl.rollout_limits import (
    ParseErrorPolicy,
    RolloutLimits,
)
from tinker_cookbook.rl.rollout_strategy import (
    RetryOnFailure,
    RolloutStrategy,
)

from support.scripted import DONE, JSON_END, Counter, call
from tinker_episodes import Bundle, Message, Prompt, Task, scorer, tool

HOUR = 3600.0
ADD = call("add")
BROKEN = f"<tool_call>\n{{no json\n</tool_call>{JSON_END}"
TWO_CALLS = ADD.removesuffix(JSON_END) + call("add", amount=5)


class Fragile(Counter):
    """Counts; breaks or hangs where it is told to, and in the first `open` where the class is."""

    first_open: str = ""

    async def open(self, task: Task) -> None:
        behaviour, type(self).first_open = type(self).first_open, ""
        super().open(task)
        self.breaks = ""
        await _misbehave(behaviour)

    @tool
    async def hang(self) -> str:
        """Never come back."""
        return await _misbehave("hang")

    @tool
    async def leave(self) -> str:
        """Ask the interpreter to exit."""
        return await _misbehave("exit")

    @tool
    def outlast(self) -> str:
        """Take an hour, and let nothing else run."""
        loop: Any = asyncio.get_running_loop()
        loop.clock.now_s += HOUR
        return "at last"

    @tool
    def spoil(self, what: str) -> str:
        """Break what comes later, as in `scorer: raise`."""
        self.breaks = what
        return "ok"

    async def next_prompt(self, reply: Message) -> Prompt | None:
        await self._misbehave_in("next_prompt")
        return await _none()

    @scorer
    async def counted(self) -> float:
        await self._misbehave_in("scorer")
        return self.count / 10

    async def close(self) -> None:
        super().close()
        await self._misbehave_in("close")

    async def _misbehave_in(self, hook: str) -> None:
        where, _, how = self.breaks.partition(": ")
        if where == hook:
            await _misbehave(how)


async def _none() -> None:
    return None


async def _misbehave(how: str) -> str:
    if how == "raise":
        raise RuntimeError("a bug")
    if how == "exit":
        raise SystemExit(3)
    if how == "hang":
        await asyncio.Event().wait()
    if how == "hang on":  # and again, when it is cancelled
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()
    return ""


class Unmakeable(Counter):
    """Can't be made."""

    def __init__(self, *args: Any) -> None:
        raise OSError("no room")


UNMAKEABLE = Bundle(name="unmakeable", environment=Unmakeable, tasks=[Task.of("t0", "Count.")])
FRAGILE = Bundle(name="fragile", environment=Fragile, tasks=[Task.of("t0", "Count.")])


# ---------------------------------------------------------------- the table

Said = Callable[[], list[Any]]


def never() -> Any:
    """A sampling call that hangs."""
    return asyncio.Event().wait()


def says(*texts: Any) -> Said:
    return lambda: [text() if callable(text) else text for text in texts]


async def _late() -> None:
    await asyncio.sleep(HOUR + 0.5)


@dataclass(frozen=True)
class Ending:
    """One row. The fields up to `trained` are its cells in the docs."""

    name: str
    stop_reason: str
    """`Trajectory.stop_reason`; "—": the host has no trajectory."""
    scored: str
    """When, or "never"."""
    paid: str
    """On which of the host's two rewards the score leaves."""
    cut: str
    index: str
    """Status in the index, with its reason."""
    trained: str

    said: Said
    """What the policy says, one text a turn; `first_open` speaks for those who get none."""
    reward: float | None = None
    """As it stands in the index."""
    extra: float = 0.0
    """What the host's total holds beside the score."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    parse_errors: Mapping[str, Any] | None = None
    strategy: RolloutStrategy = RetryOnFailure(max_retries=1)  # noqa: RUF009 - frozen
    first_open: str = ""
    asks: bool = True
    """Whether the policy is asked at all."""
    group_lost: bool = False
    slots: int = 1
    """How many there are for the rollout and its sibling."""


def finished(name: str, stop: str, said: Said, **more: Any) -> Ending:
    return Ending(name, stop, "in its step", "step", "—", "finished", "yes", said, **more)


def cut(name: str, stop: str, cut: str, said: Said, **more: Any) -> Ending:
    return Ending(name, stop, "in its step", "step", cut, "cut", "yes", said, **more)


def failed(name: str, reason: str, said: Said, **more: Any) -> Ending:
    return Ending(name, "—", "never", "—", "—", f"failed: {reason}", "no, retried", said, **more)


def dropped(
    name: str, reason: str, said: Said, trained: str = "no, retried", **more: Any
) -> Ending:
    return Ending(name, "—", "never", "—", "—", f"abandoned: {reason}", trained, said, **more)


_TIME = {"rollout_timeout_seconds": HOUR}

ENDINGS = [
    # -------- the model or the task ends it
    finished("a reply without a call", "completed", says(ADD, DONE), reward=0.1),
    finished("a tool ends the episode", "tool_stopped", says(ADD, call("stop")), reward=0.1),
    finished(
        "`length` under a token budget goes on",
        "completed",
        says(("thinking", "length"), ADD, DONE),
        reward=0.1,
        limits={"max_turn_tokens": 100},
    ),
    finished(
        "a malformed call that a `ParseErrorPolicy` corrects",
        "completed",
        says(BROKEN, ADD, DONE),
        reward=0.1,
        extra=-0.05,
        parse_errors={"max_consecutive": 1, "penalty_per_error": 0.05},
    ),
    finished(
        "`close` raises: the score stands",
        "completed",
        says(ADD, call("spoil", what="close: raise"), DONE),
        reward=0.1,
    ),
    finished(
        "`close` hangs: the score stands after `hook_timeout_s`",
        "completed",
        says(ADD, call("spoil", what="close: hang on"), DONE),
        reward=0.1,
    ),
    # -------- a reply ends it
    cut("sampler `length`", "max_tokens", "length", says(ADD, ("<too", "length")), reward=0.1),
    cut(
        "a reply without its stop signal",
        "parse_error",
        "parse_error",
        says(ADD, "no end"),
        reward=0.1,
    ),
    cut("a malformed call, no policy", "parse_error", "parse_error", says(ADD, BROKEN), reward=0.1),
    cut(
        "one malformed call more than a `ParseErrorPolicy` allows",
        "parse_error",
        "parse_error",
        says(ADD, BROKEN, BROKEN),
        reward=0.1,
        extra=-0.05 - 1.0,
        parse_errors={
            "max_consecutive": 1,
            "penalty_per_error": 0.05,
            "terminal_reward": -1.0,
            "mask_error_turns": True,
        },
    ),
    # -------- a limit ends it
    cut(
        "a first prompt beyond `max_trajectory_tokens`",
        "max_tokens",
        "max_tokens",
        says(),
        reward=0.0,
        limits={"max_trajectory_tokens": 20},
        asks=False,
    ),
    cut(
        "`max_turns`",
        "max_turns",
        "max_turns",
        says(ADD, ADD, ADD),
        reward=0.2,
        limits={"max_turns": 2},
    ),
    cut(
        "`max_trajectory_tokens`",
        "max_tokens",
        "max_tokens",
        says(*[ADD] * 30),
        reward=0.2,
        limits={"max_trajectory_tokens": 690},
    ),
    cut(
        "`max_sampled_tokens`",
        "max_sampled_tokens",
        "max_sampled_tokens",
        says(*[ADD] * 30),
        reward=0.2,
        limits={"max_sampled_tokens": 30},
    ),
    cut(
        "`max_tool_calls`, before a reply's calls",
        "max_tool_calls",
        "max_tool_calls",
        says(ADD, ADD),
        reward=0.1,
        limits={"max_tool_calls": 1},
    ),
    cut(
        "`max_tool_calls`, inside a reply's calls",
        "max_tool_calls",
        "max_tool_calls",
        says(TWO_CALLS),
        reward=0.1,
        limits={"max_tool_calls": 1},
    ),
    cut(
        "`rollout_timeout_seconds` between turns",
        "rollout_timeout",
        "rollout_timeout",
        says(ADD, call("outlast"), ADD),
        reward=0.1,
        limits=_TIME,
    ),
    cut(
        "`rollout_timeout_seconds` during a tool",
        "rollout_timeout",
        "rollout_timeout",
        says(ADD, call("hang")),
        reward=0.1,
        limits={"rollout_timeout_seconds": 60.0},
    ),
    Ending(
        "`rollout_timeout_seconds` during sampling that hangs",
        "rollout_timeout",
        "at its time",
        "group",
        "rollout_timeout",
        "cut",
        "yes",
        says(ADD, never),
        reward=0.1,
        limits=_TIME,
    ),
    Ending(
        "`rollout_timeout_seconds` during sampling that comes late",
        "rollout_timeout",
        "at its time",
        "step",
        "rollout_timeout",
        "cut",
        "yes",
        says(ADD, _late, ADD),
        reward=0.1,
        limits=_TIME,
    ),
    # -------- it fails
    dropped(
        "`sampling_turn_timeout_seconds`",
        "the rollout raised SamplingTurnTimeoutError",
        says(ADD, never),
        limits={"sampling_turn_timeout_seconds": HOUR},
    ),
    dropped(
        "a strategy's `per_rollout_timeout`",
        "the rollout was cancelled",
        says(ADD, never),
        strategy=RetryOnFailure(max_retries=1, per_rollout_timeout=HOUR),
        slots=2,
    ),
    dropped(
        "the policy raises",
        "the rollout raised ValueError",
        says(ADD, lambda: ValueError("no answer")),
    ),
    failed("`open` raises", "open: a bug", says(), first_open="raise", asks=False),
    failed(
        "`open` hangs",
        "open took longer than 120.0 s",
        says(),
        first_open="hang on",
        asks=False,
    ),
    failed(
        "`open` takes longer than `rollout_timeout_seconds`",
        "open took longer than 60.0 s",
        says(),
        first_open="hang",
        asks=False,
        limits={"rollout_timeout_seconds": 60.0},
    ),
    failed("a tool raises", "tool 'crash': a bug", says(ADD, call("crash"))),
    failed("a tool hangs", "tool 'hang' took longer than 120.0 s", says(ADD, call("hang"))),
    failed(
        "a tool exits",
        "tool 'leave': it asked the interpreter to exit (3)",
        says(ADD, call("leave")),
    ),
    failed(
        "`next_prompt` raises",
        "next_prompt: a bug",
        says(ADD, call("spoil", what="next_prompt: raise"), DONE),
    ),
    failed(
        "`next_prompt` hangs",
        "next_prompt took longer than 120.0 s",
        says(ADD, call("spoil", what="next_prompt: hang"), DONE),
    ),
    failed(
        "a scorer raises in a step",
        "scorer 'counted': a bug",
        says(ADD, call("spoil", what="scorer: raise"), DONE),
    ),
    failed(
        "a scorer hangs in a step",
        "scorer 'counted' took longer than 120.0 s",
        says(ADD, call("spoil", what="scorer: hang on"), DONE),
    ),
    Ending(
        "a scorer raises at an end that is learnt later",
        "rollout_timeout",
        "never",
        "—",
        "—",
        "failed: scorer 'counted': a bug",
        "no, its group is lost",
        says(ADD, call("spoil", what="scorer: raise"), never),
        limits=_TIME,
        group_lost=True,
    ),
]
"""Those that a rollout has by itself, beside a sibling that waits for its slot."""

GROUP_ENDINGS = [
    # -------- each has a test of its own
    Ending(
        "the runner's own limit, which the env is not told",
        "max_turns",
        "when its task ends",
        "group",
        "max_turns",
        "cut",
        "yes",
        says(),
        reward=0.2,
    ),
    Ending(
        "the next env begins in the same task",
        "max_turns",
        "when the next begins",
        "group",
        "max_turns",
        "cut",
        "yes",
        says(),
        reward=0.2,
    ),
    Ending(
        "`skip_grading_on_timeout`, where the whole group ran out of time",
        "rollout_timeout",
        "at its time",
        "—",
        "rollout_timeout",
        "cut",
        "yes, with 0",
        says(),
        reward=0.1,
    ),
    finished(
        "a wait for its slot that takes longer than `rollout_timeout_seconds`",
        "completed",
        says(),
        reward=0.1,
    ),
    dropped("`FailFast`, while it plays", "its group ended", says(), "no, the run stops"),
    dropped(
        "retries are used up, while it plays",
        "the rollout was cancelled",
        says(),
        "no, its group is lost",
    ),
    dropped("its group is cancelled, while it plays", "the rollout was cancelled", says(), "no"),
    dropped("its task is lost", "its group ended", says(), "no"),
    dropped("cancelled before it had a slot", "dropped while it waited for a slot", says(), "no"),
    Ending("made for a retry and not needed", "—", "never", "—", "—", "not there", "no", says()),
]


def limits_of(row: Ending) -> RolloutLimits:
    return RolloutLimits(**row.limits)


def policy_of(row: Ending) -> ParseErrorPolicy | None:
    return None if row.parse_errors is None else ParseErrorPolicy(**row.parse_errors)


def cells(row: Ending) -> list[str]:
    return [row.name, row.stop_reason, row.scored, row.paid, row.cut, row.index, row.trained]


def rows() -> list[list[str]]:
    """The cells of the table in the docs."""
    return [cells(row) for row in [*ENDINGS, *GROUP_ENDINGS]]
