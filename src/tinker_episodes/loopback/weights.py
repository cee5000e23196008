"""Saved weights: files that this server names, found by the paths that clients know them by.

A client's path is a key of the index, never a part of a file's name. Weights are written to a file
of their own and then renamed, so that a killed server leaves whole ones alone. They are read with
`weights_only`: a file can't run code.
"""

import json
import pickle
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from tinker_episodes.loopback.errors import ApiError, LoopbackError, not_found
from tinker_episodes.loopback.trainer import State

Kind = Literal["training", "sampler"]

_SEGMENTS: dict[Kind, str] = {"training": "weights", "sampler": "sampler_weights"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,199}")
_SHORTEST_TTL_S = 3_600
_LONGEST_TTL_S = 10 * 366 * 86_400


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is recorded of a training run."""

    id: str
    base_model: str
    lora_rank: int
    user_metadata: dict[str, Any] | None
    lora: dict[str, bool]
    """Which parts a LoRA was asked for; recorded, and of no effect."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Saved weights."""

    run: RunInfo
    kind: Kind
    name: str
    file: str
    created_at: float
    expires_at: float | None
    size_bytes: int
    has_optimizer: bool
    public: bool = False
    user_metadata: dict[str, str] | None = None

    @property
    def id(self) -> str:
        return f"{_SEGMENTS[self.kind]}/{self.name}"

    @property
    def path(self) -> str:
        return checkpoint_path(self.run.id, self.id)


def checkpoint_path(run_id: str, checkpoint_id: str) -> str:
    """The path by which a client knows saved weights."""
    return f"tinker://{run_id}/{checkpoint_id}"


class WeightStore:
    """The saved weights in one folder. Used from the event loop and the worker's thread."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self._folder = folder
        self._now = now
        self._index: dict[str, Checkpoint] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".writable").write_bytes(b"")
            (folder / ".writable").unlink()
        except OSError as error:
            raise LoopbackError(f"{folder} can't hold weights: {error.strerror}") from error
        for file in sorted(folder.glob("*.json")):
            checkpoint = _read_record(file)
            if checkpoint is not None:
                self._index[checkpoint.path] = checkpoint

    def save(
        self,
        run: RunInfo,
        kind: Kind,
        state: State,
        *,
        name: str,
        ttl_s: int | None = None,
        overwrite: bool = True,
        user_metadata: dict[str, str] | None = None,
    ) -> Checkpoint:
        """Save weights under a name."""
        check_name(name)
        path = checkpoint_path(run.id, f"{_SEGMENTS[kind]}/{name}")
        old = self._index.get(path)
        if old is not None and not overwrite:
            raise ApiError(f"{path} exists; save it with overwrite, or under another name")
        expires_at = self._expiry(ttl_s)
        file = f"{uuid.uuid4().hex}.pt"
        size = _write(state, self._folder / file)
        checkpoint = Checkpoint(
            run, kind, name, file, self._now(), expires_at, size, "optimizer" in state
        )
        try:
            self._record(replace(checkpoint, user_metadata=user_metadata))
        except OSError as error:
            self._remove(checkpoint)
            raise _unsaved(error) from error
        if old is not None:
            self._remove(old)
        return self._index[path]

    def find(self, path: str) -> Checkpoint:
        """The weights that a client's path names."""
        checkpoint = self._index.get(path)
        if checkpoint is None or self._expired(checkpoint):
            raise not_found(f"weights {path!r}")
        return checkpoint

    def load(self, checkpoint: Checkpoint) -> State:
        """The saved state."""
        try:
            return torch.load(self._folder / checkpoint.file, weights_only=True)
        except FileNotFoundError as error:
            raise not_found(f"weights {checkpoint.path!r}") from error
        except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
            raise ApiError(f"the file of {checkpoint.path!r} is damaged", status=500) from error

    def all(self, run_id: str | None = None) -> list[Checkpoint]:
        """The named weights of one run, or of all, the newest first."""
        found = [
            checkpoint
            for checkpoint in list(self._index.values())
            if run_id in (None, checkpoint.run.id) and not self._expired(checkpoint)
        ]
        return sorted(found, key=lambda checkpoint: checkpoint.created_at, reverse=True)

    def delete(self, path: str) -> None:
        """Delete saved weights."""
        checkpoint = self.find(path)
        del self._index[path]
        self._remove(checkpoint)

    def set_ttl(self, path: str, ttl_s: int | None) -> None:
        """Let weights expire in so many seconds from now, or never."""
        self._record(replace(self.find(path), expires_at=self._expiry(ttl_s)))

    def set_public(self, path: str, public: bool) -> None:
        """Record whether weights are published; it changes nothing else here."""
        self._record(replace(self.find(path), public=public))

    def sweep(self) -> None:
        """Delete what has expired."""
        for path, checkpoint in list(self._index.items()):
            if self._expired(checkpoint):
                del self._index[path]
                self._remove(checkpoint)

    def _expired(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.expires_at is not None and checkpoint.expires_at <= self._now()

    def _expiry(self, ttl_s: int | None) -> float | None:
        if ttl_s is None:
            return None
        if not _SHORTEST_TTL_S <= ttl_s <= _LONGEST_TTL_S:
            raise ApiError(f"a TTL of {ttl_s} s is not from {_SHORTEST_TTL_S} s to 10 years")
        return self._now() + ttl_s

    def _record(self, checkpoint: Checkpoint) -> None:
        record = (self._folder / checkpoint.file).with_suffix(".json")
        partial = record.with_suffix(".partial")
        try:
            partial.write_text(json.dumps(asdict(checkpoint)), encoding="utf-8")
            partial.replace(record)
        finally:
            partial.unlink(missing_ok=True)
        self._index[checkpoint.path] = checkpoint

    def _remove(self, checkpoint: Checkpoint) -> None:
        file = self._folder / checkpoint.file
        file.with_suffix(".json").unlink(missing_ok=True)
        file.unlink(missing_ok=True)


class Snapshots:
    """Unnamed weights that samplers use: in a folder of their own, gone with their session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, state: State) -> str:
        """Keep a state; its key."""
        key = uuid.uuid4().hex
        _write(state, self._folder / key)
        return key

    def read(self, key: str) -> State:
        """A kept state."""
        try:
            return torch.load(self._folder / key, weights_only=True)
        except FileNotFoundError as error:
            raise ApiError(
                "this sampler's weights are gone: its session is over, or it has saved many since",
                status=410,
            ) from error

    def drop(self, key: str) -> None:
        """Forget a state."""
        (self._folder / key).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all states."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _write(state: State, file: Path) -> int:
    """Save a state in a file that is there whole or not at all; its size in bytes."""
    partial = file.with_suffix(".partial")
    try:
        torch.save(state, partial)
        size = partial.stat().st_size
        partial.replace(file)
    except (OSError, RuntimeError) as error:  # torch's own writer raises the latter
        partial.unlink(missing_ok=True)
        raise _unsaved(error) from error
    return size


def _unsaved(error: Exception) -> ApiError:
    return ApiError(f"the weights can't be saved: {error}", status=507)


def check_name(name: str) -> None:
    """Refuse a name that can't be a part of a client's path."""
    if not _NAME.fullmatch(name):
        raise ApiError(
            f"{name[:80]!r} can't name weights: use up to 200 letters, digits and ._+=@-, "
            "with a letter or digit first"
        )


def _read_record(file: Path) -> Checkpoint | None:
    """A checkpoint's record; None where the file is not one of ours."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        run = RunInfo(**fields.pop("run"))
        checkpoint = Checkpoint(run=run, **fields)
        own = checkpoint.file == file.with_suffix(".pt").name and checkpoint.kind in _SEGMENTS
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return checkpoint if own and file.with_suffix(".pt").exists() else None
