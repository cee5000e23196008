"""Making a tokenizer from texts in seconds: byte-level BPE with Qwen's special tokens.

    train_tokenizer(texts, Path("tokenizer"), vocab_size=1000, cross_words=True, numbers=True)

`python -m tinker_episodes.loopback.tokenizer_training FOLDER` makes the one that the package ships,
from text that comes with Python.
"""

import importlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# tokenizers has no types for what its Rust part defines.
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_MESSAGE = "<|im_end|>"
PADDING = "<|endoftext|>"

_CONTROL_TOKENS = (
    PADDING,
    "<|im_start|>",
    END_OF_MESSAGE,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
)
_TAG_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
_LONGEST_TOKEN = 24
_LONGEST_PHRASE = 2_000
_SHIPPED_SIZE = 3_000


def train_tokenizer(
    texts: Iterable[str],
    folder: Path,
    *,
    vocab_size: int = 2_000,
    cross_words: bool = False,
    numbers: bool = False,
) -> None:
    """Write a tokenizer for `texts` to `folder`, as `AutoTokenizer.from_pretrained` reads it.

    `cross_words` lets a token span several words, for the shortest prompts; `numbers` makes each
    of the integers 0 to 99 one token. It encodes any text, and decoding gives that text back.
    """
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not cross_words)
    splits: list[pre_tokenizers.PreTokenizer] = [byte_level]
    if numbers:
        splits.insert(0, pre_tokenizers.Split(Regex(r"\d{1,2}"), "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True, normalized=False) for token in _CONTROL_TOKENS]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(_TAG_TOKENS),
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=_LONGEST_PHRASE if cross_words else _LONGEST_TOKEN,
        show_progress=False,
    )
    pieces = _pieces(texts)
    tokenizer.train_from_iterator(_with_numbers(pieces) if numbers else pieces, trainer)
    tags = [AddedToken(token, special=False, normalized=False) for token in _TAG_TOKENS]
    tokenizer.add_tokens(tags)
    _write(tokenizer, folder)


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """The texts between special tokens: no token that is learned reaches across one."""
    between = re.compile("|".join(re.escape(token) for token in (*_CONTROL_TOKENS, *_TAG_TOKENS)))
    for text in texts:
        yield from (piece for piece in between.split(text) if piece)


def _with_numbers(texts: Iterable[str]) -> Iterator[str]:
    """The texts, and the integers so often that each becomes a token."""
    yield from texts
    integers = " ".join(str(number) for number in range(100))
    for _ in range(10_000):
        yield integers


def _write(tokenizer: Tokenizer, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_MESSAGE,
        "pad_token": PADDING,
        "additional_special_tokens": list(_CONTROL_TOKENS),
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32_768,
    }
    text = json.dumps(settings, indent=1) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


_DOCUMENTED = [
    "argparse",
    "asyncio",
    "builtins",
    "collections",
    "contextlib",
    "csv",
    "datetime",
    "decimal",
    "difflib",
    "email",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "html",
    "http",
    "inspect",
    "itertools",
    "json",
    "logging",
    "math",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "queue",
    "random",
    "re",
    "shutil",
    "socket",
    "sqlite3",
    "statistics",
    "string",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "types",
    "typing",
    "unittest",
    "urllib.parse",
    "urllib.request",
    "uuid",
    "zipfile",
]


def _shipped_texts() -> Iterator[str]:
    """Python's own documentation, and the frames of chats with tools."""
    for name in _DOCUMENTED:
        module = importlib.import_module(name)
        yield module.__doc__ or ""
        for value in vars(module).values():
            text = getattr(value, "__doc__", None)  # any object of a module may have one
            if isinstance(text, str):
                yield text
    for _ in range(40):
        yield from _chats()


def _chats() -> Iterator[str]:
    nouns = ("order", "item", "number", "user", "product", "address")
    kinds = ("string", "integer", "number", "boolean", "array", "object")
    for verb in ("get", "find", "list", "update", "cancel", "return", "search", "guess"):
        for kind, noun in zip(kinds, nouns, strict=True):
            value = {"type": kind, "description": f"The {noun} to {verb}"}
            schema = {"type": "object", "properties": {f"{noun}_id": value}, "required": [noun]}
            function = {"name": f"{verb}_{noun}", "description": f"{verb} a {noun}"}
            yield json.dumps({"type": "function", "function": {**function, "parameters": schema}})
            yield json.dumps({"name": f"{verb}_{noun}", "arguments": {f"{noun}_id": "7"}})
    yield "system\nYou are a helpful assistant. You may call one or more functions.\n"
    yield "\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n</tools>\n"
    yield "user\nassistant\ntool\n\n<function=name>\n<parameter=key>\nvalue\n</parameter>\n"


if __name__ == "__main__":
    train_tokenizer(_shipped_texts(), Path(sys.argv[1]), vocab_size=_SHIPPED_SIZE)
