"""Endpoints of samplers, and of results, which are fetched from a promise by its id."""

import json

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tinker import types

from tinker_episodes.loopback.api.service import answer
from tinker_episodes.loopback.backend import Backend
from tinker_episodes.loopback.bodies import read_json, read_model
from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.futures import Future
from tinker_episodes.loopback.sampling_requests import Sampling

_PATIENCE_S = 30.0
"""How long a fetch waits for a result before the client is to ask again; it gives up at 45 s."""


class SamplingApi:
    """Sampling sessions, samples, and all results."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._sampling = Sampling(backend)

    def routes(self) -> list[Route]:
        """The endpoints, below the API's prefix."""
        return [
            Route("/retrieve_future", self.fetch, methods=["POST"]),
            Route("/asample", self.sample, methods=["POST"]),
            Route("/create_sampling_session", self.create_sampler, methods=["POST"]),
            Route("/join_sampling_session", self.join_sampler, methods=["POST"]),
            Route("/samplers/{sampler_id}", self.get_sampler),
            Route("/retrieve_futures", self.fetch_ended, methods=["POST"]),
            Route("/cancel_future", self.cancel, methods=["POST"]),
        ]

    async def create_sampler(self, request: Request) -> Response:
        body = await read_model(request, types.CreateSamplingSessionRequest)
        sampler = self._sampling.create(body)
        return answer(types.CreateSamplingSessionResponse(sampling_session_id=sampler.id))

    async def join_sampler(self, request: Request) -> Response:
        body = await read_json(request)
        sampler = self._backend.sessions.sampler(_text(body.get("sampling_session_id")))
        session = self._backend.sessions.find(sampler.session_id)
        session.clones += 1
        fields = {"type": "join_sampling_session", "client_counter": session.clones}
        return JSONResponse(fields)

    async def get_sampler(self, request: Request) -> Response:
        sampler = self._backend.sessions.sampler(request.path_params["sampler_id"])
        return answer(
            types.GetSamplerResponse(
                sampler_id=sampler.id,
                base_model=self._backend.model_name,
                model_path=sampler.model_path,
            )
        )

    async def sample(self, request: Request) -> Response:
        body = await read_model(request, types.SampleRequest)
        future, sequence_ids = self._sampling.sample(body)
        return JSONResponse({"request_id": future.id, "sample_sequence_ids": sequence_ids})

    async def fetch(self, request: Request) -> Response:
        body = await read_json(request)
        request_id = _text(body.get("request_id"))
        reply = await self._backend.futures.fetch(request_id, patience_s=_PATIENCE_S)
        if reply is None:
            again = {"type": "try_again", "request_id": request_id, "queue_state": "active"}
            return JSONResponse(again)
        return Response(reply.body, media_type=reply.media_type)

    async def fetch_ended(self, request: Request) -> Response:
        body = await read_model(request, types.FuturesRetrieveRequest)
        target = f"{body.target.sampling_session_id}:{body.target.cloned_sampler_id}"
        self._backend.sessions.sampler(body.target.sampling_session_id)
        futures = self._backend.futures
        futures.forget(body.retrieved_request_ids, target=target)
        patience_s = _PATIENCE_S if body.timeout is None else min(body.timeout, _PATIENCE_S)
        ended = await futures.ended(target, body.prev_cursor, patience_s=patience_s)
        cursor = max([body.prev_cursor, *(future.cursor for future in ended)])
        completions = [_completion(future) for future in ended]
        return JSONResponse({"completions": completions, "cursor": cursor})

    async def cancel(self, request: Request) -> Response:
        body = await read_json(request)
        self._backend.futures.cancel(_text(body.get("request_id")))
        return Response(status_code=204)


def _completion(future: Future) -> dict[str, object]:
    assert future.reply is not None, "it has ended"
    if future.reply.failed:
        return {"state": "failed", "request_id": future.id}
    size = len(future.reply.body)
    return {
        "state": "finished",
        "request_id": future.id,
        "response_payload_uncompressed_size": size,
    }


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ApiError(f"an id is text, not {json.dumps(value)[:80]}", status=422)
    return value
