"""What goes wrong: `ApiError` answers a request, `LoopbackError` is a server that can't start."""

from tinker_episodes.errors import EpisodesError


class LoopbackError(EpisodesError, RuntimeError):
    """The server can't start; the message is one line for a person."""


class ApiError(Exception):
    """A request that is refused: an HTTP status and a sentence."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def not_found(what: str) -> ApiError:
    """An id that names nothing here."""
    return ApiError(f"{what} is not known to this server", status=404)
