"""The real tokenizer of each renderer's models, offline: `tml-renderers`, which the cookbook
depends on, ships their vocabularies. They are dressed here as the fast tokenizers that renderers
expect.

renderer = renderer_for("deepseekv3")
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import warnings
from types import SimpleNamespace
from typing import Any

from tinker_cookbook.renderers import Renderer, get_renderer
from tinker_cookbook.tokenizer_utils import get_tokenizer, register_tokenizer
from tml_renderers import tokenizers

VOCABULARIES = {
    "qwen3_5": "Qwen35Tokenizer",
    "qwen3_8": "Qwen35Tokenizer",
    "qwen3": "Qwen3Tokenizer",
    "nemotron3": "Nemotron3Tokenizer",
    "deepseekv3": "DeepSeekV31Tokenizer",
    "deepseekv4_1": "DeepSeekV41Tokenizer",
    "glm5_3": "GlmTokenizer",
    "kimi_k25": "KimiK25Tokenizer",
    "kimi_k26": "KimiK26Tokenizer",
    "kimi_k2": "KimiK2ThinkingTokenizer",
    "gpt_oss": "HarmonyTokenizer",
}
"""By the start of a renderer's name; the first that fits counts."""
WITHOUT_TOOLS = ("role_colon", "llama3")


def renderer_names() -> list[str]:
    """Every renderer of the host that takes tools, read from its factory, so that a new one is
    noticed. Those whose tokenizer no installed package has are left out.
    """
    source = inspect.getsource(get_renderer)
    names = re.findall(r'name == "(\w+)"', source)
    return [name for name in names if name not in WITHOUT_TOOLS and not _is_missing(name)]


def _is_missing(name: str) -> bool:
    return name.startswith("kimi_k31") and not hasattr(tokenizers, "KimiK3Tokenizer")


def model_for(renderer_name: str) -> str:
    """A model name whose tokenizer, for the host's `get_tokenizer`, is the renderer's own."""
    if renderer_name == "tml_v0":
        return "thinkingmachines/Inkling"
    if renderer_name.startswith("kimi_k31"):
        return "moonshotai/Kimi-K3.1-Pro"
    prefix = next(start for start in VOCABULARIES if renderer_name.startswith(start))
    name = f"support/{prefix}"
    register_tokenizer(name, lambda: _shipped(VOCABULARIES[prefix], name))
    return name


def tokenizer_for(renderer_name: str) -> Any:
    """The tokenizer of the models that a renderer is for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the host's own call
        return get_tokenizer(model_for(renderer_name))


def renderer_for(renderer_name: str, image_processor: Any = None) -> Renderer:
    """A new renderer on its models' own tokenizer."""
    tokenizer = tokenizer_for(renderer_name)
    return get_renderer(renderer_name, tokenizer, image_processor, model_for(renderer_name))


@functools.cache
def _shipped(vocabulary: str, name: str) -> ShippedTokenizer:
    return ShippedTokenizer(vocabulary, name)


class ShippedTokenizer:
    """What the host's renderers call of a fast tokenizer."""

    def __init__(self, vocabulary: str, name: str) -> None:
        self.name_or_path = name
        self._inner: Any = getattr(tokenizers, vocabulary)()
        special = [self._inner.encode_special(name) for name in self._inner.special_tokens()]
        self._texts = {token: str(self._inner.decode([token])) for token in special}
        self._ids = {text: token for token, text in self._texts.items()}
        longest = sorted(self._ids, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, longest)) + ")")
        self.backend_tokenizer = _Backend(self)

    def __deepcopy__(self, memo: Any) -> ShippedTokenizer:
        return self  # nothing in it changes

    def encode(
        self, text: str, *, add_special_tokens: bool = False, split_special_tokens: bool = False
    ) -> list[int]:
        if split_special_tokens:
            return list(self._inner.encode_ordinary(text))
        tokens: list[int] = []
        for piece in self._special.split(text):
            if piece in self._ids:
                tokens.append(self._ids[piece])
            elif piece:
                tokens += self._inner.encode_ordinary(piece)
        return tokens

    def decode(self, tokens: list[int]) -> str:
        pieces: list[str] = []
        for special, run in itertools.groupby(tokens, self._texts.__contains__):
            if special:
                pieces += [self._texts[token] for token in run]
            else:
                pieces.append(self._bytes(list(run)).decode("utf-8", "replace"))
        return "".join(pieces)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._ids.get(token)

    @property
    def special_tokens(self) -> dict[str, int]:
        """Each special token's text and id."""
        return dict(self._ids)

    def _bytes(self, tokens: list[int]) -> bytes:
        try:
            return bytes(self._inner.decode_bytes(tokens))
        except ValueError:  # ids beyond the vocabulary, which fast tokenizers pass over
            known = [self._one(token) for token in tokens]
            return b"".join(known)

    def _one(self, token: int) -> bytes:
        try:
            return bytes(self._inner.decode_bytes([token]))
        except ValueError:
            return b""


class _Backend:
    """The part of `tokenizers.Tokenizer` that the host reads."""

    def __init__(self, tokenizer: ShippedTokenizer) -> None:
        self._tokenizer = tokenizer
        self.encode_special_tokens = False

    def __deepcopy__(self, memo: Any) -> _Backend:
        return _Backend(self._tokenizer)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Any:
        split = self.encode_special_tokens
        return SimpleNamespace(ids=self._tokenizer.encode(text, split_special_tokens=split))
