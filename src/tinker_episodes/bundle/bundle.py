"""The bundle as a value: tasks by id, named evals, the environment and its data.

BUNDLE = Bundle(name="search", environment=NumberSearch, tasks=[Task.of("a", "Find it.", number=3)])
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from tinker_episodes.environment import Environment, params_of, read_environment
from tinker_episodes.errors import BundleError, ConfigError, DefinitionError, Problem
from tinker_episodes.scoring import reward_scorer
from tinker_episodes.task import Task
from tinker_episodes.universe import UniverseData

ALL = "all"
"""The split of every task but those of held-out evals."""
NAMED_ALL = "`all` is the split of all tasks; name it otherwise"


@dataclass(frozen=True, slots=True)
class Eval:
    """A named choice of tasks."""

    tasks: tuple[str, ...]
    held_out: bool = False
    """Whether `all` leaves these tasks out."""


class Bundle:
    """Tasks, evals, an environment class and its data. Immutable once made."""

    def __init__(
        self,
        *,
        environment: type[Environment],
        tasks: Iterable[Task],
        name: str,
        version: str = "0",
        description: str = "",
        evals: Mapping[str, Eval] | None = None,
        universe: UniverseData | None = None,
        reward: str | None = None,
        content_hash: str | None = None,
        source: str | None = None,
    ) -> None:
        """
        Args:
            reward: The scorer whose value is the reward, where tasks have several.
            content_hash: What the content is told apart by; default: made from the tasks and names.
            source: What `find_bundle` makes the same bundle from in another process.

        Raises:
            BundleError: with every fault that was found.
        """
        self.environment = environment
        self.name = name
        self.version = version
        self.description = description
        self.universe = universe or UniverseData()
        self.reward = reward
        self.source = source
        listed = list(tasks)
        problems = [*_repeated(listed), *environment_problems(environment)]
        typed = [] if problems else [_typed(task, environment, problems) for task in listed]
        self.tasks: Mapping[str, Task] = {task.id: task for task in typed}
        self.evals: Mapping[str, Eval] = dict(evals or {})
        if not problems:
            problems += self._problems()
        if problems:
            raise BundleError(name, problems)
        self.content_hash = content_hash or _hash_of(self)

    def split(self, name: str) -> tuple[Task, ...]:
        """The tasks of `all` or of an eval, in the bundle's order.

        Raises:
            ConfigError: there is no such eval.
        """
        if name == ALL:
            held = {id for e in self.evals.values() if e.held_out for id in e.tasks}
            return tuple(task for id, task in self.tasks.items() if id not in held)
        if name not in self.evals:
            known = ", ".join([ALL, *self.evals])
            raise ConfigError(f"bundle {self.name!r} has no split {name!r}; it has: {known}")
        chosen = set(self.evals[name].tasks)
        return tuple(task for id, task in self.tasks.items() if id in chosen)

    def _problems(self) -> Iterator[Problem]:
        if not self.tasks:
            yield Problem("tasks", "", "there are no tasks")
        for name, chosen in self.evals.items():
            yield from self._eval_problems(name, chosen)
        known = read_environment(self.environment)
        for task in self.tasks.values():
            yield from _task_problems(task, known.tools, known.scorers, self.reward)

    def _eval_problems(self, name: str, chosen: Eval) -> Iterator[Problem]:
        where = f"evals.{name}"
        if name == ALL:
            yield Problem("bundle.toml", where, NAMED_ALL)
        if not chosen.tasks:
            yield Problem("bundle.toml", where, "it holds no task")
        for id in chosen.tasks:
            if id not in self.tasks:
                yield Problem("bundle.toml", where, f"there is no task {id!r}")

    def fields(self) -> dict[str, Any]:
        """What makes the same bundle: the arguments of `Bundle`, but its source."""
        return {
            "environment": self.environment,
            "tasks": list(self.tasks.values()),
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "evals": dict(self.evals),
            "universe": self.universe,
            "reward": self.reward,
            "content_hash": self.content_hash,
        }

    def __repr__(self) -> str:
        return f"<Bundle {self.name} {self.version}: {len(self.tasks)} tasks>"


def _repeated(tasks: Iterable[Task]) -> Iterator[Problem]:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            yield Problem("tasks", task.id, f"there is more than one task with the id {task.id!r}")
        seen.add(task.id)


def environment_problems(environment: type[Environment]) -> Iterator[Problem]:
    """What is wrong with an environment class."""
    try:
        read_environment(environment)
    except DefinitionError as error:
        yield Problem("environment.py", environment.__name__, str(error))


def _typed(task: Task, environment: type[Environment], problems: list[Problem]) -> Task:
    """The task with its params as the environment's model."""
    if environment.Params is None or isinstance(task.params, environment.Params):
        return task
    try:
        return replace(task, params=params_of(environment.Params, task.params))
    except ValidationError as error:
        problems += [Problem("tasks", task.id, text) for text in params_faults(error)]
        return task


def params_faults(error: ValidationError, prefix: str = "params") -> Iterator[str]:
    """Each fault of a pydantic error with its key."""
    for fault in error.errors(include_url=False):
        path = ".".join(str(step) for step in (prefix, *fault["loc"]) if step != "")
        yield f"{path}: {fault['msg']} (got {str(fault['input'])[:80]!r})"


def _task_problems(
    task: Task, tools: Mapping[str, Any], scorers: Mapping[str, Any], reward: str | None
) -> Iterator[Problem]:
    for prompt in task.prompts:
        for name in prompt.tools or ():
            if name not in tools:
                known = ", ".join(tools) or "none"
                yield Problem("tasks", task.id, f"there is no tool {name!r}; there are: {known}")
    unknown = [name for name in task.scorers or () if name not in scorers]
    for name in unknown:
        known = ", ".join(scorers)
        yield Problem("tasks", task.id, f"there is no scorer {name!r}; there are: {known}")
    if reward is not None and not unknown:
        try:
            reward_scorer(scorers, task, reward)
        except ConfigError as error:
            yield Problem("bundle.toml", "reward", str(error))


def _hash_of(bundle: Bundle) -> str:
    content = {
        "environment": f"{bundle.environment.__module__}:{bundle.environment.__qualname__}",
        "tasks": [_task_json(task) for task in bundle.tasks.values()],
        "evals": {name: list(chosen.tasks) for name, chosen in bundle.evals.items()},
        "universe": {name: dict(table) for name, table in bundle.universe.tables.items()},
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _task_json(task: Task) -> dict[str, Any]:
    params = task.params
    return {
        "id": task.id,
        "prompts": [[p.text, p.system_prompt, p.tools] for p in task.prompts],
        "params": params.model_dump(mode="json") if isinstance(params, BaseModel) else dict(params),
        "tags": task.tags,
        "scorers": task.scorers,
    }
