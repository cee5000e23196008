"""Makes an index of many rollouts fast: through the library's own filing, in large transactions,
with transcripts drawn from a pool of varied ones. On SQLite one run is filed, and the others are
copies of it.

make_index(url, rollouts=1_000_000)     # 5 runs
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from index_copies import add_copies

from tinker_episodes.index import (
    Attempt,
    BundleRecord,
    Group,
    Rollout,
    ScoreRecord,
    Split,
    Status,
    ToolSetRecord,
)
from tinker_episodes.index.filing import Filing, file_rollouts
from tinker_episodes.index.ids import Ids
from tinker_episodes.index.rows import Rows, facts_of, rows_of
from tinker_episodes.index.schema import open_index
from tinker_episodes.index.words import tools_of

RUNS = 5
GROUPS, SIZE = 16, 8
"""Groups a step, and rollouts a group."""
TASKS = 500
EVALS = 20
"""Steps between evals; an eval plays `EVAL_TASKS` tasks once."""
EVAL_TASKS = 100
POOL = 4000
TOOLS = ("find_user", "get_order", "get_product", "exchange", "refund", "cancel", "calculate")
TOOL_SET = ToolSetRecord(
    "5" * 32,
    tuple(
        {
            "name": name,
            "description": f"Call {name} for an order of the shop, once the customer agreed. " * 5,
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string", "description": "The order's number."}},
                "required": ["order"],
            },
        }
        for name in TOOLS
    ),
)
SYSTEM = (
    "You are an agent of a shop. " + "Follow the policy for orders, refunds and exchanges. " * 40
)


@dataclass(frozen=True, slots=True)
class Made:
    """What was made."""

    rollouts: int
    took_s: float
    run: str
    """The name of one of the runs."""
    steps: int
    """Training steps of each run."""


def make_index(url: str, *, rollouts: int, pool: int = POOL, seed: int = 0) -> Made:
    """Fill an empty index with runs."""
    start = time.perf_counter()
    chance = random.Random(seed)
    bundle = BundleRecord("shop", "1", "0" * 64)
    plays = [play_of(chance) for _ in range(pool)]
    shapes = [rows_of(_group(0, 0, Split.TRAIN, 0, bundle), play) for play in plays]
    steps = rollouts // (RUNS * (GROUPS * SIZE + EVAL_TASKS // EVALS))
    copied = url.startswith("sqlite:///")
    filings = _filings(steps, 1 if copied else RUNS, bundle, plays, shapes, chance)
    with tempfile.TemporaryDirectory(dir=_folder(url)) as folder:
        apart = f"{folder}/words.db" if copied else ":memory:"
        made = _file_all(url, filings, apart)
        if copied:
            add_copies(url.removeprefix("sqlite:///"), apart, RUNS - 1)
            made *= RUNS
    return Made(made, time.perf_counter() - start, "run-0", steps)


def _folder(url: str) -> str | None:
    return str(Path(url.removeprefix("sqlite:///")).parent) if "sqlite" in url else None


def _file_all(url: str, filings: Iterator[Filing], apart: str) -> int:
    """File everything, and keep the words apart: the inverted index does not give them back."""
    engine, ids, made = open_index(url, create=True), Ids(), 0
    words = sqlite3.connect(apart)
    words.execute("CREATE TABLE words (key TEXT PRIMARY KEY, words TEXT) WITHOUT ROWID")
    while some := list(islice(filings, 400)):
        with engine.begin() as connection:
            file_rollouts(connection, ids, some)
        rows = [row for filing in some for row in filing.rows]
        words.executemany(
            "INSERT INTO words VALUES (?, ?)", ((row.rollout["key"], row.words) for row in rows)
        )
        made += len(rows)
    words.commit()
    words.close()
    engine.dispose()
    return made


def _filings(
    steps: int,
    runs: int,
    bundle: BundleRecord,
    plays: list[Rollout],
    shapes: list[Rows],
    chance: random.Random,
) -> Iterator[Filing]:
    """Step by step, all runs side by side, as a shared index is filled."""
    for step in range(steps):
        for run in range(runs):
            for at in range(GROUPS):
                group = _group(run, step, Split.TRAIN, chance.randrange(TASKS), bundle, at)
                yield _filing(group, SIZE, steps, plays, shapes, chance)
            if step % EVALS == 0:
                for at in range(EVAL_TASKS):
                    group = _group(run, step, Split.EVAL, TASKS + at, bundle, at)
                    yield _filing(group, 1, steps, plays, shapes, chance)


def _group(
    run: int, step: int, split: Split, task: int, bundle: BundleRecord, at: int = 0
) -> Group:
    attempt = Attempt(f"/runs/run-{run}", f"run-{run}-1", 0)
    key = f"{run:02x}{step:06x}{split[0] == 'e':x}{at:04x}"
    tag = ("easy", "medium", "hard")[task % 3]
    return Group(attempt, key, split, step, bundle, f"shop-{task:04d}", (tag,))


def _filing(
    group: Group,
    size: int,
    steps: int,
    plays: list[Rollout],
    shapes: list[Rows],
    chance: random.Random,
) -> Filing:
    skill = 0.1 + 0.8 * group.step / max(1, steps)
    rows: list[Rows] = []
    for place in range(size):
        which = chance.randrange(len(plays))
        rollout = _outcome(plays[which], f"{group.key}{place:02x}", place, skill, chance)
        shape = shapes[which]
        said = shape.words.rsplit("\ue000", 1)[1].split(" ", 1)[1]
        rows.append(
            replace(
                shape,
                rollout=shape.rollout
                | {
                    "key": rollout.key, "place": place, "status": str(rollout.status),
                    "reward": rollout.reward, "cut": rollout.cut, "reason": rollout.reason,
                },
                scores=[row | {"value": rollout.reward or 0.0} for row in shape.scores]
                if rollout.reward is not None else [],
                words=" ".join([*facts_of(group, rollout, tools_of(rollout.transcript)), said]),
            )
        )  # fmt: skip
    return Filing(group, tuple(rows))


def _outcome(play: Rollout, key: str, place: int, skill: float, chance: random.Random) -> Rollout:
    kind = chance.random()
    if kind < 0.005:
        return replace(
            play, key=key, place=place, status=Status.FAILED, reward=None, reason="it broke"
        )
    if kind < 0.05:
        cut = chance.choice(["length", "turns", "parse_error", "timeout"])
        return replace(play, key=key, place=place, status=Status.CUT, reward=0.0, cut=cut)
    reward = float(chance.random() < skill)
    return replace(play, key=key, place=place, status=Status.FINISHED, reward=reward)


# ---------------------------------------------------------------- transcripts


def _vocabulary() -> list[str]:
    chance = random.Random(7)
    syllables = ["ba", "co", "di", "fu", "ge", "ha", "lo", "mi", "nu", "pe", "ra", "so", "ti", "ve"]
    return ["".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(20_000)]


WORDS = _vocabulary()
_SUMS = list(accumulate(1 / (at + 3) for at in range(len(WORDS))))  # a few words are in most texts


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, cum_weights=_SUMS, k=words))


def play_of(chance: random.Random, key: str = "", messages: int = 10) -> Rollout:
    """A rollout of about so many messages: a prompt, then replies with calls and their results."""
    entries: list[dict[str, Any]] = [
        {
            "kind": "prompt",
            "text": _text(chance, 60),
            "system_prompt": SYSTEM,
            "tools": list(TOOLS),
            "tool_set": TOOL_SET.hash,
        }
    ]
    turns: list[dict[str, Any]] = []
    for turn in range(messages // 2):
        tool = chance.choice(TOOLS)
        order = f"#W{chance.randrange(10**7)}"
        entries += [_reply(chance, tool, order), _result(chance, turn, tool, order)]
        turns.append(_turn(chance, 600 if turn == 0 else 150, chance.randint(60, 140)))
    return Rollout(
        key=key,
        place=0,
        status=Status.FINISHED,
        reward=1.0,
        scores=(
            ScoreRecord("goal", 1.0, "the orders are as they should be", {"orders": [1, 2]}),
            ScoreRecord("polite", 0.5, "", {}),
        ),
        turns=len(turns),
        messages=len(entries),
        tool_calls=len(turns),
        tool_errors=int(chance.random() < 0.1),
        sampled_tokens=sum(len(turn["sampled"]) for turn in turns),
        observation_tokens=600 + 250 * len(turns),
        opened_at=1_700_000_000.0,
        duration_s=12.5,
        transcript={
            "entries": entries,
            "changes": [
                {"table": "orders", "key": order, "before": {"at": 1}, "after": {"at": 2}}
            ],
            "turns": turns,
        },
        tool_sets=(TOOL_SET,),
    )  # fmt: skip


def _reply(chance: random.Random, tool: str, order: str) -> dict[str, Any]:
    return {
        "kind": "reply",
        "content": [
            {"type": "thinking", "thinking": _text(chance, chance.randint(20, 60))},
            {"type": "text", "text": _text(chance, chance.randint(0, 25))},
        ],
        "calls": [{"name": tool, "id": None, "written": {"order": order}, "typed": False}],
        "malformed": [],
    }


def _result(chance: random.Random, turn: int, tool: str, order: str) -> dict[str, Any]:
    item = {"id": str(chance.randrange(10**10)), "price": chance.randrange(1, 500) + 0.99}
    content = {"order": order, "status": "sent", "items": [item] * 2, "note": _text(chance, 15)}
    return {
        "kind": "result",
        "call_id": f"call-{turn}",
        "name": tool,
        "arguments": {"order": order},
        "content": json.dumps(content),
        "error": False,
    }


def _turn(chance: random.Random, observed: int, sampled: int) -> dict[str, Any]:
    return {
        "extends": True,
        "observation": [int(chance.paretovariate(0.5)) % 150_000 for _ in range(observed)],
        "sampled": [int(chance.paretovariate(0.5)) % 150_000 for _ in range(sampled)],
        "logprobs": [-chance.expovariate(3) for _ in range(sampled)],
        "reward": 0.0,
    }
