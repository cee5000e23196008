"""The server as an ASGI app: its endpoints, its guard, and the clock that frees what expires."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

from tinker_episodes.guard import Guard
from tinker_episodes.loopback.api.checkpoints import CheckpointApi
from tinker_episodes.loopback.api.refused import refused_routes
from tinker_episodes.loopback.api.sampling import SamplingApi
from tinker_episodes.loopback.api.service import ServiceApi
from tinker_episodes.loopback.api.training import TrainingApi
from tinker_episodes.loopback.backend import Backend, Clock, make_backend
from tinker_episodes.loopback.config import LoopbackConfig
from tinker_episodes.loopback.errors import ApiError

logger = logging.getLogger(__name__)

_SWEEP_S = 5.0


def create_app(config: LoopbackConfig, *, now: Clock = time.time) -> Starlette:
    """The server for `config`; opening its port is the caller's part.

    `app.state.backend` is what it holds. A config that can't be served raises `LoopbackError` here.
    """
    cleanup = contextlib.ExitStack()
    with contextlib.ExitStack() as on_error:
        on_error.push(cleanup)
        backend = make_backend(config, cleanup, now=now)
        on_error.pop_all()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        backend.futures.bind(asyncio.get_running_loop())
        backend.worker.start()
        sweeper = asyncio.create_task(_sweep(backend))
        try:
            yield
        finally:
            sweeper.cancel()
            await asyncio.to_thread(backend.worker.stop)
            cleanup.close()

    # Routes are tried in order: what is called most comes first.
    apis = (SamplingApi(backend), TrainingApi(backend), ServiceApi(backend), CheckpointApi(backend))
    routes = [route for api in apis for route in api.routes()] + refused_routes()
    app = Starlette(
        routes=[Mount("/api/v1", routes=routes)],
        middleware=[Middleware(Guard)],
        exception_handlers={
            ApiError: _refused,
            HTTPException: _unroutable,
            Exception: _broken,
        },
        lifespan=lifespan,
    )
    app.state.backend = backend
    return app


async def _sweep(backend: Backend) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        try:
            backend.sweep()
        except OSError:
            logger.exception("what has expired could not be freed; it is tried again")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError), "registered for it alone"
    return JSONResponse({"detail": error.message}, status_code=error.status)


async def _unroutable(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it alone"
    what = f"{request.method} {request.url.path[:200]}"
    detail = (
        f"the loopback server has no {what}" if error.status_code in (404, 405) else error.detail
    )
    return JSONResponse({"detail": detail}, status_code=error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    logger.error("%s failed", request.url.path, exc_info=error)
    return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, status_code=500)
