"""What an index already holds of a log path, before a run begins there."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import exists, func, select

from tinker_episodes.index.schema import (
    attempts,
    bundles,
    groups,
    index_exists,
    open_index,
    rollouts,
    runs,
)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The rollouts of a log path's earlier attempts."""

    rollouts: int
    bundles: tuple[str, ...]
    """The names of the bundles that they played."""

    def __str__(self) -> str:
        count = "1 rollout" if self.rollouts == 1 else f"{self.rollouts} rollouts"
        return f"{count} of {', '.join(self.bundles)}"


def earlier_rollouts(url: str, log_path: str) -> Earlier | None:
    """What the index at `url` holds of a log path; None where that is nothing.

    Raises:
        RunIndexError: the index can't be read.
    """
    if not index_exists(url):
        return None
    played = groups.join(attempts, groups.c.attempt_id == attempts.c.id).join(
        runs, attempts.c.run_id == runs.c.id
    )
    here = runs.c.path == log_path
    names = (
        select(bundles.c.name)
        .distinct()
        .where(
            exists().select_from(played).where(here, groups.c.bundle_id == bundles.c.id),
        )
        .order_by(bundles.c.name)
    )
    count = (
        select(func.count(rollouts.c.id))
        .select_from(played.join(rollouts, rollouts.c.group_id == groups.c.id))
        .where(here)
    )
    engine = open_index(url, create=False)
    try:
        with engine.connect() as connection:
            found = connection.execute(count).scalar_one()
            played_bundles = tuple(connection.execute(names).scalars())
    finally:
        engine.dispose()
    return Earlier(found, played_bundles) if found else None
