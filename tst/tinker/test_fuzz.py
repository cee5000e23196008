"""A seeded share of the search for replies that raise; `make fuzz` runs the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fuzzing import fuzz
from support.tokenizers import renderer_names

REPLIES = 48
"""For each renderer."""


@pytest.mark.parametrize("name", renderer_names())
async def test_no_reply_raises_and_each_is_filed_as_it_was(name: str, tmp_path: Path) -> None:
    found = await fuzz(name, REPLIES, seed=1, folder=tmp_path)
    assert found["replies"] >= REPLIES
    assert found["calls"] and found["malformed"] and found["refused"]
