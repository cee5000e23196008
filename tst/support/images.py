"""Small pictures, an environment that shows them, and models with an image processor, without a
hub.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

from PIL import Image as pillow
from tinker_cookbook.tokenizer_utils import register_tokenizer

from support.tokenizers import tokenizer_for
from tinker_episodes import Bundle, Environment, Image, Task, Text, scorer, tool

PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "size": {"longest_edge": 16777216, "shortest_edge": 65536},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
"""Qwen3-VL's, from its configuration."""


def seeing_model(folder: Path) -> str:
    """The name of a model of Qwen3.5's vocabulary with an image processor: the folder's."""
    folder.mkdir(exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    register_tokenizer(str(folder), lambda: tokenizer_for("qwen3_5"))
    return str(folder)


def picture(width: int = 320, height: int = 256, color: str = "red", mode: str = "RGB") -> Image:
    """A PNG of one color."""
    buffer = io.BytesIO()
    pillow.new("RGB", (width, height), color).convert(mode).save(buffer, format="PNG")
    return Image(buffer.getvalue(), "image/png")


class Painter(Environment):
    """Paints what it is told to."""

    @tool
    def paint(self, color: str) -> list[Text | Image]:
        """Paint it."""
        return [Text("before "), picture(color=color), Text(" after")]

    @tool
    def say(self, text: str) -> str:
        return text

    @scorer
    def done(self) -> bool:
        return True


PAINTED = Bundle(name="painted", environment=Painter, tasks=[Task.of("t", "Paint.")])
