"""The explorer as an ASGI app: the page's files, its data, and what guards them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio.to_thread
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tinker_episodes.errors import EpisodesError
from tinker_episodes.explorer.api import Api
from tinker_episodes.explorer.asking import AskingError, json_response
from tinker_episodes.explorer.live import EVERY_S, Watcher
from tinker_episodes.explorer.security import Hardened, TokenCheck
from tinker_episodes.explorer.sources import Sources
from tinker_episodes.guard import Guard, Names

logger = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
_MODULES = ", ".join(
    f"</static/{file.relative_to(STATIC).as_posix()}>; rel=modulepreload"
    for file in sorted(STATIC.rglob("*.js"))
)
"""All modules at once: a browser that learns of them import by import waits for each in turn."""
_THREADS = 8
"""Queries at once: more would take memory and no less time."""


def create_app(
    sources: Sources,
    *,
    names: Names | None = None,
    token: str | None = None,
    every_s: float = EVERY_S,
) -> Starlette:
    """The explorer over `sources`; opening its port is the caller's part.

    Args:
        names: What the server is called; by default the loopback names, on any port.
        token: What requests for data must carry; None where only this machine can reach it.
        every_s: Seconds between two looks for changes.
    """
    watcher = Watcher(sources, every_s)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        try:
            yield
        finally:
            watcher.stop()
            sources.close()

    middleware = [Middleware(Hardened), Middleware(Guard, names=names or Names(any_port=True))]
    if token is not None:
        middleware.append(Middleware(TokenCheck, token=token))
    app = Starlette(
        routes=[
            Mount("/api", routes=[Route("/live", watcher.live), *Api(sources).routes()]),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/{page:path}", _page, methods=["GET"]),
        ],
        middleware=middleware,
        exception_handlers={
            AskingError: _refused,
            EpisodesError: _refused,
            HTTPException: _unroutable,
            SQLAlchemyError: _unreadable,
            Exception: _broken,
        },
        lifespan=lifespan,
    )
    app.state.watcher = watcher
    return app


async def _page(request: Request) -> Response:
    """The one page: which view it shows is told by its address, in the browser."""
    return FileResponse(STATIC / "index.html", headers={"Link": _MODULES})


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, AskingError) else 400
    return json_response({"detail": str(error)}, status)


async def _unroutable(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it alone"
    return json_response({"detail": error.detail}, error.status_code)


async def _unreadable(request: Request, error: Exception) -> Response:
    logger.error("%s: the index can't be read: %s", request.url.path, error)
    return json_response(
        {"detail": "The run index can't be read: it may have been moved or removed."}, 503
    )


async def _broken(request: Request, error: Exception) -> Response:
    logger.error("%s failed", request.url.path, exc_info=error)
    return json_response({"detail": f"The explorer failed: {type(error).__name__}."}, 500)
