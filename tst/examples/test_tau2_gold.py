"""The retail example against the benchmark's gold results, where they are."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from support.retail import changed, normal, play, types_of

from tinker_episodes import Bundle


@functools.cache
def test_tools_and_types_are_those_of_the_benchmark(tau2_retail: Bundle, tau2_data: Path) -> None:
    listed = json.loads((tau2_data / "gold.json").read_text())["tools"]
    assert types_of(tau2_retail) == {name: tool["parameters"] for name, tool in listed.items()}


async def test_gold_plays_give_the_gold_outputs_changes_and_reward(
    tau2_retail: Bundle, tau2_data: Path
) -> None:
    for gold in json.loads((tau2_data / "gold.json").read_text())["tasks"]:
        steps = [(call["name"], call["arguments"]) for call in gold["calls"]]
        results, outcome = await play(tau2_retail, *steps, task=gold["task"])
        answers = [(result.content, result.error) for result in results]
        assert answers == [(call["output"], call["error"]) for call in gold["calls"]], gold["task"]
        assert changed(outcome) == gold["changed"], gold["task"]
        assert outcome.reward == 1.0, gold["task"]


async def test_gold_plays_end_in_the_gold_database(tau2_retail: Bundle, tau2_data: Path) -> None:
    gold = json.loads((tau2_data / "gold.json").read_text())
    base = json.loads((tau2_data / "db.json").read_text())
    base["orders"] = {key: normal("orders", order) for key, order in base["orders"].items()}
    assert _sha256(base) == gold["base_db_sha256"]
    for task in gold["tasks"]:
        steps = [(call["name"], call["arguments"]) for call in task["calls"]]
        _, outcome = await play(tau2_retail, *steps, task=task["task"])
        final = {name: dict(table) for name, table in base.items()}
        for change in outcome.changes:
            final[change.table][change.key] = normal(change.table, change.after)
        assert _sha256(final) == task["db_sha256"], task["task"]


def _sha256(database: Any) -> str:
    text = json.dumps(database, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


async def test_idle_agent_scores_where_nothing_is_to_change_alone(tau2_retail: Bundle) -> None:
    idle = {id for id in tau2_retail.tasks if (await play(tau2_retail, task=id))[1].reward}
    tagged = {id for id, task in tau2_retail.tasks.items() if "unchanged" in task.tags}
    assert len(tau2_retail.tasks) == 114
    known = {"10", "12", "24", "25", "50", "57", "62", "65", "67", "68", "105"}
    assert idle == tagged == known


def test_policy_of_the_benchmark_is_the_system_prompt(tau2_retail: Bundle, tau2_data: Path) -> None:
    policy = (tau2_data / "policy.md").read_text(encoding="utf-8")
    assert tau2_retail.environment.system_prompt == policy
