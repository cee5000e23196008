"""The statements that take over what the trainer itself wrote about rollouts: their step, the
sampler's step, and the reward that was trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import isfinite
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from tinker_episodes.index.dialect import upserted
from tinker_episodes.index.ids import Ids, run_group_id, run_id
from tinker_episodes.index.records import Split, Summary, SummaryFile
from tinker_episodes.index.tables import groups, rollouts, runs, summaries
from tinker_episodes.index.totals import totals_kept

_AT_ONCE = 1000
"""Summaries that are taken over at once."""


def taken_over(connection: Connection, log_path: str) -> dict[str, int] | None:
    """The summary files of a run that were taken over: name → stamp; None where no rollout of it
    was filed.
    """
    run = connection.execute(select(runs.c.id).where(runs.c.path == log_path)).scalar()
    if run is None:
        return None
    query = select(summaries.c.file, summaries.c.stamp).where(summaries.c.run_id == run)
    return {file: stamp for file, stamp in connection.execute(query)}


def take_over(connection: Connection, ids: Ids, log_path: str, file: SummaryFile) -> None:
    """Take over one file of the trainer's summaries. Unknown rollouts are passed over."""
    run = run_id(connection, ids, log_path)
    split = Split.EVAL if file.name.rsplit("/", 1)[-1].startswith("eval_") else Split.TRAIN
    left = iter(file.summaries)
    while some := list(islice(left, _AT_ONCE)):
        _take_over_some(connection, ids, run, split, some)
    connection.execute(
        upserted(connection.dialect.name, summaries, put=("stamp",)),
        {"run_id": run, "file": file.name, "stamp": file.stamp},
    )


def _take_over_some(
    connection: Connection, ids: Ids, run: int, split: Split, some: Sequence[Summary]
) -> None:
    wanted = [summary.rollout for summary in some]
    query = select(rollouts.c.key, rollouts.c.group_id).where(rollouts.c.key.in_(wanted))
    group_of = {key: group for key, group in connection.execute(query)}
    known = [summary for summary in some if summary.rollout in group_of]
    if not known:
        return
    step_of = {group_of[summary.rollout]: summary.step for summary in known}
    with totals_kept(connection, step_of.keys()):
        connection.execute(_TRAINED, [_trained(summary) for summary in known])
        connection.execute(
            _REGROUPED,
            [
                {"of": group, "to": run_group_id(connection, ids, run, split, step)}
                for group, step in step_of.items()
            ],
        )


_TRAINED = (
    update(rollouts)
    .where(rollouts.c.key == bindparam("of"))
    .values(
        trained_reward=bindparam("trained_reward"),
        trained=bindparam("trained"),
        sampler_step=bindparam("sampler_step"),
    )
)
_REGROUPED = (
    update(groups)
    .where(groups.c.id == bindparam("of"), groups.c.run_group_id != bindparam("to"))
    .values(run_group_id=bindparam("to"))
)


def _trained(summary: Summary) -> dict[str, Any]:
    return {
        "of": summary.rollout,
        "trained_reward": summary.trained_reward if isfinite(summary.trained_reward) else None,
        "trained": summary.trained,
        "sampler_step": summary.sampler_step,
    }
