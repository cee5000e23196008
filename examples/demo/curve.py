"""The learning curve as a small plot of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from rich.text import Text

_HEIGHT = 10
_WIDTH = 60
_TRAINED = ("●", "green")
_HELD_OUT = ("◆", "bold yellow")


def curve(trained: Sequence[float], held_out: Mapping[int, float], *, steps: int) -> Text:
    """Success by step: of the training rollouts, and of the held-out evals.

    Args:
        trained: The share of training rollouts that succeeded, 0 to 1, by step from 0 on.
        held_out: The same of the evals, by their step.
        steps: How many steps the plot has room for; beyond 60, columns hold means of several.
    """
    columns = min(steps, _WIDTH)
    marks = {
        (column, round(mean(values) * _HEIGHT)): _TRAINED
        for column, values in _by_column(dict(enumerate(trained)), columns, steps).items()
    }
    for column, values in _by_column(held_out, columns, steps).items():
        marks[column, round(mean(values) * _HEIGHT)] = _HELD_OUT
    plot = Text("\n  success by step: ")
    plot.append(*_TRAINED).append(" training tasks  ")
    plot.append(*_HELD_OUT).append(" held-out eval\n")
    for level in range(_HEIGHT, -1, -1):
        plot.append(f"  {level / _HEIGHT:4.0%} ┤ ")
        for column in range(columns):
            plot.append(*marks.get((column, level), (" ", "")))
        plot.append("\n")
    return plot.append(f"       └{'─' * (columns + 1)} step {steps - 1}\n")


def _by_column(values: Mapping[int, float], columns: int, steps: int) -> dict[int, list[float]]:
    """The values that share a column."""
    shared: dict[int, list[float]] = {}
    for step, value in values.items():
        shared.setdefault(min(step, steps - 1) * columns // steps, []).append(value)
    return shared
