"""What the host's `metrics.jsonl` says of cuts, after a step of its real trainer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import tinker
from support.training import config
from tinker import types
from tinker_cookbook.rl import train
from tinker_cookbook.rl.rollout_limits import RolloutLimits

from tinker_episodes import loopback
from tinker_episodes.cookbook.rendering import rendering_of
from tinker_episodes.index.writing import index_writer
from tinker_episodes.outcome import Cut

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def log_path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    index_writer(f"sqlite:///{tmp_path / 'episodes.db'}").close()


def model_that_ends_its_replies(training: tinker.TrainingClient) -> str:
    """Train until every reply is its end alone, and give the checkpoint's path."""
    rendering = rendering_of(loopback.model_name(), "qwen3_instruct")
    data = []
    for text in [*(f"Task {n}." for n in range(10)), "Go on."]:
        prompt = rendering.renderer.build_generation_prompt([{"role": "user", "content": text}])
        tokens = [*prompt.to_ints(), *rendering.stop]
        inputs: dict[str, types.TensorData | list[int] | list[float]] = {
            "target_tokens": tokens[1:],
            "weights": [0.0] * (len(tokens) - 2) + [1.0],
        }
        model_input = types.ModelInput.from_ints(tokens[:-1])
        data.append(types.Datum(model_input=model_input, loss_fn_inputs=inputs))
    for _ in range(30):
        training.forward_backward(data, "cross_entropy").result()
        training.optim_step(types.AdamParams(learning_rate=1e-2)).result()
    return training.save_state("ends").result().path


async def test_one_cut_among_ten_reads_a_tenth_and_by_tag_what_it_is_there(
    server: str, training: tinker.TrainingClient, log_path: Path
) -> None:
    await train.main(
        config(
            server,
            str(log_path),
            data={
                "bundle": "support.cuts:ONE_IN_TEN",
                "groups_per_batch": 10,
                "group_size": 1,
                "test_split": None,
                "limits": RolloutLimits(max_turns=2),
            },
            max_steps=1,
            save_every=0,
            load_checkpoint_path=model_that_ends_its_replies(training),
        )
    )
    rows = [json.loads(line) for line in (log_path / "metrics.jsonl").read_text().splitlines()]
    (row,) = [row for row in rows if "env/all/cut" in row]
    assert row["env/all/cut"] == pytest.approx(0.1)
    assert row["env/few/cut"] == pytest.approx(0.2)
    by_reason = {cut: row[f"env/all/cut/{cut}"] for cut in Cut}
    assert by_reason == {cut: pytest.approx(0.1 * (cut is Cut.MAX_TURNS)) for cut in Cut}
    assert row["env/few/cut/max_turns"] == pytest.approx(0.2)
    assert row["env/all/score/replies"] == 1.0
    assert row["env/all/messages"] == pytest.approx((9 * 2 + 5) / 10)
