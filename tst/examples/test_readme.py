"""The README's own code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_training_script_makes_its_configuration() -> None:
    (script,) = [block for block in BLOCKS if block.startswith("# train.py")]
    names: dict[str, Any] = {"__name__": "train"}
    exec(script, names)  # noqa: S102 - the README's own code
    assert names["config"].dataset_builder.bundle == "number_search"
    assert names["config"].log_path == names["config"].dataset_builder.log_path


async def test_environment_plays() -> None:
    from pydantic import BaseModel

    from tinker_episodes import Call, Episode, Message, Task

    (source,) = [block for block in BLOCKS if block.startswith("class NumberSearch")]

    class Window(BaseModel):
        number: int

    names: dict[str, Any] = {"Window": Window}
    exec("from typing import Annotated\nfrom tinker_episodes import *", names)  # noqa: S102
    exec(source, names)  # noqa: S102 - the README's own code
    episode = Episode(names["NumberSearch"], Task.of("a", "Find it.", number=4))
    await episode.open()
    calls = tuple(Call("guess", {"number": number}) for number in (2, 6, 4))
    episode.record(Message("assistant", "", calls))
    assert [r.content for r in await episode.run_calls()] == ["too low", "too high", "right"]
    assert (await episode.close()).reward == 1.0


def test_files_that_the_readme_points_to_are_there() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert targets and [t for t in targets if not (ROOT / t).exists()] == []
