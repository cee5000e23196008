"""Reading a bundle's folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.bundles import ENVIRONMENT, PLAIN, Write

from tinker_episodes import Prompt, Universe
from tinker_episodes.bundle import read_bundle

# ---------------------------------------------------------------- a bundle that is right


def test_a_folder_is_read_as_it_is_written(write_bundle: Write) -> None:
    bundle = read_bundle(write_bundle())
    assert (bundle.name, bundle.version, bundle.description) == ("counter", "3", "")
    assert list(bundle.tasks) == ["a", "b", "c"]
    assert bundle.tasks["b"].prompts == (Prompt("Reach 2."),)
    assert bundle.tasks["b"].tags == ("easy", "even")
    assert bundle.tasks["b"].params == bundle.environment.Params(target=2)  # type: ignore[misc]


def test_tasks_are_read_from_json_jsonl_and_toml_in_the_order_of_their_files(
    write_bundle: Write,
) -> None:
    files = {
        **PLAIN,
        "tasks/train.jsonl": None,
        "tasks/1.toml": 'id = "toml"\nprompt = "T"\n[params]\nn = 1\n',
        "tasks/2.json": {"id": "json", "prompt": "J"},
        "tasks/3.jsonl": '\n{"id": "x", "prompt": "X"}\r\n\n{"id": "y", "prompt": "Y"}',
        "tasks/notes.md": "no task",
    }
    bundle = read_bundle(write_bundle(files=files))
    assert list(bundle.tasks) == ["toml", "json", "x", "y"]
    assert bundle.tasks["toml"].params == {"n": 1}


def test_a_task_of_several_prompts_keeps_each_ones_instructions(write_bundle: Write) -> None:
    task = {
        "id": "two",
        "prompts": [{"text": "a", "system_prompt": "s"}, {"text": "b", "tools": ["look"]}],
        "scorers": ["found"],
    }
    files = {**PLAIN, "tasks/train.jsonl": None, "tasks/t.json": task}
    read = read_bundle(write_bundle(files=files)).tasks["two"]
    assert read.prompts == (Prompt("a", "s"), Prompt("b", None, ("look",)))
    assert read.scorers == ("found",)


def test_a_task_of_one_prompt_may_have_its_own_instructions(write_bundle: Write) -> None:
    task = {"id": "t", "prompt": "a", "system_prompt": "s", "tools": []}
    files = {**PLAIN, "tasks/train.jsonl": None, "tasks/t.json": task}
    assert read_bundle(write_bundle(files=files)).tasks["t"].prompts == (Prompt("a", "s", ()),)


def test_text_comes_as_it_is_written(write_bundle: Write) -> None:
    files = {**PLAIN, "tasks/train.jsonl": '{"id": "é", "prompt": "a\u2028b\u0085漢"}'}
    assert read_bundle(write_bundle(files=files)).tasks["é"].prompts[0].text == "a\u2028b\u0085漢"


def test_the_universe_has_a_table_for_each_file(write_bundle: Write) -> None:
    files = {"universe/orders.json": {"#1": {"n": 1}}, "universe/names.json": ["Ada"]}
    universe = Universe(read_bundle(write_bundle(files=files)).universe)
    assert sorted(universe) == ["names", "orders"]
    assert (universe["orders"]["#1"], universe["names"][0]) == ({"n": 1}, "Ada")


def test_an_environment_may_be_in_an_installed_module(write_bundle: Write) -> None:
    name = "tinker_episodes.bundles.number_search.environment:NumberSearch"
    files = {
        "bundle.toml": f'name = "b"\nenvironment = "{name}"\n',
        "environment.py": None,
        "tasks/train.jsonl": None,
        "tasks/t.json": {
            "id": "a",
            "prompt": "A",
            "params": {"low": 0, "high": 1, "number": 1, "guesses": 1},
        },
    }
    assert read_bundle(write_bundle(files=files)).environment.__name__ == "NumberSearch"


def test_two_bundles_may_both_have_an_environment_file(write_bundle: Write) -> None:
    one = read_bundle(
        write_bundle("one", files=PLAIN | {"tasks/train.jsonl": '{"id": "a", "prompt": "A"}'})
    )
    other = read_bundle(write_bundle("other"))
    assert (one.environment.__name__, other.environment.__name__) == ("Plain", "Counter")
    assert one.environment.__module__ != other.environment.__module__


def test_an_environment_may_import_a_helper_beside_it(write_bundle: Write) -> None:
    code = (
        "from . import helper\nfrom .helper import WORD\n"
        + ENVIRONMENT
        + "    word = helper.WORD + WORD\n"
    )
    folders = [
        write_bundle(
            name,
            files={
                **PLAIN,
                "environment.py": code,
                "helper.py": f"WORD = {name!r}",
                "tasks/train.jsonl": '{"id": "a", "prompt": "A"}',
            },
        )
        for name in ("one", "other")
    ]
    words = [vars(read_bundle(folder).environment)["word"] for folder in folders]
    assert words == ["oneone", "otherother"]


# ---------------------------------------------------------------- the content's hash


def _hash(folder: Path) -> str:
    return read_bundle(folder).content_hash


def test_the_hash_is_of_the_content_wherever_it_stands(write_bundle: Write, tmp_path: Path) -> None:
    folder = write_bundle()
    copied = tmp_path / "elsewhere"
    shutil.copytree(folder, copied)
    for file in copied.rglob("*"):
        os.utime(file, (1, 1))
    assert _hash(copied) == _hash(folder)


def test_caches_and_hidden_files_do_not_count_for_the_hash(write_bundle: Write) -> None:
    plain = _hash(write_bundle("one"))
    files = {"__pycache__/x.pyc": "x", ".git/config": "x", "tasks/.swp": "x"}
    assert _hash(write_bundle("other", files=files)) == plain


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "new"},
        {"universe/u.json": {}},
        {"helper.py": ""},
        {"bundle.toml": 'name = "counter"\nversion = "4"\nenvironment = "environment:Counter"\n'},
    ],
    ids=lambda files: next(iter(files)),
)
def test_any_content_counts_for_the_hash(write_bundle: Write, files: dict[str, Any]) -> None:
    assert _hash(write_bundle("one")) != _hash(write_bundle("other", files=files))


def test_a_files_name_counts_for_the_hash(write_bundle: Write) -> None:
    one = _hash(write_bundle("one", files={"a.txt": "x"}))
    assert one != _hash(write_bundle("other", files={"b.txt": "x"}))
