"""Totals that are kept agree with the rows, whatever was filed in whatever order."""

from __future__ import annotations

import json
import math
import os
import random
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from support.index_records import rows_of

from tinker_episodes.index import (
    Attempt,
    BundleRecord,
    Group,
    Rollout,
    ScoreRecord,
    Split,
    Status,
    Summary,
    SummaryFile,
)
from tinker_episodes.index.filing import Filing, file_rollouts
from tinker_episodes.index.ids import Ids
from tinker_episodes.index.reading import IndexReader, StepRow
from tinker_episodes.index.schema import open_index
from tinker_episodes.index.taking_over import take_over

SEEDS = range(int(os.environ.get("TINKER_EPISODES_HISTORIES", "8")))
"""`TINKER_EPISODES_HISTORIES=1000 pytest tst/unit/test_index_totals.py` looks longer."""
BUNDLE = BundleRecord("b", "1", "h")
REWARDS = [0.0, 1.0, 1.0, 0.5, -2.0, 1e-9, 12.75, None]
CUTS = ["length", "turns"]
COUNTS = ("turns", "messages", "tool_calls", "tool_errors", "format_errors", "sampled_tokens")


class History:
    """Random filings to one index, of two runs that are resumed now and then."""

    def __init__(self, url: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.engine = open_index(url, create=True)
        self.ids = Ids()
        self.attempts = [Attempt(f"/runs/{run}", f"{run}-1", 0) for run in "ab"]
        self.groups: list[Group] = []
        self.filed: list[Rollout] = []
        self.made = 0

    def go_on(self) -> None:
        """One transaction of some kind."""
        kinds = [self._file, self._file, self._file, self._take_over, self._resume, self._fail]
        self.chance.choice(kinds)()

    def _file(self) -> None:
        filings: list[Filing] = []
        for _ in range(self.chance.randrange(1, 5)):
            if self.groups and self.chance.random() < 0.4:
                group = self.chance.choice(self.groups)
            else:
                group = self._group()
            rollouts = [self._rollout() for _ in range(self.chance.randrange(4))]
            if self.filed and self.chance.random() < 0.3:
                rollouts.append(
                    self.chance.choice(self.filed)
                )  # is there already, perhaps elsewhere
            filings.append(Filing.of(group, rollouts))
        with self.engine.begin() as connection:
            file_rollouts(connection, self.ids, filings)

    def _fail(self) -> None:
        """A transaction that is rolled back."""
        with pytest.raises(ZeroDivisionError), self.engine.begin() as connection:
            file_rollouts(connection, self.ids, [Filing.of(self._group(), [self._rollout()])])
            raise ZeroDivisionError
        self.ids.forget()
        self.groups.pop(), self.filed.pop()

    def _group(self) -> Group:
        self.made += 1
        group = Group(
            self.chance.choice(self.attempts[-3:]),
            f"g{self.made}",
            self.chance.choice(list(Split)),
            self.chance.randrange(6),
            BUNDLE,
            f"t{self.chance.randrange(3)}",
            (),
        )
        self.groups.append(group)
        return group

    def _rollout(self) -> Rollout:
        self.made += 1
        reward = self.chance.choice(REWARDS)
        cut = self.chance.choice([*CUTS, None, None]) if reward is not None else None
        status = self.chance.choice([Status.FAILED, Status.ABANDONED])
        if reward is not None:
            status = Status.FINISHED if cut is None else Status.CUT
        rollout = Rollout(
            f"r{self.made}",
            self.chance.randrange(8),
            status,
            reward,
            cut,
            scores=tuple(
                ScoreRecord(name, self.chance.uniform(-1, 1), "", {})
                for name in ("found", "quick")
                if reward is not None and self.chance.random() < 0.8
            ),
            **{name: self.chance.randrange(5) for name in COUNTS},
        )
        self.filed.append(rollout)
        return rollout

    def _take_over(self) -> None:
        """The trainer says the step of some rollouts, again and otherwise than before, perhaps."""
        if not self.filed:
            return
        run = self.chance.choice(["/runs/a", "/runs/b"])
        step = self.chance.randrange(6)
        own = {group.key for group in self.groups if group.attempt.log_path == run}
        chosen = [r.key for r in self.filed if self._group_of(r.key) in own]
        some = self.chance.sample(chosen, k=min(len(chosen), 5))
        summaries = [
            Summary(key, step, step, self.chance.choice([0.0, 0.5, math.nan]), True)
            for key in [*some, "unknown"]
        ]
        name = f"iteration_{step}/{self.chance.choice(['train', 'eval_x'])}_rollout_summaries.jsonl"
        with self.engine.begin() as connection:
            take_over(connection, self.ids, run, SummaryFile(name, 1, tuple(summaries)))

    def _group_of(self, key: str) -> str | None:
        with self.engine.connect() as connection:
            query = "select g.key from rollouts r join groups g on g.id = group_id where r.key = ?"
            return connection.exec_driver_sql(query, (key,)).scalar()

    def _resume(self) -> None:
        run = self.chance.choice("ab")
        number = 1 + sum(attempt.log_path == f"/runs/{run}" for attempt in self.attempts)
        start = self.chance.randrange(6)
        self.attempts.append(Attempt(f"/runs/{run}", f"{run}-{number}", start))


@pytest.mark.parametrize("seed", SEEDS)
def test_totals_are_what_the_rows_come_to_after_any_history(url: str, seed: int) -> None:
    history = History(url, seed)
    for _ in range(40):
        history.go_on()
    history.engine.dispose()
    reader = IndexReader(url)
    for run in reader.runs():
        assert run.rollouts == len([r for r in _rows(url) if r["run"] == run.name])
        shown = {(row.split.value, row.step): row for row in reader.steps(run.name)}
        expected = _steps(_rows(url), run.name)
        assert shown.keys() == expected.keys()
        for place, row in shown.items():
            plain, wanted = _plain(row), expected[place]
            assert plain.keys() == wanted.keys()
            for name, value in wanted.items():
                assert plain[name] == (
                    value if value is None else pytest.approx(value, abs=1e-9)
                ), (place, name)
            page = reader.groups(run.name, row.split, row.step, limit=1000)
            assert len(page.groups) == row.groups
            assert sum(group.size for group in page.groups) == row.rollouts
    reader.close()


def _plain(row: StepRow) -> dict[str, Any]:
    names = [name for name in StepRow.__dataclass_fields__ if name not in _NOT_COMPARED]
    shown = {name: getattr(row, name) for name in names}
    flat = {f"score {name}": value for name, value in row.scores.items()}
    return shown | flat | {f"cut {name}": count for name, count in row.cuts.items()}


_NOT_COMPARED = {"split", "step", "scores", "cuts", "observation_tokens"}
_ROLLOUTS = """
    select runs.name run, split, step, groups.key "group", attempts.id attempt, attempts.number,
        attempts.run_id, rollouts.*
    from rollouts join groups on groups.id = group_id
    join run_groups on run_groups.id = run_group_id
    join attempts on attempts.id = attempt_id join runs on runs.id = run_groups.run_id
"""


def _rows(url: str) -> list[dict[str, Any]]:
    """Every rollout with where it stands, past our own reading."""
    names = [row[0] for row in rows_of(url, "select name from pragma_table_info('rollouts')")]
    first = ["run", "split", "step", "group", "attempt", "number", "run_id"]
    rows = [dict(zip([*first, *names], row, strict=True)) for row in rows_of(url, _ROLLOUTS)]
    scores = rows_of(url, "select rollout_id, name, value from scores")
    for row in rows:
        row["scores"] = {name: value for at, name, value in scores if at == row["id"]}
    starts = rows_of(url, "select run_id, number, start_step from attempts")
    return [row | {"old": _superseded(row, starts)} for row in rows]


def _superseded(row: dict[str, Any], starts: list[tuple[int, int, int]]) -> bool:
    return any(
        run == row["run_id"] and number > row["number"] and start <= row["step"]
        for run, number, start in starts
    )


def _steps(rows: list[dict[str, Any]], run: str) -> dict[tuple[str, int], dict[str, Any]]:
    standing = [row for row in rows if row["run"] == run and not row["old"]]
    places = {(row["split"], row["step"]) for row in standing}
    return {
        place: _expected([row for row in standing if (row["split"], row["step"]) == place])
        for place in places
    }


def _expected(rows: list[dict[str, Any]]) -> dict[str, Any]:
    rewards = [row["reward"] for row in rows if row["reward"] is not None]
    trained = [row["trained_reward"] for row in rows if row["trained_reward"] is not None]
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(row["group"], [])
        if row["reward"] is not None:
            groups[row["group"]].append(row["reward"])
    some = [group for group in groups.values() if group]
    several = [group for group in some if len(group) > 1]
    found: dict[str, Any] = {
        "groups": len(groups),
        "rollouts": len(rows),
        "scored": len(rewards),
        "reward": _mean(rewards),
        "success": _mean([float(reward >= 1) for reward in rewards]),
        "cut": sum(row["cut"] is not None for row in rows),
        "failed": sum(row["status"] == "failed" for row in rows),
        "abandoned": sum(row["status"] == "abandoned" for row in rows),
        "trained": sum(row["trained"] for row in rows),
        "trained_reward": _mean(trained),
        "constant": _mean([float(len(set(group)) == 1) for group in several]),
        "spread_between": _deviation([statistics.fmean(group) for group in some]),
        "spread_inside": _inside(some),
    }
    found |= {name: _mean([row[name] for row in rows]) for name in COUNTS}
    for name in ("found", "quick"):
        values = [row["scores"][name] for row in rows if name in row["scores"]]
        if values:
            found[f"score {name}"] = _mean(values)
    for cut in CUTS:
        if count := sum(row["cut"] == cut for row in rows):
            found[f"cut {cut}"] = count
    return found


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _deviation(values: list[float]) -> float | None:
    return statistics.pstdev(values) if values else None


def _inside(groups: list[list[float]]) -> float | None:
    variances = [statistics.pvariance(group) for group in groups]
    return math.sqrt(statistics.fmean(variances)) if variances else None


def test_totals_of_huge_rewards_can_be_taken_off_again(
    url: str, reader: Callable[[], IndexReader]
) -> None:
    engine, ids = open_index(url, create=True), Ids()
    attempt = Attempt("/runs/a", "t", 0)
    with engine.begin() as connection:
        for key, reward in (("huge", 1e300), ("plain", 0.5)):
            group = Group(attempt, key, Split.TRAIN, 0, BUNDLE, "t", ())
            rollout = Rollout(key, 0, Status.FINISHED, reward)
            file_rollouts(connection, ids, [Filing.of(group, [rollout])])
        moved = Summary("huge", 3, 3, 0.0, trained=True)
        take_over(connection, ids, attempt.log_path, SummaryFile("train_x.jsonl", 1, (moved,)))
    engine.dispose()
    first, second = reader().steps("a")
    assert (first.step, first.rollouts, second.step, second.reward) == (0, 1, 3, 1e300)
    assert first.spread_between is not None and math.isfinite(first.spread_between)
    assert json.dumps([first.reward, second.spread_inside], allow_nan=False)
