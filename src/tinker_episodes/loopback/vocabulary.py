"""What the server knows of a tokenizer: its size, its end token and the bytes of every token.

It reads the tokenizer's files with `tokenizers` alone; text stays the client's business.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, pre_tokenizers

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
    file = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    except Exception as error:  # noqa: BLE001  # tokenizers raises bare Exception for a bad file
        raise LoopbackError(f"{folder} holds no readable fast tokenizer: {error}") from error
    tokens = tokenizer.get_vocab(with_added_tokens=True)
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    texts = [b""] * (max(tokens.values()) + 1)
    for token, index in tokens.items():
        texts[index] = token.encode() if token in added else _byte_level(token)
    return Vocabulary(len(texts), tokens.get(_end_token(settings)), tuple(texts))


def _end_token(settings: dict[str, object]) -> str:
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
    alphabet.update({chr(256 + place): byte for place, byte in enumerate(others)})
    assert set(alphabet) == set(pre_tokenizers.ByteLevel.alphabet())
    return alphabet


_BYTES = _byte_alphabet()
