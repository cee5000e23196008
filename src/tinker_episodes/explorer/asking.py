"""What a request asks for, checked; and values as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response

from tinker_episodes.errors import EpisodesError

Choice = TypeVar("Choice", bound=Enum)
Found = TypeVar("Found")

_MOST = 2000
"""Characters of a parameter."""
_LARGEST = 2**31 - 1


class AskingError(EpisodesError, ValueError):
    """A request that can't be answered as it stands."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Asked:
    """The parameters of a request's query."""

    def __init__(self, request: Request) -> None:
        self._query = request.query_params

    def text(self, name: str) -> str | None:
        """A text; None where it is absent or empty."""
        value = self._query.get(name) or None
        if value is not None and len(value) > _MOST:
            raise AskingError(f"{name}: {_MOST} characters at most would be right")
        return value

    def needed(self, name: str) -> str:
        """A text that must be there."""
        value = self.text(name)
        if value is None:
            raise AskingError(f"{name}: it is missing")
        return value

    def number(self, name: str) -> float | None:
        """A finite number; None where it is absent."""
        value = self.text(name)
        if value is None:
            return None
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise AskingError(f"{name}: {value[:40]!r} is no number")
        return found

    def whole(self, name: str) -> int | None:
        """A whole number, such as a step; None where it is absent."""
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit()) or int(value[:20]) > _LARGEST:
            raise AskingError(f"{name}: {value[:40]!r} is no whole number from 0 to {_LARGEST}")
        return int(value)

    def choice(self, name: str, kind: type[Choice]) -> Choice | None:
        """One of the values of an enumeration; None where it is absent."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise AskingError(f"{name}: one of {known} would be right") from None


def found(value: Found | None, what: str) -> Found:
    """The value.

    Raises:
        AskingError: there is none.
    """
    if value is None:
        raise AskingError(f"There is no {what}.", 404)
    return value


def json_response(value: Any, status: int = 200) -> Response:
    """A value as a response."""
    return written_response(json_of(value), status)


def json_of(value: Any) -> bytes:
    """A value as JSON in ASCII: what a model wrote may hold text that no encoding takes."""
    try:
        return _dumped(value).encode("ascii")
    except ValueError:  # something is not finite, which JSON has no word for
        return _dumped(_finite(value)).encode("ascii")


def written_response(body: bytes, status: int = 200) -> Response:
    """JSON that is written already, as a response."""
    headers = {"Cache-Control": "no-store"}
    return Response(body, status, media_type="application/json", headers=headers)


def shallow(value: Any) -> dict[str, Any]:
    """A dataclass as an object, its values as they are."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=_plain, allow_nan=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return shallow(value)
    return dict(cast(Mapping[Any, Any], value)) if isinstance(value, Mapping) else str(value)


def _finite(value: Any) -> Any:
    """The value with null for what is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value):
        return _finite(shallow(value))
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast(list[Any], value)]
    return value
