"""Who may talk to a server on this machine: its own programs and its own page, and no page of
another site that a browser shows.

A name that another site controls can be made to point here, so the Host header decides, not the
address.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a server answers to."""

    hosts: tuple[str, ...] = LOOPBACK_NAMES
    """As they stand in a Host header, without the port."""
    any_address: bool = False
    """Whether it answers to any IP address too: no other site's page comes under one."""
    any_port: bool = False
    """Whether the port may be another one than the server's, as behind a tunnel."""

    def allow(self, host: str, port: int) -> bool:
        """Whether a Host header names this server."""
        name, _, given = host.rpartition(":")
        if not name or given.endswith("]"):
            name, given = host, "80"
        if not given.isdigit() or (not self.any_port and given != str(port)):
            return False
        return name in self.hosts or (self.any_address and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


class Guard:
    """Refuses requests to another host's name, or from another site's page."""

    def __init__(self, app: ASGIApp, names: Names | None = None) -> None:
        """
        Args:
            names: What the server is called; by default the loopback names with its own port.
        """
        self._app = app
        self._names = names or Names()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (why := _refusal(scope, self._names)):
            await JSONResponse({"detail": why}, status_code=403)(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)


def _refusal(scope: Scope, names: Names) -> str | None:
    _, port = scope["server"]
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not names.allow(hosts[0], port):
        known = ", ".join(f"{host}:{port}" for host in names.hosts)
        return f"this server answers to {known} alone"
    if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
        return _FROM_ELSEWHERE
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return None if _opens_a_page(scope, headers) else _FROM_ELSEWHERE
    return None


_FROM_ELSEWHERE = "this server answers no page of another site"


def _opens_a_page(scope: Scope, headers: Headers) -> bool:
    """Whether a link led a person here: the page that had the link can't read the answer."""
    return (
        scope["method"] == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )
