"""Reading a bundle's folder: every fault is collected before one error reports them all."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tinker_episodes.bundle.bundle import (
    ALL,
    NAMED_ALL,
    Bundle,
    Eval,
    environment_problems,
    params_faults,
)
from tinker_episodes.bundle.format import BundleFormat, EvalFormat, TaskFormat, faults
from tinker_episodes.bundle.loading import load_environment
from tinker_episodes.environment import Environment, params_of
from tinker_episodes.errors import BundleError, Problem
from tinker_episodes.task import Task
from tinker_episodes.universe import UniverseData

Model = TypeVar("Model", bound=BaseModel)
_UNREAD: Any = object()
"""What a text that can't be parsed gives: `null` is a value."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A task and where it stands."""

    task: Task
    file: str
    place: str


@dataclass(slots=True)
class _Reader:
    folder: Path
    problems: list[Problem] = field(default_factory=list[Problem])

    def report(self, file: Path | str, place: str, message: str) -> None:
        name = file if isinstance(file, str) else file.relative_to(self.folder).as_posix()
        self.problems.append(Problem(name, place, message))


def read_bundle(folder: Path) -> Bundle:
    """The bundle of a folder. It runs the bundle's `environment.py`.

    Raises:
        BundleError: with every fault that was found, each with its file and place.
    """
    folder = folder.resolve()
    reader = _Reader(folder)
    form = _read_form(reader)
    placed = _read_tasks(reader) if folder.is_dir() else []
    universe = _read_universe(reader)
    if form is None:
        raise BundleError(str(folder), reader.problems)
    environment = load_environment(folder, form.environment, reader.report)
    tasks = _distinct(reader, placed, environment)
    evals = {name: _read_eval(reader, name, e, placed) for name, e in form.evals.items()}
    if environment is None or universe is None or reader.problems:
        raise BundleError(
            str(folder), [*reader.problems, *_late_problems(form, tasks, environment)]
        )
    return _made(form, folder, environment, tasks, evals, universe)


def _made(
    form: BundleFormat,
    folder: Path,
    environment: type[Environment],
    tasks: list[Task],
    evals: dict[str, Eval],
    universe: UniverseData,
) -> Bundle:
    return Bundle(
        name=form.name,
        version=form.version,
        description=form.description,
        environment=environment,
        tasks=tasks,
        evals=evals,
        universe=universe,
        reward=form.reward,
        content_hash=_hash_of(folder),
        source=str(folder),
    )


def _late_problems(
    form: BundleFormat, tasks: list[Task], environment: type[Environment] | None
) -> tuple[Problem, ...]:
    """What only the whole bundle shows, reported beside the faults that were found in its files."""
    if environment is None:
        return ()
    if not tasks:
        return tuple(environment_problems(environment))
    try:
        Bundle(name=form.name, environment=environment, tasks=tasks, reward=form.reward)
    except BundleError as error:
        return error.problems
    return ()


# ---------------------------------------------------------------- files


def _text(reader: _Reader, file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        reader.report(file, "", f"it is not UTF-8: {error.reason} at byte {error.start}")
    except OSError as error:
        reader.report(file, "", f"it can't be read: {error.strerror}")
    return None


def _parsed(reader: _Reader, file: Path, parse: Callable[[str], Any], place: str, text: str) -> Any:
    try:
        return parse(text)
    except json.JSONDecodeError as error:
        where = place or f"line {error.lineno}"
        reader.report(file, where, f"it is not JSON: {error.msg} at column {error.colno}")
    except tomllib.TOMLDecodeError as error:
        reader.report(file, place, f"it is not TOML: {error}")
    except (ValueError, RecursionError) as error:
        reader.report(file, place, f"it can't be read: {error}")
    return _UNREAD


def _modelled(
    reader: _Reader, file: Path, place: str, model: type[Model], value: Any
) -> Model | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for key, message in faults(error):
            reader.report(file, ", ".join(part for part in (place, key) if part), message)
        return None


def _read_form(reader: _Reader) -> BundleFormat | None:
    file = reader.folder / "bundle.toml"
    if not reader.folder.is_dir():
        reader.report(".", "", "there is no such folder")
        return None
    if not file.is_file():
        reader.report("bundle.toml", "", "it is not there; a bundle is a folder with a bundle.toml")
        return None
    text = _text(reader, file)
    value = _UNREAD if text is None else _parsed(reader, file, tomllib.loads, "", text)
    return None if value is _UNREAD else _modelled(reader, file, "", BundleFormat, value)


def _read_universe(reader: _Reader) -> UniverseData | None:
    tables: dict[str, Any] = {}
    for file in sorted((reader.folder / "universe").glob("*.json")):
        text = _text(reader, file)
        value = _UNREAD if text is None else _parsed(reader, file, json.loads, "", text)
        if isinstance(value, dict | list):
            tables[file.stem] = value
        elif value is not _UNREAD:
            reader.report(file, "", "an object or an array would be right")
    return None if reader.problems else UniverseData(tables)


# ---------------------------------------------------------------- tasks


def _read_tasks(reader: _Reader) -> list[_Placed]:
    folder = reader.folder / "tasks"
    files = sorted(f for f in folder.glob("*") if f.suffix in (".jsonl", ".json", ".toml"))
    if not files:
        reader.report(
            "tasks", "", "there is no task file; *.jsonl, *.json or *.toml would be right"
        )
    return [placed for file in files for placed in _read_task_file(reader, file)]


def _read_task_file(reader: _Reader, file: Path) -> Iterator[_Placed]:
    text = _text(reader, file)
    if text is None:
        return
    name = file.relative_to(reader.folder).as_posix()
    for place, value in _task_values(reader, file, text):
        form = None if value is _UNREAD else _modelled(reader, file, place, TaskFormat, value)
        if form is not None:
            yield _Placed(form.to_task(), name, place)


def _task_values(reader: _Reader, file: Path, text: str) -> Iterator[tuple[str, Any]]:
    if file.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                place = f"line {number}"
                yield place, _parsed(reader, file, json.loads, place, line)
    else:
        parse = tomllib.loads if file.suffix == ".toml" else json.loads
        yield "", _parsed(reader, file, parse, "", text)


def _distinct(
    reader: _Reader, placed: list[_Placed], environment: type[Environment] | None
) -> list[Task]:
    """The tasks whose params fit the environment's model, each id once."""
    first: dict[str, _Placed] = {}
    for item in placed:
        before = first.setdefault(item.task.id, item)
        if before is not item:
            where = " ".join(part for part in (before.file, before.place) if part)
            reader.report(
                item.file, item.place, f"the id {item.task.id!r} stands in {where} already"
            )
    if environment is None or environment.Params is None:
        return [item.task for item in first.values()]
    model = environment.Params
    return [item.task for item in first.values() if _params_fit(reader, item, model)]


def _params_fit(reader: _Reader, item: _Placed, model: type[BaseModel]) -> bool:
    try:
        params_of(model, item.task.params)
    except ValidationError as error:
        for fault in params_faults(error):
            reader.report(item.file, item.place, fault)
        return False
    except Exception as error:  # noqa: BLE001 - runs the author's validators
        reader.report(item.file, item.place, f"params: checking them raised {error!r}")
        return False
    return True


def _read_eval(reader: _Reader, name: str, form: EvalFormat, placed: list[_Placed]) -> Eval:
    where = f"evals.{name}"
    if form.file is not None:
        chosen = _of_file(reader, where, form.file, placed)
    elif form.tags is not None:
        chosen = [p.task for p in placed if set(form.tags) <= set(p.task.tags)]
    else:
        chosen = _of_ids(reader, where, form.tasks or (), placed)
    left = [task.id for task in chosen if not set(form.without_tags) & set(task.tags)]
    if name == ALL:
        reader.report("bundle.toml", where, NAMED_ALL)
    if not left and not reader.problems:
        reader.report("bundle.toml", where, "it holds no task")
    return Eval(tuple(left), held_out=form.held_out)


def _of_file(reader: _Reader, where: str, file: str, placed: list[_Placed]) -> list[Task]:
    try:
        target = (reader.folder / file).resolve()
    except (ValueError, OSError, RuntimeError) as error:
        reader.report("bundle.toml", where, f"the file {file!r} can't be found: {error}")
        return []
    if not target.is_relative_to(reader.folder):
        reader.report("bundle.toml", where, f"the file {file!r} is outside of the bundle")
        return []
    name = target.relative_to(reader.folder).as_posix()
    if not target.is_file() or target.parent != reader.folder / "tasks":
        reader.report("bundle.toml", where, f"there is no task file {file!r}; give `tasks/<name>`")
        return []
    return [p.task for p in placed if p.file == name]


def _of_ids(reader: _Reader, where: str, ids: tuple[str, ...], placed: list[_Placed]) -> list[Task]:
    by_id = {p.task.id: p.task for p in placed}
    for id in ids:
        if id not in by_id:
            reader.report("bundle.toml", f"{where}.tasks", f"there is no task {id!r}")
    return [by_id[id] for id in ids if id in by_id]


def _hash_of(folder: Path) -> str:
    """The sha256 of the bundle's files: names and bytes, without caches and hidden files."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if file.is_file() and not any(p.startswith(".") or p == "__pycache__" for p in parts):
            digest.update(f"{'/'.join(parts)}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()
