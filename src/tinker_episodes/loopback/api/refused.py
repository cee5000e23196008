"""Endpoints of the API that are not served here, each with the reason that its caller gets."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tinker_episodes.loopback.errors import ApiError

_NO_KEYS = "it takes any API key and keeps none"
_NO_BILLS = "nothing that it does is billed"
_NO_EXPORT = "it saves weights in no external format"

REFUSED = {
    ("POST", "/auth/token"): _NO_KEYS,
    ("GET", "/auth/apikey/me"): _NO_KEYS,
    ("DELETE", "/auth/apikey/me"): _NO_KEYS,
    ("GET", "/audit"): "it keeps no audit log",
    ("GET", "/billing/usage/events"): _NO_BILLS,
    ("GET", "/billing/usage/checkpoints/current"): _NO_BILLS,
    ("PUT", "/sessions/{session_id}/project"): "it has no projects",
    ("GET", "/sessions/{session_id}/trace_export"): "it keeps no traces",
    ("POST", "/sessions/search"): "it lists sessions, and searches none",
    ("POST", "/copy_weights"): "it has no projects to copy weights between",
    ("POST", "/create_custom_loss"): "custom losses run in the client",
    (
        "GET",
        "/training_runs/{run_id}/checkpoints/{checkpoint_id:path}/external_weights_urls",
    ): _NO_EXPORT,
}
"""Why, by method and path below the API's prefix."""


def refused_routes() -> list[Route]:
    """The endpoints, below the API's prefix."""
    return [Route(path, _refusal(why), methods=[method]) for (method, path), why in REFUSED.items()]


def _refusal(why: str) -> Callable[[Request], Awaitable[Response]]:
    async def refuse(request: Request) -> Response:
        what = f"{request.method} {request.url.path[:200]}"
        raise ApiError(f"the loopback server does not serve {what}: {why}", status=404)

    return refuse
