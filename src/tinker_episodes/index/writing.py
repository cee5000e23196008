"""Filing rollouts: one thread a process and database, which commits what has gathered at once.

writer = index_writer(url)
await writer.file(group, rollouts)    # returns when it is committed
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tinker_episodes.errors import RunIndexError
from tinker_episodes.index.filing import Filing, file_rollouts
from tinker_episodes.index.ids import Ids
from tinker_episodes.index.records import Group, Rollout, SummaryFile
from tinker_episodes.index.schema import open_index, reason_of
from tinker_episodes.index.taking_over import take_over, taken_over

logger = logging.getLogger(__name__)

_BATCH = 64
"""The most groups that one transaction takes."""

SummarySource = Callable[[Mapping[str, int]], Iterable[SummaryFile]]


@dataclass(slots=True)
class _Job:
    group: Group
    rollouts: tuple[Rollout, ...]
    done: concurrent.futures.Future[None]


class IndexWriter:
    """The one writer of a process to one index. A fault stays: `raise_fault` raises it again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._fault: RunIndexError | None = None
        self._followed: dict[str, SummarySource] = {}
        self._known: dict[str, dict[str, int]] = {}

    async def file(self, group: Group, rollouts: Sequence[Rollout]) -> None:
        """File rollouts of a group, and return when they are committed.

        Raises:
            RunIndexError: they could not be written; nothing of them is in the index.
        """
        await asyncio.wrap_future(self._submit(group, tuple(rollouts)))

    def follow(self, log_path: str, source: SummarySource) -> None:
        """Take over what the trainer writes about a run's rollouts, after each commit and at the
        end.

        Args:
            source: Gives the summary files that are new, told which are known (name → size). It is
                called in the writer's thread.
        """
        with self._lock:
            self._followed.setdefault(log_path, source)

    def raise_fault(self) -> None:
        """Raise the first fault again, where a caller's strategy swallowed it.

        Raises:
            RunIndexError: a write failed before.
        """
        if self._fault is not None:
            raise self._fault

    def close(self) -> None:
        """Write what is waiting, take over what the trainer wrote, and end the thread.

        It starts again when needed.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._jobs.put(None)
        if thread is not None:
            thread.join()

    def _submit(
        self, group: Group, rollouts: tuple[Rollout, ...]
    ) -> concurrent.futures.Future[None]:
        job = _Job(group, rollouts, concurrent.futures.Future())
        job.done.set_running_or_notify_cancel()  # from now on: who stops waiting cancels nothing
        with self._lock:
            if self._thread is None:
                self._jobs = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work, args=(self._jobs,), name="tinker-episodes-index", daemon=True
                )
                self._thread.start()
            self._jobs.put(job)
        return job.done

    def _work(self, waiting: queue.SimpleQueue[_Job | None]) -> None:
        engine: Engine | None = None
        ids = Ids()
        ending = False
        while not ending:
            jobs, ending = _gather(waiting)
            try:
                engine = engine or open_index(self.url, create=True)
                self._commit(engine, ids, jobs)
                self._take_over(engine, ids)
            except RunIndexError as error:
                self._fail(jobs, error)
        if engine is not None:
            engine.dispose()

    def _commit(self, engine: Engine, ids: Ids, jobs: list[_Job]) -> None:
        try:
            filings = [Filing.of(job.group, job.rollouts) for job in jobs]
            with engine.begin() as connection:
                file_rollouts(connection, ids, filings)
        except Exception as error:  # noqa: BLE001 - carried to whoever awaits the job
            ids.forget()
            if len(jobs) == 1:
                self._fail(jobs, _as_fault(self.url, error))
                return
            for job in jobs:  # one bad record must not take the others with it
                self._commit(engine, ids, [job])
            return
        for job in jobs:
            job.done.set_result(None)

    def _take_over(self, engine: Engine, ids: Ids) -> None:
        with self._lock:
            followed = list(self._followed.items())
        for log_path, source in followed:
            try:
                self._take_over_run(engine, ids, log_path, source)
            except Exception as error:  # noqa: BLE001 - the rollouts are filed; this is tried again
                ids.forget()
                logger.warning("summaries of %s are not taken over yet: %r", log_path, error)

    def _take_over_run(
        self, engine: Engine, ids: Ids, log_path: str, source: SummarySource
    ) -> None:
        known = self._known.get(log_path)
        if known is None:
            with engine.begin() as connection:
                known = self._known[log_path] = taken_over(connection, log_path)
        for file in source(known):
            with engine.begin() as connection:
                take_over(connection, ids, log_path, file)
            known[file.name] = file.size

    def _fail(self, jobs: list[_Job], error: RunIndexError) -> None:
        if self._fault is None:
            self._fault = error
            logger.error("%s", error)
        for job in jobs:
            job.done.set_exception(error)


def _gather(waiting: queue.SimpleQueue[_Job | None]) -> tuple[list[_Job], bool]:
    """The jobs that wait, at least one, and whether the writer is to end after them."""
    jobs: list[_Job] = []
    item = waiting.get()
    while item is not None:
        jobs.append(item)
        if len(jobs) == _BATCH:
            return jobs, False
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return jobs, False
    return jobs, True


def _as_fault(url: str, error: Exception) -> RunIndexError:
    reason = reason_of(error) if isinstance(error, SQLAlchemyError) else repr(error)
    fault = RunIndexError(f"the run index {url} can't be written: {reason}")
    fault.__cause__ = error
    return fault


_writers: dict[str, IndexWriter] = {}
_writers_lock = threading.Lock()


def index_writer(url: str) -> IndexWriter:
    """This process's writer to the index at `url`."""
    with _writers_lock:
        if url not in _writers:
            _writers[url] = IndexWriter(url)
        return _writers[url]


@atexit.register
def _close_all() -> None:
    for writer in list(_writers.values()):
        writer.close()
