"""Trainers in processes of their own that are killed at a moment or after a time.

All are forked from one process that has imported the host, so that a trainer starts in no time.
"""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

_TST = Path(__file__).parents[1]
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["support.preloaded"])


@dataclass(frozen=True)
class Kill:
    """When a trainer is killed: at the n-th thing that it writes, or after a time."""

    moment: int | None = None
    seconds: float | None = None


def train_until(kill: Kill, output: Path, server: str, log_path: Path, **settings: Any) -> bool:
    """Start the trainer, or resume it, and tell whether it came to its end."""
    process = _context.Process(
        target=_train, args=(kill.moment, str(output), server, str(log_path), settings)
    )
    with _importable():
        process.start()
    process.join(kill.seconds)
    process.kill()
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise AssertionError(output.read_text()[-4000:])
    return process.exitcode == 0


@contextmanager
def _importable() -> Iterator[None]:
    """The process that is forked from finds its imports by the environment alone."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_TST), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _train(
    moment: int | None, output: str, server: str, log_path: str, settings: dict[str, Any]
) -> None:
    from tinker_cookbook.rl import train

    from support.training import config

    file = Path(output).open("w")  # noqa: SIM115 - for the life of the process
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    os.environ["TINKER_API_KEY"] = "tml-loopback"
    _count_moments(log_path, _killer(moment))
    asyncio.run(train.main(config(server, log_path, **settings)))
    atexit._run_exitfuncs()  # as any script's; this kind of process leaves it out


def _killer(moment: int | None) -> Callable[[], None]:
    lock, count = threading.Lock(), [0]

    def happened(*_: Any) -> None:
        with lock:
            count[0] += 1
            if count[0] == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    return happened


def _count_moments(log_path: str, happened: Callable[[], None]) -> None:
    """Call back before each file of the trainer's is opened, and around each transaction."""

    def audit(name: str, args: tuple[Any, ...]) -> None:
        if name == "open" and isinstance(args[0], str) and args[0].startswith(log_path):
            happened()

    sys.addaudithook(audit)
    for name in ("begin", "commit"):
        event.listen(Engine, name, happened)
