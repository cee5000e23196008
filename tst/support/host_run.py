"""A run of the trainer on one of its own environments, with none of ours; run as a process of its
own.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial

import chz
from tinker_cookbook import renderers
from tinker_cookbook.rl import train
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset, RLDatasetBuilder
from tinker_cookbook.tokenizer_utils import get_tokenizer

from support.training import config

RENDERER = "role_colon"


class Sum(ProblemEnv):
    """What two numbers add up to. Any digit of the answer will do, so that rewards differ."""

    def __init__(self, a: int, b: int, renderer: renderers.Renderer) -> None:
        super().__init__(renderer)
        self.a, self.b = a, b

    def get_question(self) -> str:
        return f"What is {self.a} + {self.b}? <b onclick=alert(1)>Answer</b> & be brief."

    def check_answer(self, sample_str: str) -> bool:
        return len(sample_str) % 2 == 0

    def check_format(self, sample_str: str) -> bool:
        return True

    def get_reference_answer(self) -> str:
        return str(self.a + self.b)


class Sums(RLDataset):
    """Groups of sums; the same numbers for evals."""

    def __init__(self, renderer: renderers.Renderer, batches: int, groups: int, size: int) -> None:
        self._renderer, self._batches, self._groups, self._size = renderer, batches, groups, size

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return [
            ProblemGroupBuilder(partial(Sum, index, at, self._renderer), self._size, "sums")
            for at in range(self._groups)
        ]

    def __len__(self) -> int:
        return self._batches


@chz.chz
class SumsBuilder(RLDatasetBuilder):
    """Three batches of three groups of four, and an eval of two."""

    model_name: str

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        renderer = renderers.get_renderer(RENDERER, get_tokenizer(self.model_name))
        return Sums(renderer, 3, 3, 4), Sums(renderer, 1, 2, 1)


def host_config(url: str, log_path: str) -> train.Config:
    """The configuration of such a run, whose log trees hold two groups a batch."""
    from tinker_episodes import loopback

    return config(
        url,
        log_path,
        dataset_builder=SumsBuilder(model_name=loopback.model_name()),
        renderer_name=RENDERER,
        num_groups_to_log=2,
    )


if __name__ == "__main__":
    asyncio.run(train.main(host_config(sys.argv[1], sys.argv[2])))
