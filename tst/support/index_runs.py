"""An index with a few varied runs, as the pages of an explorer need them: no trainer plays them.

index = make_runs(tmp_path)     # {"first": ..., "second": ...} are its runs

`first` plays number_search for eight steps, with evals, and resumed at step 5; `second` plays
another bundle for three steps, with images, and its trainer wrote summaries. Everything is made
from a seed: the same each time, but for the times of filing.
"""

from __future__ import annotations

import asyncio
import random
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinker_episodes.index import (
    Attempt,
    BundleRecord,
    Group,
    ImageRecord,
    IndexWriter,
    Rollout,
    ScoreRecord,
    Split,
    Status,
    Summary,
    SummaryFile,
    ToolSetRecord,
)

NUMBERS = BundleRecord("number_search", "1", "a" * 64)
SHOP = BundleRecord("shop", "2.1", "b" * 64)
SHOP_TOOLS = ToolSetRecord(
    "c" * 32,
    (
        {"name": "find_order", "description": "Find an order.", "parameters": {"type": "object"}},
        {"name": "exchange", "description": "Exchange it.", "parameters": {"type": "object"}},
    ),
)
SYSTEM = "You find a hidden number. Call guess until it answers that you are right."


@dataclass(frozen=True, slots=True)
class Runs:
    """The index that was made."""

    url: str
    folder: Path
    first: str = "first"
    second: str = "second"


def make_runs(folder: Path, *, size: int = 6, steps: int = 8, url: str | None = None) -> Runs:
    """Fill an index, by default in a folder: two runs, three attempts, groups of every kind."""
    url = url or f"sqlite:///{folder / 'episodes.db'}"
    writer = IndexWriter(url)
    try:
        asyncio.run(_fill(writer, folder, size, steps))
    finally:
        writer.close()
    return Runs(url, folder)


def make_step(writer: IndexWriter, folder: Path, step: int, *, size: int = 6) -> None:
    """One more step of the run `first`, as a trainer that goes on files it."""
    asyncio.run(_file_numbers(writer, _first(folder, 2, 5), step, size))


async def _fill(writer: IndexWriter, folder: Path, size: int, steps: int) -> None:
    for step in range(steps - 1):
        await _file_numbers(writer, _first(folder, 1, 0), step, size)
    for step in range(5, steps):
        await _file_numbers(writer, _first(folder, 2, 5), step, size)
    attempt = Attempt(str(folder / "second"), f"{folder}-second-1", 0)
    files = [await _file_shop(writer, attempt, step, size) for step in range(3)]
    writer.follow(attempt.log_path, lambda known: [f for f in files if f.name not in known])
    await writer.file(Group(attempt, "shop-none", Split.TRAIN, 3, SHOP, "exchange-1", ()), [])


def _first(folder: Path, number: int, start: int) -> Attempt:
    return Attempt(str(folder / "first"), f"{folder}-first-{number}", start)


# ---------------------------------------------------------------- number_search


async def _file_numbers(writer: IndexWriter, attempt: Attempt, step: int, size: int) -> None:
    number = attempt.token[-1]
    for at in range(4):
        key = f"first{number}s{step}t{at}"
        group = Group(attempt, key, Split.TRAIN, step, NUMBERS, f"w31-{at}", ("easy",))
        chance = random.Random(key)
        await writer.file(group, [_numbers(key, n, step, at, chance) for n in range(size)])
    if step % 2 == 0:
        for at in range(2):
            key = f"first{number}e{step}t{at}"
            group = Group(attempt, key, Split.EVAL, step, NUMBERS, f"w64-{at}", ("hard", "held"))
            await writer.file(group, [_numbers(key, 0, step, at, random.Random(key))])


def _numbers(key: str, place: int, step: int, at: int, chance: random.Random) -> Rollout:
    """A play: the later the step, the more often it finds the number. The task 3 is never found."""
    number = chance.randrange(32)
    found = at != 3 and chance.random() < 0.2 + 0.1 * step
    kind = chance.random()
    status = Status.FINISHED
    cut = reason = None
    if not found and kind < 0.3:
        status, cut = Status.CUT, chance.choice(["length", "turns", "parse_error"])
    elif not found and kind < 0.36:
        status, reason = Status.FAILED, "tool 'guess' raised KeyError: 'number'"
    elif not found and kind < 0.4:
        status, reason = Status.ABANDONED, "its group ended"
    scored = status in (Status.FINISHED, Status.CUT)
    entries, turns, errors = _guesses(number, found, chance)
    return Rollout(
        key=f"{key}r{place}",
        place=place,
        status=status,
        reward=float(found) if scored else None,
        cut=cut,
        reason=reason or "",
        scores=_number_scores(found, number, len(entries)) if scored else (),
        turns=len(turns),
        messages=len(entries),
        tool_calls=len(turns),
        tool_errors=errors,
        format_errors=int(cut == "parse_error"),
        sampled_tokens=sum(len(turn["sampled"]) for turn in turns),
        observation_tokens=sum(len(turn["observation"]) for turn in turns),
        opened_at=1_700_000_000.0 + 60 * step + place,
        duration_s=0.5 + chance.random(),
        transcript={
            "entries": entries,
            "changes": [
                {"table": "games", "key": "1", "before": {"found": False}, "after": {"found": True}}
            ]
            if found
            else [],
            "turns": turns,
            "pieces": {token: f" w{token}" for turn in turns for token in turn["sampled"]},
        },
    )


def _number_scores(found: bool, number: int, last: int) -> tuple[ScoreRecord, ...]:
    return (
        ScoreRecord(
            "found",
            float(found),
            f"the number was {number}; {'found' if found else 'not found'}",
            {"number": number, "messages": [last - 1]},
        ),
        ScoreRecord("quick", max(0.0, 1 - last / 12), "fewer guesses are better", {}),
    )


def _guesses(
    number: int, found: bool, chance: random.Random
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    entries: list[dict[str, Any]] = [
        {
            "kind": "prompt",
            "text": "The number is from 0 to 31.",
            "system_prompt": SYSTEM,
            "tools": ["guess"],
        }
    ]
    turns: list[dict[str, Any]] = []
    errors, low, high = 0, 0, 31
    for turn in range(chance.randrange(2, 6)):
        guess = (low + high) // 2
        wrong = chance.random() < 0.1
        written = {"number": "about twenty" if wrong else str(guess)}
        entries.append(_reply(f"Halve {low} to {high}.", f"I try {guess}.", "guess", written))
        said = "too low" if guess < number else "too high"
        low, high = (guess + 1, high) if guess < number else (low, guess - 1)
        if wrong:
            said, errors = "number: 'about twenty' is no integer", errors + 1
        entries.append(_result(f"call-{turn}", "guess", {"number": guess}, said, error=wrong))
        turns.append(_turn(turn, chance))
        if low > high:
            break
    if found:
        entries.append(_reply("It must be that one.", "", "guess", {"number": str(number)}))
        entries.append(_result("call-last", "guess", {"number": number}, "right"))
        turns.append(_turn(len(turns), chance))
    return entries, turns, errors


# ---------------------------------------------------------------- shop, with images


async def _file_shop(writer: IndexWriter, attempt: Attempt, step: int, size: int) -> SummaryFile:
    summaries: list[Summary] = []
    for at in range(3):
        key = f"shop{step}t{at}"
        chance = random.Random(key)
        group = Group(attempt, key, Split.TRAIN, step, SHOP, f"exchange-{at}", ("retail",))
        rollouts = [_shop(key, place, chance) for place in range(size)]
        await writer.file(group, rollouts)
        summaries += [
            Summary(r.key, step, max(0, step - 1), min(r.reward or 0.0, 1.0), trained=True)
            for r in rollouts
        ]
    name = f"iteration_{step:06d}/train_rollout_summaries.jsonl"
    return SummaryFile(name, 100, tuple(summaries))


def _shop(key: str, place: int, chance: random.Random) -> Rollout:
    picture = ImageRecord.of(png(chance.randrange(3)), "image/png", width=8, height=8)
    reward = chance.choice([0.0, 0.25, 0.5, 1.0, 1.5])
    seen = [
        {"type": "text", "text": "The parcel as it came:"},
        {
            "type": "image",
            "media_type": picture.media_type,
            "hash": picture.hash,
            "width": 8,
            "height": 8,
        },
    ]
    entries = [
        {
            "kind": "prompt",
            "text": "The customer wants another colour of boots.",
            "system_prompt": "You work in a shop.",
            "tools": ["find_order", "exchange"],
            "tool_set": SHOP_TOOLS.hash,
        },
        _reply("Look at the order first.", "", "find_order", {"order": "#W19122"}),
        _result("call-0", "find_order", {"order": "#W19122"}, seen),
        _reply("", "Done: <b>blue</b> boots are on their way.", "exchange", {"to": "blue"}),
        _result("call-1", "exchange", {"to": "blue"}, '{"status": "exchanged"}'),
        {"kind": "note", "text": "The prompt got no further reply."},
    ]
    return Rollout(
        key=f"{key}r{place}",
        place=place,
        status=Status.FINISHED,
        reward=reward,
        scores=(ScoreRecord("goal", reward, "orders are as they should be", {"orders": 1}),),
        turns=2,
        messages=len(entries),
        tool_calls=2,
        sampled_tokens=40,
        observation_tokens=200,
        transcript={
            "entries": entries,
            "changes": [{"table": "orders", "key": "#W19122", "before": None, "after": {"n": 1}}],
            "turns": [_turn(0, chance), _turn(1, chance)],
        },
        images=(picture,),
        tool_sets=(SHOP_TOOLS,),
    )


def png(shade: int) -> bytes:
    """A picture of 8 by 8 pixels in one shade of grey."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        sum_ = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + sum_

    rows = b"".join(b"\0" + bytes([60 * shade + 40]) * 8 for _ in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


# ---------------------------------------------------------------- entries


def _reply(thinking: str, text: str, tool: str, written: dict[str, str]) -> dict[str, Any]:
    parts = [{"type": "thinking", "thinking": thinking}, {"type": "text", "text": text}]
    call = {"name": tool, "id": None, "written": written, "typed": False}
    return {"kind": "reply", "content": parts, "calls": [call], "malformed": []}


def _result(
    call: str, tool: str, arguments: dict[str, Any], content: Any, *, error: bool = False
) -> dict[str, Any]:
    return {
        "kind": "result",
        "call_id": call,
        "name": tool,
        "arguments": None if error else arguments,
        "content": content,
        "error": error,
    }


def _turn(turn: int, chance: random.Random) -> dict[str, Any]:
    sampled: Sequence[int] = [chance.randrange(1000) for _ in range(20)]
    return {
        "extends": True,
        "observation": [chance.randrange(1000) for _ in range(40 if turn == 0 else 12)],
        "sampled": sampled,
        "logprobs": [-chance.random() * 3 for _ in sampled],
        "reward": 0.0,
    }
