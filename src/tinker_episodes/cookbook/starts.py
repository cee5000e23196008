"""One start of a run, and whether it goes on with what its log path already holds.

A start is an attempt of the run. It goes on from the trainer's last checkpoint; one that plainly
does not is refused, since its rollouts and the earlier ones would read as one experiment.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinker_cookbook.checkpoint_utils import get_last_checkpoint

from tinker_episodes.cookbook.steps import size_of
from tinker_episodes.errors import ConfigError
from tinker_episodes.index import Attempt, forget_fault
from tinker_episodes.index.earlier import Earlier, earlier_rollouts

_THIS_PROCESS = uuid.uuid4().hex
_WAYS = (
    "give another `log_path` or another `index`; or, if it is to go on all the same, "
    "`reuse_log_path=True`: from its first step on, its rollouts stand in place of the earlier "
    "ones, and nothing is deleted"
)


@dataclass(frozen=True, slots=True)
class RunRef:
    """One attempt of a run, as all of its processes know it."""

    attempt: Attempt
    index: str
    """The database URL of the run index."""
    metrics_offset: int
    """Bytes of `metrics.jsonl` that earlier attempts wrote."""
    process: str = field(default_factory=lambda: _THIS_PROCESS)
    """The process that it began in: the trainer's. An executor's are others."""

    @property
    def begun_here(self) -> bool:
        """Whether this process is the trainer's."""
        return self.process == _THIS_PROCESS

    @classmethod
    def begin(
        cls, log_path: str, index: str, *, bundle: str = "", reuse_log_path: bool = False
    ) -> RunRef:
        """The attempt that starts now, at the checkpoint that the trainer resumes from, if any.

        Builders of one start, as an interleaved dataset has them, are of one attempt: until its
        first episode is played.

        Args:
            bundle: The name of a bundle that it plays.
            reuse_log_path: Whether it begins whatever the log path holds.

        Raises:
            ConfigError: the log path holds rollouts, and no checkpoint to go on from.
            RunIndexError: the index can't be read.
        """
        path = str(Path(log_path).expanduser().absolute())
        checkpoint = get_last_checkpoint(path)
        earlier = None if reuse_log_path else earlier_rollouts(index, path)
        if earlier is not None and checkpoint is None:
            raise ConfigError(
                f"log_path {path} already holds {earlier} in its run index, and no checkpoint "
                f"to go on from: {_WAYS}"
            )
        start_step = 0 if checkpoint is None else int(checkpoint.batch or 0)
        with _beginning:
            start = _start_of(path, start_step, index)
            start.bundles.add(bundle)
            start.earlier = start.earlier or earlier
            return replace(start.run, index=index)

    def check_bundles(self) -> None:
        """See that the run goes on with a bundle that it played before, once all of a start's
        builders were called.

        Raises:
            ConfigError: it holds rollouts of other bundles alone.
        """
        start = _starts.get(self.attempt.token)
        if start is None or start.earlier is None or start.bundles & {*start.earlier.bundles}:
            return
        raise ConfigError(
            f"log_path {self.attempt.log_path} already holds {start.earlier} in its run index, "
            f"and this start plays {', '.join(sorted(start.bundles))}: {_WAYS}"
        )

    def played(self) -> None:
        """An episode of this attempt is played: the next builder that is called is of another."""
        with _beginning:
            waiting = _waiting.get(self.attempt.log_path)
            if waiting is not None and waiting.run.attempt.token == self.attempt.token:
                del _waiting[self.attempt.log_path]


@dataclass(slots=True)
class _Start:
    """An attempt of this process."""

    run: RunRef
    bundles: set[str] = field(default_factory=set[str])
    """What it plays."""
    earlier: Earlier | None = None
    """What its log path held before."""


_beginning = threading.Lock()
_starts: dict[str, _Start] = {}
"""The attempts of this process, by token."""
_waiting: dict[str, _Start] = {}
"""Those that no episode was played of, by log path."""


def _start_of(path: str, start_step: int, index: str) -> _Start:
    """The start that waits at this path, or a new one where the trainer went on since."""
    offset = size_of(Path(path) / "metrics.jsonl")
    waiting = _waiting.get(path)
    if waiting is not None:
        run = waiting.run
        if (run.attempt.start_step, run.metrics_offset) == (start_step, offset):
            return waiting
    forget_fault(index)
    attempt = Attempt(path, uuid.uuid4().hex, start_step)
    start = _waiting[path] = _Start(RunRef(attempt, index, offset))
    _starts[attempt.token] = start
    return start
