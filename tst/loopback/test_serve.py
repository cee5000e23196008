"""Starting and stopping the server's process."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import pytest

from tinker_episodes import loopback

PYTHON = [sys.executable, "-W", "error", "-c"]
HOLD = """
import sys
from tinker_episodes import loopback
with loopback.serve(width=8, layers=1, threads=1) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v1/healthz", timeout=5) as response:
            return json.load(response) == {"status": "ok"}
    except OSError:
        return False


def children_of(parent: int) -> set[int]:
    """The processes that a process's main thread has started."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {int(child) for child in children}


def wait_until_gone(process: int) -> None:
    """Return when a process that is not ours has ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], 60)
    finally:
        os.close(descriptor)
    assert ended, f"process {process} lives on"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_its_parent(how: signal.Signals) -> None:
    parent = subprocess.Popen([*PYTHON, HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with parent:
        url = parent.stdout.readline().decode().strip()
        assert answers(url)
        (server,) = children_of(parent.pid)
        parent.send_signal(how)
        parent.wait()
        wait_until_gone(server)
        assert not answers(url)


def test_the_server_and_its_dummy_key_end_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    before = children_of(os.getpid())
    with loopback.serve(width=8, layers=1, threads=1) as url:
        assert answers(url)
        assert os.environ["TINKER_API_KEY"].startswith("tml-")
        (server,) = children_of(os.getpid()) - before
    wait_until_gone(server)
    assert not answers(url)
    assert "TINKER_API_KEY" not in os.environ


def test_the_server_stops_at_once_while_requests_run(tmp_path: Path) -> None:
    """A sample of 30,000 tokens and the client that waits for it hold nothing up."""
    config = {"port": 0, "width": 64, "layers": 2, "threads": 1}
    command = [sys.executable, "-m", "tinker_episodes.loopback", json.dumps(config)]
    pipe = subprocess.PIPE
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    ) as process:
        url = json.loads(process.stdout.readline())["url"]
        http = httpx.Client(base_url=f"{url}/api/v1", timeout=60)

        def post(endpoint: str, **body: object) -> dict[str, Any]:
            return http.post(endpoint, json=body).raise_for_status().json()

        session = post("create_session", tags=[], user_metadata=None, sdk_version="0")["session_id"]
        fields = {"session_id": session, "sampling_session_seq_id": 0}
        sampler = post("create_sampling_session", **fields, base_model=loopback.model_name())
        chunk = {"type": "encoded_text", "tokens": [1]}
        promised = post(
            "asample",
            **sampler | {"type": "sample"},
            prompt={"chunks": [chunk]},
            sampling_params={"max_tokens": 30_000, "stop": []},
        )
        waiting = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
        body = json.dumps({"request_id": promised["request_id"]})
        waiting.sendall(
            f"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: {url[7:]}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        http.get("healthz")  # by now the other request is being waited for
        http.close()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        answer = waiting.makefile().read()
        waiting.close()
    assert process.returncode == -signal.SIGTERM and errors == b""
    assert "200 OK" not in answer or "error" in answer
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-mine")
    with loopback.serve(width=8, layers=1, threads=1):
        assert os.environ["TINKER_API_KEY"] == "tml-mine"


def bad_starts(folder: Path, port: int) -> dict[str, tuple[dict[str, object], str]]:
    (folder / "file").write_text("x")
    (folder / "empty").mkdir()
    return {
        "port in use": ({"port": port}, f"port {port} can't be used: Address already in use"),
        "no port": ({"port": 70_000}, "port 70000 can't be used: a port is from 0 to 65535"),
        "no model": ({"model": str(folder / "none")}, "has no readable tokenizer.json"),
        "empty model": ({"model": str(folder / "empty")}, "has no readable tokenizer.json"),
        "root is a file": ({"root": str(folder / "file")}, "can't hold weights: File exists"),
        "root below a file": ({"root": str(folder / "file" / "x")}, "Not a directory"),
        "odd width": ({"width": 30, "heads": 4}, "width 30 is not a multiple of twice 4 heads"),
        "no layers": ({"layers": 0}, "at least one layer"),
    }


BAD_STARTS = (
    "port in use",
    "no port",
    "no model",
    "empty model",
    "root is a file",
    "root below a file",
    "odd width",
    "no layers",
)


@pytest.mark.parametrize("name", ["port in use", "no model"])
def test_a_block_whose_server_can_not_start_raises_why(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        fields, message = bad_starts(tmp_path, taken.getsockname()[1])[name]
        with (
            pytest.raises(loopback.LoopbackError, match=re.escape(message)),
            loopback.serve(**fields),
        ):
            pass


@pytest.mark.parametrize("name", BAD_STARTS)
def test_a_server_that_can_not_start_says_why_in_a_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        fields, message = bad_starts(tmp_path, taken.getsockname()[1])[name]
        config = loopback.LoopbackConfig(**{"port": 0} | fields)
        assert loopback.run(config) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("loopback: ") and printed.err.count("\n") == 1
    assert message in printed.err


def test_the_command_prints_how_to_use_it_and_stops_on_interrupt() -> None:
    code = "import sys; from tinker_episodes import loopback as l; "
    code += "sys.exit(l.run(l.LoopbackConfig(port=0, width=8, layers=1, threads=1)))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        first = process.stdout.readline()
        url = first.rpartition(" ")[2].strip()
        assert answers(url)
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
    assert f"TINKER_BASE_URL={url}" in out
    assert f"model_name={loopback.model_name()}" in out
    assert (process.returncode, err) == (0, "")


def test_importing_loopback_loads_no_torch() -> None:
    code = "import sys, tinker_episodes.loopback; "
    code += "sys.exit(bool({'torch', 'transformers', 'tinker', 'uvicorn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PLUGIN_TEST = """
import urllib.request
from pathlib import Path


def test_it(loopback):
    assert urllib.request.urlopen(loopback.url + "/api/v1/healthz").status == 200
    assert Path(loopback.model_name, "tokenizer.json").exists()
"""


def test_the_plugin_gives_a_server(tmp_path: Path) -> None:
    (tmp_path / "test_plugin.py").write_text(PLUGIN_TEST)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in run.stdout, run.stdout + run.stderr
