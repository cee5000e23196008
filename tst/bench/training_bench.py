"""The trainer's whole loop with the run index, beside the same loop without: `rl.train.main` on
number_search, over a service that answers at once.

TRAINING_ROLLOUTS=100000 python tst/bench only=training

With nothing to wait for, the loop is the trainer's and the library's own Python: whatever a real
model takes adds to both sides, and only makes the share of the index smaller. The loop without an
index plays the library's own groups, which make no record and file nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import chz
import tinker
from peers import RENDERER
from scripted_service import Service
from support.scripted import xml_call
from table import Row
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset, RLDatasetBuilder

from tinker_episodes import EpisodeDatasetBuilder, EpisodeEnv, loopback
from tinker_episodes.cookbook.group import EpisodeGroupBuilder
from tinker_episodes.cookbook.rendering import rendering_of
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer

BUNDLE = "number_search"
GROUPS, SIZE = 22, 24
"""Every task is played in each step, so that a step's rewards do not depend on the order."""
ROLLOUTS = int(os.environ.get("TRAINING_ROLLOUTS", "5120"))
"""At least so many of each side that waits for nothing, in all rounds together."""
GOAL = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """What is trained on each side."""

    rounds: int
    """Runs of each side, in turns: a pair of short ones sees the machine at one speed."""
    steps: int
    """Of each run."""
    reply_s: float
    """Seconds that a reply takes, on average."""

    @property
    def rollouts(self) -> int:
        """Of each run."""
        return self.steps * GROUPS * SIZE


@dataclass(frozen=True, slots=True)
class Cost:
    """What one training run took, in seconds by the clock and of the processor."""

    clock_s: float
    own_s: float


class UnfiledGroup(EpisodeGroupBuilder):
    """A group of the library's that files nothing."""

    async def _file(self, envs: Sequence[EpisodeEnv], made: Sequence[EpisodeEnv]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class UnfiledDataset(RLDataset):
    """The library's dataset without the index."""

    filed: RLDataset

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return [UnfiledGroup(*group.__reduce__()[1]) for group in self.filed.get_batch(index)]

    def __len__(self) -> int:
        return len(self.filed)


@chz.chz
class UnfiledBuilder(RLDatasetBuilder):
    """What the library's builder gives, without the index."""

    filed: EpisodeDatasetBuilder

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        train, test = await self.filed()
        return UnfiledDataset(train), test


def rows() -> Iterator[Row]:
    """Two rows: how much longer the loop takes with the index, by the clock."""
    rounds = max(5, ROLLOUTS // 5_000)
    steps = math.ceil(ROLLOUTS / rounds / GROUPS / SIZE)
    yield _row("replies take 0.5 to 1.5 s", Load(rounds=3, steps=3, reply_s=1.0))
    yield _row("sampling takes no time", Load(rounds=rounds, steps=steps, reply_s=0.0))


def _row(sampling: str, load: Load) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        sides = measure(Path(folder), load)
        file_bytes = sum(each.stat().st_size for each in Path(folder).glob("index.db*"))
    count = load.rounds * load.rollouts
    clock_ms = {
        side: statistics.median(cost.clock_s for cost in costs) / load.rollouts * 1e3
        for side, costs in sides.items()
    }
    pairs = list(zip(sides["without"], sides["with"], strict=True))
    slower = statistics.median(more.clock_s / less.clock_s for less, more in pairs) - 1
    busier = statistics.median(more.own_s / less.own_s for less, more in pairs) - 1
    return Row(
        f"the trainer's loop with the run index; {sampling}",
        "the same loop without",
        f"{count:,} rollouts of 4 turns in {load.rounds} runs of {load.steps} steps of "
        f"{GROUPS} x {SIZE}, in turns; one index",
        f"{slower:+.1%} by the clock, {busier:+.1%} processor time, a round; "
        f"{1e3 / clock_ms['with']:,.0f} rollouts/s; {file_bytes / count / 1e3:.1f} kB each",
        f"<= {GOAL:+.0%}",
        slower <= GOAL,
        {
            "slower": slower,
            "busier": busier,
            "without_ms": clock_ms["without"],
            "with_ms": clock_ms["with"],
            "bytes_each": file_bytes / count,
        },
    )


def measure(folder: Path, load: Load) -> dict[str, list[Cost]]:
    """The costs of each side's runs, made in turns after a short one of each."""
    url = f"sqlite:///{folder / 'index.db'}"
    builders: dict[str, Callable[[Path, str, int], RLDatasetBuilder]] = {
        "without": unfiled,
        "with": filed,
    }
    for name, built in builders.items():
        log_path = folder / "warm" / name
        run(built(log_path, f"{url}.warm", 1), log_path, Load(rounds=1, steps=1, reply_s=0.0))
    costs: dict[str, list[Cost]] = {name: [] for name in builders}
    for round_ in range(load.rounds):
        for name in list(builders)[:: 1 if round_ % 2 else -1]:
            log_path = folder / f"{name}-{round_}"
            costs[name].append(run(builders[name](log_path, url, load.steps), log_path, load))
    check(folder, url, load)
    return costs


def check(folder: Path, url: str, load: Load) -> None:
    """Both sides had the same rewards, and the index has every rollout."""
    for round_ in range(load.rounds):
        rewards = [rewards_of(folder / f"{name}-{round_}") for name in ("without", "with")]
        for one, other in zip(*rewards, strict=True):
            assert math.isclose(one, other) and 0 < one < 1, rewards
    index_writer(url).close()
    reader = IndexReader(url)
    for row in reader.runs():
        steps = reader.steps(row.name)
        assert [step.rollouts for step in steps] == [GROUPS * SIZE] * load.steps, (row.name, steps)
    assert len(reader.runs()) == load.rounds
    reader.close()


def unfiled(log_path: Path, index: str, steps: int) -> RLDatasetBuilder:
    return UnfiledBuilder(filed=filed(log_path, f"{index}.none", steps))


def filed(log_path: Path, index: str, steps: int) -> EpisodeDatasetBuilder:
    return EpisodeDatasetBuilder(
        bundle=BUNDLE,
        model_name=loopback.model_name(),
        renderer_name=RENDERER,
        groups_per_batch=GROUPS,
        group_size=SIZE,
        num_epochs=steps,
        log_path=str(log_path),
        index=index,
    )


def run(builder: RLDatasetBuilder, log_path: Path, load: Load) -> Cost:
    """One training run, from an empty folder to its last checkpoint."""
    config = train.Config(
        dataset_builder=builder,
        model_name=loopback.model_name(),
        renderer_name=RENDERER,
        log_path=str(log_path),
        recipe_name="tinker_episodes_bench",
        learning_rate=1e-4,
        max_tokens=64,
        max_steps=load.steps,
        eval_every=0,
        save_every=0,
    )
    service = Service(replies(), load.reply_s)
    with quiet(), mock.patch.object(tinker, "ServiceClient", lambda **_: service):
        clock, own = time.perf_counter(), time.process_time()
        asyncio.run(train.main(config))
        return Cost(time.perf_counter() - clock, time.process_time() - own)


def replies() -> list[list[int]]:
    """Guesses that find some of the numbers; the last one that a task allows ends its episode."""
    tokenizer: Any = rendering_of(loopback.model_name(), RENDERER).renderer.tokenizer
    guesses = (xml_call("guess", number=str(number)) for number in (7, 3, 11, 29))
    return [tokenizer.encode(guess, add_special_tokens=False) for guess in guesses]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The trainer prints each step, and logs to the root: neither is this table's."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def rewards_of(log_path: Path) -> list[float]:
    """The mean reward of each step, as the trainer logged it."""
    lines = (log_path / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    return [each["env/all/reward/total"] for each in metrics if "env/all/reward/total" in each]
