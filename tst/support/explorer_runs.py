"""Runs for the explorer's tests and pictures: two runs of a shop's support desk, with all that a
transcript can hold, filed as the trainer's side files them.
"""

from __future__ import annotations

import asyncio
import math
import random
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    ToolSetRecord,
)

BUNDLE = BundleRecord("shop_desk", "3", "c0ffee" * 6)
SYSTEM = (
    "You are the support desk of a small shop. Look up what you need with the tools.\n"
    "Change an order only after the customer has said yes. Never invent an order number."
)
TOOLS = ["find_order", "find_customer", "cancel_order", "change_address", "label_picture"]
WANTS = (
    ("cancel-late-order", "Please cancel order #W4471, it is two weeks late."),
    ("change-address", "I moved to 12 Elm Road, 04103 Leipzig. Can order #W2210 go there?"),
    ("two-orders", "Which of my orders, #W1180 and #W1181, comes first?"),
    ("wrong-size", "The jacket in #W7302 is too small. I would like the next size."),
    ("refund-status", "Where is the refund for #W9004?"),
    ("lost-parcel", "My parcel for #W3120 never came."),
)


def png(width: int = 96, height: int = 48) -> bytes:
    """A small picture: a gradient."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(
        b"\0" + bytes(v for x in range(width) for v in (x * 2 % 256, y * 4 % 256, 160))
        for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


PICTURE = ImageRecord.of(png(), "image/png", width=96, height=48)


def tool_set(names: Sequence[str]) -> ToolSetRecord:
    """Made-up specs: each tool's description and one parameter hold its name."""
    specs = tuple(
        {
            "name": name,
            "description": f"What {name} does.",
            "parameters": {"type": "object", "properties": {"of": {"title": name}}},
        }
        for name in names
    )
    return ToolSetRecord(f"{zlib.crc32(repr(names).encode()):x}", specs)


def prompt(text: str, system: str = SYSTEM, tools: Sequence[str] = TOOLS) -> dict[str, Any]:
    entry = {"kind": "prompt", "text": text, "system_prompt": system, "tools": list(tools)}
    return entry | {"tool_set": tool_set(tools).hash}


def reply(
    content: Any, *calls: tuple[str, Any], malformed: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    return {
        "kind": "reply",
        "content": content,
        "calls": [
            {"name": name, "id": None, "written": written, "typed": False}
            for name, written in calls
        ],
        "malformed": [{"text": text, "error": error} for text, error in malformed],
    }


def result(
    call_id: str, name: str, arguments: Any, content: Any, *, error: bool = False
) -> dict[str, Any]:
    return {
        "kind": "result",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "content": content,
        "error": error,
    }


def thinking(text: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": text}


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def desk_entries(order: str, want: str, *, solved: bool, slips: int) -> list[dict[str, Any]]:
    """A conversation of the support desk: it looks the order up, maybe slips, and answers."""
    found = f'{{"order": "{order}", "status": "on its way", "days_late": 14, "zip": "04103"}}'
    entries = [
        prompt(want),
        reply(
            [thinking(f"I need the order first. It is {order}."), text("Let me look that up.")],
            ("find_order", {"order": order, "with_items": "true"}),
        ),
        result("c0", "find_order", {"order": order, "with_items": True}, found),
    ]
    for slip in range(slips):
        entries += [
            reply("", ("find_customer", {"zip": "4103", "limit": "ten"})),
            result(
                f"s{slip}",
                "find_customer",
                None,
                "Error: limit: 'ten' is no integer; a whole number would be right",
                error=True,
            ),
        ]
    if solved:
        entries += [
            reply("", ("cancel_order", {"order": order, "reason": "late"})),
            result("c1", "cancel_order", {"order": order, "reason": "late"}, "cancelled"),
            reply(f"Order {order} is cancelled. The money comes back within five days."),
        ]
    else:
        entries.append(reply("I am sorry, I can't find anything about this order."))
    return entries


def turns_of(entries: Sequence[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    """Made-up tokens of the replies: one a word."""
    turns: list[dict[str, Any]] = []
    pieces: dict[int, str] = {}
    for entry in entries:
        if entry["kind"] != "reply":
            continue
        content = entry["content"]
        said = content if isinstance(content, str) else " ".join(p.get("text", "") for p in content)
        words = [f"{word} " for word in said.split()] or ["<tool_call>", "\n", "</tool_call>"]
        sampled = [zlib.crc32(word.encode()) % 50_000 for word in words]
        pieces.update(zip(sampled, words, strict=True))
        turns.append(
            {
                "extends": bool(turns),
                "observation": list(range(40)),
                "sampled": sampled,
                "logprobs": [-(abs(rng.gauss(0, 0.9)) ** 2) for _ in sampled],
                "reward": 0.0,
            }
        )
    return {"turns": turns, "pieces": {str(token): piece for token, piece in pieces.items()}}


def desk_rollout(key: str, place: int, order: str, want: str, skill: float, seed: int) -> Rollout:
    """One play of a task, the better the higher `skill` is."""
    rng = random.Random(seed)
    if rng.random() < 0.03:
        why = "tool 'find_order': ConnectionError: the shop's database is away"
        entries = [prompt(want), reply("", ("find_order", {"order": order}))]
        return Rollout(
            key,
            place,
            Status.FAILED,
            None,
            reason=why,
            transcript={"entries": entries},
            tool_sets=(tool_set(TOOLS),),
        )
    solved = rng.random() < skill
    slips = rng.choice([0, 0, 1, 2]) if rng.random() > skill / 2 else 0
    cut = None if solved or rng.random() < skill + 0.3 else rng.choice(["length", "max_turns"])
    entries = desk_entries(order, want, solved=solved, slips=slips)
    if cut is not None:
        entries = entries[:-1]
    value = 1.0 if solved else round(rng.choice([0.0, 0.0, 0.25, 0.5]), 2)
    scores = (
        ScoreRecord(
            "resolved",
            value,
            "The order stands as the customer asked." if solved else "The order was not changed.",
            {"calls": [len([e for e in entries if e["kind"] == "result"]) - 1], "order": order},
        ),
        ScoreRecord("polite", round(0.5 + rng.random() / 2, 3), "", {"messages": [1]}),
    )
    changes = [{"table": "orders", "key": order, "before": {"status": "on its way", "late": True},
                "after": {"status": "cancelled", "late": True}}] if solved else []  # fmt: skip
    transcript = {"entries": entries, "changes": changes, **turns_of(entries, rng)}
    results = [entry for entry in entries if entry["kind"] == "result"]
    return Rollout(
        key,
        place,
        Status.FINISHED if cut is None else Status.CUT,
        value,
        cut=cut,
        scores=scores,
        turns=len(transcript["turns"]),
        messages=len(entries),
        tool_calls=len(results),
        tool_errors=sum(entry["error"] for entry in results),
        sampled_tokens=sum(len(turn["sampled"]) for turn in transcript["turns"]),
        observation_tokens=60 * len(entries),
        opened_at=time.time() - 600,
        duration_s=round(2 + rng.random() * 20, 2),
        transcript=transcript,
        tool_sets=(tool_set(TOOLS),),
    )


def desk_groups(
    attempt: Attempt, steps: int, size: int, seed: int
) -> Iterator[tuple[Group, list[Rollout]]]:
    """The groups of a run that learns, training and an eval before every fourth step."""
    rng = random.Random(seed)
    run = Path(attempt.log_path).name
    for step in range(attempt.start_step, steps):
        skill = 0.12 + 0.75 / (1 + math.exp(-(step - steps * 0.45) / (steps * 0.12)))
        for split in [Split.EVAL, Split.TRAIN] if step % 4 == 0 else [Split.TRAIN]:
            for at, (task, want) in enumerate(WANTS[:2] if split is Split.EVAL else WANTS):
                name = f"{run}{attempt.start_step}{split.value[0]}{step:03d}{at}"
                group = Group(
                    attempt,
                    f"g{name}",
                    split,
                    step,
                    BUNDLE,
                    task,
                    ("desk", "easy" if at < 3 else "hard"),
                )
                order = want[want.index("#") :].split()[0].rstrip(".,?")
                hardness = min(0.98, max(0.02, skill + (0.12 if at < 3 else -0.15)))
                yield (
                    group,
                    [
                        desk_rollout(
                            f"r{name}{place}", place, order, want, hardness, rng.randrange(2**32)
                        )
                        for place in range(size if split is Split.TRAIN else 2)
                    ],
                )


def file_groups(url: str, groups: Iterator[tuple[Group, list[Rollout]]]) -> None:
    """File them through the writer that training uses."""

    async def file_all(writer: IndexWriter) -> None:
        for group, rollouts in groups:
            await writer.file(group, rollouts)

    writer = IndexWriter(url)
    try:
        with ThreadPoolExecutor(1) as pool:  # the browser's driver runs a loop in the tests' thread
            pool.submit(asyncio.run, file_all(writer)).result()
    finally:
        writer.close()


def desk_index(folder: Path, *, steps: int = 16, size: int = 6) -> str:
    """An index with two runs, the second one resumed; its URL."""
    url = f"sqlite:///{folder / 'episodes.db'}"
    first = Attempt(str(folder / "baseline"), "token-a", 0)
    second = Attempt(str(folder / "careful"), "token-b", 0)
    resumed = Attempt(str(folder / "careful"), "token-c", steps // 2)
    file_groups(url, desk_groups(first, steps, size, 1))
    file_groups(url, desk_groups(second, steps // 2 + 1, size, 2))
    file_groups(url, desk_groups(resumed, steps, size, 3))
    return url
