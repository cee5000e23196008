"""What an author writes: one class that holds an episode's state and has its tools and scorers.

class NumberSearch(Environment):
    Params = Window

    def open(self, task: Task) -> None: ...

    @tool
    def guess(self, number: int) -> str: ...

    @scorer
    def found(self) -> bool: ...
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel, ValidationError

from tinker_episodes.arguments import Arguments
from tinker_episodes.errors import ConfigError, DefinitionError, ToolError
from tinker_episodes.message import Message
from tinker_episodes.scoring import scorers_of
from tinker_episodes.task import Prompt, Task
from tinker_episodes.tools import Tool, ToolSet, tools_of
from tinker_episodes.universe import Universe, UniverseData


class Environment:
    """One episode's state, tools and scorers.

    A new instance is made for each episode; every hook may be async.
    """

    Params: ClassVar[type[BaseModel] | None] = None
    """A pydantic model for the tasks' `params`, checked when the bundle is loaded."""
    system_prompt: str = ""
    """What stands before every prompt that has no system prompt of its own.

    It may be a property.
    """
    extra_tools: ClassVar[Sequence[Any]] = ()
    """Objects of the cookbook's `Tool` protocol, offered beside the class's own tools."""
    tool_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions of tools that the model may see as that call's result.

    Any other one fails the episode.
    """
    parallel_calls: ClassVar[bool] = False
    """Whether the calls of one reply may run at the same time; by default they run one after
    another.
    """
    tool_timeout_s: ClassVar[float] = 120.0
    """Seconds that one call may take; then the episode fails."""
    result_limit: ClassVar[int] = 50_000
    """Characters of one call's result that the model sees; a longer one is cut, and says so."""
    recorded_result_limit: ClassVar[int] = 5_000_000
    """Characters of one call's result that the record keeps, compressed."""
    scorer_timeout_s: ClassVar[float] = 120.0
    """Seconds that one scorer may take; then the episode fails."""
    hook_timeout_s: ClassVar[float] = 120.0
    """Seconds that `open`, `next_prompt` and `close` may take each; then the episode fails. After
    `close` a score stands; that it took too long is logged.
    """

    task: Task
    universe: Universe
    _ended: bool = False

    def __init__(self, task: Task, universe: Universe) -> None:
        self.task = task
        self.universe = universe
        self._prompts = iter(task.prompts[1:])

    def open(self, task: Task) -> Awaitable[None] | None:
        """Set the state up for `task`. By default there is nothing to set up."""

    def next_prompt(self, reply: Message) -> Prompt | Awaitable[Prompt | None] | None:
        """What follows `reply`, which has no call: by default the task's own next prompt.

        None ends the episode.
        """
        return next(self._prompts, None)

    def close(self) -> Awaitable[None] | None:
        """Release what the episode holds. Called once, after scoring."""

    def end(self) -> None:
        """End the episode after the running tool: no further call runs, no further reply is asked
        for.
        """
        self._ended = True

    @property
    def ended(self) -> bool:
        """Whether `end` was called."""
        return self._ended


class EnvironmentClass:
    """An environment class with its tools and scorers read once.

    Raises:
        DefinitionError: what can't work, such as a tool without types or a class without a scorer.
    """

    def __init__(self, environment: type[Environment]) -> None:
        self.environment = environment
        self.tools: Mapping[str, Tool] = tools_of(environment)
        self.scorers: Mapping[str, str] = scorers_of(environment)
        if not self.scorers:
            raise DefinitionError(
                f"{environment.__name__} has no scorer; mark a method with @scorer"
            )
        self.arguments = {name: Arguments(name, t.schema) for name, t in self.tools.items()}
        self.tool_errors = (ToolError, *environment.tool_errors)
        self._offered: dict[tuple[str, ...], ToolSet] = {}

    def offered(self, names: Iterable[str]) -> ToolSet:
        """Some of its tools by name, as a prompt offers them; the same object each time."""
        key = tuple(names)
        if key not in self._offered:
            self._offered[key] = ToolSet.of([self.tools[name] for name in key])
        return self._offered[key]

    def make(self, task: Task, data: UniverseData) -> Environment:
        """A new instance for one episode."""
        return self.environment(task, Universe(data))

    def typed(self, task: Task) -> Task:
        """The task with its params as the class's `Params`.

        Raises:
            ConfigError: they do not fit.
        """
        model = self.environment.Params
        if model is None or isinstance(task.params, model):
            return task
        try:
            return replace(task, params=params_of(model, task.params))
        except ValidationError as error:
            raise ConfigError(f"the params of task {task.id!r} do not fit: {error}") from error


def params_of(model: type[BaseModel], given: BaseModel | Mapping[str, Any]) -> BaseModel:
    """Task params by the environment's model.

    Raises:
        pydantic.ValidationError: they do not fit.
    """
    return model.model_validate(given if isinstance(given, BaseModel) else dict(given))


_read: dict[type[Environment], EnvironmentClass] = {}


def read_environment(environment: type[Environment]) -> EnvironmentClass:
    """The tools and scorers of a class, read at the first call.

    Raises:
        DefinitionError: as `EnvironmentClass`.
    """
    if environment not in _read:
        _read[environment] = EnvironmentClass(environment)
    return _read[environment]
