"""What the demo shows: progress, the curve, three plays of one task, and where the rollouts are."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from curve import curve
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from scripted_play import Players

from tinker_episodes import Bundle
from tinker_episodes.index import Split
from tinker_episodes.index.reading import IndexReader, StepRow
from tinker_episodes.index.schema import default_url
from tinker_episodes.index.writing import index_writer
from tinker_episodes.wording import entry_lines

_REMOTE_FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""What would make a reader's browser fetch a font."""
_PICTURE_WIDTH = 100
_TRAINED, _HELD_OUT = "env/all/score/found", "test/env/all/score/found"

Metrics = Mapping[str, float]


class Screen:
    """The demo's side of the terminal; plain text where the output is no terminal."""

    def __init__(self, shown: str) -> None:
        """
        Args:
            shown: The id of the task whose plays are shown in the end.
        """
        # The trainer's own output is sent to a file while it runs; this console keeps the terminal.
        self._console = Console(file=sys.stdout, highlight=False, width=Console().width)
        self._shown = shown
        self._plays: list[tuple[str, Sequence[Text]]] = []
        self._said: list[RenderableType] = []

    def opens(self, bundle: Bundle, seed: int, players: Players) -> None:
        """Say what is going to happen."""
        self._say(
            f"[bold]tinker-episodes demo[/]: a tiny model with random weights (seed {seed}) "
            f"learns the bundle {bundle.name} on this machine's CPU. {bundle.description}\n"
            f"It imitates scripted players first: {players.halving:.0%} search by halves, the "
            f"others count up or down, and {players.slips:.0%} of all guesses are slips. Then the "
            "cookbook's rl.train takes over, with the tasks' rewards alone.\n"
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
        """Follow a training run by the metrics that the trainer writes, the curve included."""
        run.mkdir(parents=True, exist_ok=True)
        over = threading.Event()
        bars = self._bars()
        task = bars.add_task("rl.train: rewards alone", total=total, word="")

        def shown() -> Group:
            rows = _metrics(run)
            word = f"success {rows[-1][_TRAINED]:.0%}" if rows else ""
            bars.update(task, completed=len(rows), word=word)
            return Group(bars, _curve(rows, total))

        with Live(shown(), console=self._console, refresh_per_second=4) as live:

            def follow() -> None:
                while not over.wait(0.5):
                    live.update(shown())

            watcher = threading.Thread(target=follow, daemon=True)
            watcher.start()
            try:
                with (
                    (run / "trainer.log").open("w", encoding="utf-8") as log,
                    contextlib.redirect_stdout(log),
                    contextlib.redirect_stderr(log),
                ):
                    yield
            finally:
                over.set()
                watcher.join()
                live.update(shown())

    def ends(self, run: Path, took_s: float) -> None:
        """Show what was learned, and where to look."""
        url = default_url(run)
        index_writer(url).close()
        reader = IndexReader(url)
        steps = reader.steps(run.name)
        evals = [step for step in steps if step.split is Split.EVAL]
        for when, step in (("after the warm-up", evals[0]), ("after rl.train", evals[-1])):
            group, lines = _play(reader, run.name, step.step, self._shown)
            self.plays(f"{when} ({group})", lines)
        reader.close()
        self._say(_table(steps))
        for when, lines in self._plays:
            self._say(Text.assemble("\n", (f"The held-out task {self._shown}, {when}", "bold")))
            for line in lines:
                self._say(line)
        self._say(_where(run, took_s))

    def saves(self, run: Path, picture: Path) -> None:
        """Save what is shown as an SVG file."""
        paper = Console(file=io.StringIO(), highlight=False, width=_PICTURE_WIDTH, record=True)
        rows = _metrics(run)
        opening, *rest = self._said
        for part in (opening, _curve(rows, len(rows)), *rest):
            paper.print(part)
        svg = paper.export_svg(title="make demo")
        picture.write_text(_REMOTE_FONT.sub("", svg), encoding="utf-8")

    def _say(self, part: RenderableType) -> None:
        self._said.append(part)
        self._console.print(part)

    def _bars(self) -> Progress:
        return Progress(
            TextColumn("{task.description:32}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:>4.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[word]}"),
            console=self._console,
        )


def _metrics(run: Path) -> Sequence[Metrics]:
    """The rows that the trainer has written, one a training step."""
    file = run / "metrics.jsonl"
    if not file.is_file():
        return []
    lines = file.read_text("utf-8").splitlines(keepends=True)
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [row for row in rows if _TRAINED in row]


def _curve(rows: Sequence[Metrics], steps: int) -> Text:
    held_out = {step: row[_HELD_OUT] for step, row in enumerate(rows) if _HELD_OUT in row}
    return curve([row[_TRAINED] for row in rows], held_out, steps=steps)


def _table(steps: Sequence[StepRow]) -> Table:
    """The first and the last steps in numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "after the warm-up", "after rl.train"):
        table.add_column(name, justify="right" if name else "left")
    for split, words in ((Split.EVAL, "held-out eval"), (Split.TRAIN, "training tasks")):
        rows = [step for step in steps if step.split is split]
        first, last = rows[0], rows[-1]
        table.add_row(f"{words}: step", str(first.step), str(last.step))
        table.add_row(f"{words}: rollouts", str(first.rollouts), str(last.rollouts))
        table.add_row(f"{words}: success", f"{first.success:.0%}", f"{last.success:.0%}")
    return table


def _play(reader: IndexReader, run: str, step: int, task: str) -> tuple[str, Sequence[Text]]:
    """The task's first rollout in an eval: its place among the others, and its lines."""
    every = reader.rollouts(run, Split.EVAL, step)
    group = [rollout for rollout in every if rollout["task"] == task]
    won = sum(1 for rollout in group if rollout["reward"] == 1)
    entries = (reader.transcript(group[0]["key"]) or {}).get("entries", [])
    score = reader.scores(group[0]["key"])[0]
    lines = [line for entry in entries[1:] for line in entry_lines(entry)]
    scored = Text(f"  score  {score.value:.0f}: {score.explanation}", style="bold")
    return f"the first of {len(group)} rollouts; {won} of them win", [*lines, scored]


def _where(run: Path, took_s: float) -> Text:
    """How long it took, and the commands that show the run."""
    command = _shortened(Path(sys.executable).with_name("tinker-episodes"))
    run, folder = _shortened(run), _shortened(run.parent)
    looks = (f"explore {folder}", f"steps {run}", f"show KEY index={folder}")
    return Text(
        f"\nDone in {took_s:.0f} s. Every rollout is filed in {folder}/episodes.db; the trainer's "
        f"own output is {run}/trainer.log. Look at them:\n"
        + "\n".join(f"  {command} {look}" for look in looks)
    )


def _shortened(path: Path) -> Path:
    """The path from here, where it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
