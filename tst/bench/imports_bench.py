"""What a start costs: importing the package and the command's help, beside bare Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from table import Row, medians_s

REPEATS = 9


def rows() -> Iterator[Row]:
    """The import, the author's names, and `--help`."""
    python, command = [sys.executable, "-c"], str(Path(sys.executable).with_name("tinker-episodes"))
    starts = {
        "bare": [*python, "pass"],
        "import": [*python, "import tinker_episodes"],
        "author": [*python, "from tinker_episodes import Environment, tool"],
        "help": [command, "--help"],
    }
    took = medians_s(
        {name: lambda start=start: run(start) for name, start in starts.items()}, repeats=REPEATS
    )
    more = {name: took[name] - took["bare"] for name in starts}
    values = {f"{name}_s": value for name, value in took.items()}
    yield _row("import tinker_episodes", more["import"], 0.1, values)
    yield _row("from tinker_episodes import Environment, tool", more["author"], None, values)
    yield _row("tinker-episodes --help", more["help"], 0.3, values)


def run(command: list[str]) -> None:
    """One process, to its end."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _row(work: str, more_s: float, goal_s: float | None, values: dict[str, float]) -> Row:
    goal = "" if goal_s is None else f"+ {goal_s} s"
    met = None if goal_s is None else more_s <= goal_s
    sizes = f"{REPEATS} processes each"
    return Row(work, "python -c pass", sizes, f"+ {more_s:.3f} s", goal, met, values)
