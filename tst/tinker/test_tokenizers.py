"""The tokenizer of our own, held against the one that it is a copy of."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.qwen import qwen3_5_folder, qwen3_folder
from support.tokenizers import renderer_for
from tinker_cookbook.tokenizer_utils import get_tokenizer

from tinker_episodes import loopback
from tinker_episodes.cookbook import tokenizers
from tinker_episodes.cookbook.tokenizers import own_tokenizer

MARKS = ("<|im_start|>", "<|im_end|>", "<think>", "</tool_call>", "\n", " ", "a", "\u00e9", "12")
TEXTS = st.text(max_size=150) | st.lists(st.sampled_from(MARKS), max_size=40).map("".join)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"add_special_tokens": False},
    {"add_special_tokens": False, "split_special_tokens": True},
)


@pytest.fixture(scope="session", params=["loopback", "qwen3", "qwen3_5"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    made = {"qwen3": qwen3_folder, "qwen3_5": qwen3_5_folder}.get(request.param)
    return get_tokenizer(loopback.model_name() if made is None else made(folder))


@pytest.fixture(scope="session")
def own(tokenizer: Any) -> Any:
    return own_tokenizer(tokenizer)


@given(text=TEXTS.filter(lambda text: text.isprintable() or text.isascii()))
@settings(max_examples=150, deadline=None)
def test_its_tokens_are_those_of_the_original(tokenizer: Any, own: Any, text: str) -> None:
    for options in (*OPTIONS, *OPTIONS):  # the second time some are remembered
        assert own.encode(text, **options) == tokenizer.encode(text, **options)
    tokens = tokenizer.encode(text)
    assert own.encode(text) == tokens
    assert own.decode(tokens) == tokenizer.decode(tokens)
    assert own.decode(tokens[1:]) == tokenizer.decode(tokens[1:])
    assert own.decode(tokens, skip_special_tokens=True) == tokenizer.decode(
        tokens, skip_special_tokens=True
    )


@pytest.mark.parametrize("tokens", [[], [10**6], [5, 10**9, 7], 5, [[5], [6]]])
def test_it_reads_odd_tokens_as_the_original_does(tokenizer: Any, own: Any, tokens: Any) -> None:
    assert own.decode(tokens) == tokenizer.decode(tokens)


def test_a_negative_token_is_refused_as_the_original_does(tokenizer: Any, own: Any) -> None:
    for one in (tokenizer, own):
        with pytest.raises(OverflowError):
            one.decode([-1])


def test_what_it_gives_is_the_callers_own(own: Any) -> None:
    own.encode("some").append(7)
    assert 7 not in own.encode("some")


def test_what_it_remembers_is_bounded(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "_KEPT", 20_000)
    own = own_tokenizer(tokenizer)
    memory = vars(own)["_memory"]
    for n in range(300):
        own.encode("always")
        own.encode(f"text {n} " * (n % 7))
        assert memory.size <= 20_000
    assert own.encode("text 9 " * 2_000) == tokenizer.encode("text 9 " * 2_000)
    assert memory.size <= 20_000
    own.encode("always")
    assert memory.get(("always", True, bool(own.split_special_tokens))) is not None
    assert own.encode("text 1") == tokenizer.encode("text 1")


def test_a_text_too_long_to_be_remembered_is_encoded(tokenizer: Any, own: Any) -> None:
    text = "a word " * 10_000
    before = vars(own)["_memory"].size
    assert own.encode(text) == tokenizer.encode(text)
    assert vars(own)["_memory"].size == before


def test_other_options_are_the_originals(tokenizer: Any, own: Any) -> None:
    text = "one two three four five"
    short = {"truncation": True, "max_length": 2}
    assert own.encode(text, **short) == tokenizer.encode(text, **short)
    assert own.encode(text) == tokenizer.encode(text)  # and leave nothing behind
    assert own.encode(text, "pair") == tokenizer.encode(text, "pair")
    assert own(text)["input_ids"] == tokenizer(text)["input_ids"]
    tokens = tokenizer.encode(text=text)
    assert own.encode(text=text) == tokens
    assert own.decode(token_ids=tokens) == tokenizer.decode(token_ids=tokens)


def test_the_original_is_left_alone(tokenizer: Any, own: Any) -> None:
    assert type(own) is not type(tokenizer)
    assert isinstance(own, type(tokenizer))
    assert "_memory" not in vars(tokenizer)
    assert own.backend_tokenizer is not tokenizer.backend_tokenizer


def test_a_copy_that_splits_special_tokens_splits_them(own: Any) -> None:
    whole = own.encode("<|im_end|>", add_special_tokens=False)
    other = copy.deepcopy(own)
    other.split_special_tokens = True
    assert len(whole) == 1
    assert len(other.encode("<|im_end|>", add_special_tokens=False)) > 1
    assert own.encode("<|im_end|>", add_special_tokens=False) == whole


def test_a_tokenizer_that_does_more_than_its_backend_is_asked_itself(tokenizer: Any) -> None:
    class Shouting(type(tokenizer)):
        def encode(self, text: Any, *args: Any, **options: Any) -> list[int]:
            return super().encode(text.upper(), *args, **options)

    shouting = copy.deepcopy(tokenizer)
    shouting.__class__ = Shouting
    own = own_tokenizer(shouting)
    assert own.encode("a text") == tokenizer.encode("A TEXT")


def test_what_cannot_be_copied_serves_as_it_is() -> None:
    tokenizer = renderer_for("tml_v0").tokenizer
    assert own_tokenizer(tokenizer) is tokenizer
