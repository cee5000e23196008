"""What is wrong in a bundle's folder, reported with file and place."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bundles import ENVIRONMENT, EVALS, FORM, PLAIN, Write, problems_of

# ---------------------------------------------------------------- problems, one by one


def test_a_folder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "nothing") == [".: there is no such folder"]


def test_a_file_in_place_of_the_folder_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert problems_of(file) == [".: there is no such folder"]


def test_a_folder_without_a_bundle_toml_is_a_problem(write_bundle: Write) -> None:
    assert problems_of(write_bundle(files={"bundle.toml": None})) == [
        "bundle.toml: it is not there; a bundle is a folder with a bundle.toml"
    ]


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ('name = "b', "bundle.toml: it is not TOML: "),
        (b'name = "\xff"', "bundle.toml: it is not UTF-8: invalid start byte at byte 8"),
        ('environment = "a:B"', "bundle.toml: name: Field required"),
        ('name = "b"', "bundle.toml: environment: Field required"),
        ('name = ""\nenvironment = "a:B"', "bundle.toml: name: String should have at least 1"),
        ('name = "b"\nenvironment = "B"', "bundle.toml: environment: String should match pattern"),
        ('name = "b"\nenvironment = "../a:B"', "bundle.toml: environment: String should match"),
        (
            FORM + 'colour = "red"',
            "bundle.toml: colour: Extra inputs are not permitted (got 'red')",
        ),
        (
            'name = 5\nenvironment = "a:B"',
            "bundle.toml: name: Input should be a valid string (got '5')",
        ),
    ],
)
def test_a_bundle_toml_that_is_wrong_is_a_problem(
    write_bundle: Write, form: str | bytes, problem: str
) -> None:
    found = problems_of(write_bundle(files={"bundle.toml": form}))
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_every_fault_of_a_bundle_toml_is_reported(write_bundle: Write) -> None:
    found = problems_of(write_bundle(files={"bundle.toml": "colour = 1\nsize = 2"}))
    assert [problem.split(": ")[1] for problem in found] == [
        "colour",
        "environment",
        "name",
        "size",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "x"', "line 2: it is not JSON: "),
        ("[1]", "line 2: Input should be a valid dictionary"),
        ("null", "line 2: "),
        ("5", "line 2: Input should be a valid dictionary"),
        ("9" * 5000, "line 2: it can't be read: "),
        ("[" * 100_000, "line 2: "),
        ('{"prompt": "P"}', "line 2, id: Field required"),
        ('{"id": "", "prompt": "P"}', "line 2, id: String should have at least 1 character"),
        ('{"id": "x"}', "line 2: give one of `prompt` and `prompts`"),
        ('{"id": "x", "prompt": "P", "prompts": [{"text": "P"}]}', "line 2: give one of `prompt`"),
        ('{"id": "x", "prompts": []}', "line 2, prompts: Tuple should have at least 1 item"),
        ('{"id": "x", "prompts": [{"txt": "P"}]}', "line 2, prompts.0.text: Field required"),
        (
            '{"id": "x", "prompts": [{"text": "P"}], "tools": []}',
            "line 2: `system_prompt` and `tools`",
        ),
        ('{"id": "x", "prompt": "P", "tag": ["a"]}', "line 2, tag: Extra inputs are not permitted"),
        ('{"id": "x", "prompt": "P", "tags": "a"}', "line 2, tags: "),
        ('{"id": "x", "prompt": "P", "scorers": []}', "line 2, scorers: "),
        ('{"id": 5, "prompt": "P"}', "line 2, id: Input should be a valid string (got '5')"),
        (
            '{"id": "a", "prompt": "P"}',
            "line 2: the id 'a' stands in tasks/train.jsonl line 1 already",
        ),
    ],
)
def test_a_line_of_a_task_file_that_is_wrong_is_a_problem(
    write_bundle: Write, line: str, problem: str
) -> None:
    files = {**PLAIN, "tasks/train.jsonl": f'{{"id": "a", "prompt": "A"}}\n{line}\n'}
    found = problems_of(write_bundle(files=files))
    assert any(one.startswith(f"tasks/train.jsonl: {problem}") for one in found)


def test_a_task_file_that_is_not_utf8_is_a_problem(write_bundle: Write) -> None:
    found = problems_of(write_bundle(files={"tasks/b.jsonl": b'{"id": "\xe9"}'}))
    assert found == ["tasks/b.jsonl: it is not UTF-8: invalid continuation byte at byte 8"]


def test_a_json_task_file_that_is_wrong_is_a_problem_with_its_line(write_bundle: Write) -> None:
    found = problems_of(write_bundle(files={"tasks/t.json": '{\n"id": }'}))
    assert found == ["tasks/t.json: line 2: it is not JSON: Expecting value at column 7"]


def test_a_toml_task_file_that_is_wrong_is_a_problem(write_bundle: Write) -> None:
    (found,) = problems_of(write_bundle(files={"tasks/t.toml": "id ="}))
    assert found.startswith("tasks/t.toml: it is not TOML: Invalid value")


def test_a_folder_named_like_a_task_file_is_a_problem(write_bundle: Write) -> None:
    folder = write_bundle()
    (folder / "tasks" / "x.json").mkdir()
    assert problems_of(folder) == ["tasks/x.json: it can't be read: Is a directory"]


def test_a_bundle_without_task_files_is_a_problem(write_bundle: Write) -> None:
    assert problems_of(write_bundle(files={"tasks/train.jsonl": None})) == [
        "tasks: there is no task file; *.jsonl, *.json or *.toml would be right"
    ]


def test_task_files_without_tasks_are_a_problem(write_bundle: Write) -> None:
    assert problems_of(write_bundle(files={"tasks/train.jsonl": "\n"})) == [
        "tasks: there are no tasks"
    ]


def test_one_id_in_two_files_is_a_problem_with_both_places(write_bundle: Write) -> None:
    again = '{"id": "b", "prompt": "B", "params": {"target": 2}}'
    assert problems_of(write_bundle(files={"tasks/val.jsonl": again})) == [
        "tasks/val.jsonl: line 1: the id 'b' stands in tasks/train.jsonl line 3 already"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1: it is not JSON: "),
        ("5", "an object or an array would be right"),
        ('"text"', "an object or an array would be right"),
        ("null", "an object or an array would be right"),
        ("false", "an object or an array would be right"),
        (b"\xff", "it is not UTF-8: "),
        ("[" * 100_000, ""),
    ],
)
def test_a_universe_file_that_is_wrong_is_a_problem(
    write_bundle: Write, text: str | bytes, problem: str
) -> None:
    (found,) = problems_of(write_bundle(files={"universe/u.json": text}))
    assert found.startswith(f"universe/u.json: {problem}")


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ("{}", "params.target: Field required"),
        ('{"target": "many"}', "params.target: Input should be a valid integer"),
        ('{"target": 1, "size": 2}', "params.size: Extra inputs are not permitted"),
    ],
)
def test_params_that_the_environment_refuses_are_a_problem_with_their_line(
    write_bundle: Write, params: str, problem: str
) -> None:
    line = f'\n{{"id": "x", "prompt": "X", "params": {params}}}'
    (found,) = problems_of(write_bundle(files={"tasks/val.jsonl": line}))
    assert found.startswith(f"tasks/val.jsonl: line 2: {problem}")


def test_params_whose_validator_breaks_are_a_problem(write_bundle: Write) -> None:
    code = """
from pydantic import BaseModel, field_validator
from tinker_episodes import Environment, scorer

class Window(BaseModel):
    low: int

    @field_validator("low")
    @classmethod
    def known(cls, low):
        return {1: 1}[low]

class Plain(Environment):
    Params = Window

    @scorer
    def found(self) -> bool:
        return True
"""
    tasks = '{"id": "x", "prompt": "X", "params": {"low": 2}}'
    files = {**PLAIN, "environment.py": code, "tasks/train.jsonl": tasks}
    (found,) = problems_of(write_bundle(files=files))
    assert found.startswith("tasks/train.jsonl: line 1: ")
    assert "KeyError" in found


# ---------------------------------------------------------------- problems of the environment


def _environment_problems(
    write: Write, code: str | None, name: str = "environment:Plain"
) -> list[str]:
    files = {
        "environment.py": code,
        "bundle.toml": f'name = "b"\nenvironment = "{name}"\n',
        "tasks/train.jsonl": '{"id": "a", "prompt": "A"}',
    }
    return problems_of(write(files=files))


def test_an_environment_that_raises_on_import_is_a_problem_with_its_line(
    write_bundle: Write,
) -> None:
    found = _environment_problems(write_bundle, "x = 1\n\nraise OSError('no licence')\n")
    assert found == ["environment.py: line 3: importing it raised OSError: no licence"]


def test_an_environment_that_exits_on_import_is_a_problem(write_bundle: Write) -> None:
    (found,) = _environment_problems(write_bundle, "import sys\nsys.exit(3)\n")
    assert found == "environment.py: line 2: importing it raised SystemExit: 3"


def test_an_environment_that_is_no_python_is_a_problem_with_its_line(write_bundle: Write) -> None:
    (found,) = _environment_problems(write_bundle, "x = 1\nclass :\n")
    assert found.startswith("environment.py: line 2: it is not Python: ")


def test_an_environment_that_imports_what_is_not_there_is_a_problem(write_bundle: Write) -> None:
    (found,) = _environment_problems(write_bundle, "import no_such_thing\n")
    assert found.startswith("environment.py: line 1: importing it raised ModuleNotFoundError")


def test_an_environment_class_that_is_not_there_is_a_problem(write_bundle: Write) -> None:
    assert _environment_problems(write_bundle, ENVIRONMENT, "environment:Other") == [
        "environment.py: Other: there is no Environment class 'Other' in environment"
    ]


def test_a_class_that_is_no_environment_is_a_problem(write_bundle: Write) -> None:
    (found,) = _environment_problems(write_bundle, "class Plain: ...\n")
    assert "there is no Environment class 'Plain'" in found


def test_a_module_that_is_nowhere_is_a_problem(write_bundle: Write) -> None:
    assert _environment_problems(write_bundle, None) == [
        "bundle.toml: environment: there is neither a file environment.py in the bundle "
        "nor a module 'environment'"
    ]


def test_a_tool_without_types_is_a_problem(write_bundle: Write) -> None:
    code = ENVIRONMENT.replace("def look(self)", "def look(self, at)")
    (found,) = _environment_problems(write_bundle, code)
    assert found.startswith("environment.py: Plain: tool Plain.look: argument 'at' has no type")


def test_an_environment_without_a_scorer_is_a_problem(write_bundle: Write) -> None:
    (found,) = _environment_problems(write_bundle, ENVIRONMENT.replace("@scorer", ""))
    assert found.startswith("environment.py: Plain: Plain has no scorer")


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (
            '"prompt": "A", "tools": ["shout"]',
            "tasks: a: there is no tool 'shout'; there are: look",
        ),
        (
            '"prompt": "A", "scorers": ["lost"]',
            "tasks: a: there is no scorer 'lost'; there are: found",
        ),
    ],
)
def test_a_task_that_names_what_is_not_there_is_a_problem(
    write_bundle: Write, task: str, problem: str
) -> None:
    files = {**PLAIN, "tasks/train.jsonl": f'{{"id": "a", {task}}}'}
    assert problems_of(write_bundle(files=files)) == [problem]


def test_a_reward_that_is_no_scorer_is_a_problem(write_bundle: Write) -> None:
    files = {
        **PLAIN,
        "bundle.toml": FORM + 'reward = "lost"',
        "tasks/train.jsonl": '{"id": "a", "prompt": "A"}',
    }
    assert problems_of(write_bundle(files=files)) == [
        "bundle.toml: reward: task 'a' is not scored by 'lost'; it is by: found"
    ]


# ---------------------------------------------------------------- problems, all at once


def test_every_problem_is_reported_at_once_with_its_file_and_place(write_bundle: Write) -> None:
    files = {
        "bundle.toml": EVALS + 'e = { tasks = ["nothing"] }\nf = { file = "../x" }',
        "tasks/val.jsonl": '{"id": "a", "prompt": "A", "params": {"target": 1}}\n{',
        "tasks/x.toml": "id =",
        "tasks/y.json": {"id": "y", "prompt": "Y", "params": {}},
        "tasks/z.json": {"id": "z", "prompt": "Z", "tools": ["no"], "params": {"target": 1}},
        "universe/u.json": "nope",
        "universe/v.json": "5",
    }
    found = problems_of(write_bundle(files=files))
    assert [" ".join(problem.split(": ")[:2]) for problem in found] == [
        "bundle.toml evals.e.tasks",
        "bundle.toml evals.f",
        "tasks z",
        "tasks/val.jsonl line 1",
        "tasks/val.jsonl line 2",
        "tasks/x.toml it is not TOML",
        "tasks/y.json params.target",
        "universe/u.json line 1",
        "universe/v.json an object or an array would be right",
    ]


def test_a_tool_without_types_is_reported_beside_missing_tasks(write_bundle: Write) -> None:
    code = ENVIRONMENT.replace("def look(self)", "def look(self, at)")
    files = {**PLAIN, "environment.py": code, "tasks/train.jsonl": None}
    found = problems_of(write_bundle(files=files))
    assert [problem.split(":")[0] for problem in found] == ["environment.py", "tasks"]


def test_problems_of_files_are_reported_beside_an_environment_that_raises(
    write_bundle: Write,
) -> None:
    found = problems_of(write_bundle(files={"environment.py": "1 / 0", "tasks/z.jsonl": "{"}))
    assert [problem.split(":")[0] for problem in found] == ["environment.py", "tasks/z.jsonl"]
