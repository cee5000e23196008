"""Endpoints about training runs and saved weights, live or from before."""

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tinker import types

from tinker_episodes.loopback.api.service import answer
from tinker_episodes.loopback.backend import Backend
from tinker_episodes.loopback.bodies import read_json
from tinker_episodes.loopback.errors import ApiError, not_found
from tinker_episodes.loopback.paging import page
from tinker_episodes.loopback.weights import Checkpoint, Kind, RunInfo, checkpoint_path

_CHECKPOINT = "/training_runs/{run_id}/checkpoints/{checkpoint_id:path}"


class CheckpointApi:
    """Runs and their saved weights."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """The endpoints, below the API's prefix."""
        return [
            Route("/weights_info", self.weights_info, methods=["POST"]),
            Route("/checkpoints", self.list_all),
            Route("/training_runs", self.list_runs),
            Route("/training_runs/{run_id}", self.get_run),
            Route("/training_runs/{run_id}/checkpoints", self.list_of_run),
            Route(f"{_CHECKPOINT}/publish", self.publish, methods=["POST", "DELETE"]),
            Route(f"{_CHECKPOINT}/ttl", self.set_ttl, methods=["PUT"]),
            Route(_CHECKPOINT, self.delete, methods=["DELETE"]),
        ]

    async def weights_info(self, request: Request) -> Response:
        body = await read_json(request)
        run = self._backend.store.find(str(body.get("tinker_path"))).run
        return answer(
            types.WeightsInfoResponse(
                base_model=run.base_model,
                is_lora=True,
                lora_rank=run.lora_rank,
                train_unembed=run.lora.get("unembed"),
                train_mlp=run.lora.get("mlp"),
                train_attn=run.lora.get("attn"),
            )
        )

    async def list_all(self, request: Request) -> Response:
        return self._listed(request, self._backend.store.all())

    async def list_of_run(self, request: Request) -> Response:
        return self._listed(request, self._backend.store.all(request.path_params["run_id"]))

    async def list_runs(self, request: Request) -> Response:
        part = page(request, list(self._runs().values()))
        runs = [self._described(run).model_dump(mode="json") for run in part.items]
        return JSONResponse({"training_runs": runs, "cursor": part.cursor})

    async def get_run(self, request: Request) -> Response:
        run_id = request.path_params["run_id"]
        run = self._runs().get(run_id)
        if run is None:
            raise not_found(f"training run {run_id!r}")
        return answer(self._described(run))

    async def publish(self, request: Request) -> Response:
        self._backend.store.set_public(_path(request), request.method == "POST")
        return Response(status_code=204)

    async def set_ttl(self, request: Request) -> Response:
        ttl_s = (await read_json(request)).get("ttl_seconds")
        if not (ttl_s is None or isinstance(ttl_s, int)):
            raise ApiError("ttl_seconds is a whole number, or null for never", status=422)
        self._backend.store.set_ttl(_path(request), ttl_s)
        return Response(status_code=204)

    async def delete(self, request: Request) -> Response:
        self._backend.store.delete(_path(request))
        return Response(status_code=204)

    def _listed(self, request: Request, checkpoints: list[Checkpoint]) -> Response:
        part = page(request, checkpoints)
        items = [_described(checkpoint).model_dump(mode="json") for checkpoint in part.items]
        return JSONResponse({"checkpoints": items, "cursor": part.cursor})

    def _runs(self) -> dict[str, RunInfo]:
        """The live runs, and those that have saved weights."""
        runs = {checkpoint.run.id: checkpoint.run for checkpoint in self._backend.store.all()}
        for session in self._backend.sessions.all():
            runs.update({run_id: run.info for run_id, run in session.runs.items()})
        return runs

    def _described(self, run: RunInfo) -> types.TrainingRun:
        saved = self._backend.store.all(run.id)
        last = max((checkpoint.created_at for checkpoint in saved), default=0.0)
        for session in self._backend.sessions.all():
            if run.id in session.runs:
                last = max(last, session.runs[run.id].requested_at)
        metadata = {key: str(value) for key, value in (run.user_metadata or {}).items()}
        return types.TrainingRun(
            training_run_id=run.id,
            base_model=run.base_model,
            model_owner="local",
            is_lora=True,
            lora_rank=run.lora_rank,
            last_request_time=datetime.fromtimestamp(last, UTC),
            last_checkpoint=_newest(saved, "training"),
            last_sampler_checkpoint=_newest(saved, "sampler"),
            user_metadata=None if run.user_metadata is None else metadata,
        )


def _path(request: Request) -> str:
    return checkpoint_path(request.path_params["run_id"], request.path_params["checkpoint_id"])


def _newest(checkpoints: list[Checkpoint], kind: Kind) -> types.Checkpoint | None:
    matching = (checkpoint for checkpoint in checkpoints if checkpoint.kind == kind)
    newest = next(matching, None)
    return None if newest is None else _described(newest)


def _described(checkpoint: Checkpoint) -> types.Checkpoint:
    expires = checkpoint.expires_at
    return types.Checkpoint(
        checkpoint_id=checkpoint.id,
        checkpoint_type=checkpoint.kind,
        time=datetime.fromtimestamp(checkpoint.created_at, UTC),
        tinker_path=checkpoint.path,
        size_bytes=checkpoint.size_bytes,
        public=checkpoint.public,
        user_metadata=checkpoint.user_metadata,
        expires_at=None if expires is None else datetime.fromtimestamp(expires, UTC),
    )
