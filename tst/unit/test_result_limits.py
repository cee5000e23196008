"""A long result is cut for the model, with its size said, and kept for the record."""

from __future__ import annotations

from typing import Any

from support.episodes import PIXEL, Speaker, contents, opened, run_calls

from tinker_episodes import Call, Image, Text, tool
from tinker_episodes.index.packing import packed, unpacked


class Long(Speaker):
    result_limit = 10
    recorded_result_limit = 1000

    @tool
    def dump(self, size: int) -> str:
        return "x" * size

    @tool
    def parts(self) -> Any:
        return [Text("abcdef"), PIXEL, Text("ghijkl"), Text("mn")]


def dump(size: int) -> Call:
    return Call("dump", {"size": size})


async def test_result_within_the_limit_is_whole() -> None:
    episode = await opened(Long)
    assert contents(await run_calls(episode, dump(10))) == ["x" * 10]
    assert "whole" not in episode.transcript.to_json()[-1]


async def test_long_result_is_cut_for_the_model_and_kept_in_the_record() -> None:
    episode = await opened(Long)
    (shown,) = contents(await run_calls(episode, dump(900)))
    assert shown == "x" * 10 + "\n[cut: these are the first 10 of 900 characters]"
    entry = episode.transcript.to_json()[-1]
    assert entry["content"] == shown and entry["whole"] == "x" * 900


async def test_huge_result_is_bounded_in_the_record_too() -> None:
    episode = await opened(Long)
    await run_calls(episode, dump(50_000_000))
    transcript = {"entries": episode.transcript.to_json()}
    body = packed(transcript)
    assert len(body) < 2_000 and unpacked(body) == transcript
    whole = transcript["entries"][-1]["whole"]
    assert whole == "x" * 1000 + "\n[cut: these are the first 1000 of 50000000 characters]"


async def test_parts_share_the_limit_and_images_stay() -> None:
    episode = await opened(Long)
    (shown,) = contents(await run_calls(episode, Call("parts", {})))
    texts = [part.text for part in shown if isinstance(part, Text)]
    assert texts == ["abcdef", "ghij", "", "\n[cut: these are the first 10 of 14 characters]"]
    assert any(isinstance(part, Image) for part in shown)


async def test_long_error_is_cut_as_well() -> None:
    episode = await opened(Long)
    (result,) = await run_calls(episode, Call("nope", {}))
    assert result.error and str(result.content).startswith("Error: the\n[cut: ")
