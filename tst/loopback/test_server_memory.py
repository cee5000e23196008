"""A long run leaves nothing behind."""

from pathlib import Path
from typing import Any

import httpx
from tinker.proto import tinker_public_pb2 as wire

from tinker_episodes.loopback import LoopbackConfig, create_app
from tinker_episodes.loopback.backend import Backend

from .conftest import PORT, Clock

MEGABYTE = 2**20


async def test_memory_is_flat_over_a_thousand_steps(small_model: str) -> None:
    """What is kept, and this process's memory, are the same after 200 steps and after 1,000."""
    clock = Clock()
    config = LoopbackConfig(port=PORT, model=small_model, width=8, layers=1, threads=1)
    app = create_app(config, now=clock)
    transport = httpx.ASGITransport(app)
    url = f"http://127.0.0.1:{PORT}"
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=url) as http,
    ):
        client = Client(http)
        model_id = await client.create(app.state.backend)
        sizes: list[tuple[int, int, int]] = []
        for step in range(1_000):
            await client.step(model_id, step)
            clock.time_s += 1.0
            app.state.backend.sweep()
            if step in (199, 999):
                sizes.append(kept(app.state.backend))
    (results, snapshots, early), (*late_counts, late) = sizes
    assert late_counts == [results, snapshots]
    assert late - early < 16 * MEGABYTE


def kept(backend: Backend) -> tuple[int, int, int]:
    """Results, snapshots, and bytes of memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    snapshots = len(list(backend.snapshots._folder.iterdir()))
    return len(backend.futures), snapshots, int(pages) * 4096


class Client:
    """The requests of a training loop, in their plainest form."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._session = ""

    async def create(self, backend: Backend) -> str:
        body = {"tags": [], "user_metadata": None, "sdk_version": "0"}
        self._session = (await self._post("create_session", json=body))["session_id"]
        body = {
            "session_id": self._session,
            "model_seq_id": 0,
            "base_model": backend.model_name,
        }
        return (await self._result("create_model", json=body))["model_id"]

    async def step(self, model_id: str, step: int) -> None:
        seq = 3 * step
        request = wire.ForwardBackwardRequest(
            model_id=model_id, seq_id=seq + 1, loss_fn="cross_entropy"
        )
        datum = request.data.add()
        datum.model_input.add().encoded_text.tokens = b"\1\0\0\0\2\0\0\0"
        target = datum.loss_fn_inputs["target_tokens"]
        target.dense, target.dtype = b"\2\0\0\0\3\0\0\0", wire.DTYPE_INT32
        target.shape.append(2)
        await self._result("forward_backward", content=request.SerializeToString())
        body = {"model_id": model_id, "seq_id": seq + 2, "adam_params": {}}
        await self._result("optim_step", json=body)
        body = {"model_id": model_id, "seq_id": seq + 3, "sampling_session_seq_id": step}
        saved = await self._result("save_weights_for_sampler", json=body)
        body = {
            "sampling_session_id": saved["sampling_session_id"],
            "seq_id": 0,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]},
            "sampling_params": {"max_tokens": 4},
        }
        await self._result("asample", json=body)

    async def _result(self, endpoint: str, **content: Any) -> Any:
        promised = await self._post(endpoint, **content)
        return await self._post("retrieve_future", json={"request_id": promised["request_id"]})

    async def _post(self, endpoint: str, **content: Any) -> Any:
        answer = await self._http.post(f"/api/v1/{endpoint}", **content)
        assert answer.status_code == 200, answer.text
        protobuf = answer.headers["content-type"] == "application/x-protobuf"
        return None if protobuf else answer.json()
