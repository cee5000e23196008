"""A small training run of the host's unmodified trainer on a loopback server; also run as a process
of its own.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import chz
from tinker_cookbook.rl import train

from tinker_episodes import EpisodeDatasetBuilder, loopback

GROUPS, SIZE = 3, 2


def config(url: str, log_path: str, **settings: Any) -> train.Config:
    """Three tasks a step, two rollouts a task, evals of two tasks before every second step."""
    data = {
        "bundle": "support.scripted:COUNTING",
        "model_name": loopback.model_name(),
        "renderer_name": "qwen3_instruct",
        "groups_per_batch": GROUPS,
        "group_size": SIZE,
        "test_split": "few",
        "log_path": log_path,
        "max_concurrent_episodes": 4,
        **settings.pop("data", {}),
    }
    return train.Config(
        base_url=url,
        dataset_builder=settings.pop("dataset_builder", None) or EpisodeDatasetBuilder(**data),
        **{
            "model_name": loopback.model_name(),
            "renderer_name": "qwen3_instruct",
            "log_path": log_path,
            "recipe_name": "tinker_episodes_tests",
            "learning_rate": 1e-4,
            "max_tokens": 8,
            "eval_every": 2,
            "save_every": 1,
            "num_groups_to_log": 0,
            **settings,
        },
    )


def async_mode(steps_off_policy: int) -> train.AsyncConfig:
    """Asynchronous training with a loss that the loopback server has: from 0.6 on the host's own
    default is another.
    """
    fields = chz.chz_fields(train.AsyncConfig)
    loss = {"loss_fn": "importance_sampling"} if "loss_fn" in fields else {}
    return train.AsyncConfig(max_steps_off_policy=steps_off_policy, groups_per_batch=GROUPS, **loss)


if __name__ == "__main__":
    asyncio.run(train.main(config(sys.argv[1], sys.argv[2])))
