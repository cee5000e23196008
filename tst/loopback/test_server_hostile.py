"""Requests that are malformed or mean harm: each gets an error, and the server lives."""

import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import zstandard
from tinker.proto import tinker_public_pb2 as wire

from tinker_episodes.loopback import config as limits

from .conftest import PORT, LocalServer


@pytest.fixture(autouse=True)
def alive(local: LocalServer) -> Iterator[None]:
    """After whatever a test did, the server still samples."""
    yield
    sampler_id = local.sampler(local.session())
    request_id = local.sample(sampler_id, 0, [1], max_tokens=1).json()["request_id"]
    assert local.result(request_id).headers["content-type"] == "application/x-protobuf"


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", "", "[::]:8123"]
)
def test_another_host_name_is_refused(local: LocalServer, host: str) -> None:
    answer = local.client.get("/api/v1/healthz", headers={"Host": host})
    assert answer.status_code == 403
    assert f"answers to 127.0.0.1:{PORT}" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machines_names_are_served(local: LocalServer, host: str) -> None:
    headers = {"Host": f"{host}:{PORT}", "Origin": f"http://{host}:{PORT}"}
    assert local.client.get("/api/v1/healthz", headers=headers).json() == {"status": "ok"}


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1"]
)
def test_a_page_of_another_site_is_refused(local: LocalServer, origin: str) -> None:
    answer = local.client.post("/api/v1/create_session", headers={"Origin": origin}, content="{}")
    assert answer.status_code == 403
    assert "no page of another site" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000, b'{"a":' * 50_000, b"1" * 10_000],
)
@pytest.mark.parametrize("path", ["create_session", "asample", "optim_step", "retrieve_future"])
def test_bodies_that_are_not_json_objects_are_refused(
    local: LocalServer, path: str, body: bytes
) -> None:
    answer = local.client.post(f"/api/v1/{path}", content=body)
    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], str)


def test_unknown_and_missing_fields_and_wrong_types_are_named(local: LocalServer) -> None:
    session = local.session()
    body = {"session_id": session, "model_seq_id": 0, "base_model": local.backend.model_name}
    answer = local.post("create_model", **body, surprise=1)
    assert (answer.status_code, "surprise" in answer.json()["detail"]) == (422, True)
    answer = local.post("create_model", session_id=session, base_model="x")
    assert "model_seq_id" in answer.json()["detail"]
    answer = local.post("create_model", **body | {"model_seq_id": [1]})
    assert "model_seq_id" in answer.json()["detail"]
    for request_id in (None, 3, ["x"], {"a": 1}):
        assert local.post("retrieve_future", request_id=request_id).status_code == 422
    assert local.post("optim_step", model_id=3).status_code == 422


@pytest.mark.parametrize(
    "identifier", ["", "nobody", "../../etc/passwd", "a:train:0", "\x00", "x" * 10_000, "{}"]
)
def test_unknown_ids_are_not_found(local: LocalServer, identifier: str) -> None:
    assert local.post("session_heartbeat", session_id=identifier).status_code == 410
    assert local.post("get_info", model_id=identifier).status_code == 410
    assert local.post("optim_step", model_id=identifier, seq_id=1).status_code == 410
    assert local.post("retrieve_future", request_id=identifier).status_code == 410
    assert local.post("cancel_future", request_id=identifier).status_code == 204
    assert local.sample(identifier, 0, [1]).status_code == 410
    assert local.post("weights_info", tinker_path=identifier).status_code == 404


@pytest.mark.parametrize(
    "path", ["tinker://../weights/x", "tinker://a/weights/../../../etc/passwd", "/etc/passwd", "x"]
)
def test_paths_that_name_no_saved_weights_are_not_found(local: LocalServer, path: str) -> None:
    session = local.session()
    body = {"session_id": session, "model_seq_id": 0, "path": path, "optimizer": False}
    assert local.post("load_weights", **body).status_code == 404
    body = {"session_id": session, "sampling_session_seq_id": 0, "model_path": path}
    assert local.post("create_sampling_session", **body).status_code == 404
    run, _, checkpoint = path.removeprefix("tinker://").partition("/")
    escaped = f"{run}/checkpoints/{checkpoint}".replace("..", "%2e%2e")
    assert local.client.delete(f"/api/v1/training_runs/{escaped}").status_code in (404, 405)


def test_a_huge_body_is_refused(local: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinker_episodes.loopback.bodies.MAX_BODY_BYTES", 10_000)
    answer = local.client.post("/api/v1/asample", content=b" " * 10_001)
    assert answer.status_code == 413
    assert "more than 10000 bytes" in answer.json()["detail"]


def test_a_decompression_bomb_is_refused(local: LocalServer) -> None:
    bomb = zstandard.ZstdCompressor(level=19).compress(b"\0" * (limits.MAX_BODY_BYTES + 1))
    assert len(bomb) < 100_000
    answer = local.client.post(
        "/api/v1/forward_backward", content=bomb, headers={"Content-Encoding": "zstd"}
    )
    assert answer.status_code == 413


def test_other_and_broken_encodings_are_refused(local: LocalServer) -> None:
    for encoding, status in (("gzip", 415), ("br", 415), ("zstd", 422)):
        headers = {"Content-Encoding": encoding}
        answer = local.client.post("/api/v1/forward_backward", content=b"abc", headers=headers)
        assert answer.status_code == status


def test_a_compressed_pass_is_read(local: LocalServer) -> None:
    request = pass_request(local.model(local.session()))
    body = zstandard.ZstdCompressor().compress(request.SerializeToString())
    headers = {"Content-Encoding": "zstd"}
    answer = local.client.post("/api/v1/forward_backward", content=body, headers=headers)
    reply = local.result(answer.json()["request_id"])
    assert wire.ForwardBackwardOutput.FromString(reply.content).metrics["loss:sum"] > 0


def pass_request(model_id: str, seq_id: int = 1) -> wire.ForwardBackwardRequest:
    request = wire.ForwardBackwardRequest(model_id=model_id, seq_id=seq_id, loss_fn="cross_entropy")
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = b"\1\0\0\0\2\0\0\0"
    target = datum.loss_fn_inputs["target_tokens"]
    target.dense, target.dtype = b"\2\0\0\0\3\0\0\0", wire.DTYPE_INT32
    target.shape.append(2)
    return request


def changed(change: Callable[[wire.ForwardBackwardRequest], object]):
    def make(model_id: str) -> wire.ForwardBackwardRequest:
        request = pass_request(model_id)
        change(request)
        return request

    return make


def targets(request: wire.ForwardBackwardRequest) -> wire.Tensor:
    return request.data[0].loss_fn_inputs["target_tokens"]


def set_shape(request: wire.ForwardBackwardRequest, *shape: int) -> None:
    del targets(request).shape[:]
    targets(request).shape.extend(shape)


def set_sparse(request: wire.ForwardBackwardRequest, columns: bytes, *shape: int) -> None:
    set_shape(request, *shape)
    csr = targets(request).sparse_csr
    csr.values, csr.crow_indices = b"\1\0\0\0", b"\0" * 8 + (b"\1" + b"\0" * 7) * 2
    csr.col_indices = columns


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: setattr(r, "loss_fn", "__import__"), "not known"),
        (lambda r: r.data[0].model_input[0].ClearField("encoded_text"), "reads text alone"),
        (lambda r: setattr(r.data[0].model_input[0].image, "data", b"x"), "reads text alone"),
        (lambda r: r.data[0].ClearField("model_input"), "has 0 tokens"),
        (
            lambda r: setattr(r.data[0].model_input[0].encoded_text, "tokens", b"abc"),
            "not 32-bit integers",
        ),
        (
            lambda r: setattr(r.data[0].model_input[0].encoded_text, "tokens", b"\xff" * 8),
            "not from 0 to",
        ),
        (lambda r: setattr(targets(r), "dense", b"\xff" * 8), "not from 0 to"),
        (lambda r: setattr(targets(r), "dense", b"abc"), "malformed tensor"),
        (lambda r: setattr(targets(r), "dtype", 4), "malformed tensor"),
        (lambda r: setattr(targets(r), "dtype", 99), "malformed tensor"),
        (lambda r: set_shape(r, -1), "malformed tensor"),
        (lambda r: set_shape(r, 2**62), "too large"),
        (lambda r: set_shape(r, 2, 2**40), "too large"),
        (lambda r: set_shape(r, 1, 1, 2), "malformed tensor"),
        (lambda r: set_shape(r, 1, 2), "of shape"),
        (lambda r: set_sparse(r, b"\5" + b"\0" * 7, 2, 2), "column index"),
        (lambda r: set_sparse(r, b"\0" * 8, 30_000, 2), "row pointers"),
        (lambda r: set_sparse(r, b"\0" * 8, 2), "malformed tensor"),
        (lambda r: r.data[0].loss_fn_inputs.clear(), "has no target_tokens"),
        (lambda r: r.data[0].loss_fn_inputs["mask"], "has 'mask'"),
        (lambda r: r.loss_fn_config.update({"x": 1.0}), "has no setting 'x'"),
        (lambda r: setattr(r.loss_fn_config_v2["x"], "text", "y"), "takes a number"),
        (lambda r: setattr(r.loss_fn_config_v2["x"], "number", float("nan")), "not finite"),
    ],
)
def test_malformed_data_fails_its_operation_alone(
    local: LocalServer, change: Callable[[wire.ForwardBackwardRequest], object], message: str
) -> None:
    model_id = local.model(local.session())
    request = changed(change)(model_id)
    bodies = [request, pass_request(model_id, 2)]
    replies = []
    for body in bodies:
        answer = local.client.post("/api/v1/forward_backward", content=body.SerializeToString())
        assert answer.status_code == 200
        replies.append(local.result(answer.json()["request_id"]))
    failed = replies[0].json()
    assert message in failed["error"] and failed["category"] == "user"
    assert wire.ForwardBackwardOutput.FromString(replies[1].content).metrics["loss:sum"] > 0


def test_weights_that_are_not_finite_are_refused(local: LocalServer) -> None:
    request = pass_request(local.model(local.session()))
    weights = request.data[0].loss_fn_inputs["weights"]
    weights.dense, weights.dtype = torch.tensor([1.0, torch.nan]).numpy().tobytes(), 1
    weights.shape.append(2)
    answer = local.client.post("/api/v1/forward_backward", content=request.SerializeToString())
    assert "not finite" in local.result(answer.json()["request_id"]).json()["error"]


def test_bytes_that_are_not_protobuf_are_refused(local: LocalServer) -> None:
    for body in (b"\xff\xff", b"\0" * 64, pickle.dumps({"a": 1})):
        answer = local.client.post("/api/v1/forward_backward", content=body)
        assert answer.status_code in (410, 422)


def test_operations_far_out_of_order_are_refused(local: LocalServer) -> None:
    model_id = local.model(local.session())
    for seq_id in (0, -1, 10**6):
        answer = local.post("optim_step", model_id=model_id, seq_id=seq_id, adam_params={})
        assert answer.status_code == 400
        assert "out of order" in answer.json()["detail"]
    answer = local.post("optim_step", model_id=model_id, seq_id="1", adam_params={})
    assert answer.status_code == 422


class Harmful:
    def __reduce__(self):
        return (Path.touch, (Path("/tmp/loopback-pickle-ran"),))


def test_a_pickle_in_place_of_weights_does_not_run(local: LocalServer) -> None:
    model_id = local.model(local.session())
    request_id = local.operate("save_weights", model_id, 1, path="swapped")
    path = local.result(request_id).json()["path"]
    harmful = io.BytesIO()
    torch.save({"model": Harmful()}, harmful)
    (file,) = local.backend.store._folder.glob("*.pt")
    for content in (harmful.getvalue(), pickle.dumps(Harmful(), protocol=2), b"", b"PK\x03\x04"):
        file.write_bytes(content)
        body = {"session_id": local.session(), "model_seq_id": 0, "path": path}
        loaded = local.post("load_weights", **body, optimizer=True).json()
        assert "is damaged" in local.result(loaded["request_id"]).json()["error"]
    assert not Path("/tmp/loopback-pickle-ran").exists()


def test_records_that_are_not_ours_are_passed_over(
    local_server: Callable[..., LocalServer], tmp_path: Path
) -> None:
    folder = tmp_path / "weights"
    folder.mkdir(exist_ok=True)
    (folder / "notes.json").write_text("{}")
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[]")
    assert local_server().backend.store.all() == []


def test_unknown_endpoints_and_methods_are_named(local: LocalServer) -> None:
    answer = local.client.get("/api/v1/nothing/here")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "the loopback server has no GET /api/v1/nothing/here"
    assert local.client.get("/api/v1/asample").status_code == 405
    assert local.client.get("/").status_code == 404


def test_pages_are_bounded(local: LocalServer) -> None:
    sessions = [local.session() for _ in range(3)]
    url = "/api/v1/sessions?limit=2&offset=1"
    assert local.client.get(url).json() == {"sessions": sessions[1:]}
    for query in ("limit=-1", "offset=x", "limit=99999999999999999999"):
        assert local.client.get(f"/api/v1/sessions?{query}").status_code == 422
