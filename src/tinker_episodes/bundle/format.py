"""How a bundle's files are written:

`bundle.toml` and tasks, as pydantic models. Unknown keys are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tinker_episodes.task import Prompt, Task


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EvalFormat(_Strict):
    """One entry of `[evals]`: just one of `file`, `tasks` and `tags`."""

    file: str | None = None
    """A task file of the bundle: the eval is its tasks."""
    tasks: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    """The eval is the tasks that have all of these tags."""
    without_tags: tuple[str, ...] = ()
    """Tasks that have one of these tags are left out."""
    held_out: bool = False

    @model_validator(mode="after")
    def _one_choice(self) -> EvalFormat:
        if sum(choice is not None for choice in (self.file, self.tasks, self.tags)) != 1:
            raise ValueError("give one of `file`, `tasks` and `tags`")
        return self


class BundleFormat(_Strict):
    """`bundle.toml`."""

    name: str = Field(min_length=1)
    version: str = "0"
    description: str = ""
    environment: str = Field(pattern=r"^[\w.]+:\w+$")
    """`module:Class`: the module is a file of the bundle or one that can be imported."""
    reward: str | None = None
    evals: dict[str, EvalFormat] = Field(default_factory=dict)


class PromptFormat(_Strict):
    """One entry of a task's `prompts`."""

    text: str
    system_prompt: str | None = None
    tools: tuple[str, ...] | None = None


class TaskFormat(_Strict):
    """One task: a line of a `.jsonl` file, or a `.json` or `.toml` file.

    Just one of `prompt` and `prompts`.
    """

    id: str = Field(min_length=1)
    prompt: str | None = None
    prompts: tuple[PromptFormat, ...] | None = Field(default=None, min_length=1)
    system_prompt: str | None = None
    """Of the `prompt`."""
    tools: tuple[str, ...] | None = None
    """Of the `prompt`."""
    params: dict[str, Any] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    scorers: tuple[str, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_form(self) -> TaskFormat:
        if (self.prompt is None) == (self.prompts is None):
            raise ValueError("give one of `prompt` and `prompts`")
        if self.prompts is not None and (self.system_prompt is not None or self.tools is not None):
            raise ValueError("`system_prompt` and `tools` stand inside each entry of `prompts`")
        return self

    def to_task(self) -> Task:
        """The task, with its params as they are written."""
        prompts = self.prompts or (
            PromptFormat(
                text=self.prompt or "", system_prompt=self.system_prompt, tools=self.tools
            ),
        )
        return Task(
            id=self.id,
            prompts=tuple(Prompt(p.text, p.system_prompt, p.tools) for p in prompts),
            params=self.params,
            tags=self.tags,
            scorers=self.scorers,
        )


def faults(error: ValidationError) -> Iterator[tuple[str, str]]:
    """Each fault of a pydantic error: its key, and what is wrong with which value."""
    for fault in error.errors(include_url=False, include_context=False):
        key = ".".join(str(step) for step in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] in ("missing", "value_error"):
            yield key, message
        else:
            yield key, f"{message} (got {str(fault['input'])[:80]!r})"
