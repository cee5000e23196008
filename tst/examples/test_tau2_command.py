"""The command that makes the retail bundle."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from support.retail import types_of

from tinker_episodes import Bundle, Episode


def test_command_writes_splits_and_tags(tiny_retail: Bundle) -> None:
    splits = {name: [t.id for t in tiny_retail.split(name)] for name in ["all", *tiny_retail.evals]}
    assert splits == {
        "all": ["0", "1"],
        "train": ["0", "1"],
        "train_changed": ["0"],
        "test": ["2", "3"],
        "test_changed": ["2"],
    }
    tags = {id: task.tags for id, task in tiny_retail.tasks.items()}
    assert tags == {"0": ("cancel",), "1": ("unchanged",), "2": ("cancel",), "3": ("unchanged",)}


async def test_policy_is_the_system_prompt_and_the_request_the_prompt(tiny_retail: Bundle) -> None:
    episode = Episode(tiny_retail.environment, tiny_retail.tasks["0"], data=tiny_retail.universe)
    prompt = await episode.open()
    assert prompt.system_prompt == "Be kind.\n"
    assert "Request 0." in prompt.text
    assert "Ana." in prompt.text
    assert "does not know" not in prompt.text
    assert "behaves" not in prompt.text
    await episode.abandon("read")


def test_gold_actions_take_the_names_of_the_tools_alone(tiny_retail: Bundle) -> None:
    params = tiny_retail.environment.Params
    assert params is not None
    names = params.model_json_schema()["$defs"]["Action"]["properties"]["name"]["enum"]
    assert sorted(names) == sorted(types_of(tiny_retail))


def test_command_writes_its_own_bundle_anew(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "retail"
    retail_command.main(str(tiny_data), str(out))
    (out / "mine.txt").write_text("mine")
    (out / "policy.md").write_text("old")
    retail_command.main(str(tiny_data), str(out))
    assert (out / "policy.md").read_text() == "Be kind.\n"
    assert (out / "mine.txt").read_text() == "mine"
    assert [path.name for path in out.parent.iterdir()] == ["retail"]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("db.json", None, "there is no file .*db.json"),
        ("policy.md", None, "there is no file .*policy.md"),
        ("db.json", "{", "db.json is not JSON: line 1"),
        ("db.json", "[]", "db.json: Input should be a valid dictionary"),
        ("db.json", '{"flights": {}}', "'orders' must be an object of records"),
        (
            "db.json",
            '{"orders": {"#W1": 3}, "users": {}, "products": {}}',
            "orders.#W1: 'order_id' must be of type str",
        ),
        ("tasks.json", '[{"id": "0"}]', "0.user_scenario: Field required"),
        ("tasks.json", "[]", "there is no task '0' in tasks.json"),
        ("split_tasks.json", '{"train": []}', "there is no split 'test'"),
        ("split_tasks.json", '{"train": ["0"], "test": []}', "task '1' is in no split"),
        (
            "split_tasks.json",
            '{"train": ["0", "1", "2", "3"], "test": ["3"]}',
            "task '3' is in train and test",
        ),
        ("split_tasks.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_wrong_data_is_refused_in_one_line(
    retail_command: types.ModuleType,
    tiny_data: Path,
    tmp_path: Path,
    file: str,
    text: str | None,
    message: str,
) -> None:
    if text is None:
        (tiny_data / file).unlink()
    else:
        (tiny_data / file).write_text(text)
    with pytest.raises(SystemExit, match=message) as refused:
        retail_command.main(str(tiny_data), str(tmp_path / "out"))
    assert "\n" not in str(refused.value.code)
    assert not (tmp_path / "out").exists()


def test_data_that_is_not_utf8_is_refused(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    (tiny_data / "policy.md").write_bytes(b"\xff")
    with pytest.raises(SystemExit, match="is not UTF-8"):
        retail_command.main(str(tiny_data), str(tmp_path / "out"))


def test_task_with_an_unknown_tool_is_refused(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    text = (tiny_data / "tasks.json").read_text()
    (tiny_data / "tasks.json").write_text(text.replace("get_order_details", "book_flight"))
    with pytest.raises(SystemExit, match="book_flight"):
        retail_command.main(str(tiny_data), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_command_does_not_write_where_something_else_is(
    retail_command: types.ModuleType, tiny_data: Path, tmp_path: Path
) -> None:
    other, file = tmp_path / "other", tmp_path / "file"
    other.mkdir()
    (other / "bundle.toml").write_text('name = "other"')
    file.write_text("")
    for out, message in ((other, "holds no tau2_retail bundle"), (file, "is a file")):
        with pytest.raises(SystemExit, match=message):
            retail_command.main(str(tiny_data), str(out))
    with pytest.raises(SystemExit, match="holds no tau2_retail bundle"):
        retail_command.main(str(tiny_data), str(tiny_data))
    with pytest.raises(SystemExit, match="there is no folder"):
        retail_command.main(str(tmp_path / "none"), str(tmp_path / "out"))
    source = Path(retail_command.__file__ or "").with_name("code")
    with pytest.raises(SystemExit, match="holds the bundle's source"):
        retail_command.main(str(tiny_data), str(source))


@pytest.mark.parametrize("arguments", [[], ["data=here"], ["data=none", "out=x"], ["daat=x"]])
def test_command_line_mistake_gives_no_traceback(
    retail_command: types.ModuleType, tmp_path: Path, arguments: list[str]
) -> None:
    script = str(retail_command.__file__)
    env = {key: value for key, value in os.environ.items() if key != "PYTEST_VERSION"}
    done = subprocess.run(
        [sys.executable, script, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr
    assert "Traceback" not in done.stderr
