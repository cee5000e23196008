"""Lists in pages, by offset and limit as the API has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.requests import Request

from tinker_episodes.loopback.errors import ApiError

_LONGEST_PAGE = 1_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list."""

    items: list[T]
    offset: int
    limit: int
    total: int

    @property
    def cursor(self) -> dict[str, int]:
        """The page's place, as the API writes it."""
        return {"offset": self.offset, "limit": self.limit, "total_count": self.total}


def page(request: Request, items: Sequence[T]) -> Page[T]:
    """The part of a list that a request asks for."""
    offset = _number(request, "offset", 0)
    limit = min(_number(request, "limit", 100), _LONGEST_PAGE)
    return Page(list(items[offset : offset + limit]), offset, limit, len(items))


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ApiError(f"{name} is {text[:40]!r}; it must be a small whole number", status=422)
    return int(text)
