"""Whether a renderer's model sees images: it has a place for them, and a processor that says how
many tokens one takes.

The processor is loaded by the model's name, as the host loads its tokenizer, when a tool is known
to give images or gives the first one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref

from tinker_cookbook.image_processing_utils import get_image_processor
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.renderers.kimi_k25 import KimiK25Renderer
from tinker_cookbook.renderers.qwen3 import Qwen3VLRenderer

logger = logging.getLogger(__name__)

_loading = threading.Lock()
_models: weakref.WeakKeyDictionary[Renderer, str] = weakref.WeakKeyDictionary()
"""The models whose processors were not asked for yet."""


def load_later(renderer: Renderer, model_name: str) -> None:
    """Load the processor of `model_name` once it is needed."""
    _models[renderer] = model_name


async def sees_images(renderer: Renderer) -> bool:
    """Whether the model sees images. Loads the processor, in a thread, where it was not yet."""
    if not isinstance(renderer, Qwen3VLRenderer | KimiK25Renderer):
        return False
    if renderer.image_processor is None and renderer in _models:
        await asyncio.to_thread(_load, renderer)
    return renderer.image_processor is not None


def _load(renderer: Qwen3VLRenderer | KimiK25Renderer) -> None:
    with _loading:
        model = _models.pop(renderer, None)
        if model is None:
            return
        try:
            renderer.image_processor = get_image_processor(model)
        except (OSError, ValueError, ImportError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            logger.warning("no image processor for the model %r: %s", model, first)
