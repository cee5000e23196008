"""What an index already holds of a log path, before a run begins there."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from tinker_episodes.index.schema import index_exists, open_index
from tinker_episodes.index.tables import bundles, run_bundles, runs


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
    count = select(runs.c.rollouts).where(runs.c.path == log_path)
    names = (
        select(bundles.c.name)
        .distinct()
        .join(run_bundles, run_bundles.c.bundle_id == bundles.c.id)
        .join(runs, run_bundles.c.run_id == runs.c.id)
        .where(runs.c.path == log_path)
        .order_by(bundles.c.name)
    )
    engine = open_index(url, create=False)
    try:
        with engine.connect() as connection:
            found = connection.execute(count).scalar()
            played_bundles = tuple(connection.execute(names).scalars())
    finally:
        engine.dispose()
    return Earlier(found, played_bundles) if found else None
