"""What importing the package costs, beside importing nothing: best of some processes.

python tst/bench/import_bench.py
"""

from __future__ import annotations

import subprocess
import sys
import time

REPEATS = 9
STATEMENTS = (
    "pass",
    "import tinker_episodes",
    "from tinker_episodes import Environment, tool",
)


def best_s(statement: str) -> float:
    """The shortest time of a process that runs a statement."""
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    bare = best_s("pass")
    for statement in STATEMENTS:
        took = best_s(statement)
        print(f"{statement:<48}{took:>7.3f} s{took / bare:>7.1f} times nothing")
