"""`tinker-episodes explore`: what it says at its start, how it stops, and what it refuses."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tinker_episodes.cli import main
from tinker_episodes.explorer.config import Explore, is_loopback, token_of
from tinker_episodes.explorer.serve import listen

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command as a process."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tinker_episodes.cli", "explore", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_command_tells_where_it_is_and_stops_with_ctrl_c(desk: Path, start: Start) -> None:
    process = start(str(desk), "port=0")
    said = re.fullmatch(
        rf"The explorer of {desk} is at (http://127\.0\.0\.1:\d+/)\n", first_line(process)
    )
    assert said is not None
    with urllib.request.urlopen(f"{said[1]}api/runs", timeout=20) as answer:
        assert b'"baseline"' in answer.read()
    live = urllib.request.urlopen(f"{said[1]}api/live", timeout=20)
    assert live.readline() == b": listening\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    live.close()
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read() == "Stop it with Ctrl-C.\n"
    assert process.stderr.read() == ""


def test_binding_elsewhere_makes_a_token_and_says_so(desk: Path, start: Start) -> None:
    process = start(str(desk), "host=0.0.0.0", "port=0")
    assert re.search(r"at http://0\.0\.0\.0:\d+/#token=[\w-]{32}\n", first_line(process))
    assert "Other machines can reach it" in first_line(process)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nothing/there"], "path: there is nothing at '/nothing/there'"),
        ([".", "port=70000"], "port: 70000 is none"),
        ([".", "port=x"], "explore: "),
        ([".", "host=203.0.113.1"], "203.0.113.1:8765 can't be listened on"),
        ([".", "token=short"], "token: 16 or more letters"),
        ([".", "index=/nothing/there.db"], "there is no run index at '/nothing/there.db'"),
        (["sqlite:////nothing/there.db"], "there is no run index at /nothing/there.db"),
        (["nonsense://x"], "SQLite or PostgreSQL, not nonsense"),
        (["pyproject.toml"], "pyproject.toml"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["explore", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_a_port_that_is_taken_is_refused_only_where_it_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["explore", ".", f"port={port}"]) == 2
        assert f"127.0.0.1:{port} can't be listened on" in capsys.readouterr().err
    with listen("127.0.0.1", None) as usual, listen("127.0.0.1", None) as other:
        assert usual.getsockname()[1] != other.getsockname()[1]


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("192.0.2.1", False), ("localhost.evil.example", False)],
)  # fmt: skip
def test_only_loopback_needs_no_token(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone
    assert (token_of(Explore(host=host)) is None) is alone


def test_every_start_makes_another_token() -> None:
    assert token_of(Explore(host="0.0.0.0")) != token_of(Explore(host="0.0.0.0"))
