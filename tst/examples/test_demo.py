"""The demo, cut down to a few steps, and its parts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tinker_cookbook.rl.rollout_runner import run_rollout

from tinker_episodes import EpisodeEnv, find_bundle, loopback
from tinker_episodes.cookbook.rendering import rendering_of

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "demo"
TINY = ["warm_up_steps=4", "picture=shown.svg", "rl_steps=1", "episodes=40", "eval_every=1"]


def _run(*settings: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_VERSION"}
    return subprocess.run(
        [sys.executable, str(DEMO / "demo.py"), "folder=.", *settings],
        capture_output=True,
        text=True,
        check=False,
        env={**own, "COLUMNS": "160"},
        cwd=cwd,
    )


def test_demo_runs_and_says_where_the_rollouts_are(tmp_path: Path) -> None:
    done = _run(*TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr and "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout, "no control sequences where the output is a pipe"
    plays = [line for line in done.stdout.splitlines() if line.startswith("The held-out task")]
    first = "(the first of 16 rollouts; 0 of them win)"
    assert plays == [
        f"The held-out task w20-29, {when}"
        for when in ("before", f"after the warm-up {first}", f"after rl.train {first}")
    ]
    assert done.stdout.count("success by step") == 1
    shown = next(line for line in done.stdout.splitlines() if "tinker-episodes steps" in line)
    (run,) = tmp_path.glob("demo-*")
    assert run.name in shown and str(run) not in shown
    picture = (tmp_path / "shown.svg").read_text("utf-8").replace("&#160;", " ")
    assert "after rl.train" in picture and "success by step" in picture
    assert "font-face" not in picture
    steps = [str(Path(sys.executable).with_name("tinker-episodes")), "steps", str(run)]
    table = subprocess.run(steps, capture_output=True, text=True, check=True).stdout
    assert f"{run.name}/train/step-0001" in table and f"{run.name}/eval/step-0001" in table


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["colour=red"], ["colour"]),
        (
            ["halving=25", "episodes=3", "rl_rate=0"],
            [
                "halving=25.0 is no share: give 0 to 1",
                "episodes=3 is too few: give 32 or more",
                "rl_rate=0.0 is no learning rate: give one between 0 and 1",
            ],
        ),
    ],
)
def test_wrong_settings_are_told_without_a_traceback(
    settings: list[str], told: list[str], tmp_path: Path
) -> None:
    done = _run(*settings, cwd=tmp_path)
    assert done.returncode != 0 and [words for words in told if words not in done.stderr] == []
    assert "Traceback" not in done.stderr and list(tmp_path.iterdir()) == []


def test_interrupt_ends_the_demo_without_a_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", str(DEMO / "demo.py"), "folder=."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("tinker-episodes demo")
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate()
    assert (process.returncode, "Traceback" in complaints) == (130, False), complaints


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEMO))


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(("name", "wins"), [("halve", 8), ("count_up", 0), ("count_down", 2)])
async def test_scripted_players_win_as_many_held_out_tasks_as_their_habit_can(
    name: str, wins: int
) -> None:
    import scripted_play

    bundle = find_bundle("number_search")
    rendering = rendering_of(loopback.model_name(), "qwen3_instruct")
    habit: Any = getattr(scripted_play, name)
    scores: dict[str, float] = {}
    for task in bundle.split("val"):
        env = EpisodeEnv(environment=bundle.environment, task=task, renderer=rendering)
        player = scripted_play.Guesser(rendering, random.Random(0), habit, slips=0.0)
        await run_rollout(player, env)
        assert env.episode.outcome is not None
        scores[task.id] = env.episode.outcome.reward
    assert sum(scores.values()) == wins
    assert scores["w20-29"] == float(name == "halve"), "the task that is shown tells them apart"


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(("steps", "column"), [(46, 30), (400, 4)])
def test_curve_puts_a_step_at_its_column_and_height(steps: int, column: int) -> None:
    from curve import curve

    drawn = curve([1.0] * 31, {30: 0.3}, steps=steps).plain.splitlines()
    assert drawn[2].startswith("  100% ┤ ●"), drawn
    (at,) = [line for line in drawn if line.startswith("   30% ┤")]
    assert at.index("◆") == len("   30% ┤ ") + column
    assert max(len(line) for line in drawn) <= 80
