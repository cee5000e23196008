"""No deadlock, no leak, by search: groups in a random order of events, ended in random ways.

A share of the seeds runs in every run of this tier; `make schedules` runs thousands. A seed that
fails is run again by `SCHEDULES=<seed>:<seed + 1> python -m pytest tst/tinker/test_schedules.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.index_records import rows_of
from support.schedules import Chaotic, Schedule
from support.scripted import DONE, ByTask, call
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout

from tinker_episodes import EpisodeDatasetBuilder, EpisodeFailed, loopback
from tinker_episodes.cookbook import EpisodeGroupBuilder
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.cookbook.slots import slots_of
from tinker_episodes.index.writing import index_writer

_FIRST, _LAST = (int(n) for n in os.environ.get("SCHEDULES", "0:60").split(":"))
_SHARE = 20
"""Seeds in one test."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    index_writer(f"sqlite:///{tmp_path / 'episodes.db'}").close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(_FIRST, _LAST, _SHARE))
def test_any_order_of_events_ends_with_all_free_closed_and_filed(first: int, folder: Path) -> None:
    for seed in range(first, min(first + _SHARE, _LAST)):
        Chaotic.now = Chaotic.most = 0
        try:
            Schedule(seed, folder).run()
        except BaseException as error:
            error.add_note(
                f"seed {seed}; again: SCHEDULES={seed}:{seed + 1} "
                "python -m pytest tst/tinker/test_schedules.py"
            )
            raise


async def _play(group: EpisodeGroupBuilder, rendering: Any, dice: random.Random) -> None:
    policy = ByTask(rendering, [dice.choice(_SCRIPTS) for _ in range(12)])
    with contextlib.suppress(EpisodeFailed):
        await do_group_rollout(group, policy, RetryOnFailure(max_retries=2))


_SCRIPTS = [
    [DONE],
    [call("add"), DONE],
    [call("add"), ("<too", "length")],
    [call("crash")],
    ["no end"],
]


async def test_groups_on_event_loops_of_several_threads_share_one_line(
    tmp_path: Path, rendering: Rendering
) -> None:
    train, _ = await EpisodeDatasetBuilder(
        bundle="support.scripted:COUNTING",
        model_name=loopback.model_name(),
        renderer_name="qwen3_instruct",
        groups_per_batch=8,
        group_size=4,
        log_path=str(tmp_path / "run"),
        max_concurrent_episodes=3,
    )()

    # a tokenizer is its thread's own
    own = [SimpleNamespace(renderer=copy.deepcopy(rendering.renderer)) for _ in range(8)]

    def play(n: int) -> None:
        group = train.get_batch(0)[n]
        assert isinstance(group, EpisodeGroupBuilder)
        asyncio.run(_play(group, own[n], random.Random(n)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(play, range(8))) == [None] * 8
    assert slots_of(str(tmp_path / "run"), 3).taken == 0
    url = f"sqlite:///{tmp_path / 'episodes.db'}"
    index_writer(url).close()
    ((filed, keys),) = rows_of(url, "select count(*), count(distinct key) from rollouts")
    assert filed == keys >= 8 * 4
