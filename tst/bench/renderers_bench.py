"""Rollouts of 10, 50 and 200 turns beside the host's own `EnvFromMessageEnv`: on a renderer of each
family whose history extends, with its models' own vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

from steps_bench import best, growth
from support.tokenizers import renderer_for
from table import Row

from tinker_episodes.cookbook.rendering import Rendering

RENDERERS = (
    "qwen3_instruct",
    "qwen3_vl_instruct",
    "qwen3_5_preserve_thinking",
    "qwen3_8_xhigh_reasoning",
    "deepseekv3",
    "deepseekv4_1",
    "glm5_3_max_reasoning",
    "kimi_k2",
    "kimi_k26_preserve_thinking",
    "nemotron3",
    "gpt_oss_high_reasoning",
    "tml_v0",
)
TURNS = {10: 9, 50: 5, 200: 5}
"""How often a rollout of so many turns is played; the host's of 200 turns once, others twice."""
GOAL = 50


def rows() -> Iterator[Row]:
    """A row a renderer."""
    for name in RENDERERS:
        yield _row(name)


def _row(name: str) -> Row:
    rendering = Rendering(renderer_for(name))
    best(rendering, 3, 1, host=False)
    times: dict[int, float] = {}
    values: dict[str, float] = {}
    for turns, repeats in TURNS.items():
        ours, tokens = best(rendering, turns, repeats, host=False)
        hosts, _ = best(rendering, turns, 1 if turns == 200 else 2, host=True)
        times[turns] = sum(hosts) / sum(ours)
        values |= {f"seconds_{turns}": sum(ours), f"host_seconds_{turns}": sum(hosts)}
    grown = growth(ours)
    values |= {"last_over_first": grown, "tokens": tokens}
    faster = ", ".join(f"{ratio:.1f}" for ratio in times.values())
    return Row(
        f"rollout, {name}",
        "EnvFromMessageEnv",
        f"{', '.join(map(str, TURNS))} turns; the last of {tokens:,} tokens",
        f"{faster} times as fast; last tenth {grown:.2f} of the first",
        f">= {GOAL} times at 200; <= 1.5",
        times[200] >= GOAL and grown <= 1.5,
        values,
    )
