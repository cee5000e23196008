"""Endpoints about the service and its sessions."""

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tinker import types

from tinker_episodes.loopback.backend import Backend
from tinker_episodes.loopback.bodies import read_json, read_model
from tinker_episodes.loopback.config import CONTEXT_LENGTH
from tinker_episodes.loopback.paging import page


class ServiceApi:
    """Configuration, health, capabilities, sessions and telemetry."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """The endpoints, below the API's prefix."""
        return [
            Route("/healthz", self.health),
            Route("/get_server_capabilities", self.capabilities),
            Route("/client/config", self.client_config, methods=["POST"]),
            Route("/client/dynamic_config", self.dynamic_config, methods=["POST"]),
            Route("/telemetry", self.telemetry, methods=["POST"]),
            Route("/create_session", self.create_session, methods=["POST"]),
            Route("/session_heartbeat", self.heartbeat, methods=["POST"]),
            Route("/sessions", self.list_sessions),
            Route("/sessions/{session_id}", self.get_session),
            Route("/sessions/{session_id}/finish", self.finish_session, methods=["POST"]),
        ]

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def capabilities(self, request: Request) -> Response:
        model = types.SupportedModel(
            model_name=self._backend.model_name,
            max_context_length=CONTEXT_LENGTH,
            trainable=True,
            sampleable=True,
        )
        return answer(types.GetServerCapabilitiesResponse(supported_models=[model]))

    async def client_config(self, request: Request) -> Response:
        """The SDK's settings for this server: nothing is far away, so nothing is compressed."""
        await read_json(request)
        config = types.ClientConfigResponse(
            use_pyqwest_transport=True, sample_join_sampling_session=True
        )
        return answer(config)

    async def dynamic_config(self, request: Request) -> Response:
        await read_json(request)
        return answer(types.ClientDynamicConfigResponse(sample_cancel_enabled=True))

    async def telemetry(self, request: Request) -> Response:
        """Accepted and dropped."""
        await read_json(request)
        return JSONResponse({"status": "accepted"})

    async def create_session(self, request: Request) -> Response:
        body = await read_model(request, types.CreateSessionRequest)
        session = self._backend.sessions.open(body.user_metadata, body.display_name)
        return answer(types.CreateSessionResponse(session_id=session.id))

    async def heartbeat(self, request: Request) -> Response:
        body = await read_model(request, types.SessionHeartbeatRequest)
        self._backend.sessions.find(body.session_id)
        return answer(types.SessionHeartbeatResponse())

    async def list_sessions(self, request: Request) -> Response:
        ids = [session.id for session in self._backend.sessions.all()]
        return JSONResponse({"sessions": page(request, ids).items})

    async def get_session(self, request: Request) -> Response:
        session = self._backend.sessions.find(request.path_params["session_id"])
        fields: dict[str, Any] = {
            "training_run_ids": list(session.runs),
            "sampler_ids": list(session.samplers),
            "user_metadata": session.user_metadata,
            "display_name": session.display_name,
        }
        return JSONResponse(fields)

    async def finish_session(self, request: Request) -> Response:
        session_id = request.path_params["session_id"]
        self._backend.sessions.find(session_id)
        self._backend.end_session(session_id)
        return Response(status_code=204)


def answer(model: BaseModel) -> Response:
    """One of the SDK's response types as JSON."""
    return Response(model.model_dump_json(), media_type="application/json")
