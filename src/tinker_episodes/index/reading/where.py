"""Where a group or rollout stands: its run, step and attempt, and whether a later attempt stands in
its place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exists, select

from tinker_episodes.index.records import Split
from tinker_episodes.index.tables import attempts, bundles, groups, run_groups, runs

_later = attempts.alias("later")
SUPERSEDED = exists(
    select(_later.c.id).where(
        _later.c.run_id == attempts.c.run_id,
        _later.c.number > attempts.c.number,
        _later.c.start_step <= run_groups.c.step,
    )
)
"""Whether a later attempt started at or before the step: then its rollouts stand in place of these.
"""

GROUPS = (
    groups.join(run_groups, groups.c.run_group_id == run_groups.c.id)
    .join(attempts, groups.c.attempt_id == attempts.c.id)
    .join(runs, run_groups.c.run_id == runs.c.id)
    .join(bundles, groups.c.bundle_id == bundles.c.id)
)
"""The groups with all that they hang on."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a group stands."""

    run: str
    """The run's name."""
    split: Split
    step: int
    attempt: int
    """The attempt's number, from 1."""
    superseded: bool
    """Whether a later attempt's groups stand in its place."""
    group: str
    """The group's key."""
    bundle: str
    """The bundle's name."""
    version: str
    """The bundle's version."""
    task: str
    tags: tuple[str, ...]


WHERE = (
    runs.c.name.label("run"),
    run_groups.c.split,
    run_groups.c.step,
    attempts.c.number.label("attempt"),
    SUPERSEDED.label("superseded"),
    groups.c.key.label("group"),
    bundles.c.name.label("bundle"),
    bundles.c.version,
    groups.c.task,
    groups.c.tags,
)
"""The columns of `Where`, in its order."""


def where_of(row: Any) -> Where:
    """Where a row stands that begins with the columns `WHERE`."""
    run, split, step, attempt, superseded, group, bundle, version, task, tags = row[:10]
    return Where(
        run,
        Split(split),
        step,
        attempt,
        bool(superseded),
        group,
        bundle,
        version,
        task,
        tuple(json.loads(tags)),
    )
