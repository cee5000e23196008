"""What there is to do: a task and its prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is told next. It lasts until a reply without a call."""

    text: str
    system_prompt: str | None = None
    """None: the environment's own."""
    tools: tuple[str, ...] | None = None
    """The names of the tools that the model may call; None: all of the environment's."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do: an id and one or more prompts."""

    id: str
    prompts: tuple[Prompt, ...]
    params: BaseModel | Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The environment's `Params`, where it has that model; a mapping otherwise."""
    tags: tuple[str, ...] = ()
    scorers: tuple[str, ...] | None = None
    """The scorers that score it; None: all of the environment's."""

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a task needs an id, got ''")
        if not self.prompts:
            raise ValueError(f"task {self.id!r} needs at least one prompt")

    @classmethod
    def of(cls, id: str, prompt: str, **params: Any) -> Task:
        """A task of one prompt:

        `Task.of("w31-4", "The number is from 0 to 31.", low=0, high=31)`.
        """
        return cls(id=id, prompts=(Prompt(prompt),), params=params)
