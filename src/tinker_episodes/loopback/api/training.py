"""Endpoints of training runs: create, forward and backward, step, save, load."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tinker import types

from tinker_episodes.loopback.api.service import answer
from tinker_episodes.loopback.backend import Backend
from tinker_episodes.loopback.bodies import parse, read_json, read_model, read_pass
from tinker_episodes.loopback.futures import Future
from tinker_episodes.loopback.training import Training


class TrainingApi:
    """Every operation answers with the id of its result."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._training = Training(backend)

    def routes(self) -> list[Route]:
        """The endpoints, below the API's prefix."""
        return [
            Route("/create_model", self.create_model, methods=["POST"]),
            Route("/get_info", self.get_info, methods=["POST"]),
            Route("/forward_backward", self.forward_backward, methods=["POST"]),
            Route("/optim_step", self.optim_step, methods=["POST"]),
            Route("/save_weights", self.save_weights, methods=["POST"]),
            Route("/save_weights_for_sampler", self.save_for_sampler, methods=["POST"]),
            Route("/save_weights_external", self.save_external, methods=["POST"]),
            Route("/load_weights", self.load_weights, methods=["POST"]),
        ]

    async def create_model(self, request: Request) -> Response:
        body = await read_model(request, types.CreateModelRequest)
        return _promised(self._training.create(body))

    async def get_info(self, request: Request) -> Response:
        body = await read_model(request, types.GetInfoRequest)
        info = self._backend.sessions.run(body.model_id).info
        data = types.ModelData(
            arch="transformer", model_name=info.base_model, tokenizer_id=info.base_model
        )
        return answer(
            types.GetInfoResponse(
                type="get_info",
                model_id=info.id,
                model_name=info.base_model,
                is_lora=True,
                lora_rank=info.lora_rank,
                model_data=data,
            )
        )

    async def forward_backward(self, request: Request) -> Response:
        return _promised(self._training.pass_over(await read_pass(request)))

    async def optim_step(self, request: Request) -> Response:
        return _promised(self._training.optim_step(await read_json(request)))

    async def save_weights(self, request: Request) -> Response:
        return _promised(self._training.save(await read_json(request)))

    async def save_for_sampler(self, request: Request) -> Response:
        return _promised(self._training.save_for_sampler(await read_json(request)))

    async def save_external(self, request: Request) -> Response:
        why = "the loopback server saves weights in no external format"
        return _promised(self._training.refuse(await read_json(request), why))

    async def load_weights(self, request: Request) -> Response:
        body = await read_json(request)
        if body.get("model_id") is not None:
            return _promised(self._training.load(body))
        parsed = parse(types.LoadWeightsRequest, body)
        return _promised(self._training.create_from_weights(parsed))


def _promised(future: Future) -> Response:
    model_id = future.id.rpartition(":")[0]
    return JSONResponse({"request_id": future.id, "model_id": model_id})
