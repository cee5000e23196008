"""What a loopback server is made of: its configuration, and the limits that it keeps."""

from pathlib import Path

import chz

CONTEXT_LENGTH = 32_768
"""Tokens that a prompt and its sample may have together."""

MAX_BODY_BYTES = 64 * 2**20
"""The largest request body, before and after decompression."""

SESSION_TIMEOUT_S = 300.0
"""A session that sent nothing for so long is over. The SDK sends a heartbeat every 10 s."""

_TOKENIZER = Path(__file__).parent / "tokenizer"


def model_name() -> str:
    """What users give as `model_name`: the absolute folder of the shipped tokenizer."""
    return str(_TOKENIZER)


@chz.chz
class LoopbackConfig:
    """A loopback server: where it listens, what it keeps, and how large its model is."""

    port: int = 8000
    """The port on 127.0.0.1; 0 takes a free one."""
    root: str | None = None
    """The folder of saved weights; by default a temporary one that is removed at exit."""
    model: str | None = None
    """The folder of a fast tokenizer, which is the model's name too; by default the shipped one."""
    seed: int = 0
    """Sets the model's first weights, and the samples of requests that bring no seed."""
    width: int = 64
    """The model's width: a multiple of twice `heads`."""
    layers: int = 2
    heads: int = 2
    threads: int | None = None
    """Threads that torch computes with; by default one per core."""
    session_timeout_s: float = SESSION_TIMEOUT_S
    """After so long without a heartbeat a session's models, samplers and results are freed."""
