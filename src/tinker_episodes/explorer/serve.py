"""Running the explorer in this process: it binds, says where it is, and answers until stopped."""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import socket

import uvicorn
from starlette.applications import Starlette

from tinker_episodes.errors import ConfigError
from tinker_episodes.explorer.app import create_app
from tinker_episodes.explorer.config import DEFAULT_PORT, Explore, is_loopback, names_of, token_of
from tinker_episodes.explorer.live import Watcher
from tinker_episodes.explorer.sources import sources_of


def run(config: Explore) -> int:
    """Serve until Ctrl-C; the exit code.

    Raises:
        ConfigError: a path, port, host or token that can't be used.
        RunIndexError: an index that can't be read.
    """
    token, sources = token_of(config), sources_of(config)
    with listen(config.host, config.port) as server:
        app = create_app(sources, names=names_of(config), token=token)
        print(described(config, server.getsockname()[1], sources.place, token), flush=True)
        logging.basicConfig(format="explore: %(message)s", level=logging.WARNING)
        gc.freeze()  # what is loaded stays: looking through it would hold a page up by 15 ms
        with contextlib.suppress(KeyboardInterrupt):  # how it is meant to be stopped
            ExplorerServer(app).run(sockets=[server])
    return 0


class ExplorerServer(uvicorn.Server):
    """Ends the streams of live updates when it stops, so that nothing waits for them."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=1
            )
        )
        self._watcher: Watcher = app.state.watcher

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._watcher.stop()
        await super().shutdown(sockets)


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port, the usual one, or a free one where that is taken.

    Raises:
        ConfigError: it can't be had.
    """
    if port is not None:
        return _bound(host, port)
    try:
        return _bound(host, DEFAULT_PORT)
    except ConfigError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
            return _bound(host, 0)
        raise


def _bound(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ConfigError(f"port: {port} is none; 0 to 65535 would be right")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
        server.listen(128)
    except OSError as error:
        server.close()
        raise ConfigError(
            f"{host}:{port} can't be listened on: {error.strerror or error}"
        ) from error
    return server


def described(config: Explore, port: int, place: str, token: str | None) -> str:
    """Where the explorer is, what it shows, and how it stops."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    fragment = "" if token is None else f"#token={token}"
    lines = [f"The explorer of {place} is at http://{host}:{port}/{fragment}"]
    if not is_loopback(config.host):
        lines.append(
            "Other machines can reach it: whoever has this address with its token sees all of the "
            "runs, and what is sent is not encrypted."
        )
    lines.append("Stop it with Ctrl-C.")
    return "\n".join(lines)
