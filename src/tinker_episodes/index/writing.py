"""Filing rollouts: one thread a process and database, which commits what has gathered at once.

A fault is not waited out but for another writer's lock (`LOCK_TIMEOUT_S`): nothing of the
transaction is in the index, whoever awaits it is told, and the writer keeps the fault.

writer = index_writer(url)
await writer.file(group, rollouts)    # returns when it is committed
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.filing import Filing, file_rollouts
from tinker_episodes.index.ids import Ids
from tinker_episodes.index.opened import OpenedIndex
from tinker_episodes.index.records import Group, Rollout, SummaryFile
from tinker_episodes.index.schema import LOCK_TIMEOUT_S, index_exists, reason_of, shown
from tinker_episodes.index.taking_over import take_over, taken_over

logger = logging.getLogger(__name__)

_BATCH = 64
"""The most groups that one transaction takes."""

SummarySource = Callable[[Mapping[str, int]], Iterable[SummaryFile]]


@dataclass(slots=True)
class _Job:
    group: Group
    rollouts: Iterable[Rollout]
    made: Filing | Exception | None = None
    done: concurrent.futures.Future[None] = field(default_factory=concurrent.futures.Future[None])

    def filing(self) -> Filing:
        """Its rows, made once: a generator of rollouts gives nothing the second time."""
        if self.made is None:
            try:
                self.made = Filing.of(self.group, self.rollouts)
            except Exception as error:  # noqa: BLE001 - kept, and raised to whoever commits
                self.made = error
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


_Look = Literal["look"]
_Queue = queue.SimpleQueue[_Job | _Look | None]
"""None: the writer is to end."""


class IndexWriter:
    """The one writer of a process to one index. A fault stays: `raise_fault` raises it again."""

    def __init__(self, url: str, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        """
        Args:
            lock_timeout_s: Seconds that a write waits for another process's.
        """
        self.url = url
        self._lock_timeout_s = lock_timeout_s
        self._jobs: _Queue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._fault: RunIndexError | None = None
        self._broken: RunIndexError | None = None
        self._followed: dict[str, SummarySource] = {}
        self._known: dict[str, dict[str, int]] = {}

    async def file(self, group: Group, rollouts: Iterable[Rollout]) -> None:
        """File rollouts of a group, and return when they are committed.

        Args:
            rollouts: They are asked for in the writer's thread. A generator makes each when it is
                needed, so that a batch of them is never there at once.

        Raises:
            RunIndexError: they could not be written; nothing of them is in the index.
        """
        job = _Job(group, rollouts)
        job.done.set_running_or_notify_cancel()  # from now on: who stops waiting cancels nothing
        self._put(job)
        await asyncio.wrap_future(job.done)

    def follow(self, log_path: str, source: SummarySource) -> None:
        """Take over what the trainer writes about a run's rollouts: after each commit, at each
        `look`, and at the end.

        Args:
            source: Gives the summary files that are new, told which are known (name → stamp). It is
                called in the writer's thread.
        """
        with self._lock:
            self._followed.setdefault(log_path, source)

    def look(self) -> None:
        """Take over what the trainer wrote, where other processes file the rollouts."""
        self._put("look")

    def raise_fault(self) -> None:
        """Raise the first fault again, where a caller's strategy swallowed it.

        Raises:
            RunIndexError: a write failed before.
        """
        if self._fault is not None:
            raise self._fault

    @property
    def faulty(self) -> bool:
        """Whether a write failed before."""
        return self._fault is not None

    def close(self) -> None:
        """Write what is waiting, take over what the trainer wrote, and end the thread.

        It starts again when needed.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                self._jobs = queue.SimpleQueue()
            self._jobs.put(None)
        if thread is not None:
            thread.join()
        elif self._followed:
            self._work(self._jobs)  # at the interpreter's end no thread starts any more

    def _put(self, item: _Job | _Look) -> None:
        with self._lock:
            if self._thread is None:
                self._jobs = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work, args=(self._jobs,), name="tinker-episodes-index", daemon=True
                )
                self._thread.start()
            self._jobs.put(item)

    def _work(self, waiting: _Queue) -> None:
        index: OpenedIndex | None = None
        ids = Ids()
        ending = False
        while not ending:
            jobs, ending = _gather(waiting)
            if self._broken is not None:
                self._fail(jobs, self._broken)
                continue
            try:
                if index is None and not jobs and not index_exists(self.url):
                    continue  # nothing was filed yet
                index = index or OpenedIndex(self.url, lock_timeout_s=self._lock_timeout_s)
                self._commit(index, ids, jobs)
                self._take_over(index, ids)
            except Exception as error:  # noqa: BLE001 - a thread that died would tell nobody
                self._break(jobs, self._as_fault(error))
        if index is not None:
            index.close()

    def _commit(
        self, index: OpenedIndex, ids: Ids, jobs: list[_Job], *, again: bool = True
    ) -> None:
        if not jobs:
            return
        try:
            filings = [job.filing() for job in jobs]
            with index.writing() as connection:
                file_rollouts(connection, ids, filings)
        except Exception as error:  # noqa: BLE001 - carried to whoever awaits the job
            ids.forget()
            if again and isinstance(error, DBAPIError) and error.connection_invalidated:
                # The server went away. Filing twice files once, whether it had committed or not.
                self._commit(index, ids, jobs, again=False)
            elif isinstance(error, OperationalError | RunIndexError):
                self._break(jobs, self._as_fault(error))
            elif len(jobs) == 1:
                self._fail(jobs, self._as_fault(error))
            else:
                for job in jobs:  # one bad record must not take the others with it
                    self._commit(index, ids, [job])
            return
        for job in jobs:
            job.done.set_result(None)

    def _take_over(self, index: OpenedIndex, ids: Ids) -> None:
        with self._lock:
            followed = list(self._followed.items())
        for log_path, source in followed:
            try:
                self._take_over_run(index, ids, log_path, source)
            except Exception as error:  # noqa: BLE001 - the rollouts are filed; this is tried again
                ids.forget()
                logger.warning("summaries of %s are not taken over yet: %r", log_path, error)

    def _take_over_run(
        self, index: OpenedIndex, ids: Ids, log_path: str, source: SummarySource
    ) -> None:
        known = self._known.get(log_path)
        if known is None:
            with index.writing() as connection:
                known = taken_over(connection, log_path)
            if known is None:
                return
            self._known[log_path] = known
        for file in source(known):
            with index.writing() as connection:
                take_over(connection, ids, log_path, file)
            known[file.name] = file.stamp

    def _break(self, jobs: list[_Job], error: RunIndexError) -> None:
        """The database itself can't be written: whatever comes later fails at once."""
        self._broken = error
        self._fail(jobs, error)

    def _fail(self, jobs: list[_Job], error: RunIndexError) -> None:
        if self._fault is None:
            self._fault = error
            logger.error("%s", error)
        for job in jobs:
            job.done.set_exception(error)

    def _as_fault(self, error: Exception) -> RunIndexError:
        if isinstance(error, RunIndexError):
            return error
        reason = reason_of(error) if isinstance(error, SQLAlchemyError) else repr(error)
        if re.search(r"\block", reason):
            reason += f" (after {self._lock_timeout_s:g} s: another process held it)"
        fault = RunIndexError(f"the run index {shown(self.url)} can't be written: {reason}")
        fault.__cause__ = error
        return fault


def _gather(waiting: _Queue) -> tuple[list[_Job], bool]:
    """The jobs that wait, and whether the writer is to end after them. It waits for something."""
    jobs: list[_Job] = []
    item = waiting.get()
    while item is not None:
        if item != "look":
            jobs.append(item)
        if len(jobs) == _BATCH:
            return jobs, False
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return jobs, False
    return jobs, True


_writers: dict[str, IndexWriter] = {}
_writers_lock = threading.Lock()


def index_writer(url: str) -> IndexWriter:
    """This process's writer to the index at `url`."""
    with _writers_lock:
        if not _writers:  # not at import: a process that is forked from this one forgets it
            atexit.register(_close_all)
        if url not in _writers:
            _writers[url] = IndexWriter(url)
        return _writers[url]


def forget_fault(url: str) -> None:
    """Let this process write afresh to an index that it could not write: a run starts anew."""
    with _writers_lock:
        writer = _writers.get(url)
        if writer is None or not writer.faulty:
            return
        del _writers[url]
    writer.close()


def _close_all() -> None:
    for writer in list(_writers.values()):
        writer.close()
