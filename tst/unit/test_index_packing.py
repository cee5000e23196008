"""How turns are stored: numbers as 32 bits, and whatever else there is as it was."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tinker_episodes.index import Status
from tinker_episodes.index.packing import packed_turns, storable, unpacked_turns

TOKEN = st.integers(-(2**31), 2**31 - 1)
LOGPROB = st.none() | st.floats(width=32)
PLAIN = st.none() | st.booleans() | st.integers() | st.text()


def back(value: Any) -> Any:
    return unpacked_turns(packed_turns([{"value": value, "reward": 0.5}, {}]))[0]["value"]


@given(st.lists(TOKEN, max_size=200))
@example([-(2**31), 2**31 - 1, -1, 0])
def test_tokens_come_back(tokens: list[int]) -> None:
    assert back(tokens) == tokens


@given(st.lists(LOGPROB, max_size=200))
@example([None, math.inf, -math.inf, -0.0, 2.0**-149])
@example([0.0, None])
def test_logprobs_come_back_but_what_is_no_number_is_none(logprobs: list[float | None]) -> None:
    known = [None if one is None or math.isnan(one) else one for one in logprobs]
    assert back(logprobs) == known


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@example([1e300])
@example([3.4028235677973366e38, 1.0])
@example([0.5, None])
def test_numbers_keep_32_bits_or_all_of_them_where_these_do_not_hold_one(
    numbers: list[Any],
) -> None:
    try:
        short = [
            None if n is None else struct.unpack("<f", struct.pack("<f", n))[0] for n in numbers
        ]
    except OverflowError:
        short = numbers
    assert back(numbers) == short


@given(st.lists(PLAIN, max_size=20) | PLAIN | st.dictionaries(st.text(), st.lists(TOKEN)))
@example([2**31])
@example([1, 2.5])
@example([1, None])
@example(["1", 2])
@example([[1, 2], [3]])
def test_anything_else_comes_back(value: Any) -> None:
    assert back(value) == value


def test_no_turns_come_back() -> None:
    assert unpacked_turns(packed_turns([])) == []


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("", ""),
        (Status.CUT, "cut"),
        ("a\0b", "a\\x00b"),
        ("\ud800\0é", "\\ud800\\x00é"),
    ],
)
def test_text_is_stored_as_every_database_takes_it(text: str, stored: str) -> None:
    assert storable(text) == stored and type(storable(text)) is str
