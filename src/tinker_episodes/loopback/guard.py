"""Who may talk to the server: programs of this machine, and no web page that a browser shows."""

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Refuses requests to another host's name, or from another site's page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (why := _refusal(scope)):
            await JSONResponse({"detail": why}, status_code=403)(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)


def _refusal(scope: Scope) -> str | None:
    _, port = scope["server"]
    headers = Headers(scope=scope)
    names = [f"{host}:{port}" for host in _HOSTS]
    if headers.getlist("host") not in [[name] for name in names]:
        return f"this server answers to {', '.join(names)} alone"
    origins = headers.getlist("origin")
    if any(origin not in [f"http://{name}" for name in names] for origin in origins):
        return "this server answers no page of another site"
    return None
