"""A copy of the retail domain of tau2-bench, read and checked. No bundle yet.

Its files are `db.json`, `tasks.json`, `split_tasks.json` and `policy.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

SPLITS = ("train", "test")
TABLES: Mapping[str, Mapping[str, type]] = {
    "orders": {
        "order_id": str,
        "user_id": str,
        "address": dict,
        "items": list,
        "status": str,
        "fulfillments": list,
        "payment_history": list,
    },
    "users": {"user_id": str, "name": dict, "address": dict, "email": str, "payment_methods": dict},
    "products": {"name": str, "product_id": str, "variants": dict},
}
"""The tables of the database, and what each record must have at least."""

T = TypeVar("T")


class DataError(Exception):
    """What is wrong with the data, in one line."""


class Action(BaseModel):
    """One gold action of the benchmark."""

    name: str
    arguments: dict[str, Any]


class Criteria(BaseModel):
    """What the benchmark scores a task by; only its actions are read."""

    actions: list[Action]


class Instructions(BaseModel):
    """What the benchmark's simulated user is told."""

    reason_for_call: str
    known_info: str | None = None
    unknown_info: str | None = None
    task_instructions: str | None = None


class Scenario(BaseModel):
    """The benchmark's simulated user."""

    instructions: Instructions


class SourceTask(BaseModel):
    """One task of the benchmark, as far as it is read."""

    id: str
    user_scenario: Scenario
    evaluation_criteria: Criteria


@dataclass(frozen=True, slots=True)
class Source:
    """The benchmark's folder, read."""

    database: Mapping[str, Any]
    tasks: Sequence[SourceTask]
    splits: Mapping[str, Sequence[str]]
    policy: str


def read_source(folder: Path) -> Source:
    """The four files of the benchmark's retail domain.

    Raises:
        DataError: the first thing that is missing or wrong.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    source = Source(
        database=_json(folder / "db.json", dict[str, Any]),
        tasks=_json(folder / "tasks.json", list[SourceTask]),
        splits=_json(folder / "split_tasks.json", dict[str, list[str]]),
        policy=_text(folder / "policy.md"),
    )
    for problem in (*_database_problems(source), *_split_problems(source)):
        raise DataError(f"{folder}: {problem}")
    return source


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"there is no file {file}") from None
    except OSError as error:
        raise DataError(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8") from error


def _json(file: Path, form: type[T]) -> T:
    try:
        return TypeAdapter(form).validate_python(json.loads(_text(file)))
    except json.JSONDecodeError as error:
        raise DataError(f"{file} is not JSON: line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise DataError(f"{file} is nested too deeply") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise DataError(f"{file}: {place + ': ' if place else ''}{first['msg']}") from error


def _database_problems(source: Source) -> Iterator[str]:
    for table, fields in TABLES.items():
        records = source.database.get(table)
        if not isinstance(records, dict) or not records:
            yield f"db.json: {table!r} must be an object of records: is this the retail domain?"
            continue
        for key, record in cast(dict[str, Any], records).items():
            for field, kind in fields.items():
                if not isinstance(_field(record, field), kind):
                    yield f"db.json: {table}.{key}: {field!r} must be of type {kind.__name__}"


def _field(record: Any, name: str) -> Any:
    return cast(dict[str, Any], record).get(name) if isinstance(record, dict) else None


def _split_problems(source: Source) -> Iterator[str]:
    ids = [task.id for task in source.tasks]
    yield from (f"tasks.json: there are two tasks {id!r}" for id in ids if ids.count(id) > 1)
    for split in SPLITS:
        if split not in source.splits:
            yield f"split_tasks.json: there is no split {split!r}"
        for id in source.splits.get(split, ()):
            if id not in ids:
                yield f"split_tasks.json: {split}: there is no task {id!r} in tasks.json"
    for id in ids:
        held = [split for split in SPLITS if id in source.splits.get(split, ())]
        if len(held) != 1:
            where = " and ".join(held) or "no split"
            yield f"split_tasks.json: task {id!r} is in {where}; one of train and test is right"
