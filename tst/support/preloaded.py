"""All that a trainer imports and reads before it begins, for processes that are forked from one."""

from __future__ import annotations

from tinker_cookbook.tokenizer_utils import get_tokenizer

import support.training  # noqa: F401
from tinker_episodes import loopback
from tinker_episodes.cookbook.rendering import rendering_of

get_tokenizer(loopback.model_name())
rendering_of(loopback.model_name(), "qwen3_instruct")
