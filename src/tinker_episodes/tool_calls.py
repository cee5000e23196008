"""Running one call of a tool, within its time, with errors told apart."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from tinker_episodes.environment import Environment
from tinker_episodes.errors import EpisodeClosed, EpisodeFailed
from tinker_episodes.hooks import Hooks, message_of
from tinker_episodes.outputs import ToolOutput
from tinker_episodes.tools import Tool


async def output_of(
    tool: Tool,
    arguments: Mapping[str, Any],
    environment: Environment,
    hooks: Hooks,
    *,
    seen: tuple[type[Exception], ...],
) -> ToolOutput:
    """What a tool gives back for arguments that fit its schema.

    Args:
        seen: Exceptions that the model sees as the call's result.

    Raises:
        EpisodeFailed: it raised anything else, or took too long.
        EpisodeClosed: it was stopped.
    """

    def call() -> ToolOutput | Awaitable[ToolOutput]:
        running = tool.call(environment, arguments)
        if tool.blocking and not isinstance(running, ToolOutput):
            return hooks.outlasting(running)
        return running

    try:
        limit_s = environment.tool_timeout_s
        output = await hooks.run(f"tool {tool.name!r}", call, limit_s=limit_s, seen=seen)
    except (EpisodeFailed, EpisodeClosed):
        raise  # also where an author's `tool_errors` are as wide as RuntimeError
    except seen as error:
        return ToolOutput(f"Error: {message_of(error)}", error=True)
    if output.stop:
        environment.end()
    return output
