"""Sessions: what one client has here, and when it is over."""

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tinker_episodes.loopback.errors import ApiError, not_found
from tinker_episodes.loopback.samplers import Sampler, Weights
from tinker_episodes.loopback.trainer import Trainer
from tinker_episodes.loopback.weights import RunInfo
from tinker_episodes.loopback.worker import Operation

_MAX_SAMPLERS = 1_024
_MAX_HELD = 1_024
"""Operations of one run that wait for an earlier one to arrive."""


@dataclass(slots=True)
class TrainingRun:
    """A model in training, and the order of its operations."""

    info: RunInfo
    session_id: str
    requested_at: float
    trainer: Trainer | None = None
    """Made by the run's first operation, on the worker's thread."""
    inflight: Weights | None = None
    """What the run's samplers of kind `inflight` share."""
    snapshots: deque[str] = field(default_factory=deque[str])
    next_seq: int = 1
    _held: dict[int, Operation] = field(default_factory=dict[int, Operation])

    def in_order(self, seq: int, operation: Operation) -> list[Operation]:
        """Take an operation; those that can run now, as none before them is missing."""
        if not self.next_seq <= seq < self.next_seq + _MAX_HELD:
            raise ApiError(
                f"operation {seq} of {self.info.id} is out of order: {self.next_seq} is next"
            )
        self._held[seq] = operation
        ready: list[Operation] = []
        while self.next_seq in self._held:
            ready.append(self._held.pop(self.next_seq))
            self.next_seq += 1
        return ready


@dataclass(slots=True)
class Session:
    """One client's session: its runs and samplers."""

    id: str
    heard_at: float
    user_metadata: dict[str, Any] | None
    display_name: str | None
    runs: dict[str, TrainingRun] = field(default_factory=dict[str, TrainingRun])
    samplers: dict[str, Sampler] = field(default_factory=dict[str, Sampler])
    """The one that was used last is at the end."""
    clones: int = 0

    def add_sampler(self, sampler: Sampler) -> Sampler:
        """Add a sampler, or give the one that has its id; the least used one of many goes."""
        added = self.samplers.setdefault(sampler.id, sampler)
        while len(self.samplers) > _MAX_SAMPLERS:
            del self.samplers[next(iter(self.samplers))]
        return added


class Sessions:
    """All sessions that are alive."""

    def __init__(self, now: Callable[[], float], timeout_s: float) -> None:
        self._now = now
        self._timeout_s = timeout_s
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, user_metadata: dict[str, Any] | None, display_name: str | None) -> Session:
        """Begin a session."""
        session = Session(str(uuid.uuid4()), self._now(), user_metadata, display_name)
        self._sessions[session.id] = session
        return session

    def find(self, session_id: str) -> Session:
        """A session by its id; it counts as heard from."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(
                f"session {session_id!r} is over, or was never here: one ends when it is finished "
                f"or sends nothing for {self._timeout_s:.0f} s",
                status=410,
            )
        session.heard_at = self._now()
        return session

    def run(self, run_id: str) -> TrainingRun:
        """A live training run by its id, which begins with its session's."""
        run = self.find(_session_of(run_id)).runs.get(run_id)
        if run is None:
            raise not_found(f"model {run_id!r}")
        run.requested_at = self._now()
        return run

    def sampler(self, sampler_id: str) -> Sampler:
        """A sampler by its id, which begins with its session's."""
        samplers = self.find(_session_of(sampler_id)).samplers
        sampler = samplers.pop(sampler_id, None)
        if sampler is None:
            raise not_found(f"sampling session {sampler_id!r}")
        samplers[sampler_id] = sampler
        return sampler

    def all(self) -> list[Session]:
        """The live sessions, the oldest first."""
        return list(self._sessions.values())

    def close(self, session_id: str) -> Session | None:
        """Forget a session."""
        return self._sessions.pop(session_id, None)

    def silent(self) -> list[Session]:
        """The sessions that sent nothing for too long."""
        limit = self._now() - self._timeout_s
        return [session for session in self._sessions.values() if session.heard_at < limit]


def _session_of(id_within: str) -> str:
    return id_within.partition(":")[0]
