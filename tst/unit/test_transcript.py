from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tinker_episodes import (
    Call,
    CallResult,
    Environment,
    Image,
    Message,
    Text,
    Thinking,
    scorer,
    tool,
)
from tinker_episodes.environment import read_environment
from tinker_episodes.message import MalformedCall
from tinker_episodes.transcript import Answered, Entry, Prompted, Replied, Told, Transcript

ODD = "a\ud800b\0é\u2028"


def _json(entry: Entry) -> Any:
    transcript = Transcript()
    transcript.add(entry)
    written = transcript.to_json()
    assert json.loads(json.dumps(written)) == written
    return written[0]


class Sums(Environment):
    @tool
    def a(self) -> str:
        """One."""
        return ""

    @tool(schema={"type": "object", "properties": {"x": {"type": "string", "title": ODD}}})
    def b(self, x: str) -> str:
        """Two."""
        return x

    @scorer
    def done(self) -> bool:
        return True


def test_a_prompt_names_its_system_prompt_and_tools() -> None:
    tools = read_environment(Sums).offered(["b", "a"])
    assert _json(Prompted("Go.", ODD, tools)) == {
        "kind": "prompt",
        "text": "Go.",
        "system_prompt": ODD,
        "tools": ["b", "a"],
        "tool_set": tools.hash,
    }


def test_tools_of_prompts_are_told_each_set_once_with_what_the_model_reads() -> None:
    environment, transcript = read_environment(Sums), Transcript()
    for names in (["a", "b"], ["b"], ["a", "b"], ["b", "a"]):
        transcript.add(Prompted("Go.", "", environment.offered(names)))
    both, second, other_way = transcript.tool_sets()
    a, b = both.specs
    assert a == {
        "name": "a",
        "description": "One.",
        "parameters": environment.tools["a"].schema,
    }
    assert b["parameters"]["properties"] == {"x": {"type": "string", "title": ODD}}
    assert (second.specs, other_way.specs) == ((b,), (b, a))
    assert len({both.hash, second.hash, other_way.hash}) == 3


def test_a_reply_keeps_calls_as_they_were_written() -> None:
    calls = (Call("f", {"x": "05"}, typed=False, id="c1"), Call("g", "[1", id=None))
    assert _json(Replied(Message("assistant", ODD, calls))) == {
        "kind": "reply",
        "content": ODD,
        "calls": [
            {"name": "f", "id": "c1", "written": {"x": "05"}, "typed": False},
            {"name": "g", "id": None, "written": "[1", "typed": True},
        ],
        "malformed": [],
    }


def test_a_reply_keeps_what_meant_to_be_a_call() -> None:
    message = Message("assistant", "", malformed=(MalformedCall("<tool_call>", "not closed"),))
    assert _json(Replied(message))["malformed"] == [{"text": "<tool_call>", "error": "not closed"}]


def test_an_answer_has_the_arguments_as_the_tool_got_them() -> None:
    answered = Answered(Call("f", {"x": "5"}), {"x": 5}, CallResult("call_1", "f", "ok"))
    assert _json(answered) == {
        "kind": "result",
        "call_id": "call_1",
        "name": "f",
        "arguments": {"x": 5},
        "content": "ok",
        "error": False,
    }


def test_an_answer_of_a_call_that_did_not_run_has_no_arguments() -> None:
    answered = Answered(Call("f", {}), None, CallResult("call_1", "f", "no", error=True))
    assert (_json(answered)["arguments"], _json(answered)["error"]) == (None, True)


def test_a_note_is_its_text() -> None:
    assert _json(Told(ODD)) == {"kind": "note", "text": ODD}


@pytest.mark.parametrize("data", [b"", b"\x00\xff\x89PNG"])
def test_an_image_stands_by_its_hash(data: bytes) -> None:
    content = (Text(ODD), Thinking("t"), Image(data, "image/png"))
    written = _json(Replied(Message("assistant", content)))["content"]
    assert written[:2] == [{"type": "text", "text": ODD}, {"type": "thinking", "thinking": "t"}]
    assert written[2] == {
        "type": "image",
        "media_type": "image/png",
        "hash": hashlib.sha256(data).hexdigest(),
        "width": None,
        "height": None,
        "bytes": len(data),
    }


def test_images_of_results_are_told_each_once() -> None:
    transcript = Transcript()
    red, blue = Image(b"red", "image/png"), Image(b"blue", "image/png")
    for content in ("text", (red, Text("a"), blue), (Image(b"red", "image/png"),)):
        transcript.add(Answered(Call("f", {}), {}, CallResult("call_1", "f", content)))
    assert transcript.images() == (red, blue)


def test_entries_stand_in_their_order() -> None:
    transcript = Transcript()
    for text in ("one", "two"):
        transcript.add(Told(text))
    assert [entry["text"] for entry in transcript.to_json()] == ["one", "two"]
