"""What is said in an episode is in its record alone: in no log of ours, no `logs`, no metric."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from support.scripted import DONE, JSON_END, ByTask, call
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy
from tinker_cookbook.rl.rollout_strategy import MinViableGroup
from tinker_cookbook.rl.rollouts import do_group_rollout

from tinker_episodes import (
    Bundle,
    Environment,
    EpisodeDatasetBuilder,
    Prompt,
    Score,
    Task,
    ToolError,
    loopback,
    scorer,
    tool,
)
from tinker_episodes.cookbook.rendering import Rendering
from tinker_episodes.index.writing import index_writer

SECRET = "s3cr3t-9f2"


class Vault(Environment):
    """Has the secret everywhere, and fails with it in every way."""

    async def open(self, task: Task) -> None:
        self.state = SECRET

    @tool
    def read(self, key: str) -> str:
        """Give it."""
        return f"{key} {SECRET}"

    @tool
    def refuse(self, key: str) -> str:
        """Refuse, and say it."""
        raise ToolError(f"not {SECRET}")

    @tool
    def crash(self, key: str) -> str:
        """Break, and say it."""
        raise KeyError(SECRET)

    @tool
    async def hang(self, key: str) -> str:
        """Hang on where it is stopped."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()
        return ""

    @scorer
    def opened(self) -> Score:
        return Score(1.0, SECRET, {SECRET: SECRET})

    def close(self) -> None:
        raise OSError(SECRET)


class Slow(Vault):
    tool_timeout_s = 0.02


VAULT = Bundle(
    name="vault",
    environment=Slow,
    tasks=[Task("t", (Prompt(SECRET, system_prompt=f"You know {SECRET}."),))],
)

SCRIPTS = [
    [call("read", key=SECRET), call("refuse", key=SECRET), f"{SECRET}{JSON_END}"],
    [f"<tool_call>\n{SECRET}\n</tool_call>{JSON_END}", call("nope", key=SECRET), DONE],
    [call("read", key=SECRET), (SECRET, "length")],
    [call("crash", key=SECRET)],
    [call("hang", key=SECRET)],
]


async def test_no_secret_reaches_our_logs_the_transitions_logs_or_the_metrics(
    tmp_path: Path, rendering: Rendering, caplog: pytest.LogCaptureFixture
) -> None:
    builder = EpisodeDatasetBuilder(
        bundle=f"{__name__}:VAULT",
        model_name=loopback.model_name(),
        renderer_name="qwen3_instruct",
        groups_per_batch=1,
        group_size=len(SCRIPTS),
        log_path=str(tmp_path / "run"),
        parse_errors=ParseErrorPolicy(max_consecutive=2),
    )
    with caplog.at_level(logging.DEBUG, logger="tinker_episodes"):
        train, _ = await builder()
        (group,) = train.get_batch(0)
        strategy = MinViableGroup(min_successful=1, max_retries=0)
        result = await do_group_rollout(group, ByTask(rendering, SCRIPTS), strategy)
        index_writer(f"sqlite:///{tmp_path / 'episodes.db'}").close()
    assert len(result.trajectories_G) == 3
    ours = [record for record in caplog.records if record.name.startswith("tinker_episodes")]
    formatted = [logging.Formatter().format(record) for record in ours]
    assert any("OSError" in text for text in formatted)  # a failing `close` is told, without what
    told: list[Any] = [formatted, [vars(record) for record in ours], result.metrics_G]
    for trajectory in result.trajectories_G:
        told += [(t.logs, t.metrics) for t in trajectory.transitions]
    assert SECRET not in repr(told)
