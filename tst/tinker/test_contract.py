"""Every name of the host that the library uses, and the behaviour that it rests on."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tokenizers import renderer_for
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.renderers.qwen3_5 import Qwen3_5Renderer
from tinker_cookbook.rl import rollout_runner, types
from tinker_cookbook.rl.metric_util import RLTestSetEvaluator
from tinker_cookbook.rl.rollout_limits import RolloutLimits

import tinker_episodes

SOURCE = Path(tinker_episodes.__file__).parent
HOSTS = ("tinker_cookbook", "tinker")


def imported() -> Iterator[tuple[str, str]]:
    """Each name that the library imports from the host: module and name."""
    for file in sorted((SOURCE / "cookbook").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in HOSTS:
                for name in node.names:
                    yield str(node.module), name.name


@pytest.mark.parametrize(("module", "name"), sorted(set(imported())))
def test_name_that_is_imported_is_there(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_only_these_private_names_of_renderers_are_called() -> None:
    private = {
        node.attr
        for file in (SOURCE / "cookbook").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "renderer"
        and node.attr.startswith("_")
    }
    assert private == {"_bos_tokens", "_postprocess_parsed_message", "_tml_tokenizer"}
    assert hasattr(Renderer, "_bos_tokens")
    assert hasattr(Qwen3_5Renderer, "_postprocess_parsed_message")
    assert hasattr(renderer_for("tml_v0"), "_tml_tokenizer")


def test_runner_reads_the_limits_that_an_env_advertises() -> None:
    assert 'getattr(env, "rollout_limits", None)' in inspect.getsource(rollout_runner.run_rollout)


def test_limits_are_those_that_the_env_counts_itself() -> None:
    assert {field for field in dir(RolloutLimits()) if field.startswith("max_")} == {
        "max_turns",
        "max_trajectory_tokens",
        "max_sampled_tokens",
        "max_tool_calls",
        "max_turn_tokens",
    }


def test_every_stop_reason_of_the_host_has_a_cut_or_is_an_end() -> None:
    from tinker_episodes.cookbook.limits import cut_of, stop_of
    from tinker_episodes.outcome import Cut

    ends = {types.StopReason.COMPLETED, types.StopReason.TOOL_STOPPED}
    for reason in types.StopReason:
        cut = cut_of(reason)
        assert (cut is None) == (reason in ends)
        assert cut is None or stop_of(cut) == reason
    assert cut_of("a hook's own") is Cut.OTHER and cut_of(None) is None


def test_evals_are_made_once_and_replayed() -> None:
    made = inspect.getsource(RLTestSetEvaluator.__init__)
    assert "dataset_to_env_group_builders(dataset)" in made
