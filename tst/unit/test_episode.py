"""The life of an episode: states, prompts, ends."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from support.episodes import PIXEL, TASK, opened

from tinker_episodes import (
    Bundle,
    Call,
    Cut,
    Environment,
    Episode,
    Image,
    Message,
    Prompt,
    Score,
    Task,
    Text,
    UniverseData,
    scorer,
    tool,
)
from tinker_episodes.episode import State
from tinker_episodes.errors import ConfigError, DefinitionError, EpisodeClosed, EpisodeFailed
from tinker_episodes.message import MalformedCall


class Counter(Environment):
    system_prompt = "Count."

    def open(self, task: Task) -> None:
        self.count = 0
        self.closes = 0

    @tool
    def add(self, number: int) -> int:
        """Add."""
        self.count += number
        return self.count

    @tool
    def finish(self) -> str:
        self.end()
        return "bye"

    @scorer
    def counted(self) -> Score:
        return Score(self.count, "counted", {"count": self.count})

    def close(self) -> None:
        self.closes += 1


REPLY = Message("assistant", "ok")


def _calls(*calls: Call) -> Message:
    return Message("assistant", "", calls)


ADD = _calls(Call("add", {"number": 2}))


# ---------------------------------------------------------------- states


async def test_an_episode_goes_from_new_to_open_to_closed() -> None:
    episode = Episode(Counter, TASK)
    states = [episode.state]
    await episode.open()
    states.append(episode.state)
    await episode.close()
    assert [*states, episode.state] == ["new", "open", "closed"]


@pytest.mark.parametrize("action", ["record", "tell", "run_calls", "next_prompt", "close"])
async def test_a_new_episode_can_only_be_opened(action: str) -> None:
    episode = Episode(Counter, TASK)
    with pytest.raises(EpisodeClosed, match=f"of task 't' is new: {action} needs open"):
        await _do(episode, action)
    assert episode.state is State.NEW


@pytest.mark.parametrize("end", ["close", "abandon", "fail"])
@pytest.mark.parametrize("action", ["open", "record", "tell", "run_calls", "next_prompt", "close"])
async def test_an_ended_episode_refuses_every_call(end: str, action: str) -> None:
    episode = await opened(Counter)
    if end == "fail":
        episode.record(_calls(Call("add", {"number": 1})))
        episode.environment.count = None
        with pytest.raises(EpisodeFailed):
            await episode.run_calls()
    else:
        await _do(episode, end)
    ended = {"close": "closed", "abandon": "abandoned", "fail": "failed"}[end]
    with pytest.raises(EpisodeClosed, match=f"is {ended}: {action} needs"):
        await _do(episode, action)
    assert (episode.state, episode.environment.closes) == (ended, 1)


async def _do(episode: Episode, action: str) -> None:
    if action == "record":
        episode.record(REPLY)
    elif action == "tell":
        episode.tell("note")
    elif action == "abandon":
        await episode.abandon("dropped")
    else:
        await getattr(episode, action)()


async def test_an_open_episode_can_not_be_opened_again() -> None:
    episode = await opened(Counter)
    with pytest.raises(EpisodeClosed, match="is open: open needs new"):
        await episode.open()


async def test_a_reply_is_not_recorded_over_calls_that_were_not_run() -> None:
    episode = await opened(Counter)
    episode.record(ADD)
    with pytest.raises(EpisodeClosed, match="has calls that were not run"):
        episode.record(REPLY)


async def test_a_next_prompt_needs_a_reply() -> None:
    episode = await opened(Counter)
    with pytest.raises(EpisodeClosed, match="has no reply yet"):
        await episode.next_prompt()


def test_what_is_made_at_the_opening_is_not_there_before() -> None:
    episode = Episode(Counter, TASK)
    with pytest.raises(EpisodeClosed, match="has no environment before it is opened"):
        _ = episode.environment
    with pytest.raises(EpisodeClosed, match="has no prompt before it is opened"):
        _ = episode.prompt
    assert episode.ended is False


async def test_two_episodes_have_two_ids_and_two_environments() -> None:
    one, other = await opened(Counter), await opened(Counter)
    assert one.id != other.id
    assert one.environment is not other.environment


# ---------------------------------------------------------------- opening and prompts


async def test_the_first_prompt_has_the_environments_system_prompt_and_tools() -> None:
    prompt = await Episode(Counter, TASK).open()
    assert (prompt.text, prompt.system_prompt, list(prompt.tools)) == (
        "Go.",
        "Count.",
        ["add", "finish"],
    )


async def test_a_prompts_own_system_prompt_and_tools_win() -> None:
    task = Task("t", (Prompt("Go.", "Mine.", ("finish",)),))
    prompt = await Episode(Counter, task).open()
    assert (prompt.system_prompt, list(prompt.tools)) == ("Mine.", ["finish"])


async def test_a_prompts_own_empty_system_prompt_and_no_tools_win() -> None:
    prompt = await Episode(Counter, Task("t", (Prompt("Go.", "", ()),))).open()
    assert (prompt.system_prompt, list(prompt.tools)) == ("", [])


async def test_each_prompt_opens_with_its_own_instructions() -> None:
    task = Task("t", (Prompt("one", "first", ("add",)), Prompt("two"), Prompt("three", "third")))
    episode = await opened(Counter, task)
    seen = []
    prompt = episode.prompt
    while prompt is not None:
        assert episode.prompt is prompt
        seen.append((prompt.text, prompt.system_prompt, list(prompt.tools)))
        episode.record(REPLY)
        prompt = await episode.next_prompt()
    assert seen == [
        ("one", "first", ["add"]),
        ("two", "Count.", ["add", "finish"]),
        ("three", "third", ["add", "finish"]),
    ]


async def test_a_system_prompt_may_be_a_property_of_the_state() -> None:
    class Env(Counter):
        @property
        def system_prompt(self) -> str:  # type: ignore[override]
            return f"At {self.count}."

    assert (await Episode(Env, TASK).open()).system_prompt == "At 0."


async def test_an_environment_may_open_asynchronously() -> None:
    class Env(Counter):
        async def open(self, task: Task) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.count = 7

        def close(self) -> None: ...

    outcome = await (await opened(Env)).close()
    assert outcome.reward == 7.0


async def test_an_environment_may_choose_the_next_prompt_by_the_reply() -> None:
    class Env(Counter):
        async def next_prompt(self, reply: Message) -> Prompt | None:  # type: ignore[override]
            return Prompt(f"you said {reply.text}") if reply.text == "more" else None

    episode = await opened(Env)
    episode.record(Message("assistant", "more"))
    prompt = await episode.next_prompt()
    assert prompt is not None
    assert prompt.text == "you said more"
    episode.record(Message("assistant", "enough"))
    assert await episode.next_prompt() is None


async def test_a_next_prompt_that_is_none_of_ours_fails_the_episode() -> None:
    class Env(Counter):
        def next_prompt(self, reply: Message) -> Any:
            return "just text"

    episode = await opened(Env)
    episode.record(REPLY)
    with pytest.raises(EpisodeFailed, match="next_prompt"):
        await episode.next_prompt()
    assert (episode.state, episode.environment.closes) == ("failed", 1)


async def test_a_next_prompt_that_names_an_unknown_tool_fails_the_episode() -> None:
    class Env(Counter):
        def next_prompt(self, reply: Message) -> Prompt | None:
            return Prompt("more", tools=("nothing",))

    episode = await opened(Env)
    episode.record(REPLY)
    with pytest.raises(EpisodeFailed, match="names tools that there are not: nothing"):
        await episode.next_prompt()
    assert (episode.state, episode.environment.closes) == ("failed", 1)


async def test_an_open_that_raises_fails_the_episode_and_closes_the_environment() -> None:
    closed: list[str] = []

    class Env(Counter):
        def open(self, task: Task) -> None:
            raise ValueError("no file")

        def close(self) -> None:
            closed.append("closed")

    episode = Episode(Env, TASK)
    with pytest.raises(EpisodeFailed, match="task 't': open: no file") as caught:
        await episode.open()
    assert isinstance(caught.value.__cause__, ValueError)
    assert (episode.state, episode.reason, closed) == ("failed", "open: no file", ["closed"])


async def test_a_constructor_that_raises_fails_the_episode() -> None:
    class Env(Counter):
        def __init__(self, *given: Any) -> None:
            raise OSError("nothing left")

    episode = Episode(Env, TASK)
    with pytest.raises(EpisodeFailed, match="the environment: nothing left"):
        await episode.open()
    assert episode.state is State.FAILED


async def test_a_system_prompt_that_raises_fails_the_episode() -> None:
    class Env(Counter):
        @property
        def system_prompt(self) -> str:  # type: ignore[override]
            raise KeyError("city")

    with pytest.raises(EpisodeFailed, match="system_prompt: 'city'"):
        await Episode(Env, TASK).open()


def test_an_environment_class_that_can_not_work_is_refused_before_it_is_opened() -> None:
    class Env(Environment): ...

    with pytest.raises(DefinitionError, match="has no scorer"):
        Episode(Env, TASK)


async def test_an_episode_sees_the_universe_and_reports_what_it_changed() -> None:
    class Env(Counter):
        @tool
        def mark(self) -> None:
            self.universe["t"]["k"]["n"] = 2

    data = UniverseData({"t": {"k": {"n": 1}}})
    episode = await opened(Env, data=data)
    episode.record(_calls(Call("mark", {})))
    await episode.run_calls()
    (change,) = (await episode.close()).changes
    assert (change.table, change.key, change.before, change.after) == ("t", "k", {"n": 1}, {"n": 2})
    assert data.tables["t"]["k"] == {"n": 1}


async def test_a_task_in_code_has_its_params_by_the_environments_model() -> None:
    class Window(BaseModel):
        low: int

    class Env(Counter):
        Params = Window

    task = Bundle(name="b", environment=Env, tasks=[Task.of("t", "Go.", low=1)]).tasks["t"]
    episode = await opened(Env, task)
    assert episode.environment.task.params == Window(low=1)


# ---------------------------------------------------------------- ends


async def test_closing_gives_scores_reward_and_counts() -> None:
    episode = await opened(Counter)
    episode.record(ADD)
    await episode.run_calls()
    outcome = await episode.close()
    assert outcome is episode.outcome
    assert outcome.scores == {"counted": Score(2.0, "counted", {"count": 2})}
    assert (outcome.reward, outcome.cut) == (2.0, None)
    assert episode.environment.closes == 1


@pytest.mark.parametrize("cut", list(Cut))
async def test_a_cut_episode_is_scored_as_it_was_left(cut: Cut) -> None:
    episode = await opened(Counter)
    episode.record(ADD)
    await episode.run_calls()
    episode.record(ADD)
    outcome = await episode.close(cut)
    assert (outcome.reward, outcome.cut, episode.state) == (2.0, cut, "closed")


async def test_an_abandoned_episode_has_no_score_and_releases_its_environment() -> None:
    episode = await opened(Counter)
    await episode.abandon("the trainer dropped it")
    assert (episode.state, episode.reason) == ("abandoned", "the trainer dropped it")
    assert (episode.outcome, episode.environment.closes) == (None, 1)


async def test_an_episode_that_never_opened_can_be_abandoned() -> None:
    episode = Episode(Counter, TASK)
    await episode.abandon("no slot")
    assert (episode.state, episode.reason, episode.opened_at) == ("abandoned", "no slot", None)


async def test_abandoning_an_ended_episode_does_nothing() -> None:
    episode = await opened(Counter)
    outcome = await episode.close()
    await episode.abandon("late")
    assert (episode.state, episode.reason, episode.outcome) == ("closed", "", outcome)
    assert episode.environment.closes == 1


async def test_a_close_hook_that_raises_keeps_the_score(caplog: pytest.LogCaptureFixture) -> None:
    class Env(Counter):
        async def close(self) -> None:  # type: ignore[override]
            raise OSError("secret words")

    episode = await opened(Env)
    with caplog.at_level(logging.WARNING):
        outcome = await episode.close()
    assert (outcome.reward, episode.state) == (0.0, "closed")
    assert "OSError" in caplog.text
    assert "secret words" not in caplog.text


async def test_a_close_hook_that_hangs_keeps_the_score() -> None:
    class Env(Counter):
        hook_timeout_s = 0.01

        async def close(self) -> None:  # type: ignore[override]
            await asyncio.Event().wait()

    episode = await opened(Env)
    assert (await episode.close()).reward == 0.0
    assert episode.state is State.CLOSED


async def test_an_episode_knows_when_it_was_opened_and_closed() -> None:
    episode = Episode(Counter, TASK)
    assert (episode.opened_at, episode.closed_at) == (None, None)
    await episode.open()
    assert episode.closed_at is None
    await episode.close()
    assert episode.opened_at is not None
    assert episode.closed_at is not None
    assert episode.opened_at <= episode.closed_at


# ---------------------------------------------------------------- what was said


async def test_everything_that_is_said_is_counted_once() -> None:
    episode = await opened(Counter, Task("t", (Prompt("one"), Prompt("two"))))
    episode.record(_calls(Call("add", {"number": 1}), Call("nothing", {})))
    await episode.run_calls()
    episode.record(
        Message("assistant", "", malformed=(MalformedCall("<", "a"), MalformedCall("<", "b")))
    )
    episode.tell("that is no call")
    episode.record(REPLY)
    await episode.next_prompt()
    counts = (await episode.close()).counts
    assert (counts.messages, counts.tool_calls) == (8, 2)
    assert (counts.tool_errors, counts.format_errors) == (1, 1)


async def test_the_transcript_has_everything_in_order_and_json_takes_it() -> None:
    class Env(Counter):
        tool_list: ClassVar[list[str]] = []

        @tool
        def look(self, what: str) -> list[Text | Image]:
            return [Text(what), PIXEL]

    episode = await opened(Env, Task("t", (Prompt("one"), Prompt("two"))))
    episode.record(_calls(Call("look", {"what": "\ud800\0"}, typed=False, id="x")))
    await episode.run_calls()
    episode.tell("note")
    episode.record(REPLY)
    await episode.next_prompt()
    written = episode.transcript.to_json()
    assert [e["kind"] for e in written] == ["prompt", "reply", "result", "note", "reply", "prompt"]
    assert written[2]["arguments"] == {"what": "\ud800\0"}
    shown = {"type": "image", "media_type": "image/png", "hash": PIXEL.hash}
    assert written[2]["content"][1] == shown | {"width": 1, "height": 1, "bytes": len(PIXEL.data)}
    assert episode.transcript.images() == (PIXEL,)
    assert json.loads(json.dumps(written)) == written


def test_several_scorers_need_a_reward_before_the_episode_opens() -> None:
    class Env(Counter):
        @scorer
        def other(self) -> bool:
            return True

    with pytest.raises(ConfigError, match=r"several scorers \(counted, other\)"):
        Episode(Env, TASK)


def test_params_without_a_bundle_are_the_environments_model() -> None:
    class Window(BaseModel):
        low: int

    class Typed(Environment):
        Params = Window

        @scorer
        def always(self) -> int:
            return 1

    assert Episode(Typed, Task.of("a", "Go.", low="3")).task.params == Window(low=3)
    with pytest.raises(ConfigError, match="params of task 'b' do not fit"):
        Episode(Typed, Task.of("b", "Go.", low="x"))
