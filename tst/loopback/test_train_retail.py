"""The host's unmodified trainer on the retail example, where the benchmark's data is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.training import config
from tinker_cookbook.rl import train

from tinker_episodes.index.reading import IndexReader
from tinker_episodes.index.writing import index_writer

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("TAU2_RETAIL_DATA", ROOT.parent / "shared" / "data" / "tau2-retail"))

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(
        not (DATA / "tasks.json").is_file(), reason=f"the benchmark's data is not at {DATA}"
    ),
]


@pytest.fixture
def retail(tmp_path: Path) -> str:
    """The retail bundle, made by its documented command."""
    script = ROOT / "examples" / "tau2_retail" / "make_bundle.py"
    folder = tmp_path / "retail"
    command = [sys.executable, str(script), f"data={DATA}", f"out={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    return str(folder)


async def test_trains_two_steps_on_real_tasks_and_files_every_rollout(
    server: str, tmp_path: Path, retail: str
) -> None:
    data = {
        "bundle": retail,
        "groups_per_batch": 2,
        "group_size": 4,
        "train_split": "train_changed",
        "test_split": "test_changed",
    }
    await train.main(config(server, str(tmp_path / "run"), data=data, max_steps=2, max_tokens=16))
    url = f"sqlite:///{tmp_path / 'episodes.db'}"
    index_writer(url).close()
    reader = IndexReader(url)
    found = {(row.split.value, row.step): row for row in reader.steps("run")}
    reader.close()
    assert set(found) == {("eval", 0), ("train", 0), ("train", 1)}
    assert found["eval", 0].rollouts == found["eval", 0].scored == 36
    for step in range(2):
        row = found["train", step]
        assert (row.groups, row.rollouts, row.scored) == (2, 8, 8)
