"""Tools: what the model can call, and the JSON Schema that it calls them by.

    @tool
    def guess(self, number: Annotated[int, "Your guess"]) -> str:
        "Compare a guess with the hidden number."

A tool's schema comes from its signature through pydantic, as the cookbook's own `@tool` does it.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload, runtime_checkable

from tinker_episodes.errors import DefinitionError, EpisodeFailed
from tinker_episodes.message import Image
from tinker_episodes.outputs import ToolOutput, as_output
from tinker_episodes.signature import arguments_model, given_types, keywords, schema_of

if TYPE_CHECKING:
    from tinker_episodes.environment import Environment

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "__tinker_episodes_tool__"


@runtime_checkable
class HostTool(Protocol):
    """The cookbook's `Tool` protocol, as far as we call it (`tinker_cookbook.tool_use.types`)."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters_schema(self) -> dict[str, Any]: ...
    async def run(self, input: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of an environment class."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """The JSON Schema of the arguments, an object."""
    call: Callable[[Environment, Mapping[str, Any]], ToolOutput | Awaitable[ToolOutput]]
    """Runs it with arguments that fit the schema; what is async in it, when that is awaited."""
    blocking: bool = False
    """Whether it runs in a thread of its own, where it may outlive the await for it."""
    images: bool = False
    """Whether it says that it gives back images."""


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools that a prompt offers."""

    by_name: Mapping[str, Tool]
    specs: tuple[Mapping[str, Any], ...]
    """What the model is told of each: `name`, `description`, and `parameters`, its JSON Schema."""
    hash: str
    """Of the specs, in hexadecimal."""

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> ToolSet:
        """Some tools, in the order in which the model is told of them."""
        specs = tuple(
            {"name": t.name, "description": t.description, "parameters": dict(t.schema)}
            for t in tools
        )
        written = json.dumps(specs, default=str).encode("ascii")
        hash = hashlib.blake2b(written, digest_size=16).hexdigest()
        return cls({tool.name: tool for tool in tools}, specs, hash)


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str | None
    description: str | None
    schema: Mapping[str, Any] | None
    blocking: bool
    images: bool | None


@overload
def tool(method: Method) -> Method: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    blocking: bool = False,
    images: bool | None = None,
) -> Callable[[Method], Method]: ...
def tool(
    method: Any = None,
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    blocking: bool = False,
    images: bool | None = None,
) -> Any:
    """Mark a method of an environment as a tool. It may be async.

    It returns text, JSON-able data, content parts (`Text`, `Image`; a list may hold texts and PIL
    images beside them), or the host's `ToolResult`.

    Args:
        name: What the model calls it; default: the method's name.
        description: What the model reads; default: the docstring.
        schema: A raw JSON Schema in place of the signature's; the method then takes the arguments
            by keyword.
        blocking: It blocks (network, disk, a subprocess): it runs in a daemon thread of its own.
        images: It gives back images, where its return annotation doesn't say so. The builder warns
            if the model can't see them.
    """

    def mark(target: Method) -> Method:
        setattr(target, _MARK, _Mark(name, description, schema, blocking, images))
        return target

    return mark if method is None else mark(method)


def tools_of(environment: type[Environment]) -> dict[str, Tool]:
    """The tools of an environment class by name: its methods in the order of definition, then
    `extra_tools`.

    An override of a tool is that tool, marked again or not; None in its place takes it away.

    Raises:
        DefinitionError: a signature that gives no schema, or two tools of one name.
    """
    members: dict[str, object] = {}
    marks: dict[str, _Mark] = {}
    for base in reversed(environment.__mro__):
        members.update(vars(base))
        for attribute, member in vars(base).items():
            mark = getattr(member, _MARK, None)  # a mark that `tool` sets on any callable
            if isinstance(mark, _Mark):
                marks[attribute] = mark
    found: dict[str, Tool] = {}
    for attribute, member in members.items():
        made = _tool_of_member(environment, attribute, member, marks.get(attribute))
        if made is not None:
            _add(found, made, environment)
    for extra in environment.extra_tools:
        _add(found, _host_tool(extra, lambda _env, extra=extra: extra), environment)
    return found


def _add(found: dict[str, Tool], made: Tool, environment: type) -> None:
    if made.name in found:
        raise DefinitionError(f"{environment.__name__} has two tools named {made.name!r}")
    found[made.name] = made


def _tool_of_member(
    environment: type, attribute: str, member: object, mark: _Mark | None
) -> Tool | None:
    if mark is not None and callable(member):
        return _method_tool(environment, attribute, member, mark)
    if isinstance(member, HostTool) and not isinstance(member, type):
        return _host_tool(member, lambda env: getattr(env, attribute))
    return None


def _method_tool(
    environment: type, attribute: str, method: Callable[..., Any], mark: _Mark
) -> Tool:
    where = f"tool {environment.__name__}.{attribute}"
    if mark.blocking and inspect.iscoroutinefunction(method):
        raise DefinitionError(f"{where} is async and says that it blocks: it is one or the other")
    model = None if mark.schema is not None else arguments_model(where, method)
    schema = mark.schema if model is None else schema_of(where, model)
    assert schema is not None

    name = mark.name or attribute

    def call(env: Environment, arguments: Mapping[str, Any]) -> ToolOutput | Awaitable[ToolOutput]:
        given = dict(arguments) if model is None else keywords(model, arguments)
        bound = getattr(env, attribute)
        result = _in_thread(bound, given) if mark.blocking else bound(**given)
        return _awaited(name, result) if inspect.isawaitable(result) else _output(name, result)

    return Tool(
        name=name,
        description=mark.description or inspect.cleandoc(method.__doc__ or ""),
        schema=schema,
        call=call,
        blocking=mark.blocking,
        images=_gives_images(method) if mark.images is None else mark.images,
    )


def _gives_images(method: Callable[..., Any]) -> bool:
    """Whether its return annotation names `Image`, or PIL's."""
    types = given_types(method)
    return Image in types or any(kind.__module__ == "PIL.Image" for kind in types)


def _host_tool(host: HostTool, bind: Callable[[Environment], Any]) -> Tool:
    def call(env: Environment, arguments: Mapping[str, Any]) -> Awaitable[ToolOutput]:
        return _awaited(host.name, bind(env).run(_HostInput(dict(arguments))))

    return Tool(host.name, inspect.cleandoc(host.description), dict(host.parameters_schema), call)


async def _awaited(name: str, running: Awaitable[Any]) -> ToolOutput:
    return _output(name, await running)


def _output(name: str, result: Any) -> ToolOutput:
    """What a tool gave back. A value that is no content is a bug, not one of its `tool_errors`."""
    try:
        return as_output(result)
    except Exception as error:
        raise EpisodeFailed(f"tool {name!r}: {error}") from error


@dataclass(slots=True)
class _HostInput:
    """What the host's tools read from their `ToolInput`."""

    arguments: dict[str, Any]
    call_id: str | None = None


def _in_thread(bound: Callable[..., Any], given: Mapping[str, Any]) -> asyncio.Future[Any]:
    """Run a blocking tool in a daemon thread, which can hold neither the host's pools nor the
    interpreter's exit.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future can't carry it
            future.set_exception(RuntimeError("the tool raised StopIteration"))
        else:
            future.set_exception(error)

    def work() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = bound(**given)
        except BaseException as error:  # noqa: BLE001 - carried to the awaiting episode
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="tinker-episodes-tool", daemon=True).start()
    return future
