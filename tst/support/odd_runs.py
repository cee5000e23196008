"""Runs at the edges of what the explorer's pages must show: very long names, very many scorers,
very large and negative rewards, steps without a reward, and steps and groups of every size.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from support.explorer_runs import BUNDLE, file_groups, prompt, reply
from tinker_episodes.index import Attempt, Group, Rollout, ScoreRecord, Split, Status

LONG_TASK = "a-task-that-is-named-by-its-whole-path/" * 5 + "the-end"
LONG_SCORER = "whether_the_customer_was_told_of_every_fee_" * 7
LONG_NAME = LONG_TASK.replace("/", "_")[:180]
"""Of a run: a folder's name is no longer than 255 bytes."""
Groups = Iterator[tuple[Group, list[Rollout]]]


def rollout(key: str, place: int, reward: float | None, **more: object) -> Rollout:
    """A rollout of one word; without a reward it failed."""
    entries = [prompt("a word, please"), reply(f"word {key}")]
    defaults = {
        "transcript": {"entries": entries}, "turns": 1, "messages": 2, "sampled_tokens": 3,
        "opened_at": 1.7e9, "duration_s": 0.4,
    }  # fmt: skip
    if reward is None:
        reason = "tool 'find': ConnectionError: the database is away"
        return Rollout(key, place, Status.FAILED, None, reason=reason, **defaults)
    return Rollout(key, place, Status.FINISHED, reward, **{**defaults, **more})  # pyright: ignore


def scored(names: list[str], value: float) -> tuple[ScoreRecord, ...]:
    return tuple(ScoreRecord(name, value, f"Found {value}.", {"messages": [1]}) for name in names)


def groups(
    folder: Path, run: str, rows: Iterator[tuple[int, str, list[float | None]]], *, first: int = 0
) -> Groups:
    """Groups of a run: `rows` gives each one's step, task and rewards; `first` is their number."""
    attempt = Attempt(str(folder / run), f"token-{run}", 0)
    for at, (step, task, rewards) in enumerate(rows, first):
        group = Group(attempt, f"g-{run}-{at}", Split.TRAIN, step, BUNDLE, task, ("hard", "long"))
        yield group, [rollout(f"{run}-{at}-{n}", n, value) for n, value in enumerate(rewards)]


def long_curve(folder: Path, steps: int) -> Groups:
    """A run of many steps with few rollouts each."""
    rng = random.Random(5)
    rows = ((s, "walk", [math.tanh(s / 400) + rng.gauss(0, 0.2), 0.5]) for s in range(steps))
    return groups(folder, "long", rows)


def many_groups(folder: Path, amount: int) -> Groups:
    """A step of very many groups."""
    rng = random.Random(6)
    rows = ((0, f"task-{at:05d}", [rng.random(), rng.random()]) for at in range(amount))
    return groups(folder, "wide", rows)


def odd_groups(folder: Path) -> Groups:
    """Small runs, each at one edge."""
    huge = ((s, "sum", [1e9 * s, -1e9, 123456.789 * s]) for s in range(6))
    yield from groups(folder, "huge", huge)
    yield from groups(folder, "tiny", iter([(0, "little", [0.0, 1e-4, 0.5])]))
    yield from groups(folder, "negative", ((s, "fall", [-5.0 + s / 9, -0.25]) for s in range(6)))
    yield from groups(folder, "failing", ((s, "away", [None, None]) for s in range(3)))
    yield from groups(folder, "alone", iter([(0, "once", [0.5])]))
    yield from groups(folder, "crowd", iter([(0, "all", [n / 63 for n in range(64)])]))
    yield from groups(folder, LONG_NAME, iter([(0, LONG_TASK, [0.0, 1.0])]))
    attempt = Attempt(str(folder / "scorers"), "token-scorers", 0)
    names = [LONG_SCORER, *(f"check_{n:02d}_of_forty" for n in range(1, 40))]
    for step in range(3):
        group = Group(attempt, f"g-scorers-{step}", Split.TRAIN, step, BUNDLE, "judged", ())
        yield (
            group,
            [
                rollout(f"scorers-{step}-{n}", n, n / 3, scores=scored(names, n / 3))
                for n in range(4)
            ],
        )


def odd_index(folder: Path, *, steps: int = 1600, amount: int = 10_000) -> None:
    """All of them in one index."""
    url = f"sqlite:///{folder / 'episodes.db'}"
    file_groups(url, odd_groups(folder))
    file_groups(url, long_curve(folder, steps))
    file_groups(url, many_groups(folder, amount))
