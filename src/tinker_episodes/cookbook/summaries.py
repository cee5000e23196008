"""What the trainer itself writes about rollouts after each step:
`iteration_*/*_rollout_summaries.jsonl`.

Each line holds an episode's id in its logs, the iteration, the sampler's step and the reward after
the trainer's clamps. Groups that the trainer dropped are absent.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tinker_episodes.cookbook.steps import row_of, size_of
from tinker_episodes.index import Summary, SummaryFile

_ITERATION = re.compile(r"iteration_(\d+)")


class Follower:
    """The new summaries of one run, looked for whenever `metrics.jsonl` has grown: once an
    iteration.

    All iterations are looked at: a run that was resumed writes earlier ones anew.
    """

    def __init__(self, log_path: str) -> None:
        self._folder = Path(log_path)
        self._seen = 0

    def __call__(self, known: Mapping[str, int]) -> Iterator[SummaryFile]:
        """The summary files whose stamp is not the known one, oldest first."""
        size = size_of(self._folder / "metrics.jsonl")
        if size == self._seen:
            return
        for folder in self._iterations():
            yield from _new_files(folder, known)
        self._seen = size  # not before: what could not be taken over is looked for again

    def _iterations(self) -> list[Path]:
        found: list[tuple[int, Path]] = []
        for folder in self._folder.glob("iteration_*"):
            match = _ITERATION.fullmatch(folder.name)
            if match is not None:
                found.append((int(match.group(1)), folder))
        return [folder for _, folder in sorted(found)]


def _new_files(folder: Path, known: Mapping[str, int]) -> Iterator[SummaryFile]:
    for file in sorted(folder.glob("*_rollout_summaries.jsonl")):
        name, stamp = f"{folder.name}/{file.name}", _stamp(file)
        if stamp != known.get(name):
            yield SummaryFile(name, stamp, tuple(_summaries_of(file)))


def _stamp(file: Path) -> int:
    """31 bits of a file's size and time: a resumed run may write one anew in the same size."""
    status = file.stat()
    return zlib.crc32(f"{status.st_size} {status.st_mtime_ns}".encode()) >> 1


def _summaries_of(file: Path) -> Iterator[Summary]:
    trained = file.name.startswith("train_")
    for line in file.read_bytes().splitlines():
        row = row_of(line)
        episode = _episode_of(row)
        if episode is not None:
            yield Summary(
                rollout=episode,
                step=int(row["iteration"]),
                sampler_step=row.get("sampling_client_step"),
                trained_reward=float(row["total_reward"]),
                trained=trained,
            )


def _episode_of(row: Mapping[str, Any]) -> str | None:
    for step in row.get("steps", ()):
        episode = step.get("logs", {}).get("episode")
        if isinstance(episode, str):
            return episode
    return None
