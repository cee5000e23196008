"""A run as JSON lines, one a rollout: docs/index.md has the schema.

It is read and written piece by piece, whatever the run's size, and the file is there only once it
is whole.
"""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast

from tinker_episodes.errors import ConfigError
from tinker_episodes.index.packing import as_json
from tinker_episodes.index.reading import ExportedRollout, IndexReader

SCHEMA = 1
"""The version of the lines, which stands in each of them."""


def export_run(reader: IndexReader, run: str, to: str | Path, *, superseded: bool = False) -> int:
    """Write the rollouts of a run by name, in the order of steps; how many there are.

    Args:
        superseded: Whether those of attempts that a later one stands in for are written too.

    Raises:
        ConfigError: the file can't be written.
    """
    file = Path(to).expanduser().absolute()
    count = 0
    with _whole(file) as lines:
        for rollout in reader.exported(run, superseded=superseded):
            lines.write(as_json(_line(reader, rollout)) + "\n")
            count += 1
    return count


@contextmanager
def _whole(file: Path) -> Generator[IO[str]]:
    """A file that takes its place when it is written to the end; else nothing is left of it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise ConfigError(f"to: {file} can't be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii") as lines:
            yield lines
            lines.flush()
            os.fsync(lines.fileno())
        Path(name).replace(file)
    except OSError as error:
        raise ConfigError(f"to: {file} can't be written: {error.strerror}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def _line(reader: IndexReader, exported: ExportedRollout) -> dict[str, Any]:
    row = asdict(exported.rollout) | {"scores": [asdict(score) for score in exported.scores]}
    hashes = dict.fromkeys(_hashes(exported.entries))
    return {
        "schema": SCHEMA,
        **asdict(exported.where),
        "rollout": row.pop("key"),
        **row,
        "entries": exported.entries,
        "changes": exported.changes,
        "tokens": exported.turns,
        "tool_sets": exported.tool_sets,
        "images": {one: _image(reader, one) for one in hashes},
    }


def _image(reader: IndexReader, hash: str) -> dict[str, Any] | None:
    image = reader.image(hash)
    if image is None:
        return None
    data = base64.b64encode(image.data).decode("ascii")
    return {"media_type": image.media_type, "data": data}


def _hashes(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The images that a transcript refers to."""
    for entry in entries:
        for part in _parts(entry.get("content")):
            if part.get("type") == "image" and isinstance(part.get("hash"), str):
                yield part["hash"]


def _parts(content: Any) -> Iterable[Mapping[str, Any]]:
    return cast(list[Mapping[str, Any]], content) if isinstance(content, list) else ()
