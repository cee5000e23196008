"""Which renderer writes calls in which format, and which names each can carry.

| renderers                          | arguments are      | a tool's name holds       |
|------------------------------------|--------------------|---------------------------|
| `qwen3`, `qwen3_vl*`, …            | JSON               | no `<`, `>`, controls     |
| `qwen3_5*`, `qwen3_8*`, `nemotron3*` | texts            | no `<`, `>` and newline   |
| `glm5_3*`                          | texts              | letters, digits, `_.-`    |
| `deepseekv3*`                      | JSON               | letters, digits, `_`      |
| `deepseekv4_1*`                    | texts and JSON     | no `<`, `>`, `"`, newline |
| `kimi_k2*`                         | JSON               | letters, digits, `_-`     |
| `gpt_oss*`                         | JSON               | letters, digits, `_.-`    |
| `tml_v0`                           | JSON               | no `<`, `>`, controls     |
| one that another package registers | as its parser says | anything                  |
"""

from __future__ import annotations

from collections.abc import Iterable

from tinker_cookbook.renderers import Renderer
from tinker_cookbook.renderers.deepseek_v3 import (
    DeepSeekV3DisableThinkingRenderer,
    DeepSeekV3ThinkingRenderer,
)
from tinker_cookbook.renderers.deepseek_v4_1 import DeepSeekV4_1Renderer
from tinker_cookbook.renderers.glm5_3 import Glm5_3Renderer
from tinker_cookbook.renderers.gpt_oss import GptOssRenderer
from tinker_cookbook.renderers.kimi_k2 import KimiK2Renderer
from tinker_cookbook.renderers.qwen3 import Qwen3Renderer
from tinker_cookbook.renderers.qwen3_5 import Qwen3_5Renderer
from tinker_cookbook.renderers.tml_v0 import TmlV0Renderer

from tinker_episodes.cookbook.wire.frames import HARMONY, INKLING
from tinker_episodes.cookbook.wire.reading import Format
from tinker_episodes.cookbook.wire.sections import DEEPSEEK_V3, DEEPSEEK_V4_1, KIMI
from tinker_episodes.cookbook.wire.tags import GLM, QWEN_JSON, QWEN_XML
from tinker_episodes.errors import ConfigError
from tinker_episodes.tools import Tool

_FORMATS: tuple[tuple[type[Renderer], Format], ...] = (
    (Qwen3_5Renderer, QWEN_XML),  # before Qwen3, which it derives from
    (Qwen3Renderer, QWEN_JSON),
    (DeepSeekV3DisableThinkingRenderer, DEEPSEEK_V3),
    (DeepSeekV3ThinkingRenderer, DEEPSEEK_V3),
    (DeepSeekV4_1Renderer, DEEPSEEK_V4_1),
    (Glm5_3Renderer, GLM),
    (KimiK2Renderer, KIMI),
    (GptOssRenderer, HARMONY),
    (TmlV0Renderer, INKLING),
)


def format_of(renderer: Renderer) -> Format | None:
    """The wire format of a renderer; None where only its own parser knows it."""
    return next((format for kind, format in _FORMATS if isinstance(renderer, kind)), None)


def check_names(renderer: Renderer, tools: Iterable[Tool]) -> None:
    """Refuse names that the renderer's calls can't carry: they would be lost or read as others.

    Raises:
        ConfigError: every such name of a tool or an argument, the renderer, and its rule.
    """
    format = format_of(renderer)
    if format is None:
        return
    faults: list[str] = []
    for tool in tools:
        if not format.name_rule.fullmatch(tool.name):
            faults.append(f"the tool {tool.name!r} (a name must match {format.name_rule.pattern})")
        faults += [
            f"the argument {name!r} of {tool.name!r} "
            f"(a name must match {format.argument_rule.pattern})"
            for name in tool.schema.get("properties", {})
            if not format.argument_rule.fullmatch(name)
        ]
    if faults:
        raise ConfigError(f"the renderer {_name(renderer)} can't carry {'; '.join(faults)}")


def _name(renderer: Renderer) -> str:
    return (
        getattr(renderer, "_renderer_name", None) or type(renderer).__name__
    )  # set by the host's factory alone
