from __future__ import annotations

from tinker_episodes import Image, Message, Text, Thinking


def test_the_text_of_a_message_leaves_out_reasoning_and_images() -> None:
    parts = (Thinking("hm"), Text("a"), Image(b"", "image/png"), Text("b"))
    assert Message("assistant", parts).text == "ab"


def test_the_text_of_a_plain_message_is_its_content() -> None:
    assert Message("user", " as it is\n").text == " as it is\n"
