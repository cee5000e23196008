"""Running the server in this process: it binds, announces its URL, and answers until stopped."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from tinker_episodes.loopback.config import LoopbackConfig
from tinker_episodes.loopback.errors import LoopbackError


def listen(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; connections wait in it until the server accepts them."""
    # asyncio turns Nagle's algorithm off only where the protocol is named.
    # It would cost 40 ms a request.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", port))
        server.listen(1024)
    except (OSError, OverflowError) as error:
        server.close()
        reason = error.strerror if isinstance(error, OSError) else "a port is from 0 to 65535"
        raise LoopbackError(f"port {port} can't be used: {reason}") from error
    return server


def run_server(config: LoopbackConfig, announce: Callable[[str], None]) -> None:
    """Serve until the process is told to stop; `announce` gets the URL once it answers."""
    # Threads that spin while they wait slow the clients on this machine, and then the server.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with listen(config.port) as server:
        from tinker_episodes.loopback.app import create_app  # loads torch, which reads the above

        app = create_app(config)
        # The app logs its own errors; uvicorn would add one for each client that still waits.
        settings = uvicorn.Config(
            app, log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=1
        )
        announce(f"http://127.0.0.1:{server.getsockname()[1]}")
        uvicorn.Server(settings).run(sockets=[server])


def describe(url: str, model: str) -> str:
    """How to use a running server."""
    return (
        f"The loopback server answers at {url}\n"
        f"  export TINKER_BASE_URL={url} TINKER_API_KEY=tml-loopback\n"
        f"  model_name={Path(model)}\n"
        "Stop it with Ctrl-C."
    )
