"""How an episode is scored when it closes."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from support.episodes import opened

from tinker_episodes import Environment, Prompt, Score, Task, UniverseData, scorer
from tinker_episodes.errors import EpisodeFailed


class Env(Environment):
    closes = 0

    def close(self) -> None:
        self.closes += 1


def _env(value: Any) -> type[Environment]:
    class Valued(Env):
        @scorer
        def found(self) -> Any:
            return value

    return Valued


@pytest.mark.parametrize(
    ("value", "reward"),
    [(True, 1.0), (False, 0.0), (0.5, 0.5), (2, 2.0), (Score(0.25, "why"), 0.25)],
)
async def test_a_scorer_returns_a_bool_a_number_or_a_score(value: Any, reward: float) -> None:
    outcome = await (await opened(_env(value))).close()
    assert (outcome.reward, outcome.scores["found"].value) == (reward, reward)


async def test_a_scorer_may_be_async() -> None:
    class Async(Env):
        @scorer
        async def found(self) -> float:
            await asyncio.sleep(0)
            return 0.75

    assert (await (await opened(Async)).close()).reward == 0.75


@pytest.mark.parametrize("value", [math.nan, math.inf, Score(math.nan), None, "1", 10**400])
async def test_a_value_that_is_no_finite_number_fails_the_episode(value: Any) -> None:
    episode = await opened(_env(value))
    with pytest.raises(EpisodeFailed, match=r"task 't': .*scorer 'found'"):
        await episode.close()
    assert (episode.state, episode.outcome, episode.environment.closes) == ("failed", None, 1)
    assert "found" in episode.reason


async def test_a_failed_episode_says_once_what_failed() -> None:
    episode = await opened(_env(math.nan))
    with pytest.raises(EpisodeFailed):
        await episode.close()
    assert episode.reason == "scorer 'found' returned nan: a score must be finite"


async def test_a_scorer_that_raises_fails_the_episode() -> None:
    class Raising(Env):
        @scorer
        def found(self) -> float:
            raise ZeroDivisionError("no guesses")

    episode = await opened(Raising)
    with pytest.raises(EpisodeFailed, match="scorer 'found': no guesses") as caught:
        await episode.close()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (episode.state, episode.outcome, episode.environment.closes) == ("failed", None, 1)


async def test_a_scorer_that_hangs_fails_the_episode() -> None:
    class Hanging(Env):
        scorer_timeout_s = 0.01

        @scorer
        async def found(self) -> float:
            await asyncio.Event().wait()
            return 1.0

    episode = await opened(Hanging)
    with pytest.raises(EpisodeFailed, match=r"scorer 'found' took longer than 0\.01 s"):
        await episode.close()
    assert (episode.state, episode.environment.closes) == ("failed", 1)


async def test_scoring_goes_on_where_its_caller_is_cancelled_until_it_is_abandoned() -> None:
    class Hanging(Env):
        def open(self, task: Task) -> None:
            self.scoring = asyncio.Event()

        @scorer
        async def found(self) -> float:
            self.scoring.set()
            await asyncio.Event().wait()
            return 1.0

    episode = await opened(Hanging)
    closing = asyncio.create_task(episode.close())
    await episode.environment.scoring.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert (episode.state, episode.over) == ("closed", False)
    await episode.abandon("nobody waits")
    assert (episode.state, episode.reason) == ("abandoned", "nobody waits")
    assert (episode.outcome, episode.environment.closes) == (None, 1)


async def test_the_environment_is_closed_after_it_is_scored() -> None:
    order: list[str] = []

    class Ordered(Environment):
        @scorer
        def found(self) -> bool:
            order.append("scored")
            return True

        def close(self) -> None:
            order.append("closed")

    await (await opened(Ordered)).close()
    assert order == ["scored", "closed"]


class Several(Env):
    @scorer
    def first(self) -> float:
        return 0.1

    @scorer
    def second(self) -> float:
        return 0.2

    @scorer
    def third(self) -> float:
        return 0.3


async def test_every_scorer_scores_and_the_named_one_is_the_reward() -> None:
    outcome = await (await opened(Several, reward="second")).close()
    assert {name: score.value for name, score in outcome.scores.items()} == {
        "first": 0.1,
        "second": 0.2,
        "third": 0.3,
    }
    assert outcome.reward == 0.2


async def test_a_task_is_scored_by_the_scorers_that_it_names() -> None:
    task = Task("t", (Prompt("Go."),), scorers=("third", "first"))
    outcome = await (await opened(Several, task, reward="first")).close()
    assert (list(outcome.scores), outcome.reward) == (["third", "first"], 0.1)


async def test_the_only_scorer_that_a_task_names_is_its_reward() -> None:
    task = Task("t", (Prompt("Go."),), scorers=("third",))
    assert (await (await opened(Several, task)).close()).reward == 0.3


async def test_what_a_scorer_writes_to_the_universe_is_in_the_changes() -> None:
    class Writing(Env):
        @scorer
        def found(self) -> bool:
            self.universe["t"]["k"] = 2
            return True

    episode = await opened(Writing, data=UniverseData({"t": {"k": 1}}))
    assert [c.after for c in (await episode.close()).changes] == [2]


async def test_a_record_that_can_not_be_compared_fails_the_episode() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    class Writing(Env):
        @scorer
        def found(self) -> bool:
            self.universe["t"]["k"] = Odd()
            return True

    episode = await opened(Writing, data=UniverseData({"t": {"k": 1}}))
    with pytest.raises(EpisodeFailed, match="ambiguous"):
        await episode.close()
    assert (episode.state, episode.environment.closes) == ("failed", 1)
