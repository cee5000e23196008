"""Reading the run index, page by page. It never writes.

Each page is a file of its own; `IndexReader` has them all. A page is read in one transaction, so
its parts agree. Names, keys and texts come back as they were filed: what a model wrote is never
markup, a path or a format.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, select

from tinker_episodes.index.reading.changes import ChangedStep, Changes, changes_since, revision_of
from tinker_episodes.index.reading.exporting import (
    ExportedRollout,
    groups_of_run,
    rollouts_of_group,
)
from tinker_episodes.index.reading.groups import (
    GroupFilter,
    GroupRow,
    GroupSort,
    GroupsPage,
    StepAttempt,
    groups_page,
)
from tinker_episodes.index.reading.rollouts import (
    GroupPage,
    RolloutPage,
    RolloutRow,
    Tokens,
    group_page,
    image_of,
    keys_beginning,
    rollout_page,
    scores_of,
    tokens_of,
    transcript_of,
)
from tinker_episodes.index.reading.runs import Point, RunRow, runs_of
from tinker_episodes.index.reading.searching import Hit, Search, SearchPage, search_page
from tinker_episodes.index.reading.steps import StepColumns, StepRow, step_columns, steps_beside
from tinker_episodes.index.reading.tasks import TaskGroup, TaskPage, TaskRollout, task_page
from tinker_episodes.index.reading.where import SUPERSEDED, Where
from tinker_episodes.index.records import ImageRecord, ScoreRecord, Split
from tinker_episodes.index.schema import open_index
from tinker_episodes.index.tables import attempts, groups, labels, rollouts, run_groups, runs

__all__ = [
    "ChangedStep",
    "Changes",
    "ExportedRollout",
    "GroupFilter",
    "GroupPage",
    "GroupRow",
    "GroupSort",
    "GroupsPage",
    "Hit",
    "IndexReader",
    "Point",
    "RolloutPage",
    "RolloutRow",
    "RunRow",
    "Search",
    "SearchPage",
    "StepAttempt",
    "StepColumns",
    "StepRow",
    "TaskGroup",
    "TaskPage",
    "TaskRollout",
    "Tokens",
    "Where",
]


class IndexReader:
    """One index, opened to read; from any thread."""

    def __init__(self, url: str) -> None:
        """
        Raises:
            RunIndexError: there is no index, or one of another version.
        """
        self._engine: Engine = open_index(url, create=False)
        self._closed = False

    def close(self) -> None:
        """Close the database; a page that is being read is read to its end."""
        self._closed = True
        self._engine.dispose()

    def runs(self) -> list[RunRow]:
        """Every run, in the order in which they began."""
        with self._reading() as connection:
            return runs_of(connection)

    def steps(
        self,
        run: str,
        *,
        split: Split | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> list[StepRow]:
        """The run groups of a run by name, in the order of steps, evals before training."""
        with self._reading() as connection:
            return step_columns(connection, run, split=split, first=first, last=last).rows()

    def curves(self, run: str) -> StepColumns:
        """The same column by column, as curves are drawn: at size the faster way."""
        with self._reading() as connection:
            return step_columns(connection, run)

    def steps_beside(self, run: str, split: Split, step: int) -> tuple[int | None, int | None]:
        """The step before and the step after one, of the same split, that have rollouts."""
        with self._reading() as connection:
            return steps_beside(connection, run, split, step)

    def groups(
        self,
        run: str,
        split: Split,
        step: int,
        *,
        sort: GroupSort = "spread",
        descending: bool = True,
        matching: GroupFilter | None = None,
        attempt: int | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> GroupsPage:
        """A page of the groups of a step.

        Args:
            attempt: Its number; None for the attempt that stands.
            after: The `next` of the page before.

        Raises:
            RunIndexError: there is no such column to sort by, or `after` comes from another page.
        """
        with self._reading() as connection:
            return groups_page(
                connection,
                run,
                split,
                step,
                sort=sort,
                descending=descending,
                matching=matching,
                attempt=attempt,
                after=after,
                limit=limit,
            )

    def group(self, key: str) -> GroupPage | None:
        """A group with its rollouts in short; None where there is no group of that key."""
        with self._reading() as connection:
            return group_page(connection, key)

    def rollout(self, key: str) -> RolloutPage | None:
        """A rollout whole; None where there is no rollout of that key."""
        with self._reading() as connection:
            return rollout_page(connection, key)

    def tokens(self, key: str) -> Tokens | None:
        """A rollout's tokens with their logprobs and texts; None where it has none."""
        with self._reading() as connection:
            return tokens_of(connection, key)

    def image(self, hash: str) -> ImageRecord | None:
        """An image by the hash that a transcript gives; None where there is none."""
        with self._reading() as connection:
            return image_of(connection, hash)

    def task(
        self,
        bundle: str,
        task: str,
        *,
        run: str | None = None,
        split: Split | None = None,
        after: str | None = None,
        limit: int = 200,
    ) -> TaskPage:
        """A page of one task's groups, run by run and step by step, each with its rollouts.

        Args:
            bundle: The bundle's name: ids of tasks are unique in a bundle.

        Raises:
            RunIndexError: `after` comes from another page.
        """
        with self._reading() as connection:
            return task_page(
                connection, bundle, task, run=run, split=split, after=after, limit=limit
            )

    def search(self, search: Search, *, after: str | None = None, limit: int = 20) -> SearchPage:
        """A page of the rollouts that were found, the last filed first.

        Raises:
            RunIndexError: the text can't be searched for; the message says why.
        """
        with self._reading() as connection:
            return search_page(connection, search, after=after, limit=limit)

    def labels(self, kind: str) -> list[str]:
        """The names to filter by: of `tag`, `tool` or `cut`."""
        query = select(labels.c.name).where(labels.c.kind == kind).order_by(labels.c.name)
        with self._reading() as connection:
            return list(connection.execute(query.limit(1000)).scalars())

    def changes(self, cursor: int | None = None) -> Changes:
        """The steps that changed since a cursor; without one: only the cursor."""
        with self._reading() as connection:
            return changes_since(connection, cursor)

    def revision(self, run: str) -> int:
        """The cursor at which a step of a run last changed: until it grows, `steps` stay as they
        are.
        """
        with self._reading() as connection:
            return revision_of(connection, run)

    # ------------------------------------------------------------ in one go

    def rollouts(self, run: str, split: Split, step: int) -> list[dict[str, Any]]:
        """All rollouts of a run group, group by group, with the columns of their rows."""
        query = (
            select(rollouts, groups.c.task, groups.c.key.label("group"))
            .select_from(_JOINED)
            .where(
                runs.c.name == run,
                run_groups.c.split == str(split),
                run_groups.c.step == step,
                ~SUPERSEDED,
            )
            .order_by(groups.c.id, rollouts.c.place, rollouts.c.id)
        )
        with self._reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def transcript(self, rollout: str) -> dict[str, Any] | None:
        """What was said and done in a rollout by its key, with its tokens as `turns`, and their
        texts as `pieces`.
        """
        with self._reading() as connection:
            said = transcript_of(connection, rollout)
            sampled = tokens_of(connection, rollout)
        if said is None or sampled is None:
            return said
        pieces = {"pieces": dict(sampled.pieces)} if sampled.pieces else {}
        return {**said, "turns": list(sampled.turns), **pieces}

    def scores(self, rollout: str) -> tuple[ScoreRecord, ...]:
        """What each scorer found of a rollout, by its key."""
        with self._reading() as connection:
            return scores_of(connection, rollout)

    def keys(self, start: str) -> list[str]:
        """The keys of rollouts that begin so, at most 10."""
        with self._reading() as connection:
            return keys_beginning(connection, start)

    def exported(self, run: str, *, superseded: bool = False) -> Iterator[ExportedRollout]:
        """Every rollout of a run by name, in the order of steps; each group as it then stands.

        Args:
            superseded: Whether those of attempts that a later one stands in for are among them.
        """
        with self._reading() as connection:
            ids = groups_of_run(connection, run, superseded=superseded)
        for group in ids:
            with self._reading() as connection:
                yield from rollouts_of_group(connection, group)

    @contextmanager
    def _reading(self) -> Generator[Connection]:
        with self._engine.connect() as connection:
            try:
                yield connection
            finally:
                if self._closed:  # nobody would close it in the pool that it goes back to
                    connection.invalidate()


_JOINED = (
    rollouts.join(groups, rollouts.c.group_id == groups.c.id)
    .join(run_groups, groups.c.run_group_id == run_groups.c.id)
    .join(attempts, groups.c.attempt_id == attempts.c.id)
    .join(runs, run_groups.c.run_id == runs.c.id)
)
