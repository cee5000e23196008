"""An embedded Tinker-API server: a tiny torch transformer on this machine's CPU.

    with loopback.serve() as url:
        service = tinker.ServiceClient(base_url=url)
        client = service.create_lora_training_client(base_model=loopback.model_name())

The model starts from random weights and trains all of them, whatever LoRA rank is asked for.
Importing this does not import torch; the server's process does.
"""

from typing import TYPE_CHECKING

from tinker_episodes.loopback.config import LoopbackConfig, model_name
from tinker_episodes.loopback.errors import LoopbackError
from tinker_episodes.loopback.serve import run, serve

if TYPE_CHECKING:
    from tinker_episodes.loopback.app import create_app

MODEL = model_name()
"""The name of the shipped model: the absolute folder of its tokenizer."""

__all__ = ["MODEL", "LoopbackConfig", "LoopbackError", "create_app", "model_name", "run", "serve"]


def __getattr__(name: str) -> object:
    if name == "create_app":
        from tinker_episodes.loopback.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
