"""What a bench gives: rows, each a ratio of two times (or sizes) that were measured in one run."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    work: str
    beside: str
    sizes: str
    """What was run: counts, lengths, repeats."""
    figure: str
    """What came out, as a person reads it."""
    goal: str
    met: bool | None
    """None where the row has no goal, or was left out."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Every figure behind it, with units in the names."""


def left_out(work: str, why: str) -> Row:
    """A row that can't be measured here."""
    return Row(work, "", "", f"left out: {why}", "", None)


def medians_s(works: Mapping[str, Work], *, repeats: int) -> dict[str, float]:
    """The median seconds of each work, run in turns after one round to warm up.

    As `timeit` does it, without the garbage collector: its turn would fall on whoever allocates
    next.

    A work that gives a float has timed itself, so that it can leave its preparation out.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for round_ in range(repeats + 1):
        for name, work in works.items():
            took = _timed_s(work)
            if round_:
                times[name].append(took)
    return {name: statistics.median(each) for name, each in times.items()}


def _timed_s(work: Work) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        own = work()
        return own if isinstance(own, float) else time.perf_counter() - start
    finally:
        gc.enable()


def verdict(row: Row) -> str:
    """`met`, `missed`, or nothing."""
    return "" if row.met is None else "met" if row.met else "missed"


def show(rows: Iterable[Row]) -> None:
    """Print the table: fitted to a terminal, whole where it is piped."""
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in ("work", "beside", "sizes", "figure", "goal", ""):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(row.work, row.beside, row.sizes, row.figure, row.goal, verdict(row))
    console.print(table, markup=False) if console.is_terminal else _plain(rows)


def _plain(rows: Iterable[Row]) -> None:
    for row in rows:
        cells = (row.work, row.beside, row.sizes, row.figure, row.goal, verdict(row))
        print(" | ".join(cells).rstrip(" |"))


def write(rows: Iterable[Row], path: Path, **about: Any) -> None:
    """The same as JSON, with every figure behind each row."""
    text = json.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
