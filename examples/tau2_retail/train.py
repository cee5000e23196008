"""Trains on the retail bundle. Make it first: see the README."""

from __future__ import annotations

import asyncio

from tinker_cookbook.rl import train

from tinker_episodes import EpisodeDatasetBuilder

MODEL = "Qwen/Qwen3.5-9B"
RUN = "runs/tau2_retail"

config = train.Config(
    dataset_builder=EpisodeDatasetBuilder(
        bundle="./retail",
        model_name=MODEL,
        renderer_name="qwen3_5_preserve_thinking",
        groups_per_batch=16,
        group_size=8,
        train_split="train_changed",
        test_split="test",
        log_path=RUN,
        max_concurrent_episodes=64,
    ),
    model_name=MODEL,
    renderer_name="qwen3_5_preserve_thinking",
    log_path=RUN,
    recipe_name="tinker_episodes",
    learning_rate=4e-5,
    max_tokens=2048,
    rollout_error_tolerance=True,
)

if __name__ == "__main__":
    asyncio.run(train.main(config))
