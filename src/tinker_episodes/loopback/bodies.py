"""Request bodies: read up to a limit, decompressed up to the same limit, and parsed."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import zstandard
from google.protobuf.message import DecodeError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from tinker.proto import tinker_public_pb2 as wire

from tinker_episodes.loopback.config import MAX_BODY_BYTES
from tinker_episodes.loopback.errors import ApiError

_LARGE = 2**18

M = TypeVar("M", bound=BaseModel)


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object of a body."""
    body = await _read(request)
    value = await asyncio.to_thread(_json, body) if len(body) > _LARGE else _json(body)
    if not isinstance(value, dict):
        raise ApiError("the body is not a JSON object", status=422)
    return cast("dict[str, Any]", value)  # a JSON object's keys are text


async def read_model(request: Request, model: type[M]) -> M:
    """The body as one of the SDK's request types."""
    return parse(model, await read_json(request))


async def read_pass(request: Request) -> wire.ForwardBackwardRequest:
    """The protobuf body of `forward_backward`."""
    body = await _read(request)
    try:
        return wire.ForwardBackwardRequest.FromString(body)
    except DecodeError as error:
        raise ApiError("the body is not a ForwardBackwardRequest", status=422) from error


def parse(model: type[M], body: Mapping[str, Any]) -> M:
    """A request of the SDK's type; `ApiError` says which field is wrong."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ApiError(f"{place or 'the body'}: {first['msg']}", status=422) from error


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"the body is not JSON: {str(error)[:200]}", status=422) from error


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return bytes(body)
    if encoding != "zstd":
        raise ApiError(f"content encoding {encoding!r} is not read here; zstd is", status=415)
    return await asyncio.to_thread(_decompress, bytes(body))


def _decompress(body: bytes) -> bytes:
    """The content of one zstd frame, read in pieces so that a small body can't fill the memory."""
    content = bytearray()
    try:
        reader = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(body)
        while part := reader.read(2**20):
            content += part
            if len(content) > MAX_BODY_BYTES:
                raise _too_large()
    except zstandard.ZstdError as error:
        raise ApiError(f"the body is not zstd: {error}", status=422) from error
    return bytes(content)


def _too_large() -> ApiError:
    return ApiError(f"the body has more than {MAX_BODY_BYTES} bytes", status=413)
