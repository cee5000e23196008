"""What the server knows of a tokenizer: its size, its end token and the bytes of every token.

It reads the tokenizer's files as JSON; turning text into tokens stays the client's business.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinker_episodes.loopback.errors import LoopbackError


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a model."""

    size: int
    end_token: int | None
    """The token that ends a sample where the request names no stops."""
    token_bytes: tuple[bytes, ...]
    """The text of each token, by id, so that stop strings are found without decoding."""


def read_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of the fast tokenizer in `folder`."""
    try:
        tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        return _vocabulary(tokenizer, settings)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise LoopbackError(
            f"{folder} has no readable tokenizer.json and tokenizer_config.json of a byte-level "
            f"BPE tokenizer: {type(error).__name__}: {error}"
        ) from error


def _vocabulary(tokenizer: dict[str, Any], settings: dict[str, Any]) -> Vocabulary:
    learnt: dict[str, int] = tokenizer["model"]["vocab"]
    added: dict[str, int] = {item["content"]: item["id"] for item in tokenizer["added_tokens"]}
    ids = learnt | added
    texts = [b""] * (max(ids.values()) + 1)
    for token, index in learnt.items():
        texts[index] = _byte_level(token)
    for token, index in added.items():
        texts[index] = token.encode()
    return Vocabulary(len(texts), ids.get(_end_token(settings)), tuple(texts))


def _end_token(settings: dict[str, Any]) -> str:
    """transformers writes a special token as its text, or as an object with its settings."""
    match settings.get("eos_token"):
        case str(token) | {"content": str(token)}:
            return token
        case _:
            return ""


def _byte_level(token: str) -> bytes:
    """The bytes that a byte-level token stands for; other kinds of tokens stand for themselves."""
    if all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token)
    return token.encode()


def _byte_alphabet() -> dict[str, int]:
    """The characters that byte-level tokenizers write bytes as: printable ones are themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_alphabet()
