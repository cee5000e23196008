"""Running what an author wrote: open, tools, scorers, next_prompt, close.

Each hook is bounded in time and can be stopped from outside, so an async one runs in a task of its
own; all hooks of an episode share one context, so a context variable that `open` sets is there in a
tool. A hook that is stopped has as long again to unwind. A hook that is not async and never
returns blocks its event loop: nothing in the process can bound it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from tinker_episodes.errors import EpisodeClosed, EpisodeFailed

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Hooks:
    """The hooks of one episode."""

    def __init__(self) -> None:
        self._context: contextvars.Context | None = None
        self._running: set[asyncio.Future[Any]] = set()
        self._stopped = False

    async def run(
        self,
        where: str,
        hook: Callable[[], T | Awaitable[T]],
        *,
        limit_s: float,
        seen: tuple[type[Exception], ...] = (),
    ) -> T:
        """Run a hook.

        Args:
            where: What it is, for messages.
            limit_s: Seconds that it may take, if it is async.
            seen: Exceptions that pass as they are.

        Raises:
            EpisodeFailed: it raised anything else, took too long, or asked the interpreter to exit.
            EpisodeClosed: it was stopped.
        """
        context = self._context = self._context or contextvars.copy_context()
        try:
            result = context.run(_begun, where, hook)
            if inspect.isawaitable(result):
                return await self._bounded(where, cast(Awaitable[T], result), context, limit_s)
            return cast(T, result)
        except (EpisodeFailed, EpisodeClosed, *seen):
            raise
        except SystemExit as error:
            raise _exits(where, error) from error
        except Exception as error:
            raise EpisodeFailed(f"{where}: {message_of(error)}") from error

    async def outlasting(self, running: Awaitable[T]) -> T:
        """Wait for a call whose thread goes on where the wait is cancelled: `settle` waits for
        it.
        """
        task = asyncio.ensure_future(running)
        self._keep(task)
        return await asyncio.shield(task)

    async def settle(self, limit_s: float) -> None:
        """Wait for what still runs: nothing late may change a scored state.

        Raises:
            EpisodeFailed: something was still running after `limit_s`.
        """
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=limit_s)
            if late:
                raise EpisodeFailed(
                    "a hook or a blocking tool was still running when its time was up"
                )

    async def stop(self, limit_s: float) -> None:
        """Cancel the hooks that run, and wait until they have unwound, for `limit_s` at most."""
        self._stopped = True
        await _unwind(set(self._running), limit_s)

    async def _bounded(
        self, where: str, hook: Awaitable[T], context: contextvars.Context, limit_s: float
    ) -> T:
        loop = asyncio.get_running_loop()
        task = loop.create_task(_value(where, hook), context=context)
        self._keep(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=limit_s)
        except asyncio.CancelledError:
            await _unwind({task}, limit_s)
            raise
        if not done:
            await _unwind({task}, limit_s)
            raise EpisodeFailed(f"{where} took longer than {limit_s} s") from TimeoutError()
        if task.cancelled():
            if self._stopped:
                raise EpisodeClosed(f"{where} was stopped: its episode has ended")
            raise EpisodeFailed(f"{where}: CancelledError")
        return task.result()

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._running.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, since nobody may await it any more


def _begun(where: str, hook: Callable[[], T]) -> T:
    try:
        return hook()
    except asyncio.CancelledError as error:  # nothing was awaited: it is the author's, no cancel
        raise EpisodeFailed(f"{where}: CancelledError") from error


async def _value(where: str, hook: Awaitable[T]) -> T:
    try:
        return await hook
    except SystemExit as error:  # from a task, it would stop the event loop
        raise _exits(where, error) from error


async def _unwind(tasks: set[asyncio.Future[Any]], limit_s: float) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=limit_s)
        if late:
            logger.warning("%d hooks go on after they were stopped", len(late))


def _exits(where: str, error: SystemExit) -> EpisodeFailed:
    return EpisodeFailed(f"{where}: it asked the interpreter to exit ({error.code!r})")


def message_of(error: Exception) -> str:
    """What an error says, or else its name."""
    return str(error) or type(error).__name__


async def all_of(runs: Sequence[Coroutine[Any, Any, Callable[[], T]]]) -> list[T]:
    """Run at once and wait for all, also where one fails: none may go on in a closed episode. What
    they give is called in their order.
    """
    done = await asyncio.gather(*runs, return_exceptions=True)
    results = [answer() for answer in done if not isinstance(answer, BaseException)]
    failed = [result for result in done if isinstance(result, BaseException)]
    if failed:
        raise failed[0]
    return results
