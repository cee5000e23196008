"""The host's on-policy distillation on a bundle's tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.training import config
from tinker_cookbook.distillation import train_on_policy
from tinker_cookbook.distillation.datasets import DistillationDatasetConfig, TeacherConfig

from tinker_episodes import loopback
from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def test_on_policy_distillation_plays_and_files_a_bundles_tasks(
    server: str, tmp_path: Path
) -> None:
    log_path = str(tmp_path / "run")
    dataset = DistillationDatasetConfig(
        dataset_builder=config(server, log_path, data={"test_split": None}).dataset_builder,
        teacher_config=TeacherConfig(base_model=loopback.model_name()),
        groups_per_batch=3,
    )
    await train_on_policy.main(
        train_on_policy.Config(
            base_url=server,
            dataset_configs=[dataset],
            model_name=loopback.model_name(),
            renderer_name="qwen3_instruct",
            recipe_name="tinker_episodes_tests",
            learning_rate=1e-4,
            max_tokens=8,
            log_path=log_path,
            max_steps=2,
            save_every=0,
        )
    )
    url = f"sqlite:///{tmp_path / 'episodes.db'}"
    index_writer(url).close()
    reader = IndexReader(url)
    assert [(s.split, s.step, s.rollouts) for s in reader.steps("run")] == [
        ("train", 0, 6),
        ("train", 1, 6),
    ]
    reader.close()
