"""The shipped bundle: a hidden number."""

from __future__ import annotations

from typing import Any

import pytest

from tinker_episodes import Bundle, Call, Episode, Message, Task, find_bundle
from tinker_episodes.errors import BundleError


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return find_bundle("number_search")


def _task(**changed: Any) -> Task:
    return Task.of("t", "Go.", **{"low": 0, "high": 14, "number": 7, "guesses": 3, **changed})


async def _play(bundle: Bundle, *guesses: int, task: Task | None = None) -> tuple[list[Any], Any]:
    made = Bundle(name="one", environment=bundle.environment, tasks=[task or _task()])
    episode = Episode(made.environment, made.tasks["t"])
    await episode.open()
    told = []
    for number in guesses:
        episode.record(Message("assistant", "", (Call("guess", {"number": number}),)))
        (result,) = await episode.run_calls()
        told.append(result.content)
    return [*told, episode.ended], await episode.close()


async def test_guesses_are_answered_with_their_side(bundle: Bundle) -> None:
    told, outcome = await _play(bundle, 3, 11, 7)
    assert told == ["too low", "too high", "right", True]
    assert outcome.reward == 1.0
    assert outcome.scores["found"].evidence == {"guesses": [3, 11, 7], "number": 7}


async def test_the_last_guess_ends_the_episode_without_reward(bundle: Bundle) -> None:
    told, outcome = await _play(bundle, 1, 2, 3)
    assert told[-1] is True
    assert outcome.reward == 0.0


async def test_an_idle_episode_has_no_reward(bundle: Bundle) -> None:
    told, outcome = await _play(bundle)
    assert (told, outcome.reward) == ([False], 0.0)


async def test_halving_finds_every_number_of_every_task(bundle: Bundle) -> None:
    for task in [*bundle.split("all")[:40], *bundle.split("val")[:40]]:
        episode = Episode(bundle.environment, task, reward=bundle.reward)
        await episode.open()
        low, high = task.params.low, task.params.high  # type: ignore[union-attr]
        while not episode.ended:
            middle = (low + high) // 2
            episode.record(Message("assistant", "", (Call("guess", {"number": middle}),)))
            (result,) = await episode.run_calls()
            if result.content == "too low":
                low = middle + 1
            else:
                high = middle - 1
        assert (await episode.close()).reward == 1.0, task.id


@pytest.mark.parametrize(
    "changed", [{"number": 15}, {"number": -1}, {"guesses": 0}, {"size": 1}, {"low": "a"}]
)
def test_params_that_make_no_sense_are_refused(bundle: Bundle, changed: dict[str, Any]) -> None:
    with pytest.raises(BundleError, match="tasks: t: params"):
        Bundle(name="one", environment=bundle.environment, tasks=[_task(**changed)])


def test_val_is_held_out(bundle: Bundle) -> None:
    train, val = bundle.split("all"), bundle.split("val")
    assert {task.id for task in train}.isdisjoint(task.id for task in val)
    assert len(train) + len(val) == len(bundle.tasks)


def test_no_pair_of_window_and_number_is_in_both_splits(bundle: Bundle) -> None:
    def pairs(split: str) -> set[Any]:
        return {(t.params.low, t.params.number) for t in bundle.split(split)}  # type: ignore[union-attr]

    assert pairs("all").isdisjoint(pairs("val"))
