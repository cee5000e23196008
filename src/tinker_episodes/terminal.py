"""The run index in the terminal: tables of runs and steps, and one rollout in words."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tinker_episodes.errors import ConfigError, RunIndexError
from tinker_episodes.index.export import export_run
from tinker_episodes.index.names import run_group_name
from tinker_episodes.index.reading import IndexReader, RunRow, StepRow
from tinker_episodes.index.schema import default_url
from tinker_episodes.wording import entry_lines, visible


def print_runs(path: str) -> int:
    """Print the runs of the index at `path`.

    Raises:
        RunIndexError: there is no index.
    """
    table = _table("run", "bundle", "attempts", "last step", "rollouts", "train", "eval", "where")
    with closing(IndexReader(find_index(path))) as reader:
        for run in reader.runs():
            table.add_row(*_run_cells(run, reader.steps(run.name)))
    _print(table)
    return 0


def print_steps(path: str, index: str | None) -> int:
    """Print the steps of one run, by log path or name.

    Raises:
        RunIndexError: there is no index.
        ConfigError: the index holds no such run; the message names those that it holds.
    """
    table = _table(
        "run group", "groups", "rollouts", "reward", "success", "cut", "failed", "dropped"
    )
    with closing(_index_of(path, index)) as reader:
        run = _find_run(reader, path)
        for step in reader.steps(run.name):
            table.add_row(*_step_cells(run.name, step))
    _print(table)
    return 0


def print_rollout(key: str, index: str) -> int:
    """Print one rollout.

    Raises:
        RunIndexError: there is no index.
        ConfigError: no rollout, or more than one, has a key that begins so.
    """
    with closing(IndexReader(find_index(index))) as reader:
        keys = reader.keys(key)
        page = reader.rollout(keys[0]) if len(keys) == 1 else None
    if page is None:
        raise ConfigError(f"{len(keys)} rollouts have a key that begins with {key!r}; give one")
    where, rollout = page.where, page.rollout
    console = _console()
    console.print(Text(f"rollout {rollout.key} of task {visible(where.task)}", style="bold"))
    run_group = run_group_name(where.run, where.split, where.step)
    old = ", superseded by a later attempt" if where.superseded else ""
    console.print(Text(f"{run_group}, {rollout.status}, reward {_number(rollout.reward)}{old}"))
    if rollout.reason or rollout.cut:
        console.print(Text(visible(rollout.reason or f"cut: {rollout.cut}"), style="yellow"))
    for score in page.scores:
        text = f"score {score.name} {_number(score.value)}  {score.explanation}"
        console.print(Text(visible(text)))
    for entry in page.entries:
        for line in entry_lines(entry):
            console.print(line)
    return 0


def export(path: str, to: str, index: str | None, *, superseded: bool) -> int:
    """Write the rollouts of one run, by log path or name, into a file of JSON lines.

    Raises:
        RunIndexError: there is no index.
        ConfigError: the index holds no such run, or the file can't be written.
    """
    with closing(_index_of(path, index)) as reader:
        run = _find_run(reader, path)
        count = export_run(reader, run.name, to, superseded=superseded)
    print(f"{count} rollouts of the run {run.name} are in {visible(to)}")
    return 0


def _index_of(path: str, index: str | None) -> IndexReader:
    return IndexReader(default_url(path) if index is None else find_index(index))


def _find_run(reader: IndexReader, path: str) -> RunRow:
    runs = reader.runs()
    wanted = str(Path(path).expanduser().absolute())
    run = next((run for run in runs if wanted == run.path or path == run.name), None)
    if run is None:
        known = ", ".join(run.name for run in runs) or "none"
        raise ConfigError(f"there is no run {path!r}; the index holds: {known}")
    return run


def find_index(path: str) -> str:
    """The database URL that a path means: a URL, a database file, a folder that holds one, or a
    run's log path.

    Raises:
        RunIndexError: there is none.
    """
    if "://" in path:
        return path
    place = Path(path).expanduser().absolute()
    for file in (place, place / "episodes.db", place.parent / "episodes.db"):
        if file.is_file():
            return f"sqlite:///{file}"
    raise RunIndexError(
        f"there is no run index at {path!r}: a folder with an episodes.db, "
        "a run's log path, a database file or a URL would be right"
    )


# ---------------------------------------------------------------- cells


def _run_cells(run: RunRow, steps: list[StepRow]) -> list[str]:
    train = [step for step in steps if step.split == "train"]
    evals = [step for step in steps if step.split == "eval"]
    return [
        run.name,
        ", ".join(run.bundles),
        str(run.attempts),
        "-" if run.last_step is None else str(run.last_step),
        str(run.rollouts),
        _number(train[-1].reward if train else None),
        _number(evals[-1].reward if evals else None),
        run.path,
    ]


def _step_cells(run: str, step: StepRow) -> list[str]:
    return [
        run_group_name(run, step.split, step.step),
        str(step.groups),
        str(step.rollouts),
        _number(step.reward),
        "-" if step.success is None else f"{step.success:.0%}",
        str(step.cut),
        str(step.failed),
        str(step.abandoned),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, name in enumerate(names):
        number = at > 0 and name not in ("bundle", "where")
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _print(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:  # piped: no line is cut at a width that nobody sees
        console = Console(highlight=False, width=400)
    console.print(table)
