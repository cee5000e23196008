"""The built wheel in an empty environment: its command, bundle, types, and a scripted group."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPTED_GROUP = """
import asyncio, json, sys
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_episodes import EpisodeDatasetBuilder, loopback

class Policy(TokenCompleter):
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
    async def __call__(self, model_input, stop, *, max_tokens=None):
        said = self.tokenizer.decode(model_input.to_ints())
        low, high = said.split("The number is from ")[1].split(".")[0].split(" to ")
        middle = (int(low) + int(high)) // 2
        body = json.dumps({"name": "guess", "arguments": {"number": middle}})
        text = f"<tool_call>\\n{body}\\n</tool_call><|im_end|>"
        tokens = self.tokenizer.encode(text, add_special_tokens=False)
        return TokensWithLogprobs(tokens, [-1.0] * len(tokens))

async def main():
    from tinker_cookbook.tokenizer_utils import get_tokenizer
    name = loopback.model_name()
    train, _ = await EpisodeDatasetBuilder(
        bundle="number_search", model_name=name, renderer_name="qwen3_instruct",
        groups_per_batch=1, group_size=2, log_path=sys.argv[1],
    )()
    group = await do_group_rollout(train.get_batch(0)[0], Policy(get_tokenizer(name)))
    print("rewards", group.get_total_rewards())

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sources as they are."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)])
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel and what it asks for alone."""
    home = tmp_path_factory.mktemp("venv")
    run([sys.executable, "-m", "venv", str(home)])
    constraints = str(ROOT / "constraints.txt")
    run([str(home / "bin" / "pip"), "install", "--quiet", "-c", constraints, str(wheel)])
    return home / "bin"


def run(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_holds_types_bundle_tokenizer_and_page(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "py.typed",
        "bundles/number_search/bundle.toml",
        "bundles/number_search/tasks/train.jsonl",
        "bundles/number_search/tasks/val.jsonl",
        "loopback/tokenizer/tokenizer.json",
    ):
        assert f"tinker_episodes/{name}" in names
    page = ROOT / "src" / "tinker_episodes" / "explorer" / "static"
    pages = {str(file.relative_to(ROOT / "src")) for file in page.rglob("*") if file.is_file()}
    assert len(pages) > 20 and pages <= names
    assert not [name for name in names if name.startswith(("tst", "examples"))]


@pytest.mark.timeout(1200)
def test_command_and_a_scripted_group_work_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "tinker-episodes")
    assert "check" in run([command, "--help"], tmp_path)
    assert "is well" in run([command, "check", "number_search"], tmp_path)
    log_path = tmp_path / "runs" / "scripted"
    said = run([str(installed / "python"), "-c", SCRIPTED_GROUP, str(log_path)], tmp_path)
    assert said.startswith("rewards [") and all(n in "01.,[] rewads\n" for n in said)
    assert "scripted" in run([command, "runs", str(tmp_path / "runs")], tmp_path)
    steps = run([command, "steps", str(log_path)], tmp_path)
    assert "scripted/train/step-0000" in steps
