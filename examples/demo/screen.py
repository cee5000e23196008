"""What the demo shows: progress, the curve, three plays of one task, and where the rollouts are."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tinker_episodes.index import Split
from tinker_episodes.index.reading import IndexReader, StepRow
from tinker_episodes.index.schema import default_url
from tinker_episodes.index.writing import index_writer
from tinker_episodes.wording import entry_lines

_HEIGHT = 8
_REMOTE_FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""What would make a reader's browser fetch a font."""
_REWARD = "env/all/reward/total"


class Screen:
    """The demo's side of the terminal."""

    def __init__(self, console: Console, bundle: str, task: str) -> None:
        """
        Args:
            task: The id of the task whose plays are shown in the end.
        """
        # The trainer's own output is sent to a file while it runs; this console keeps the terminal.
        self.console = Console(file=sys.stdout, highlight=False, width=console.width, record=True)
        self._bundle = bundle
        self._task = task
        self._plays: list[tuple[str, Sequence[Text]]] = []

    def opens(self, seed: int) -> None:
        """Say what is going to happen."""
        self.console.print(
            f"[bold]tinker-episodes demo[/]: a tiny model with random weights (seed {seed}) "
            f"learns the bundle {self._bundle} on this machine's CPU.\n"
            "It imitates scripted play first: a third of it good, the rest guesses anywhere. "
            "Then the cookbook's rl.train takes over, with the tasks' rewards alone.\n"
        )

    def plays(self, when: str, lines: Sequence[Text]) -> None:
        """Keep one play of the task that is shown in the end."""
        self._plays.append((when, lines))

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[str], None]]:
        """A progress bar; the function that it gives moves it by one and shows a word beside it."""
        with self._bars() as bars:
            task = bars.add_task(what, total=total, word="")
            yield lambda word: bars.update(task, advance=1, word=word)
            bars.update(task, completed=total)

    @contextlib.contextmanager
    def follows(self, run: Path, total: int) -> Iterator[None]:
        """Follow a training run by the metrics that the trainer writes."""
        run.mkdir(parents=True, exist_ok=True)
        over = threading.Event()
        with self._bars() as bars, (run / "trainer.log").open("w", encoding="utf-8") as log:
            task = bars.add_task("rl.train", total=total, word="")

            def follow() -> None:
                done = False
                while not done:
                    done = over.wait(0.3)
                    rows = metrics(run)
                    trained = [row for row in rows if _REWARD in row]
                    word = f"reward {trained[-1][_REWARD]:.2f}" if trained else ""
                    bars.update(task, completed=len(trained), word=word)

            watcher = threading.Thread(target=follow, daemon=True)
            watcher.start()
            try:
                with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
                    yield
            finally:
                over.set()
                watcher.join()

    def ends(self, run: Path, took_s: float) -> None:
        """Show what was learned, and where to look."""
        url = default_url(run)
        index_writer(url).close()
        reader = IndexReader(url)
        steps = reader.steps(run.name)
        evals = [step for step in steps if step.split is Split.EVAL]
        for when, step in (("after the warm-up", evals[0]), ("after rl.train", evals[-1])):
            self.plays(when, _play(reader, run.name, step.step, self._task))
        self.console.print(_curve([s for s in steps if s.split is Split.TRAIN]))
        self.console.print(_table(steps))
        for when, lines in self._plays:
            self.console.print(f"\n[bold]The held-out task {self._task}, {when}[/]")
            for line in lines:
                self.console.print(line)
        reader.close()
        self._points(run, took_s)

    def saves(self, picture: Path) -> None:
        """Save what was shown as an SVG file."""
        svg = self.console.export_svg(title="make demo")
        picture.write_text(_REMOTE_FONT.sub("", svg), encoding="utf-8")

    def _points(self, run: Path, took_s: float) -> None:
        run = run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run
        self.console.print(
            f"\nDone in {took_s:.0f} s. Every rollout is filed in {run.parent}/episodes.db; "
            f"the trainer's own output is {run}/trainer.log. Look at them:\n"
            f"  .venv/bin/tinker-episodes runs {run.parent}\n"
            f"  .venv/bin/tinker-episodes steps {run}\n"
            f"  .venv/bin/tinker-episodes show KEY index={run.parent}"
        )

    def _bars(self) -> Progress:
        return Progress(
            TextColumn("{task.description:32}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:>4.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[word]}"),
            console=self.console,
        )


def metrics(run: Path) -> list[dict[str, float]]:
    """The rows that the trainer has written."""
    file = run / "metrics.jsonl"
    if not file.is_file():
        return []
    lines = file.read_text("utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _curve(train: Sequence[StepRow]) -> Text:
    """The mean reward of each training step as a plot."""
    rewards = [step.reward or 0.0 for step in train]
    rows = [f"{'mean reward of the training rollouts by step':>52}"]
    for at in range(_HEIGHT, -1, -1):
        level = at / _HEIGHT
        marks = "".join("●" if round(r * _HEIGHT) == at else " " for r in rewards)
        rows.append(f"  {level:4.2f} ┤ {marks}")
    rows.append(f"       └{'─' * (len(rewards) + 1)} step {train[-1].step if train else 0}")
    return Text("\n".join(["", *rows, ""]))


def _table(steps: Sequence[StepRow]) -> Table:
    """The first and the last steps in numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "first step", "last step"):
        table.add_column(name, justify="right" if name else "left")
    for split, words in ((Split.TRAIN, "training"), (Split.EVAL, "held-out eval")):
        rows = [step for step in steps if step.split is split]
        first, last = rows[0], rows[-1]
        table.add_row(f"{words}: step", str(first.step), str(last.step))
        table.add_row(f"{words}: rollouts", str(first.rollouts), str(last.rollouts))
        table.add_row(f"{words}: mean reward", f"{first.reward:.2f}", f"{last.reward:.2f}")
        table.add_row(f"{words}: success", f"{first.success:.0%}", f"{last.success:.0%}")
    return table


def _play(reader: IndexReader, run: str, step: int, task: str) -> list[Text]:
    """The lines of the task's first rollout in an eval."""
    rollouts = reader.rollouts(run, Split.EVAL, step)
    rollout = next(rollout for rollout in rollouts if rollout["task"] == task)
    entries = (reader.transcript(rollout["key"]) or {}).get("entries", [])
    score = reader.scores(rollout["key"])[0]
    lines = [line for entry in entries[1:] for line in entry_lines(entry)]
    return [*lines, Text(f"  score  {score.value:.0f}: {score.explanation}", style="bold")]
