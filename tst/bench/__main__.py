"""What the library costs, each figure beside a peer or a physical limit in the same run.

    python tst/bench [only=retail,imports] [to=bench.json]

It says nothing about time by its exit code: it fails only where a measured result is wrong.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import chz
from table import Row, show, verdict, write

sys.path.insert(0, str(Path(__file__).parents[1]))  # tst/support

BENCHES = (
    "retail",
    "orchestration",
    "concurrency",
    "imports",
    "memory",
    "loopback",
    "index",
    "explorer",
    "arguments",
    "steps",
    "renderers",
    "mcp",
    "training",
)
"""A module `<name>_bench` each, whose `rows()` gives its part of the table."""


def rows_of(names: list[str]) -> Iterator[Row]:
    """The rows of the named benches, as they are measured."""
    for name in names:
        yield from importlib.import_module(f"{name}_bench").rows()


def main(only: str = "", to: str = "bench.json") -> None:
    """Measure and print.

    Args:
        only: Names of benches, split by commas; by default all.
        to: The file for the figures as JSON.
    """
    names = [name for name in only.split(",") if name] or list(BENCHES)
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        sys.exit(f"there is no bench {', '.join(unknown)}; there are: {', '.join(BENCHES)}")
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}")
    rows: list[Row] = []
    for row in rows_of(names):
        rows.append(row)
        print(f"  {row.work}: {row.figure} {verdict(row)}".rstrip(), flush=True)
    print()
    show(rows)
    write(rows, Path(to), cores=os.cpu_count(), python=platform.python_version(), load=load)


if __name__ == "__main__":
    chz.entrypoint(main, allow_hyphens=True)
