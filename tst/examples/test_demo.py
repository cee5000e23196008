"""The demo, cut down to a few steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TINY = ["warm_up_steps=4", "picture=shown.svg", "rl_steps=1", "episodes=40", "eval_every=1"]


def test_demo_runs_and_says_where_the_rollouts_are(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo" / "demo.py"), "folder=."]
    done = subprocess.run(
        [*command, *TINY],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "160"},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr and "Traceback" not in done.stderr
    for words in ("held-out eval: mean reward", "after the warm-up", "after rl.train"):
        assert words in done.stdout
    shown = next(line for line in done.stdout.splitlines() if "tinker-episodes steps" in line)
    (run,) = tmp_path.glob("demo-*")
    assert run.name in shown and str(tmp_path) not in shown
    picture = (tmp_path / "shown.svg").read_text("utf-8")
    assert "after rl.train" in picture.replace("&#160;", " ") and "font-face" not in picture
    steps = [str(Path(sys.executable).with_name("tinker-episodes")), "steps", str(run)]
    table = subprocess.run(steps, capture_output=True, text=True, check=True).stdout
    assert f"{run.name}/train/step-0001" in table and f"{run.name}/eval/step-0001" in table


def test_wrong_setting_is_told_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo" / "demo.py"), "colour=red"]
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_VERSION"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert done.returncode != 0 and "colour" in done.stderr
    assert "Traceback" not in done.stderr
