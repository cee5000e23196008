"""Makes the retail bundle from a copy of tau2-bench's data.

    python examples/tau2_retail/make_bundle.py data=tau2-bench/data/tau2/domains/retail out=retail

It replays every task's gold actions, so that each task is tagged by what it changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import chz
from tau2_data import SPLITS, TABLES, DataError, Instructions, Source, SourceTask, read_source

from tinker_episodes import Bundle, BundleError, Call, Episode, EpisodesError, Message
from tinker_episodes.bundle import read_bundle

_CODE = Path(__file__).with_name("code").resolve()
"""What every such bundle has in common."""
_NAME = "tau2_retail"
_INTRODUCTION = (
    "Below is what a user of the shop wants and knows; in it, 'you' is the user. It is all that "
    "the user says: nobody answers questions. Where the policy has you ask, go on as if you had "
    "asked and the user had answered as it stands here. Look up what you need, and act with your "
    "tools."
)
_UNCHANGED = "unchanged"
_TAGS = {
    "cancel_pending_order": "cancel",
    "exchange_delivered_order_items": "exchange",
    "modify_pending_order_address": "order_address",
    "modify_pending_order_items": "modify_items",
    "modify_pending_order_payment": "modify_payment",
    "modify_user_address": "user_address",
    "return_delivered_order_items": "return",
}


class MakeError(Exception):
    """Why the bundle can't be made, in one line."""


# ---------------------------------------------------------------- the bundle's files


def prompt_of(instructions: Instructions) -> str:
    """The whole request at once: there is no simulated user to ask."""
    parts = [
        _INTRODUCTION,
        _part("What the user wants", instructions.reason_for_call),
        _part("What the user knows", instructions.known_info),
        _part("What the user does not know", instructions.unknown_info),
        _part("How the user decides and behaves", instructions.task_instructions),
    ]
    return "\n\n".join(part for part in parts if part)


def _part(title: str, text: str | None) -> str:
    """One part of a request; nothing where the benchmark has no more than a full stop."""
    bare = (text or "").strip()
    return f"{title}: {bare}" if any(sign.isalnum() for sign in bare) else ""


def write_files(source: Source, tags: Mapping[str, Sequence[str]], folder: Path) -> None:
    """The whole bundle, into an empty or a made folder."""
    for file in sorted(_CODE.iterdir()):
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    (folder / "policy.md").write_text(source.policy, encoding="utf-8")
    for part in ("universe", "tasks"):
        (folder / part).mkdir(exist_ok=True)
    for table in TABLES:
        text = json.dumps(source.database[table])
        (folder / "universe" / f"{table}.json").write_text(text, encoding="utf-8")
    for split in SPLITS:
        chosen = set(source.splits[split])
        lines = [_line(task, tags) for task in source.tasks if task.id in chosen]
        (folder / "tasks" / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")


def _line(task: SourceTask, tags: Mapping[str, Sequence[str]]) -> str:
    actions = [action.model_dump() for action in task.evaluation_criteria.actions]
    value = {
        "id": task.id,
        "prompt": prompt_of(task.user_scenario.instructions),
        "params": {"actions": actions},
        "tags": list(tags.get(task.id, ())),
    }
    return json.dumps(value) + "\n"


async def tags_of(bundle: Bundle, source: Source) -> dict[str, tuple[str, ...]]:
    """Each task's tags, from an episode that plays its gold actions."""
    found: dict[str, tuple[str, ...]] = {}
    for task in source.tasks:
        calls = tuple(Call(a.name, a.arguments) for a in task.evaluation_criteria.actions)
        episode = Episode(bundle.environment, bundle.tasks[task.id], data=bundle.universe)
        await episode.open()
        episode.record(Message("assistant", "", calls))
        results = await episode.run_calls()
        done = {r.name for r in results if not r.error}
        outcome = await episode.close()
        kinds = tuple(tag for name, tag in _TAGS.items() if name in done)
        found[task.id] = kinds if outcome.changes else (_UNCHANGED,)
    return found


# ---------------------------------------------------------------- the command


def make(data: Path, out: Path) -> dict[str, tuple[str, ...]]:
    """Make the bundle in `out`. Gives each task's tags.

    Raises:
        DataError: the data is not right.
        MakeError: the folder is not, or the tasks do not fit the tools. Nothing is written then.
    """
    source = read_source(data)
    _refuse_other(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".retail-", dir=out.parent) as made:
        staged = Path(made).resolve()
        write_files(source, {}, staged)
        try:
            tags = asyncio.run(tags_of(read_bundle(staged), source))
            write_files(source, tags, staged)
            read_bundle(staged)
        except BundleError as error:
            raise MakeError(f"{data}: {error.problems[0]}") from error
        except EpisodesError as error:
            raise MakeError(f"{data}: {error}") from error
        _move(staged, out)
    return tags


def _refuse_other(out: Path) -> None:
    """Only an absent or empty folder, or one that this command made, is written to."""
    if out.resolve() == _CODE:
        raise MakeError(f"{out} holds the bundle's source; choose another folder")
    if out.exists() and not out.is_dir():
        raise MakeError(f"{out} is a file; choose a folder")
    if not out.is_dir() or not any(out.iterdir()):
        return
    try:
        name = tomllib.loads((out / "bundle.toml").read_text(encoding="utf-8")).get("name")
    except (OSError, ValueError):
        name = None
    if name != _NAME:
        raise MakeError(f"{out} is not empty and holds no {_NAME} bundle; choose another folder")


def _move(staged: Path, out: Path) -> None:
    """Put each made file in its place. Whatever else is in `out` stays."""
    for file in sorted(staged.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            target = out / file.relative_to(staged)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)  # noqa: PTH105 - Path.replace is the same


def main(data: str, out: str) -> None:
    """Make the bundle.

    Args:
        data: The folder with the benchmark's db.json, tasks.json, split_tasks.json and policy.md.
        out: The folder to make.
    """
    try:
        tags = make(Path(data).expanduser(), Path(out).expanduser())
    except (DataError, MakeError) as error:
        sys.exit(f"make_bundle: {error}")
    except OSError as error:
        sys.exit(f"make_bundle: {error.filename or out}: {error.strerror}")
    unchanged = sum(_UNCHANGED in of_task for of_task in tags.values())
    print(f"{out}: {len(tags)} tasks; in {unchanged} of them the right thing is to change nothing")
    print(f"next: tinker-episodes check {out if os.sep in out else './' + out}")


if __name__ == "__main__":
    chz.entrypoint(main)
