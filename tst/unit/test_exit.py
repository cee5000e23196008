"""A blocking tool that hangs holds neither other episodes nor the interpreter's exit."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, sys, threading
from tinker_episodes import Call, Environment, Episode, EpisodeFailed, Message, Task, scorer, tool

class Stuck(Environment):
    tool_timeout_s = 0.01

    @tool(blocking=True)
    def wait(self) -> str:
        threading.Event().wait()
        return ""

    @scorer
    def one(self) -> float:
        return 1.0

async def play():
    episode = Episode(Stuck, Task.of("t", "Go."))
    await episode.open()
    episode.record(Message("assistant", "", (Call("wait", {}),)))
    try:
        await episode.run_calls()
    except EpisodeFailed as error:
        return str(error)

async def free():
    episode = Episode(Stuck, Task.of("t", "Go."))
    await episode.open()
    return (await episode.close()).reward

async def main():
    stuck = await asyncio.gather(*(play() for _ in range(100)))  # more than any pool has threads
    rewards = await asyncio.gather(*(free() for _ in range(100)))
    hanging = sum(t.name == "tinker-episodes-tool" for t in threading.enumerate())
    print(sum("took longer" in text for text in stuck), sum(rewards), hanging)

asyncio.run(main())
"""


def test_tools_that_block_for_ever_starve_no_scoring_and_let_the_interpreter_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["100", "100.0", "100"], "")
