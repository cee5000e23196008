"""Starting the server: in a process of its own for a `with` block, or in this one for a command."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from typing import IO

from tinker_episodes.loopback.config import LoopbackConfig, model_name
from tinker_episodes.loopback.errors import LoopbackError

_DUMMY_KEY = "tml-loopback"
_STOP_S = 10.0


@contextlib.contextmanager
def serve(
    port: int = 0,
    *,
    root: str | None = None,
    model: str | None = None,
    seed: int = 0,
    width: int = 64,
    layers: int = 2,
    heads: int = 2,
    threads: int | None = None,
) -> Generator[str]:
    """Run a loopback server for the length of a `with` block; yields its base URL.

    It is a process of its own, on 127.0.0.1. It ends with the block, or when this process dies.
    `root` keeps saved weights (by default they go with the server), `model` is the folder of a
    tokenizer. TINKER_API_KEY is set to a dummy for the block if it is unset, as the SDK wants one;
    the server takes any. A server that can't start raises `LoopbackError`.
    """
    config = LoopbackConfig(
        port=port,
        root=root,
        model=model,
        seed=seed,
        width=width,
        layers=layers,
        heads=heads,
        threads=threads,
    )
    with _process(config) as url, _api_key():
        yield url


def run(config: LoopbackConfig) -> int:
    """Serve in this process until Ctrl-C; the exit code. What goes wrong is one line."""
    from tinker_episodes.loopback.server import describe, run_server

    def announce(url: str) -> None:
        print(describe(url, config.model or model_name()), flush=True)

    try:
        run_server(config, announce)
    except LoopbackError as error:
        print(f"loopback: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


@contextlib.contextmanager
def _process(config: LoopbackConfig) -> Generator[str]:
    """The server's process. It watches its stdin, whose end tells it that this process is gone."""
    command = [sys.executable, "-m", "tinker_episodes.loopback", json.dumps(_fields(config))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    try:
        url = _announced(process.stdout)
        with urllib.request.urlopen(f"{url}/api/v1/healthz", timeout=60):
            pass
        yield url
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _announced(output: IO[bytes]) -> str:
    """The URL from the first line of the server's output."""
    try:
        message = json.loads(output.readline())
    except ValueError as error:
        raise LoopbackError("the server ended before it answered; see its output above") from error
    if "error" in message:
        raise LoopbackError(message["error"])
    return message["url"]


def _fields(config: LoopbackConfig) -> dict[str, object]:
    return {
        "port": config.port,
        "root": config.root,
        "model": config.model,
        "seed": config.seed,
        "width": config.width,
        "layers": config.layers,
        "heads": config.heads,
        "threads": config.threads,
    }


@contextlib.contextmanager
def _api_key() -> Generator[None]:
    if os.environ.get("TINKER_API_KEY"):
        yield
        return
    os.environ["TINKER_API_KEY"] = _DUMMY_KEY
    try:
        yield
    finally:
        os.environ.pop("TINKER_API_KEY", None)
