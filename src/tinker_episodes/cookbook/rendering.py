"""A renderer for this process: its own tokenizer, one user at a time, long texts off the event
loop.

A fast tokenizer that several threads share raises "Already borrowed" while one of them changes its
settings (huggingface/tokenizers#537); the host's `qwen3` renderers do so in every call. So ours is
a private copy under a lock.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import tinker
from tinker_cookbook.completers import StopCondition
from tinker_cookbook.exceptions import RendererError
from tinker_cookbook.renderers import Message, Renderer, ToolSpec, get_renderer
from tinker_cookbook.tokenizer_utils import get_tokenizer

from tinker_episodes.cookbook.tokenizers import own_tokenizer
from tinker_episodes.cookbook.vision import load_later
from tinker_episodes.errors import ConfigError

T = TypeVar("T")

_OPENINGS = 256
"""Opening prompts that are kept, the oldest dropped first."""
LONG = 4_000
"""Characters or tokens from which work is done in a thread: about a millisecond of tokenizing."""

_ADVICE = (
    "with tools there are: qwen3, qwen3_disable_thinking, qwen3_instruct, qwen3_vl, "
    "qwen3_vl_instruct, qwen3_5, qwen3_5_disable_thinking, qwen3_5_preserve_thinking, qwen3_8_*, "
    "nemotron3*, glm5_3_*, deepseekv3*, deepseekv4_1*, kimi_k2, kimi_k25*, kimi_k26*, gpt_oss_*, "
    "tml_v0"
)
_making = threading.RLock()
_locks: weakref.WeakKeyDictionary[Renderer, threading.Lock] = weakref.WeakKeyDictionary()
_PROBE = ToolSpec(name="probe", description="", parameters={"type": "object", "properties": {}})


def text_of(renderer: Renderer, tokens: list[int]) -> str:
    """The text of tokens, special ones included, ids beyond the vocabulary left out."""
    tokenizer: Any = renderer.tokenizer  # transformers leaves `decode` partly untyped
    try:
        return str(tokenizer.decode(tokens))
    except (ValueError, OverflowError):  # tml's refuses such ids, where others pass over them
        return "".join(_one(tokenizer, token) for token in tokens)


def _one(tokenizer: Any, token: int) -> str:
    try:
        return str(tokenizer.decode([token]))
    except (ValueError, OverflowError):
        return ""


class Rendering:
    """One renderer of the host behind a lock."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        with _making:  # all envs of a renderer that a user made share its lock
            self._lock = _locks.setdefault(renderer, threading.Lock())
        with self._lock:
            self.stop: StopCondition = renderer.get_stop_sequences()
        self._openings: dict[str, tinker.ModelInput] = {}
        self._pieces: dict[int, str] = {}

    async def run(self, work: Callable[[Renderer], T], *, size: int) -> T:
        """Run `work` with the renderer.

        Args:
            size: Roughly how many characters or tokens it handles.
        """
        if size < LONG and self._lock.acquire(blocking=False):
            try:
                return work(self.renderer)
            finally:
                self._lock.release()
        return await asyncio.to_thread(self._locked, work)

    async def opening(self, messages: list[Message]) -> tinker.ModelInput:
        """The prompt of a conversation that begins: rendered once for all rollouts of a task."""
        key = repr(messages)
        known = self._openings.get(key)
        if known is None:
            known = await self.run(lambda r: r.build_generation_prompt(messages), size=len(key))
            self._openings[key] = known
            while len(self._openings) > _OPENINGS:
                self._openings.pop(next(iter(self._openings)), None)
        return known

    def pieces(self, tokens: set[int]) -> dict[int, str]:
        """The text of each token by itself. A vocabulary is small: what was asked for is kept."""
        unknown = tokens - self._pieces.keys()
        if unknown:
            with self._lock:
                self._pieces.update({one: text_of(self.renderer, [one]) for one in unknown})
        return {token: self._pieces[token] for token in tokens}

    def _locked(self, work: Callable[[Renderer], T]) -> T:
        with self._lock:
            return work(self.renderer)


def rendering_of(model_name: str, renderer_name: str) -> Rendering:
    """This process's rendering for a model: one, whichever thread asks first.

    Raises:
        ConfigError: there is no such tokenizer or renderer, or the renderer has no tools; the
        message names those
            that have.
    """
    with _making:
        return _made(model_name, renderer_name)


@functools.lru_cache(maxsize=16)
def _made(model_name: str, renderer_name: str) -> Rendering:
    try:
        tokenizer = own_tokenizer(get_tokenizer(model_name))
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(
            f"there is no tokenizer for model_name={model_name!r}: {first}"
        ) from error
    try:
        renderer = get_renderer(renderer_name, tokenizer, model_name=model_name)
        renderer.create_conversation_prefix_with_tools([_PROBE], "")
    except RendererError as error:
        raise ConfigError(f"there is no renderer {renderer_name!r}; {_ADVICE}") from error
    except NotImplementedError:
        raise ConfigError(f"the renderer {renderer_name!r} has no tools; {_ADVICE}") from None
    load_later(renderer, model_name)
    return Rendering(renderer)
