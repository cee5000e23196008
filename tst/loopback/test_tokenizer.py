"""The shipped tokenizer, and ones that users train."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinker_cookbook import renderers
from tinker_cookbook.tokenizer_utils import get_tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from tinker_episodes import loopback
from tinker_episodes.loopback.tokenizer_training import train_tokenizer
from tinker_episodes.loopback.vocabulary import read_vocabulary

SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    *("<think>", "</think>"),
)
TEXTS = ["The number is from 0 to 31.", "too low", "too high", "your guess is 12"]


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    tokenizer = get_tokenizer(loopback.model_name())
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("token", SPECIAL)
def test_special_tokens_are_single(tokenizer: PreTrainedTokenizerBase, token: str) -> None:
    (index,) = tokenizer.encode(token)
    assert tokenizer.decode([index]) == token


def test_control_tokens_in_text_can_be_split(tokenizer: PreTrainedTokenizerBase) -> None:
    pieces = tokenizer.encode("<|im_end|>", split_special_tokens=True)
    assert len(pieces) > 1
    assert tokenizer.decode(pieces) == "<|im_end|>"


@pytest.mark.parametrize("name", ["qwen3", "qwen3_instruct", "qwen3_5", "qwen3_5_disable_thinking"])
def test_a_tool_call_survives_each_renderer(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    renderer = renderers.get_renderer(name, tokenizer)
    call = renderers.ToolCall(
        function=renderers.ToolCall.FunctionBody(name="guess", arguments='{"number": 12}'), id="1"
    )
    messages: list[renderers.Message] = [
        {"role": "user", "content": "Guess."},
        {"role": "assistant", "content": "Now.", "tool_calls": [call]},
    ]
    whole, weights = renderer.build_supervised_example(messages)
    tokens = whole.to_ints()
    reply = [token for token, weight in zip(tokens, weights.tolist(), strict=True) if weight]
    message, ended = renderer.parse_response(reply)
    assert ended
    (parsed,) = message["tool_calls"]
    assert parsed.function.name == "guess"


def test_the_server_reads_what_the_tokenizer_says(tokenizer: PreTrainedTokenizerBase) -> None:
    vocabulary = read_vocabulary(Path(loopback.model_name()))
    assert vocabulary.size == len(tokenizer)
    assert vocabulary.end_token == tokenizer.eos_token_id
    text = "Grüße, 世界!\n<think>\x00</think><|im_end|>"
    encoded = tokenizer.encode(text)
    assert b"".join(vocabulary.token_bytes[token] for token in encoded).decode() == text


def test_numbers_and_phrases_can_be_single_tokens(tmp_path: Path) -> None:
    train_tokenizer(TEXTS * 50, tmp_path, vocab_size=600, cross_words=True, numbers=True)
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    assert all(len(tokenizer.encode(str(number))) == 1 for number in range(100))
    assert len(tokenizer.encode("The number is from 0 to 31.")) < 8
    assert tokenizer.decode(tokenizer.encode("Grüße 123")) == "Grüße 123"
    assert len(tokenizer) <= 600


def test_without_numbers_words_stay_apart(tmp_path: Path) -> None:
    train_tokenizer(TEXTS * 50, tmp_path, vocab_size=400)
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    pieces = [tokenizer.decode([token]) for token in tokenizer.encode("too low too high")]
    assert "".join(pieces) == "too low too high"
    assert all(len(piece.split()) <= 1 for piece in pieces)
