"""The code of docs/backends.md, as it stands there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tinker_episodes.bundles
from tinker_episodes.index.writing import index_writer

DOC = Path(__file__).parents[2] / "docs" / "backends.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)


def test_the_test_of_a_bundle_passes_and_fails_with_the_bundles_own_error(tmp_path: Path) -> None:
    (block,) = [block for block in BLOCKS if block.startswith("# test_my_bundle.py")]
    shipped = Path(tinker_episodes.bundles.__path__[0]) / "number_search"
    for name in ("my_bundle", "broken_bundle"):
        shutil.copytree(shipped, tmp_path / name)
        (tmp_path / f"test_{name}.py").write_text(block.replace("my_bundle", name))
    source = tmp_path / "broken_bundle" / "environment.py"
    scorer = re.compile(r"(    @scorer\n    def \w+\(self\)[^\n]*\n)")
    source.write_text(scorer.sub(r"\1        1 / 0\n", source.read_text()))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    environment = {key: value for key, value in os.environ.items() if key != "TINKER_API_KEY"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "ZeroDivisionError" in done.stdout
    assert "test_broken_bundle_trains" in done.stdout.splitlines()[-2]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_script_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [block for block in BLOCKS if "loopback.serve()" in block]
    monkeypatch.chdir(tmp_path)
    exec(block, {"__name__": "script"})  # noqa: S102 - the page's own code
    assert (tmp_path / "runs" / "here" / "metrics.jsonl").exists()
    index_writer(f"sqlite:///{tmp_path / 'runs' / 'episodes.db'}").close()
