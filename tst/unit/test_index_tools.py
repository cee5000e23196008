"""The specs of tools: stored once an index, and read with each rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.index_records import make_group, make_rollout, rows_of

from tinker_episodes.index import IndexWriter, ToolSetRecord
from tinker_episodes.index.reading import IndexReader

ODD = "a\ud800b\0c\u2028é"


async def test_tools_of_prompts_are_stored_once_and_come_back_with_each_rollout(
    writer: IndexWriter, url: str, reader: Callable[[], IndexReader]
) -> None:
    look = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
    odd = {
        "name": "odd",
        "description": f"{ODD}<b>",
        "parameters": {ODD: [None, 1.5, {"$ref": ODD}]},
    }
    one, two = ToolSetRecord("one", (look,)), ToolSetRecord("two", (look, odd))

    def prompts(*sets: ToolSetRecord) -> dict[str, Any]:
        rest = {"kind": "prompt", "text": "", "system_prompt": "", "tools": []}
        return {"entries": [rest | {"tool_set": one.hash} for one in sets]}

    await writer.file(
        make_group(),
        [
            make_rollout("r1", transcript=prompts(one), tool_sets=(one,)),
            make_rollout("r2", transcript=prompts(one, two, one), tool_sets=(one, two)),
        ],
    )
    last = [make_rollout("r3", transcript=prompts(two), tool_sets=(two,)), make_rollout("r4")]
    await writer.file(make_group("g2"), last)
    assert rows_of(url, "select hash from tool_sets order by hash") == [("one",), ("two",)]
    pages = [reader().rollout(key) for key in ("r1", "r2", "r3", "r4")]
    assert [page and page.tool_sets for page in pages] == [
        {"one": [look]},
        {"one": [look], "two": [look, odd]},
        {"two": [look, odd]},
        {},
    ]


async def test_tools_are_stored_by_who_files_them_first(
    writer: IndexWriter, url: str, reader: Callable[[], IndexReader]
) -> None:
    other = IndexWriter(url)
    known = ToolSetRecord("h", ({"name": "t", "description": "", "parameters": {}},))
    await other.file(make_group("g1"), [make_rollout("r1", tool_sets=(known,))])
    await writer.file(make_group("g2"), [make_rollout("r2", tool_sets=(known,))])
    other.close()
    assert rows_of(url, "select count(*) from tool_sets") == [(1,)]
