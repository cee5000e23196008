from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tinker_episodes.cli import main
from tinker_episodes.index import (
    Attempt,
    BundleRecord,
    Group,
    Rollout,
    ScoreRecord,
    Split,
    Status,
    index_writer,
)
from tinker_episodes.index.schema import default_url


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    """A run of one step with a finished, a cut and a failed rollout."""
    path = tmp_path / "runs" / "first"
    writer = index_writer(default_url(path))
    attempt = Attempt(str(path), "token", 0)
    group = Group(attempt, "g", Split.TRAIN, 0, BundleRecord("toy", "1", "h"), "t1", ())
    said = {"kind": "reply", "content": "\x1b[31mred\x07", "calls": [], "malformed": []}
    rollouts = [
        Rollout(
            "aa1",
            0,
            Status.FINISHED,
            1.0,
            scores=(ScoreRecord("found", 1.0, "found \x1b[2J it", {}),),
            transcript={"entries": [said]},
        ),
        Rollout("aa2", 1, Status.CUT, 0.0, cut="length"),
        Rollout("bb3", 2, Status.FAILED, None, reason="tool 'x': a bug"),
    ]
    asyncio.run(writer.file(group, rollouts))
    writer.close()
    return path


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("check", "runs", "steps", "show", "explore", "loopback"))


@pytest.mark.parametrize("command", ["check", "runs", "steps", "show", "loopback"])
def test_each_command_tells_its_settings(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "Arguments:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "there is no command 'nope'; there are: check"),
        (["check"], "Missing required arguments"),
        (["check", "nope"], "installed: number_search"),
        (["check", "./nope"], "there is no such folder"),
        (["check", "number_search", "colour=red"], "colour"),
        (["check", "number_search", "reward=nope"], "not scored by 'nope'; it is by: found"),
        (["runs", "/nope"], "there is no run index at '/nope'"),
        (["runs", "nonsense://x"], "nonsense"),
        (["steps", "/nope/run"], "there is no run index"),
        (["show", "x", "index=/nope"], "there is no run index"),
        (["loopback", "port=many"], "port"),
    ],
)
def test_mistake_is_one_message_and_no_traceback(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert said in shown.err and "Traceback" not in shown.err and not shown.out


def test_check_of_a_good_bundle_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "number_search"]) == 0
    assert "bundle number_search 1 is well" in capsys.readouterr().out


def test_check_reports_every_fault_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "a.jsonl").write_text('{"id": "a"}\nno json\n')
    for key, fault in (("colour = 1", "bundle.toml: colour"), ("", "bundle.toml: environment")):
        (tmp_path / "bundle.toml").write_text(f'name = "x"\nenvironment = "nope:X"\n{key}\n')
        assert main(["check", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "3 problems" in said and fault in said
        assert "tasks/a.jsonl: line 1" in said and "tasks/a.jsonl: line 2" in said


def test_runs_and_steps_are_tables(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in (log_path.parent, log_path, log_path.parent / "episodes.db"):
        assert main(["runs", str(where)]) == 0
        (names, row) = capsys.readouterr().out.splitlines()
        assert names.split()[0] == "run" and row.split()[:3] == ["first", "toy", "1"]
    assert main(["steps", str(log_path)]) == 0
    (_, row) = capsys.readouterr().out.splitlines()
    assert row.split() == ["first/train/step-0000", *["1", "3", "0.500", "50%", "1", "1", "0"]]
    assert main(["steps", "second", f"index={log_path.parent}"]) == 2
    assert "the index holds: first" in capsys.readouterr().err


def test_rollout_is_shown_and_what_it_said_steers_no_terminal(
    log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "aa1", f"index={log_path}"]) == 0
    said = capsys.readouterr().out
    assert "first/train/step-0000, finished, reward 1.000" in said
    assert "\x1b" not in said and "\x07" not in said and "\\x1b[31mred" in said
    assert main(["show", "bb", f"index={log_path}"]) == 0
    assert "tool 'x': a bug" in capsys.readouterr().out


def test_key_that_means_several_rollouts_is_refused(
    log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "aa", f"index={log_path}"]) == 2
    assert "2 rollouts have a key that begins with 'aa'" in capsys.readouterr().err
