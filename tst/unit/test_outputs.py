from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import Any

import pytest
from PIL import Image as Pillow
from pydantic import BaseModel

from tinker_episodes.message import Image, Text, Thinking
from tinker_episodes.outputs import ToolOutput, as_output
from tinker_episodes.universe import freeze


def png() -> Image:
    buffer = io.BytesIO()
    Pillow.new("RGB", (2, 3), "red").save(buffer, format="PNG")
    return Image(buffer.getvalue(), "image/png")


@dataclass
class Result:
    """The shape of the cookbook's `ToolResult`."""

    messages: list[dict[str, Any]]
    should_stop: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


class Point(BaseModel):
    x: int


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        ("a\ud800b", "a\ud800b"),
        (5, "5"),
        (0, "0"),
        (False, "false"),
        (1.5, "1.5"),
        ([], "[]"),
        ({}, "{}"),
        ([1, "é"], '[1, "é"]'),
        ({"a": None}, '{"a": null}'),
        ((1, 2), "[1, 2]"),
        (freeze({"a": [1]}), '{"a": [1]}'),
        (Point(x=1), '{"x":1}'),
    ],
)
def test_what_a_tool_returns_is_text_or_json(returned: object, content: str) -> None:
    assert as_output(returned) == ToolOutput(content)


def test_a_part_is_kept_as_it_is() -> None:
    assert as_output(Text("a")) == ToolOutput((Text("a"),))


def test_parts_are_kept_as_they_are() -> None:
    parts = [Text("a"), png(), Thinking("t")]
    assert as_output(parts) == ToolOutput(tuple(parts))


@pytest.mark.parametrize(
    "returned", [object(), {1, 2}, b"bytes", [Text("a"), 1], {"a": Point(x=1)}]
)
def test_what_is_not_json_able_is_a_type_error(returned: object) -> None:
    with pytest.raises(TypeError):
        as_output(returned)


@pytest.mark.parametrize("returned", [float("nan"), [float("inf")]])
def test_a_number_that_json_does_not_have_is_refused(returned: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        as_output(returned)


def test_an_output_passes_through() -> None:
    output = ToolOutput("a", error=True, stop=True)
    assert as_output(output) is output


def test_a_host_result_of_one_message_is_its_content() -> None:
    assert as_output(Result([{"role": "tool", "content": "hi"}])) == ToolOutput("hi")


def test_a_host_result_may_stop_the_episode() -> None:
    assert as_output(Result([{"role": "tool", "content": ""}], should_stop=True)).stop is True


def test_a_host_result_may_be_an_error() -> None:
    result = Result([{"role": "tool", "content": "no"}], metadata={"error": "kind"})
    assert as_output(result) == ToolOutput("no", error=True)


def test_a_host_result_of_several_messages_is_their_parts_in_order() -> None:
    result = Result(
        [
            {"role": "tool", "content": "one"},
            {
                "role": "tool",
                "content": [
                    {"type": "text", "text": "two"},
                    {"type": "thinking", "thinking": "three"},
                ],
            },
        ]
    )
    assert as_output(result).content == (Text("one"), Text("two"), Thinking("three"))


def test_a_hosts_data_uri_is_an_image() -> None:
    uri = "data:image/png;base64," + base64.b64encode(png().data).decode()
    result = Result([{"role": "tool", "content": [{"type": "image", "image": uri}]}])
    assert as_output(result).content == (png(),)


def test_texts_and_pictures_beside_parts_become_parts() -> None:
    red = Pillow.new("RGB", (2, 3), "red")
    assert as_output(["see ", red, Text("!")]).content == (Text("see "), png(), Text("!"))
    assert as_output(red).content == (png(),)
    assert as_output(["a", "b"]).content == '["a", "b"]'


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"\x89PNG\r\n"])
def test_bytes_that_are_no_image_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="bytes as image/png, and they are no image that can be"):
        as_output(Image(data, "image/png"))


def test_a_hosts_pillow_image_is_a_png() -> None:
    picture = Pillow.new("RGB", (2, 3), "red")
    result = Result([{"role": "tool", "content": [{"type": "image", "image": picture}]}])
    (part,) = as_output(result).content
    assert isinstance(part, Image)
    assert part.media_type == "image/png"
    assert Pillow.open(io.BytesIO(part.data)).size == (2, 3)


def test_an_image_elsewhere_is_not_fetched() -> None:
    result = Result([{"role": "tool", "content": [{"type": "image", "image": "https://x/y.png"}]}])
    with pytest.raises(TypeError, match="give a data: URI or a PIL image"):
        as_output(result)


def test_an_unknown_part_is_named() -> None:
    result = Result([{"role": "tool", "content": [{"type": "audio", "audio": b""}]}])
    with pytest.raises(TypeError, match="part of type 'audio'"):
        as_output(result)
