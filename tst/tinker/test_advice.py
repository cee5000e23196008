"""What the builder warns of, and the table of renderers in the docs."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from support.images import seeing_model
from support.tokenizers import model_for, renderer_for, renderer_names
from tinker_cookbook.renderers import Renderer

from tinker_episodes import EpisodeDatasetBuilder
from tinker_episodes.cookbook.extension import TOOL, USER, extends
from tinker_episodes.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore:.*o200k:DeprecationWarning")  # the host's own call

DOCS = Path(__file__).parents[2] / "docs" / "renderers.md"
PLAIN, LONGER = "support.scripted:COUNTING", "support.scripted:LONGER"
PAINTED = "support.images:PAINTED"


def told(renderer: Renderer) -> tuple[str, str]:
    """A renderer's cells in the docs: after a tool's result, and after a further prompt."""
    cells = {True: "extends", False: "rewritten"}
    return cells[extends(renderer, TOOL)], cells[extends(renderer, USER)]


def test_docs_list_every_renderer_and_what_extends() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \|", DOCS.read_text(), re.MULTILINE)
    listed = {name: (tool, user) for name, tool, user in rows}
    assert listed == {name: told(renderer_for(name)) for name in renderer_names()}


async def warned(
    bundle: str, renderer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, **more: Any
) -> list[str]:
    builder = EpisodeDatasetBuilder(
        bundle=bundle,
        model_name=more.pop("model_name", model_for(renderer)),
        renderer_name=renderer,
        log_path=str(tmp_path / "run"),
        groups_per_batch=1,
        group_size=1,
        **more,
    )
    with caplog.at_level(logging.WARNING, logger="tinker_episodes"):
        await builder()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("bundle", "renderer", "words"),
    [
        (PLAIN, "qwen3_5", "after a tool's result:"),
        (LONGER, "qwen3_5", "after a tool's result and a further prompt:"),
        (LONGER, "qwen3_5_disable_thinking", "after a further prompt:"),
        (PLAIN, "qwen3_5_disable_thinking", None),
        (LONGER, "qwen3_5_preserve_thinking", None),
        (PLAIN, "kimi_k25", None),
    ],
)
async def test_builder_warns_of_a_renderer_that_rewrites_what_the_tasks_have(
    bundle: str,
    renderer: str,
    words: str | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = await warned(bundle, renderer, tmp_path, caplog)
    assert [words in line for line in found] == ([] if words is None else [True])


async def test_builder_warns_once_of_tools_whose_images_are_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = await warned(PAINTED, "qwen3_instruct", tmp_path, caplog)
    assert len(found) == 1
    assert "the tools paint give images" in found[0] and "'qwen3_instruct'" in found[0]


async def test_builder_is_quiet_where_images_are_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = seeing_model(tmp_path / "model")
    renderer = "qwen3_5_preserve_thinking"
    assert await warned(PAINTED, renderer, tmp_path, caplog, model_name=name) == []


async def test_history_window_must_be_a_number_of_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match="history_tokens must be at least 1, got 0"):
        await warned(PLAIN, "qwen3_instruct", tmp_path, caplog, history_tokens=0)
