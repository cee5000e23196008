"""The evals that a bundle names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.bundles import EVALS, Write, problems_of

from tinker_episodes.bundle import read_bundle


def _evals(write: Write, evals: str, **files: Any) -> Any:
    more = '{"id": "v", "prompt": "V", "params": {"target": 4}, "tags": ["hard"]}'
    return read_bundle(
        write(files={"bundle.toml": EVALS + evals, "tasks/val.jsonl": more, **files})
    )


@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        ('file = "tasks/val.jsonl"', ["v"]),
        ('file = "tasks/../tasks/val.jsonl"', ["v"]),
        ('tasks = ["c", "a"]', ["a", "c"]),
        ('tags = ["easy"]', ["a", "b"]),
        ('tags = ["easy", "even"]', ["b"]),
        ("tags = []", ["a", "b", "c", "v"]),
        ('tags = [], without_tags = ["easy"]', ["c", "v"]),
        ('tags = ["easy"], without_tags = ["even", "hard"]', ["a"]),
        ('tasks = ["a", "b"], without_tags = ["even"]', ["a"]),
        ('file = "tasks/train.jsonl", without_tags = ["even"]', ["a", "c"]),
    ],
)
def test_an_eval_chooses_tasks(write_bundle: Write, chosen: str, ids: list[str]) -> None:
    bundle = _evals(write_bundle, f"e = {{ {chosen} }}")
    assert [task.id for task in bundle.split("e")] == ids


def test_all_leaves_out_held_out_evals_only(write_bundle: Write) -> None:
    bundle = _evals(
        write_bundle, 'h = { tags = ["hard"], held_out = true }\ne = { tags = ["even"] }'
    )
    assert [task.id for task in bundle.split("all")] == ["a", "b", "c"]
    assert [task.id for task in bundle.split("h")] == ["v"]


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ('tasks = ["a", "nothing"]', "bundle.toml: evals.e.tasks: there is no task 'nothing'"),
        (
            'file = "tasks/nothing.jsonl"',
            "bundle.toml: evals.e: there is no task file 'tasks/nothing.jsonl'",
        ),
        ('file = "environment.py"', "bundle.toml: evals.e: there is no task file 'environment.py'"),
        ('file = "tasks"', "bundle.toml: evals.e: there is no task file 'tasks'"),
        ('file = ""', "bundle.toml: evals.e: there is no task file ''"),
        ('file = "../other/tasks/a.jsonl"', "outside of the bundle"),
        (
            'file = "/etc/passwd"',
            "bundle.toml: evals.e: the file '/etc/passwd' is outside of the bundle",
        ),
        ('file = "tasks/link.jsonl"', "outside of the bundle"),
        ('file = "tasks/a\\u0000b.jsonl"', "bundle.toml: evals.e: "),
        ('tags = ["unknown"]', "bundle.toml: evals.e: it holds no task"),
        ("tasks = []", "bundle.toml: evals.e: it holds no task"),
        ('tags = ["easy"], without_tags = ["easy"]', "bundle.toml: evals.e: it holds no task"),
        ("held_out = true", "bundle.toml: evals.e: give one of `file`, `tasks` and `tags`"),
        ('tasks = ["a"], tags = ["easy"]', "bundle.toml: evals.e: give one of"),
        ('tasks = ["a"], size = 3', "bundle.toml: evals.e.size: Extra inputs are not permitted"),
        ('tasks = "a"', "bundle.toml: evals.e.tasks: "),
    ],
)
def test_an_eval_that_chooses_wrongly_is_a_problem(
    write_bundle: Write, tmp_path: Path, chosen: str, problem: str
) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text("")
    folder = write_bundle(files={"bundle.toml": f"{EVALS}e = {{ {chosen} }}"})
    (folder / "tasks" / "link.jsonl").symlink_to(outside)
    found = problems_of(folder)
    assert len(found) == 1
    assert problem in found[0]


def test_an_eval_named_all_is_a_problem(write_bundle: Write) -> None:
    folder = write_bundle(files={"bundle.toml": EVALS + 'all = { tasks = ["a"] }'})
    assert problems_of(folder) == [
        "bundle.toml: evals.all: `all` is the split of all tasks; name it otherwise"
    ]


def test_an_eval_named_all_is_reported_beside_other_problems(write_bundle: Write) -> None:
    files = {"bundle.toml": EVALS + 'all = { tasks = ["a"] }', "universe/u.json": "{"}
    found = problems_of(write_bundle(files=files))
    assert [problem.split(":")[0] for problem in found] == ["bundle.toml", "universe/u.json"]
