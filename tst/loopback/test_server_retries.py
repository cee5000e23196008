"""A client that loses answers asks again: nothing happens twice."""

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import tinker
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tinker import types

from tinker_episodes import loopback
from tinker_episodes.loopback.futures import FETCHED_TTL_S
from tinker_episodes.loopback.server import listen

from .conftest import LocalServer
from .test_server_hostile import pass_request

LOSSY = ("create_model", "forward_backward", "optim_step", "save_weights", "asample", "retrieve")


class LossyProxy:
    """Hands requests to a server, and loses the answer to the first of each kind."""

    def __init__(self, server: str) -> None:
        self.lost: list[str] = []
        self._url = server
        route = Route("/{path:path}", self._forward, methods=["GET", "POST", "PUT", "DELETE"])
        app = Starlette(routes=[route], lifespan=self._client)
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
        self._socket = listen(0)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    @contextlib.asynccontextmanager
    async def _client(self, app: Starlette) -> AsyncIterator[None]:
        async with httpx.AsyncClient(base_url=self._url, timeout=60) as self._http:
            yield

    async def _forward(self, request: Request) -> Response:
        kept = ("content-type", "content-encoding", "x-api-key")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        answer = await self._http.request(
            request.method, request.url.path, content=await request.body(), headers=headers
        )
        kind = next((kind for kind in LOSSY if kind in request.url.path), None)
        if kind is not None and kind not in self.lost:
            self.lost.append(kind)
            return Response(status_code=503)
        return Response(
            answer.content, answer.status_code, media_type=answer.headers.get("content-type")
        )


@pytest.fixture
def lossy(server: str) -> Iterator[tuple[str, LossyProxy]]:
    proxy = LossyProxy(server)
    with proxy as url:
        yield url, proxy


def run_of(url: str) -> tuple[float, float, list[int]]:
    """Two steps of training, their losses, and a sample of what came out."""
    with tinker.ServiceClient(base_url=url) as service:
        client = service.create_lora_training_client(base_model=loopback.model_name()).result()
        tokens = [7, 8, 9, 10, 11]
        datum = types.Datum(types.ModelInput.from_ints(tokens), {"target_tokens": tokens})
        losses: list[float] = []
        for _ in range(2):
            future = client.forward_backward([datum], "cross_entropy")
            client.optim_step(types.AdamParams(learning_rate=0.01)).result()
            losses.append(future.result().metrics["loss:sum"])
        sampler = client.save_weights_and_get_sampling_client().result()
        params = types.SamplingParams(max_tokens=12, stop=[])
        sampled = sampler.sample(types.ModelInput.from_ints([7]), 1, params).result()
        return losses[0], losses[1], sampled.sequences[0].tokens


def test_a_run_that_loses_answers_is_the_run_that_loses_none(
    server: str, lossy: tuple[str, LossyProxy]
) -> None:
    url, proxy = lossy
    assert run_of(url) == run_of(server)
    assert sorted(proxy.lost) == sorted(LOSSY)


def test_a_step_that_is_asked_for_again_is_taken_once(local: LocalServer) -> None:
    model_id = local.model(local.session())
    run = local.backend.sessions.run(model_id)
    body = pass_request(model_id, 1).SerializeToString()
    for _ in range(3):
        local.client.post("/api/v1/forward_backward", content=body)
    for _ in range(3):
        request_id = local.operate("optim_step", model_id, 2, adam_params={})
        assert "metrics" in local.result(request_id).json()
    local.clock.time_s += FETCHED_TTL_S + 1
    local.backend.futures.sweep()
    late = local.post("optim_step", model_id=model_id, seq_id=2, adam_params={})
    assert late.status_code == 400 and "3 is next" in late.json()["detail"]
    states = run.trainer._optimizer.state_dict()["state"].values()
    assert {int(state["step"]) for state in states} == {1}
