"""A rollout's steps beside the host's own `EnvFromMessageEnv`, on the same conversation.

    python tst/bench/steps_bench.py [out.json]

The policy is scripted, so that what is measured is what a step costs beside sampling: reading the
reply, running its tool, and the next observation. What else runs on the machine spoils the times;
ratios are of runs that take turns.
"""

from __future__ import annotations

import asyncio
import json
import operator
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what third parties warn of when they are imported
    from support.qwen import qwen3_5_folder
    from support.scripted import Counter
    from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
    from tinker_cookbook.rl.message_env import EnvFromMessageEnv
    from tinker_cookbook.rl.rollout_runner import run_rollout

from tinker_episodes import EpisodeEnv, Task
from tinker_episodes.cookbook.message_env import EpisodeMessageEnv
from tinker_episodes.cookbook.rendering import Rendering, rendering_of
from tinker_episodes.episode import Episode

EXTENDS, REWRITES = "qwen3_5_preserve_thinking", "qwen3_5"
WORDS = "the quick brown fox jumps over the lazy dog and runs far away from there "
TASK = Task.of("bench", "Say a lot.")


class Policy(TokenCompleter):
    """Calls `say` with about 75 tokens in each turn but the last, and notes when it is asked."""

    def __init__(self, rendering: Rendering, turns: int) -> None:
        tokenizer: Any = rendering.renderer.tokenizer
        say = f"thinking of it\n</think>\n\n<tool_call>\n<function=say>\n<parameter=text>\n{WORDS * 5}"
        call = f"{say}\n</parameter>\n</function>\n</tool_call><|im_end|>"
        self._call = tokenizer.encode(call, add_special_tokens=False)
        self._end = tokenizer.encode("over\n</think>\n\ndone<|im_end|>", add_special_tokens=False)
        self._turns = turns
        self.asked: list[float] = []
        self.tokens = 0

    async def __call__(
        self, model_input: Any, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        self.asked.append(time.perf_counter())
        self.tokens = model_input.length
        tokens = self._call if len(self.asked) < self._turns else self._end
        return TokensWithLogprobs(list(tokens), [-0.5] * len(tokens))


def rollout(rendering: Rendering, turns: int, *, host: bool) -> tuple[list[float], int]:
    """The seconds of each step, and the tokens of the last observation."""
    if host:
        conversation = EpisodeMessageEnv(Episode(Counter, TASK), rendering.renderer)
        env: Any = EnvFromMessageEnv(rendering.renderer, conversation)
    else:
        env = EpisodeEnv(environment=Counter, task=TASK, renderer=rendering)
    policy = Policy(rendering, turns)

    async def timed() -> list[float]:
        started = time.perf_counter()
        await run_rollout(policy, env)
        return [started, *policy.asked, time.perf_counter()]

    return list(map(operator.sub, (asked := asyncio.run(timed()))[1:], asked)), policy.tokens


def growth(steps: list[float]) -> float:
    """The last tenth of the steps over the first, without the opening and the scoring."""
    tenth = len(steps) // 10
    middle = steps[1:-1]
    return sum(middle[-tenth:]) / sum(middle[:tenth])


def best(rendering: Rendering, turns: int, repeats: int, *, host: bool) -> tuple[list[float], int]:
    """The shortest time of each step, of some rollouts."""
    runs = [rollout(rendering, turns, host=host) for _ in range(repeats)]
    return [min(step) for step in zip(*(steps for steps, _ in runs), strict=True)], runs[0][1]


def measure(model: str) -> list[dict[str, Any]]:
    extends, rewrites = rendering_of(model, EXTENDS), rendering_of(model, REWRITES)
    rollout(extends, 3, host=False)
    rollout(extends, 3, host=True)
    ours, tokens = best(extends, 200, 9, host=False)
    hosts, _ = best(extends, 200, 2, host=True)
    pieces, _ = best(rewrites, 200, 2, host=False)
    short, short_tokens = best(extends, 10, 30, host=False)
    hosts_short, _ = best(extends, 10, 30, host=True)
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; the shortest time of each step\n"
        f"200 turns: ours {sum(ours):.3f} s, the host's {sum(hosts):.3f} s, "
        f"rewritten from pieces {sum(pieces):.3f} s\n"
        f"10 turns: ours {sum(short):.4f} s, the host's {sum(hosts_short):.4f} s"
    )
    long = f"200 turns, {tokens:,} tokens"
    brief = f"10 turns, {short_tokens:,} tokens"
    host = "EnvFromMessageEnv"
    return [
        row("steps grow", "their first tenth", long, growth(ours), "<= 1.5"),
        row("rollout", host, long, sum(hosts) / sum(ours), ">= 50"),
        row("rollout", host, brief, sum(hosts_short) / sum(short), ">= 1"),
        row("rewritten rollout", host, long, sum(hosts) / sum(pieces), "none"),
    ]


def row(work: str, beside: str, sizes: str, ratio: float, goal: str) -> dict[str, Any]:
    print(f"{work:<20} | {beside:<18} | {sizes:<28} | {ratio:>8.2f} | {goal}", flush=True)
    return {"work": work, "beside": beside, "sizes": sizes, "ratio": ratio, "goal": goal}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(qwen3_5_folder(Path(folder)))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({"steps": rows}, indent=1))


if __name__ == "__main__":
    main()
